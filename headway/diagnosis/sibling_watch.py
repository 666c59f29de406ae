"""Reads replicas' times from Prometheus window by window, and says which nodes have one that is slower than its siblings.

Nothing is kept between starts: a loop that begins, or takes over from another, goes through the latest half hour again, which can only find
less than one that was there all the time. Windows lie on a grid of Unix time, so both see the same ones.

A replica's time is its server's: of Triton the mean time of the batch in which a request was computed, of vLLM that between two tokens. What it
was given to do: requests in a batch, tokens in an engine's step, its use of the KV cache, bytes of a request. A window in which its CPU quota
was used up, in which it waited for its node (`node_measures`), or with fewer than `LEAST_ANSWERS`, is not judged. Names of series are those of
`measures`.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from headway.diagnosis.slow_sibling import (
    LEAST_PROOF,
    WARM_UP_WINDOWS,
    WINDOW_SECONDS,
    Floats,
    SiblingEvidence,
    sibling_evidence,
    watched,
)
from headway.node_health.facts import GpuNode, SlowReplica
from headway.release.evidence.prometheus import Prometheus, PrometheusEndpoint, UnansweredError
from headway.release.evidence.samples import Series
from headway.wire import SERVER_CONTAINER

HISTORY_WINDOWS = 120
"""That a loop which begins goes through: half an hour."""
_AT_ONCE_WINDOWS = 8
"""That one answer has: of more, all containers of a cluster would not fit in the loop's memory."""
WATCHED = 1.0
"""Evidence from which on people are shown a node that is not proven slow yet: by chance at most about once a node and year (`slow_sibling`)."""
LEAST_ANSWERS = 10.0
_LATE_SECONDS = 20.0
"""After a window's end, until each target has been read once more and its samples are there."""
_SHORTEST_SECONDS, _LONGEST_SECONDS = 1e-9, 86400.0
"""That anything computed here takes; pods may say any number, whose quotient could be none."""
_MOST_THROTTLED = 0.05
"""Share of scheduling periods."""
_SHOWN_WINDOWS = 20
"""Of which the words about a replica are the mean: five minutes."""

_TRITON = ("nv_inference_compute_infer_duration_us", "nv_inference_count", "nv_inference_exec_count")
_VLLM = tuple(f"vllm:{name}_{part}" for name in ("inter_token_latency_seconds", "iteration_tokens_total") for part in ("sum", "count"))
_CACHE = "vllm:kv_cache_usage_perc"
_BYTES = ("istio_request_bytes_sum", "istio_request_bytes_count")
_QUOTA = ("container_cpu_cfs_throttled_periods_total", "container_cpu_cfs_periods_total")
_STALLS = tuple(f"container_pressure_{of}_waiting_seconds_total" for of in ("cpu", "memory", "io"))
_MOST_STALLED = 0.05
"""Share of the time in which it computes: all that it computes at once waits together."""
_MEASURES = 3


class ReplicaWindow(NamedTuple):
    """One replica in one window; not-a-number for what is not known, or not to be judged."""

    time: float
    sizes: tuple[float, float, float]
    """Work in one step of the server, part of the KV cache in use, bytes of a request."""


class SiblingGroup(NamedTuple):
    """Replicas that are compared: one version on one pool, so one kind of GPU and one slice of it. `pods` and their `nodes` by name."""

    pods: tuple[str, ...]
    nodes: tuple[str, ...]


Windows = Mapping[int, Mapping[str, ReplicaWindow]]
"""Replicas by `namespace/name`, by the number of the window since 1970."""


def groups(nodes: Iterable[GpuNode]) -> Mapping[tuple[str, ...], SiblingGroup]:
    """Those of at least two."""
    found: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for node in nodes:
        for pod in node.pods:
            if pod.gpus and pod.model and pod.release and pod.movable:
                place = (pod.namespace, pod.model, pod.release, node.pool, str(pod.gpus))
                found.setdefault(place, []).append((f"{pod.namespace}/{pod.name}", node.name))
    return {place: SiblingGroup(*zip(*sorted(pods), strict=True)) for place, pods in found.items() if len(pods) > 1}


