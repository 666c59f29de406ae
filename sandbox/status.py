"""What is really there: nodes, what is allocated on them, and where each model service's pods are. Read from the live
cluster only.

`read` asks the API server; the rest is arithmetic on what it said.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from headway.contract.gpu_resources import is_gpu
from headway.environment.kubernetes import KubernetesApi, Object
from headway.environment.port import OutOfReachError
from headway.problem import UserError
from headway.service_status.pending import condition, gpus, quarantined
from headway.service_status.replicas import ServiceStatus, services
from headway.wire import MODEL, POOL, RECORDED_CHART

PRODUCT = "nvidia.com/gpu.product"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"


@dataclass(frozen=True, kw_only=True)
class PoolStatus:
    """Nodes of one pool. `accelerators` maps a GPU resource to (allocated, allocatable), counted over Ready nodes; of a node in quarantine only
    what is allocated counts, because nothing new is placed there.
    """

    pool: str
    instance_type: str
    product: str
    nodes: int
    ready: int
    accelerators: Mapping[str, tuple[int, int]]
    quarantined: int = 0


@dataclass(frozen=True, kw_only=True)
class ClusterView:
    """The whole picture at one moment."""

    version: str
    pools: tuple[PoolStatus, ...]
    services: tuple[ServiceStatus, ...]
    recorded: tuple[tuple[str, str], ...]
    """(chart, version) of platform add-ons that are recorded, not run."""

    @property
    def ready(self) -> bool:
        return bool(self.services) and all(s.ready >= s.wanted > 0 for s in self.services) and all(p.ready == p.nodes for p in self.pools)


def read(kubeconfig: str) -> ClusterView:
    """Ask the API server. Raises UserError when it does not answer."""
    api = KubernetesApi(kubeconfig)

    def listed(path: str) -> list[Object]:
        answer = api.answer("GET", path, seconds=_LIST_SECONDS)
        if not answer.ok:
            raise OutOfReachError(answer.message)
        return answer.document["items"]

    try:
        version = (api.get("/version") or {}).get("gitVersion")
        nodes, pods = listed("/api/v1/nodes"), listed("/api/v1/pods")
        deployments = listed(f"/apis/apps/v1/deployments?{urlencode({'labelSelector': MODEL})}")
        records = listed(f"/api/v1/configmaps?{urlencode({'labelSelector': RECORDED_CHART})}")
    except OutOfReachError as failure:
        raise UserError(
            f"The sandbox's API server does not answer ({failure}).",
            "Nothing can be said about nodes and services.",
            "Start it again with `make up`; `headway sandbox status` shows which process is down.",
        ) from None
    return ClusterView(
        version=str(version),
        pools=pools(nodes, pods),
        services=services(deployments, pods, nodes),
        recorded=add_ons(records),
    )


_LIST_SECONDS = 10.0


def add_ons(records: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """(chart, version) of the recorded releases; a chart that is installed twice counts once."""
    return tuple(sorted({(r.get("data", {}).get("chart", "?"), r.get("data", {}).get("version", "?")) for r in records}))


def pools(nodes: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]]) -> tuple[PoolStatus, ...]:
    """Group nodes by their pool label and add up what running and starting pods have been given there."""
    used: dict[str, dict[str, int]] = {}
    for pod in pods:
        node = pod.get("spec", {}).get("nodeName")
        if not node or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        for resource, amount in gpus(pod).items():
            place = used.setdefault(node, {})
            place[resource] = place.get(resource, 0) + amount
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for node in nodes:
        labels = node["metadata"].get("labels", {})
        groups.setdefault(labels.get(POOL) or labels.get("eks.amazonaws.com/nodegroup") or "(no pool)", []).append(node)
    return tuple(_pool(name, groups[name], used) for name in sorted(groups))


def _pool(name: str, nodes: Sequence[Mapping[str, Any]], used: Mapping[str, Mapping[str, int]]) -> PoolStatus:
    totals: dict[str, tuple[int, int]] = {}
    ready = in_quarantine = 0
    for node in nodes:
        apart = quarantined(node)
        in_quarantine += apart
        if not condition(node, "Ready"):
            continue
        ready += 1
        for resource, amount in node.get("status", {}).get("allocatable", {}).items():
            if is_gpu(resource) and int(amount) > 0:
                allocated, allocatable = totals.get(resource, (0, 0))
                here = used.get(node["metadata"]["name"], {}).get(resource, 0)
                totals[resource] = (allocated + here, allocatable + (here if apart else int(amount)))
    labels = nodes[0]["metadata"].get("labels", {})
    return PoolStatus(
        pool=name,
        instance_type=labels.get(INSTANCE_TYPE, ""),
        product=labels.get(PRODUCT, ""),
        nodes=len(nodes),
        ready=ready,
        accelerators=dict(sorted(totals.items())),
        quarantined=in_quarantine,
    )
