"""Low traffic: longer ticks, and before the release a plain word where no verdict can come."""

import re

import pytest

from headway.contract.rollout import Rollout
from headway.release.backtest.rehearsal import rehearse
from headway.release.backtest.simulated import SimulatedTraffic
from headway.release.forecast import forecast_of, said, shortfall
from headway.release.gate import GatePolicy
from headway.release.tick_length import smallest_share, tick_seconds
from headway.release.worlds.scenarios import SCENARIOS
from headway.release.worlds.world import BASE

CANARY = {"strategy": "canary", "mirror": {"share": "100%"}}
LARGE_STEPS = Rollout.model_validate({**CANARY, "weights": ["25%", "50%"]})
NAMED = {scenario.name: scenario for scenario in SCENARIOS}


@pytest.mark.parametrize(
    ("rate", "share", "rollout", "seconds"),
    [
        (None, 0.01, {}, 60),
        (10.0, 0.05, {}, 60),
        (0.5, 0.1, {}, 60),
        (0.2, 0.1, {}, 120),
        (1.0, 0.01, {}, 240),
        (0.1, 0.1, {}, 240),
        (0.1, 0.01, {}, 300),
        (0.1, 0.01, {"blind_at_most": "6m"}, 120),
        (0.1, 0.01, {"unwatched_at_most": "4m"}, 120),
        (0.1, 0.01, {"unwatched_at_most": "1m"}, 60),
    ],
)
def test_a_tick_lasts_until_the_smallest_arm_has_two_requests(rate, share, rollout, seconds):
    assert tick_seconds(Rollout.model_validate({**CANARY, **rollout}), rate, share) == seconds


def test_the_smallest_share_counts_copies_where_there_are_some():
    assert smallest_share(GatePolicy(weights=(0.25, 0.5), mirror=0.1)) == 0.1
    assert smallest_share(GatePolicy(weights=(0.25, 0.5), mirror=0.0)) == 0.25
    assert smallest_share(GatePolicy(weights=(), mirror=0.0)) == 1.0


def test_one_request_in_ten_seconds_is_enough_for_a_verdict_within_a_day():
    (sentence,) = said(LARGE_STEPS, 0.1)
    assert re.fullmatch(r"At 0\.1 requests a second, in ticks of 2 min, half of good versions are promoted within \d+(\.\d)? h\.", sentence)


@pytest.mark.parametrize("scenario", ["p99 +50 %", "errors 5 %"])
def test_a_worse_version_is_found_at_one_request_in_ten_seconds(scenario):
    policy = GatePolicy(weights=(0.05, 0.25, 0.5)).in_ticks_of(240)
    traffic = SimulatedTraffic(BASE, NAMED[scenario], 0.1, 15, 1, 240.0)
    outcome = rehearse(traffic, policy, scenario, healthy=False, longest_ticks=360)
    assert (outcome.promoted, outcome.rolled_back) == (0, 15)
    assert outcome.minutes is not None and outcome.minutes < 6 * 60


def test_a_contract_that_cannot_be_proven_is_told_what_would_make_it_so():
    small = Rollout.model_validate(CANARY)
    found = forecast_of(small, 0.1)
    assert found is not None
    problem = shortfall(small, found)
    assert problem is not None
    assert "proven within 24 h" in problem.fact
    assert problem.remedy.startswith("Write rollout.weights: [25%, 50%]: then half of them are within ")
    assert not problem.blocking


def test_what_nothing_makes_provable_is_left_to_a_person():
    hasty = Rollout.model_validate({**CANARY, "weights": ["50%"], "at_most": "30m", "step_at_most": "20m"})
    found = forecast_of(hasty, 0.05)
    assert found is not None
    problem = shortfall(hasty, found)
    assert problem is not None
    assert problem.remedy.startswith("It cannot be proven by its own traffic")


@pytest.mark.parametrize(("rate", "strategy"), [(1.0, "canary"), (0.1, "rolling")])
def test_nothing_is_forecast_where_traffic_is_enough_or_weights_are_not_known(rate, strategy):
    assert forecast_of(Rollout.model_validate({"strategy": strategy}), rate) is None
    assert list(said(Rollout.model_validate({"strategy": strategy}), rate)) == []


@pytest.mark.parametrize("rate", [10.0, 100.0])
def test_a_service_that_is_idle_for_ten_minutes_is_promoted_within_thirty(rate):
    outcome = rehearse(SimulatedTraffic(BASE, NAMED["idle service"], rate, 40, 1), GatePolicy(), "", healthy=True, longest_ticks=240)
    assert (outcome.rolled_back, outcome.promoted) == (0, 40)
    assert outcome.minutes is not None and outcome.minutes <= 30
