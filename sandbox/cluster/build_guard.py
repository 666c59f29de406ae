"""Runs a command that must not outlive whoever asked for it: `python build_guard.py COMMAND...`, with a pipe as
standard input.

Owns one promise: when the other end of that pipe closes, however the parent died, the command's whole process group is
killed. A build needs this because `go build` leaves its compilers running when it is killed. Run as a plain script, so
that it starts in 20 ms: it imports nothing of ours.
"""

import os
import signal
import subprocess
import sys
import threading
from types import FrameType

NICENESS = 5  # a build in the background leaves the cores to the preview in the foreground


def main(command: list[str]) -> int:
    os.nice(NICENESS)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    def end(_signal: int = 0, _frame: FrameType | None = None) -> None:
        os.killpg(child.pid, signal.SIGKILL)

    def watch() -> None:
        while os.read(0, 1):  # not sys.stdin, whose lock would outlive this thread and crash the exit
            pass
        end()

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=watch, daemon=True).start()
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