def queries(seconds: float) -> tuple[str, ...]:
    """All samples of the last so many seconds."""
    own = "|".join((*_TRITON, *_VLLM, _CACHE))
    span = f"[{seconds:.0f}s]"
    return (
        f'{{__name__=~"{own}",platform_io_model!=""}}{span}',
        f'{{__name__=~"{"|".join(_BYTES)}",reporter="destination",mirrored!="true",pod!=""}}{span}',
        f'{{__name__=~"{"|".join(_QUOTA)}",container!=""}}{span}',
        f'{{__name__=~"{"|".join(_STALLS)}",container="{SERVER_CONTAINER}"}}{span}',
    )


def windows(series: Iterable[Series], first: int, last: int) -> Windows:
    """Of windows `first` to `last`."""
    risen: dict[tuple[int, str, str], float] = {}
    for each in series:
        name, pod = each.labels.get("__name__", ""), f"{each.labels.get('namespace', '')}/{each.labels.get('pod', '')}"
        for number, value in (_levels if name == _CACHE else _rises)(each.samples):
            if first <= number <= last:
                place = (number, pod, name)
                risen[place] = risen.get(place, 0.0) + value
    found: dict[int, dict[str, ReplicaWindow]] = {}
    for number, pod in sorted({(number, pod) for number, pod, _ in risen}):

        def of(name: str, number: int = number, pod: str = pod) -> float:
            return risen.get((number, pod, name), math.nan)

        one = _window(of)
        if math.isfinite(one.time):
            found.setdefault(number, {})[pod] = one
    return found


def _window(of: Callable[[str], float]) -> ReplicaWindow:
    total, answers, batches = (of(name) for name in _TRITON)
    batch, seconds = _ratio(answers, batches), total / 1e6
    if math.isnan(total):
        answers, seconds = of(_VLLM[1]), of(_VLLM[0])
        batch = _ratio(of(_VLLM[2]), of(_VLLM[3]))
    throttled = _ratio(of(_QUOTA[0]), of(_QUOTA[1])) > _MOST_THROTTLED
    stalled = any(_ratio(of(each) * batch, seconds) > _MOST_STALLED for each in _STALLS)
    size, time = (batch, of(_CACHE), _ratio(*map(of, _BYTES))), _ratio(seconds, answers)
    judged = answers >= LEAST_ANSWERS and _SHORTEST_SECONDS < time < _LONGEST_SECONDS and not throttled and not stalled
    return ReplicaWindow(time if judged else math.nan, size)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan


def _latest(samples: Sequence[tuple[float, float]]) -> dict[int, float]:
    return {math.floor(moment / WINDOW_SECONDS): value for moment, value in samples}


def _levels(samples: Sequence[tuple[float, float]]) -> Iterable[tuple[int, float]]:
    return _latest(samples).items()


def _rises(samples: Sequence[tuple[float, float]]) -> Iterable[tuple[int, float]]:
    """From the last sample of one window to that of the next; a window without one, or in which a counter began anew, has none."""
    found = _latest(samples)
    for number, value in found.items():
        before = found.get(number - 1)
        if before is not None and value >= before:
            yield number, value - before


