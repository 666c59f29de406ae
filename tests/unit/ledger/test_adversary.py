"""Writers, a lease, a planner, and somebody who puts, changes and deletes objects wherever the store lets him: whatever
they do, in whichever order, the planner obeys the chain that the last event's hash proves, or refuses.

One store forgets what is deleted, so that it may be written again; the other one is a bucket with versions, where a
deletion only hides.
"""

import json
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headway.ledger import bundle
from headway.ledger import lease as leases
from headway.ledger.chain import Ledger, LostError
from headway.ledger.events import BOUND, UNBOUND, Event, digest, genesis, key, parse
from headway.ledger.reading import proof, verify
from headway.ledger.serving import ADOPTED, ENDED, INTENDED, STARTED, latest
from headway.ledger.traffic_split import TrafficSplit
from headway.problem import UserError
from headway.release.driver.rollout_state import fold
from tests.unit.ledger.bucket import Bucket
from tests.unit.release_world import START

CHAIN, ENVIRONMENT, OTHER = "vision/defects", "prod", "vision/embeddings"
BEGUN = next(
    parse(line).body
    for line in (Path(__file__).parent / "stored_events.jsonl").read_bytes().splitlines()
    if json.loads(line)["kind"] == STARTED
)
BODIES: dict[str, dict[str, Any]] = {
    STARTED: dict(BEGUN),
    ENDED: {"outcome": "promoted"},
    "asked": {"wish": "freeze", "reason": "noon"},
    BOUND: {"service": OTHER, "environment": ENVIRONMENT},
}

numbers = st.integers(1, 12)
kinds = st.sampled_from([ADOPTED, STARTED, INTENDED, INTENDED, ENDED, "asked", BOUND])
splits = st.sampled_from([f"r{number}" for number in range(4)])


def body(kind: str, release: str) -> dict[str, Any]:
    return BODIES.get(kind) or {"division": TrafficSplit.only(release, digest(release.encode())).document()}


