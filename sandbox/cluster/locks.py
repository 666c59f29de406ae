"""One file lock: held by one process at a time, released by the kernel when its holder dies."""

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from headway.errors import Exit, UserError

_POLL_SECONDS = 0.1


@contextmanager
def exclusive(path: Path, *, what: str, waiting: Callable[[str], None], patience: float) -> Generator[None]:
    """Hold the lock at `path` for the block. `waiting` is told who holds it; after `patience` seconds UserError (BUSY) is raised.

    The holder's pid is written into the file for that message only; the lock itself is the kernel's, so a dead holder never blocks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(descriptor, what, waiting, monotonic() + patience)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, what: str, waiting: Callable[[str], None], deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode() or "another process"
        if monotonic() > deadline:
            raise UserError(
                f"process {holder} still {what}",
                "two at once would undo each other's work, so this command has stopped waiting",
                f"wait for it to end, or end it (kill {holder}) and run the command again",
                Exit.BUSY,
            )
        waiting(f"waiting for process {holder}, which {what}")
        sleep(_POLL_SECONDS)
