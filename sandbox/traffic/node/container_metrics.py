"""What a kubelet says of the containers that run here, at `/metrics/cadvisor`: memory and CPU by container, and by pod
with an empty `container`, as of a pod's own control group. Pure.

Names and units: github.com/google/cadvisor, the page on Prometheus. Labels: the kubelet's `containerPrometheusLabelsFunc`
(kubernetes, `pkg/kubelet/server/server.go`). The container's `id` is another after each start. Working
set is what the processes hold (proportional share of resident memory); the page cache of a control group is not in it.
Init containers are left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ContainerUsage:
    """One running container."""

    namespace: str
    pod: str
    uid: str
    container: str
    image: str
    restarts: int
    memory_bytes: int
    cpu_seconds: float
    """Since its start."""
    former_cpu_seconds: float
    """Of its earlier starts."""


def usage_samples(running: Iterable[tuple[str, ContainerUsage]]) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Of each container with its node, which in a cluster is a label of the scrape."""
    for node, each in running:
        place = {"namespace": each.namespace, "node": node, "pod": each.pod}
        group = f"/kubepods/pod{each.uid}"
        start = f"{each.container}-{each.restarts}"
        own = {**place, "container": each.container, "id": f"{group}/{start}", "image": each.image, "name": start}
        whole = {**place, "container": "", "id": group, "image": "", "name": ""}
        for labels, seconds in ((own, each.cpu_seconds), (whole, each.former_cpu_seconds + each.cpu_seconds)):
            yield "container_memory_working_set_bytes", labels, float(each.memory_bytes)
            yield "container_cpu_usage_seconds_total", {**labels, "cpu": "total"}, round(seconds, 2)
