"""Who drives a release: a name that tells runners apart, also two on one machine, and whether one on this machine is
dead."""

import getpass
import os
import socket
from pathlib import Path

_START_TIME = 19
"""Index of `starttime` among the fields of /proc/<pid>/stat that follow the command's name (proc(5), field 22)."""


def actor() -> str:
    """Who acts, for the audit trail: what CI says of itself, else the user of this machine."""
    return os.environ.get("GITHUB_ACTOR") or os.environ.get("GITLAB_USER_LOGIN") or f"{getpass.getuser()}@{socket.gethostname()}"


def here(pid: int | None = None) -> str:
    """`user@host/pid/start`: a pid alone is used again after a while."""
    number = os.getpid() if pid is None else pid
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}/{number}/{_started(number) or 0}"


def gone(holder: str) -> bool:
    """Whether the runner was on this machine and is no more. A runner elsewhere is believed to live until its lease
    runs out."""
    who, _, rest = holder.partition("/")
    pid, _, start = rest.partition("/")
    if who.rpartition("@")[2] != socket.gethostname() or not pid.isdigit():
        return False
    return str(_started(int(pid)) or 0) != start


def _started(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return int(fields[_START_TIME]) if fields[0] != "Z" else None
