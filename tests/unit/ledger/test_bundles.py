"""A long chain is read from bundles of its events, which prove no more than the events do."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from headway.ledger import bundle
from headway.ledger.chain import Ledger
from headway.ledger.copying import copy
from headway.ledger.events import Event, key
from headway.ledger.reading import proof, verify
from headway.ledger.store import FolderStore, LedgerStore, UnreachableError
from headway.problem import Exit, UserError

CHAIN, ENVIRONMENT, LENGTH = "vision/defects", "prod", 2 * bundle.EVENTS + 7


class Counting(FolderStore):
    asked = 0
    bundles = True

    def get(self, key: str, version: str = "") -> bytes | None:
        self.asked += 1
        return super().get(key, version)

    def create(self, key: str, body: bytes) -> None:
        if "/bundles/" in key and not self.bundles:
            raise UnreachableError("SlowDown")
        super().create(key, body)


def ledger(store: LedgerStore) -> Ledger:
    return Ledger(store, CHAIN, ENVIRONMENT, "ci", lambda: datetime(2026, 11, 21, tzinfo=UTC))


def appended(store: LedgerStore, count: int = LENGTH) -> Ledger:
    made = ledger(store)
    made.read()
    for number in range(count):
        made.append("noted", {"of": number})
    return made


def read(store: Counting) -> tuple[str, int]:
    """The hash of the last event, and how many objects were asked for."""
    store.asked = 0
    return proof(store, CHAIN, ENVIRONMENT).sound(CHAIN).end.hash, store.asked


def test_a_long_chain_is_read_from_few_objects(tmp_path: Path) -> None:
    store = Counting(tmp_path)
    made = appended(store)
    assert read(store) == (made.head, 2 + 7)
    assert list(ledger(store).read()) == list(made.events)
    assert verify(store, CHAIN, ENVIRONMENT, made.head) == ()
    (cut_off,) = verify(store, CHAIN, ENVIRONMENT, "0" * 64)
    assert cut_off == f"the chain ends in {made.head[:12]}, not in 000000000000: its newest events were removed or replaced"


def test_what_a_store_says_of_bundles_stops_no_event(tmp_path: Path) -> None:
    class Refusing(FolderStore):
        def create(self, key: str, body: bytes) -> None:
            if "/bundles/" in key:
                raise UserError("Nobody may write bundles.", "None is written.", "Ask for the right.", Exit.REFUSED)
            super().create(key, body)

    store = Refusing(tmp_path)
    assert verify(store, CHAIN, ENVIRONMENT, appended(store, bundle.EVENTS + 1).head) == ()


def test_a_bundle_that_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    store = Counting(tmp_path)
    store.bundles = False
    made = appended(store)
    assert read(store) == (made.head, 2 + LENGTH)
    store.bundles = True
    made = appended(store, bundle.EVENTS)
    assert read(store) == (made.head, 3 + 7)


def test_a_bundle_waits_for_the_event_whose_hash_proves_it(tmp_path: Path) -> None:
    appended(FolderStore(tmp_path), bundle.EVENTS)
    assert not (tmp_path / CHAIN / "bundles").exists()


def forged(made: Ledger) -> bytes:
    """Events that follow each other, from the true first one on, and are not those of the chain."""
    events = list(made.events[:5])
    while len(events) < bundle.EVENTS:
        last = events[-1]
        events.append(Event(number=last.number + 1, previous=last.hash, time=last.time, actor="mallory", kind="noted", body={}))
    return b"\n".join(event.stored() for event in events)


@pytest.mark.parametrize("content", [b"", b"\n", b"\n" * (bundle.EVENTS - 1), b"{" * 100_000, None])
def test_a_forged_bundle_costs_time_and_changes_nothing(tmp_path: Path, content: bytes | None) -> None:
    store = Counting(tmp_path)
    made = appended(store)
    (tmp_path / bundle.key(CHAIN, 1)).write_bytes(forged(made) if content is None else content)
    assert read(store)[0] == made.head
    assert list(ledger(store).read()) == list(made.events)


def test_a_forged_bundle_stops_nobody_who_has_read_one_event_before(tmp_path: Path) -> None:
    store = Counting(tmp_path)
    made = appended(store, 1)
    reader = ledger(store)
    assert len(reader.look()) == 1
    for number in range(bundle.EVENTS):
        made.append("noted", {"of": number})
    another = Event(number=1, previous=made.events[0].previous, time=made.events[0].time, actor="mallory", kind="noted", body={})
    (tmp_path / bundle.key(CHAIN, 1)).write_bytes(b"\n".join([another.stored(), *(event.stored() for event in made.events[1:100])]))
    assert list(reader.look()) == list(made.events)


def test_an_event_that_bundles_hide_is_still_missed_when_it_is_gone(tmp_path: Path) -> None:
    store = Counting(tmp_path)
    appended(store)
    (tmp_path / key(CHAIN, 17)).unlink()
    with pytest.raises(UserError, match="Event 17 of vision/defects does not fit the chain: it is missing"):
        read(store)


def test_a_copy_has_no_bundles_until_somebody_releases_from_it(tmp_path: Path) -> None:
    source, target = Counting(tmp_path / "a"), Counting(tmp_path / "b")
    made = appended(source)
    copy(source, target, ENVIRONMENT)
    assert read(target) == (made.head, 2 + LENGTH)
    assert read(source) == (made.head, 2 + 7)
