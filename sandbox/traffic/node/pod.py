"""Runs one pod: its volumes, its init containers, its server with probes and restarts, its end in order.

Says what happened through `view()`; `changed` is called after every change of it. What a kubelet does to a container
that fails its liveness probe is what it does to one that is deleted (preStop, SIGTERM, grace, SIGKILL), so both go
through `_stop`.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from components.model_service.probing import PROVEN
from sandbox.traffic.node import container_process, cpu, cpu_vllm, images
from sandbox.traffic.node.backoff import BackOff, ProbeSpec, Streak
from sandbox.traffic.node.container_metrics import ContainerUsage
from sandbox.traffic.node.container_process import PREFIX, Contained
from sandbox.traffic.node.mounts import Mounts
from sandbox.traffic.node.spec import SIDECAR, ContainerSpec, PodSpec
from sandbox.traffic.node.status import ContainerRunning, ContainerTerminated, ContainerView, ContainerWaiting, pod_status
from sandbox.traffic.pod_addresses import loopback, pod_ip
from sandbox.traffic.programs import Programs

RUNNER = Path(__file__).parent / "runner.py"
OWN_ADDRESS = Path(__file__).parent / "own_address.py"
_PROBE_STATE = "headway"
"""Folder that the probe script keeps in scratch; it belongs to one start of the container."""
_MEMORY_SECONDS = 2.0
_OUT_OF_MEMORY = 137

ConfigMapReader = Callable[[str, str], Awaitable[Mapping[str, str]]]
EventRecorder = Callable[[str, str, str], None]
"""Hears (type, reason, message) of what a kubelet would record as an event."""


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """What every pod of this machine shares."""

    programs: Programs
    backends: Path
    pods: Path
    logs: Path
    records: Path
    environment: Mapping[str, str]
    """Besides what a container asks for: how the object store is reached."""
    config_maps: ConfigMapReader
    address: str = "127.0.0.1"
    first_backoff_seconds: float = 10.0


class ServedPod:
    """One pod from its binding to its end."""

    def __init__(self, spec: PodSpec, node: NodeSettings, changed: Callable[[], None], said: EventRecorder) -> None:
        self.spec, self._node, self._changed, self._said = spec, node, changed, said
        self.ip = pod_ip(spec.uid)
        self._began = _now()
        self._views = {each.name: _first_view(each) for each in (*spec.inits, spec.server)}
        self._folder = node.pods / spec.key
        folders = {name: self._folder / name for name in spec.volumes}
        mounts = {path: folders[volume] for each in (*spec.inits, spec.server) for path, volume in each.mounts.items()}
        self._mounts = Mounts(folders=mounts, address=loopback(self.ip))
        self._volumes = folders
        self._running: Contained | None = None
        self._sidecars: dict[str, Contained] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self.memory_bytes = 0
        """Of the server and its model processes, as last measured."""
        self.cpu_seconds = self.former_cpu_seconds = 0.0
        """Of the same since this start, as last measured, and of earlier starts."""

    # -- what it tells

    @property
    def address(self) -> str:
        """Where its processes listen."""
        return self._mounts.address

    def view(self, before: Any) -> dict[str, Any]:
        """The pod's status; `before` are its conditions so far."""
        return pod_status(
            inits=[self._views[each.name] for each in self.spec.inits],
            containers=[self._views[self.spec.server.name]],
            pod_ip=self.ip,
            node_ip=self._node.address,
            began=self._began,
            now=_now(),
            before=before,
        )

    @property
    def server(self) -> ContainerView:
        return self._views[self.spec.server.name]

    def _show(self, name: str, **changes: Any) -> None:
        self._views[name] = replace(self._views[name], **changes)
        self._changed()

    @property
    def usage(self) -> ContainerUsage | None:
        """What the server uses; None while it does not run."""
        if not self.memory_bytes:
            return None
        return ContainerUsage(
            namespace=self.spec.namespace,
            pod=self.spec.name,
            uid=self.spec.uid,
            container=self.spec.server.name,
            image=self.spec.server.image,
            restarts=self.server.restarts,
            memory_bytes=self.memory_bytes,
            cpu_seconds=self.cpu_seconds,
            former_cpu_seconds=self.former_cpu_seconds,
        )

    # -- its life

    async def run(self) -> None:
        """Serve until `end` is called. NotServedError when this node cannot."""
        needs_runner = await self._fill_volumes()
        for each in self.spec.inits:
            await self._pull(each)
            if each.sidecar:
                self._tasks.append(asyncio.create_task(self._accompany(each)))
            else:
                await self._initialise(each)
        await self._pull(self.spec.server)
        self._place_runners(needs_runner)
        command = self._server_command(needs_runner=bool(needs_runner))
        back_off = BackOff(first=self._node.first_backoff_seconds)
        while not self._stopping:
            ran = await self._serve(command)
            back_off = back_off.after(ran)
            if self._stopping:
                return
            if back_off.seconds:
                await self._wait_out(self.spec.server, back_off)
            self._show(self.spec.server.name, restarts=self.server.restarts + 1)

    async def end(self, grace_seconds: float) -> None:
        """Stop in order within the grace period and forget the pod's files."""
        self._stopping = True
        if self._running is not None:
            self._said("Normal", "Killing", f"Stopping container {self.spec.server.name}")
            await self._stop(self._running, grace_seconds)
        self._end_sidecars()
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self) -> None:
        """End everything at once: the agent itself is ending."""
        self._stopping = True
        if self._running is not None:
            self._running.kill()
        self._end_sidecars()

    def _end_sidecars(self) -> None:
        for task in self._tasks:
            task.cancel()
        for each in self._sidecars.values():
            each.kill()

    @property
    def _prefix(self) -> str:
        return f"{PREFIX}{self.spec.uid[:13]}-"

    # -- volumes

    async def _fill_volumes(self) -> frozenset[str]:
        """Make the volumes; answers the models that need the runner beside their weights."""
        needs: set[str] = set()
        for name, config_map in self.spec.volumes.items():
            folder = self._volumes[name]
            folder.mkdir(parents=True, exist_ok=True)
            for file, text in (await self._node.config_maps(self.spec.namespace, config_map) if config_map else {}).items():
                if file.endswith(".pbtxt"):
                    configured = cpu.configuration(text)
                    text = configured.text  # noqa: PLW2901
                    if configured.needs_runner:
                        needs.add(file.removesuffix(".pbtxt"))
                elif file.endswith(".json"):
                    text = self._mounts.json(text)  # noqa: PLW2901
                (folder / file).write_text(text)
        return frozenset(needs)

    def _place_runners(self, models: frozenset[str]) -> None:
        for folder in self._volumes.values():
            for weights in folder.glob("*/*/model.onnx"):
                if weights.parts[-3] in models:
                    shutil.copyfile(RUNNER, weights.with_name("model.py"))

    # -- containers

    def _environment(self, container: ContainerSpec) -> dict[str, str]:
        programs = self._node.programs
        by_vllm = cpu_vllm.serves(self.spec.server.command)
        return {
            **(cpu_vllm.environment(programs.vllm, self.address, self._prefix, os.defpath) if by_vllm else programs.server_environment()),
            **self._node.environment,
            "HOME": str(self._folder),
            "TMPDIR": str(self._folder),
            **{name: self._mounts.text(value) for name, value in container.environment.items()},
        }

    def _command(self, command: Sequence[str]) -> list[str]:
        program, *rest = command
        own = str(self._node.programs.python) if program == "python3" else program
        return [own, *(self._mounts.text(part) for part in rest)]

    def _server_command(self, *, needs_runner: bool) -> list[str]:
        command, programs = self._command(self.spec.server.command), self._node.programs
        if cpu_vllm.serves(command):
            return cpu_vllm.arguments(command, programs.vllm, self.address, self.spec.gpu_memory_bytes)
        proven = self._mounts.text(PROVEN) if needs_runner else None
        return cpu.arguments(command, programs, self.address, self._node.backends, self._prefix, proven=proven)

    async def _start(self, container: ContainerSpec, command: list[str]) -> Contained:
        log = self._node.logs / self.spec.namespace / self.spec.name / f"{container.name}.log"
        record = self._node.records / f"{self.spec.key}_{container.name}.json"
        prefix = f"{PREFIX}{container.name}-{self.spec.uid[:13]}-" if container.sidecar else self._prefix
        return await Contained.start(command, self._environment(container), self._folder, log, record, prefix)

    async def _pull(self, container: ContainerSpec) -> None:
        """Have the container's image; for ever, with a kubelet's back-off, where no registry has it."""
        why, back_off = images.refused(container.image), BackOff(first=self._node.first_backoff_seconds, ended=1)
        while why and not self._stopping:
            self._said("Normal", "Pulling", f'Pulling image "{container.image}"')
            self._said("Warning", "Failed", f'Failed to pull image "{container.image}": {why}')
            self._show(container.name, state=ContainerWaiting(reason=images.PULL, message=why))
            back_off = back_off.after(0.0)
            message = images.backing_off(container.image)
            self._said("Normal", "BackOff", message)
            self._show(container.name, state=ContainerWaiting(reason=images.BACK_OFF, message=f"{message}: {images.PULL}: {why}"))
            await asyncio.sleep(back_off.seconds)

    async def _initialise(self, container: ContainerSpec) -> None:
        """Run an init container until it succeeds."""
        back_off = BackOff(first=self._node.first_backoff_seconds)
        while not self._stopping:
            began = _now()
            self._running = await self._start(container, self._command(container.command))
            self._show(container.name, state=ContainerRunning(since=began), started=True)
            code = await self._running.wait()
            ended = self._ended(self._running, code, began)
            self._running = None
            if code == 0:
                self._show(container.name, state=ended, ready=True, started=False)
                return
            self._said("Warning", "BackOff", f"init container {container.name} failed: {ended.message}")
            self._show(container.name, state=ended, last=ended, started=False)
            back_off = back_off.after((ended.ended - began).total_seconds())
            if back_off.seconds:
                await self._wait_out(container, back_off)
            self._show(container.name, restarts=self._views[container.name].restarts + 1)

    async def _accompany(self, container: ContainerSpec) -> None:
        """Keep a sidecar running, on the pod's own address, until it is ended."""
        back_off = BackOff(first=self._node.first_backoff_seconds)
        python, *rest = self._command(container.command)
        command = [python, "-I", str(OWN_ADDRESS), self.address, *rest[len(SIDECAR) - 1 :]]
        while not self._stopping:
            began = _now()
            running = self._sidecars[container.name] = await self._start(container, command)
            self._show(container.name, state=ContainerRunning(since=began), started=True, ready=True)
            ended = self._ended(running, await running.wait(), began)
            self._show(container.name, state=ended, last=ended, ready=False)
            self._said("Warning", "BackOff", f"sidecar {container.name} ended: {ended.message}")
            back_off = back_off.after((ended.ended - began).total_seconds())
            await asyncio.sleep(back_off.seconds)
            self._show(container.name, restarts=self._views[container.name].restarts + 1)

    async def _wait_out(self, container: ContainerSpec, back_off: BackOff) -> None:
        message = (
            f"back-off {back_off.seconds:.0f}s restarting failed container={container.name} pod={self.spec.name}_{self.spec.namespace}"
        )
        self._show(container.name, state=ContainerWaiting(reason="CrashLoopBackOff", message=message))
        await asyncio.sleep(back_off.seconds)

    async def _serve(self, command: list[str]) -> float:
        """One life of the server: started, probed, ended. Answers how many seconds it ran."""
        name, began = self.spec.server.name, _now()
        for folder in self._volumes.values():
            shutil.rmtree(folder / _PROBE_STATE, ignore_errors=True)
        running = self._running = await self._start(self.spec.server, command)
        self._show(name, state=ContainerRunning(since=began), started=False, ready=False)
        watching = [asyncio.create_task(self._probe(running)), asyncio.create_task(self._measure(running))]
        try:
            code = await running.wait()
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
        self._running, self.memory_bytes = None, 0
        self.cpu_seconds, self.former_cpu_seconds = 0.0, self.former_cpu_seconds + self.cpu_seconds
        ended = self._ended(running, code, began)
        if not self._stopping:
            self._said("Warning", "BackOff", f"container {name} ended with {code} ({ended.reason})")
        self._show(name, state=ended, last=ended, started=False, ready=False)
        return (ended.ended - began).total_seconds()

    def _ended(self, running: Contained, code: int, began: datetime) -> ContainerTerminated:
        reason = "OOMKilled" if running.killed_for_memory else "Completed" if code == 0 else "Error"
        message = "" if code == 0 else running.last_words()
        code = _OUT_OF_MEMORY if running.killed_for_memory else code
        return ContainerTerminated(reason=reason, exit_code=code, began=began, ended=_now(), message=message)

    async def _stop(self, running: Contained, grace_seconds: float) -> None:
        """preStop, SIGTERM, and SIGKILL when the grace period is over. A container that is not serving yet has nothing
        to finish."""
        deadline = asyncio.get_running_loop().time() + grace_seconds
        if self.server.started and grace_seconds > 0:
            await asyncio.sleep(min(self.spec.server.pre_stop_seconds, grace_seconds))
        running.terminate()
        while self._running is running:
            if asyncio.get_running_loop().time() >= deadline:
                running.kill()
                deadline = float("inf")
            await asyncio.sleep(0.05)

    # -- probes and memory

    async def _probe(self, running: Contained) -> None:
        probes = self.spec.server.probes
        startup = probes.get("startupProbe")
        if startup is not None and not await self._until_started(startup, running):
            return
        self._show(self.spec.server.name, started=True, ready="readinessProbe" not in probes)
        await asyncio.gather(
            *([self._keep_ready(probes["readinessProbe"])] if "readinessProbe" in probes else []),
            *([self._keep_alive(probes["livenessProbe"], running)] if "livenessProbe" in probes else []),
        )

    async def _ask(self, probe: ProbeSpec) -> tuple[bool, str]:
        return await container_process.run(self._command(probe.command), self._environment(self.spec.server), probe.timeout_seconds)

    async def _until_started(self, probe: ProbeSpec, running: Contained) -> bool:
        streak = Streak()
        await asyncio.sleep(probe.delay_seconds)
        while True:
            succeeded, why = await self._ask(probe)
            if succeeded:
                return True
            streak = streak.after(succeeded=False)
            self._said("Warning", "Unhealthy", f"Startup probe failed: {why}")
            if streak.exhausted(probe):
                self._said("Normal", "Killing", f"Container {self.spec.server.name} failed startup probe, will be restarted")
                await self._stop(running, self.spec.grace_seconds)
                return False

    async def _keep_ready(self, probe: ProbeSpec) -> None:
        streak = Streak()
        while True:
            succeeded, why = await self._ask(probe)
            streak = streak.after(succeeded=succeeded)
            if succeeded and not self.server.ready:
                self._show(self.spec.server.name, ready=True)
            elif not succeeded:
                self._said("Warning", "Unhealthy", f"Readiness probe failed: {why}")
                if streak.exhausted(probe) and self.server.ready:
                    self._show(self.spec.server.name, ready=False)
            await asyncio.sleep(probe.period_seconds)

    async def _keep_alive(self, probe: ProbeSpec, running: Contained) -> None:
        streak = Streak()
        while True:
            await asyncio.sleep(probe.period_seconds)
            succeeded, why = await self._ask(probe)
            streak = streak.after(succeeded=succeeded)
            if not succeeded:
                self._said("Warning", "Unhealthy", f"Liveness probe failed: {why}")
            if streak.exhausted(probe):
                self._said("Normal", "Killing", f"Container {self.spec.server.name} failed liveness probe, will be restarted")
                await self._stop(running, self.spec.grace_seconds)
                return

    async def _measure(self, running: Contained) -> None:
        """What a memory cgroup would do: at the limit the kernel kills."""
        limit = self.spec.server.memory_bytes
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                self.memory_bytes = await asyncio.to_thread(running.memory_bytes)
                self.cpu_seconds = max(self.cpu_seconds, await asyncio.to_thread(running.cpu_seconds))
                if limit is not None and self.memory_bytes > limit:
                    running.killed_for_memory = True
                    running.kill()
                    return
                await asyncio.sleep(_MEMORY_SECONDS)


def _first_view(container: ContainerSpec) -> ContainerView:
    waiting = ContainerWaiting(reason="PodInitializing")
    return ContainerView(name=container.name, image=container.image, state=waiting, sidecar=container.sidecar)


def _now() -> datetime:
    return datetime.now(UTC)
