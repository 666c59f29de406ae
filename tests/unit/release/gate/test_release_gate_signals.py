"""Tails, answers, memory and noise: the parts of the gate, each by itself."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from headway.release.gate import Counts, Gain, Gate, GatePolicy, Phase, Reason, Tick
from headway.release.gate.correctness import Correctness
from headway.release.gate.evidence import TickStake
from headway.release.gate.latency import Latency
from headway.release.gate.memory import GpuMemoryUse
from headway.release.gate.noise import Noise
from headway.release.gate.tail import ControlHistogram, LatencyTail

EDGES = (50.0, 100.0, 200.0, 400.0)


def lognormal_buckets(median: float, spread: float) -> np.ndarray:
    below = ndtr((np.log(EDGES) - math.log(median)) / spread)
    return (1e6 * np.diff(below, prepend=0.0, append=1.0))[None, :, None]


@pytest.mark.parametrize("slowdown", [0.1, 0.25, 1.0, 2.0])
def test_the_tolerated_ratio_of_a_lognormal_is_exact(slowdown):
    tail, median, spread = LatencyTail(EDGES), 90.0, 0.5
    masses = tail.masses(lognormal_buckets(median, spread))
    found = tail.ratio(tail.quantiles(masses), masses, slowdown)[0, :, 0]
    for edge, ratio in zip(EDGES, found, strict=True):
        slower = ndtr((math.log(median * (1 + slowdown)) - math.log(edge)) / spread)
        usual = ndtr((math.log(median) - math.log(edge)) / spread)
        assert ratio == pytest.approx(slower / usual, rel=1e-3)


def test_tail_masses_are_shares_above_each_edge():
    masses = LatencyTail((1.0, 2.0)).masses(np.asarray([[[70.0], [20.0], [10.0]]]))
    assert masses[0, :, 0].tolist() == pytest.approx([0.3, 0.1])


def test_a_histogram_without_requests_has_no_tail():
    assert LatencyTail((1.0, 2.0)).masses(np.zeros((1, 3, 1)))[0, :, 0].tolist() == [0.0, 0.0]


@given(buckets=st.lists(st.integers(0, 1000), min_size=5, max_size=5), small=st.floats(0.01, 1.0), more=st.floats(0.0, 1.0))
@settings(max_examples=60)
def test_a_larger_slow_down_never_has_a_smaller_ratio(buckets, small, more):
    tail = LatencyTail(EDGES)
    masses = tail.masses(np.asarray(buckets, dtype=float)[None, :, None])
    quantiles = tail.quantiles(masses)
    less, larger = tail.ratio(quantiles, masses, small), tail.ratio(quantiles, masses, small + more)
    assert (larger >= less * (1 - 1e-9)).all()
    assert (less >= 1).all()


@given(buckets=st.lists(st.integers(1, 1000), min_size=5, max_size=5), slowdown=st.floats(0.01, 1.5))
@settings(max_examples=60)
def test_the_bound_is_at_least_any_ratio_that_the_buckets_allow(buckets: list[int], slowdown: float):
    """At most: all of a bucket lies just below its edge. At least: as the ratio that is read between edges."""
    tail = LatencyTail(EDGES)
    counted = np.asarray(buckets, dtype=float)
    masses = tail.masses(counted[None, :, None])
    bound = tail.bound(masses, slowdown)[0, :, 0]
    assert (bound >= tail.ratio(tail.quantiles(masses), masses, slowdown)[0, :, 0] * (1 - 1e-9)).all()
    places = np.asarray([0.0, *EDGES])
    for edge, found in zip(EDGES, bound, strict=True):
        moved = sum(count for count, end in zip(counted, [*EDGES, math.inf], strict=True) if end * (1 + slowdown) > edge)
        assert found >= moved / counted[places[: len(counted)] >= edge].sum() * (1 - 1e-9)


PEAK = np.asarray([0.20, 0.60, 0.16, 0.035, 0.005])
"""Shares by bucket, half of the requests at 97 ms."""


@pytest.mark.parametrize(("moved", "phase"), [(0.5, Phase.RELEASING), (0.0, Phase.BAKING)])
def test_a_peak_that_passed_one_edge_is_held_and_not_rolled_back(moved: float, phase: Phase):
    """Slower by 5 %: hardly anything moves but the peak, which was just below 100 ms."""
    policy = GatePolicy(weights=(0.1, 0.5), counted_ticks_at_least=6, bake_ticks=90)
    rng = np.random.default_rng(5)
    gate = Gate(policy, EDGES)
    slower = PEAK * 0.97 + 0.03 * np.asarray([0, *PEAK[:-1]]) + moved * np.asarray([0, -1, 1, 0, 0])

    def arm(requests: float, shares: np.ndarray) -> Counts:
        return Counts(buckets=rng.poisson(requests * shares / shares.sum())[None], errors=np.zeros(1))

    gate.learn(arm(60000, PEAK))
    decision, reasons = gate.start(), set[Reason]()
    for _ in range(60):
        weight, baseline, mirror = (float(x) for x in (decision.weight, decision.baseline_weight, decision.mirror))
        stable = 6000 * (1 - weight - baseline)
        decision = gate.observe(
            Tick(
                stable=arm(stable, PEAK),
                baseline=arm(6000 * baseline, PEAK),
                canary=arm(6000 * weight, slower),
                mirrored=arm(stable * mirror, slower),
            )
        )
        reasons.add(Reason(int(decision.reason)))
    assert decision.phase == phase
    assert (Reason.ONE_EDGE in reasons) == bool(moved)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_peak_below_one_edge_is_no_evidence_whichever_it_is(place: int):
    """At one edge all of the bucket below may pass it; at the others the ratio is the tolerated one."""
    rng, rollouts, worst = np.random.default_rng(6), 1500, np.zeros(1500)
    latency = Latency(dataclasses.replace(GatePolicy(), tempered=False), EDGES, 1, rollouts)
    latency.remember(np.repeat((20000 * PEAK)[None, :, None], rollouts, axis=2), np.zeros((1, 5, rollouts)))
    latency.choose()
    masses = latency.tail.masses(latency.memory.buckets)
    ratio = latency.tail.ratio(latency.tail.quantiles(masses), masses, 0.1)[0, :, 0]
    above = masses[0, :, 0] * ratio
    above[place] = masses[0, place, 0] * latency.tail.bound(masses, 0.1)[0, place, 0]
    slower = -np.diff(np.minimum.accumulate(np.minimum(above, 1.0)), prepend=1.0, append=0.0)
    for number in range(60):
        canary, control = (rng.multinomial(600, shares, rollouts).T[None].astype(float) for shares in (slower, PEAK))
        latency.compare(canary, control, control, _at(rollouts, 0.4 if number == 0 else 0.01))
        worst = np.maximum(worst, latency.evidence())
    assert (worst >= 100).mean() <= 0.01


def crossed(factor: float, rollouts: int, minutes: int = 60) -> np.ndarray:
    """The most evidence in each rollout against a version whose tail above an edge is `factor` times the control's above the edge before, where
    one in a hundred of the control's requests is; elsewhere it is as fast as the control."""
    rng, worst = np.random.default_rng(7), np.zeros(rollouts)
    usual = np.asarray([0.60, 0.30, 0.09, 0.01, 0.0])
    slower = np.asarray([0.60, 0.30, 0.10 - 0.01 * factor, 0.0, 0.01 * factor])
    latency = Latency(dataclasses.replace(GatePolicy(), tempered=False), EDGES, 1, rollouts)
    latency.remember(np.repeat((20000 * usual)[None, :, None], rollouts, axis=2), np.zeros((1, 5, rollouts)))
    latency.choose()
    for number in range(minutes):
        canary, control = (rng.multinomial(600, shares, rollouts).T[None].astype(float) for shares in (slower, usual))
        latency.compare(canary, control, control, _at(rollouts, 0.4 if number == 0 else 0.01))
        worst = np.maximum(worst, latency.evidence())
    return worst


