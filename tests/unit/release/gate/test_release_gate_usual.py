"""What is usual for the stable version under load, beside a control that has next to none."""

import numpy as np
import pytest

from headway.release.gate import GatePolicy
from headway.release.gate.latency import Latency
from headway.release.gate.tail import LatencyTail
from headway.release.gate.usual import LoadEffect
from tests.unit.release_ticks import EDGES, SHARES, counts, slowed

TAIL = LatencyTail(EDGES)
YES = np.asarray([True])
JUDGED = np.ones((2, len(EDGES), 1), dtype=bool)


def above(requests: float, factor: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Requests above each edge, and all of them, by class; each takes `factor` times as long as usual."""
    buckets = (np.asarray([0.7, 0.3]) * requests)[:, None, None] * slowed(factor)[:, :, None]
    bad = TAIL.counts(buckets)
    return bad, bad[:, :1] + buckets[:, :1]


def baked(held: float, canary: float, minutes: int = 15, requests: float = 40.0) -> LoadEffect:
    """After so many minutes; `held` and `canary` say how many times as long requests take as usual."""
    effect = LoadEffect((2, len(EDGES)), 1, 1.0)
    effect.remember(TAIL.masses(SHARES[:, :, None]), np.asarray([False]))
    for _ in range(minutes):
        effect.observe(above(requests, held), above(2000.0, canary), YES)
    return effect


@pytest.mark.parametrize("factor", [0.7, 0.85, 1.0, 1.2])
def test_how_much_faster_the_held_back_arm_is_is_measured(factor):
    """By quantiles that are interpolated, so within some hundredths."""
    assert baked(factor, 1.0).faster(TAIL)[0] == pytest.approx(-np.log(factor), abs=0.03)


@pytest.mark.parametrize(("held", "canary", "most"), [(1.0, 1.5, np.inf), (0.7, 1.0, 1.0), (0.7, 1.2, 50.0), (0.7, 1.6, np.inf)])
def test_beside_a_faster_control_less_counts_than_the_canary_is_slower(held, canary, most):
    """A tenth is tolerated, and the hour may explain 15 % more."""
    assert baked(held, canary).most_evidence(TAIL, JUDGED, 0.1, 100.0)[0] == most


@pytest.mark.parametrize(("minutes", "requests"), [(9, 40.0), (14, 20.0)])
def test_what_is_not_measured_yet_is_doubted_as_well(minutes, requests):
    """Ten minutes, and 300 requests."""
    assert baked(1.0, 1.0, minutes, requests).most_evidence(TAIL, JUDGED, 0.1, 100.0)[0] == 1.0


def test_ten_minutes_and_three_hundred_requests_are_enough():
    assert baked(1.0, 1.0, 10, 30.0).most_evidence(TAIL, JUDGED, 0.1, 100.0)[0] == np.inf


def test_only_the_canarys_latest_minutes_are_compared_with_the_usual():
    effect = baked(0.7, 1.6, 60)
    for _ in range(80):
        effect.observe(above(40.0, 0.7), above(2000.0), YES)
    assert effect.most_evidence(TAIL, JUDGED, 0.1, 100.0)[0] == 1.0


def test_a_minute_that_does_not_count_changes_nothing():
    effect = baked(1.0, 1.0)
    for _ in range(60):
        effect.observe(above(40.0, 0.5), above(2000.0, 3.0), ~YES)
    assert effect.most_evidence(TAIL, JUDGED, 0.1, 100.0)[0] == np.inf
    assert not effect.slower_than_usual(TAIL, JUDGED, 0.1)[0]


@pytest.mark.parametrize(("requests", "canary", "held_up"), [(10.0, 1.5, True), (10.0, 1.2, False), (40.0, 1.5, False), (0.0, 1.5, False)])
def test_beside_few_held_back_a_canary_slower_than_usual_is_held_up(requests, canary, held_up):
    """Forty a minute are more than three hundred in what fades by half in ten minutes."""
    assert baked(1.0, canary, 30, requests).slower_than_usual(TAIL, JUDGED, 0.1)[0] == held_up


def test_what_was_usual_is_kept_as_it_was_before_the_bake():
    effect = baked(1.0, 1.0)
    effect.remember(TAIL.masses(slowed(2.0)[:, :, None]), YES)
    assert effect.masses == pytest.approx(TAIL.masses(SHARES[:, :, None]))


def test_the_first_that_is_known_of_the_usual_is_taken_in_the_bake_as_well():
    effect = LoadEffect((2, len(EDGES)), 1, 1.0)
    effect.remember(TAIL.masses(SHARES[:, :, None]), YES)
    assert effect.masses == pytest.approx(TAIL.masses(SHARES[:, :, None]))


@pytest.mark.parametrize(("requests", "judged"), [(50.0, True), (49.0, False)])
def test_a_class_is_judged_from_fifty_requests_of_its_past_on(requests, judged):
    latency = Latency(GatePolicy(), EDGES, 2, 1)
    short = counts(1000.0).buckets
    latency.memory.buckets[0, :, 0] = np.asarray(short)[0]
    latency.memory.buckets[1, :, 0] = [0.0, 0.0, requests - 10, 10.0, 0.0]
    latency.choose()
    assert latency.chosen[1].any() == judged
