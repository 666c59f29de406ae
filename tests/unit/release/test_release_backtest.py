"""Rehearsals on a history: calibrated on what did not change, awake to what did."""

import dataclasses

import numpy as np
import pytest

from headway.release.backtest import Backtest, History, PodHistory, RehearsalOutcome, RehearsedChange, backtest
from headway.release.gate import GatePolicy

EDGES = (25.0, 50.0, 100.0, 250.0, 500.0)
SHARES = np.array([0.15, 0.3, 0.35, 0.17, 0.025, 0.005])
POLICY = GatePolicy(weights=(0.05, 0.25, 0.5))


def history(pods=4, ticks=120, seed=1, odd=1.0, rate=900):
    rng = np.random.default_rng(seed)
    found = {}
    for number in range(pods):
        shares = SHARES.copy()
        if number == 0:
            shares[-2:] *= odd
        buckets = np.stack([rng.multinomial(rng.poisson(rate), shares / shares.sum()) for _ in range(ticks)]).astype(float)[:, None]
        errors = rng.binomial(buckets.sum(axis=2).astype(int), 0.001).astype(float)
        found[f"pod-{number}"] = PodHistory({"latency": buckets}, errors)
    return History(edges={"latency": EDGES}, classes=("all",), pods=found, answered=np.ones(ticks, dtype=bool), tick_seconds=60.0)


NOTHING = (RehearsedChange(name="none"),)


def rehearsed(of=None, changes=NOTHING, policy=POLICY, **options):
    asked = {"rehearsals": 30, "longest_ticks": 90, "rng": np.random.default_rng(7), **options}
    return backtest(of or history(), policy, changes=changes, **asked)


def test_a_version_compared_with_itself_is_promoted():
    outcome = rehearsed().outcomes[0]
    assert (outcome.rolled_back, outcome.promoted) == (0, 30)
    assert outcome.minutes is not None
    assert outcome.exposure > 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [(RehearsedChange(name="slow", slower=0.5), "failed_latency"), (RehearsedChange(name="failing", failing=0.05), "failed_errors")],
)
def test_what_is_done_to_one_arm_is_found(change, reason):
    outcome = rehearsed(changes=(change,)).outcomes[0]
    assert (outcome.rolled_back, outcome.promoted) == (30, 0)
    assert set(outcome.reasons) == {reason}
    assert outcome.exposure < 0.05


def test_a_service_whose_pods_differ_is_shown_not_to_keep_the_promise():
    found = rehearsed(history(odd=20.0))
    assert found.outcomes[0].rolled_back > 10
    assert not found.calibrated(0.01)
    assert rehearsed().calibrated(0.01)


@pytest.mark.parametrize("pods", [2, 3, 5])
def test_any_number_of_pods_can_be_divided(pods):
    outcome = rehearsed(history(pods=pods)).outcomes[0]
    assert (outcome.rolled_back, outcome.promoted) == (0, 30)


def test_one_pods_requests_are_divided():
    found = rehearsed(history(pods=1, rate=3600))
    assert found.pods == 1
    assert (found.outcomes[0].rolled_back, found.outcomes[0].promoted) == (0, 30)


def test_a_policy_without_copies_exposes_users_to_what_it_finds():
    unmirrored = dataclasses.replace(POLICY, mirror=0.0)
    outcome = rehearsed(changes=(RehearsedChange(name="slow", slower=1.0),), policy=unmirrored).outcomes[0]
    assert outcome.rolled_back == 30
    assert outcome.exposure > 0.1


def test_ticks_that_were_not_scraped_decide_nothing():
    blind = dataclasses.replace(history(), answered=np.zeros(120, dtype=bool))
    outcome = rehearsed(blind, changes=(RehearsedChange(name="slow", slower=1.0),)).outcomes[0]
    assert (outcome.rolled_back, outcome.promoted, outcome.minutes) == (0, 0, None)


def test_the_same_seed_gives_the_same_figures():
    assert rehearsed() == rehearsed()


def test_a_history_shorter_than_a_rehearsal_is_refused():
    with pytest.raises(ValueError, match=r"120 ticks of history\. A rehearsal takes 135"):
        rehearsed(longest_ticks=120)


@pytest.mark.parametrize(("rolled_back", "kept"), [(0, True), (5, True), (12, False)])
def test_a_promise_counts_as_broken_when_chance_no_longer_explains_it(rolled_back, kept):
    outcome = RehearsalOutcome(
        change="none", rehearsals=200, rolled_back=rolled_back, promoted=0, undecided=0, minutes=None, exposure=0.0, reasons={}
    )
    assert Backtest(outcomes=(outcome,), pods=2, ticks=9, unanswered=0).calibrated(0.01) is kept
