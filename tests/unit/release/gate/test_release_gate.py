"""The gate: what it does with data, without data, and in a batch."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.contract.rollout import OnInconclusive, Rollout
from headway.release.gate import Counts, Decision, Gate, GatePolicy, Phase, Reason, Tick, Verdict
from headway.release.gate.health import ReachTest
from tests.unit.release_ticks import CLASSES, EDGES, SHARES, SLOW, counts, gate, slowed, tick

QUICK = GatePolicy(weights=(0.1, 0.5), counted_ticks_at_least=6)
NO_MIRROR = dataclasses.replace(QUICK, mirror=0.0)


def run(one: Gate, ticks: int, **changes: object) -> list[Decision]:
    """Decisions on identical ticks until the rollout is over, or for so many."""
    decisions = [one.start()]
    for _ in range(ticks):
        decisions.append(one.observe(tick(decisions[-1], **changes)))  # type: ignore[arg-type]
        if decisions[-1].phase != Phase.RELEASING:
            break
    return decisions


def reason(decision: Decision) -> Reason:
    return Reason(int(decision.reason))


def test_a_healthy_version_is_mirrored_then_climbs_and_is_promoted():
    decisions = run(gate(QUICK), 60)
    ladder = [(float(d.mirror), float(d.weight)) for d in decisions]
    assert list(dict.fromkeys(ladder)) == [(1.0, 0.0), (0.0, 0.1), (0.0, 0.5), (0.0, 0.95)]
    assert reason(decisions[-1]) is Reason.PROMOTED
    assert decisions[-1].unproven == 0


def test_the_baseline_gets_as_much_traffic_as_the_canary():
    for decision in run(gate(QUICK), 60)[:-1]:
        assert decision.baseline_weight == decision.weight


def test_a_slow_version_is_rolled_back_before_any_user_sees_it():
    decisions = run(gate(QUICK), 60, shares=SLOW)
    assert reason(decisions[-1]) is Reason.FAILED_LATENCY
    assert decisions[-1].signals["latency"].verdict == Verdict.FAIL
    assert max(float(d.weight) for d in decisions) == 0


def test_copies_that_were_lucky_do_not_carry_a_version_to_full_traffic():
    """Slower by 29 % to users where 30 % is unacceptable and 28 % tolerated: too little to fail, and no weight's own margin."""
    one = gate(dataclasses.replace(QUICK, latency=0.28, latency_unacceptable=0.3))
    decision = one.start()
    for _ in range(40):
        decision = one.observe(tick(decision, shares=slowed(1.29) if decision.weight else SHARES))
    assert (float(decision.weight), decision.phase) == (0.5, Phase.RELEASING)
    assert decision.signals["latency"].proof < 0.01


def test_a_slow_down_that_is_tolerated_passes_though_the_version_is_not_as_fast():
    wide = dataclasses.replace(QUICK, latency=0.5, latency_unacceptable=1.0)
    assert reason(run(gate(wide), 60, shares=slowed(1.45), requests=600.0)[-1]) is Reason.PROMOTED


def test_without_a_mirror_a_slow_version_is_rolled_back_at_the_first_weight():
    decisions = run(gate(NO_MIRROR), 60, shares=SLOW)
    assert reason(decisions[-1]) is Reason.FAILED_LATENCY
    assert {float(d.weight) for d in decisions} == {0.1, 0.0}
    assert len(decisions) - 1 >= 2 + 3, "two ticks of grace, and no fewer than three that count"


def test_a_failing_version_is_rolled_back():
    assert reason(run(gate(QUICK), 60, errors=0.02)[-1]) is Reason.FAILED_ERRORS


def test_a_broken_version_is_rolled_back_in_the_first_tick():
    decisions = run(gate(QUICK), 60, errors=0.5)
    assert (len(decisions) - 1, reason(decisions[-1])) == (1, Reason.CATASTROPHIC)
    assert run(gate(QUICK), 1, errors=0.30)[-1].phase == Phase.RELEASING


@pytest.mark.parametrize(
    ("requests", "failed", "broken"), [(20, 20, False), (150, 150, False), (165, 165, True), (600, 300, False), (900, 450, True)]
)
def test_few_requests_need_more_than_bad_luck_to_be_a_catastrophe(requests, failed, broken):
    one = gate(NO_MIRROR)
    decision = one.start()
    few = Counts(buckets=np.asarray([[requests, 0, 0, 0, 0], [0] * 5]), errors=np.asarray([failed, 0]))
    decision = one.observe(dataclasses.replace(tick(decision), canary=few))
    assert (reason(decision) is Reason.CATASTROPHIC) == broken


