"""Who may change a stack: one operation at a time, told by a kernel lock that dies with its holder; and how to ask that holder to stop.

`STACK.json.lock` is held by `flock` and says who holds it. The kernel releases it when the process ends, however it ends, so a dead
holder's lock is simply free. The file stays when the lock is released: deleting it would let two processes lock two different files.

To stop the holder, `request_cancel` leaves its token in `STACK.json.cancel`; the holder looks there twice a second. Unlike a signal this
reaches an operation inside a program that runs several, and can never hit a process that was given a dead holder's pid.
"""

import contextlib
import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pulumi_embedded.engine.errors import EngineError

POLL_SECONDS: Final = 0.5
ATTEMPTS: Final = 5
ATTEMPT_SECONDS: Final = 0.05


@dataclass(frozen=True)
class Holder:
    pid: int
    host: str
    user: str
    time: str
    operation: str
    token: str

    def __str__(self) -> str:
        return f"{self.operation} by {self.user}@{self.host} (pid {self.pid}) since {self.time}"


class LockedError(EngineError):
    """Another operation holds the stack."""

    def __init__(self, stack: str, holder: Holder | None) -> None:
        who = str(holder) if holder else "an operation that is just starting"
        wait = "Wait for it to end, or stop it with `pulumi cancel`"
        kill = (
            f"; if that does not help, `kill {holder.pid}` on {holder.host} is safe: the state is consistent at every step"
            if holder
            else ""
        )
        super().__init__(f"the stack is currently locked by 1 lock(s): {stack}: {who}. {wait}{kill}")
        self.holder = holder


@contextlib.contextmanager
def held(path: Path, stack: str, operation: str, cancel: Callable[[], None]) -> Generator[Holder]:
    """Hold the lock of the state file at `path`; raises LockedError at once if it is taken. `cancel` is called, from another thread, when
    someone asks this holder to stop."""
    descriptor = _open(path)
    try:
        _take(descriptor, stack)
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        me = Holder(os.getpid(), socket.gethostname(), _user(), now, operation, uuid.uuid4().hex)
        _write(descriptor, json.dumps(me.__dict__).encode())
        ended = threading.Event()
        watcher = threading.Thread(target=_watch, args=(path, me.token, cancel, ended), daemon=True, name="cancel-requests")
        watcher.start()
        try:
            yield me
        finally:
            ended.set()
            _write(descriptor, b"")
    finally:
        os.close(descriptor)


def holder_of(path: Path) -> Holder | None:
    """Who holds the lock now; None if nobody does."""
    if not lock_of(path).exists():
        return None
    descriptor = _open(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _holder(descriptor) or Holder(0, "", "", "", "an operation that is just starting", "")
        return None
    finally:
        os.close(descriptor)


def request_cancel(path: Path, holder: Holder, *, seconds: float, waiting: Callable[[float], None]) -> bool:
    """Ask `holder` to stop and wait until it has let go, at most `seconds`; True if it has. `waiting` is told the seconds waited so far."""
    request = cancel_of(path)
    request.write_text(holder.token, encoding="utf-8")
    start = time.monotonic()
    while (waited := time.monotonic() - start) < seconds:
        now = holder_of(path)
        if now is None or now.token != holder.token:
            request.unlink(missing_ok=True)
            return True
        waiting(waited)
        time.sleep(0.1)
    return False


def lock_of(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def cancel_of(path: Path) -> Path:
    return path.with_name(path.name + ".cancel")


def _take(descriptor: int, stack: str) -> None:
    for attempt in range(ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = _holder(descriptor)
            # Nameless: someone who only asks who holds it (`holder_of`), or a holder about to write its name.
            if holder is not None or attempt == ATTEMPTS - 1:
                raise LockedError(stack, holder) from None
            time.sleep(ATTEMPT_SECONDS)


def _watch(path: Path, token: str, cancel: Callable[[], None], ended: threading.Event) -> None:
    request = cancel_of(path)
    while not ended.wait(POLL_SECONDS):
        with contextlib.suppress(OSError):
            if request.read_text(encoding="utf-8") == token:
                request.unlink(missing_ok=True)
                cancel()
                return


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(lock_of(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise EngineError(f"cannot lock {lock_of(path)}: {error.strerror}") from None


def _holder(descriptor: int) -> Holder | None:
    try:
        fields: dict[str, Any] = json.loads(os.pread(descriptor, 4096, 0))
        return Holder(**fields)
    except (ValueError, TypeError):
        return None


def _write(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(OSError):  # a full disk costs the name of the holder, not the lock
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, data, 0)


def _user() -> str:
    return os.environ.get("USER") or f"uid {os.getuid()}"
