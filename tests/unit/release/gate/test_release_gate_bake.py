"""While the new version bakes, some users stay on the old one, and everything is judged against them until it is gone."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.contract.rollout import OnInconclusive
from headway.release.driver.judge import carried_over, policy_document
from headway.release.gate import Counts, Decision, Gate, GatePolicy, Phase, Reason
from headway.release.gate.minutes import BadMinutes, Recent
from headway.release.gate.tick import Tick
from headway.release.gate.usual import UsualLevel
from tests.unit.release_ticks import SHARES, counts, gate, slowed, tick

POLICY = GatePolicy(weights=(0.1, 0.5), mirror=0.0, counted_ticks_at_least=6, bake_ticks=30, bake_ticks_at_most=60)
FASTER = slowed(1 / 1.4)


def reason(decision: Decision) -> Reason:
    return Reason(int(decision.reason))


def promoted(policy: GatePolicy = POLICY, requests: float = 6000.0) -> tuple[Gate, Decision]:
    """A gate whose healthy version has just got its traffic."""
    one = gate(policy)
    decision = one.start()
    for _ in range(60):
        decision = one.observe(tick(decision, requests, errors=0.001))
        if decision.phase != Phase.RELEASING:
            return one, decision
    raise AssertionError(reason(decision))


def baked(one: Gate, decision: Decision, minutes: int, change: Any = None, requests: float = 6000.0) -> list[Decision]:
    """Decisions until the bake ends; `change` makes the tick of a minute another one."""
    found: list[Decision] = []
    for minute in range(minutes):
        if decision.phase != Phase.BAKING:
            break
        seen = tick(decision, requests, errors=0.001)
        decision = one.observe(change(minute, seen) if change else seen)
        found.append(decision)
    return found


def canary(requests: float, shares: np.ndarray = SHARES, errors: float = 0.001) -> Counts:
    return counts(requests * 0.95, shares, errors)


def worse(since: int = 0, **how: Any) -> Any:
    """From a minute of the bake on."""
    return lambda minute, seen: dataclasses.replace(seen, canary=canary(6000.0, **how)) if minute >= since else seen


def test_a_twentieth_of_the_requests_stays_on_the_old_version():
    _, decision = promoted()
    assert (float(decision.weight), float(decision.baseline_weight)) == (0.95, 0.0)


def test_nobody_stays_where_the_policy_says_so():
    _, decision = promoted(dataclasses.replace(POLICY, held_back=0.0))
    assert float(decision.weight) == 1.0


def test_the_new_version_cannot_be_left_without_requests():
    with pytest.raises(ValueError, match=r"held_back 1\.0"):
        GatePolicy(held_back=1.0)


def test_a_healthy_version_has_baked_when_the_time_is_over():
    last = baked(*promoted(), 60)
    assert (len(last), reason(last[-1]), float(last[-1].weight)) == (30, Reason.BAKED, 1.0)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"errors": 0.25}, Reason.FAILED_ERRORS),
        ({"errors": 0.03}, Reason.FAILED_ERRORS),
        ({"shares": slowed(1.5)}, Reason.FAILED_LATENCY),
    ],
)
def test_what_gets_worse_with_the_promotion_goes_back(how, expected):
    last = baked(*promoted(), 60, worse(**how))[-1]
    assert (reason(last), float(last.weight)) == (expected, 0.0)


@pytest.mark.parametrize("what", ["queued", "busy"])
@pytest.mark.parametrize(("usual", "ends"), [(0.02, Reason.QUEUE_OR_COST), (0.08, Reason.OVER)])
def test_a_queue_or_cost_beyond_the_usual_one_keeps_the_old_version(what, usual, ends):
    """Beside a control that has next to none for want of load, only what is more than usual holds."""
    one = gate(POLICY)
    decision = one.start()
    for _ in range(100):
        seen = tick(decision, errors=0.001)
        baking = decision.phase == Phase.BAKING
        seconds = {"stable": 0.02 if baking else usual, "baseline": usual, "canary": 0.08 if baking else usual}
        decision = one.observe(dataclasses.replace(seen, **{arm: _with(getattr(seen, arm), what, each) for arm, each in seconds.items()}))
    assert reason(decision) == ends
    assert decision.phase == (Phase.DONE if ends == Reason.OVER else Phase.BAKING)


def _with(arm: Counts | None, what: str, seconds: float) -> Counts:
    assert arm is not None
    return dataclasses.replace(arm, **{what: seconds * float(np.asarray(arm.buckets).sum())})


@pytest.mark.parametrize("requests", [600.0, 6000.0, 60000.0])
def test_harm_every_fifth_minute_goes_back_however_many_requests_there_are(requests):
    def change(minute: int, seen: Tick) -> Tick:
        return dataclasses.replace(seen, canary=canary(requests, slowed(3.0))) if minute % 5 == 4 else seen

    policy = dataclasses.replace(POLICY, bake_ticks=60, bake_ticks_at_most=180)
    assert reason(baked(*promoted(policy), 180, change, requests)[-1]) == Reason.FAILED_LATENCY


def test_a_slow_leak_goes_back_before_the_old_version_is_gone():
    def change(minute: int, seen: Tick) -> Tick:
        return dataclasses.replace(seen, canary=canary(6000.0, slowed(1 + 0.01 * minute)))

    policy = dataclasses.replace(POLICY, bake_ticks=60, bake_ticks_at_most=180)
    assert reason(baked(*promoted(policy), 180, change)[-1]) == Reason.FAILED_LATENCY


@pytest.mark.parametrize("how", [{"errors": 0.05}, {"shares": slowed(2.0)}])
def test_an_onset_in_the_last_minute_keeps_the_old_version_and_goes_back(how):
    said = baked(*promoted(), 60, worse(29, **how))
    assert reason(said[29]) in (Reason.BAKE_SUSPICIOUS, Reason.BAKE_UNPROVEN)
    assert said[-1].phase == Phase.ROLLED_BACK


def test_the_proof_of_the_release_does_not_end_the_bake():
    """Else a version that gets next to nothing in the bake would be let go for what it did before."""
    one, decision = promoted()
    said = baked(one, decision, 59, requests=20.0)
    assert {reason(each) for each in said[29:]} == {Reason.BAKE_UNPROVEN}
    last = one.observe(tick(said[-1], 20.0))
    assert (reason(last), last.phase) == (Reason.BAKED_UNPROVEN, Phase.DONE)


def test_a_bake_without_proof_goes_back_where_the_policy_says_so():
    policy = dataclasses.replace(POLICY, on_inconclusive=OnInconclusive.ROLLBACK)
    last = baked(*promoted(policy), 99, requests=20.0)[-1]
    assert (reason(last), last.phase) == (Reason.ROLLED_BACK_INCONCLUSIVE, Phase.ROLLED_BACK)


def test_what_looks_bad_is_kept_beyond_the_longest_bake():
    said = baked(*promoted(dataclasses.replace(POLICY, held_back=0.0)), 200, worse(errors=0.1))
    assert len(said) == 200 and {reason(each) for each in said[30:]} == {Reason.BAKE_UNCONTROLLED}


def test_and_no_longer_than_the_whole_rollout_may_take():
    policy = dataclasses.replace(POLICY, held_back=0.0, ticks_at_most=150)
    last = baked(*promoted(policy), 200, worse(errors=0.1))[-1]
    assert (reason(last), last.phase) == (Reason.BAKED_UNPROVEN, Phase.DONE)


@pytest.mark.parametrize("how", [{"errors": 0.25}, {"shares": slowed(2.0)}])
def test_without_a_control_the_past_proves_nothing_and_holds(how):
    said = baked(*promoted(dataclasses.replace(POLICY, held_back=0.0)), 50, worse(**how))
    assert [each.phase for each in said] == [Phase.BAKING] * 50
    assert reason(said[-1]) == Reason.BAKE_UNCONTROLLED


def test_without_a_control_a_healthy_version_has_baked_when_the_time_is_over():
    said = baked(*promoted(dataclasses.replace(POLICY, held_back=0.0)), 60)
    assert (len(said), reason(said[-1])) == (30, Reason.BAKED)


def _relieved(requests: float, shares: np.ndarray = SHARES) -> Any:
    """Held-back requests meet idle replicas, which are faster."""
    return lambda _minute, seen: dataclasses.replace(seen, stable=counts(requests * 0.05, FASTER, 0.001), canary=canary(requests, shares))


def test_a_control_that_is_faster_for_want_of_load_takes_no_version_back():
    last = baked(*promoted(), 60, _relieved(6000.0))[-1]
    assert (reason(last), last.phase) == (Reason.BAKED, Phase.DONE)


def test_beside_such_a_control_a_version_slower_than_ever_goes_back():
    last = baked(*promoted(), 60, _relieved(6000.0, slowed(1.6)))[-1]
    assert reason(last) == Reason.FAILED_LATENCY


def test_a_control_that_is_not_scraped_stops_no_clock_and_is_no_evidence():
    said = baked(*promoted(), 40, lambda _minute, seen: dataclasses.replace(seen, stable=None, control_up=False))
    assert not any(bool(each.counted) for each in said)
    assert reason(said[35]) == Reason.BAKE_UNPROVEN


def test_a_version_that_gets_what_is_held_back_is_not_let_go_as_proven():
    said = baked(*promoted(), 61, lambda _minute, seen: dataclasses.replace(seen, stable=counts(0.0), canary=counts(6000.0)))
    assert Reason.BAKED not in {reason(each) for each in said}


def test_a_bake_goes_on_bit_for_bit_where_it_was_left():
    one, decision = promoted()
    decision = baked(one, decision, 12, worse(5, shares=slowed(1.2)))[-1]
    other = gate(POLICY)
    other.resume(one.keep())
    for _ in range(25):
        seen = tick(decision, shares=slowed(1.2))
        decision, again = one.observe(seen), other.observe(seen)
        assert float(decision.signals["latency"].evidence) == float(again.signals["latency"].evidence)
        assert float(decision.signals["latency"].proof) == float(again.signals["latency"].proof)


def test_of_healthy_versions_that_bake_hardly_one_goes_back():
    """300 rollouts of identical arms through release and bake, ten requests a second: the budget of both is 1 %."""
    rng, rollouts = np.random.default_rng(29), 300
    one = gate(POLICY, (rollouts,))
    decision = one.start()
    for _ in range(75):
        arms = {"baseline": decision.baseline_weight, "canary": decision.weight}
        arms["stable"] = 1 - arms["baseline"] - arms["canary"]
        drawn: dict[str, Any] = {name: _drawn(rng, 600 * np.broadcast_to(share, (rollouts,))) for name, share in arms.items()}
        decision = one.observe(Tick(**drawn))
    assert (decision.phase == Phase.DONE).mean() > 0.5
    assert (decision.phase == Phase.ROLLED_BACK).sum() <= 3


def _drawn(rng: np.random.Generator, requests: np.ndarray) -> Counts:
    parts = np.asarray([0.7, 0.3])[None, :, None] * requests[:, None, None] * SHARES[None]
    buckets = rng.poisson(parts).astype(float)
    return Counts(buckets=buckets, errors=rng.binomial(buckets.sum(axis=2).astype(int), 0.001).astype(float))


@given(
    outcomes=st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.0, 500.0)), min_size=1, max_size=6),
    stake=st.floats(0.0, 1.0),
    held=st.floats(0.0, 50.0),
)
@settings(max_examples=200)
def test_a_fair_minute_is_not_expected_to_raise_the_evidence_about_minutes(outcomes, stake, held):
    """Any e-value whose mean is 1: outcomes by their chance, the largest made so rare that the mean is 1."""
    chances = np.asarray([chance for chance, _ in outcomes]) / sum(chance for chance, _ in outcomes)
    values = np.asarray([value for _, value in outcomes])
    mean = float(chances @ values)
    values = values / mean if mean > 1 else values
    expected = 0.0
    for chance, value in zip(chances, values, strict=True):
        minutes = BadMinutes(1)
        minutes.wealth[:] = held
        minutes.bet(np.asarray([value]), np.asarray([stake]))
        expected += float(chance) * float(minutes.value()[0])
    assert expected <= (held + stake) * (1 + 1e-9) + 1e-300, "the smallest numbers that there are cannot be divided"


def test_a_good_minute_costs_no_more_than_its_bet_and_a_bad_one_brings_ten():
    minutes = BadMinutes(1)
    minutes.wealth[:] = 1.0
    minutes.bet(np.asarray([0.0]), np.asarray([0.0]))
    assert minutes.wealth[:, 0] == pytest.approx([0.95, 0.8])
    minutes.bet(np.asarray([1e9]), np.asarray([0.0]))
    assert minutes.wealth[:, 0] == pytest.approx([9.5, 8.0])
    minutes.bet(np.asarray([1e9]), np.asarray([-1.0]))
    assert minutes.wealth[:, 0] == pytest.approx([9.5, 8.0]), "a tick that is no evidence changes nothing"


def test_an_onset_shows_in_the_latest_minutes_whatever_was_before():
    recent = Recent((1, 1))
    for log in [-5.0] * 40 + [2.0, 2.0]:
        recent.add(np.asarray([[log]]), np.asarray([True]))
    assert recent.logs[0, 0] == pytest.approx(4.0)


def test_the_usual_level_counts_in_the_bake_where_it_is_more():
    usual = UsualLevel(1, 1.0)
    assert usual.at_least(np.asarray([0.2]), np.asarray([True]))[0] == 0.2
    for _ in range(30):
        usual.observe(np.asarray([0.5]), np.asarray([True]))
    usual.observe(np.asarray([9.0]), np.asarray([False]))
    usual.observe(np.asarray([np.nan]), np.asarray([True]))
    assert usual.at_least(np.asarray([0.2]), np.asarray([True]))[0] == pytest.approx(0.5)
    assert usual.at_least(np.asarray([0.2]), np.asarray([False]))[0] == 0.2
    assert np.isnan(usual.at_least(np.asarray([np.nan]), np.asarray([True]))[0])


def test_a_policy_of_before_holds_nobody_back_for_a_gate_that_takes_it_over():
    """Its plan gives the new version everything in the bake."""
    before = {name: value for name, value in policy_document(GatePolicy()).items() if name != "held_back"}
    assert carried_over(before)["held_back"] == 0.0
    assert carried_over(policy_document(GatePolicy(held_back=0.1)))["held_back"] == 0.1