def test_errors_of_both_arms_are_nobodys_fault():
    one = gate(QUICK)
    decision = one.start()
    for _ in range(20):
        usual = tick(decision, errors=0.5)
        same = counts(6000 * (1 - 2 * float(decision.weight)), errors=0.5)
        decision = one.observe(dataclasses.replace(usual, stable=same, baseline=counts(6000 * float(decision.weight), errors=0.5)))
    assert decision.phase == Phase.RELEASING


HEALTHY_SHARE = {"no mirror": NO_MIRROR, "mirror": QUICK}


@pytest.mark.parametrize("policy", HEALTHY_SHARE.values(), ids=HEALTHY_SHARE.keys())
@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"answered": False}, Reason.UNANSWERED),
        ({"canary_up": False}, Reason.CANARY_NOT_SCRAPED),
        ({"control_up": False}, Reason.CONTROL_NOT_SCRAPED),
    ],
)
@pytest.mark.parametrize("errors", [0.0, 1.0])
def test_a_tick_that_cannot_be_trusted_is_neither_failure_nor_success(policy, flags, why, errors):
    one = gate(policy)
    before = run(one, 4)[-1]
    decision = one.observe(tick(before, errors=errors, shares=SLOW, **flags))
    assert (decision.verdict, reason(decision)) == (Verdict.NO_DATA, why)
    assert (decision.weight, decision.mirror, decision.stage) == (before.weight, before.mirror, before.stage)
    assert decision.signals["errors"].evidence == before.signals["errors"].evidence


def test_samples_that_are_not_numbers_are_no_data():
    one = gate(NO_MIRROR)
    before = run(one, 4)[-1]
    gap = Counts(buckets=np.full((2, 5), np.nan), errors=np.full(2, np.nan))
    decision = one.observe(dataclasses.replace(tick(before), canary=gap))
    assert (decision.verdict, reason(decision)) == (Verdict.NO_DATA, Reason.CANARY_NOT_SCRAPED)


def test_an_idle_service_is_neither_promoted_nor_rolled_back():
    decisions = run(gate(NO_MIRROR), 300, requests=0.0)
    assert {reason(d) for d in decisions[1:]} == {Reason.IDLE}
    assert {Verdict(int(d.verdict)) for d in decisions[1:]} == {Verdict.CONTINUE}
    assert {float(d.weight) for d in decisions} == {0.1}


def unserved(decision, requests=6000.0, **arms):
    """A minute in which the arms that are given have what is given, and the canary nothing."""
    return dataclasses.replace(tick(decision, requests=requests), canary=counts(0.0), **arms)


def until_it_ends(one, decision, ticks, **how):
    """How many ticks without a request it takes until the release is taken back."""
    for number in range(1, ticks + 1):
        decision = one.observe(unserved(decision, **how))
        if decision.phase == Phase.ROLLED_BACK:
            assert reason(decision) is Reason.NOT_ROUTABLE
            return number
    return None


def test_a_canary_that_nothing_reaches_beside_its_baseline_is_taken_back():
    one = gate(NO_MIRROR)
    assert until_it_ends(one, run(one, 4)[-1], 12) == 4


def test_one_tick_without_a_request_proves_nothing():
    one = gate(NO_MIRROR)
    assert until_it_ends(one, run(one, 4)[-1], 1) is None


@pytest.mark.parametrize("a_second", [5, 7, 10, 15, 100])
@pytest.mark.parametrize("late", [1, 2, 5, 30])
def test_weights_that_are_late_for_both_arms_never_take_a_version_back(a_second, late):
    one = gate(NO_MIRROR)
    decision = one.start()
    for _ in range(late):
        decision = one.observe(unserved(decision, 60.0 * a_second, baseline=counts(0.0)))
        assert decision.phase == Phase.RELEASING and not decision.counted
    for _ in range(20):
        decision = one.observe(tick(decision, requests=60.0 * a_second))
    assert decision.phase != Phase.ROLLED_BACK


def test_a_version_without_requests_for_minutes_is_named_and_held():
    one = gate(dataclasses.replace(NO_MIRROR, baseline=False))
    decision = one.start()
    said = []
    for _ in range(30):
        decision = one.observe(unserved(decision, baseline=None))
        said.append(reason(decision))
    assert decision.phase == Phase.RELEASING
    assert set(said[:2]) == {Reason.GRACE} and set(said[2:]) == {Reason.UNREACHED}