@dataclass(kw_only=True)
class SiblingWatch:
    """Goes through windows as they end. `ask` answers all samples of the last seconds before a moment; raises UnansweredError."""

    ask: Callable[[float, float], Iterable[Series]]
    answered: bool = field(default=True, init=False)
    _done: int = field(default=0, init=False)
    _known: dict[tuple[str, ...], tuple[SiblingGroup, SiblingEvidence]] = field(
        default_factory=dict[tuple[str, ...], tuple[SiblingGroup, SiblingEvidence]], init=False
    )
    _recent: dict[str, deque[float]] = field(default_factory=dict[str, "deque[float]"], init=False)

    def __call__(self, nodes: Sequence[GpuNode], now: float) -> Mapping[str, SlowReplica]:
        """Nodes with a replica that is proven slower, or is watched for it, at `now` in Unix seconds; the slowest of each. Nothing new where
        Prometheus does not answer."""
        newest = math.floor((now - _LATE_SECONDS) / WINDOW_SECONDS) - 1
        here = groups(nodes)
        self._done = max(self._done, newest - HISTORY_WINDOWS)
        while self._done < newest:
            first, last = self._done + 1, min(self._done + _AT_ONCE_WINDOWS, newest)
            try:
                found = windows(self.ask((last - first + 2) * WINDOW_SECONDS, (last + 1) * WINDOW_SECONDS), first, last)
            except UnansweredError:
                self.answered = False
                break
            self.answered = True
            self._seat(here)
            for number in range(first, last + 1):
                for place, group in here.items():
                    self._watch(place, group, found.get(number, {}))
            self._done = last
        return self._slow(here)

    def _seat(self, here: Mapping[tuple[str, ...], SiblingGroup]) -> None:
        """Replicas that are there now, with what is known of them."""
        known = {}
        for place, group in here.items():
            fresh = sibling_evidence((len(group.pods),), _MEASURES)
            known[place] = (group, _seated(*self._known[place], group, fresh) if place in self._known else fresh)
        self._known = known
        there = {pod for group in here.values() for pod in group.pods}
        self._recent = {pod: self._recent.get(pod, deque(maxlen=_SHOWN_WINDOWS)) for pod in there}

    def _watch(self, place: tuple[str, ...], group: SiblingGroup, found: Mapping[str, ReplicaWindow]) -> None:
        nothing = ReplicaWindow(math.nan, (math.nan, math.nan, math.nan))
        seen = [found.get(pod, nothing) for pod in group.pods]
        times, sizes = np.asarray([each.time for each in seen]), np.asarray([each.sizes for each in seen])
        after = watched(self._known[place][1], times, sizes)
        self._known[place] = (group, after)
        for number, pod in enumerate(group.pods):
            if math.isfinite(times[number]):
                self._recent[pod].append(float(after.last[number]))

    def _slow(self, here: Mapping[tuple[str, ...], SiblingGroup]) -> Mapping[str, SlowReplica]:
        replicas: dict[str, int] = {}
        for group in here.values():
            for node in group.nodes:
                replicas[node] = replicas.get(node, 0) + 1
        found: dict[str, SlowReplica] = {}
        for group, evidence in self._known.values():
            warm = int((evidence.seen >= WARM_UP_WINDOWS).sum())
            for pod, node, value in zip(group.pods, group.nodes, evidence.value.tolist(), strict=True):
                needed = LEAST_PROOF * replicas.get(node, 1)
                if value < WATCHED:
                    continue
                slower = math.exp(float(np.mean(self._recent[pod])))
                this = SlowReplica(pod=pod, slower=slower, siblings=warm - 1, evidence=value, needed=needed)
                if node not in found or (found[node].proven, found[node].slower) < (this.proven, slower):
                    found[node] = this
        return found


def _seated(before: SiblingGroup, evidence: SiblingEvidence, group: SiblingGroup, fresh: SiblingEvidence) -> SiblingEvidence:
    if before.pods == group.pods:
        return evidence
    old = {pod: number for number, pod in enumerate(before.pods)}
    to = [number for number, pod in enumerate(group.pods) if pod in old]
    come_from = [old[group.pods[number]] for number in to]

    def moved(own: Floats, new: Floats) -> Floats:
        kept = new.copy()
        kept[to] = own[come_from]
        return kept

    return SiblingEvidence(
        wealth=replace(evidence.wealth, wealth=moved(evidence.wealth.wealth, fresh.wealth.wealth)),
        shown=moved(evidence.shown, fresh.shown),
        last=moved(evidence.last, fresh.last),
        noise=moved(evidence.noise, fresh.noise),
        size=moved(evidence.size, fresh.size),
        seen=moved(evidence.seen, fresh.seen),
    )


def asking(address: str) -> Callable[[float, float], Iterable[Series]]:
    """Asks the Prometheus there. Raises UserError for what is no address."""
    client = Prometheus(PrometheusEndpoint(url=address), timeout_seconds=10.0)
    return lambda seconds, at: [series for query in queries(seconds) for series in client.samples(query, at)]
