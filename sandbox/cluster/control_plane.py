"""One Kubernetes control plane on loopback: start, stop, status, reset.

Owns the order of things. `start` is the only repair there is: what runs and answers is left alone, what is dead or
hangs is started with its state, and what has changed is restarted; so it may be called at any time, by anyone, after
any accident.
"""

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from sandbox.cluster import api, control_plane_programs, manifests
from sandbox.cluster.disk import telling_when_full
from sandbox.cluster.processes import ProcessStatus, Supervisor
from sandbox.cluster.toolchain import DEFAULT_SETS, Toolchain, ensure_toolchain
from sandbox.layout import Layout
from sandbox.progress import Progress

BOOTSTRAP = Path(__file__).parent / "bootstrap"

_FIELD_MANAGER = "headway-sandbox"


@dataclass(frozen=True, kw_only=True)
class SandboxClusterInfo:
    """A control plane that is ready."""

    kubeconfig: Path
    server: str
    version: str
    """Of Kubernetes: `v1.36.2`."""
    started: tuple[str, ...]
    """Programs that were not running, or not as they should; empty when nothing had to be done."""
    toolchain: Toolchain


@dataclass(frozen=True, kw_only=True)
class SandboxClusterStatus:
    """What is so, without changing it."""

    processes: tuple[ProcessStatus, ...]
    """Of the control plane, in the order of their start; a program that was never started is missing."""
    ready: bool
    reason: str
    """Why not; empty when ready."""
    version: str | None

    @property
    def memory_bytes(self) -> int:
        return sum(process.memory_bytes for process in self.processes)


class SandboxCluster:
    """The control plane of one sandbox, that of `layout`."""

    def __init__(self, layout: Layout, *, supervisor: Supervisor | None = None) -> None:
        self._layout = layout
        self.supervisor = supervisor or Supervisor(layout)

    def start(self, progress: Progress, sets: Sequence[str] = DEFAULT_SETS) -> SandboxClusterInfo:
        """Have the control plane run and ready, building its programs first if need be. UserError with what to do when
        it cannot be."""
        toolchain = ensure_toolchain(self._layout, progress, sets)
        self._layout.cluster.mkdir(parents=True, exist_ok=True, mode=0o700)
        with telling_when_full("starting the control plane"), self._lock(progress):
            site = self._site(toolchain)
            who = control_plane_programs.identities(self._layout.cluster / "pki")
            control_plane_programs.write_files(site, who, self._layout.kubeconfig)
            admin = control_plane_programs.admin(site, who)
            # The API server may come first: it waits for its datastore, and loading itself takes the longer of the two.
            started = self.supervisor.ensure_all(
                (control_plane_programs.etcd(site, who), control_plane_programs.api_server(site, who)), progress
            )
            for manifest in manifests.read(sorted(BOOTSTRAP.glob("*.yaml"))):
                api.apply(admin, manifest, _FIELD_MANAGER)
            clients = (
                control_plane_programs.controller_manager(site, who),
                control_plane_programs.scheduler(site, who),
                control_plane_programs.kwok(site, who),
            )
            started += self.supervisor.ensure_all(clients, progress)
            return SandboxClusterInfo(
                kubeconfig=self._layout.kubeconfig,
                server=site.server,
                version=api.version(admin),
                started=started,
                toolchain=toolchain,
            )

    def stop(self, progress: Progress) -> tuple[str, ...]:
        """End every program of the control plane and keep its state; the names of those that ran."""
        with self._lock(progress):
            return self._stop(progress)

    def status(self) -> SandboxClusterStatus:
        """How it is now. Starts, builds and writes nothing."""
        known = {process.name: process for process in self.supervisor.list()}
        processes = tuple(known[name] for name in control_plane_programs.NAMES if name in known)
        reason, version = self._examine(processes)
        return SandboxClusterStatus(processes=processes, ready=not reason, reason=reason, version=version)

    def reset(self, progress: Progress) -> None:
        """End the control plane and forget its state: objects, keys, kubeconfig. Other processes of the sandbox are not
        touched."""
        with self._lock(progress):
            self._stop(progress)
            for folder in ("etcd", "pki", "config"):
                shutil.rmtree(self._layout.cluster / folder, ignore_errors=True)
            self._layout.kubeconfig.unlink(missing_ok=True)

    def _lock(self, progress: Progress) -> AbstractContextManager[None]:
        return self.supervisor.lock("control-plane", progress)

    def _stop(self, progress: Progress) -> tuple[str, ...]:
        return tuple(name for name in reversed(control_plane_programs.NAMES) if self.supervisor.stop(name, progress))

    def _site(self, toolchain: Toolchain) -> control_plane_programs.ControlPlaneSite:
        names = (*control_plane_programs.NAMES, control_plane_programs.ETCD_PEER)
        return control_plane_programs.ControlPlaneSite(
            folder=self._layout.cluster, ports={name: self.supervisor.port(name) for name in names}, toolchain=toolchain
        )

    def _examine(self, processes: Sequence[ProcessStatus]) -> tuple[str, str | None]:
        running = {process.name for process in processes if process.running}
        missing = [name for name in control_plane_programs.NAMES if name not in running]
        if missing:
            return f"not running: {', '.join(missing)}", None
        site = self._site(Toolchain({}))
        admin = control_plane_programs.admin(site, control_plane_programs.identities(self._layout.cluster / "pki"))
        unready = admin.unready("/readyz?verbose")
        return (unready, None) if unready else ("", api.version(admin))
