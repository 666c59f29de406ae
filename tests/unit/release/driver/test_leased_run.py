"""A runner that stood still promises no guard anything: what another one did meanwhile stands."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from headway.contract.reading.loader import load_tenant
from headway.ledger.chain import LostError
from headway.release.driver.leased_run import LeasedRun
from headway.release.driver.live_service import LiveRoute
from tests.unit.release_kill import Shelf
from tests.unit.release_world import Reading, Scene


@pytest.fixture
def scene() -> Scene:
    (found,) = load_tenant(Path(__file__).parents[4] / "tenants" / "vision").contracts
    made = Scene.of(Shelf(), next(model for model in found.models if model.name == "defects"))
    made.begin()
    return made


def test_who_stood_still_while_another_took_over_promises_nothing(scene: Scene) -> None:
    run = LeasedRun(scene.ledger("one"), scene.world, Reading(), "one")
    run.take()
    scene.world.clock += timedelta(seconds=61)
    scene.ledger("two").acquire("two", timedelta(seconds=60))
    assert run.service.running
    with pytest.raises(LostError, match="somebody else acted"):
        run.vouch(run.service.running)
    assert scene.world.vouched is None


def test_a_promise_stands_on_the_route_that_was_read_before_the_chain(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    run, route = LeasedRun(scene.ledger("one"), scene.world, Reading(), "one"), scene.world.route()
    run.take()
    read: list[str] = []
    said: list[str] = []

    def changing() -> LiveRoute:
        read.append(f"version {len(read)}")
        return replace(route, version=read[-1])

    def vouch(until: datetime | None, safe: str, seen: str) -> None:
        said.append(seen)

    monkeypatch.setattr(scene.world, "route", changing)
    monkeypatch.setattr(scene.world, "vouch", vouch)
    assert run.service.running
    run.vouch(run.service.running)
    assert said == read[:1] == ["version 0"]
