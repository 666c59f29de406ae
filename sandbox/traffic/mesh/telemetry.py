"""Istio's standard metrics from the lines that the listeners log. Pure but for `Tail`, which reads the log.

Names and labels are those that releases are judged by (headway/release/evidence/queries.py) and that istiod's own
proxies emit with the platform's Telemetry. A counter that is born with a value has no increase, so every replica's
series begin at zero when it is introduced. prometheus_client writes the node's page (`node/metrics.py`) and not this
one: for 48 series of each kind, read every second, its writer took 165 ms where this one takes 12 ms, of two cores that
the measured services share.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.addons.istio import BUCKETS_ANNOTATION
from components.platform.replica_measures import DURATIONS
from headway.signals.buckets import latency_edges_milliseconds
from headway.wire import CLASS_TAG
from sandbox.traffic.mesh.snapshot import SUFFIX

REQUESTS = "istio_requests_total"
DURATION = "istio_request_duration_milliseconds"
SHADOW = re.compile(r"-shadow(:\d+)?$")
"""How Envoy ends the host of a copy."""
_NO_FLAGS = "-"
_UNTOLD = (0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000)
"""Milliseconds: the edges of a proxy that nobody told any (source/common/stats/histogram_impl.cc of Envoy, `defaultBuckets`)."""
_ROTATE_BYTES = 64 * 2**20

SeriesLabels = tuple[tuple[str, str], ...]


def labels_of(line: dict[str, Any]) -> dict[str, str] | None:
    """The labels of one logged request but code and flags; None for one that no destination was found for."""
    grpc = str(line.get("type") or "").startswith("application/grpc")
    common = {
        "reporter": line["at"],
        CLASS_TAG: line.get("class") or "",
        "request_protocol": "grpc" if grpc else "http",
        "grpc_response_status": str(line["grpc"]) if grpc and line.get("grpc") is not None else "",
    }
    if line["at"] == "destination":
        mirrored = "true" if SHADOW.search(str(line.get("authority") or "")) else "false"
        return common | of_replica(line["namespace"], line["workload"], line["pod"]) | {"mirrored": mirrored}
    parts = str(line.get("cluster") or "").split("|")
    if len(parts) != 4 or not parts[3].endswith(f".{SUFFIX}"):
        return None
    name, namespace = parts[3].removesuffix(f".{SUFFIX}").split(".", 1)
    return common | {
        "destination_service": parts[3],
        "destination_service_name": name,
        "destination_service_namespace": namespace,
    }


def of_replica(namespace: str, workload: str, pod: str) -> dict[str, str]:
    """Labels that name a replica; its arm's Service has the name of its Deployment."""
    return {
        "destination_service": f"{workload}.{namespace}.{SUFFIX}",
        "destination_service_name": workload,
        "destination_service_namespace": namespace,
        "destination_workload": workload,
        "destination_workload_namespace": namespace,
        "pod": pod,
    }


def told_edges(annotations: Mapping[str, str]) -> tuple[float, ...]:
    """What a pod's annotation tells its proxy; Envoy's own edges where it says nothing, or nothing that Istio's agent can read (which goes
    on without: pkg/bootstrap/config.go, `getStatsOptions`)."""
    try:
        return tuple(json.loads(annotations.get(BUCKETS_ANNOTATION, "")).get(DURATIONS) or _UNTOLD)
    except (ValueError, AttributeError, TypeError):
        return _UNTOLD


@dataclass
class _Histogram:
    edges: tuple[float, ...]
    buckets: list[int]
    total: int = 0
    sum: float = 0.0


