"""The simulated services show what they are said to show."""

import dataclasses

import numpy as np
import pytest

from benchmarks.release import judge
from headway.release.gate import GatePolicy
from headway.release.worlds.scenarios import BAKE_SCENARIOS, SCENARIOS
from headway.release.worlds.service import SimulatedService
from headway.release.worlds.world import BASE, EDGES, FINE_EDGES

NAMED = {scenario.name: scenario for scenario in SCENARIOS}
IN_BAKE = {scenario.name: scenario for scenario in BAKE_SCENARIOS}
WITH_USERS = (np.full(50, 0.25), np.full(50, 0.25), np.zeros(50), np.full(50, 9.0))


def test_there_are_thirteen_healthy_and_ten_bad_scenarios():
    kinds = [scenario.kind for scenario in SCENARIOS]
    assert (kinds.count("healthy"), kinds.count("bad"), len(NAMED)) == (14, 10, len(SCENARIOS))


def test_a_healthy_service_has_the_published_latencies_and_errors():
    buckets, errors = SimulatedService(BASE, NAMED["identical versions"], 200.0, 50, seed=1).history()
    total = buckets.sum(axis=(0, 1))
    below = dict(zip(EDGES, np.cumsum(total)[:-1] / total.sum(), strict=True))
    assert below[50.0] < 0.5 < below[100.0], "a median of about 75 ms"
    assert below[250.0] < 0.99 < below[500.0], "a p99 of about 365 ms"
    assert errors.sum() / total.sum() == pytest.approx(0.001, rel=0.1)
    assert total.sum() / 50 == pytest.approx(200 * 60 * 15, rel=0.01)


def test_a_world_with_fine_edges_counts_the_same_requests_between_them():
    fine = dataclasses.replace(BASE, edges=FINE_EDGES)
    coarse, finer = (SimulatedService(world, NAMED["identical versions"], 200.0, 50, seed=1).history()[0] for world in (BASE, fine))
    assert finer.shape[-1] == len(FINE_EDGES) + 1
    assert finer.sum() == pytest.approx(coarse.sum(), rel=0.01)
    above = {edge: finer[..., FINE_EDGES.index(edge) + 1 :].sum() for edge in (231.0, 289.0)}
    assert above[289.0] < coarse[..., EDGES.index(250.0) + 1 :].sum() < above[231.0]


@pytest.mark.parametrize(
    ("name", "edge", "least", "most"),
    [("p99 +50 %", 250.0, 2.0, 6.0), ("slower node +5 %", 250.0, 1.02, 1.6), ("identical versions", 250.0, 0.85, 1.15)],
)
def test_a_slower_version_has_more_slow_requests_than_its_twin(name, edge, least, most):
    shown = SimulatedService(BASE, NAMED[name], 200.0, 50, seed=2).minute(30, *WITH_USERS)
    above = EDGES.index(edge) + 1
    tails = {arm: shown.buckets[arm][:, :, above:].sum() / shown.buckets[arm].sum() for arm in ("canary", "baseline")}
    assert least <= tails["canary"] / tails["baseline"] <= most


@pytest.mark.parametrize(("name", "arm"), [("Prometheus down", "stable"), ("scrape gap", "canary"), ("idle service", "stable")])
def test_gaps_are_shown_for_as_long_as_published_and_only_there(name, arm):
    service, empty = SimulatedService(BASE, NAMED[name], 10.0, 50, seed=3), np.zeros(50)
    for number in range(60):
        shown = service.minute(number, *WITH_USERS)
        gone = shown.buckets[arm].sum(axis=(1, 2)) == 0
        trusted = shown.answered & shown.canary_up
        assert (gone == ~trusted).all() if name != "idle service" else trusted.all()
        empty += gone
    assert set(empty) == {{"Prometheus down": 3, "scrape gap": 4, "idle service": 10}[name]}


def test_the_same_seed_gives_the_same_cell_and_another_gives_another():
    def cell(seed: int) -> tuple[float, float, float, int]:
        found = judge(BASE, NAMED["p99 +20 %"], 10.0, 12, seed, GatePolicy())
        return found.minutes, found.minutes_p90, found.exposure, found.wrong

    assert cell(4) == cell(4)
    assert cell(4) != cell(5)


def test_a_broken_version_is_found_and_a_sound_one_promoted():
    bad = judge(BASE, NAMED["errors 5 %"], 10.0, 20, 6, GatePolicy())
    good = judge(BASE, NAMED["identical versions"], 10.0, 20, 6, GatePolicy())
    assert (bad.wrong, bad.undecided, bad.reasons) == (0, 0, {"failed_errors": 20})
    assert (good.wrong, good.undecided) == (0, 0)
    assert good.minutes <= 30


def test_a_version_that_fails_in_the_bake_is_never_let_go_and_a_sound_one_is():
    bad = judge(BASE, IN_BAKE["errors 25 % from promotion"], 10.0, 20, 6, GatePolicy(), bake=True)
    good = judge(BASE, IN_BAKE["identical versions"], 10.0, 20, 6, GatePolicy(), bake=True)
    assert (bad.wrong, bad.undecided, bad.reasons) == (0, 0, {"failed_errors": 20})
    assert (good.wrong, good.undecided) == (0, 0)
    assert 60 < good.minutes <= 120


@pytest.mark.parametrize("name", ["errors 25 % from promotion", "p99 +50 % at any minute", "leak 1 % a minute", "every fifth minute x3"])
def test_harm_of_the_bake_begins_with_the_bake_or_later(name):
    service, nothing = SimulatedService(BASE, IN_BAKE[name], 100.0, 50, seed=3), np.full(50, -1.0)
    before = service.minute(30, *WITH_USERS, nothing)
    assert _tail_and_errors(before, "canary") == pytest.approx(_tail_and_errors(before, "baseline"), rel=0.5)
    after = service.minute(31, *WITH_USERS, np.full(50, 59.0))
    assert max(np.asarray(_tail_and_errors(after, "canary")) / np.asarray(_tail_and_errors(after, "baseline"))) > 2


def _tail_and_errors(shown, arm):
    requests = shown.buckets[arm].sum()
    return shown.buckets[arm][:, :, EDGES.index(250.0) + 1 :].sum() / requests, shown.errors[arm].sum() / requests


def test_the_interval_of_no_mistake_in_a_thousand_ends_at_a_third_of_a_per_cent():
    cell = judge(BASE, NAMED["errors 50 %"], 10.0, 1000, 7, GatePolicy())
    assert cell.interval() == (0.0, pytest.approx(0.368, abs=0.001))


def test_a_late_weight_is_in_force_two_minutes_after_it_was_set():
    service = SimulatedService(BASE, NAMED["weights late by two minutes"], 100.0, 4, 1)
    none, half = np.zeros(4), np.full(4, 0.5)
    had = [service.minute(n, none if n < 2 else half, none, none, none).buckets["canary"].sum() > 0 for n in range(6)]
    assert had == [False, False, False, False, True, True]
