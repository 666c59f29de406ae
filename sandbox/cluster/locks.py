"""One file lock: held by one process at a time, released by the kernel when its holder dies."""

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic

from headway.problem import Exit, UserError

_POLL_SECONDS = 0.1


@contextmanager
def exclusive(path: Path, *, what: str, waiting: Callable[[str], None], patience: float, cancel: Event | None = None) -> Generator[None]:
    """Hold the lock at `path` for the block. `waiting` is told who holds it; after `patience` seconds UserError (BUSY) is raised.

    Threads of one process exclude each other too. A set `cancel` ends the wait with UserError (INTERRUPTED). The holder's pid is written
    into the file for that message only; the lock itself is the kernel's, so a dead holder never blocks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(descriptor, what, waiting, monotonic() + patience, cancel or Event())
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, what: str, waiting: Callable[[str], None], deadline: float, cancel: Event) -> None:
    said = ""
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
        text = f"waiting for process {holder}, which {what}"
        if text != said:
            waiting(said := text)
        if cancel.wait(_POLL_SECONDS):
            raise interrupted(text)


def interrupted(doing: str) -> UserError:
    return UserError(f"interrupted while {doing}", "what was complete is kept", "run the command again to go on", Exit.INTERRUPTED)