@dataclass
class Telemetry:
    """Counters and latency histograms of everything that was logged: by the gateway's edges at callers, and at a replica by those that its
    pod told its proxy."""

    _edges: dict[tuple[str, str], tuple[float, ...]] = field(default_factory=dict[tuple[str, str], tuple[float, ...]])
    """By namespace and pod."""
    _requests: dict[SeriesLabels, int] = field(default_factory=dict[SeriesLabels, int])
    _durations: dict[SeriesLabels, _Histogram] = field(default_factory=dict[SeriesLabels, _Histogram])

    def take(self, line: dict[str, Any]) -> None:
        """Count one logged request."""
        labels = labels_of(line)
        if labels is None:
            return
        labels |= {"response_code": str(line["code"]), "response_flags": line.get("flags") or _NO_FLAGS}
        key = tuple(sorted(labels.items()))
        self._requests[key] = self._requests.get(key, 0) + 1
        histogram = self._histogram(key)
        milliseconds = float(line["duration"] or 0)
        histogram.buckets[bisect_left(histogram.edges, milliseconds)] += 1
        histogram.total += 1
        histogram.sum += milliseconds

    def introduce(self, namespace: str, workload: str, pod: str, annotations: Mapping[str, str]) -> None:
        """Let the series of a replica begin at zero, with the edges that its annotations say."""
        self._edges.setdefault((namespace, pod), told_edges(annotations))
        common = {"reporter": "destination", CLASS_TAG: "", "request_protocol": "http", "grpc_response_status": ""}
        answered = {"mirrored": "false", "response_code": "200", "response_flags": _NO_FLAGS}
        key = tuple(sorted((common | of_replica(namespace, workload, pod) | answered).items()))
        self._requests.setdefault(key, 0)
        self._histogram(key)

    def _histogram(self, key: SeriesLabels) -> _Histogram:
        if key not in self._durations:
            replica = _replica(key)
            edges = latency_edges_milliseconds() if replica is None else self._edges.get(replica, _UNTOLD)
            self._durations[key] = _Histogram(edges, [0] * (len(edges) + 1))
        return self._durations[key]

    def forget(self, pods: Collection[tuple[str, str]]) -> None:
        """Drop the series of replicas that are not among (namespace, pod): their proxies are gone."""
        for store in (self._requests, self._durations):
            for key in [key for key in store if _replica(key) not in {None, *pods}]:
                del store[key]
        self._edges = {place: edges for place, edges in self._edges.items() if place in pods}

    def exposition(self) -> Iterator[str]:
        """Prometheus' text format, in order."""
        yield f"# TYPE {REQUESTS} counter\n"
        for key, value in sorted(self._requests.items()):
            yield f"{REQUESTS}{{{_text(key)}}} {value}\n"
        yield f"# TYPE {DURATION} histogram\n"
        for key, histogram in sorted(self._durations.items()):
            text, below = _text(key), 0
            for edge, count in zip(
                (*(f"{edge:g}" if edge < 1 else str(edge) for edge in histogram.edges), "+Inf"), histogram.buckets, strict=True
            ):
                below += count
                yield f'{DURATION}_bucket{{{text},le="{edge}"}} {below}\n'
            yield f"{DURATION}_sum{{{text}}} {histogram.sum:.12g}\n"
            yield f"{DURATION}_count{{{text}}} {histogram.total}\n"


def _replica(key: SeriesLabels) -> tuple[str, str] | None:
    found = dict(key)
    return (found["destination_workload_namespace"], found["pod"]) if "pod" in found else None


def _text(key: SeriesLabels) -> str:
    return ",".join(f"{name}={json.dumps(value)}" for name, value in key)


class LogTail:
    """Reads the lines of a growing log, each once; `reopen` makes the writer begin a new file when this one is large.

    A reader that starts anew reads the file from its beginning, so that counters go on where they were.
    """

    def __init__(self, path: Path, reopen: Callable[[], None], rotate_bytes: int = _ROTATE_BYTES) -> None:
        self._path, self._reopen, self._rotate_bytes = path, reopen, rotate_bytes
        self._rest = b""
        self._stream: Any = None

    def lines(self) -> Iterator[dict[str, Any]]:
        """What is new."""
        if self._stream is None:
            if not self._path.exists():
                return
            self._stream = self._path.open("rb")
        yield from self._read()
        if self._stream.tell() > self._rotate_bytes:
            self._path.unlink()
            self._reopen()
            yield from self._read()
            self._stream.close()
            self._stream = None

    def _read(self) -> Iterable[dict[str, Any]]:
        *lines, self._rest = (self._rest + self._stream.read()).split(b"\n")
        return [json.loads(line) for line in lines if line]
