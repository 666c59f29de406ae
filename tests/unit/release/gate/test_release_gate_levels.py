"""Signals that are one number a tick: time in queue, GPU time of a request; and what blocks an advance without failing."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.release.gate import Counts, Gate, GatePolicy, Phase, Reason, Tick, Verdict
from headway.release.gate.evidence import TickStake
from headway.release.gate.level import LevelLimits, LevelTest, Saturation

EDGES = (50.0, 100.0, 250.0)
SHARES = np.array([0.4, 0.4, 0.17, 0.03])
POLICY = GatePolicy(weights=(0.1, 0.5), mirror=0.0, counted_ticks_at_least=3, step_ticks_at_least=1, bake_ticks=3)


def counts(requests, *, queued=None, busy=None):
    buckets = np.round(SHARES * requests)[None]
    known = {key: value * requests for key, value in (("queued", queued), ("busy", busy)) if value is not None}
    return Counts(buckets=buckets, errors=np.zeros(1), **known)


def release(policy=POLICY, ticks=60, canary=None, control=None, **flags: Any):
    """All decisions on a version that is the same but for what `canary` says of a request."""
    gate = Gate(policy, EDGES)
    gate.learn(counts(9000))
    decision, decisions = gate.start(), []
    for _ in range(ticks):
        weight, baseline = float(decision.weight), float(decision.baseline_weight)
        flagged: dict[str, Any] = {name: flag(weight) if callable(flag) else flag for name, flag in flags.items()}
        now: Any = (canary() if callable(canary) else canary) or {}
        decision = gate.observe(
            Tick(
                stable=counts(6000 * (1 - weight - baseline), **(control or {})),
                baseline=counts(6000 * baseline, **(control or {})),
                canary=counts(6000 * weight, **now),
                **flagged,
            )
        )
        decisions.append(decision)
        if int(decision.phase) != Phase.RELEASING:
            break
    return decisions


@pytest.mark.parametrize("number", ["queued", "busy"])
def test_a_number_that_is_high_all_the_time_holds_a_version(number):
    last = release(canary={number: 0.09}, control={number: 0.03}, ticks=25)[-1]
    assert (Phase(int(last.phase)), Reason(int(last.reason)), float(last.weight)) == (Phase.RELEASING, Reason.QUEUE_OR_COST, 0.1)
    assert float(last.signals["latency"].evidence) < 5


@pytest.mark.parametrize(("number", "reason"), [("queued", Reason.FAILED_QUEUE), ("busy", Reason.FAILED_COST)])
def test_a_number_that_is_high_again_and_again_is_rolled_back(number, reason):
    minutes = itertools.count()
    last = release(canary=lambda: {number: 0.09 if next(minutes) % 4 == 0 else 0.03}, control={number: 0.03}, ticks=120, freeze=True)[-1]
    assert (Phase(int(last.phase)), Reason(int(last.reason))) == (Phase.ROLLED_BACK, reason)


@pytest.mark.parametrize("number", ["queued", "busy"])
def test_the_same_number_in_both_arms_is_promoted(number):
    last = release(canary={number: 0.03}, control={number: 0.03})[-1]
    assert Phase(int(last.phase)) == Phase.BAKING


def test_cost_is_not_compared_with_an_arm_of_another_size():
    """A replica that batches less spends more GPU time on a request, whatever its version."""
    last = release(dataclasses.replace(POLICY, baseline=False), canary={"busy": 0.09}, control={"busy": 0.03})[-1]
    assert Phase(int(last.phase)) == Phase.BAKING
    assert Verdict(int(last.signals["cost"].verdict)) == Verdict.NO_DATA


def test_a_number_that_is_no_longer_measured_does_not_hold_a_release_for_ever():
    gate, decision = Gate(POLICY, EDGES), None
    gate.learn(counts(9000))
    decision = gate.start()
    for _ in range(40):
        busy = {"busy": 0.03} if float(decision.weight) < 0.5 else {}
        arms: dict[str, Any] = {"stable": 6000 * (1 - 2 * float(decision.weight)), "baseline": 6000 * float(decision.weight)}
        arms["canary"] = arms["baseline"]
        measured: dict[str, Any] = {name: counts(requests, **busy) for name, requests in arms.items()}
        decision = gate.observe(Tick(**measured))
        if int(decision.phase) != Phase.RELEASING:
            break
    assert Phase(int(decision.phase)) == Phase.BAKING


def test_a_wait_within_the_floor_is_nothing_whatever_the_ratio():
    last = release(canary={"queued": 0.004}, control={"queued": 0.0001})[-1]
    assert Phase(int(last.phase)) == Phase.BAKING


def test_what_nobody_measures_is_neither_asked_for_nor_counted():
    decisions = release()
    assert Phase(int(decisions[-1].phase)) == Phase.BAKING
    assert all(Verdict(int(decisions[-1].signals[name].verdict)) == Verdict.NO_DATA for name in ("queue", "cost"))


def test_no_traffic_grows_before_golden_answers_pass():
    golden = dataclasses.replace(POLICY, golden=True)
    waiting = release(golden, ticks=20)
    assert [float(decision.weight) for decision in waiting] == [0.1] * 20
    assert Reason(int(waiting[-1].reason)) == Reason.UNANSWERED_GOLDEN
    assert Phase(int(release(golden, pairs=20)[-1].phase)) == Phase.BAKING


def test_answers_that_differ_are_no_pass():
    last = release(dataclasses.replace(POLICY, golden=True), pairs=20, mismatches=3)[-1]
    assert (Phase(int(last.phase)), Reason(int(last.reason))) == (Phase.ROLLED_BACK, Reason.FAILED_CORRECTNESS)


def test_traffic_does_not_grow_before_answers_to_copies_were_compared():
    copied = dataclasses.replace(POLICY, mirrored=0.05)
    waiting = release(copied, ticks=20, pairs=20)
    assert [float(decision.weight) for decision in waiting] == [0.1] * 20, "golden answers are no answers to copies"
    assert Verdict(int(waiting[-1].signals["mirrored"].verdict)) == Verdict.NO_DATA
    assert Phase(int(release(copied, mirrored_pairs=20)[-1].phase)) == Phase.BAKING


@pytest.mark.parametrize(("differing", "phase"), [(8, Phase.ROLLED_BACK), (1, Phase.BAKING)])
def test_too_many_differing_answers_to_copies_roll_a_version_back(differing, phase):
    last = release(dataclasses.replace(POLICY, mirrored=0.05), mirrored_pairs=20, mirrored_mismatches=differing)[-1]
    assert Phase(int(last.phase)) == phase
    assert Reason(int(last.reason)) == (Reason.FAILED_CORRECTNESS if phase == Phase.ROLLED_BACK else last.reason)


def test_copies_that_nobody_compares_take_nothing_of_the_budget():
    assert "mirrored" not in release(mirrored_pairs=20, mirrored_mismatches=20)[-1].signals
    budget, shared = POLICY.alpha, dataclasses.replace(POLICY, mirrored=0.05).alpha
    assert sum(budget.values()) == pytest.approx(sum(shared.values())) == pytest.approx(POLICY.false_rollback)
    assert shared["correctness"] == shared["mirrored"] == budget["correctness"] / 2


def test_a_version_whose_gpus_would_be_too_busy_at_the_next_weight_waits():
    """At 10 % its 600 requests keep GPUs busy for 12 s; at 50 % it would be 60 s."""
    full = release(ticks=20, canary={"busy": 0.02}, control={"busy": 0.02}, capacity=65.0)
    assert [float(decision.weight) for decision in full] == [0.1] * 20
    assert Reason(int(full[-1].reason)) == Reason.SATURATING
    assert Phase(int(full[-1].phase)) == Phase.RELEASING, "a projection rolls nothing back"
    roomy = release(ticks=20, canary={"busy": 0.02}, control={"busy": 0.02}, capacity=lambda weight: 80.0 if weight < 0.5 else 160.0)
    assert Phase(int(roomy[-1].phase)) == Phase.BAKING


@pytest.mark.parametrize("flags", [{"out_of_memory": True}, {"fatal_gpu_error": True}, {"restarts": 2}])
def test_a_pod_that_dies_is_found_though_its_counters_are_not_scraped(flags):
    last = release(canary_up=False, **flags)[-1]
    assert Phase(int(last.phase)) == Phase.ROLLED_BACK


def at(rollouts, stake):
    return TickStake(np.full(rollouts, stake), np.zeros(rollouts, dtype=np.int64), np.full(rollouts, 10.0))


def accused(mine: Callable[[int], np.ndarray], other: Callable[[int], np.ndarray], rollouts: int, tolerated: float = 1.0) -> np.ndarray:
    """The largest evidence in 240 ticks against arms whose numbers these are."""
    level, worst = LevelTest(LevelLimits(tolerated, 2.0), rollouts), np.zeros(rollouts)
    many = np.full(rollouts, 50.0)
    for number in range(240):
        level.compare(mine(number), other(number), many, many, at(rollouts, 0.4 if number == 0 else 0.6 / 239))
        worst = np.maximum(worst, level.evidence())
    return worst


def test_alike_arms_of_wild_numbers_are_seldom_accused():
    """Heavy-tailed means, looked at after each of 240 ticks: the bound of 1,000 is reached by one in 1,000 at most."""
    rng, rollouts = np.random.default_rng(3), 4000
    worst = accused(lambda _: rng.pareto(1.1, rollouts), lambda _: rng.pareto(1.1, rollouts), rollouts)
    assert (worst >= 20).mean() <= 0.05
    assert (worst >= 1000).mean() <= 0.002


@pytest.mark.parametrize("smooth", [False, True], ids=["by steps", "smoothly"])
@pytest.mark.parametrize("correlation", [0.5, 0.9, 0.98])
@pytest.mark.parametrize("tolerated", [1.0, 1.5])
def test_alike_arms_whose_queues_stay_long_for_a_while_are_seldom_accused(correlation: float, smooth: bool, tolerated: float):
    """Each arm's queue varies by half, and depends on the minute before; `smoothly`, on the direction that it had, too."""
    rng, rollouts = np.random.default_rng(4), 4000
    level, slope = np.zeros((2, rollouts)), np.zeros((2, rollouts))

    def waits(arm: int) -> Callable[[int], np.ndarray]:
        def wait(_: int) -> np.ndarray:
            slope[arm] = (0.8 if smooth else 0.0) * slope[arm] + math.sqrt(1 - correlation**2) * 0.5 * rng.standard_normal(rollouts)
            level[arm] = correlation * level[arm] + slope[arm]
            return 0.02 * np.exp(level[arm])

        return wait

    worst = accused(waits(0), waits(1), rollouts, tolerated)
    assert (worst >= 20).mean() <= 0.05
    assert (worst >= 1000).mean() <= 0.002


