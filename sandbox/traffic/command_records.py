"""Commands that work on a workspace beside its servers, recorded so that whoever stops the workspace ends them too,
whoever started them.

A command that drives a release outlives a starter that was killed, and goes on without its cluster. A record names the
process by pid and start time, so that a recycled pid is nobody's.
"""

import contextlib
import os
import signal
import time

from sandbox.cluster import linux
from sandbox.layout import Layout

_FOLDER = "commands"
_WAYS = ((signal.SIGTERM, 5.0), (signal.SIGTERM, 15.0), (signal.SIGKILL, 20.0))
_POLL_SECONDS = 0.02


def record(layout: Layout, pid: int) -> None:
    """Remember a process that has been started."""
    found = linux.stat(pid)
    folder = layout.state / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(pid)).write_text(f"{linux.boot_id()} {found.started if found else 0}")


def end_all(layout: Layout) -> None:
    """Ask every recorded process but this one to end, ask again for at once, and kill what does not within 20 s."""
    records = {path: int(path.name) for path in sorted((layout.state / _FOLDER).glob("*")) if path.name != str(os.getpid())}
    alive = {pid for path, pid in records.items() if _is(path.read_text(), pid)}
    for number, seconds in _WAYS:
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while (alive := {pid for pid in alive if linux.stat(pid) is not None}) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    for path in records:
        path.unlink(missing_ok=True)


def _is(recorded: str, pid: int) -> bool:
    found = linux.stat(pid)
    return found is not None and recorded == f"{linux.boot_id()} {found.started}"