def test_a_single_caller_that_keeps_to_the_baseline_is_no_proof():
    """Thirty requests a minute may be one connection: then half of such minutes have none for the canary."""
    one = gate(NO_MIRROR)
    decision = run(one, 4)[-1]
    few = {"stable": counts(240.0), "baseline": counts(30.0)}
    assert until_it_ends(one, decision, 10, requests=300.0, **few) is None


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3000)), min_size=1, max_size=12))
def test_reach_is_a_fair_bet_whatever_comes_to_both_arms(minutes):
    """In a minute of m clusters the canary has none with probability 2^-m at most: what is won and lost evens out."""
    for largest in (1.2, 10.0):
        for _, requests in minutes:
            won, lost = ReachTest(1), ReachTest(1)
            everywhere = np.ones(1, dtype=bool)
            won.observe(np.zeros(1), np.full(1, float(requests)), everywhere, largest)
            lost.observe(np.full(1, float(requests)), np.zeros(1), everywhere, largest)
            none = 0.5 ** max(1, min(30, requests // 30))
            assert none * won.evidence[0] + (1 - none) * lost.evidence[0] <= 1 + 1e-9


def test_a_restarted_container_is_not_called_unreachable():
    one = gate(NO_MIRROR)
    decision = run(one, 4)[-1]
    assert one.observe(dataclasses.replace(tick(decision), canary=counts(0.0), restarts=1)).phase == Phase.RELEASING


def test_a_long_warm_up_is_no_slow_version():
    """Half as slow again for five minutes that count: evidence never gets a tenth of the way."""
    one = gate(QUICK)
    decision = one.start()
    for minute in range(40):
        decision = one.observe(tick(decision, requests=600.0, shares=SLOW if minute < 7 else SHARES))
        assert decision.signals["latency"].evidence < 0.1 * decision.signals["latency"].bound
    assert decision.phase in (Phase.BAKING, Phase.DONE)


def test_a_persistently_wrong_share_is_no_data_and_never_a_rollback():
    one = gate(NO_MIRROR)
    decision = run(one, 3)[-1]
    for _ in range(20):
        decision = one.observe(dataclasses.replace(tick(decision), canary=counts(6000 * 0.02)))
    assert (decision.verdict, reason(decision), decision.phase) == (Verdict.NO_DATA, Reason.WRONG_SHARE, Phase.RELEASING)
    for _ in range(3):
        decision = one.observe(tick(decision))
    assert decision.verdict != Verdict.NO_DATA, "it goes on when the share is right again"


def test_the_tick_in_which_a_weight_arrives_says_nothing_about_the_share():
    """A third of the requests there should be: few enough to be luck once, and a wrong share when it goes on."""
    one = gate(NO_MIRROR)
    decision = one.start()
    shown = []
    for _ in range(3):
        decision = one.observe(dataclasses.replace(tick(decision, requests=600.0), canary=counts(20.0)))
        shown.append((float(decision.signals["share"].evidence) > 1, reason(decision) is Reason.WRONG_SHARE))
    assert shown == [(False, False), (True, False), (True, True)]


def test_blindness_steps_back_to_the_last_weight_with_evidence_and_resumes():
    one = gate(dataclasses.replace(NO_MIRROR, blind_ticks_at_most=5))
    decision = one.start()
    while decision.weight != 0.5:
        decision = one.observe(tick(decision))
    weights = []
    for _ in range(8):
        decision = one.observe(tick(decision, answered=False))
        weights.append(float(decision.weight))
    assert weights == [0.5] * 5 + [0.1] * 3
    assert decision.phase == Phase.RELEASING


def test_blindness_at_the_first_weight_takes_traffic_away_until_data_is_back():
    one = gate(dataclasses.replace(NO_MIRROR, blind_ticks_at_most=5))
    decision = run(one, 1)[-1]
    for _ in range(6):
        decision = one.observe(tick(decision, answered=False))
    assert (decision.weight, reason(decision)) == (0.0, Reason.BLIND_TOO_LONG)
    assert one.observe(tick(decision)).weight == 0.1


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"out_of_memory": True}, Reason.OUT_OF_MEMORY),
        ({"fatal_gpu_error": True}, Reason.GPU),
        ({"pairs": 500, "mismatches": 60}, Reason.FAILED_CORRECTNESS),
    ],
)
def test_some_faults_roll_back_in_the_first_tick(flags, why):
    decision = run(gate(QUICK), 1, **flags)[-1]
    assert (decision.verdict, reason(decision), decision.weight) == (Verdict.FAIL, why, 0.0)


@pytest.mark.parametrize("flags", [{"restarts": 1}, {"pairs": 500, "mismatches": 2}, {"memory": 0.97}])
def test_one_restart_or_one_full_scrape_is_not_enough_to_fail(flags):
    assert run(gate(QUICK), 1, **flags)[-1].phase == Phase.RELEASING


