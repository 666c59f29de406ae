"""A service on Triton, played request by request: callers, the way, each replica's proxy, and a server that computes batches. What a fault
does to everything behind it (queues that grow, batches that fill) follows from the play; nobody writes it down. Pure; seeded.

A batch begins when an instance is free and the batch is full, or its oldest request has waited for the batching delay
(Triton's dynamic batcher, `max_queue_delay_microseconds`); it takes `fixed` + `each` x its work. Times in seconds.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.diagnosis.played import AT, RELEASES, STEP, STEPS, Floats, PlayedIncident, Shown, pod, serial
from headway.diagnosis.facts import ServedSettings
from headway.diagnosis.observed import Observed


@dataclass(frozen=True, kw_only=True)
class Play:
    """How the service does, from one moment on. Rates a second; shares 0 to 1."""

    requests: float = 40.0
    work: float = 1.0
    """Of a request, in units of the usual one; its bytes follow."""
    way: float = 0.003
    proxy: float = 0.001
    reads: float = 0.001
    writes: float = 0.001
    fixed: float = 0.010
    each: float = 0.004
    delay: float = 0.001
    most: int = 16
    instances: int = 1
    """Batches that a replica computes at once."""
    replicas: int = 3
    maximum: float = 6.0
    promised: float = 0.060
    """Seconds in the server within which 99 of 100 requests are promised."""
    slower: Mapping[int, float] = field(default_factory=dict[int, float])
    """How many times as long a replica computes."""
    failing: float = 0.0
    unreached: float = 0.0
    limited: float = 0.0
    unproven: float = 0.0
    forbidden: float = 0.0
    malformed: float = 0.0
    overflow: float = 0.0
    pool_overflow: float = 0.0
    limiter: float = 0.001
    """Seconds for which each request waits for the limiter."""
    patience: float = math.inf
    """Seconds in the server after which a caller leaves."""
    again: float = 0.0
    """Of what failed, or whose callers left: the share that is asked again, in the next step; callers say so."""
    throttled: float = 0.0
    counters: Mapping[str, Mapping[int, float]] = field(default_factory=dict[str, Mapping[int, float]])
    """What a GPU's counters say, by measure and replica, where it is not the usual."""
    stalled: Mapping[str, Mapping[int, float]] = field(default_factory=dict[str, Mapping[int, float]])
    """For what a replica waits while it computes (cpu, memory, disk), and for which share of that time."""
    around: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    """What nodes, neighbours, groups of nodes, the gateway and the watchers say, by measure and label, where it is not the usual."""
    fresh: frozenset[int] = frozenset()
    """Replicas of the newest release."""


USUAL = {"clock": 1980.0, "hot": 0.0, "power_capped": 0.01, "replays": 0.0}
_AROUND: Mapping[str, Mapping[str, float]] = {
    "node_busy": {f"node-{number}": 0.35 for number in range(3)},
    "others_cores": {f"node-{number}": 1.5 for number in range(3)},
    "node_memory_left": {f"node-{number}": 0.6 for number in range(3)},
    "disk_busy": {f"node-{number}": 0.05 for number in range(3)},
    "disk_wait": {f"node-{number}": 0.001 for number in range(3)},
    "resent": {f"node-{number}": 0.0005 for number in range(3)},
    "packets_lost": {f"node-{number}": 0.1 for number in range(3)},
    "neighbours_cores": {"monitoring/agent": 0.1, "default/load-test": 0.2},
    "neighbours_memory": {"monitoring/agent": 2e8, "default/load-test": 1e9},
    "group_full": {"eks-l4-a-1a2b3c-x": 0.5, "eks-h100-a-1a2b3d-x": 1.0},
    "group_failing": {"eks-l4-a-1a2b3c-x": 0.0, "eks-h100-a-1a2b3d-x": 0.0},
    "neighbours": {"": 300.0},
    "gateway_throttled": {"": 0.0},
    "gateway_closed": {"": 0.0},
    "gateway_overloaded": {"": 0.0},
    "limiter_ready": {"": 2.0},
    "mesh_authority_left": {"": 3e7},
    "unread": {"": 0.0},
    "gpus_silent": {"": 0.0},
    "rules_failing": {"": 0.0},
}
_STALLS = ("cpu", "memory", "disk")
_USUAL_STALL = 0.02
_BYTES = 4000.0


