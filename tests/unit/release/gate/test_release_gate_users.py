"""The gate of an A/B release: users keep their version, so shares of requests are what a few heavy ones make them; and only people promote."""

import numpy as np
import pytest

from headway.contract.rollout import Rollout
from headway.release.gate import Decision, Gate, GatePolicy, Phase, Reason, Tick
from tests.unit.release_ticks import SHARES, SLOW, counts, gate

SPLIT = {"share": "20%", "duration": "14d", "user_claim": "sub", "experiment": "tone"}
CONTRACT = Rollout.model_validate({"strategy": "ab", "split": SPLIT})
BY_USER = GatePolicy.from_contract(CONTRACT)


def seen(one: Gate, stable: float, canary: float, ticks: int = 60, shares: np.ndarray = SHARES, errors: float = 0.0) -> list[Decision]:
    """Ticks in which users of each version made so many requests, as the driver shows them to the gate."""
    tick = Tick(stable=counts(stable, errors=0.001), canary=counts(canary, shares, errors), freeze=True)
    return [one.observe(tick) for _ in range(ticks)]


def test_the_ladder_is_the_share_of_users_and_nothing_ends_it_by_itself() -> None:
    assert (BY_USER.weights, BY_USER.by_user, BY_USER.baseline) == ((0.2,), True, False)
    assert BY_USER.ticks_at_most > 90 * 24 * 60
    assert BY_USER.planned_ticks == 14 * 24 * 60


def test_it_never_promotes_however_much_is_proven() -> None:
    last = seen(gate(BY_USER), 4800, 1200, ticks=100)[-1]
    assert (Phase(int(last.phase)), Reason(int(last.reason))) == (Phase.RELEASING, Reason.FROZEN)


@pytest.mark.parametrize("canary", [60.0, 5000.0])
def test_a_share_of_requests_made_by_heavy_users_is_no_fault(canary: float) -> None:
    healthy = seen(gate(BY_USER), 6000 - canary, canary)[-1]
    assert Reason(int(healthy.reason)) in (Reason.FROZEN, Reason.GATHERING)
    slow = seen(gate(BY_USER), 6000 - canary, canary, shares=SLOW, ticks=200)[-1]
    assert Phase(int(slow.phase)) is Phase.ROLLED_BACK


def test_the_same_share_of_requests_is_a_fault_where_weights_divide_them() -> None:
    by_request = GatePolicy(weights=(0.2,), mirror=0.0, baseline=False)
    reasons = {Reason(int(d.reason)) for d in [*seen(gate(by_request), 4800, 1200, ticks=5), *seen(gate(by_request), 1000, 5000)]}
    assert Reason.SHARE_SETTLING in reasons


def test_a_night_in_which_only_one_versions_users_ask_moves_nobody() -> None:
    one = gate(BY_USER)
    seen(one, 4800, 1200, ticks=20)
    for stable, canary in ((3000.0, 0.0), (0.0, 3000.0)):
        night = seen(one, stable, canary, ticks=60)
        assert {(float(d.weight), Phase(int(d.phase))) for d in night} == {(0.2, Phase.RELEASING)}
    assert Reason(int(seen(one, 4800, 1200)[-1].reason)) is Reason.FROZEN


def test_nothing_is_concluded_before_users_of_both_versions_came() -> None:
    reasons = {Reason(int(d.reason)) for d in seen(gate(BY_USER), 6000, 0, ticks=30)}
    assert reasons == {Reason.GRACE, Reason.SHARE_SETTLING}


def test_a_version_that_fails_for_its_users_goes_back_in_minutes() -> None:
    decisions = seen(gate(BY_USER), 4800, 1200, ticks=10, errors=0.5)
    assert Phase(int(decisions[-1].phase)) is Phase.ROLLED_BACK
