"""Rehearsals on a history: calibrated on what did not change, awake to what did."""

import dataclasses

import numpy as np
import pytest

from headway.release.backtest.backtest import Backtest, backtest, relaxations, simulated
from headway.release.backtest.history import History, PodHistory, RehearsedChange
from headway.release.backtest.rehearsal import RehearsalOutcome
from headway.release.gate import GatePolicy
from headway.release.worlds.scenarios import SCENARIOS
from headway.release.worlds.world import BASE

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
    asked = {"rehearsals": 30, "longest_ticks": 90, "seed": 7, **options}
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


def test_a_service_whose_two_pods_differ_is_shown_not_to_keep_the_promise():
    found = rehearsed(history(pods=2, odd=20.0))
    assert found.outcomes[0].rolled_back > 10
    assert not found.calibrated(0.01)
    assert rehearsed().calibrated(0.01)


def test_one_odd_pod_of_several_takes_nothing_back_as_in_a_release():
    assert rehearsed(history(pods=4, odd=20.0)).outcomes[0].rolled_back == 0


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


def outcome(rolled_back, healthy=True):
    return RehearsalOutcome(
        change="none",
        healthy=healthy,
        rehearsals=200,
        rolled_back=rolled_back,
        promoted=0,
        undecided=0,
        minutes=None,
        minutes_p90=None,
        minutes_spent=0.0,
        exposure=0.0,
        reasons={},
        waited={},
    )


@pytest.mark.parametrize(("rolled_back", "healthy", "kept"), [(0, True, True), (5, True, True), (12, True, False), (200, False, True)])
def test_a_promise_counts_as_broken_when_chance_no_longer_explains_it(rolled_back, healthy, kept):
    found = Backtest(outcomes=(outcome(rolled_back, healthy),), relaxed=(), pods=2, ticks=9, unanswered=0)
    assert found.calibrated(0.01) is kept


def test_every_minute_of_a_release_is_waited_for_something():
    found = rehearsed().outcomes[0]
    assert sum(found.waited.values()) == pytest.approx(found.minutes_spent)
    assert found.waited["ready"] == 2.0


def test_a_step_that_must_last_is_what_a_busy_release_waits_for():
    slow = dataclasses.replace(POLICY, step_ticks_at_least=10)
    found = rehearsed(history(rate=9000), policy=slow)
    assert max(found.outcomes[0].waited, key=lambda name: found.outcomes[0].waited[name]) == "step"
    assert found.relaxed[0].field == "rollout.step_at_least"
    assert found.relaxed[0].outcome.minutes_spent < found.outcomes[0].minutes_spent - 10


def test_undecided_rehearsals_count_for_all_their_minutes():
    blind = dataclasses.replace(history(), answered=np.zeros(120, dtype=bool))
    found = rehearsed(blind).outcomes[0]
    assert (found.minutes_spent, found.waited) == (90.0, {"data": 90.0})


def test_only_what_can_ask_for_less_is_relaxed():
    fields = [field for field, _, _ in relaxations(GatePolicy(step_ticks_at_least=1, weights=(0.25, 0.5), mirror=0.0), 60.0)]
    assert fields == ["rollout.mirror", "rollout.tolerances.latency_unacceptable", "rollout.tolerances.error_unacceptable"]


def test_a_history_says_how_busy_it_was():
    low, middle, high = history(pods=2, rate=600).rates()
    assert low < middle < high
    assert middle == pytest.approx(20, rel=0.05)


def test_a_simulated_world_shows_false_rollbacks_and_misses_of_a_policy():
    chosen = [scenario for scenario in SCENARIOS if scenario.name in ("identical versions", "p99 +50 %", "p99 +10 %")]
    found = simulated(BASE, GatePolicy(), rate=20.0, rehearsals=20, longest_ticks=90, seed=3, scenarios=chosen)
    assert [(one.change, one.healthy, one.wrong) for one in found.outcomes] == [("identical versions", True, 0), ("p99 +50 %", False, 0)]
    assert found.outcomes[0].promoted == 20
    assert found.outcomes[1].exposure < 0.05
