"""Keeps the sandbox's servers: starts them so that they outlive the command, knows them again, repairs and stops them.

Each process is started by a shell that writes the kernel's line about itself (`/proc/self/stat`: pid and start time)
and only then becomes the program. So there is no moment at which a killed command leaves a server that the next one
does not know, and a pid that has been recycled is never taken for ours. Records lie in `<state>/cluster/processes/`:
`<name>.json` what was started, `<name>.stat` as whom.

A record that matches proves that the process is ours and alive, not that it works. `ensure` therefore probes it as
well, and starts a process anew when its command, environment or configuration files are no longer what the
specification says.
"""

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from random import Random, SystemRandom
from time import monotonic, sleep

from headway.problem import UserError
from sandbox.cluster import linux, ports
from sandbox.cluster.disk import telling_when_full
from sandbox.cluster.locks import exclusive
from sandbox.cluster.process_records import ProcessRecord, ProcessRecords, text_of
from sandbox.layout import Layout
from sandbox.progress import Progress

_POLL_SECONDS = 0.05
_KEPT_LOGS = 3
_TAIL_LINES = 5
_LOCK_SECONDS = 300.0
_PORT_GRACE_SECONDS = 2.0
"""A process that was killed looks dead a moment before its last thread lets go of its sockets."""

_MORE_FILE_WATCHES = (
    "Run `sudo sysctl fs.inotify.max_user_instances=1024`, or stop what takes them (`headway sandbox down` in other checkouts, editors); then run "
    "the command again"
)

# The subshell is reparented when its shell ends: no zombie, no terminal, and `self` is the process that becomes the program.
_LAUNCH = '( IFS= read -r stat </proc/self/stat && printf "%s\\n" "$stat" >"$0" && exec "$@" ) &'


@dataclass(frozen=True, kw_only=True)
class Process:
    """A server to keep. `argv[0]` is an absolute path; secrets belong into files, never into `argv`."""

    name: str
    argv: tuple[str, ...]
    ready: Callable[[], str | None]
    """None once it serves; until then what is missing, in a few words. Must answer within a second or two."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Besides PATH and HOME, which every process gets; nothing else is inherited."""
    ports: tuple[int, ...] = ()
    """On which it listens on 127.0.0.1; checked to be free before it is started."""
    inputs: tuple[Path, ...] = ()
    """Files that it reads at its start: a change of one restarts it."""
    file_watches: int = 0
    """Inotify instances that it takes. Where the user has none left, Envoy aborts without a word, and others do not see
    their files change."""
    prepare: Callable[[], None] = lambda: None
    """Done right before each launch, when no process of this name runs."""
    start_seconds: float = 60.0
    stop_seconds: float = 10.0
    """How long it may take after SIGTERM before SIGKILL."""


@dataclass(frozen=True, kw_only=True)
class ProcessStatus:
    name: str
    pid: int | None
    running: bool
    ports: tuple[int, ...]
    memory_bytes: int
    """Proportional share of resident memory; 0 when it does not run."""
    since: datetime | None
    """Start of the process that runs."""
    log: Path