def test_a_tail_that_reaches_a_later_edge_as_often_as_an_earlier_passes():
    """Nothing more is shown against it than that all of a bucket may lie just below the later edge."""
    assert (crossed(1.0, 1500) >= 100).mean() <= 0.01


def test_a_tail_beyond_an_edge_that_the_control_hardly_reaches_is_evidence():
    """The control has no request above it, so that no ratio of tails tells how many may be there."""
    assert (crossed(4.0, 200) >= 250).mean() >= 0.99


def test_what_fewer_than_one_in_2000_requests_meet_is_not_compared():
    latency = Latency(GatePolicy(), EDGES, 1, 2)
    tails = np.asarray([[0.6, 0.3, 0.0996, 0.0004, 0.0], [0.6, 0.3, 0.0994, 0.0006, 0.0]]).T
    latency.remember((10000 * tails)[None], np.zeros((1, 5, 2)))
    latency.choose()
    assert [set(each) for each in latency.crossing.T] == [{1, 2, -1}, {1, 2, 3, -1}]


def test_pairs_of_edges_are_chosen_once_enough_requests_tell_a_rare_tail():
    latency = Latency(GatePolicy(), EDGES, 1, 1)
    for _ in range(2):
        assert (latency.crossing == -1).all()
        latency.remember((1600 * PEAK)[None, :, None], np.zeros((1, 5, 1)))
        latency.choose()
    chosen = latency.crossing.copy()
    assert (chosen >= 0).any()
    latency.remember(np.asarray([100000.0, 0, 0, 0, 0])[None, :, None], np.zeros((1, 5, 1)))
    latency.choose()
    assert (latency.crossing == chosen).all()


