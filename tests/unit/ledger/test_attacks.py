"""Objects that somebody put where a chain's events lie: no reader believes them, the planner least of all."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.bounded_json import DEEPEST
from headway.ledger.chain import Ledger, LostError
from headway.ledger.events import UNBOUND, Event, canonical, key, parse
from headway.ledger.reading import proof, verify
from headway.ledger.serving import ADOPTED, ENDED, INTENDED, STARTED, latest, serves
from headway.ledger.store import FolderStore, LedgerStore
from headway.ledger.traffic_split import TrafficSplit
from headway.problem import UserError

CHAIN, ENVIRONMENT = "vision/defects", "prod"
PROVEN, FORGED = TrafficSplit.only("r1", "1" * 64), TrafficSplit.only("r2", "2" * 64)
FORGERY = {"division": FORGED.document()}


def ledger(store: LedgerStore, chain: str = CHAIN, environment: str = ENVIRONMENT) -> Ledger:
    return Ledger(store, chain, environment, "ci", lambda: datetime(2026, 11, 21, tzinfo=UTC))


def written(store: LedgerStore, chain: str = CHAIN, environment: str = ENVIRONMENT) -> Ledger:
    """A release is under way, so that what is intended counts."""
    made = ledger(store, chain, environment)
    made.append(ADOPTED, {"division": PROVEN.document()})
    for kind in (STARTED, "noted", "noted"):
        made.append(kind, {})
    return made


def event(number: int, previous: str, kind: str = INTENDED, body: Any = FORGERY) -> bytes:
    return Event(number=number, previous=previous, time="2026-11-21T12:00:00.000Z", actor="mallory", kind=kind, body=body).stored()


def put(store: LedgerStore, number: int, content: bytes) -> None:
    store.create(key(CHAIN, number), content)


def second(store: LedgerStore, previous: str) -> None:
    """One object that follows nothing, and another one that follows it."""
    put(store, 5, event(5, previous, "noted", {}))
    put(store, 6, event(6, parse(store.get(key(CHAIN, 5)) or b"").hash))


def of(store: LedgerStore, number: int) -> Event:
    return parse(store.get(key(CHAIN, number)) or b"")


ATTACKS: dict[str, Callable[[LedgerStore], None]] = {
    "a last event that follows nothing": lambda s: put(s, 5, event(5, "f" * 64)),
    "a last event that follows another one than the last": lambda s: put(s, 5, event(5, of(s, 2).hash)),
    "a sound follower of an event that follows nothing": lambda s: second(s, "f" * 64),
    "a sound follower of a fork": lambda s: second(s, of(s, 3).previous),
    "a last event under a number that is not its own": lambda s: put(s, 5, event(9, of(s, 4).hash)),
    "the highest number of all": lambda s: put(s, 99_999_999, event(99_999_999, of(s, 4).hash)),
    "an event after a hole": lambda s: put(s, 6, event(6, of(s, 4).hash)),
    "a key behind all numbers": lambda s: s.create(f"{CHAIN}/events/zzz.json", event(5, of(s, 4).hash)),
    "a key between two numbers": lambda s: s.create(f"{CHAIN}/events/00000004.json.bak", event(5, of(s, 4).hash)),
    "a folder": lambda s: s.create(f"{CHAIN}/events/00000005/00000005.json", event(5, of(s, 4).hash)),
    "no JSON": lambda s: put(s, 5, b"{"),
    "a list": lambda s: put(s, 5, b"[]"),
    "nothing": lambda s: put(s, 5, b""),
    "no number": lambda s: put(s, 5, event(5, of(s, 4).hash).replace(b'"weight":100', b'"weight":NaN')),
    "a body that is a list": lambda s: put(s, 5, event(5, of(s, 4).hash, body=[])),
    "a body that is a text": lambda s: put(s, 5, event(5, of(s, 4).hash, body="division")),
    "JSON that is too deep": lambda s: put(s, 5, b'{"body":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "JSON that is deep": lambda s: put(s, 5, event(5, of(s, 4).hash, body={"division": nested(DEEPEST)})),
    "JSON that is too large": lambda s: put(s, 5, event(5, of(s, 4).hash, body={**FORGERY, "more": "x" * (1 << 20)})),
    "another text of the same JSON": lambda s: put(s, 5, json.dumps(json.loads(event(5, of(s, 4).hash))).encode()),
    "an object that fills the memory": lambda s: put(s, 5, b" " * (17 << 20)),
}


def nested(levels: int) -> Any:
    return [nested(levels - 1)] if levels else []


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_no_reader_believes_what_the_chain_does_not_prove(store: LedgerStore, attack: Callable[[LedgerStore], None]) -> None:
    reader = written(store)
    attack(store)
    for read in (lambda: latest(store, CHAIN, ENVIRONMENT), reader.read, ledger(store).read):
        with pytest.raises(UserError) as refused:
            read()
        (problem,) = refused.value.problems
        assert all(sentence.endswith(".") and sentence.isprintable() for sentence in problem.sentences)


def test_a_hole_is_named_with_what_lies_behind_it(store: LedgerStore) -> None:
    last = written(store).head
    put(store, 6, event(6, last))
    with pytest.raises(UserError) as refused:
        latest(store, CHAIN, ENVIRONMENT)
    assert (
        refused.value.fact
        == "Event 5 of vision/defects does not fit the chain: it is missing, and vision/defects/events/00000006.json is there."
    )
    assert "Run `headway release verify vision/defects` for every flaw." in str(refused.value)


def test_a_hole_is_not_filled(store: LedgerStore) -> None:
    writer = written(store)
    put(store, 7, event(7, "f" * 64))
    with pytest.raises(UserError, match="it is missing"):
        writer.append("noted", {})
    assert store.get(key(CHAIN, 5)) is None


def test_who_lost_the_next_number_and_the_one_after_it_has_lost(store: LedgerStore) -> None:
    one, two = written(store), ledger(store)
    two.read()
    two.append("noted", {"by": "two"})
    two.append("noted", {"by": "two"})
    with pytest.raises(LostError):
        one.append("noted", {"by": "one"})


def moved(source: LedgerStore, name: str, target: LedgerStore, to: str) -> None:
    for number, found in enumerate(source.list(f"{name}/events/"), 1):
        target.create(key(to, number), source.get(found) or b"")


@pytest.mark.parametrize(("chain", "environment"), [("assist/chat", ENVIRONMENT), (CHAIN, "staging")])
def test_a_whole_chain_of_another_place_does_not_pass(store: LedgerStore, chain: str, environment: str, tmp_path: Any) -> None:
    elsewhere = FolderStore(tmp_path / "elsewhere")
    written(elsewhere, chain, environment)
    moved(elsewhere, chain, store, CHAIN)
    for read in (lambda: latest(store, CHAIN, ENVIRONMENT), ledger(store).read):
        with pytest.raises(UserError, match=r"Event 1 of .*: the chain was written for another service or another environment"):
            read()
    assert verify(store, CHAIN, ENVIRONMENT)


def unbound(store: LedgerStore) -> Ledger:
    """The ledger that an earlier Headway wrote."""
    put(store, 1, event(1, UNBOUND, ADOPTED, {"division": PROVEN.document()}))
    put(store, 2, event(2, of(store, 1).hash, "noted", {}))
    made = ledger(store)
    made.read()
    return made


def test_a_ledger_of_an_earlier_headway_is_read_and_known_to_be_unbound(store: LedgerStore) -> None:
    assert unbound(store).bound is False
    assert latest(store, CHAIN, ENVIRONMENT) == PROVEN


def test_a_ledger_of_an_earlier_headway_is_bound_once(store: LedgerStore) -> None:
    made = unbound(store)
    head = made.head
    bound = made.bind()
    assert bound is not None
    assert bound.body == {"service": CHAIN, "environment": ENVIRONMENT, "events": 2, "head": head}
    assert (made.bound, made.bind(), proof(store, CHAIN, ENVIRONMENT).end.bound) == (True, None, True)
    assert latest(store, CHAIN, ENVIRONMENT) == PROVEN
    moved(store, CHAIN, store, "assist/chat")
    for chain, environment in (("assist/chat", ENVIRONMENT), (CHAIN, "staging")):
        assert any("another service" in flaw for flaw in verify(store, chain, environment))
        with pytest.raises(UserError, match=f"^Event 3 of {chain} does not fit the chain: the chain was written for another service"):
            latest(store, chain, environment)


def test_what_is_intended_when_no_release_is_under_way_moves_nothing(store: LedgerStore) -> None:
    made = written(store)
    made.append(ENDED, {"outcome": "promoted"})
    made.append(INTENDED, FORGERY)
    assert latest(store, CHAIN, ENVIRONMENT) == PROVEN


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3)
    | st.sampled_from(["r1", "stable", "canary"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def altered(document: Any, at: Sequence[int], value: Any) -> Any:
    """The document with another value at a place that `at` leads to."""
    if not at or not isinstance(document, dict | list) or not document:
        return value
    keys = sorted(document) if isinstance(document, dict) else range(len(document))
    chosen = keys[at[0] % len(keys)]
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[chosen] = altered(copy[chosen], at[1:], value)
    return copy


@given(at=st.lists(st.integers(0, 7), max_size=5), value=json_values)
def test_an_odd_event_is_refused_in_words_or_read(at: list[int], value: Any) -> None:
    document = json.loads(event(1, UNBOUND, ADOPTED, {"division": PROVEN.document()}))
    content = canonical(altered(document, at, value))
    try:
        parse(content)
    except ValueError:
        return


@given(at=st.lists(st.integers(0, 7), max_size=5), value=json_values)
def test_an_odd_traffic_split_is_refused_in_words_or_read(at: list[int], value: Any) -> None:
    body = {"division": altered(PROVEN.document(), at, value)}
    odd = parse(event(1, UNBOUND, ADOPTED, body))
    try:
        split = serves([odd])
    except UserError:
        return
    assert split is not None
    assert split.document() == body["division"], "what is planned is what the event says"