@dataclass(frozen=True, kw_only=True)
class Incident(PlayedIncident[Play]):
    def played(self, seed: int) -> Observed:
        """What Prometheus would say of it."""
        replicas = max(self.before.replicas, self.since.replicas)
        return Observed(
            tenant="vision",
            model="defects",
            at=AT,
            step=STEP,
            series=self.series(_steps(self, self.random(seed), replicas)),
            states=self.states,
            changes=self.changes,
            hosts={
                name: f"node-{number}" for number in range(replicas) for name in (_gpu(number), *(pod(each, number) for each in RELEASES))
            },
            settings={
                each: ServedSettings(instances=play.instances) for each, play in zip(RELEASES, (self.before, self.since), strict=True)
            },
            blind=self.blind,
        )


def _steps(case: Incident, random: np.random.Generator, replicas: int) -> Iterator[Shown]:
    day = 1 + 0.1 * np.sin(np.linspace(0, np.pi, STEPS))  # the load of a day moves too
    wave = serial(random, STEPS, 0.5) * 0.05
    served = {number: _Replica(random, number) for number in range(replicas)}
    owed = 0
    for step in range(STEPS):
        play = case.before if step < case.began else case.since
        play = replace(play, requests=play.requests * float(day[step] * (1 + wave[step])))
        shown, owed = _step(random, play, served, step * STEP, owed)
        yield shown


class _Replica:
    """One replica's instances: until when each computes."""

    def __init__(self, random: np.random.Generator, number: int) -> None:
        self.random, self.number, self.free = random, number, [0.0]

    def batches(self, arrivals: Floats, work: Floats, play: Play) -> tuple[Floats, Floats, Floats]:
        """Of each request: time in the queue, time of its batch, and how many were in it."""
        queue, compute, size = np.zeros_like(arrivals), np.zeros_like(arrivals), np.ones_like(arrivals)
        waits = sum(by.get(self.number, 0.0) for by in play.stalled.values())
        slow = play.slower.get(self.number, 1.0) / (1 - waits)
        self.free = [*self.free, *[0.0] * play.instances][: play.instances]
        at = 0
        while at < len(arrivals):
            free = min(self.free)
            full = arrivals[at + play.most - 1] if at + play.most <= len(arrivals) else np.inf
            start = max(free, min(arrivals[at] + play.delay, full))
            end = min(int(np.searchsorted(arrivals, start, side="right")), at + play.most)
            end = max(end, at + 1)
            took = slow * (play.fixed + play.each * float(work[at:end].sum())) * float(np.exp(0.05 * self.random.normal()))
            queue[at:end], compute[at:end], size[at:end] = start - arrivals[at:end], took, end - at
            self.free[self.free.index(free)] = start + took
            at = end
        return queue, compute, size


