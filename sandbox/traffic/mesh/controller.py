"""Keeps Envoy at what the cluster says: watches objects, compiles, writes, and counts what Envoy logs.

One thread does everything but watch and answer, so that changes are applied in the order in which they were told. A
burst of changes is compiled once. When the API server is away, Envoy goes on with what it has. A refused object must
not take its accepted predecessor away; `Accepted` remembers it.
"""

import errno
import sys
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from sandbox.cluster import linux
from sandbox.traffic.kube import Kube, Object, Watched
from sandbox.traffic.mesh import envoy_configuration
from sandbox.traffic.mesh.envoy import EnvoyAdmin, EnvoyFiles
from sandbox.traffic.mesh.envoy_configuration import EnvoyConfiguration
from sandbox.traffic.mesh.listeners import ListenerPorts, workload
from sandbox.traffic.mesh.object_reader import UnsupportedField
from sandbox.traffic.mesh.snapshot import MeshSnapshot
from sandbox.traffic.mesh.telemetry import LogTail, Telemetry
from sandbox.traffic.mesh.tokens import TokenIssuers

PATHS = (
    "/api/v1/pods",
    "/api/v1/services",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/apis/networking.istio.io/v1/destinationrules",
    "/apis/networking.istio.io/v1/gateways",
    "/apis/networking.istio.io/v1/sidecars",
    "/apis/networking.istio.io/v1/virtualservices",
    "/apis/networking.istio.io/v1alpha3/envoyfilters",
    "/apis/security.istio.io/v1/authorizationpolicies",
    "/apis/security.istio.io/v1/requestauthentications",
    "/apis/telemetry.istio.io/v1/telemetries",
)
_SETTLE_SECONDS = 0.02
"""What comes in one breath is compiled once."""
_READ_SECONDS = 0.1
_PRUNE_SECONDS = 5.0
_AGAIN_SECONDS = 1.0


@dataclass
class Accepted:
    """The last version of every object in which nothing was refused."""

    _versions: dict[str, Object] = field(default_factory=dict[str, Object])

    def snapshot(self, objects: Mapping[str, Object]) -> tuple[MeshSnapshot, Mapping[str, list[UnsupportedField]]]:
        """The objects as they are in force, and what is refused of the newest ones."""
        newest = MeshSnapshot.of(objects.values())
        refused = envoy_configuration.judge(newest)
        for uid, item in objects.items():
            if uid not in refused:
                self._versions[uid] = item
        for uid in [uid for uid in self._versions if uid not in objects]:
            del self._versions[uid]
        return MeshSnapshot.of(self._versions.values()), refused


class Controller:
    """The mesh of one sandbox."""

    def __init__(self, kube: Kube, folder: Path, ports: ListenerPorts, admin: EnvoyAdmin, issuers: TokenIssuers) -> None:
        self._kube, self._folder, self._ports, self._admin, self._issuers = kube, folder, ports, admin, issuers
        self._files = EnvoyFiles(folder)
        self._objects: dict[str, Object] = {}
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._watches: list[Watched] = []
        self._accepted = Accepted()
        self._written: EnvoyConfiguration | None = None
        self._prune_at = float("inf")
        self._telemetry = Telemetry()
        self._telemetry_lock = threading.Lock()
        self._unwritten, self._again_at = "", float("inf")
        self.refusals: tuple[str, ...] = ()
        """What is not in force, and why."""

    def run(self) -> None:
        """For ever."""
        self._watches = [Watched(self._kube, path, self.hear).start() for path in PATHS]
        for watch in self._watches:
            watch.synced.wait()
        tail = LogTail(Path(self._ports.log), self._admin.reopen_logs)
        self._changed.set()
        while True:
            if self._changed.wait(_READ_SECONDS) or monotonic() > self._again_at:
                threading.Event().wait(_SETTLE_SECONDS)
                self._changed.clear()
                self.apply()
            if monotonic() > self._prune_at:
                self._prune()
            self._count(tail)

    def ready(self) -> str | None:
        """None while Envoy is configured and the cluster is followed, else what is missing."""
        if self._unwritten:
            return f"Envoy's files are not written: {self._unwritten}"
        if self._written is None:
            return "reading the mesh's objects"
        return next((watch.failure for watch in self._watches if watch.failure), None)

    def exposition(self) -> str:
        with self._telemetry_lock:
            return "".join(self._telemetry.exposition())

    def hear(self, kind: str, item: Object) -> None:
        """Take what the API server tells: ADDED, MODIFIED or DELETED, and the object."""
        uid = item["metadata"]["uid"]
        with self._lock:
            if kind == "DELETED":
                self._objects.pop(uid, None)
            else:
                self._objects[uid] = item
        self._changed.set()

    def apply(self) -> None:
        """Bring Envoy to what the cluster says. Where its files cannot be written, or read, it goes on with what it
        has, and this is tried again."""
        try:
            self._compile()
            self._unwritten, self._again_at = "", float("inf")
        except OSError as error:
            if str(error) != self._unwritten:
                _log(f"Envoy's files are not written, so changes are not in force: {error}")
            self._unwritten, self._again_at = str(error), monotonic() + _AGAIN_SECONDS

    def _compile(self) -> None:
        with self._lock:
            objects = dict(self._objects)
        snapshot, refused = self._accepted.snapshot(objects)
        wanted = envoy_configuration.compile_(snapshot, self._ports, str(self._folder), self._keys(snapshot))
        _check_file_watches(self._files.watched(), wanted)
        if self._files.apply(wanted, self._written, self._admin if self._written is not None else None):
            self._prune_at = monotonic() + _PRUNE_SECONDS
        self._written = wanted
        said = tuple(sorted(str(refusal) for each in refused.values() for refusal in each))
        for line in said:
            if line not in self.refusals:
                _log(f"refused: {line}")
        self.refusals = said
        pods = [(pod, pod["metadata"]) for pod in snapshot.served_pods()]
        with self._telemetry_lock:
            for pod, metadata in pods:
                self._telemetry.introduce(metadata["namespace"], workload(pod), metadata["name"], metadata.get("annotations") or {})
            self._telemetry.forget({(metadata["namespace"], metadata["name"]) for _, metadata in pods})

    def _prune(self) -> None:
        self._prune_at = float("inf")
        try:
            if self._written is not None:
                self._files.prune(self._written)
        except OSError:
            self._prune_at = monotonic() + _PRUNE_SECONDS

    def _keys(self, snapshot: MeshSnapshot) -> Mapping[str, str]:
        rules: list[Any] = [rule for item in snapshot.of_kind("RequestAuthentication") for rule in item["spec"].get("jwtRules") or ()]
        return {rule["issuer"]: self._issuers.keys(rule["issuer"]) for rule in rules}

    def _count(self, tail: LogTail) -> None:
        with self._telemetry_lock:
            for line in tail.lines():
                self._telemetry.take(line)


def _check_file_watches(watched: Collection[str], wanted: EnvoyConfiguration) -> None:
    """OSError where Envoy, which watches a file for each cluster and route table, could not have one more: it would
    abort."""
    clusters = {name for name, each in wanted.clusters.items() if each["type"] == "EDS"}
    new = len({*clusters, *wanted.routes} - {*watched})
    if new and linux.file_watches(new) < new:
        words = f"Envoy would abort: {new} more inotify instances are not to be had; `sudo sysctl fs.inotify.max_user_instances=1024`"
        raise OSError(errno.EMFILE, words)


def _log(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
