"""A chain as a loop follows it: refused where another reader refuses it, never for its length, and in bounded memory."""

import gc
import tracemalloc
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from headway.ledger import bundle, kept
from headway.ledger import store as stores
from headway.ledger.chain import Ledger
from headway.ledger.events import Event, genesis, key, unreadable
from headway.ledger.followed import FollowedLedger
from headway.ledger.kept import TooMuchKeptError, UnfinishedError
from headway.ledger.reading import verify
from headway.ledger.witness import LedgerWitness, of
from headway.problem import UserError
from tests.unit.ledger.bucket import Bucket
from tests.unit.ledger.test_witness import Noted

CHAIN, ENVIRONMENT = "vision/defects", "prod"


def chain(store: Bucket, witness: LedgerWitness | None = None) -> Ledger:
    return Ledger(store, CHAIN, ENVIRONMENT, "ci", lambda: datetime(2026, 11, 25, 12, tzinfo=UTC), witness)


def noted(events: Iterable[Event], before: int) -> int:
    """How many notes there are."""
    for event in events:
        if event.kind != "note":
            raise unreadable(event)
        before += 1
    return before


def put(store: Bucket, count: int) -> list[Event]:
    """A chain that follows from its first event."""
    return put_after(store, [], count, "ci")


def put_after(store: Bucket, before: list[Event], count: int, actor: str) -> list[Event]:
    """A chain of so many events that goes on where `before` ends, in place of what is there."""
    made = list(before)
    for number in range(len(made) + 1, count + 1):
        previous = made[-1].hash if made else genesis(CHAIN, ENVIRONMENT)
        made.append(Event(number=number, previous=previous, time="2026-11-25T12:00:00.000Z", actor=actor, kind="note", body={}))
        store.put(key(CHAIN, number), made[-1].stored())
    return made


@pytest.fixture
def store() -> Bucket:
    return Bucket(versioned=False)


def followed(store: Bucket, witness: LedgerWitness | None = None) -> FollowedLedger[int]:
    return FollowedLedger(chain(store, witness), noted, 0)


def test_a_forged_event_is_told_as_one_whatever_it_says(store: Bucket) -> None:
    put(store, 1)
    forged = Event(number=2, previous="a" * 64, time="2026-11-25T12:00:00.000Z", actor="mallory", kind="newer", body={})
    store.put(key(CHAIN, 2), forged.stored())
    with pytest.raises(UserError, match="Event 2 of vision/defects does not fit the chain"):
        followed(store).look()


def test_who_reads_anew_misses_the_newest_event_that_was_read_before(store: Bucket) -> None:
    put(store, 5)
    reader = followed(store)
    assert reader.look() == 5
    del store.objects[key(CHAIN, 5)]
    anew = reader.anew(0)
    for _ in range(2):
        with pytest.raises(UserError, match="Event 5 of vision/defects does not fit the chain: it was read before"):
            anew.look()
        with pytest.raises(UserError, match="Event 5 of vision/defects does not fit the chain: it was read before"):
            anew.anew(0).read()


def test_who_reads_anew_reads_all_of_a_chain_that_grew(store: Bucket) -> None:
    put(store, 5)
    reader = followed(store)
    reader.look()
    put(store, 7)
    anew = reader.anew(10)
    assert (anew.look(), anew.look()) == (17, 17)


@pytest.mark.parametrize("read_before", [0, 2])
def test_the_right_chain_is_read_on_once_it_is_back(store: Bucket, read_before: int) -> None:
    witness = Noted()
    reader = followed(store, witness)
    right = put(store, read_before)
    reader.look()
    right = put_after(store, right, 5, "ci")
    witness.words[CHAIN] = of(right[-1])
    put_after(store, right[:read_before], 5, "mallory")
    with pytest.raises(UserError, match="is not the one that was witnessed"):
        reader.look()
    put_after(store, right[:read_before], 5, "ci")
    assert reader.look() == 5


LENGTH = 2 * bundle.EVENTS + 7


def looks(reader: FollowedLedger[int]) -> int:
    """How many looks it takes until all is read."""
    for count in range(1, 100):
        try:
            assert reader.look() == LENGTH
        except UnfinishedError:
            continue
        return count
    raise AssertionError


def packed(store: Bucket, events: list[Event], number: int) -> None:
    store.put(bundle.key(CHAIN, number), b"\n".join(event.stored() for event in events[100 * (number - 1) : 100 * number]))


@pytest.mark.parametrize("bundles", [(), (1, 2), (2,)])
def test_a_chain_of_any_length_is_read_by_turns(store: Bucket, bundles: tuple[int, ...]) -> None:
    witness = Noted()
    made = put(store, LENGTH)
    witness.words[CHAIN] = of(made[-1])
    for number in bundles:
        packed(store, made, number)
    one = len(made[-1].stored())
    reader = FollowedLedger(chain(store, witness), noted, 0, 50 * one)
    with pytest.raises(UnfinishedError, match=r"is long: 5[0-9] events of it are read so far"):
        reader.look()
    assert looks(reader) == 4
    assert followed(store, witness).look() == LENGTH


def test_a_forged_bundle_at_whose_middle_a_look_ends_is_not_believed(store: Bucket) -> None:
    packed(store, put_after(store, [], LENGTH, "mallory"), 1)
    made = put(store, LENGTH)
    assert looks(FollowedLedger(chain(store), noted, 0, 50 * len(made[-1].stored()))) == 5


def test_a_store_lists_a_long_chain_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    class Listing(Bucket):
        def written(self, prefix: str, after: str = "") -> tuple[stores.Written, ...]:
            return super().written(prefix, after)[:40]

    monkeypatch.setattr(stores, "LISTED_AT_ONCE", 40)
    store = Listing(versioned=False)
    made = put(store, LENGTH)
    packed(store, made, 1)
    assert followed(store).look() == LENGTH
    assert len(chain(store).read()) == LENGTH
    assert verify(store, CHAIN, ENVIRONMENT, made[-1].hash) == ()
    del store.objects[key(CHAIN, 120)]
    with pytest.raises(UserError, match="Event 120 of vision/defects does not fit the chain: it is missing"):
        followed(store).look()


def test_what_is_kept_is_weighed_at_each_look_and_dropped_where_too_much(store: Bucket) -> None:
    put(store, 1)
    body = {"more": [[] for _ in range(300_000)]}
    reader = FollowedLedger(chain(store), lambda events, before: (*before, *(event.body for event in events)), ())
    assert len(reader.look()) == 1
    writer = chain(store)
    writer.read()
    for _ in range(2):
        writer.append("note", body)
    tracemalloc.start()
    try:
        for _ in range(2):
            with pytest.raises(TooMuchKeptError, match="more than a loop reads: what has to be kept of it takes more than 32 MiB"):
                reader.look()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 2 << 20
    finally:
        tracemalloc.stop()
    del store.objects[key(CHAIN, 1)]
    with pytest.raises(UserError, match="does not fit the chain"):
        reader.look()


def test_events_whose_hashes_would_fill_memory_leave_their_chain_out(store: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "EVENTS_AT_MOST", 5)
    put(store, 5)
    reader = followed(store)
    assert (reader.look(), reader.look()) == (5, 5)
    put(store, 6)
    for _ in range(2):
        with pytest.raises(TooMuchKeptError, match="it has more than 5 events"):
            reader.look()
