"""What the gate says of one replica carries the name that only the counters know."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.ledger.events import Event
from headway.release.driver.event_kinds import EventKind
from headway.release.driver.judge import RolloutJudge, gate_version, policy_document
from headway.release.evidence import reading
from headway.release.gate import GatePolicy
from tests.unit.release_ticks import EDGES, SHARES, SLOW


def rows(requests: float, shares: np.ndarray) -> list[list[float]]:
    return (np.asarray([0.7, 0.3])[:, None] * requests * shares).tolist()


def arm(replicas: Mapping[str, np.ndarray], requests: float) -> dict[str, Any]:
    each = {pod: rows(requests / len(replicas), shares) for pod, shares in replicas.items()}
    whole = np.sum(list(each.values()), axis=0)
    known = {pod: {"latency": counts} for pod, counts in each.items()}
    return {"requests": whole.sum(axis=1).tolist(), "errors": [0, 0], "buckets": {"latency": whole.tolist()}, "replicas": known}


def raw(**arms: Any) -> dict[str, Any]:
    service = reading.JudgedService(tenant="t", model="m", classes=("short", "long"))
    nothing = reading.unanswered(service, reading.TickWindow(0, 60), "")
    up = {"canary": True, "control": True}
    return {**nothing, "answered": True, "up": up, "edges": {"latency": EDGES}, "arms": arms}


def event(number: int, kind: EventKind, body: Mapping[str, Any]) -> Event:
    return Event(number=number, previous="", time="2026-11-21T12:00:00+00:00", actor="ci", kind=kind, body=dict(body))


def decisions(replicas: Mapping[str, np.ndarray], ticks: int) -> Sequence[dict[str, Any]]:
    policy = policy_document(GatePolicy(weights=(0.1, 0.5)))
    started = {"gate": gate_version(), "policy": policy, "tick_seconds": 60.0}
    events = [event(0, EventKind.STARTED, started), event(1, EventKind.LEARNED, {"raw": raw(stable=arm({"m-r1-a": SHARES}, 9000))})]
    judge = RolloutJudge.of(events, reading)
    assert judge
    seen = raw(stable=arm({"m-r1-a": SHARES}, 6000), mirrored=arm(replicas, 6000))
    told: list[dict[str, Any]] = []
    for number in range(ticks):
        told.append(judge.decide(seen, frozen=False))
        assert judge.follow(event(2 + number, EventKind.OBSERVED, {"raw": seen, "frozen": False})) == told[-1]
    return told


def test_the_slow_replica_is_named_with_its_figures():
    last = decisions({"m-r2-a": SHARES, "m-r2-b": SLOW}, 30)[-1]
    assert last["reason"] == "ONE_REPLICA"
    assert "not those of all replicas of the new version" in last["sentence"]
    assert "% of the requests of m-r2-b took longer than 250 ms" in last["sentence"]


def test_no_replica_is_named_where_the_version_is_slow_in_all():
    last = decisions({"m-r2-a": SLOW, "m-r2-b": SLOW}, 30)[-1]
    assert "m-r2" not in last["sentence"]