def test_memory_at_its_limit_twice_beside_a_control_with_room_is_a_failure():
    assert [reason(d) for d in run(gate(QUICK), 5, memory=0.95, control_memory=0.8)][-1] is Reason.FAILED_MEMORY
    assert run(gate(QUICK), 5, memory=0.949, control_memory=0.8)[-1].phase == Phase.RELEASING


def test_memory_that_rises_holds_a_version_and_the_old_one_is_kept_for_it():
    one = gate(dataclasses.replace(QUICK, bake_ticks=30))
    decision, rising = run(one, 60, memory=0.5, control_memory=0.5)[-1], 0.5
    assert decision.phase == Phase.BAKING
    for _ in range(60):
        rising += 0.004
        decision = one.observe(tick(decision, memory=rising, control_memory=0.5))
    assert (decision.phase, reason(decision)) == (Phase.BAKING, Reason.MEMORY_RISING)
    for _ in range(60):
        decision = one.observe(tick(decision, memory=rising, control_memory=0.5))
    assert decision.phase == Phase.DONE


def test_no_traffic_grows_while_memory_is_full_and_the_controls_unknown():
    last = run(gate(QUICK), 30, memory=0.96)[-1]
    assert (last.phase, reason(last), float(last.mirror)) == (Phase.RELEASING, Reason.MEMORY_RISING, 1.0)


def test_the_first_ticks_of_a_canary_are_no_evidence():
    one = gate(NO_MIRROR)
    decisions = run(one, 3)
    assert [bool(d.counted) for d in decisions[1:]] == [False, False, True]


def test_grace_begins_when_the_canary_is_ready():
    one = gate(NO_MIRROR)
    decision = one.start()
    counted = []
    for ready in (False, False, False, True, True, True):
        decision = one.observe(tick(decision, ready=ready))
        counted.append(bool(decision.counted))
    assert counted == [False] * 5 + [True]


def test_a_frozen_rollout_keeps_its_weight_and_is_still_rolled_back():
    one = gate(NO_MIRROR)
    decisions = run(one, 40, freeze=True)
    assert {float(d.weight) for d in decisions} == {0.1}
    assert reason(decisions[-1]) is Reason.FROZEN
    decision = decisions[-1]
    for _ in range(20):
        decision = one.observe(tick(decision, shares=SLOW, freeze=True))
    assert decision.phase == Phase.ROLLED_BACK


@pytest.mark.parametrize(
    ("choice", "phase", "why"),
    [
        (OnInconclusive.HOLD, Phase.RELEASING, Reason.INCONCLUSIVE),
        (OnInconclusive.ROLLBACK, Phase.ROLLED_BACK, Reason.ROLLED_BACK_INCONCLUSIVE),
    ],
)
def test_a_step_without_proof_holds_or_gives_up_as_the_policy_says(choice, phase, why):
    policy = dataclasses.replace(NO_MIRROR, on_inconclusive=choice)
    last = run(gate(policy), 45, requests=20.0)[-1]
    assert (last.phase, reason(last)) == (phase, why)
    assert bool(last.inconclusive) == (choice is OnInconclusive.HOLD)


def test_a_step_that_advances_without_proof_is_counted_and_said():
    policy = dataclasses.replace(NO_MIRROR, on_inconclusive=OnInconclusive.ADVANCE)
    decisions = run(gate(policy), 45, requests=20.0)
    advanced = [d for d in decisions if reason(d) is Reason.ADVANCED_UNPROVEN]
    assert [int(d.unproven) for d in advanced] == [1]


def test_a_rollout_that_takes_too_long_is_rolled_back():
    policy = dataclasses.replace(NO_MIRROR, ticks_at_most=40)
    last = run(gate(policy), 60, requests=20.0)[-1]
    assert (last.phase, reason(last)) == (Phase.ROLLED_BACK, Reason.OUT_OF_TIME)


def test_after_baking_it_is_done_and_nothing_moves_any_more():
    one = gate(dataclasses.replace(QUICK, bake_ticks=4))
    decision = run(one, 60)[-1]
    assert decision.phase == Phase.BAKING
    for _ in range(4):
        decision = one.observe(tick(decision))
    assert (decision.phase, decision.weight, reason(decision)) == (Phase.DONE, 1.0, Reason.BAKED)
    assert one.observe(tick(decision, errors=0.9)).phase == Phase.DONE


def test_a_version_that_breaks_while_baking_is_rolled_back():
    one = gate(QUICK)
    decision = run(one, 60)[-1]
    decision = one.observe(tick(decision, errors=0.5))
    assert (decision.phase, decision.weight, reason(decision)) == (Phase.ROLLED_BACK, 0.0, Reason.CATASTROPHIC)


