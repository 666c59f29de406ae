"""Runners leave with a witness outside the ledger's store how far its chain is, and carry out nothing that it contradicts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.contract.reading.loader import load_tenant
from headway.ledger.events import Event, key
from headway.ledger.witness import of
from headway.problem import UserError
from headway.release.driver.event_kinds import EventKind, ReleaseOutcome
from tests.unit.release.town import Onlooker
from tests.unit.release_kill import KilledError, Shelf
from tests.unit.release_world import CHAIN, Scene


@pytest.fixture
def scene() -> Scene:
    (found,) = load_tenant(Path(__file__).parents[4] / "tenants" / "vision").contracts
    made = Scene.of(Shelf(), next(model for model in found.models if model.name == "defects"), mirror=None, weights=["10%"])
    made.witness = Onlooker()
    return made


def words(scene: Scene) -> dict[str, str]:
    assert isinstance(scene.witness, Onlooker)
    return scene.witness.words


def test_no_user_meets_a_version_before_its_release_is_witnessed(scene: Scene) -> None:
    met: list[bool] = []

    def look(event: Event, _: Any) -> None:
        if event.kind == EventKind.APPLIED and scene.world.routed.get(scene.release):
            started = next(number for number, kind in numbered(scene) if kind == EventKind.STARTED)
            met.append(int(words(scene)[CHAIN].partition(":")[0]) >= started)

    scene.run(told=look)
    assert met and all(met)


def numbered(scene: Scene) -> list[tuple[int, str]]:
    return [(event.number, event.kind) for event in scene.ledger().read()]


def test_the_end_of_a_release_is_witnessed_with_its_last_event(scene: Scene) -> None:
    scene.run()
    assert words(scene) == {CHAIN: of(scene.ledger().read()[-1])}


def test_a_witness_that_never_answers_delays_no_release(scene: Scene) -> None:
    assert isinstance(scene.witness, Onlooker)
    scene.witness.away = lambda: True
    assert scene.run().outcome is ReleaseOutcome.PROMOTED
    assert not words(scene)


def cut(scene: Scene, number: int) -> None:
    assert isinstance(scene.store, Shelf)
    for name in list(scene.store.objects):
        if name.startswith(f"{CHAIN}/events/") and name > key(CHAIN, number):
            del scene.store.objects[name]


@pytest.mark.parametrize(
    "act",
    [lambda scene: scene.begin(), lambda scene: scene.driver("two").run(), lambda scene: scene.service()],
    ids=["start", "resume", "status"],
)
def test_on_a_ledger_that_was_cut_off_nothing_is_begun_or_carried_on(scene: Scene, act: Callable[[Scene], Any]) -> None:
    scene.run()
    cut(scene, 1)
    before = list(scene.world.done)
    with pytest.raises(UserError, match="is not the one that was witnessed"):
        act(scene)
    assert scene.world.done == before


def test_a_runner_that_learns_it_under_way_moves_no_more_traffic(scene: Scene) -> None:
    """Somebody else's word on a chain that this runner never saw."""

    def look(event: Event, _: Any) -> None:
        if event.kind == EventKind.READY:
            words(scene)[CHAIN] = f"1:{'b' * 64}"

    with pytest.raises(UserError, match="is not the one that was witnessed"):
        scene.run(told=look)
    assert not scene.world.routed.get(scene.release)


def test_a_runner_that_dies_before_the_witness_hears_raises_no_alarm(scene: Scene) -> None:
    class Dying(Onlooker):
        def write(self, chain: str, text: str) -> None:
            raise KilledError

    heard = scene.witness
    scene.witness = Dying()
    with pytest.raises(KilledError):
        scene.run()
    scene.witness = heard
    scene.world.clock = scene.world.clock.replace(hour=23)
    assert scene.driver("two").run().over


def test_no_guard_is_promised_anything_on_a_chain_that_is_contradicted(scene: Scene) -> None:
    """Else it would leave traffic where it is for as long as a release may go unwatched."""
    promised: list[object] = []

    def look(event: Event, _: Any) -> None:
        if event.kind == EventKind.READY:
            words(scene)[CHAIN] = f"1:{'b' * 64}"
            promised.append(scene.world.vouched)

    with pytest.raises(UserError, match="is not the one that was witnessed"):
        scene.run(told=look)
    assert promised[-1] == scene.world.vouched
