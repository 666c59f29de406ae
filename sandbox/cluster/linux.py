"""What the kernel says about processes and ports, read from /proc.

Owns the identity of a process: a pid alone is recycled, so it is told by the boot, the pid and the moment it started in clock ticks since
that boot. Neither a reboot nor a changed clock can confuse it. Other systems have no /proc; `supported` says so before anything starts.
"""

import contextlib
import ctypes
import os
import socket
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_LISTEN = "0A"


def supported() -> bool:
    return (_PROC / "self" / "stat").exists()


@dataclass(frozen=True)
class Stat:
    """The fields of /proc/<pid>/stat that matter here. `started` is in clock ticks since boot."""

    pid: int
    state: str
    group: int
    started: int


def parse_stat(line: str) -> Stat:
    """The command's name stands in brackets and may hold anything, brackets too: fields are counted from the last one."""
    pid, _, rest = line.partition(" ")
    fields = rest.rpartition(")")[2].split()
    return Stat(int(pid), fields[0], int(fields[2]), int(fields[19]))


def stat(pid: int) -> Stat | None:
    """None when there is no such process. A zombie has ended, whatever its parent does: it counts as none."""
    try:
        found = parse_stat((_PROC / str(pid) / "stat").read_text())
    except (OSError, ValueError, IndexError):
        return None
    return None if found.state in "ZX" else found


def boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def memory_bytes(pid: int) -> int:
    """Proportional set size: pages shared with other processes are divided among them, so that a sum over processes is true."""
    for name, field in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
        with contextlib.suppress(OSError):
            for line in (_PROC / str(pid) / name).read_text().splitlines():
                if line.startswith(field):
                    return int(line.split()[1]) * 1024
    return 0


def file_watches(most: int) -> int:
    """How many inotify instances this user can still have, counted up to `most`: each is opened once. `file_watches_limit` is of all of them."""
    open_one = ctypes.CDLL(None).inotify_init1
    opened: list[int] = []
    try:
        while len(opened) < most and (descriptor := open_one(os.O_CLOEXEC)) >= 0:
            opened.append(descriptor)
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return len(opened)


def file_watches_limit() -> str:
    return (_PROC / "sys/fs/inotify/max_user_instances").read_text().strip()


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a connection in TIME_WAIT is no obstacle
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def listener(port: int) -> str | None:
    """`pid 4711 (python3)` for who listens on the port, as far as this user may see; None when that is not far enough."""
    inodes = _listening_inodes(port)
    if not inodes:
        return None
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                for descriptor in (entry / "fd").iterdir():
                    if descriptor.readlink().name in inodes:
                        return f"pid {entry.name} ({(entry / 'comm').read_text().strip()})"
    return None


def _listening_inodes(port: int) -> set[str]:
    found: set[str] = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(f"socket:[{fields[9]}]")
    return found
