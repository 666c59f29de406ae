"""A file lock that one command at a time can hold, and that the kernel releases when its holder dies. Built on
`filelock`."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from os import getpid
from pathlib import Path
from threading import Event

from headway.problem import Exit, UserError

_POLL_SECONDS = 0.1


@contextmanager
def exclusive(path: Path, *, what: str, waiting: Callable[[str], None], timeout: float, cancel: Event | None = None) -> Generator[None]:
    """Hold the lock at `path` for the block. `waiting` is told who holds it; after `timeout` seconds UserError (BUSY)
    is raised.

    Threads of one process exclude each other too. A set `cancel` ends the wait with UserError (INTERRUPTED). The
    holder's pid is written into the file for that message only.
    """
    from filelock import FileLock, Timeout

    said = ""

    def wait() -> bool:
        """Called while somebody else holds the lock; answers whether to stop waiting."""
        nonlocal said
        text = f"waiting for process {_holder(path)}, which {what}"
        if timeout > 0 and text != said:
            waiting(text)
        said = text
        return cancel is not None and cancel.is_set()

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, mode=0o600, thread_local=False, fallback_to_soft=False)  # a soft lock would outlive its holder
    try:
        lock.acquire(timeout=timeout, poll_interval=_POLL_SECONDS, cancel_check=wait)
    except Timeout:
        if cancel is not None and cancel.is_set():
            raise interrupted(said) from None
        holder = _holder(path)
        raise UserError(
            f"Process {holder} still {what}.",
            "Two at once would undo each other's work, so this command has stopped waiting.",
            f"Wait for it to end, or end it (kill {holder}) and run the command again.",
            Exit.BUSY,
        ) from None
    try:
        path.write_text(str(getpid()))
        yield
    finally:
        lock.release()


def _holder(path: Path) -> str:
    pid = path.read_text() if path.exists() else ""
    return pid or "another process"


def interrupted(doing: str) -> UserError:
    return UserError(f"Interrupted while {doing}.", "What was complete is kept.", "Run the command again to go on.", Exit.INTERRUPTED)
