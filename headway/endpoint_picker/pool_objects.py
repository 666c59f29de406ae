"""Which endpoints a picker may pick, by what the API server says: InferencePools that name it, and their ready pods. Pure.

As in the reference picker of gateway-api-inference-extension 1.6 (pkg/lwepp/datastore): every target port of a pool on every ready pod of its
selector, unless the pod says which ports are active.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from headway.endpoint_picker.tracking import EngineFacts

GROUP, VERSION, KINDS = "inference.networking.k8s.io", "v1", "inferencepools"
ACTIVE_PORTS = f"{GROUP}/active-ports"
MOST_ENGINES = 1000
"""Of a service; more are left out. A pool's route would be slow long before."""

ODD = (AttributeError, KeyError, TypeError, ValueError)
"""What code of ours raises for an object of another shape than the API's."""


@dataclass(frozen=True)
class EnginePool:
    name: str
    selector: tuple[tuple[str, str], ...]
    ports: tuple[int, ...]

    @property
    def query(self) -> str:
        """Its pods, as a label selector."""
        return ",".join(f"{key}={value}" for key, value in self.selector)


def pools_of(found: Iterable[Any], picker: str) -> Iterator[EnginePool]:
    """Those that name the Service `picker`; one that cannot be read has no endpoints."""
    for each in found:
        try:
            spec, named = each["spec"], each["spec"]["endpointPickerRef"]
            if named["name"] != picker or named.get("kind", "Service") != "Service" or named.get("group"):
                continue
            selector = tuple(sorted((str(key), str(value)) for key, value in spec["selector"]["matchLabels"].items()))
            ports = tuple(int(port["number"]) for port in spec["targetPorts"])
            if selector and all(0 < port < 1 << 16 for port in ports):
                yield EnginePool(str(each["metadata"]["name"]), selector, ports)
        except ODD:
            continue


def engines_of(pool: EnginePool, pods: Iterable[Any]) -> Iterator[tuple[str, EngineFacts]]:
    """Address and facts of each endpoint; a pod that is not ready, ends or cannot be read has none."""
    for pod in pods:
        try:
            metadata, status = pod["metadata"], pod["status"]
            ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ())
            labels = metadata.get("labels") or {}
            if not ready or metadata.get("deletionTimestamp") or any(labels.get(key) != value for key, value in pool.selector):
                continue
            ip = ip_address(status["podIP"])
            restarts = sum(int(each["restartCount"]) for each in status.get("containerStatuses") or ())
            facts = EngineFacts(pool.name, life=f"{metadata['uid']}/{restarts}")
            for port in _active(pool.ports, metadata.get("annotations") or {}):
                yield (f"{ip}:{port}" if ip.version == 4 else f"[{ip}]:{port}"), facts
        except ODD:
            continue


def _active(ports: tuple[int, ...], annotations: Mapping[str, str]) -> tuple[int, ...]:
    if (said := annotations.get(ACTIVE_PORTS)) is None:
        return ports
    named = {each.strip() for each in said.split(",")}
    return tuple(port for port in ports if str(port) in named)
