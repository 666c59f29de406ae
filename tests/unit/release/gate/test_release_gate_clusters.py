"""Requests of one caller fail together, which is no more evidence than one of them."""

import itertools

import numpy as np
import pytest

from headway.release.gate import Counts, GatePolicy, Phase, Reason, Tick
from headway.release.gate.clusters import Clusters
from headway.release.gate.evidence import share_log
from tests.unit.release_ticks import SHARES, gate


def learnt(minutes: int, failing: float, cluster: int, requests: float = 600.0, seed: int = 1) -> float:
    """How many requests are taken to fail together after so many minutes of one arm."""
    rng, found = np.random.default_rng(seed), Clusters((1, 1))
    for _ in range(minutes):
        bad = cluster * rng.poisson(failing * requests / cluster)
        found.fade()
        found.learn(0, np.asarray([float(bad)]), np.asarray([requests]))
    return float(found.size()[0])


def test_ten_requests_are_taken_to_fail_together_before_any_did():
    assert learnt(0, 0.0, 1) == 10.0
    assert learnt(50, 0.0, 1) == 10.0


@pytest.mark.parametrize(("failing", "most"), [(0.001, 3.0), (0.01, 3.0), (0.02, 6.0)])
def test_requests_that_fail_one_by_one_are_soon_taken_so(failing: float, most: float):
    assert learnt(60, failing, 1) < most


@pytest.mark.parametrize("cluster", [10, 20])
def test_requests_that_fail_together_are_counted_together(cluster: int):
    assert np.mean([learnt(100, 0.002, cluster, seed=seed) for seed in range(40)]) == pytest.approx(cluster, rel=0.35)


def test_a_version_that_begins_to_fail_is_not_one_large_cluster():
    found = Clusters((1, 1))
    for bad in (1.0, 0.0, 1.0, 0.0, 140.0, 145.0, 138.0):
        found.fade()
        found.learn(0, np.asarray([bad]), np.asarray([600.0]))
    assert found.size()[0] < 2.0


def test_no_more_than_thirty_are_taken_to_fail_together():
    assert learnt(30, 0.01, 300) == 30.0


@pytest.mark.parametrize("cluster", [1, 2, 5])
def test_evidence_of_clusters_is_not_expected_to_grow_in_a_healthy_version(cluster: int):
    """Over every outcome of four clusters, by the ratio divided by the largest."""
    failing, total = 0.1, 0.0
    for outcome in itertools.product([0, 1], repeat=4):
        bad, n = float(cluster * sum(outcome)), 4.0 * cluster
        likely = failing ** sum(outcome) * (1 - failing) ** (4 - sum(outcome))
        total += likely * np.exp(share_log(np.asarray(bad), np.asarray(n), failing, 0.4) / 5).item()
    assert total <= 1.0


def minute(requests: float, rng: np.random.Generator, failing: float, cluster: int) -> Counts:
    """Failures come in clusters."""
    parts = np.asarray([0.7, 0.3]) * requests
    failed = np.minimum(cluster * rng.poisson(parts * failing / cluster), parts).astype(float)
    return Counts(buckets=parts[:, None] * SHARES, errors=failed)


def ended(failing: float, cluster: int, rollouts: int, minutes: int) -> list[Reason]:
    """Why rollouts were rolled back, one after the other."""
    found: list[Reason] = []
    for seed in range(rollouts):
        rng, one = np.random.default_rng(seed), gate(GatePolicy(mirror=0.0))
        decision = one.start()
        for _ in range(minutes):
            weight, baseline = float(decision.weight), float(decision.baseline_weight)
            decision = one.observe(
                Tick(
                    stable=minute(600 * (1 - weight - baseline), rng, 0.001, cluster),
                    baseline=minute(600 * baseline, rng, 0.001, cluster),
                    canary=minute(600 * weight, rng, failing, cluster),
                )
            )
        if decision.phase == Phase.ROLLED_BACK:
            found.append(Reason.FAILED_ERRORS)
    return found


def test_a_version_whose_callers_fail_ten_requests_together_is_not_rolled_back():
    assert ended(0.001, 10, rollouts=12, minutes=100) == []


def test_a_version_that_fails_far_more_often_is_rolled_back_all_the_same():
    assert ended(0.05, 1, rollouts=2, minutes=60) == [Reason.FAILED_ERRORS] * 2