def test_a_rolled_back_version_never_comes_back():
    one = gate(QUICK)
    decision = run(one, 1, errors=0.9)[-1]
    for _ in range(30):
        decision = one.observe(tick(decision))
    assert (decision.phase, decision.weight, reason(decision)) == (Phase.ROLLED_BACK, 0.0, Reason.OVER)


def test_a_change_of_mix_alone_is_no_slow_down():
    one = gate(NO_MIRROR)
    decision = one.start()
    for _ in range(40):
        share = 6000 * float(decision.weight)
        parts = np.asarray([0.4, 0.6]) * share
        longer = Counts(buckets=parts[:, None] * SHARES, errors=np.zeros(2))
        decision = one.observe(dataclasses.replace(tick(decision), canary=longer))
        if decision.phase != Phase.RELEASING:
            break
    assert decision.phase == Phase.BAKING


def test_a_slow_down_hidden_by_an_easier_mix_is_found():
    one = gate(NO_MIRROR)
    decision = one.start()
    for _ in range(40):
        parts = np.asarray([0.95, 0.05]) * 6000 * float(decision.weight)
        easier = Counts(buckets=parts[:, None] * SLOW, errors=np.zeros(2))
        decision = one.observe(dataclasses.replace(tick(decision), canary=easier))
    assert decision.phase == Phase.ROLLED_BACK


def random_ticks(rollouts: int, length: int, seed: int) -> list[dict[str, np.ndarray]]:
    """Counts of many rollouts, some slow, some failing, some unseen for a while; drawn before any gate sees them."""
    rng = np.random.default_rng(seed)
    ticks = []
    slow, failing = rng.random(rollouts) < 0.3, np.where(rng.random(rollouts) < 0.3, 0.01, 0.001)
    for _ in range(length):
        shares = np.where(slow[:, None, None], SLOW, SHARES)
        ticks.append(
            {
                "stable": rng.poisson(np.asarray([2940.0, 1260.0])[:, None] * SHARES, (rollouts, 2, 5)).astype(float),
                "baseline": rng.poisson(np.asarray([42.0, 18.0])[:, None] * SHARES, (rollouts, 2, 5)).astype(float),
                "canary": rng.poisson(np.asarray([42.0, 18.0])[:, None] * shares).astype(float),
                "mirrored": rng.poisson(np.asarray([2940.0, 1260.0])[:, None] * shares).astype(float),
                "errors": rng.binomial(20, np.broadcast_to(failing[:, None], (rollouts, 2))).astype(float),
                "answered": rng.random(rollouts) < 0.95,
                "memory": np.where(rng.random(rollouts) < 0.5, 0.5 + 0.2 * rng.random(rollouts), np.nan),
                "pairs": rng.integers(0, 5, rollouts).astype(float),
            }
        )
    return ticks


def observed(one: Gate, drawn: dict[str, np.ndarray], place: slice | int) -> Decision:
    def arm(name: str) -> Counts:
        errors = drawn["errors"][place] if name in ("canary", "mirrored") else np.zeros_like(drawn["errors"][place])
        return Counts(buckets=drawn[name][place], errors=errors)

    arms: dict[str, Any] = {name: arm(name) for name in ("stable", "baseline", "canary", "mirrored")}
    return one.observe(Tick(**arms, answered=drawn["answered"][place], memory=drawn["memory"][place], pairs=drawn["pairs"][place]))


def facts(decision: Decision) -> dict[str, np.ndarray]:
    flat = {
        name: np.asarray(getattr(decision, name)) for name in ("verdict", "reason", "phase", "stage", "weight", "counted", "inconclusive")
    }
    for name, signal in decision.signals.items():
        flat |= {f"{name}.evidence": np.asarray(signal.evidence), f"{name}.proof": np.asarray(signal.proof)}
    return flat


@pytest.mark.slow
@pytest.mark.parametrize("policy", [QUICK, dataclasses.replace(NO_MIRROR, weights=(0.01, 0.5))], ids=["mirror", "weights"])
def test_a_rollout_in_a_batch_gets_the_very_bits_that_it_gets_alone(policy):
    rollouts, ticks = 37, random_ticks(37, 25, seed=5)
    together = gate(policy, (rollouts,))
    alone = [gate(policy) for _ in range(rollouts)]
    seen: set[int] = set()
    for drawn in ticks:
        batch = facts(observed(together, drawn, slice(None)))
        seen |= set(batch["reason"].tolist())
        for place, one in enumerate(alone):
            for name, value in facts(observed(one, drawn, place)).items():
                assert value.tobytes() == batch[name][place].tobytes(), f"{name} of rollout {place}"
    assert len(seen) >= 4, "the rollouts went different ways"