class Supervisor:
    """The processes of one sandbox. Safe to use from several threads and commands at once: each name has a lock."""

    def __init__(self, layout: Layout, *, random: Random | None = None) -> None:
        self._layout = layout
        self._folder = layout.cluster / "processes"
        self._records = ProcessRecords(self._folder)
        self._ports_file = layout.cluster / "ports.json"
        self._random = random or SystemRandom()

    def lock(self, name: str, progress: Progress) -> AbstractContextManager[None]:
        """Nobody else works on `name` meanwhile: no other command, no other thread. Waits for its holder, and says for
        whom. Not re-entrant."""
        return exclusive(
            self._folder / f"{name}.lock",
            what=f"starts or stops {name}",
            waiting=lambda text: progress.step(name, text),
            timeout=_LOCK_SECONDS,
        )

    def port(self, name: str) -> int:
        """The port called `name`: chosen at the first call, the same ever after."""
        known = ports.read(self._ports_file)
        if name not in known:
            with exclusive(self._folder / "ports.lock", what="chooses ports", waiting=lambda _: None, timeout=_LOCK_SECONDS):
                known = ports.read(self._ports_file)
                if name not in known:
                    known[name] = ports.choose(known.values(), linux.is_free, self._random)
                    ports.write(self._ports_file, known)
        return known[name]

    def ensure(self, spec: Process, progress: Progress) -> bool:
        """Have `spec` run and ready; True when it had to be started. UserError when it cannot be."""
        return bool(self.ensure_all((spec,), progress))

    def ensure_all(self, specs: Sequence[Process], progress: Progress) -> tuple[str, ...]:
        """Have all of `specs` run and ready, started side by side; the names of those that had to be started."""
        if not linux.supported():
            raise UserError(
                "The sandbox needs Linux's /proc to manage its processes, and this system has none.",
                "Nothing was started.",
                "Run it on Linux; a container or a virtual machine is enough.",
            )
        with telling_when_full("starting the sandbox's processes"), ExitStack() as locks:
            for name in sorted(spec.name for spec in specs):
                locks.enter_context(self.lock(name, progress))
            started = [spec for spec in specs if not self._runs_as_specified(spec, progress)]
            _check_file_watches(started)
            for spec in started:
                self._launch(spec, progress)
            for spec in specs:
                if spec in started or spec.ready() is not None:
                    self._await_ready(spec, progress, fresh=spec in started)
            return tuple(spec.name for spec in started)

    def stop(self, name: str, progress: Progress) -> bool:
        """End `name` and what it started; True when it ran. UserError when even SIGKILL does not end it."""
        with self.lock(name, progress):
            return self._stop(name, progress)

    def stop_all(self, progress: Progress) -> tuple[str, ...]:
        """End every process that has a record, the youngest first; the names of those that ran."""
        records = sorted(self._records.all(), key=lambda record: record.since, reverse=True)
        return tuple(record.name for record in records if self.stop(record.name, progress))

    def list(self) -> tuple[ProcessStatus, ...]:
        """Every process that has a record, by name."""
        return tuple(self._status(record) for record in self._records.all())

    def runs(self, name: str) -> bool:
        return any(each.name == name and each.running for each in self.list())

    def log(self, name: str) -> Path:
        return self._layout.logs / f"{name}.log"

    # -- starting

    def _runs_as_specified(self, spec: Process, progress: Progress) -> bool:
        record = self._records.read(spec.name)
        if record is None:
            return False
        self._records.await_launch(record)
        if self._records.running(record) is None:
            return False
        if record.fingerprint == _fingerprint(spec):
            return True
        progress.step(spec.name, "stopping it, because its configuration has changed")
        self._stop(spec.name, progress)
        return False

    def _launch(self, spec: Process, progress: Progress) -> None:
        self._check_ports(spec)
        progress.step(spec.name, "starting")
        spec.prepare()
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self.log(spec.name)
        rotate(log)
        stat_file = self._records.stat_file(spec.name)
        stat_file.unlink(missing_ok=True)
        record = ProcessRecord(
            name=spec.name,
            executable=spec.argv[0],
            fingerprint=_fingerprint(spec),
            boot=linux.boot_id(),
            ports=spec.ports,
            since=datetime.now(UTC).isoformat(),
            stop_seconds=spec.stop_seconds,
        )
        self._records.write(record)
        environment = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ} | dict(spec.environment)
        with log.open("ab") as sink:
            subprocess.run(
                ["/bin/sh", "-c", _LAUNCH, str(stat_file), *spec.argv],
                cwd=self._layout.cluster,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,
                check=True,
            )
        deadline = monotonic() + 10.0
        while not text_of(stat_file):
            if monotonic() > deadline:
                raise self._failure(spec, f"{spec.name} could not be started")
            sleep(0.002)

    def _check_ports(self, spec: Process) -> None:
        for port in spec.ports:
            deadline = monotonic() + _PORT_GRACE_SECONDS
            while not linux.is_free(port):
                if monotonic() > deadline:
                    holder = linux.listener(port) or "a process that this user may not see"
                    raise UserError(
                        f"Port 127.0.0.1:{port} of {spec.name} is taken by {holder}.",
                        f"{spec.name} cannot be started; what runs was left as it is.",
                        f"Stop that process, or delete {self._ports_file} so that new ports are chosen (the sandbox's addresses change).",
                    )
                sleep(_POLL_SECONDS)

    def _await_ready(self, spec: Process, progress: Progress, *, fresh: bool) -> None:
        deadline = monotonic() + spec.start_seconds
        shown = ""
        while (missing := spec.ready()) is not None:
            record = self._records.read(spec.name)
            if record is None or self._records.running(record) is None:
                if fresh:
                    raise self._failure(spec, f"{spec.name} ended while it was starting")
                progress.step(spec.name, "starting it again, because it has just ended")
                self._launch(spec, progress)
                return self._await_ready(spec, progress, fresh=True)
            if monotonic() > deadline:
                if fresh:
                    raise self._failure(spec, f"{spec.name} is not ready after {spec.start_seconds:.0f} s: {missing}")
                progress.step(spec.name, f"starting it again, because it runs and does not answer ({missing})")
                self._stop(spec.name, progress)
                self._launch(spec, progress)
                return self._await_ready(spec, progress, fresh=True)
            if missing != shown:
                progress.step(spec.name, shown := missing)
            sleep(_POLL_SECONDS)
        progress.done(spec.name, "ready")
        return None

    def _failure(self, spec: Process, fact: str) -> UserError:
        lines = [line for line in text_of(self.log(spec.name)).splitlines() if line.strip()]
        # A Go program that gives up says why, and then prints where it was: the why is wanted.
        said = list(takewhile(lambda line: not line.startswith("goroutine "), lines))[-_TAIL_LINES:]
        if any("inotify" in line for line in lines):
            remedy = _MORE_FILE_WATCHES
        elif any("no space left on device" in line for line in said):
            remedy = f"free some space under {self._layout.state} and run the command again"
        elif any("address already in use" in line for line in said):
            remedy = "another process took the port at the same moment: run the command again"
        elif not said:
            remedy = "a program that logs nothing was probably killed, by somebody or for lack of memory: run the command again"
        else:
            remedy = f"read {self.log(spec.name)}; `headway sandbox reset` starts from nothing"
        return UserError(fact, "the last lines of its log: " + (" | ".join(said) or "none"), remedy)

    # -- stopping

    def _stop(self, name: str, progress: Progress) -> bool:
        record = self._records.read(name)
        if record is None:
            return False
        self._records.await_launch(record)
        process = self._records.running(record)
        if process is not None:
            progress.step(name, "stopping")
            _signal_group(process, signal.SIGTERM)
            if not self._gone(record, record.stop_seconds):
                progress.step(name, f"killing it, because it has not stopped within {record.stop_seconds:.0f} s")
                _signal_group(process, signal.SIGKILL)
                if not self._gone(record, 10.0):
                    raise UserError(
                        f"Process {process.pid} ({name}) does not end, even when killed.",
                        "It waits in the kernel, usually for a disk that does not answer; its record is kept.",
                        "Look at the machine's disk, then run the command again.",
                    )
            _signal_group(process, signal.SIGKILL)  # children that it may have left
        self._records.forget(name)
        if process is not None:
            progress.done(name, "stopped")
        return process is not None

    def _gone(self, record: ProcessRecord, seconds: float) -> bool:
        deadline = monotonic() + seconds
        while self._records.running(record) is not None:
            if monotonic() > deadline:
                return False
            sleep(_POLL_SECONDS / 5)
        return True

    def _status(self, record: ProcessRecord) -> ProcessStatus:
        process = self._records.running(record)
        return ProcessStatus(
            name=record.name,
            pid=process.pid if process else None,
            running=process is not None,
            ports=record.ports,
            memory_bytes=linux.memory_bytes(process.pid) if process else 0,
            since=datetime.fromisoformat(record.since) if process else None,
            log=self.log(record.name),
        )