def _step(
    random: np.random.Generator, play: Play, served: Mapping[int, _Replica], begin: float, owed: int
) -> tuple[Mapping[str, Mapping[str, float]], int]:
    """What is measured of the step, and how many requests callers may ask again; `owed`: as many of the step before."""
    turned = play.limited + play.unproven + play.forbidden + play.malformed + play.overflow + play.pool_overflow
    again = int(random.binomial(owed, play.again)) if play.again else 0
    arrived = random.poisson(play.requests * STEP) + again
    reached = int(random.binomial(arrived, max(0.0, 1 - turned - play.unreached)))
    whose = random.integers(0, play.replicas, reached)
    parts: dict[int, tuple[Floats, Floats, Floats, Floats]] = {}
    for number in range(play.replicas):
        count = int((whose == number).sum())
        arrivals = np.sort(begin + random.random(count) * STEP)
        work = play.work * random.lognormal(-0.045, 0.3, count)
        parts[number] = (work, *served[number].batches(arrivals, work, play))
    queue, compute, size = (np.concatenate([each[part] for each in parts.values()]) for part in (1, 2, 3))
    if not len(queue):
        queue = compute = size = np.array([np.nan])
    noise = [float(np.exp(0.03 * random.normal())) for _ in range(6)]
    reads, writes = play.reads * play.work * noise[0], play.writes * noise[1]
    inside = float(queue.mean() + compute.mean()) + reads + writes + 0.0003 * noise[2]
    waited_for = inside - float(np.maximum(queue + compute - play.patience, 0.0).mean())
    at_replica = waited_for + play.proxy * noise[3]
    latency = at_replica + (play.way + play.limiter) * noise[4]
    left = float((queue + compute > play.patience).mean()) * reached / max(arrived, 1)
    failed = float(random.binomial(reached, play.failing)) / max(arrived, 1)
    unreached = play.unreached * float(np.exp(0.1 * random.normal()))
    whole = {
        "requests": arrived / STEP,
        "latency": latency,
        "errors": failed + unreached + play.overflow + play.pool_overflow,
        "unreached": unreached,
        "late": 0.0,
        "left": left,
        "overflow": play.overflow,
        "pool_overflow": play.pool_overflow,
        "refused_there": 0.0,
        "limited": play.limited,
        "unproven": play.unproven,
        "forbidden": play.forbidden,
        "malformed": play.malformed,
        "repeated": again / max(arrived, 1),
        "limiter": play.limiter * noise[4],
        "request_size": _BYTES * play.work * noise[5],
        "at_replica": at_replica,
        "served": inside,
        "queue": float(queue.mean()),
        "input": reads,
        "compute": float(compute.mean()),
        "output": writes,
        "batch_size": len(size) / float((1 / size).sum()),
        "busy": float((compute / size).sum()) / STEP,
        "failures": float(random.binomial(reached, play.failing)) / max(reached, 1),
        "throttled": play.throttled * noise[2],
        "replicas": float(play.replicas),
        "maximum": play.maximum,
    }
    slower = float((queue + compute > play.promised).mean()) if len(queue) > 1 else 0.0
    whole["burn"] = slower / 0.01
    found: dict[str, dict[str, float]] = {name: {"": value} for name, value in whole.items()}
    for name, by_label in _AROUND.items():
        for label, usual in by_label.items():
            value = play.around.get(name, {}).get(label, usual)
            exact = name.startswith("group_") or name == "limiter_ready"  # counts, and their ratio, do not scatter
            found.setdefault(name, {})[label] = value if exact else value * float(np.exp(0.02 * random.normal()))
    for number, (_, waited, took, together) in parts.items():
        found.setdefault("answered_by_pod", {})[_pod(number, play)] = len(took) / STEP
        works = min(float((took / together).sum()) / STEP, 1.0) if len(took) else 0.0
        for each in _STALLS:
            share = play.stalled.get(each, {}).get(number, _USUAL_STALL) * works * noise[2]
            found.setdefault(f"{each}_stall_by_pod", {})[_pod(number, play)] = share
        found.setdefault("memory_by_pod", {})[_pod(number, play)] = play.around.get("memory_by_pod", {}).get(str(number), 0.5)
        if len(took):
            found.setdefault("busy_by_pod", {})[_pod(number, play)] = float((took / together).sum()) / STEP
            found.setdefault("compute_by_pod", {})[_pod(number, play)] = float(took.mean())
            found.setdefault("queue_by_pod", {})[_pod(number, play)] = float(waited.mean())
            found.setdefault("served_by_pod", {})[_pod(number, play)] = float((waited + took).mean()) + reads + writes
        fails = float(random.binomial(len(took), play.failing)) / max(len(took), 1)
        found.setdefault("malformed_by_pod", {})[_pod(number, play)] = play.malformed
        found.setdefault("failures_by_pod", {})[_pod(number, play)] = fails
        found.setdefault("throttled_by_pod", {})[_pod(number, play)] = play.throttled
        for counter, usual in USUAL.items():
            value = play.counters.get(counter, {}).get(number, usual) * float(np.exp(0.01 * random.normal()))
            found.setdefault(counter, {})[_gpu(number)] = value
    return found, int((whole["errors"] + left) * arrived)


def _pod(number: int, play: Play) -> str:
    return pod(RELEASES[number in play.fresh], number)


def _gpu(number: int) -> str:
    return f"GPU-{number}"
