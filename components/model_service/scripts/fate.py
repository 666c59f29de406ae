"""Runs a model server and ends it with the first of its model processes: `python3 -I fate.py PROVEN COMMAND...`.

Triton's python backend computes in processes of its own. When one dies, the server waits a second for an answer from the dead, answers 500,
and starts no other; on all its health pages it is well. Ended with it, the server refuses connections at once: callers' proxies ask another
replica for what it has not seen, and the kubelet starts it again. Runs as the container's first process, on the standard library; it passes
signals on and ends as the server did. Model processes are watched from when there is PROVEN, a file that the startup probe leaves when it
has succeeded: until then nobody asks but the probe, which says what is wrong. The trap: nothing here may be worse than no such script, so
where the kernel or the interpreter offers no descriptor of a process (Linux 5.3, Python 3.9), the server simply takes its place.
"""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

MODEL_PROCESS = "triton_python_backend_stub"[:15]
"""As the kernel keeps a program's name: also of one that has ended and that nobody has asked after."""
LOOK_MS = 500
"""Between two looks at a server that has not proven itself yet."""
ENDED, NO_SERVER = 1, 127


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def of_process(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text(errors="replace")
    except OSError:
        return ""


def model_processes(server: int) -> "dict[int, str]":
    """Which of the server's children run a model, or did, and the file of each one's model as far as it can still be read."""
    found: dict[int, str] = {}
    for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        before, _, after = of_process(pid, "stat").rpartition(")")
        if before.partition("(")[2] == MODEL_PROCESS and int(after.split()[1]) == server:
            _, model, *_ = [*of_process(pid, "cmdline").split("\0"), "", ""]
            found[pid] = model
    return found


class Watch:
    """Descriptors of processes: `ended` answers once for each that has ended."""

    def __init__(self) -> None:
        self.poll = select.poll()
        self.pids: dict[int, int] = {}

    def add(self, pid: int) -> bool:
        """False for one that is gone already."""
        if pid in self.pids.values():
            return True
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        self.pids[descriptor] = pid
        self.poll.register(descriptor, select.POLLIN)
        return True

    def ended(self, milliseconds: "int | None") -> "list[int]":
        found = [descriptor for descriptor, _ in self.poll.poll(milliseconds)]
        for descriptor in found:
            self.poll.unregister(descriptor)
            os.close(descriptor)
        return [self.pids.pop(descriptor) for descriptor in found]


def run(proven: Path, command: "list[str]") -> int:
    """The exit status of the server (128 + number for a signal), or ENDED where it was ended with a model process."""
    try:
        server = subprocess.Popen(command)
    except OSError as error:
        say(f"{command[0]}: {error.strerror}")
        return NO_SERVER
    stopping = False

    def stop(number: int, _frame: Any) -> None:
        nonlocal stopping
        stopping = True
        server.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    watch = Watch()
    watch.add(server.pid)
    models: dict[int, str] = {}
    dead: list[int] = []
    watching = False
    while True:
        ended = watch.ended(None if watching else LOOK_MS)
        if server.pid in ended or server.poll() is not None:
            code = server.wait()
            return code if code >= 0 else 128 - code
        dead.extend(ended)
        if not watching:
            watching = proven.exists()
            models = {**model_processes(server.pid), **models}
            dead.extend(pid for pid in models if pid not in dead and not watch.add(pid))
        if watching and dead and not stopping:
            names = ", ".join(f"{pid} ({models[pid]})" for pid in sorted(dead))
            say(f"model process {names} has ended, and the server with it: it would answer 500 from now on")
            server.kill()
            server.wait()
            return ENDED


def offered() -> bool:
    """Whether processes can be watched here."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def main(proven: Path, command: "list[str]") -> int:
    proven.unlink(missing_ok=True)  # of a server that ran before in this pod
    if not offered():
        say("processes cannot be watched here: a dead model process is found by the probes alone")
        os.execvp(command[0], command)  # noqa: S606
    return run(proven, command)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
