"""Faults of the model's server and of changes of what it runs. Each is played alone, and beside an innocent release or edit (`incidents.py`)."""

from collections.abc import Iterator
from typing import Protocol

from benchmarks.diagnosis.played_service import AT, STEP, STEPS, Incident, Play, pod
from headway.diagnosis.facts import State, StateKind

_ONSET = AT - (STEPS - 60) * STEP


class One(Protocol):
    """Makes a case of a calm service: what is otherwise since, and what else is known."""

    def __call__(self, name: str, truth: str = "", **more: object) -> Incident: ...


def _state(kind: StateKind) -> State:
    return State(kind=kind, subject=pod("r9876543210", 1), words=kind.value.replace("-", " "), since=_ONSET)


def faults(calm: Play, one: One) -> Iterator[Incident]:
    yield one("load-failure", states=(_state(StateKind.LOAD_FAILED),))
    yield one("load-failure-of-a-third", truth="load-failure", replicas=calm.replicas - 1, states=(_state(StateKind.LOAD_FAILED),))
    yield one("model-process-dead", unreached=0.1, states=(_state(StateKind.PROCESS_DIED),))
    yield one("probe-fails", unreached=0.2, states=(_state(StateKind.PROBE_FAILING),))
