"""What the pods of this node look like to Prometheus: the names and labels of kube-state-metrics, of NVIDIA's DCGM
exporter and of a kubelet.

There is no GPU, so device memory stands for what the model's processes hold (proportional share of resident memory), of
a device as large as the pod's envelope says; a leak shows there as it would on a GPU. What else a GPU would say is played
(`gpu_counters`). A series that appears with its first event has no increase; every container is listed from its first
moment.
"""

import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

from prometheus_client import Metric, generate_latest

from headway.listening import listening, pages
from headway.wire import GPU_MEMORY, TENANT
from sandbox.traffic.node.cluster_metrics import deployment_samples, node_samples, phase_samples, unschedulable_samples
from sandbox.traffic.node.container_metrics import usage_samples
from sandbox.traffic.node.gpu_counters import GpuScript, device_labels, played, script_of
from sandbox.traffic.node.pod import ServedPod
from sandbox.traffic.node.status import ContainerTerminated, ContainerView

if TYPE_CHECKING:
    from sandbox.traffic.node.agent import NodeAgent

_MIB = 2**20
_REASONS = ("Completed", "Error", "OOMKilled")

MetricSample = tuple[str, Mapping[str, str], float]


def pod_samples(pods: Iterable[tuple[Mapping[str, Any], ServedPod]]) -> Iterator[MetricSample]:
    """What kube-state-metrics says of these pods."""
    for _, pod in pods:
        place = {"namespace": pod.spec.namespace, "pod": pod.spec.name}
        status = pod.view(())
        yield from _container(place | {"uid": pod.spec.uid}, pod.server)
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status["conditions"])
        for condition in ("true", "false"):
            yield "kube_pod_status_ready", place | {"condition": condition}, float(ready is (condition == "true"))


def namespace_samples(labels: Mapping[str, Mapping[str, str]]) -> Iterator[MetricSample]:
    """What kube-state-metrics says of namespaces, of which it is told to show one label; tenants' alerts hold where
    that one is set."""
    for name, own in labels.items():
        tenant = {"label_platform_io_tenant": own[TENANT]} if TENANT in own else {}
        yield "kube_namespace_labels", {"namespace": name, **tenant}, 1.0


def state_samples(agent: "NodeAgent") -> Iterator[MetricSample]:
    """The whole page of kube-state-metrics' kind."""
    yield from chain(
        pod_samples(agent.pods),
        namespace_samples(agent.namespaces),
        node_samples(agent.nodes),
        deployment_samples(agent.deployments),
        phase_samples(agent.cluster_pods),
        unschedulable_samples(agent.cluster_pods),
    )


def device_samples(
    pods: Iterable[tuple[Mapping[str, Any], ServedPod]], nodes: Iterable[Mapping[str, Any]], script: GpuScript, now: float
) -> Iterator[MetricSample]:
    """What DCGM's exporter says of the devices of these pods at `now` in Unix seconds."""
    named = {node["metadata"]["name"]: node for node in nodes}
    for item, pod in pods:
        host = str(item["spec"]["nodeName"])
        own = {
            "namespace": pod.spec.namespace,
            "pod": pod.spec.name,
            "container": pod.spec.server.name,
            **device_labels(named.get(host), pod.spec.uid, host),
        }
        yield from _memory(item, own, pod)
        for name, labels, value in played(script, host, now):
            yield name, {**own, **labels}, value


def _container(place: Mapping[str, str], view: ContainerView) -> Iterator[MetricSample]:
    own = {**place, "container": view.name}
    yield "kube_pod_container_status_restarts_total", own, float(view.restarts)
    yield "kube_pod_container_status_ready", own, float(view.ready)
    for reason in _REASONS:
        yield "kube_pod_container_status_last_terminated_reason", own | {"reason": reason}, float(_last(view) == reason)


def _last(view: ContainerView) -> str:
    return view.last.reason if isinstance(view.last, ContainerTerminated) else ""


def _memory(item: Mapping[str, Any], own: Mapping[str, str], pod: ServedPod) -> Iterator[MetricSample]:
    size = _mebibytes((item["metadata"].get("annotations") or {}).get(GPU_MEMORY, ""))
    used = pod.memory_bytes / _MIB
    yield "DCGM_FI_DEV_FB_USED", own, round(used, 1)
    yield "DCGM_FI_DEV_FB_FREE", own, round(max(0.0, size - used), 1)


def _mebibytes(quantity: str) -> float:
    """`8Gi` or `512Mi`, as the contract renders memory."""
    for suffix, factor in (("Gi", 1024.0), ("Mi", 1.0), ("Ki", 1 / 1024)):
        if quantity.endswith(suffix):
            return float(quantity.removesuffix(suffix)) * factor
    return float(quantity or 0) / _MIB


class _Families:
    """What a page holds, as prometheus_client's writer asks for it."""

    def __init__(self, samples: Iterable[MetricSample]) -> None:
        self._families: dict[str, Metric] = {}
        for name, labels, value in sorted(samples, key=lambda sample: (sample[0], sorted(sample[1].items()))):
            kind = "counter" if name.endswith("_total") else "gauge"
            family = self._families.setdefault(name, Metric(name.removesuffix("_total"), "As production's exporter tells it.", kind))
            family.add_sample(name, dict(labels), value)

    def collect(self) -> Iterable[Metric]:
        return self._families.values()


def exposition(samples: Iterable[MetricSample]) -> str:
    """Prometheus' text format, sorted."""
    return generate_latest(_Families(samples)).decode()


@contextmanager
def serve(agent: "NodeAgent", port: int) -> Generator[None]:
    """Serve `/metrics`, `/metrics/cadvisor`, `/gpu-metrics` and `/ready` on 127.0.0.1 while the agent runs."""

    found = pages(
        {
            "/ready": lambda: (503, missing) if (missing := agent.ready) else (200, "ok"),
            "/gpu-metrics": lambda: (200, exposition(device_samples(agent.pods, agent.nodes, script_of(agent.state), time.time()))),
            "/metrics": lambda: (200, exposition(state_samples(agent))),
            "/metrics/cadvisor": lambda: (200, exposition(usage_samples(use for _, pod in agent.pods if (use := pod.usage)))),
        }
    )
    with listening("127.0.0.1", port, found, consequence="The node runs no pod.", remedy="End what listens there."):
        yield
