"""Durable writing: a file of appended lines whose threads share one sync, and a file that is replaced in one step.

The trap: a sync that failed says nothing about what is on the disk, so after one the journal takes no more lines.
"""

import contextlib
import errno
import os
import threading
from pathlib import Path
from typing import NoReturn

from pulumi_embedded.engine.errors import EngineError


class OperationJournal:
    """Lines of one file. `append` is called by one thread at a time, `wait` by any number."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._disk = threading.Lock()
        self._appended = self._synced = 0
        self._broken: OSError | None = None

    def append(self, line: str) -> int:
        """Write one line and answer the turn to wait for. A line that does not fit leaves no trace, and raises EngineError."""
        try:
            if self._broken is not None:
                raise self._broken
            if self._descriptor is None:
                self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            length = os.fstat(self._descriptor).st_size
            data = memoryview(line.encode() + b"\n")
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError:
                os.ftruncate(self._descriptor, length)
                raise
        except OSError as error:
            self._refuse(error)
        self._appended += 1
        return self._appended

    def wait(self, turn: int) -> None:
        """Return when the line of that turn is on the disk; one call syncs for everyone who waits."""
        with self._disk:
            if self._descriptor is None or self._synced >= turn:
                return
            appended = self._appended
            try:
                _sync(self._descriptor)
            except OSError as error:
                self._broken = error
                self._refuse(error)
            self._synced = appended

    def remove(self) -> None:
        """Everything in it has found its place elsewhere."""
        self.close()
        self.path.unlink(missing_ok=True)
        self._appended = self._synced = 0

    def close(self) -> None:
        with self._disk:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _refuse(self, error: OSError) -> NoReturn:
        raise EngineError(
            f"cannot write the journal {self.path}: {reason(error)}. The operation stops here; what was recorded so far is safe and "
            "the next run goes on from it. Make room, then run the command again"
        ) from None


def replace_file(path: Path, document: bytes) -> None:
    """Put `document` at `path` in one step, and keep what was there as `.bak`. Raises OSError; `path` is then what it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            file.write(document)
            file.flush()
            os.fsync(file.fileno())
        backup = path.with_name(path.name + ".bak")
        with contextlib.suppress(OSError):  # a file system without hard links has no backup, and works
            backup.unlink(missing_ok=True)
            os.link(path, backup)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make renames and removals in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def reason(error: OSError) -> str:
    """Why a write failed, in words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    return error.strerror or type(error).__name__


def _sync(descriptor: int) -> None:
    (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(descriptor)
