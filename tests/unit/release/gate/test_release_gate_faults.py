"""What shows within a few ticks or not at all: broken versions, malformed answers, restarts. Each bet is fair under its null hypothesis."""

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.release.gate import Decision, GatePolicy, Phase, Reason
from headway.release.gate.correctness import Malformed
from headway.release.gate.evidence import AnyOnset
from headway.release.gate.health import Catastrophe, RestartTest
from headway.release.gate.tick import ArmCounts
from tests.unit.release_ticks import gate, tick

POLICY = GatePolicy(weights=(0.1, 0.5), counted_ticks_at_least=6)
NO_MIRROR = dataclasses.replace(POLICY, mirror=0.0)
ALWAYS = np.ones(1, dtype=bool)


def arm(requests: float, errors: float, rollouts: int = 1) -> ArmCounts:
    nothing, whole = np.zeros(rollouts), np.full((1, rollouts), requests)
    return ArmCounts(whole, np.full((1, rollouts), errors), {}, np.zeros(rollouts, dtype=bool), nothing, nothing)


def after(process: AnyOnset) -> float:
    """What one tick multiplied the first stake by, in the mean over alternatives."""
    return float(process.value()[0]) / 0.5


@given(judged=st.lists(st.booleans(), min_size=1, max_size=500))
def test_stakes_on_any_onset_never_add_up_to_more_than_one(judged: list[bool]):
    process = AnyOnset(2, 1)
    for each in judged:
        process.multiply([np.ones(1), np.ones(1)], np.asarray([each]))
    assert process.value()[0] == pytest.approx(1 - 1 / (sum(judged) + 1))


@pytest.mark.parametrize("clusters", [[30], [30, 30], [20, 10], [1] * 6, [30, 1, 7]])
@pytest.mark.parametrize("probability", [0.001, 0.1, 0.15])
def test_a_catastrophe_is_not_expected_of_callers_that_fail_together(clusters: list[int], probability: float):
    mean = 0.0
    for failed in itertools.product((False, True), repeat=len(clusters)):
        chance = math.prod(probability if each else 1 - probability for each in failed)
        one = Catastrophe(1)
        one.observe(arm(sum(clusters), sum(size for size, each in zip(clusters, failed, strict=True) if each)), arm(900, 0), ALWAYS)
        mean += chance * after(one.failing)
    assert mean <= 1 + 1e-12


def test_a_control_that_fails_too_makes_no_catastrophe():
    one = Catastrophe(1)
    one.observe(arm(600, 600), arm(600, 31), ALWAYS)
    assert after(one.failing) <= 1


@pytest.mark.parametrize(("requests", "share", "ticks"), [(6000, 0.5, 1), (600, 1.0, 1), (600, 0.5, 2), (100, 1.0, 2), (6000, 0.3, None)])
def test_a_broken_version_is_found_in_a_tick_or_two(requests: float, share: float, ticks: int | None):
    one, found = Catastrophe(1), None
    for number in range(1, 4):
        one.observe(arm(requests, share * requests), arm(requests, 0), ALWAYS)
        if one.failing.value()[0] >= 1 / POLICY.alpha["catastrophe"] and found is None:
            found = number
    assert found == ticks


@pytest.mark.parametrize("pairs", [1, 25, 75])
def test_a_moment_that_spoils_all_answers_is_a_fair_bet(pairs: int):
    """The worst that a mean of one in a thousand allows: all answers of a tick, once in a thousand ticks."""
    mean = 0.0
    for malformed, chance in ((0, 0.999), (pairs, 0.001)):
        one = Malformed(1)
        one.compare(np.full(1, float(pairs)), np.full(1, float(malformed)), ALWAYS)
        mean += chance * after(one.bets)
    assert mean <= 1 + 1e-12


@pytest.mark.parametrize(("share", "worst"), [(1e-4, 0.0), (1e-3, 0.003)])
def test_rare_malformed_answers_take_nothing_back(share: float, worst: float):
    rng, rollouts = np.random.default_rng(12), 4000
    one, failed = Malformed(rollouts), np.zeros(rollouts, dtype=bool)
    for _ in range(80):
        one.compare(np.full(rollouts, 25.0), rng.binomial(25, share, rollouts).astype(float), np.ones(rollouts, dtype=bool))
        failed |= one.bets.value() >= 1 / POLICY.alpha["malformed"]
    assert failed.mean() <= worst


def taken_back(policy: GatePolicy, why: Reason, ticks: int = 60, every: int = 1, **flags: Any) -> int | None:
    """After how many ticks a version is rolled back for that reason. `flags` hold in every so many ticks."""
    one = gate(policy)
    decision: Decision = one.start()
    for number in range(ticks):
        decision = one.observe(tick(decision, freeze=True, **(flags if number % every == 0 else {})))
        if decision.phase == Phase.ROLLED_BACK:
            assert Reason(int(decision.reason)) is why
            return number + 1
    return None


@pytest.mark.parametrize(
    ("pairs", "malformed", "ticks"),
    [(25, 25, 2), (25, 1, 4), (1, 1, 2), (3, 3, 2)],
    ids=["all", "one golden request", "one a tick", "three"],
)
def test_a_version_with_many_malformed_answers_is_taken_back_soon(pairs: int, malformed: int, ticks: int):
    assert taken_back(POLICY, Reason.INVALID_ANSWER, pairs=pairs, invalid_answers=malformed) == ticks


def test_one_malformed_answer_takes_nothing_back():
    one = gate(NO_MIRROR)
    decision = one.observe(tick(one.start(), pairs=25, invalid_answers=1))
    reasons: list[Reason] = []
    for _ in range(60):
        decision = one.observe(tick(decision, pairs=25))
        reasons.append(Reason(int(decision.reason)))
    assert Reason.PROMOTED in reasons


@pytest.mark.parametrize("minutes", [0.25, 1.0, 5.0])
def test_restarts_once_a_day_are_a_fair_bet(minutes: float):
    mean, likely = 0.0, minutes / 1440
    for restarts, chance in ((0.0, 1 - likely), (8.0, likely)):
        one = RestartTest(1, minutes)
        one.observe(np.asarray([restarts]), ALWAYS)
        mean += chance * after(one.crashes)
    assert mean <= 1 + 1e-12


@pytest.mark.parametrize(("every", "ticks"), [(1, 2), (2, 3), (10, 21)])
def test_containers_that_restart_again_and_again_are_taken_back(every: int, ticks: int):
    assert taken_back(POLICY, Reason.RESTARTS, every=every, restarts=1) == ticks


def test_a_node_that_takes_all_its_containers_along_is_one_restart():
    one = gate(POLICY)
    decision = one.observe(tick(one.start(), restarts=40))
    assert decision.phase == Phase.RELEASING
    assert float(decision.signals["restarts"].evidence) == pytest.approx(
        0.5 * (1440 * (1 / 60 + 1 / 6 + 0.6) + 3 - (1 / 60 + 1 / 6 + 0.6)) / 3
    )


def test_restarts_of_one_minute_are_one_however_short_the_ticks():
    one, always = RestartTest(1, 0.25), ALWAYS
    evidence: list[float] = []
    for restarts in (1.0, 1.0, 1.0, 0.0, 1.0):
        one.observe(np.asarray([restarts]), always)
        evidence.append(float(one.crashes.value()[0]))
    assert evidence[0] > evidence[1] > evidence[2] > evidence[3] < evidence[4]