def _check_file_watches(specs: Sequence[Process]) -> None:
    wanted = sum(spec.file_watches for spec in specs)
    if wanted and (left := linux.file_watches(wanted)) < wanted:
        raise UserError(
            f"{left} of this user's {linux.file_watches_limit()} inotify instances are left, and {wanted} are needed to start "
            + ", ".join(sorted(spec.name for spec in specs if spec.file_watches)),
            "Without them servers abort, or do not notice changes of their files; none of them was started.",
            _MORE_FILE_WATCHES,
        )


def rotate(log: Path) -> None:
    """Make room for a new `log`; the last few stay as `log.1`, `log.2`, ..."""
    log.parent.mkdir(parents=True, exist_ok=True)
    for number in range(_KEPT_LOGS - 1, -1, -1):
        older = log if number == 0 else log.with_name(f"{log.name}.{number}")
        if older.exists():
            older.replace(log.with_name(f"{log.name}.{number + 1}"))


def _fingerprint(spec: Process) -> str:
    digest = hashlib.sha256(json.dumps([spec.argv, sorted(spec.environment.items())]).encode())
    for path in spec.inputs:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _signal_group(process: linux.Stat, number: signal.Signals) -> None:
    """Signal the process and its children: the group is the launching shell's, of which they are the only members."""
    try:
        os.killpg(process.group, number)
    except ProcessLookupError:
        return
