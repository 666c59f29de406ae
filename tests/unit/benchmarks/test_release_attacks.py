"""Each path by which a version is taken back has its share of the budget, its proof, and an attack on it."""

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.release_attacks import ATTACKS, PAGE, PATHS, ClusteredService, attacked, path_table
from headway.release.gate import GatePolicy
from headway.release.gate.reasons import REASONS, Effect

ROOT = Path(__file__).parents[3]


def test_every_reason_that_takes_traffic_back_has_its_row() -> None:
    back = [row.reason for row in REASONS if row.effect in (Effect.ROLL_BACK, Effect.GIVE_UP)]
    assert [row.reason for row in PATHS] == back


def test_the_rows_spend_each_share_of_the_budget_once() -> None:
    assert sorted(name for row in PATHS for name in row.share) == sorted(GatePolicy(mirrored=0.01).alpha)


def test_every_path_is_attacked_by_a_simulation_or_a_test_that_exists() -> None:
    known = {attack.name for attack in ATTACKS}
    for row in PATHS:
        assert row.attacks, row.reason
        for name in row.attacks:
            file, _, test = name.partition("::")
            assert name in known or f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), name


def test_no_path_within_the_budget_is_attacked_by_tests_alone_but_answers() -> None:
    simulated = {row.reason.name for row in PATHS if row.share and not any("::" in name for name in row.attacks)}
    assert {row.reason.name for row in PATHS if row.share} - simulated == {"FAILED_CORRECTNESS"}


def test_the_page_has_the_rows_and_every_attack() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert "\n".join(path_table()) in text
    assert {attack.name for attack in ATTACKS} <= set(re.findall(r"^\| ([^`|]+?) \|", text, re.MULTILINE))


@pytest.mark.parametrize(
    "name",
    [
        "a peak of 10 % just under an edge, +5 %",
        "nodes that fail once a day",
        "one node half as slow again for ten minutes",
        "one replica of two half as slow again for ten minutes",
    ],
)
def test_an_attack_takes_no_healthy_version_back(name: str) -> None:
    attack = next(each for each in ATTACKS if each.name == name)
    assert attacked(attack, 100.0, 20, seed=3).back == 0


def test_requests_of_a_cluster_take_the_same_time_and_fail_together() -> None:
    attack = next(each for each in ATTACKS if each.cluster == 30)
    zero = np.zeros(5)
    shown = ClusteredService(attack, 100.0, 5, seed=1).minute(0, zero + 0.5, zero, zero, zero)
    assert shown.buckets["canary"].sum(axis=(1, 2)) == pytest.approx(3000, rel=0.3)
    assert not (shown.buckets["canary"] % 30).any() and not (shown.errors["canary"] % 30).any()
