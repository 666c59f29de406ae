"""The tick in which a step, a rollout or a bake ends: the first in which its time is over, none later."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headway.contract.rollout import OnInconclusive
from headway.release.gate import GatePolicy, Phase
from headway.release.gate.stages import BakeFindings, Ladder

YES, NO = np.asarray([True]), np.asarray([False])
POLICY = GatePolicy(weights=(0.1, 0.5), mirror=0.0, step_ticks_at_least=1, counted_ticks_at_least=1, bake_ticks=5, bake_ticks_at_most=8)


def ticks_until(ends: Callable[[Ladder], Any], policy: GatePolicy, stages: int = 0, **seen: Any) -> int:
    """Ticks of a ladder that has gone up some stages, until something holds."""
    ladder = Ladder(policy, 1)
    ladder.stage[:] = stages
    if stages == len(policy.stages):
        ladder.stage[:], ladder.phase[:] = stages - 1, int(Phase.BAKING)
    findings = BakeFindings(suspicious=seen.get("suspicious", NO), controlled=YES, requests=np.asarray([seen.get("requests", 200.0)]))
    for number in range(1, 50):
        ladder.tick(ready=YES, blind=seen.get("blind", NO))
        ladder.count(YES, YES)
        usable = ~seen.get("blind", NO)
        ladder.decide(passed=seen.get("passed", YES), worst=np.zeros(1), usable=usable, frozen=seen.get("frozen", NO), bake=findings)
        if ends(ladder):
            return number
    raise AssertionError("it does not end")


def left_the_first_stage(ladder: Ladder) -> bool:
    return bool(ladder.stage[0] == 1)


def bakes(ladder: Ladder) -> bool:
    return bool(ladder.phase[0] == Phase.BAKING)


def is_done(ladder: Ladder) -> bool:
    return bool(ladder.phase[0] == Phase.DONE)


def test_a_proven_step_ends_with_the_third_tick_that_is_evidence():
    assert ticks_until(left_the_first_stage, POLICY) == 3


def test_a_proven_step_ends_with_its_least_time():
    assert ticks_until(left_the_first_stage, replace(POLICY, step_ticks_at_least=7)) == 7


def test_full_traffic_waits_for_the_evidence_of_the_whole_rollout():
    assert ticks_until(bakes, replace(POLICY, counted_ticks_at_least=12), stages=1) == 12


def test_a_step_without_proof_advances_when_its_time_is_over():
    policy = replace(POLICY, on_inconclusive=OnInconclusive.ADVANCE, step_ticks_at_most=9)
    assert ticks_until(left_the_first_stage, policy, passed=NO) == 9


def test_traffic_is_taken_away_after_one_blind_tick_more_than_may_be():
    assert ticks_until(lambda ladder: ladder.parked[0], replace(POLICY, blind_ticks_at_most=4), blind=YES) == 5


def test_a_bake_with_enough_requests_ends_with_its_least_time():
    assert ticks_until(is_done, POLICY, stages=2, requests=600.0) == 5


@pytest.mark.parametrize(("requests", "ticks"), [(300.0, 6), (299.0, 7), (200.0, 7), (199.0, 8)])
def test_a_bake_waits_for_six_hundred_requests_in_a_row_without_doubt(requests, ticks):
    assert ticks_until(is_done, POLICY, stages=2, requests=requests) == ticks


def test_a_bake_without_proof_ends_with_its_longest_time():
    assert ticks_until(is_done, POLICY, stages=2, passed=NO) == 8


def test_a_bake_that_looks_bad_ends_with_the_rollouts_time():
    assert ticks_until(is_done, replace(POLICY, ticks_at_most=20), stages=2, suspicious=YES) == 20


def test_a_rollout_is_late_in_the_tick_in_which_its_time_is_over():
    ladder = Ladder(replace(POLICY, ticks_at_most=6), 1)
    findings = BakeFindings(suspicious=NO, controlled=YES, requests=np.zeros(1))
    failed = []
    for _ in range(6):
        ladder.tick(ready=YES, blind=NO)
        ladder.count(YES, YES)
        failed.append(bool(ladder.decide(passed=NO, worst=np.zeros(1), usable=YES, frozen=NO, bake=findings).failed[0]))
    assert failed == [False] * 5 + [True]
