"""Rates and quantiles of both versions with their limits, as they follow from what ticks hold."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from headway.ledger.events import Event
from headway.release.driver.event_kinds import EventKind, OperatorRequest
from headway.release.driver.judge import first_decision, policy_document
from headway.release.gate import GatePolicy, comparison
from headway.release.report.measured import QUEUE_TOLERATED, MeasuredSignal, figures_of, signals

EDGES = (100.0, 200.0, 400.0)
POLICY = GatePolicy(mirror=1.0, memory=0.9, mismatch=0.01)
MIRRORING = first_decision(POLICY)
AT_FIVE: dict[str, Any] = {**MIRRORING, "counted": True, "stage": 1, "where": "5%", "weight": 0.05, "mirror": 0.0}
BAKING: dict[str, Any] = {**AT_FIVE, "phase": "baking", "where": "all traffic", "weight": 1.0}


def arm(requests: float, errors: float = 0.0, buckets: Sequence[float] | None = None, **more: float) -> dict[str, Any]:
    shape = buckets or (0.5, 0.49, 0.01, 0.0)
    return {"requests": [requests], "errors": [errors], "buckets": {"latency": [[requests * part for part in shape]]}, **more}


def event(kind: EventKind, body: Mapping[str, Any]) -> Event:
    return Event(number=1, time="2026-11-25T12:00:00.000Z", actor="ci", kind=kind, body=body, previous="")


def tick(decision: Mapping[str, Any], arms: Mapping[str, Any], **more: Any) -> Event:
    return event(EventKind.OBSERVED, {"raw": {"arms": arms, "edges": {"latency": list(EDGES)}, **more}, "decision": decision})


def measured(*events: Event, policy: GatePolicy = POLICY, stable: Mapping[str, Any] | None = None) -> dict[str, MeasuredSignal]:
    start = event(EventKind.STARTED, {"policy": policy_document(policy), "first": first_decision(policy)})
    learned = event(EventKind.LEARNED, {"raw": {"arms": {"stable": stable or arm(9000.0, 9.0)}, "edges": {"latency": list(EDGES)}}})
    return signals(figures_of((start, learned, *events)))


def at_five(canary: Mapping[str, Any], beside: Mapping[str, Any], arm_of: str = "baseline", **more: Any) -> dict[str, MeasuredSignal]:
    climbed = tick(AT_FIVE, {"mirrored": arm(10.0), "stable": arm(10.0)})
    return measured(climbed, tick(AT_FIVE, {"canary": canary, arm_of: beside}, **more))


def test_errors_are_shares_of_both_versions_with_limit_and_number() -> None:
    said = at_five(arm(1240.0, 12.15), arm(1250.0, 0.25))["errors"]
    assert said.text == "0.98 % against 0.02 %, limit 0.20 %, n 1,240"


def test_the_limit_of_errors_follows_what_the_stable_version_fails() -> None:
    said = at_five(arm(1000.0, 10.0), arm(1000.0, 20.0))["errors"]
    assert said.limit == pytest.approx(0.03)


def test_latency_is_the_quantile_between_the_edges_and_its_tolerated_rise() -> None:
    slow = (0.1, 0.4, 0.5, 0.0)
    said = at_five(arm(2000.0, buckets=slow), arm(2000.0))["latency"]
    assert said.figure == "p99"
    assert said.text == "396 ms against 200 ms, limit 220 ms, n 2,000"


def test_what_is_slower_than_the_last_edge_is_not_given_a_number() -> None:
    said = at_five(arm(2000.0, buckets=(0.5, 0.4, 0.0, 0.1)), arm(2000.0))["latency"]
    assert said.text.startswith(">400 ms against 200 ms")
    assert said.document()["new"] is None
    assert math.isinf(said.new)


def test_few_requests_are_shown_by_a_rougher_quantile() -> None:
    assert at_five(arm(100.0), arm(2000.0))["latency"].figure == "p90"


def test_copies_are_what_the_new_version_answered_before_it_has_traffic() -> None:
    found = measured(tick({**MIRRORING, "counted": True}, {"mirrored": arm(300.0, 3.0), "stable": arm(300.0), "canary": arm(0.0)}))
    assert found["errors"].text == "1.00 % against 0.00 %, limit 0.20 %, n 300"


def test_each_step_is_measured_anew() -> None:
    found = at_five(arm(400.0, 4.0), arm(400.0))
    assert found["errors"].n == 400


def test_a_tick_that_is_no_evidence_is_not_counted() -> None:
    blind = tick({**AT_FIVE, "counted": False}, {"canary": arm(5000.0, 5000.0), "baseline": arm(5000.0)})
    climbed = tick(AT_FIVE, {"mirrored": arm(10.0), "stable": arm(10.0)})
    assert measured(climbed, tick(AT_FIVE, {"canary": arm(500.0), "baseline": arm(500.0)}), blind)["errors"].text.endswith("n 500")


def test_without_a_baseline_of_its_size_the_stable_version_is_beside_it() -> None:
    found = at_five(arm(1000.0), arm(10.0, 10.0))
    assert found["errors"].earlier, "ten requests of a baseline are no arm of its size"
    beside = at_five(arm(1000.0), arm(9000.0, 45.0), "stable")
    assert beside["errors"].stable == pytest.approx(0.005)


def test_with_all_traffic_it_is_beside_what_the_stable_version_did_before() -> None:
    climbed = tick(AT_FIVE, {"mirrored": arm(10.0), "stable": arm(10.0)})
    full = tick(BAKING, {"canary": arm(500.0), "baseline": arm(500.0, 1.0)})
    baked = tick(BAKING, {"canary": arm(9000.0, 9.0), "stable": arm(0.0)})
    assert measured(climbed, full, baked)["errors"].text == "0.10 % against 0.20 % before, limit 0.30 %, n 9,000"


def test_figures_beside_those_held_back_say_that_these_had_less_load() -> None:
    climbed = tick(AT_FIVE, {"mirrored": arm(10.0), "stable": arm(10.0)})
    full = tick(BAKING, {"canary": arm(500.0), "baseline": arm(500.0)})
    alone, beside = (tick(BAKING, {"canary": arm(9000.0), "stable": arm(held_back)}) for held_back in (0.0, 450.0))
    assert figures_of((climbed, full, beside)).remark.startswith("The stable version then had few requests and so less load")
    assert [figures_of(events).remark for events in ((climbed, full), (climbed, full, alone))] == ["", ""]


def test_a_person_who_promotes_begins_the_bake() -> None:
    climbed = tick(AT_FIVE, {"mirrored": arm(10.0), "stable": arm(10.0)})
    five = tick(AT_FIVE, {"canary": arm(500.0), "baseline": arm(500.0)})
    asked = event(EventKind.ASKED, {"wish": OperatorRequest.PROMOTE.value, "reason": "now"})
    baked = tick(BAKING, {"canary": arm(70.0)})
    assert measured(climbed, five, asked, baked)["errors"].n == 70


def test_time_in_queue_and_gpu_time_are_means_of_a_request() -> None:
    found = at_five(arm(1000.0, queued=4.0, busy=30.0), arm(1000.0, queued=1.0, busy=20.0))
    assert found["queue"].text == "4 ms against 1 ms, limit 6.5 ms, n 1,000"
    assert found["cost"].text == "30 ms against 20 ms, limit 25 ms, n 1,000"


def test_gpu_time_is_compared_only_with_an_arm_of_its_size() -> None:
    assert "cost" not in at_five(arm(1000.0, busy=30.0), arm(9000.0, busy=20.0), "stable")


def test_answers_add_up_over_the_release_and_memory_is_the_newest() -> None:
    first = tick(AT_FIVE, {"mirrored": arm(10.0), "stable": arm(10.0)}, answers={"pairs": 100, "mismatches": 1}, memory=0.5)
    second = tick(AT_FIVE, {"canary": arm(10.0)}, answers={"pairs": 100, "mismatches": 0}, memory=0.61)
    found = measured(first, second)
    assert found["correctness"].text == "0.50 %, limit 1.00 %, n 200"
    assert found["memory"].text == "61.0 %, limit 90.0 %"


def test_nothing_is_said_of_what_nobody_counted() -> None:
    assert measured() == {}
    assert "queue" not in at_five(arm(100.0), arm(100.0))


def test_a_ledger_that_holds_no_counts_by_arm_is_read_all_the_same() -> None:
    assert measured(event(EventKind.OBSERVED, {"raw": {"answered": False}, "decision": {**AT_FIVE, "counted": True}})) == {}


def test_the_limit_of_the_queue_is_the_gates() -> None:
    assert getattr(comparison, "_QUEUE_TOLERATED") == QUEUE_TOLERATED  # noqa: B009  the gate's own number