@pytest.mark.parametrize("slow_in_canary", [0.2, 1.0])
def test_slow_requests_that_come_together_are_no_more_evidence_than_one(slow_in_canary: float):
    """Callers whose requests are slow come with thirty of them, every fifth minute; an arm that has more callers of them is found all the same."""
    rng, rollouts = np.random.default_rng(8), 300
    worst, usual = np.zeros(rollouts), np.asarray([0.60, 0.30, 0.10, 0.0, 0.0])
    latency = Latency(GatePolicy(), EDGES, 1, rollouts)
    before = usual + np.asarray([0, 0, 0, 0, 0.002])
    latency.remember(np.repeat((20000 * before)[None, :, None], rollouts, axis=2), np.zeros((1, 5, rollouts)))

    def arm(callers: float) -> np.ndarray:
        counted = rng.multinomial(3000, usual, rollouts).T.astype(float)
        counted[4] += 30 * rng.poisson(callers, rollouts)
        return counted[None]

    for number in range(120):
        latency.choose()
        stable = arm(0.2)
        latency.compare(arm(slow_in_canary), stable, stable, _at(rollouts, 0.4 if number == 0 else 0.005))
        latency.remember(stable, np.zeros((1, 5, rollouts)))
        worst = np.maximum(worst, latency.evidence())
    accused = (worst >= 250).mean()
    assert accused <= 0.01 if slow_in_canary == 0.2 else accused >= 0.5


def _at(rollouts: int, stake: float) -> TickStake:
    return TickStake(np.full(rollouts, stake), np.zeros(rollouts, dtype=np.int64), np.full(rollouts, 10.0))


def test_a_busy_service_forgets_in_minutes_and_a_quiet_one_keeps_hours():
    busy, quiet = ControlHistogram(1, 2, 1), ControlHistogram(1, 2, 1)
    for memory, requests in ((busy, 6000.0), (quiet, 60.0)):
        memory.remember(np.asarray([[[requests], [0.0]]]))
        for _ in range(20):
            memory.remember(np.asarray([[[0.0], [requests]]]))
    assert busy.buckets[0, 0, 0] == pytest.approx(6000 * 0.25, rel=0.01), "two half-lives of ten ticks"
    assert quiet.buckets[0, 0, 0] == 60


