"""The sandbox as a whole: bring it up, take it down, forget it. The shell around toolchain, servers and stacks.

One session at a time for a state folder: `up`, `down` and `reset` hold its lock. The engine runs in this process; the
servers outlive it.
"""

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

from headway.environment.stacks import StackRunner
from headway.private_folder import private_folder
from headway.problem import Exit, UserError
from pulumi_embedded.engine.command import EmbeddedPulumi
from sandbox import deploy, node_health, plan, receipts
from sandbox.cluster.control_plane import SandboxCluster
from sandbox.cluster.toolchain import ensure_toolchain, is_built
from sandbox.deploy import LayerResult
from sandbox.extras import Extra, ran_before
from sandbox.layout import HOME_VARIABLE, Layout
from sandbox.progress import Progress

Told = Callable[[LayerResult], None]


@dataclass(frozen=True, kw_only=True)
class Report:
    """How `up` ended: the layers in order, and whether all were reached and well."""

    layers: tuple[LayerResult, ...]
    complete: bool
    left_behind: Mapping[str, int] = field(default_factory=dict)
    """Resources of stacks that have no file any more, by stack: they still run."""

    @property
    def changed(self) -> bool:
        return any(r.changed for r in self.layers)


class Session:
    """Work on the sandbox of one layout."""

    def __init__(self, layout: Layout, progress: Progress) -> None:
        from sandbox.cloud.registry import providers

        self._layout, self._progress = layout, progress
        self._groups = plan.layers(layout.project)
        # `up` of the sandbox goes on where it was killed; `pulumi up` and releases meet what they would meet in AWS.
        self._engine = EmbeddedPulumi(providers(layout, takes_over=True))
        self._runner = StackRunner(layout.project, command=self._engine, environment=layout.engine_environment())
        self._cancelled = Event()

    @property
    def stacks(self) -> tuple[str, ...]:
        return tuple(layer.stack for group in self._groups for layer in group)

    @property
    def first(self) -> bool:
        """Whether nothing was ever deployed into this sandbox."""
        folder = self._layout.backend / ".pulumi" / "stacks"
        return not any(folder.glob("*/*.journal")) and all(_untouched(state) for state in folder.glob("*/*.json"))

    def up(self, rehearsed: Told, deployed: Told, extras: Sequence[Extra] = ()) -> Report:
        """The main job. While the control plane is built and started for the first time, every layer is previewed with
        its packs.

        Programs of `extras` are built while the layers are applied; the extras are started once all are. One that ran
        here before is started first: pods that it serves are there already, and the update of one would wait for it.
        """
        first = self.first
        with held(self._layout, "up"):
            prepare(self._layout)
            with ThreadPoolExecutor(max_workers=1) as background:
                serving = background.submit(self._serve)
                for stack in self.stacks:
                    self._runner.initialise(stack)
                plans: tuple[LayerResult, ...] = ()
                if first or not is_built(self._layout):
                    plans = deploy.rehearse(
                        self._groups, self._runner, self._progress, rehearsed, lambda: self._cancelled.is_set() or _failed(serving)
                    )
                    if refused := [r for r in plans if not r.ok]:
                        self._cancelled.set()
                        return Report(layers=tuple(refused), complete=False)
                serving.result()
                more = [tool_set for extra in extras for tool_set in extra.tool_sets]
                built = background.submit(ensure_toolchain, self._layout, self._progress, more, cancel=self._cancelled)
                if again := [extra for extra in extras if not first and ran_before(extra, self._layout)]:
                    built.result()
                    for extra in again:
                        extra.start(self._layout, self._progress)
                results = self._deploy(deployed, plans if first else ())
                if not self._whole(results):
                    self._cancelled.set()
                    return Report(layers=results, complete=False)
                built.result()
            for extra in extras:
                extra.start(self._layout, self._progress)
        return Report(layers=results, complete=True, left_behind=plan.left_behind(self._runner.held(), self.stacks))

    def _whole(self, results: Sequence[LayerResult]) -> bool:
        return len(results) == len(self.stacks) and all(r.ok for r in results)

    def _serve(self) -> None:
        """Build what is missing of the control plane, and start it."""
        ensure_toolchain(self._layout, self._progress, cancel=self._cancelled)
        self.start()

    def _deploy(self, deployed: Told, rehearsed: Sequence[LayerResult]) -> tuple[LayerResult, ...]:
        """Deploy, and leave a receipt once all layers are as the program says."""
        file, today = self._layout.receipt, datetime.now(UTC).date()
        given, recorded = receipts.given(self._layout, today), receipts.recorded(self._layout)
        last = receipts.read(file)
        if last.results and (differences := last.differences(given, recorded)):
            self._progress.done("inputs", f"not as last time: {in_short(differences)}")
        results = deploy.deploy(
            self._groups,
            self._runner,
            self._progress,
            deployed,
            rehearsed=rehearsed,
            receipts=last.holds(given, recorded),
            stopped=self._cancelled.is_set,
        )
        if (
            self._whole(results) and receipts.given(self._layout, today) == given
        ):  # else somebody edited what some plans have seen and others not
            receipts.write(file, receipts.receipt(given, receipts.recorded(self._layout), [r.last for r in results]))
        return results

    def adopting(self, act: Callable[[], object]) -> None:
        """Do `act`, which may put into the release ledger what is served already: a plan stays what it was, and the
        receipt valid."""
        file, today = self._layout.receipt, datetime.now(UTC).date()
        last, given = receipts.read(file), receipts.given(self._layout, today)
        act()
        now = receipts.given(self._layout, today)
        if now != given and last.given == given:
            receipts.write(file, replace(last, given=now))

    def start(self) -> None:
        """Start what is not running: the control plane with the loop of node health, and the object store, side by side."""
        from sandbox.cloud import objectstore

        def plane() -> None:
            SandboxCluster(self._layout).start(self._progress)
            node_health.start(self._layout, self._progress)

        with ThreadPoolExecutor(max_workers=2) as pool:
            waiting = [
                pool.submit(plane),
                pool.submit(objectstore.ensure_running, self._layout, self._progress),
            ]
            for future in waiting:
                future.result()

    def cancel(self) -> None:
        """Ask a running build to stop, and every running operation to stop after the steps in flight. Safe from any
        thread."""
        self._cancelled.set()
        self._engine.cancel()


