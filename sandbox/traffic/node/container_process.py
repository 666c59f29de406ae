"""One container's process on this machine: started behind the shim, asked, ended, measured.

Everything a process prints goes to its log; what it was and who it is stands in a record, so that the next agent can
end what a killed one could not. The shim's session holds the server and its model processes; whoever ends one must end
the group.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandbox.cluster import linux

SHIM = Path(__file__).parent / "container_shim.py"
PREFIX = "headway-"
"""Of files in /dev/shm; the pod's key and the start follow."""
_TAIL_BYTES = 2048


class Contained:
    """A running process and all it has started."""

    def __init__(self, process: asyncio.subprocess.Process, record: Path, log: Path) -> None:
        self._process, self._record, self._log = process, record, log
        self.killed_for_memory = False

    @classmethod
    async def start(
        cls, command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path, record: Path, prefix: str
    ) -> "Contained":
        """Start `command` in `folder`. Must be called on the agent's main thread: the shim dies with the thread that
        started it."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as sink:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(SHIM), str(os.getpid()), prefix, *command),
                cwd=folder,
                env=dict(environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sink,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,
            )
        found = linux.stat(process.pid)
        record.write_text(
            json.dumps({"pid": process.pid, "started": found.started if found else 0, "boot": linux.boot_id(), "prefix": prefix})
        )
        return cls(process, record, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait(self) -> int:
        """The exit code once it has ended and nothing of it is left; 128 + number for a signal."""
        code = await self._process.wait()
        _end_group(self._process.pid)
        self._record.unlink(missing_ok=True)
        return code if code >= 0 else 128 - code

    def terminate(self) -> None:
        """Ask it to end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and everything it has started."""
        _end_group(self._process.pid)

    def memory_bytes(self) -> int:
        """Proportional share of resident memory of the server and its model processes, the shim left out."""
        return sum(linux.memory_bytes(pid) for pid in group(self._process.pid) if pid != self._process.pid)

    def cpu_seconds(self) -> float:
        """CPU time since the start. Where a process has ended and its parent has not noticed yet, less than a moment ago."""
        return sum(linux.cpu_seconds(pid) for pid in group(self._process.pid))

    def last_words(self) -> str:
        """The end of its log, as a kubelet would take it for a termination message."""
        return tail(self._log)


def tail(log: Path) -> str:
    """The last lines of a log, at most 2 KiB and ten lines."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return "\n".join(stream.read().decode(errors="replace").splitlines()[-10:])
    except FileNotFoundError:
        return ""


async def run(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> tuple[bool, str]:
    """Run a short command: whether it succeeded in time, and what it said. Used for probes."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError:
        return False, f"no answer within {seconds:.0f} s"
    finally:
        if process.returncode is None:
            _end_group(process.pid)
            await process.wait()
    return process.returncode == 0, said.decode(errors="replace").strip()[-500:]


def group(leader: int) -> list[int]:
    """Processes of the group that `leader` leads."""
    stats = (linux.stat(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return sorted(stat.pid for stat in stats if stat is not None and stat.group == leader)


def sweep(records: Path) -> tuple[str, ...]:
    """End what an agent that was killed has left, and clear its files; the names of the records that were still alive."""
    ended: list[str] = []
    for path in sorted(records.glob("*.json")):
        record = json.loads(path.read_text())
        stat = linux.stat(record["pid"]) if record["boot"] == linux.boot_id() else None
        alive = group(record["pid"]) if stat is None or stat.started == record["started"] else []
        if alive and record["boot"] == linux.boot_id():
            _end_group(record["pid"])
            ended.append(path.stem)
        for left in Path("/dev/shm").glob(f"{record['prefix']}*"):  # noqa: S108
            left.unlink(missing_ok=True)
        path.unlink()
    return tuple(ended)


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
