"""Counters as a mesh's proxies would have shown them, written as OpenMetrics with timestamps for promtool to store."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

EDGES = (10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)
SCRAPE = 15


@dataclass
class Pod:
    """One pod's proxy: what it counted at each scrape."""

    name: str
    arm: str
    tenant: str = "assist"
    extra: Mapping[str, str] = field(default_factory=dict)
    requests: list[tuple[int, str, float]] = field(default_factory=list)
    """Time, response code, value."""
    durations: list[tuple[int, float, float]] = field(default_factory=list)
    """Time, upper edge, value."""
    up: list[tuple[int, int]] = field(default_factory=list)

    def labels(self, more: str) -> str:
        own = {
            "reporter": "destination",
            "destination_workload": self.arm,
            "destination_workload_namespace": self.tenant,
            "mirrored": "false",
            **self.extra,
            **self.target,
        }
        return "{" + ",".join(f'{key}="{value}"' for key, value in sorted(own.items())) + more + "}"

    @property
    def target(self) -> dict[str, str]:
        return {"job": "proxies", "namespace": self.tenant, "pod": self.name, "instance": f"{self.name}:15090"}

    def scrape(self, at: int, counts: Mapping[str, float], below: Sequence[float] = ()) -> None:
        """Counters by response code, and cumulative counts up to each edge and infinity."""
        self.up.append((at, 1))
        self.requests += [(at, code, value) for code, value in counts.items()]
        self.durations += [(at, edge, value) for edge, value in zip((*EDGES, float("inf")), below, strict=False)]

    def fail(self, at: int) -> None:
        self.up.append((at, 0))


def openmetrics(pods: Sequence[Pod]) -> Iterator[str]:
    """Lines in the order that promtool wants: by metric."""
    yield "# TYPE istio_request_duration_milliseconds_bucket unknown"
    for pod in pods:
        yield from (
            f"istio_request_duration_milliseconds_bucket{pod.labels(f',le={chr(34)}{_le(edge)}{chr(34)}')} {value:g} {at}"
            for at, edge, value in pod.durations
        )
    yield "# TYPE istio_requests_total unknown"
    for pod in pods:
        yield from (
            f"istio_requests_total{pod.labels(f',response_code={chr(34)}{code}{chr(34)}')} {value:g} {at}"
            for at, code, value in pod.requests
        )
    yield "# TYPE up gauge"
    for pod in pods:
        target = ",".join(f'{key}="{value}"' for key, value in sorted(pod.target.items()))
        yield from (f"up{{{target}}} {value} {at}" for at, value in pod.up)
    yield "# EOF"


def _le(edge: float) -> str:
    return "+Inf" if edge == float("inf") else f"{edge:g}"


def steady(arm: str, pods: int, begin: int, seconds: int, rate: float, seed: int, kind: str = "long") -> list[Pod]:
    """Pods of a healthy version: lognormal latencies of a median of 60 ms, one request of a thousand failing."""
    rng = np.random.default_rng(seed)
    from scipy.special import ndtr

    shares = np.diff(np.append(ndtr((np.log(EDGES) - np.log(60.0)) / 0.6), 1.0), prepend=0.0)
    found: list[Pod] = []
    for number in range(pods):
        pod = Pod(f"{arm}-5d9f7c{number}-abcd{number}", arm, extra={"request_class": kind})
        counts, failed = np.zeros(len(EDGES) + 1), 0
        for at in range(begin, begin + seconds + 1, SCRAPE):
            new = rng.poisson(rate * SCRAPE / pods)
            counts = counts + rng.multinomial(new, shares)
            failed += int(rng.binomial(new, 0.001))
            pod.scrape(at, {"200": counts.sum() - failed, "503": failed}, np.cumsum(counts).tolist())
        found.append(pod)
    return found