@pytest.mark.parametrize("stop", [1, 7, 16])
def test_a_gate_resumed_from_its_stored_state_goes_on_as_if_never_interrupted(stop):
    ticks = random_ticks(5, 25, seed=6)
    whole, first = gate(QUICK, (5,)), gate(QUICK, (5,))
    for drawn in ticks[:stop]:
        observed(whole, drawn, slice(None))
        observed(first, drawn, slice(None))
    second = Gate(QUICK, EDGES, CLASSES, shape=(5,))
    second.resume(first.keep())
    for drawn in ticks[stop:]:
        expected, got = facts(observed(whole, drawn, slice(None))), facts(observed(second, drawn, slice(None)))
        assert {k: v.tobytes() for k, v in got.items()} == {k: v.tobytes() for k, v in expected.items()}


def test_state_of_another_gate_is_refused():
    with pytest.raises(ValueError, match="another policy, edges, classes or shape"):
        gate(QUICK).resume(gate(QUICK, (3,)).keep())


@given(seed=st.integers(0, 2**32 - 1), policy=st.sampled_from([QUICK, NO_MIRROR]), before=st.integers(0, 4))
@settings(max_examples=15)
def test_without_data_nothing_ever_passes_or_fails(seed, policy, before):
    rng = np.random.default_rng(seed)
    one = gate(policy)
    decision = run(one, before)[-1]
    phase = int(decision.phase)
    for _ in range(20):
        flag = ("answered", "canary_up", "control_up")[int(rng.integers(3))]
        shares = SLOW if rng.random() < 0.5 else SHARES
        last, decision = decision, one.observe(tick(decision, shares=shares, errors=float(rng.random()), rng=rng, **{flag: False}))
        assert decision.verdict == Verdict.NO_DATA
        assert decision.phase == phase
        assert float(decision.weight) <= float(last.weight), "without data traffic never grows"


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_the_order_of_classes_decides_nothing(seed):
    rng = np.random.default_rng(seed)
    usual, turned = gate(QUICK), Gate(QUICK, EDGES, CLASSES[::-1])
    past = counts(9000.0)
    turned.learn(Counts(buckets=np.asarray(past.buckets)[::-1], errors=np.asarray(past.errors)[::-1]))
    decision = usual.start()
    for _ in range(15):
        given_tick = tick(decision, shares=SLOW if seed % 2 else SHARES, errors=0.004, rng=rng)
        arms: dict[str, Any] = {
            name: Counts(buckets=np.asarray(arm.buckets)[::-1], errors=np.asarray(arm.errors)[::-1])
            for name in ("stable", "baseline", "canary", "mirrored")
            for arm in [getattr(given_tick, name)]
        }
        decision, other = usual.observe(given_tick), turned.observe(Tick(**arms))
        assert (decision.verdict, decision.weight, decision.reason) == (other.verdict, other.weight, other.reason)
        for name in ("latency", "errors"):
            assert decision.signals[name].evidence == pytest.approx(float(other.signals[name].evidence), rel=1e-9)


@given(extra=st.integers(1, 40), at=st.integers(3, 8))
@settings(max_examples=25)
def test_more_failed_canary_requests_never_lower_the_evidence_against_it(extra, at):
    better, worse = gate(QUICK), gate(QUICK)
    decision = run(better, at)[-1]
    run(worse, at)
    mild, bad = tick(decision, errors=0.001), tick(decision, errors=0.001 + extra / 6000)
    assert worse.observe(bad).signals["errors"].evidence >= better.observe(mild).signals["errors"].evidence


def test_several_histograms_share_the_budget_of_latency():
    one = Gate(QUICK, {"total": EDGES, "first token": EDGES}, CLASSES)
    once: Any = counts(9000).buckets
    one.learn(Counts(buckets={"total": once, "first token": once}, errors=np.zeros(2)))
    decision = one.start()
    for _ in range(30):
        usual = tick(decision)
        slow = tick(decision, shares=SLOW)
        arms = {}
        for name in ("stable", "baseline", "canary", "mirrored"):
            arms[name] = Counts(
                buckets={"total": getattr(usual, name).buckets, "first token": getattr(slow, name).buckets}, errors=np.zeros(2)
            )
        decision = one.observe(Tick(**arms))
        if decision.phase != Phase.RELEASING:
            break
    assert reason(decision) is Reason.FAILED_LATENCY
    assert decision.signals["latency.first token"].verdict == Verdict.FAIL
    assert decision.signals["latency.total"].verdict != Verdict.FAIL
    assert decision.signals["latency.total"].bound == 2 * decision.signals["latency"].bound


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Counts(buckets=np.zeros((2, 4)), errors=np.zeros(2)), r"canary.buckets\[latency\] has shape \(2, 4\)"),
        (Counts(buckets=-np.ones((2, 5)), errors=np.zeros(2)), "negative counts"),
        (Counts(buckets={"other": np.zeros((2, 5))}, errors=np.zeros(2)), r"canary.buckets has \['other'\]"),
    ],
)
def test_counts_that_cannot_be_compared_are_refused_by_name(wrong, words):
    with pytest.raises(ValueError, match=words):
        gate(QUICK).observe(Tick(canary=wrong))


