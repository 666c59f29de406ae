"""What the kernel says about processes and ports.

Owns the identity of a process. A pid alone is recycled, so a process is identified by the boot, the pid and the moment
of its start in clock ticks since that boot: neither a reboot nor a changed clock can confuse it. Memory and listeners
are psutil's. The identity is not, because the process writes it itself, as the kernel's line, before it becomes its
program (`processes.py`); psutil tells the start in seconds of the wall clock, which a change of the clock moves. Other
systems have no /proc; `supported` says so before anything starts.
"""

import contextlib
import ctypes
import os
import socket
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


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
    """Proportional set size: pages shared with other processes are divided among them, so that a sum over processes is
    true."""
    import psutil

    try:
        process = psutil.Process(pid)
        try:
            return process.memory_full_info().pss
        except psutil.AccessDenied:  # of another user: what it has resident is no secret
            return process.memory_info().rss
    except psutil.Error:
        return 0


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and of its children that it has waited for; 0 for one that has ended."""
    import psutil

    try:
        return sum(psutil.Process(pid).cpu_times()[:4])
    except psutil.Error:
        return 0.0


def file_watches(most: int) -> int:
    """How many inotify instances this user can still have, counted up to `most`: each is opened once.
    `file_watches_limit` is of all of them."""
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
    import psutil

    for connection in psutil.net_connections("tcp"):
        here = connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
        if here and connection.pid is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                return f"pid {connection.pid} ({psutil.Process(connection.pid).name()})"
    return None