def down(layout: Layout, progress: Progress) -> Sequence[str]:
    """Stop every process of the sandbox; state stays. Answers the names of those that ran."""
    from sandbox.cluster.processes import Supervisor

    with held(layout, "down"):
        return Supervisor(layout).stop_all(progress)


def reset(layout: Layout, progress: Progress) -> None:
    """Stop everything and forget all state; built programs stay in the cache."""
    down(layout, progress)
    if layout.state.exists():
        shutil.rmtree(layout.state)


def prepare(layout: Layout) -> None:
    """Make the state folder, the passphrase of its stacks and the executable that answers as `pulumi`."""
    from sandbox.cloud.executable import install_executable

    private_folder(layout.state, HOME_VARIABLE)
    layout.backend.mkdir(parents=True, exist_ok=True)
    if not layout.passphrase_file.exists():
        descriptor = os.open(layout.passphrase_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32))
    install_executable(layout)


def _untouched(state: Path) -> bool:
    """Whether a stack holds nothing and nothing was begun in it. A damaged file does: the engine says what is wrong
    with it."""
    try:
        latest = json.loads(state.read_text(encoding="utf-8"))["checkpoint"]["latest"]
        return not latest.get("resources") and not latest.get("pending_operations")
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False


def _failed(work: "Future[None]") -> bool:
    return work.done() and work.exception() is not None


def in_short(names: Sequence[str], most: int = 3) -> str:
    """The first few of `names`, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@contextmanager
def held(layout: Layout, what: str) -> Generator[None]:
    """Hold the sandbox's lock. Raises UserError with the holder's pid when a live process has it; a dead one's lock
    is free."""
    path = private_folder(layout.state, HOME_VARIABLE) / "session.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy(path) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{what} {os.getpid()}".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def busy(lock: Path) -> UserError:
    what, _, pid = lock.read_text(encoding="utf-8").partition(" ")
    return UserError(
        f"Another `headway sandbox {what or 'command'}` is at work on this sandbox (pid {pid or 'unknown'}).",
        "Two at once would undo each other's steps; nothing was done.",
        "Wait for it, or stop it with Ctrl-C in its terminal; then run the command again.",
        Exit.BUSY,
    )
