"""How much the platform's own telemetry takes: series, bytes a day, volumes. Arithmetic on counts that stand here, each
with its source.

What one Triton replica shows and what one kind of answer adds are counted in the sandbox, from the real server and
from requests that were really sent (tests/traffic/test_series.py); the rest is an estimate to choose volumes and
limits by. The trap: series multiply. A histogram counts one series for each edge, answer and proxy, so one more
label costs more than a hundred more pods.
"""

from dataclasses import dataclass

from components.addons.gpu_operator import counters
from components.observability import recording
from headway.contract.runtime import Engine
from headway.signals.buckets import latency_edges_milliseconds

SCRAPE_SECONDS = 15
DAY_SECONDS = 86_400
BYTES_A_SAMPLE = 2
"""Prometheus' documentation gives one to two; the dearer one."""
INDEX_SHARE = 0.25
"""Index, write-ahead log and compaction beside the samples."""

SERVER_SERIES = {Engine.TRITON: 53, Engine.VLLM: 600, Engine.CONTAINER: 200}
"""Of one replica: Triton's page, counted; an estimate of vLLM's histograms; for a container of the team's own half
of what is rare.
"""
SCRAPE_SERIES = 5
"""Prometheus' own of each target: `up` and four about the scrape. A replica is two targets, server and proxy."""
ANSWERS = 6
"""Combinations of code and flags that a service really gives: 200, 400, 429, 500, 503 UH, 504 UT."""
MESH_OTHER_SERIES = 3
"""Beside the latency histogram's buckets, for each answer: its sum and count, and the counter of requests."""
COUNTED_SERIES = 4
"""Of one model at one proxy of the gateway, whatever its answers and releases: `components/platform/gateway_measures.py`."""
POD_SERIES, DEPLOYMENT_SERIES, NODE_SERIES = 90, 40, 980
"""kube-state-metrics and cAdvisor of one pod, kube-state-metrics of one deployment with its autoscaler, node
exporter and log agent of a node.
"""
RULES_AN_OBJECTIVE = 9
"""Seven windows, a minute where a breakdown is told apart, and the allowed share."""
RELEASE_SERIES = 2 * 10
"""What both replicas of the diagnosis loop say of a service's releases, while one is under way."""
PLATFORM_SERIES = 60_000
"""Of the platform's own pods: API server, Istio, Prometheus itself, with the chart's defaults."""

ACCESS_LOG_BYTES, SPAN_BYTES, SPANS_A_TRACE = 700, 600, 4
PRINTED_BYTES_A_POD, PRINTED_BYTES_A_NODE = 50, 1_000
"""A second. vLLM's statistics every ten seconds and the start of two containers; ten pods of the platform that print
as they do by default.
"""
CONTAINERS, PLATFORM_STREAMS = 5, 300
"""Of one replica: fetch, server, relay or probe, the mesh's two; and of everything else in the cluster."""
COMPRESSION = 8
"""Loki's and Tempo's chunks against what comes in."""


@dataclass(frozen=True, kw_only=True)
class ServiceSize:
    """One model service while a release is compared: `releases` of it run with `replicas` each."""

    engine: Engine
    replicas: int = 2
    releases: int = 2
    gpus_a_replica: int = 1
    objectives: int = 3
    requests_per_second: float = 20


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a day of it is."""

    series: int
    metrics_bytes: int
    log_bytes: int
    """Of proxies, a line for each request."""
    printed_bytes: int
    """Of containers, whatever is asked of them."""
    trace_bytes: int


def answer_series() -> int:
    """Series of one kind of answer, as one proxy reports them of one release."""
    return len(latency_edges_milliseconds()) + 1 + MESH_OTHER_SERIES


def series_of(service: ServiceSize, gateways: int) -> int:
    """Series of one model service, seen by `gateways` proxies of the gateway and by the proxy of each replica."""
    pods = service.replicas * service.releases
    mesh = (service.releases * gateways + pods) * ANSWERS * answer_series()
    recorded = service.releases * sum(len(group["rules"]) for group in recording.groups())
    return (
        pods * (SERVER_SERIES[service.engine] + 2 * SCRAPE_SERIES + POD_SERIES + service.gpus_a_replica * len(counters().splitlines()))
        + service.releases * DEPLOYMENT_SERIES
        + mesh
        + gateways * COUNTED_SERIES
        + recorded
        + service.objectives * RULES_AN_OBJECTIVE
        + RELEASE_SERIES
    )


def day(services: tuple[ServiceSize, ...], *, nodes: int, gateways: int, sampled: float = 1.0, traced: float = 0.05) -> Load:
    """A day of `services` on `nodes`: `sampled` of the requests are logged, `traced` of them traced."""
    pods = sum(service.replicas * service.releases for service in services)
    series = PLATFORM_SERIES + nodes * NODE_SERIES + sum(series_of(service, gateways) for service in services)
    requests = sum(service.requests_per_second for service in services) * DAY_SECONDS
    samples = series * DAY_SECONDS // SCRAPE_SECONDS
    return Load(
        series=series,
        metrics_bytes=round(samples * BYTES_A_SAMPLE * (1 + INDEX_SHARE)),
        log_bytes=round(requests * sampled * ACCESS_LOG_BYTES / COMPRESSION),
        printed_bytes=round((pods * PRINTED_BYTES_A_POD + nodes * PRINTED_BYTES_A_NODE) * DAY_SECONDS / COMPRESSION),
        trace_bytes=round(requests * traced * SPANS_A_TRACE * SPAN_BYTES / COMPRESSION),
    )


def streams(services: tuple[ServiceSize, ...]) -> int:
    """Streams of Loki at one time, which tell containers of a release apart, but not its pods."""
    return PLATFORM_STREAMS + sum(service.releases * CONTAINERS for service in services)
