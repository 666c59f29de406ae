"""What a rolled-back release leaves behind: both versions' pods side by side, and the service's diagnosis at the verdict."""

import json
from dataclasses import replace
from typing import Any

import pytest

from headway.diagnosis import of_rollback
from headway.diagnosis.observed import Observed
from headway.release.driver.rollout_state import RolloutFailure, RolloutState
from headway.release.service_place import ServicePlace
from tests.unit.cli.test_status_cli import PROJECT
from tests.unit.diagnosis.played import AT, ONSET, played
from tests.unit.release_kill import Shelf
from tests.unit.release_world import Scene

NEW, STABLE = "r1111111111", "r0000000000"
PODS = {f"defects-{STABLE}-7d-a": (0.018, 0.018), f"defects-{STABLE}-baseline-7d-b": (0.018, 0.018), f"defects-{NEW}-7d-c": (0.018, 0.060)}
HERE = ServicePlace(project=PROJECT, environment="prod", tenant="vision", model="defects")


def with_pods(**more: Any) -> Observed:
    """The new version's pod has samples since its start alone."""
    observed = played(apart={"compute_by_pod": PODS, "memory_by_pod": dict.fromkeys(PODS, (0.5, 0.5))}, **more)
    young = f"defects-{NEW}-7d-c"
    series = {
        name: {label: tuple(each for each in found if label != young or each[0] > ONSET) for label, found in by_label.items()}
        for name, by_label in observed.series.items()
    }
    return replace(observed, series=series)


def test_what_the_new_versions_pods_do_is_compared_with_the_stable_ones() -> None:
    found = {each["measure"]: each for each in of_rollback.versions(with_pods(), new=NEW, stable=STABLE)}
    assert found["compute_by_pod"]["differs"] and not found["memory_by_pod"]["differs"]
    assert found["compute_by_pod"]["new"].startswith(("59", "60", "61"))
    assert found["compute_by_pod"]["stable"].startswith(("17", "18"))


def test_of_the_stable_versions_pods_only_the_same_time_counts() -> None:
    pods = {f"defects-{STABLE}-7d-a": (0.500, 0.018), f"defects-{NEW}-7d-c": (0.018, 0.018)}
    observed = played(apart={"compute_by_pod": pods})
    young = {
        label: tuple(each for each in found if "a" in label[-1] or each[0] > ONSET)
        for label, found in observed.series["compute_by_pod"].items()
    }
    observed = replace(observed, series={**observed.series, "compute_by_pod": young})
    (found,) = of_rollback.versions(observed, new=NEW, stable=STABLE)
    assert not found["differs"], "what was before the new version came says nothing of it"


def test_without_pods_of_the_new_version_nothing_is_compared() -> None:
    assert list(of_rollback.versions(with_pods(), new="r2222222222", stable=STABLE)) == []


@pytest.fixture
def rollout() -> RolloutState:
    scene = Scene.of(Shelf(), HERE.contract())
    scene.begin()
    running = scene.service().running
    assert running is not None
    verdict = RolloutFailure(number=9, time="2023-11-14T22:13:20Z", kind="gate", reason="it is slower")
    return replace(running, release=NEW, stable=STABLE, failing=verdict)


def test_a_rollback_is_diagnosed_as_it_was_at_the_verdict(rollout: RolloutState, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[ServicePlace, float]] = []

    def gather(place: ServicePlace, *, at: float, since: float) -> Observed:
        asked.append((place, at))
        return with_pods(since={"limited": 0.4})

    monkeypatch.setattr(of_rollback, "gather", gather)
    found = of_rollback.of_rollback(HERE, rollout)
    assert [at for _, at in asked] == [AT]
    assert asked[0][0] is not HERE, "the driver's connections are its own"
    assert found["diagnoses"][0]["cause"] == "over-the-rate"
    assert [each["measure"] for each in found["versions"]] == ["compute_by_pod", "memory_by_pod"]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
