"""Stands between the node agent and one container's process, so that nothing is ever left behind.

`python3 -I -S container_shim.py PARENT PREFIX COMMAND...`, in a session of its own. It adopts what the process starts
(Triton's model processes outlive a killed server and ignore SIGTERM), ends all of it when the process ends or the agent
dies, removes the files `PREFIX*` from /dev/shm, and exits as the process did (128 + number for a signal). SIGTERM is
passed on. A parent-death signal is sent when the THREAD that started the shim ends; the agent starts all of them from
its main thread.
"""

import contextlib
import ctypes
import os
import signal
import sys
from types import FrameType

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _children() -> "list[int]":
    with open(f"/proc/self/task/{os.getpid()}/children") as listing:  # noqa: PTH123  (no pathlib: this process should stay small)
        return [int(pid) for pid in listing.read().split()]


def _end_all() -> None:
    """Kill and reap everything that was started, and what that has left to us in turn."""
    while True:
        for pid in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _sweep(prefix: str) -> None:
    for name in os.listdir("/dev/shm"):  # noqa: PTH208, S108
        if name.startswith(prefix):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"/dev/shm/{name}")  # noqa: PTH108, S108


def main(parent: int, prefix: str, command: "list[str]") -> int:
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    child = 0

    def passed_on(number: int, _frame: "FrameType | None") -> None:
        orphaned = os.getppid() != parent
        if child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL if orphaned else number)

    signal.signal(signal.SIGTERM, passed_on)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        try:
            os.execv(command[0], command)  # noqa: S606
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
            os._exit(127)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os.kill(child, signal.SIGKILL)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            break
    child = 0
    _end_all()
    _sweep(prefix)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