@pytest.mark.parametrize("edges", [(100.0,), (100.0, 100.0), (0.0, 5.0), (250.0, 100.0)])
def test_edges_that_do_not_ascend_are_refused(edges):
    with pytest.raises(ValueError, match="do not ascend"):
        Gate(QUICK, edges)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"edges": (50.0, float("inf"))}, "without infinity"),
        ({"edges": (50.0, float("nan"), 100.0)}, "do not ascend"),
        ({"edges": {}}, "a histogram's edges"),
        ({"tick_seconds": 0.0}, "Give a length"),
        ({"shape": (0,)}, "no such batch"),
        ({"classes": "short"}, "a list of one name"),
        ({"classes": ("short", "short")}, "each once"),
    ],
)
def test_a_gate_that_could_judge_nothing_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        Gate(GatePolicy(), **{"edges": EDGES, **arguments})


@pytest.mark.parametrize(
    "numbers", [{"weights": (0.5, 0.1)}, {"weights": (5.0, 10.0)}, {"weights": (0.1, 1.0)}, {"mirror": 2.0}, {"false_rollback": 0.0}]
)
def test_a_policy_that_has_no_ladder_is_refused(numbers):
    with pytest.raises(ValueError, match=r"ladder|no shares"):
        GatePolicy(**numbers)


@pytest.mark.parametrize(
    ("flags", "words"),
    [({"answered": float("nan")}, "neither true nor false"), ({"pairs": -1}, "negative"), ({"memory": 95.0}, "share in use")],
)
def test_flags_that_mean_nothing_are_refused(flags, words):
    one = gate(QUICK)
    with pytest.raises(ValueError, match=words):
        one.observe(tick(one.start(), **flags))


def test_a_count_that_nobody_knows_is_forgotten_by_the_next_tick():
    unknown: dict[str, Any] = {name: float("nan") for name in ("pairs", "mismatches", "restarts", "invalid_answers")}
    one = gate(QUICK)
    decision = one.observe(tick(one.start(), **unknown))
    assert reason(run(one, 60)[-1]) is Reason.PROMOTED, decision


def test_the_gate_does_not_write_into_the_arrays_it_is_given():
    given_buckets = np.full((1, 5), np.nan)
    one = Gate(QUICK, EDGES)
    one.observe(Tick(canary=Counts(buckets=given_buckets, errors=np.zeros(1))))
    assert np.isnan(given_buckets).all()


def test_a_decision_has_a_sentence():
    policy = dataclasses.replace(QUICK, weights=(0.1, 0.5))
    text = run(gate(policy), 60, shares=SLOW)[-1].sentence(policy)
    assert text.startswith("Requests are slower than the policy tolerates. Now: rolled back. latency: fail (evidence against ")
    assert " of 250); errors: " in text


def test_the_contract_sets_every_number():
    policy = GatePolicy.from_contract(
        Rollout.model_validate(
            {
                "strategy": "canary",
                "weights": ["2%", "40%"],
                "mirror": {"share": "50%", "timeout": "20m"},
                "step_at_least": "4m",
                "step_at_most": "12m",
                "bake": "30m",
                "at_most": "3h",
                "blind_at_most": "7m",
                "on_inconclusive": "rollback",
                "false_rollback": "2%",
                "baseline_arm": False,
                "tolerances": {
                    "latency": "20%",
                    "latency_unacceptable": "50%",
                    "error_ratio": 2.0,
                    "error_floor": "0.1%",
                    "error_unacceptable": "1.5%",
                    "mismatch": "2%",
                    "cost": "40%",
                    "memory": "90%",
                },
            }
        ),
        tick_seconds=30,
    )
    assert (policy.weights, policy.mirror, policy.mirror_ticks_at_most) == ((0.02, 0.4), 0.5, 40)
    assert (policy.step_ticks_at_least, policy.step_ticks_at_most, policy.bake_ticks) == (8, 24, 60)
    assert (policy.ticks_at_most, policy.blind_ticks_at_most, policy.baseline) == (360, 14, False)
    assert (policy.latency, policy.latency_unacceptable, policy.error_ratio, policy.error_floor) == (0.2, 0.5, 2.0, 0.001)
    assert (policy.error_unacceptable, policy.mismatch, policy.cost, policy.memory) == (0.015, 0.02, 0.4, 0.9)
    assert (policy.trade_gain, policy.trade_latency, policy.mirrored, policy.golden) == (None, 0.0, None, False)
    assert policy.on_inconclusive is OnInconclusive.ROLLBACK
    assert policy.alpha == {
        "latency": 0.008,
        "queue": 0.002,
        "errors": 0.005,
        "correctness": 0.0025,
        "cost": 0.00125,
        "reach": 0.0004,
        "catastrophe": 0.0004,
        "malformed": 0.00025,
        "restarts": 0.0002,
    }


