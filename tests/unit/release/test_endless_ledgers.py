"""A tenant's runner writes its own services' ledgers as large as it likes: loops go on for everybody else, in bounded memory."""

import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headway.ledger import kept, s3_store, store
from headway.ledger.chain import Ledger
from headway.ledger.events import Event, genesis, key
from headway.ledger.reading import verify
from headway.ledger.s3_store import S3Store
from headway.ledger.store import FolderStore
from headway.problem import UserError
from headway.release.driver import following
from headway.release.driver.event_kinds import ReleaseOutcome
from headway.release.driver.following import followed
from headway.release.driver.rollout_state import ServiceState
from headway.release.release_series import ReleaseSeries
from tests.unit.release.driver.test_rollout_state import chain as events_of
from tests.unit.release.test_release_series import shown
from tests.unit.release_kill import Shelf
from tests.unit.release_world import Scene, quickly_baked

ENVIRONMENT = "prod"
NOISY, HONEST = "vision/noisy", "vision/quiet"
MIB = 1 << 20
MANY = ["x" * 750_000, *([] for _ in range(80_000))]
"""As text 1 MB, in memory 7; lists alone are 24, and take as much longer to count."""
PEAK = 72 * MIB
"""Bytes that twenty such events may take at once; kept they were 140 MiB."""


def written(root: Path, chain: str, told: list[tuple[str, dict[str, Any]]]) -> None:
    """So that each follows the one before, as a runner may write them."""
    previous = genesis(chain, ENVIRONMENT)
    for event in (
        *events_of(),
        *(Event(number=0, previous="", time="2026-11-21T10:00:00+00:00", actor="ci", kind=k, body=b) for k, b in told),
    ):
        number = len(list((root / chain / "events").glob("*"))) + 1
        this = Event(number=number, previous=previous, time=event.time, actor="ci", kind=event.kind, body=event.body)
        (root / key(chain, number)).parent.mkdir(parents=True, exist_ok=True)
        (root / key(chain, number)).write_bytes(this.stored())
        previous = this.hash


def opened(root: Path, chain: str) -> Ledger:
    return Ledger(FolderStore(root), chain, ENVIRONMENT, "loop", lambda: datetime(2026, 11, 21, tzinfo=UTC))


def opening(root: Path, chain: str) -> Callable[[], Any]:
    return lambda: followed(opened(root, chain))


def looked(root: Path) -> tuple[dict[tuple[str, ...], float], list[str], int]:
    """Series, what was said, and the peak of memory of two looks at everybody."""
    said: list[str] = []
    series = ReleaseSeries(lambda: {chain: opening(root, chain) for chain in (NOISY, HONEST)}, said.append)
    tracemalloc.start()
    try:
        series.look()
        series.look()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return shown(series), said, peak


def test_eight_thousand_honest_releases_are_not_too_many() -> None:
    scene = Scene.of(Shelf(), quickly_baked())
    assert scene.run().outcome is ReleaseOutcome.PROMOTED
    adopted, *release = scene.ledger().read()
    state = kept.StateKept(HONEST, ServiceState(), following.after)
    for number, event in enumerate((adopted, *(release * 100))):
        state.take(replace(event, number=number + 1), "", 1000)
    assert len(state.state.past) == 100
    hundred_explained = 400 << 10  # the newest hundred keep what each changed
    assert not kept.weighs_more(state.state, kept.KEPT_AT_MOST // 80 + hundred_explained)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    written(tmp_path, HONEST, [])
    return tmp_path


def test_twenty_events_of_a_megabyte_that_nothing_keeps_take_the_memory_of_one(root: Path) -> None:
    written(root, NOISY, [("asked", {"wish": "none", "reason": "", "more": MANY})] * 20)
    series, said, peak = looked(root)
    assert peak < PEAK
    assert said == []
    assert series.get(("headway_release_state", "vision", "noisy", "r2", "deploying")) == 1


def test_a_service_whose_releases_fill_memory_is_left_out_alone(root: Path) -> None:
    begun = events_of()[1].body
    written(
        root,
        NOISY,
        [("ended", {"outcome": "rolled back"}), *[("started", {**begun, "digest": MANY}), ("ended", {"outcome": "rolled back"})] * 20],
    )
    series, said, peak = looked(root)
    assert peak < PEAK
    assert series.get(("headway_release_unread", "vision", "noisy")) == 1
    assert series.get(("headway_release_state", "vision", "quiet", "r2", "deploying")) == 1
    assert len(said) == 1
    assert "vision/noisy: its releases cannot be read: The ledger of vision/noisy is more than a loop reads" in said[0]


def test_more_than_is_read_at_a_look_is_read_at_the_next(root: Path) -> None:
    written(root, NOISY, [("asked", {"wish": "none", "reason": "", "more": "x" * 10_000})] * 110)
    said: list[str] = []
    series = ReleaseSeries(lambda: {NOISY: lambda: followed(opened(root, NOISY), MIB)}, said.append)
    series.look()
    assert shown(series) == {("headway_release_unread", "vision", "noisy"): 1}
    assert "The ledger of vision/noisy is long: 10" in "".join(said)
    series.look()
    assert shown(series).get(("headway_release_state", "vision", "noisy", "r2", "deploying")) == 1


def test_an_object_of_any_size_is_no_event_and_is_not_read_whole(root: Path) -> None:
    written(root, NOISY, [])
    for number in range(3, 23):
        with (root / key(NOISY, number)).open("wb") as file:
            file.truncate(16 * MIB)
    series, said, peak = looked(root)
    assert peak < PEAK
    assert series.get(("headway_release_unread", "vision", "noisy")) == 1
    assert "Event 3 of vision/noisy does not fit the chain" in "".join(said)
    assert "at most 1048576 are read" in verify(FolderStore(root), NOISY, ENVIRONMENT)[0]


class Endless:
    """A bucket's client, to which there is always another page; `keys`: of a thousand writings."""

    def __init__(self, keys: int) -> None:
        self.pages, self.keys = 0, keys

    def get_paginator(self, _: str) -> "Endless":
        return self

    def paginate(self, **_: str) -> Iterator[dict[str, Any]]:
        while self.pages < 100:
            self.pages += 1
            yield {"Versions": [{"Key": key(NOISY, 1000 * self.pages + n % self.keys), "VersionId": "1"} for n in range(1000)]}


def test_writings_without_end_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_store, "MOST_VERSIONS", 5000)
    client = Endless(10)
    with pytest.raises(UserError, match="more than 5000 writings"):
        S3Store(client, "bucket").written(f"{NOISY}/events/")
    assert client.pages == 6


def test_keys_without_end_are_listed_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LISTED_AT_ONCE", 2500)
    found = S3Store(client := Endless(1000), "bucket").written(f"{NOISY}/events/")
    assert (len(found), client.pages, found[-1].key) == (2500, 3, key(NOISY, 3499))
