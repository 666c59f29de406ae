"""Faults of the model's server and of changes of what it runs. Each is played alone, and beside an innocent release or edit (`incidents.py`)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from benchmarks.diagnosis.played import ONSET, RELEASES, REPLACES, pod, says
from benchmarks.diagnosis.played_service import Incident, Play
from headway.diagnosis.facts import Change, ChangeKind, StateKind, TouchedField

_GPUS = ("clock", "hot", "power_capped", "replays")


class One(Protocol):
    """Makes a case of a calm service: what is otherwise since, and what else is known."""

    def __call__(self, name: str, truth: str = "", **more: object) -> Incident: ...


OWN = (
    "concurrency-lowered",
    "batching-raised",
    "cpu-lowered",
    "memory-lowered",
    "candidate-unfit",
    "limit-lowered",
    "model-slower-since-probes-changed",
    "model-slower-since-its-queue-grew",
    "batch-larger-since-probes-changed",
)
"""Faults that are changes themselves, or come with one that is innocent."""


def wrote(path: str, old: str, new: str, kind: ChangeKind = ChangeKind.RELEASE, before: float = 30.0) -> tuple[Change, ...]:
    """A change of which it is known what it wrote."""
    words, release = ("a commit", "") if kind is ChangeKind.CONTRACT else (REPLACES, RELEASES[1])
    touched = (TouchedField(path=path, old=old, new=new),)
    return (Change(kind=kind, time=ONSET - before, who="ci", words=words, release=release, touched=touched),)


def faults(calm: Play, one: One) -> Iterator[Incident]:
    yield one("load-failure", states=(says(StateKind.LOAD_FAILED),))
    yield one("load-failure-of-a-third", truth="load-failure", replicas=calm.replicas - 1, states=(says(StateKind.LOAD_FAILED),))
    yield one("model-process-dead", unreached=0.1, states=(says(StateKind.PROCESS_DIED),))
    yield one("probe-fails", unreached=0.2, states=(says(StateKind.PROBE_FAILING),))
    yield one("server-hangs-and-runs", truth="server-hangs", unreached=0.6, states=(says(StateKind.HANGING),))
    fresh = frozenset(range(calm.replicas))
    slower: dict[str, object] = {"fixed": calm.fixed * 2.5, "each": calm.each * 2.5, "fresh": fresh}
    probes, queue = wrote("health.liveness.interval", "10s", "15s"), wrote("batching.max_queue", "64", "65")
    busy = replace(calm, requests=180.0, instances=2)
    instances = wrote("runtime.models.defects.instances", "2", "1")
    yield one("concurrency-lowered", before=busy, instances=1, changes=instances, fresh=fresh)
    yield one("batching-raised", delay=0.100, changes=wrote("batching.max_delay", "1ms", "100ms"), fresh=fresh)
    yield one("cpu-lowered", reads=calm.reads + 0.040, throttled=0.5, changes=wrote("envelope.cpu", "4", "1"), fresh=fresh)
    killed = (says(StateKind.MEMORY_KILLED, pod(RELEASES[1], 1)),)
    yield one("memory-lowered", unreached=0.1, states=killed, changes=wrote("envelope.memory", "8Gi", "2Gi"), fresh=fresh)
    unfit = (says(StateKind.LOAD_FAILED, pod(RELEASES[1], 1)),)
    yield one("candidate-unfit", states=unfit, changes=wrote("artifact.digest", "a", "b", ChangeKind.CANDIDATE, 1200.0))
    yield one("maximum-lowered", before=replace(calm, requests=120.0), replicas=1, maximum=1.0)
    limit = wrote("quota.requests", "100/s", "40/s", ChangeKind.CONTRACT, 400.0)
    yield one("limit-lowered", limited=0.3, changes=limit)
    yield one("model-slower-since-probes-changed", truth="model-slower", changes=probes, **slower)
    yield one("model-slower-since-its-queue-grew", truth="model-slower", changes=queue, **slower)
    yield one("batch-larger-since-probes-changed", truth="batch-larger", delay=0.100, changes=probes, fresh=fresh)
    yield one("artifacts-late", states=(says(StateKind.FETCH_SLOW),))
    yield one("replica-cold", slower={1: 3.0}, states=(says(StateKind.YOUNG),))
    yield one("a-young-sibling", truth="one-replica-slow", slower={0: 3.0}, states=(says(StateKind.YOUNG),), unmeasured=_GPUS)
