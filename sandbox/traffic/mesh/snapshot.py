"""What the mesh knows of the cluster: the objects it reads, by kind, and how they relate. Pure; a snapshot.

A host is `<service>.<namespace>.svc.cluster.local`. Pods that kwok simulates have addresses and are ready, but nobody
listens there; only pods that the node agent runs become endpoints.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.wire import MESH_NAMESPACE
from sandbox.traffic.mesh.object_reader import labels_match
from sandbox.traffic.mesh.types import MeshObject
from sandbox.traffic.pod_addresses import is_served, loopback

SUFFIX = "svc.cluster.local"
INBOUND_OFFSET = 10_000
"""A pod's sidecar listens this much above the port it guards."""


@dataclass(frozen=True, kw_only=True)
class MeshSnapshot:
    """Objects by kind; each list is sorted by namespace and name."""

    objects: Mapping[str, tuple[MeshObject, ...]] = field(default_factory=dict[str, tuple[MeshObject, ...]])

    @classmethod
    def of(cls, items: Iterable[MeshObject]) -> "MeshSnapshot":
        found: dict[str, list[MeshObject]] = {}
        for item in items:
            found.setdefault(item["kind"], []).append(item)
        return cls(objects={kind: tuple(sorted(each, key=_name)) for kind, each in found.items()})

    def of_kind(self, kind: str) -> tuple[MeshObject, ...]:
        return self.objects.get(kind, ())

    def without(self, refused: Iterable[MeshObject]) -> "MeshSnapshot":
        """The same without these objects."""
        gone = {item["metadata"]["uid"] for item in refused}
        return MeshSnapshot.of(item for each in self.objects.values() for item in each if item["metadata"]["uid"] not in gone)

    @property
    def services(self) -> Mapping[str, MeshObject]:
        """Services by host."""
        return {host_of(item["metadata"]["name"], item["metadata"]["namespace"]): item for item in self.of_kind("Service")}

    def served_pods(self) -> Iterator[MeshObject]:
        """Pods whose processes run here and that may still answer, deleted ones included until they are gone."""
        for pod in self.of_kind("Pod"):
            if is_served((pod.get("status") or {}).get("podIP") or ""):
                yield pod

    def endpoints(self, host: str, port: int) -> list[tuple[str, int]]:
        """(address, port) of the sidecars of the ready replicas behind a service's port, sorted."""
        service = self.services.get(host)
        if service is None:
            return []
        name = next((p.get("name") for p in service["spec"]["ports"] if p["port"] == port), None)
        found: set[tuple[str, int]] = set()
        for piece in self.of_kind("EndpointSlice"):
            metadata = piece["metadata"]
            if metadata["namespace"] != service["metadata"]["namespace"]:
                continue
            if (metadata.get("labels") or {}).get("kubernetes.io/service-name") != service["metadata"]["name"]:
                continue
            target = next((p["port"] for p in piece.get("ports") or () if p.get("name") == name), None)
            for endpoint in piece.get("endpoints") or ():
                if target is not None and (endpoint.get("conditions") or {}).get("ready", True):
                    found |= {(loopback(ip), target + INBOUND_OFFSET) for ip in endpoint["addresses"] if is_served(ip)}
        return sorted(found)

    def selecting(self, kind: str, namespace: str, labels: MeshObject) -> list[MeshObject]:
        """Objects of a kind that apply to a workload: those of its namespace that select it or everything, and the
        root's."""
        found: list[MeshObject] = []
        for item in self.of_kind(kind):
            spec = item.get("spec") or {}
            place = item["metadata"]["namespace"]
            selector = (spec.get("workloadSelector") or {}).get("labels") or (spec.get("selector") or {}).get("matchLabels") or {}
            if place in (namespace, MESH_NAMESPACE) and labels_match(selector, labels):
                found.append(item)
        return found


def host_of(name: str, namespace: str) -> str:
    return f"{name}.{namespace}.{SUFFIX}"


def full_host(host: str, namespace: str) -> str:
    """A host as written in an object of `namespace`: a short name means a service beside it."""
    return host if "." in host else host_of(host, namespace)


def cluster_name(host: str, port: int) -> str:
    """As istiod names an outbound cluster without a subset."""
    return f"outbound|{port}||{host}"


def destination_port(snapshot: MeshSnapshot, host: str, asked: int | None, listener_port: int) -> int:
    """Where a destination without a port leads: the only port of its service, else the port that the request came in
    by.

    istiod's rule (istio/istio, pilot/pkg/networking/core/route: GetDestinationCluster). A gateway that listens on 80
    therefore finds no cluster for a service with two ports.
    """
    if asked is not None:
        return asked
    service = snapshot.services.get(host)
    ports = service["spec"]["ports"] if service is not None else []
    return int(ports[0]["port"]) if len(ports) == 1 else listener_port


def is_grpc(port: Mapping[str, Any]) -> bool:
    """Whether a port's name says that gRPC is spoken there: the mesh goes by the part before the hyphen."""
    return str(port.get("name") or "").split("-")[0] in {"grpc", "http2"}


def _name(item: MeshObject) -> tuple[str, str]:
    return item["metadata"].get("namespace") or "", item["metadata"]["name"]
