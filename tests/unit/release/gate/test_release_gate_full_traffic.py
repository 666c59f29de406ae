"""What a version must prove before it gets all traffic, and for how long more than at a weight."""

import dataclasses
from typing import Any

import pytest

from headway.contract.rollout import OnInconclusive
from headway.release.gate import GatePolicy, Phase, Reason
from tests.unit.release_ticks import SHARES, gate, slowed, tick

POLICY = GatePolicy(weights=(0.1, 0.5), counted_ticks_at_least=6)
BETTER = {"labelled": 100, "only_canary_right": 8, "only_stable_right": 2}


def ticks_at_the_last_weight(policy: GatePolicy, copies: float, requests: float, slower: float, **flags: Any) -> int:
    """Until all traffic: of `copies` requests a minute none is slower; of users' `requests` a minute all are, `slower` times."""
    one = gate(policy)
    decision, there = one.start(), 0
    while decision.phase == Phase.RELEASING and there < 60:
        there += decision.weight == policy.weights[-1]
        weighted = bool(decision.weight)
        shares = slowed(slower) if weighted else SHARES
        decision = one.observe(tick(decision, requests=requests if weighted else copies, shares=shares, **flags))
    assert Reason(int(decision.reason)) is Reason.PROMOTED, Reason(int(decision.reason)).name
    return there


@pytest.mark.parametrize("minutes", [12, 16])
@pytest.mark.parametrize("on_inconclusive", OnInconclusive)
def test_what_suffices_at_a_weight_suffices_for_all_once_its_time_is_over(minutes, on_inconclusive):
    """The weight's own margin is ruled out sooner; that of copies is not by a hundred to one."""
    policy = dataclasses.replace(POLICY, step_ticks_at_most=minutes, on_inconclusive=on_inconclusive)
    assert ticks_at_the_last_weight(policy, 100.0, 100.0, 1.1) == minutes


def test_a_better_version_gets_all_traffic_by_the_same_rule():
    """Within the trade's tolerance, and 48 to 1 against what is beyond after ten minutes."""
    policy = dataclasses.replace(POLICY, step_ticks_at_most=16, trade_gain=0.02, trade_latency=0.3)
    assert ticks_at_the_last_weight(policy, 150.0, 100.0, 1.3, **BETTER) == 16


@pytest.mark.parametrize(("copies", "minutes"), [(300.0, 9), (200.0, 11)])
def test_a_hundred_to_one_is_enough_for_all_traffic_at_once(copies, minutes):
    """After nine minutes it is 116 to 1, or 85 to 1 where there were fewer copies."""
    assert ticks_at_the_last_weight(POLICY, copies, 100.0, 1.08) == minutes


def test_a_tail_beyond_the_tolerance_gets_no_full_traffic():
    """Ruled out is what is unacceptable, and what is tolerated is exceeded all the same."""
    one, found = gate(POLICY), set[Reason]()
    decision = one.start()
    for _ in range(60):
        decision = one.observe(tick(decision, requests=300.0, shares=slowed(1.11) if float(decision.weight) else SHARES))
        found.add(Reason(int(decision.reason)))
    assert decision.phase == Phase.RELEASING
    assert Reason.TAIL_ABOVE in found


def test_a_tail_beyond_the_tolerance_gets_no_users_after_its_copies():
    """Copies rule out what is unacceptable within minutes, and what is tolerated is exceeded all the same."""
    one, found = gate(dataclasses.replace(POLICY, latency_unacceptable=0.5)), set[Reason]()
    decision = one.start()
    for _ in range(60):
        decision = one.observe(tick(decision, requests=300.0, shares=slowed(1.15)))
        found.add(Reason(int(decision.reason)))
        assert (decision.phase, float(decision.weight)) == (Phase.RELEASING, 0.0)
    assert Reason.TAIL_ABOVE in found
