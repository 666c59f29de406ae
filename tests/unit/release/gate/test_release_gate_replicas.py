"""A version is in all its replicas, all the time; the trouble of a node is in one, or passes."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import release
from headway.release.gate import Counts, Decision, Gate, GatePolicy, Phase, Reason, Tick
from headway.release.gate.episodes import EPISODE_MINUTES, ButOneEpisode, ButOneReplica
from headway.release.gate.replicas import MOST_REPLICAS, placed
from headway.release.worlds.scenarios import SCENARIOS
from headway.release.worlds.world import BASE
from tests.unit.release_ticks import CLASSES, EDGES, SHARES, SLOW, counts, gate, slowed, tick

QUICK = GatePolicy(weights=(0.1, 0.5), counted_ticks_at_least=6, bake_ticks=5)
LASTING = int(EPISODE_MINUTES)


def told_apart(arm: Counts, replicas: Sequence[np.ndarray], names: Sequence[str] = ()) -> Counts:
    """`arm` answered by replicas with these shares, each as many requests as the next."""
    total = float(np.asarray(arm.buckets).sum()) / max(len(replicas), 1)
    each = [np.asarray(counts(total, shares).buckets) for shares in replicas]
    return replace(arm, buckets=np.sum(each, axis=0), by_replica=np.stack(each), replicas=names)


def minute(decision: Decision, replicas: Sequence[np.ndarray], names: Sequence[str] = (), **more: Any) -> Tick:
    """A tick in which the new version has these replicas."""
    seen = tick(decision, **more)
    assert seen.canary and seen.mirrored
    return replace(seen, canary=told_apart(seen.canary, replicas, names), mirrored=told_apart(seen.mirrored, replicas, names))


def said(ticks: int, replicas: Sequence[np.ndarray], made: Gate | None = None) -> list[Decision]:
    one = made or gate(QUICK)
    decisions = [one.start()]
    while len(decisions) <= ticks and decisions[-1].phase in (Phase.RELEASING, Phase.BAKING):
        decisions.append(one.observe(minute(decisions[-1], replicas)))
    return decisions


def reasons(decisions: Sequence[Decision]) -> set[Reason]:
    return {Reason(int(each.reason)) for each in decisions[1:]}


@pytest.mark.parametrize("others", [1, 2, 20])
def test_a_slow_replica_among_healthy_ones_takes_nothing_back(others: int):
    decisions = said(60, [SLOW, *[SHARES] * others])
    assert decisions[-1].phase != Phase.ROLLED_BACK


def test_nor_does_what_is_beyond_a_peaks_explanation_where_one_replica_shows_it():
    one = gate(QUICK)
    said(12, [slowed(3.0), SHARES], one)
    latency = one.latency["latency"]
    assert latency.seen.bounded.value().max() > 50
    assert latency.shared.bounded.value().max() < 1


def test_a_slow_replica_holds_the_release_for_as_long_as_it_is_slow():
    decisions = said(40, [SLOW, SHARES])
    assert Reason(int(decisions[-1].reason)) is Reason.ONE_REPLICA
    assert {float(each.weight) for each in decisions} == {0.0}, "users meet it no more than before"


def test_a_release_goes_on_once_the_slow_replica_is_mended():
    one = gate(QUICK)
    decision = said(20, [SLOW, SHARES], one)[-1]
    for _ in range(60):
        decision = one.observe(minute(decision, [SHARES, SHARES]))
    assert decision.phase == Phase.DONE


@pytest.mark.parametrize("number", [2, 3, MOST_REPLICAS + 5])
def test_a_version_that_is_slow_in_all_replicas_is_rolled_back_at_once(number: int):
    decisions = said(60, [SLOW] * number)
    assert Reason(int(decisions[-1].reason)) is Reason.FAILED_LATENCY
    assert len(decisions) + 4 < len(said(60, [SLOW])), "sooner than it takes to see that it lasts"


def test_a_fifth_slower_is_found_in_two_replicas_that_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    """Of few requests each, so that in any one minute one of them seems to explain it."""
    monkeypatch.setattr(release, "MINUTES", 100)
    worse = next(each for each in SCENARIOS if each.name == "p99 +20 %")
    cell = release.judge(replace(BASE, replicas=2), worse, 10.0, 8, 3, GatePolicy())
    assert (cell.wrong, cell.undecided) == (0, 0)


def test_a_slow_replica_stays_one_while_others_come_and_go():
    one = gate(QUICK)
    decision = one.start()
    for number in range(60):
        early = number % 6 < 3
        names, shares = (("a", "slow"), [SHARES, SLOW]) if early else (("slow", "z"), [SLOW, SHARES])
        decision = one.observe(minute(decision, shares, names))
    assert decision.phase == Phase.RELEASING


def test_two_nodes_one_after_the_other_take_nothing_back():
    one = gate(QUICK)
    decision = one.start()
    for number in range(80):
        slow = {0: 0, 2: 1}.get(number // LASTING)
        decision = one.observe(minute(decision, [SLOW if place == slow else SHARES for place in range(3)]))
    assert decision.phase == Phase.DONE


def test_as_many_names_as_replicas_are_asked_for():
    with pytest.raises(ValueError, match=r"canary\.by_replica.*has 2 replicas, and 1 names"):
        gate(QUICK).observe(minute(gate(QUICK).start(), [SHARES, SHARES], ["one"]))


@pytest.mark.parametrize(
    ("rows", "named", "at", "now", "anew"),
    [
        pytest.param([], [7, 9], [0, 1], [7, 9], False, id="the first ones"),
        pytest.param([7, 9], [9], [1], [7, 9], False, id="one that answered nothing keeps its row"),
        pytest.param([7, 9], [5, 9], [2, 1], [7, 9, 5], False, id="a newcomer takes a free row"),
        pytest.param([*range(1, 9)], [9, 2], [0, 1], [9, *range(2, 9)], True, id="and where there is none, that of one who left"),
        pytest.param([1, 2], [*range(10, 19)], [2, 3, 4, 5, 6, 7, 0, 1, 2], [-1] * 8, True, id="of many, several share a row"),
        pytest.param([-1] * 8, [*range(10, 19)], [2, 3, 4, 5, 6, 7, 0, 1, 2], [-1] * 8, False, id="and keep it"),
        pytest.param([-1] * 8, [10], [0], [10], True, id="until they are few again"),
    ],
)
def test_each_replica_has_a_row_that_it_keeps(rows: list[int], named: list[int], at: list[int], now: list[int], anew: bool):
    def whole(some: list[int]) -> list[int]:
        return [*some, *[0] * (MOST_REPLICAS - len(some))]

    assert placed(whole(rows), named) == (at, whole(now), anew)


GAINS = st.lists(st.tuples(st.floats(0.05, 4.0), st.floats(0.05, 4.0)), min_size=1, max_size=6)


@given(GAINS, st.integers(1, 4), st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)))
@settings(max_examples=150, deadline=None)
def test_what_shows_without_one_replica_is_the_least_of_all_choices(
    gains: list[tuple[float, float]], block: int, lone: set[int], others: set[int]
):
    """One of two a block, or neither, by hand; a block also ends at a tick of a lone replica, and where they are others."""
    found = ButOneReplica((1, 1), block)
    stake, blocks = np.asarray([1.0 / len(gains)]), list[list[int]]()
    for number, of_tick in enumerate(gains):
        alone = number in lone
        found.begin(np.asarray([alone]), number in others)
        each = [of_tick[0]] if alone else [*of_tick, sum(of_tick)]
        found.follow(np.asarray(each).reshape(-1, 1, 1), stake)
        if number % block == 0 or number in others or alone or number - 1 in lone:
            blocks.append([])
        blocks[-1].append(number)
    wanted = np.inf
    for chosen in itertools.product(range(3), repeat=len(blocks)):
        value = 0.0
        for left_out, ticks in zip(chosen, blocks, strict=True):
            for number in ticks:
                of_tick = gains[number]
                value = (value + float(stake[0])) * (of_tick[0] if number in lone else [*of_tick, sum(of_tick)][left_out])
        wanted = min(wanted, value)
    assert float(found.least()[0, 0]) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("begins", [3, 5, 9])
@pytest.mark.parametrize("known", [True, False])
def test_ten_slow_minutes_of_a_lone_replica_take_nothing_back(begins: int, known: bool):
    one = gate(QUICK)
    decision = one.start()
    for number in range(80):
        shares = SLOW if begins <= number < begins + 10 else SHARES
        decision = one.observe(minute(decision, [shares]) if known else tick(decision, shares=shares))
    assert decision.phase == Phase.DONE


def test_a_lone_replica_that_stays_slow_is_rolled_back_once_it_lasts():
    decisions = said(60, [SLOW])
    assert Reason(int(decisions[-1].reason)) is Reason.FAILED_LATENCY
    assert Reason.ONE_EPISODE in reasons(decisions)
    assert LASTING < len(decisions) - 1 <= LASTING + 15


def test_a_lone_replica_is_asked_to_last_however_many_there_were_before():
    one = gate(QUICK)
    decision = said(5, [SHARES, SHARES], one)[-1]
    for _ in range(10):
        decision = one.observe(minute(decision, [SLOW]))
    assert decision.phase == Phase.RELEASING


def test_replicas_of_one_rollout_change_no_bit_of_another():
    together, alone = gate(QUICK, shape=(2,)), gate(QUICK)
    rng = np.random.default_rng(5)
    decision, other = together.start(), alone.start()
    for _ in range(20):
        drawn = rng.poisson(50.0, (2, 3, len(CLASSES), len(EDGES) + 1)).astype(float)
        drawn[1, 2] = 0.0
        stable = rng.poisson(90.0, (2, len(CLASSES), len(EDGES) + 1)).astype(float)
        failed = np.zeros((2, len(CLASSES)))
        decision = together.observe(
            Tick(stable=Counts(buckets=stable, errors=failed), mirrored=Counts(buckets=drawn.sum(axis=1), errors=failed, by_replica=drawn))
        )
        other = alone.observe(
            Tick(
                stable=Counts(buckets=stable[1], errors=failed[1]),
                mirrored=Counts(buckets=drawn[1].sum(axis=0), errors=failed[1], by_replica=drawn[1, :2]),
            )
        )
        assert decision.signals["latency"].evidence[1] == other.signals["latency"].evidence


def test_replicas_of_another_histogram_are_refused():
    with pytest.raises(ValueError, match=r"canary\.by_replica.*Give each histogram once"):
        one = gate(QUICK)
        one.observe(Tick(canary=replace(counts(10.0), by_replica={"other": np.zeros((1, 2, 5))})))


STEPS = st.tuples(st.floats(-1.0, 0.3), st.floats(0.05, 4.0), st.booleans())


@given(st.lists(STEPS, min_size=1, max_size=12), st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_the_least_without_an_episode_is_that_of_the_worst_chosen_one(steps: list[tuple[float, float, bool]], length: int):
    """Every run of `length` ticks that holds one of a lone replica, by hand."""
    found = ButOneEpisode((1, 1), length)
    wealth = np.zeros((1, 1))
    for stake, gain, alone in steps:
        at, lone = np.asarray([stake]), np.asarray([alone])
        found.begin(wealth, at, lone)
        found.follow(np.asarray([[[gain]]]), at)
        wealth = (wealth + max(stake, 0.0)) * gain if stake >= 0 else wealth
    wanted = np.inf
    for first in range(len(steps)):
        run = range(first, first + length)
        if not any(alone and stake >= 0 for place, (stake, _, alone) in enumerate(steps) if place in run):
            continue
        value = 0.0
        for place, (stake, gain, _) in enumerate(steps):
            value = value if stake < 0 else (value + stake) * (1.0 if place in run else gain)
        wanted = min(wanted, value)
    assert float(found.least()[0, 0]) == pytest.approx(wanted, abs=1e-9)


def test_evidence_without_an_episode_does_not_grow_on_average_beside_it():
    """Over every outcome of six ticks, of which three are of a node in trouble."""
    total = 0.0
    outcomes = (0.5, 1.5)
    for drawn in itertools.product(outcomes, repeat=4):
        gains = [*drawn[:1], 9.0, 9.0, 9.0, *drawn[1:]]
        found, wealth = ButOneEpisode((1, 1), 3), np.zeros((1, 1))
        for place, gain in enumerate(gains):
            stake = np.asarray([1.0 if place == 0 else 0.0])
            found.begin(wealth, stake, np.asarray([True]))
            found.follow(np.asarray([[[gain]]]), stake)
            wealth = (wealth + stake) * gain
        total += float(found.least()[0, 0]) / len(outcomes) ** 4
    assert total <= 1.0