def test_the_trade_of_a_contract_reaches_the_gate():
    rollout = Rollout.model_validate({"strategy": "canary", "trade": {"gain": "1%", "latency": "30%"}})
    policy = GatePolicy.from_contract(rollout)
    assert (policy.latency, policy.trade_gain, policy.trade_latency) == pytest.approx((0.1, 0.01, 0.3))
    assert (policy.traded().latency, policy.traded().latency_unacceptable) == pytest.approx((0.3, 0.45))
    assert GatePolicy.from_contract(Rollout.model_validate({"strategy": "canary"})).trade_gain is None


@pytest.mark.parametrize(
    ("only_canary_right", "trade", "phase"),
    [
        (8, {"trade_gain": 0.02, "trade_latency": 0.8}, Phase.BAKING),
        (2, {"trade_gain": 0.02, "trade_latency": 0.8}, Phase.ROLLED_BACK),
        (8, {}, Phase.ROLLED_BACK),
    ],
)
def test_a_better_version_may_be_as_much_slower_as_the_trade_says(only_canary_right, trade, phase):
    """Half as slow again: more than any version may be, less than one may be that answers two points more of the requests right."""
    policy = dataclasses.replace(QUICK, **trade)
    last = run(gate(policy), 90, shares=SLOW, labelled=100, only_canary_right=only_canary_right, only_stable_right=2)[-1]
    assert Phase(int(last.phase)) == phase, last.sentence(policy)
    assert bool(last.better) == (phase == Phase.BAKING)


def minute_of_short_ticks(one: Gate, parts: int, **changes: object) -> Decision:
    decision = one.start()
    for _ in range(parts):
        decision = one.observe(tick(decision, requests=6000.0 / parts, **changes))  # type: ignore[arg-type]
    return decision


@pytest.mark.parametrize("parts", [1, 4, 60])
def test_one_bad_minute_proves_nothing_however_many_ticks_it_has(parts):
    policy = dataclasses.replace(NO_MIRROR, grace_ticks=0).in_ticks_of(60 / parts)
    one = Gate(policy, EDGES, CLASSES, tick_seconds=60 / parts)
    one.learn(counts(9000.0))
    assert minute_of_short_ticks(one, parts, errors=0.1).phase == Phase.RELEASING


def test_a_policy_means_the_same_times_in_ticks_of_any_length():
    rollout = Rollout.model_validate({"strategy": "canary", "bake": "30m"})
    short, usual = (GatePolicy.from_contract(rollout, tick_seconds=seconds) for seconds in (15.0, 60.0))
    assert usual.in_ticks_of(15.0) == short
    assert (short.grace_ticks, short.counted_ticks_at_least, short.bake_ticks, short.planned_ticks) == (8, 60, 120, 960)
    assert usual.in_ticks_of(60.0) == usual


def test_blue_and_green_change_places_once_the_copies_are_proven():
    policy = GatePolicy.from_contract(Rollout.model_validate({"strategy": "blue_green", "mirror": {"share": "100%"}}))
    weights = [float(d.weight) for d in run(gate(policy), 60)]
    assert list(dict.fromkeys(weights)) == [0.0, 0.95]
    assert len(weights) - 1 >= policy.counted_ticks_at_least


def test_without_copies_and_weights_only_the_old_version_kept_warm_is_left():
    one = gate(GatePolicy.from_contract(Rollout.model_validate({"strategy": "blue_green"})))
    decision = one.start()
    assert (decision.phase, decision.weight) == (Phase.BAKING, 0.95)
    assert one.observe(tick(decision, errors=0.5)).phase == Phase.ROLLED_BACK


def test_a_rolling_update_is_judged_at_the_weights_of_its_plan():
    rollout = Rollout.model_validate({"strategy": "rolling"})
    assert GatePolicy.from_contract(rollout, weights=[0.25, 0.5, 0.75]).weights == (0.25, 0.5, 0.75)
    with pytest.raises(ValueError, match="Give those of the plan"):
        GatePolicy.from_contract(rollout)
