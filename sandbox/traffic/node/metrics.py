"""What the pods of this node look like to Prometheus: the names and labels of NVIDIA's DCGM exporter and of a kubelet.

There is no GPU, so device memory stands for what the model's processes hold (proportional share of resident memory), of
a device as large as the pod's envelope says; a leak shows there as it would on a GPU. What else a GPU would say is played
(`gpu_counters`). A node with GPUs and no pod that is a process has one that is idle.
"""

import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from prometheus_client import Metric, generate_latest

from headway.listening import listening, pages
from headway.wire import GPU_MEMORY
from sandbox.traffic.node.container_metrics import ContainerUsage, usage_samples
from sandbox.traffic.node.gpu_counters import GpuScript, device_labels, played, script_of
from sandbox.traffic.node.pod import ServedPod

if TYPE_CHECKING:
    from sandbox.traffic.node.agent import NodeAgent

_MIB = 2**20
_PRESENT = "nvidia.com/gpu.present"

MetricSample = tuple[str, Mapping[str, str], float]


def device_samples(
    pods: Iterable[tuple[Mapping[str, Any], ServedPod]], nodes: Iterable[Mapping[str, Any]], script: GpuScript, now: float
) -> Iterator[MetricSample]:
    """What DCGM's exporter says of the devices of these pods, and of one of each other node, at `now` in Unix seconds."""
    named = {node["metadata"]["name"]: node for node in nodes}
    idle = {name: node for name, node in named.items() if (node["metadata"].get("labels") or {}).get(_PRESENT) == "true"}
    for item, pod in pods:
        host = str(item["spec"]["nodeName"])
        idle.pop(host, None)
        own = {
            "namespace": pod.spec.namespace,
            "pod": pod.spec.name,
            "container": pod.spec.server.name,
            **device_labels(named.get(host), pod.spec.uid, host),
        }
        yield from _memory(item, own, pod)
        for name, labels, value in played(script, host, now):
            yield name, {**own, **labels}, value
    for host, node in idle.items():
        unused = device_labels(node, host, host)
        yield "DCGM_FI_DEV_FB_USED", unused, 0.0
        yield "DCGM_FI_DEV_FB_FREE", unused, float((node["metadata"].get("labels") or {}).get("nvidia.com/gpu.memory", 0))
        for name, labels, value in played(script, host, now):
            yield name, {**unused, **labels}, value


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


def _used(agent: "NodeAgent") -> Iterator[tuple[str, ContainerUsage]]:
    """Of each pod that runs, with its node."""
    for item, pod in agent.pods:
        if use := pod.usage:
            yield str(item["spec"]["nodeName"]), use


@contextmanager
def serve(agent: "NodeAgent", port: int) -> Generator[None]:
    """Serve `/metrics/cadvisor`, `/gpu-metrics` and `/ready` on 127.0.0.1 while the agent runs."""

    found = pages(
        {
            "/ready": lambda: (503, missing) if (missing := agent.ready) else (200, "ok"),
            "/gpu-metrics": lambda: (200, exposition(device_samples(agent.pods, agent.nodes, script_of(agent.state), time.time()))),
            "/metrics/cadvisor": lambda: (200, exposition(usage_samples(_used(agent)))),
        }
    )
    with listening("127.0.0.1", port, found, consequence="The node runs no pod.", remedy="End what listens there."):
        yield