def bernoulli(share: float, rollouts: int, pairs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Evidence of many rollouts after each pair: the largest, and the first pair at which it was enough."""
    rng, judge = np.random.default_rng(seed), Correctness(0.005, rollouts)
    crossed = np.full(rollouts, np.inf)
    for place in range(pairs):
        judge.compare(np.ones(rollouts), (rng.random(rollouts) < share).astype(float))
        crossed = np.where((judge.evidence() >= 800) & np.isinf(crossed), place + 1, crossed)
    return judge.evidence(), crossed


def test_five_per_cent_of_wrong_answers_are_mostly_found_within_250_pairs():
    _, crossed = bernoulli(0.05, 1000, 260, seed=1)
    assert np.quantile(crossed, 0.9) <= 250


def test_wrong_answers_within_the_tolerance_are_hardly_ever_a_failure():
    _, crossed = bernoulli(0.005, 1000, 2000, seed=2)
    assert np.isfinite(crossed).mean() <= 0.00125 + 0.003


@pytest.mark.parametrize(("truth", "grows"), [(0.01, False), (0.0, False), (0.03, True)])
def test_a_gain_is_believed_only_when_it_exceeds_the_one_asked_for(truth, grows):
    """Labelled answers: 5 % only stable got right, 5 % + truth only the canary; asked for is a gain of one point."""
    gain = Gain(0.01)
    gain.compare(np.asarray([20000.0]), np.asarray([20000 * (0.05 + truth)]), np.asarray([1000.0]))
    assert (gain.evidence()[0] >= 100) == grows


@pytest.mark.parametrize("bet", Gain._BETS)
@pytest.mark.parametrize(("up", "down"), [(0.06, 0.05), (0.01, 0.0), (0.5, 0.49), (0.0, 0.3)])
def test_a_bet_on_a_gain_is_fair_at_the_gain_asked_for(bet, up, down):
    mean = up * (1 + bet * 0.99) + (1 - up - down) * (1 - bet * 0.01) + down * (1 - bet * 1.01)
    assert mean <= 1 + 1e-12


def watch(series: np.ndarray, control: np.ndarray | float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    """First tick at which each of (ticks, rollouts) is a failure, infinite where never; and how many ticks each was held."""
    memory = GpuMemoryUse(0.95, 1.0, series.shape[1])
    first, held = np.full(series.shape[1], np.inf), np.zeros(series.shape[1])
    beside = np.broadcast_to(control, series.shape)
    for place, used in enumerate(series):
        memory.observe(used, beside[place])
        first = np.where(memory.beyond() & np.isinf(first), place + 1, first)
        held = held + memory.suspect()
    return first, held


def noisy(level: np.ndarray, rollouts: int, seed: int, sigma: float = 0.003) -> np.ndarray:
    return level[:, None] + sigma * np.random.default_rng(seed).standard_normal((len(level), rollouts))


MINUTES = np.arange(240.0)
DAY = 0.7 + 0.24 * np.sin(2 * math.pi * MINUTES / 480)


def test_flat_memory_and_a_quick_plateau_neither_fail_nor_hold():
    for level in (np.full(240, 0.6), 0.5 + 0.18 * (1 - np.exp(-MINUTES / 6))):
        failed, held = watch(noisy(level, 400, 3))
        assert np.isinf(failed).all()
        assert (held > 0).mean() <= 0.01


@pytest.mark.parametrize("minutes", [20, 60, 180])
def test_an_allocator_that_grows_slowly_is_held_until_its_plateau_at_most(minutes: int):
    failed, held = watch(noisy(0.5 + 0.4 * (1 - np.exp(-MINUTES / minutes)), 400, 4))
    assert np.isinf(failed).all()
    assert held.mean() <= 2 * minutes


def test_memory_that_follows_the_load_of_the_day_in_both_arms_is_nothing():
    failed, held = watch(noisy(DAY + 0.02, 400, 5), noisy(DAY, 400, 6))
    assert np.isinf(failed).all()
    assert (held > 0).mean() <= 0.01


@pytest.mark.parametrize("points", [0.2, 0.5])
def test_a_leak_of_a_fifth_of_a_point_a_minute_is_held_within_an_hour(points: float):
    leaking = noisy(0.5 + points / 100 * MINUTES, 400, 5)
    assert (watch(leaking[:60])[1] > 0).mean() >= 0.99
    assert np.isfinite(watch(leaking)[0]).all(), "taken back once it has reached the limit"


def test_a_leak_beside_the_load_of_the_day_is_held():
    assert (watch(noisy(DAY - 0.2 + 0.003 * MINUTES, 400, 5)[:120], noisy(DAY, 400, 6)[:120])[1] > 0).mean() >= 0.99


def test_a_leak_that_takes_longer_than_a_night_is_left_alone():
    assert watch(noisy(0.2 + 0.0001 * MINUTES, 50, 6, sigma=1e-5))[1].max() == 0


@pytest.mark.parametrize(("control", "failed", "held"), [(0.89, True, 0), (0.91, False, 0), (np.nan, False, 2)])
def test_memory_at_its_limit_fails_only_where_the_controls_is_not(control: float, failed: bool, held: int):
    first, ticks = watch(np.full((3, 1), 0.95), control)
    assert (np.isfinite(first[0]), ticks[0]) == (failed, held)


def test_a_missing_sample_neither_extends_nor_breaks_a_row_of_full_ones():
    series = np.asarray([[0.96], [np.nan], [0.96]])
    assert watch(series)[0][0] == 3


def test_a_tick_without_requests_of_the_stable_version_teaches_nothing_of_noise():
    noise = Noise((1,))
    noise.learn(*(np.asarray([each]) for each in (50.0, 100.0, 0.0, 0.0)))
    assert (noise.seen[0], noise.expected[0], noise.excess[0], noise.exposure[0]) == (0.0, 0.0, 0.0, 0.0)


def test_a_control_that_is_known_from_now_on_is_no_ramp():
    control = np.where(MINUTES < 100, np.nan, 0.5 + 0.001 * MINUTES)[:, None]
    assert watch(noisy(0.5 + 0.001 * MINUTES, 50, 7)[100:], control[100:])[1].max() == 0


def test_arms_that_differ_by_counting_alone_are_not_noisy():
    rng, noise = np.random.default_rng(7), Noise((200,))
    n, stable = np.full(200, 600.0), np.full(200, 12000.0)
    for _ in range(60):
        noise.learn(rng.binomial(600, 0.05, 200).astype(float), n, rng.binomial(12000, 0.05, 200).astype(float), stable)
    assert noise.phi(np.full(200, 0.05), n, n, 0.0).mean() == pytest.approx(1.0, abs=0.1)


def test_arms_that_vary_by_more_are_discounted_by_how_much_more():
    """Both small arms vary by 20 %: 30 events each, so the difference varies 1 + 15 * 2 * 0.04 = 2.2 times as much as counting."""
    rng, noise = np.random.default_rng(8), Noise((200,))
    n, stable = np.full(200, 600.0), np.full(200, 12000.0)
    for _ in range(200):
        rate = 0.05 * np.exp(0.2 * rng.standard_normal(200))
        noise.learn(rng.binomial(600, rate).astype(float), n, rng.binomial(12000, 0.05, 200).astype(float), stable)
    assert noise.phi(np.full(200, 0.05), n, n, 0.0).mean() == pytest.approx(2.2, rel=0.15)


def test_a_lasting_difference_is_not_noise():
    rng, noise = np.random.default_rng(9), Noise((200,))
    n, stable = np.full(200, 600.0), np.full(200, 12000.0)
    for _ in range(100):
        noise.learn(rng.binomial(600, 0.10, 200).astype(float), n, rng.binomial(12000, 0.05, 200).astype(float), stable)
    assert noise.phi(np.full(200, 0.05), n, n, 0.0).mean() < 1.3


def test_the_budget_of_false_rollbacks_is_spent_once():
    assert sum(GatePolicy(false_rollback=0.02).alpha.values()) == pytest.approx(0.02)


def test_the_last_step_rules_out_what_the_contract_calls_unacceptable():
    last = GatePolicy(mirror=0.0, latency_unacceptable=0.4, error_unacceptable=0.01).stages[-1]
    assert (last.latency_margin, last.error_margin) == (0.4, 0.01)


def test_margins_tighten_as_traffic_grows():
    for policy in (GatePolicy(), GatePolicy(mirror=0.0), GatePolicy(weights=(0.01, 0.05, 0.2, 0.3, 0.9))):
        steps = [stage for stage in policy.stages if stage.weight]
        margins = [(stage.latency_margin, stage.error_margin) for stage in steps]
        assert margins == sorted(margins, reverse=True)
