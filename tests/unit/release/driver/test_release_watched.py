"""Traffic of an unproven version is watched from before anybody can give it some until nobody can any more."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headway.contract.reading.loader import load_tenant
from headway.ledger.chain import LostError
from headway.release.driver.event_kinds import EventKind, OperatorRequest, ReleaseOutcome
from headway.release.driver.leased_run import LeasedRun
from headway.release.driver.rollout_state import RolloutState
from tests.unit.release_kill import Shelf
from tests.unit.release_world import Reading, Result, Scene


@pytest.fixture
def scene() -> Scene:
    (found,) = load_tenant(Path(__file__).parents[4] / "tenants" / "vision").contracts
    return Scene.of(Shelf(), next(model for model in found.models if model.name == "defects"), mirror=None, weights=["10%"])


def test_what_is_intended_is_watched_before_any_update_can_carry_it_out(scene: Scene) -> None:
    watched: list[Any] = []

    def look(event: Any, service: Any) -> None:
        if event.kind == EventKind.INTENDED and service.running.unproven:
            watched.append(scene.world.vouched)

    scene.run(told=look)
    assert watched and all(watched)


def last(scene: Scene, act: Callable[[], None]) -> RolloutState:
    """Run, and act once the last split is in force, just before the release ends."""

    def look(event: Any, service: Any) -> None:
        if event.kind == EventKind.APPLIED and list(service.split.percentages) == [scene.release]:
            act()

    return scene.run(told=look)


def test_nothing_goes_back_to_a_version_that_is_gone(scene: Scene) -> None:
    def somebody_asks() -> None:
        ledger = scene.ledger("person")
        ledger.read()
        ledger.append(EventKind.ASKED, {"wish": OperatorRequest.ROLLBACK.value, "reason": "noon"})

    ended = last(scene, somebody_asks)
    assert (ended.outcome, ended.failing) == (ReleaseOutcome.PROMOTED, None)
    assert scene.world.routed == {scene.release: 100}


def test_an_old_version_that_cannot_be_removed_leaves_the_new_one_promoted(scene: Scene) -> None:
    def fails(what: str) -> Any:
        last = list(scene.service().split.percentages) == [scene.release]  # type: ignore[union-attr]
        return Result(ok=False, operation="up", errors=("connection reset",)) if what == "up" and last else None

    scene.world.refuse = fails
    ended = scene.run()
    assert ended.outcome is ReleaseOutcome.PROMOTED
    assert ended.ended is not None and ended.ended["reconciled"] is False
    assert scene.world.routed[scene.release] == 100


def test_a_runner_that_stood_still_speaks_for_no_later_release(scene: Scene) -> None:
    scene.begin()
    slow = LeasedRun(scene.ledger("slow"), scene.world, Reading(), "slow")
    slow.take()
    ended = slow.service.running
    assert ended is not None
    scene.world.clock += timedelta(minutes=2)
    scene.driver("quick").run()
    scene.world.vouched = scene.world.clock
    with pytest.raises(LostError):
        slow.unwatch(ended)
    assert scene.world.vouched == scene.world.clock


def test_what_an_update_that_hangs_may_still_carry_out_stays_watched(scene: Scene) -> None:
    def held(what: str) -> Any:
        running = scene.service().running
        return Result(ok=False, busy=True, errors=("locked",)) if what == "preview" and running and running.failing else None

    scene.world.errors, scene.world.refuse = 0.6, held
    ended = scene.run()
    assert (ended.outcome, ended.unreconciled) == (ReleaseOutcome.ROLLED_BACK, True)
    assert scene.world.vouched is not None