class Attacked(RuleBasedStateMachine):
    versioned = False

    @staticmethod
    def words(kind: str, release: str) -> dict[str, Any]:
        """An event's kind and body."""
        return {"kind": kind, "body": body(kind, release)}

    @initialize()
    def begin(self) -> None:
        self.small = patch.object(bundle, "EVENTS", 3)  # so that a short chain has bundles
        self.small.start()
        self.store = Bucket(versioned=self.versioned)
        self.now = START
        self.store.clock = lambda: self.now
        self.writers = [self.ledger(CHAIN, "one"), self.ledger(CHAIN, "two")]
        other = self.ledger(OTHER, "three")
        for kind in (ADOPTED, STARTED, INTENDED, "asked"):
            other.append(**self.words(kind, "r9"))
        with suppress(LostError):
            self.writers[0].append(**self.words(ADOPTED, "r0"))
            self.writers[0].append(**self.words(STARTED, ""))

    def teardown(self) -> None:
        self.small.stop()

    def ledger(self, chain: str, actor: str) -> Ledger:
        return Ledger(self.store, chain, ENVIRONMENT, actor, lambda: self.now)

    @rule(who=st.integers(0, 1), kind=kinds, release=splits, reads=st.booleans(), fresh=st.booleans())
    def somebody_appends(self, who: int, kind: str, release: str, reads: bool, fresh: bool) -> None:
        if fresh:
            self.writers[who] = self.ledger(CHAIN, str(who))
        with suppress(UserError, LostError):
            if reads or fresh:
                self.writers[who].read()
            if kind != BOUND:
                self.writers[who].append(**self.words(kind, release))

    @rule(who=st.integers(0, 1), seconds=st.integers(0, 90))
    def somebody_takes_the_lease(self, who: int, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        with suppress(UserError, LostError):
            self.writers[who].acquire(str(who), timedelta(minutes=1))

    @rule(at=numbers, number=numbers, after=st.integers(-3, 12), kind=kinds, release=splits)
    def adversary_forges(self, at: int, number: int, after: int, kind: str, release: str) -> None:
        """An event of any number under any number, that follows any event, or none."""
        before = self.store.objects.get(key(CHAIN, after))
        start = {-1: UNBOUND, -2: genesis(CHAIN, ENVIRONMENT), -3: genesis(OTHER, ENVIRONMENT)}.get(after, "f" * 64)
        previous = digest(before) if before else start
        made = Event(number=number, previous=previous, time=_TIME, actor="mallory", **self.words(kind, release))
        self.store.put(key(CHAIN, at), made.stored())

    @rule(kind=kinds, release=splits, gap=st.integers(0, 2))
    def adversary_follows(self, kind: str, release: str, gap: int) -> None:
        """An event behind the last one, as if it were the next, or with a hole before it."""
        keys = self.store.list(f"{CHAIN}/events/")
        previous = digest(self.store.objects[keys[-1]]) if keys else UNBOUND
        number = len(keys) + 1 + gap
        made = Event(number=number, previous=previous, time=_TIME, actor="mallory", **self.words(kind, release))
        self.store.put(key(CHAIN, number), made.stored())

    @rule(count=st.integers(1, 4))
    def adversary_copies_another_chain(self, count: int) -> None:
        for name in self.store.list(f"{CHAIN}/events/"):
            del self.store.objects[name]
        for number in range(1, count + 1):
            self.store.put(key(CHAIN, number), self.store.objects[key(OTHER, number)])

    @rule(number=numbers)
    def adversary_deletes(self, number: int) -> None:
        self.store.objects.pop(key(CHAIN, number), None)

    @rule(number=numbers, to=numbers, chain=st.sampled_from([CHAIN, OTHER]))
    def adversary_moves(self, number: int, to: int, chain: str) -> None:
        content = self.store.objects.get(key(chain, number))
        if content is not None:
            self.store.put(key(CHAIN, to), content)

    @rule(
        content=st.sampled_from([b"", b"[]", b"{", b'{"body":NaN}', b"[" * 5000]),
        name=st.sampled_from(["00000002.json", "0", "zzz", "9/a"]),
    )
    def adversary_leaves_rubbish(self, content: bytes, name: str) -> None:
        self.store.put(f"{CHAIN}/events/{name}", content)

    @precondition(lambda self: any("zzz" in name or "9/a" in name or name.endswith("/0") for name in self.store.objects))
    @rule()
    def rubbish_is_removed(self) -> None:
        for name in ("0", "zzz", "9/a"):
            self.store.objects.pop(f"{CHAIN}/events/{name}", None)

    @rule(number=st.integers(1, 3), release=splits, from_genesis=st.booleans())
    def adversary_bundles(self, number: int, release: str, from_genesis: bool) -> None:
        """Events that follow each other and were never those of the chain."""
        made: list[Event] = []
        previous = genesis(CHAIN, ENVIRONMENT) if from_genesis else UNBOUND
        for each, kind in enumerate([ADOPTED, STARTED, INTENDED] * number, 1):
            made.append(Event(number=each, previous=previous, time=_TIME, actor="mallory", **self.words(kind, release)))
            previous = made[-1].hash
        content = bundle.bundled(one.stored() for one in made[(number - 1) * bundle.EVENTS : number * bundle.EVENTS])
        assert content is not None
        self.store.put(bundle.key(CHAIN, number), content)

    @rule(content=st.sampled_from([b"", b"[]", b"[" * 5000, b'{"count":1e999,"holder":"x","number":99,"renewed":"","seconds":1e9}']))
    def adversary_spoils_the_lease(self, content: bytes) -> None:
        self.store.objects[leases.key(CHAIN)], self.store.when[leases.key(CHAIN)] = content, self.now

    @invariant()
    def the_planner_obeys_the_proven_chain_or_refuses(self) -> None:
        proven = self.proven_by_the_last_hash()
        try:
            planned = latest(self.store, CHAIN, ENVIRONMENT)
        except UserError as refused:
            assert all(sentence.endswith(".") for sentence in refused.problems[0].sentences)
            assert verify(self.store, CHAIN, ENVIRONMENT) or self.unreadable(proven), "a sound chain was refused"
            return
        assert proven is not None, "the planner obeyed objects that are no chain"
        if not self.unreadable(proven):
            assert planned == fold(proven).split, "the planner and `status` say different things"

    @staticmethod
    def unreadable(proven: list[Event] | None) -> bool:
        try:
            fold(proven or ())
        except UserError:
            return True
        return proven is None

    def proven_by_the_last_hash(self) -> list[Event] | None:
        """Walks from the last object back to the beginning by hashes alone; None where that leads nowhere."""
        keys = self.store.list(f"{CHAIN}/events/")
        if keys != tuple(key(CHAIN, number) for number in range(1, len(keys) + 1)):
            return None
        found: list[Event] = []
        content = self.store.objects[keys[-1]] if keys else None
        for number in range(len(keys), 0, -1):
            try:
                event = parse(content or b"")
            except ValueError:
                return None
            whose = (event.body.get("service"), event.body.get("environment"))
            if event.number != number or (event.kind == BOUND and whose != (CHAIN, ENVIRONMENT)):
                return None
            found.insert(0, event)
            content = self.store.ever.get(event.previous)
        starts = (UNBOUND, genesis(CHAIN, ENVIRONMENT))
        return found if not found or found[0].previous in starts else None


_TIME = "2026-11-21T12:00:00.000Z"

TestAttacked = Attacked.TestCase
TestAttacked.settings = settings(max_examples=80, stateful_step_count=20, deadline=None)


class AttackedVersions(Attacked):
    """What was once proven is not taken back; and once all is deleted that is none, the planner obeys again."""

    versioned = True
    known: tuple[Event, ...] = ()

    @invariant()
    def the_planner_obeys_the_proven_chain_or_refuses(self) -> None:
        found = proof(self.store, CHAIN, ENVIRONMENT)
        if not found.flaws:
            assert found.events[: len(self.known)] == self.known, "an event was taken back"
            self.known = found.events
        try:
            planned = latest(self.store, CHAIN, ENVIRONMENT)
        except UserError:
            assert found.flaws or self.unreadable(list(found.events)), "a sound chain was refused"
            return
        assert not found.flaws
        assert planned == fold(found.events).split, "the planner and `status` say different things"

    @rule()
    def an_administrator_deletes_everything(self) -> None:
        for name in self.store.list(f"{CHAIN}/events/"):
            self.store.objects.pop(name)
        found = proof(self.store, CHAIN, ENVIRONMENT)
        assert not found.flaws
        assert found.events[: len(self.known)] == self.known


TestAttackedVersions = AttackedVersions.TestCase
TestAttackedVersions.settings = TestAttacked.settings