@given(st.lists(st.floats(-3.0, 3.0), min_size=4, max_size=7), st.floats(0.0, 1.0))
@settings(max_examples=60)
def test_a_bet_never_pays_more_than_fair(steps: list[float], stake: float):
    """All ways in which each stretch between two meetings of the arms may lie above or below, together: worth the stake at most."""
    values: list[float] = []
    for signs in itertools.product((1, -1), repeat=len(steps)):
        level = LevelTest(LevelLimits(1.5, 2.0), 1)
        logs = [log for sign, step in zip(signs, steps, strict=True) for log in (sign * step, 0.0)]
        for place, log in enumerate(logs):
            level.compare(np.exp([log]), np.ones(1), np.array([9.0]), np.array([9.0]), at(1, 0.0 if place else stake))
        values.append(float(level.evidence()[0]))
    assert sum(values) / len(values) <= stake + 1e-12


def test_a_tick_with_few_requests_or_without_the_number_says_nothing():
    level = LevelTest(LevelLimits(1.0, 2.0), 1)
    for value, requests in ((9.0, 4.0), (np.nan, 50.0)):
        level.compare(np.array([value]), np.array([1.0]), np.array([requests]), np.array([50.0]), at(1, 1.0))
    assert float(level.evidence()[0]) == 0.0
    assert np.isnan(level.proven()[0])


def test_projected_use_follows_the_latest_ticks():
    saturation, always = Saturation(1), np.array([True])
    for busy in [1.0] * 50 + [3.0] * 50:
        saturation.observe(np.array([busy]), np.array([10.0]), always)
    assert float(saturation.projected(np.array([100.0]), np.array([60.0]))[0]) == pytest.approx(0.5, rel=0.02)
    assert np.isnan(saturation.projected(np.array([100.0]), np.array([np.nan]))[0])
