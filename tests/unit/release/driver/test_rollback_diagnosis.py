"""Why a version was rolled back: asked once users have the stable one again, beside the driver, and never in its way."""

import threading
from collections.abc import Mapping
from math import nan
from pathlib import Path
from typing import Any

import pytest

from headway.contract.model import Model
from headway.contract.reading.loader import load_tenant
from headway.release.driver import rollback_diagnosis
from headway.release.driver.event_kinds import ReleaseOutcome
from headway.release.driver.rollback_diagnosis import LARGEST, RollbackDiagnosis
from headway.release.driver.rollout_state import RolloutState
from headway.release.driver.verify import recomputed
from tests.unit.release_kill import Shelf
from tests.unit.release_world import BAD, Reading, Scene

TENANTS = Path(__file__).parents[4] / "tenants"
SAID: Mapping[str, Any] = {"at": "2026-11-21T12:00:00Z", "diagnoses": [], "versions": []}


@pytest.fixture
def contract() -> Model:
    (found,) = load_tenant(TENANTS / "vision").contracts
    return next(model for model in found.models if model.name == "defects")


@pytest.fixture
def bad(contract: Model) -> Scene:
    """A release whose new version is slow: it goes back."""
    scene = Scene.of(Shelf(), contract, mirror=None, weights=["10%"])
    scene.world.shares = BAD
    scene.begin()
    return scene


def ended(rollout: RolloutState) -> Mapping[str, Any]:
    assert rollout.ended is not None
    return rollout.ended


def test_a_rollback_is_diagnosed_once_all_traffic_is_back(bad: Scene) -> None:
    routed: list[Mapping[str, int]] = []

    def diagnose(rollout: RolloutState) -> Mapping[str, Any]:
        routed.append(dict(bad.world.routed))
        return SAID

    rollout = bad.driver(diagnose=diagnose).run()
    assert ended(rollout)["diagnosis"] == SAID
    assert [route[bad.stable] for route in routed] == [100]


def test_a_release_ends_as_before_where_its_diagnosis_fails(bad: Scene) -> None:
    def diagnose(rollout: RolloutState) -> Mapping[str, Any]:
        raise KeyError("metadata")

    rollout = bad.driver(diagnose=diagnose).run()
    assert rollout.outcome is ReleaseOutcome.ROLLED_BACK
    assert ended(rollout)["undiagnosed"] == "KeyError: 'metadata'"
    assert ended(rollout)["reconciled"]


@pytest.mark.parametrize("said", [{"share": nan}, {"text": "x" * LARGEST}, {"odd": object()}])
def test_what_no_event_can_keep_is_left_out_with_its_reason(bad: Scene, said: Mapping[str, Any]) -> None:
    rollout = bad.driver(diagnose=lambda _: said).run()
    assert "diagnosis" not in ended(rollout) and ended(rollout)["undiagnosed"]


def test_a_diagnosis_that_hangs_keeps_no_release_from_its_end(bad: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollback_diagnosis, "SECONDS", 0.05)
    for_ever = threading.Event()
    rollout = bad.driver(diagnose=lambda _: {"late": for_ever.wait(60)}).run()
    for_ever.set()
    assert rollout.outcome is ReleaseOutcome.ROLLED_BACK
    assert "took longer" in ended(rollout)["undiagnosed"]


def test_the_wait_for_a_diagnosis_begins_when_it_is_asked(bad: Scene) -> None:
    rolled_back = bad.driver().run()
    clock, for_ever = iter([100.0, 130.0]), threading.Event()
    late = RollbackDiagnosis(lambda _: {"late": for_ever.wait(60)}, lambda: next(clock))
    late.ask(rolled_back)
    assert "took longer" in late.found(rolled_back, ReleaseOutcome.ROLLED_BACK)["undiagnosed"], "it was asked for thirty seconds ago"
    for_ever.set()


def test_a_promoted_release_is_not_diagnosed(contract: Model) -> None:
    scene = Scene.of(Shelf(), contract, mirror=None, weights=["10%"])
    scene.begin()
    rollout = scene.driver(diagnose=lambda _: SAID).run()
    assert rollout.outcome is ReleaseOutcome.PROMOTED
    assert not ended(rollout).keys() & {"diagnosis", "undiagnosed"}


def test_a_release_that_was_never_deployed_is_not_diagnosed(contract: Model) -> None:
    scene = Scene.of(Shelf(), contract)
    scene.world.findings = ("nothing is measured",)
    scene.begin()
    rollout = scene.driver(diagnose=lambda _: SAID).run()
    assert rollout.outcome is ReleaseOutcome.REFUSED
    assert "diagnosis" not in ended(rollout)


def test_a_version_that_never_started_is_diagnosed(contract: Model) -> None:
    scene = Scene.of(Shelf(), contract)
    scene.world.hopeless = ("its image is not found",)
    scene.world.missing = ("one replica",)
    scene.begin()
    rollout = scene.driver(diagnose=lambda _: SAID).run()
    assert rollout.outcome is ReleaseOutcome.ROLLED_BACK
    assert ended(rollout)["diagnosis"] == SAID


def test_a_ledger_with_a_diagnosis_is_decided_again_all_the_same(bad: Scene) -> None:
    bad.driver(diagnose=lambda _: SAID).run()
    assert recomputed(bad.ledger().read(), Reading()).flaws == ()
