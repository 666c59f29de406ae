"""One chain of events on a store: append as the owner of the next number, read all, hold a lease. The clock is
injected.

Who writes number N owns step N. A writer whose number is taken has lost: somebody else acted since it last read. So
whoever takes the lease writes an event, and nothing that its former holder still wants to write fits the chain.
"""

import json
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from headway.ledger import bundle
from headway.ledger import lease as leases
from headway.ledger import witness as witnesses
from headway.ledger.events import ACCEPTED, BOUND, Event, canonical, digest, genesis, key
from headway.ledger.kept import ChainKnown, EventsKept, FirstKept, Kept, NewestGoneError, UnfinishedError
from headway.ledger.lease import Lease, LeaseRecord, LeaseState, standing
from headway.ledger.proof import START, ChainEnd, ChainFlaw, refusal
from headway.ledger.reading import contents_of, listings, proof
from headway.ledger.store import LedgerStore, StoredObject, TakenError, UnreachableError, create_or_agree
from headway.ledger.witness import LedgerWitness, SilentWitnessError, WitnessWord
from headway.problem import Exit, Problem, UserError
from headway.timestamp import rfc3339


class LostError(Exception):
    """Somebody else wrote the event that this writer wanted to write: it must stop, read, and decide anew."""


class Ledger:
    """The chain `chain` (`<tenant>/<model>`) of an environment on a store, and who witnesses it elsewhere."""

    def __init__(
        self,
        store: LedgerStore,
        chain: str,
        environment: str,
        actor: str,
        now: Callable[[], datetime],
        witness: LedgerWitness | None = None,
        kept: Kept | None = None,
        seen: ChainEnd = START,
        at_most: float = math.inf,
    ) -> None:
        self._store, self.chain, self.environment, self._actor, self._now = store, chain, environment, actor, now
        self._witness = witness
        self.word: WitnessWord | None = None
        """What the witness said when it was last asked; None before that."""
        self._events = EventsKept()
        self._known = ChainKnown(self._events if kept is None else kept)
        self._end = START
        self._seen = seen
        """What an earlier reader of the same process has seen of it."""
        self._at_most = at_most
        """Bytes of events that are read at one look."""
        self._mine: tuple[int, datetime] | None = None
        """The term that was taken here, and until when it lives without another renewal."""
        self._missed: tuple[int, datetime] | None = None
        """The term whose lease the store does not show, and since when this reader knows."""

    @property
    def events(self) -> Sequence[Event]:
        """What has been read or written so far, in order; nothing where something else is kept in their place."""
        return tuple(self._events.events)

    def keeping(self, kept: Kept, at_most: float) -> "Ledger":
        """The same chain, of which nothing is read yet, for who keeps something else than its events. It must have what was read here."""
        seen = self._end if self._end.number > self._seen.number else self._seen
        return Ledger(self._store, self.chain, self.environment, self._actor, self._now, self._witness, kept, seen, at_most)

    @property
    def _count(self) -> int:
        return len(self._known.hashes)

    @property
    def head(self) -> str:
        return self._end.hash if self._count else genesis(self.chain, self.environment)

    @property
    def bound(self) -> bool:
        """Whether the chain itself says of which service and environment it is, as far as it was read."""
        return self._end.bound

    @property
    def unwitnessed(self) -> Problem | None:
        """Why what was read was compared with no witness; None where it was."""
        if self._witness is None:
            return witnesses.nobody(self.chain)
        return self.word.unheard(self.chain) if self.word else None

    def read(self) -> Sequence[Event]:
        """Read what is new. Raises UserError for a chain that has a flaw or that its witness contradicts, UnfinishedError while there is
        more of it than is read at once, UnreachableError when the store does not answer."""
        return self.look() if self.word is None else self._read()  # later events follow those that it was asked about

    def look(self) -> Sequence[Event]:
        """The same, and compare anew with the witness: what whoever reads by turns does at each of them. Raises UserError
        also where the store has not the newest event any more that was read before."""
        self.word = None
        word = witnesses.ask(self._witness, self.chain)  # before the store: an event of meanwhile would look removed
        with self._all_or_none():
            finished = self._again() if self._count else self._read_on(self._end)
            seen, read = self._seen.number, self._known.hashes
            if seen and (finished or seen <= self._count) and read.of(seen) != self._seen.hash:
                raise self._gone(seen)
            if finished:
                word.require(self.chain, self.environment, read)
        if not finished:
            raise UnfinishedError(self.chain, self._count)
        self.word = word
        return self.events

    def _again(self) -> bool:
        """Also what was read last, which must be there still."""
        number = self._count
        before = ChainEnd(number - 1, self._known.hashes.of(number - 1), self._end.bound) if number > 1 else START
        try:
            finished = self._read_on(before)
        except NewestGoneError:
            raise self._gone(number) from None
        if self._end.number < number:
            raise self._gone(number)
        return finished

    def _gone(self, number: int) -> UserError:
        return refusal(self.chain, ChainFlaw(number, "it was read before, and now it is gone or another one"))

    def _read(self) -> Sequence[Event]:
        with self._all_or_none():
            finished = self._read_on(self._end)
        if not finished:
            raise UnfinishedError(self.chain, self._count)
        return self.events

    def _read_on(self, after: ChainEnd) -> bool:
        """Whether that was all."""
        found = proof(self._store, self.chain, self.environment, after, self._known, self._at_most).sound(self.chain)
        self._end = found.end
        return not found.unfinished

    @contextmanager
    def _all_or_none(self) -> Generator[None]:
        """Nothing of a reading is kept where one event of it cannot be."""
        mark, end = self._known.mark(), self._end
        try:
            yield
        except BaseException:
            self._known.back_to(mark)
            self._end = end
            raise

    def attest(self) -> None:
        """Have the witness name the newest event. One that does not answer stays behind, which does no harm. Raises as
        `look` does."""
        self.look()
        if self._witness is None or self.word is None or self.word.silent or not self._count:
            return
        newest = witnesses.of(self._end)
        if newest != self.word.text:
            with suppress(SilentWitnessError):
                self._witness.write(self.chain, newest)

    def accept(self, reason: str) -> str | None:
        """Take the chain for right although its witness contradicts it, on a person's word, which becomes an event of it;
        answers what the witness said, None where it says nothing against it. Raises as `append` does, and
        SilentWitnessError."""
        if self._witness is None:
            return None
        said = self._witness.said(self.chain)
        self._read()
        fact = WitnessWord(said).against(self._known.hashes)
        if fact is None:
            return None
        newest = witnesses.NOTHING
        if self._count:  # an empty chain begins with what serves
            newest = witnesses.of(self.append(ACCEPTED, {"reason": reason, "witness": said, "found": witnesses.of(self._end)}))
        self._witness.write(self.chain, newest)
        return fact

    def append(self, kind: str, body: Mapping[str, Any]) -> Event:
        """Write the next event. Raises LostError when its number is taken by somebody else, UserError when later ones are
        there already, UnreachableError when nothing can be known.

        A write whose answer was lost is found again by reading the key: if it holds this very event, the write arrived.
        """
        event = Event(
            number=self._count + 1,
            previous=self.head,
            time=_text(self._now()),
            actor=self._actor,
            kind=kind,
            body=json.loads(canonical(body)),
        )
        self._require_room(event.number)
        try:
            self._store.create(key(self.chain, event.number), event.stored())
        except (TakenError, UnreachableError) as doubt:
            there = self._there()
            if there is None:
                raise UnreachableError(str(doubt)) from None
            if there != event.stored():
                raise LostError(f"event {event.number} of {self.chain} was written by somebody else") from None
        with self._all_or_none():
            self._known.take(event, event.hash, len(event.stored()))
            self._end = ChainEnd(event.number, event.hash, self._end.bound)
        if event.number % bundle.EVENTS == 1:
            self._bundle()
        return event

    def _bundle(self) -> None:
        """Write the bundles that are not there yet. Readers do without them, so no failure matters."""
        with suppress(TakenError, UnreachableError, UserError):
            there = frozenset(self._store.list(bundle.prefix(self.chain)))
            for each in range(1, bundle.whole(self._count) + 1):
                if bundle.key(self.chain, each) not in there and (content := bundle.bundled(self._bundled(each))) is not None:
                    self._store.create(bundle.key(self.chain, each), content)

    def _bundled(self, each: int) -> Iterator[bytes]:
        """The contents of the events of a bundle, as they were proven."""
        numbers = range((each - 1) * bundle.EVENTS + 1, each * bundle.EVENTS + 1)
        objects = contents_of(self._store, [key(self.chain, number) for number in numbers])
        return (content for number, (_, content) in zip(numbers, objects, strict=False) if digest(content) == self._known.hashes.of(number))

    def bind(self) -> Event | None:
        """Write down whose the chain is, and what was found; None where it says so already. Raises as `append` does."""
        self.read()
        if self.bound:
            return None
        body = {"service": self.chain, "environment": self.environment, "events": self._count, "head": self.head}
        bound = self.append(BOUND, body)
        self._end = replace(self._end, bound=True)
        return bound

    def _require_room(self, number: int) -> None:
        """A number below others is a hole: whoever filled it would hide that events were removed, or forged. And an event
        that was deleted is one still, though the store would let it be written again."""
        keys = next(listings(self._store, self.chain, number - 1), ())
        if not keys or (keys[0].key == key(self.chain, number) and all(one.once for one in keys)):
            return
        kept = FirstKept()
        found = proof(self._store, self.chain, self.environment, self._end, kept)
        if kept.first:
            raise LostError(f"event {number} of {self.chain} was written by somebody else")
        found.sound(self.chain)

    def _there(self) -> bytes | None:
        """What takes the place of the next event."""
        kept = FirstKept()
        proof(self._store, self.chain, self.environment, self._end, kept)
        return kept.first.stored() if kept.first else self._store.get(key(self.chain, self._count + 1))

    def lease(self) -> Lease | None:
        """Whose term it is by what was read so far, and whether he lives; None if it is nobody's. Raises
        UnreachableError."""
        return self._standing()[1].lease

    def left(self, holder: str) -> float:
        """For how many seconds `holder` may certainly act on what it took here, as far as the chain was read."""
        if self._mine is None or (self._mine[0], holder) != (self._known.term.number, self._known.term.holder):
            return 0.0
        return (self._mine[1] - self._now()).total_seconds()

    def acquire(self, holder: str, duration: timedelta, gone: Callable[[str], bool] = lambda _: False) -> Lease:
        """Become, or stay, the one who acts. Raises UserError when another holder's lease is live, LostError when a
        race was lost.

        `gone` says of a holder whether it is known to have died; its lease is then free at once.
        """
        self.read()
        began = self._now()
        held, state = self._standing()
        current = state.lease
        if current and current.holder != holder and not state.shown and not gone(current.holder):
            current = self._claim(holder, current, held, state.written)
        if current and current.holder != holder and current.kept(gone):
            raise UserError(
                f"The rollout of {self.chain} is driven by {current.holder} until {_text(began + timedelta(seconds=current.left))}.",
                "Two drivers would move traffic against each other; nothing was done.",
                "Wait for it to end, or for its lease to run out if it died.",
                Exit.BUSY,
            )
        stays = current is not None and (current.number, holder) == (self._known.term.number, self._known.term.holder)
        number = self._known.term.number if stays else self._count + 1
        self._show(LeaseRecord(holder, number, duration.total_seconds(), _text(began), state.written + 1), held)
        if not stays:
            self.append(leases.TAKEN, {"holder": holder, "until": _text(began + duration)})
        self._mine = (number, began + duration)
        return Lease(holder, number, duration.total_seconds())

    def _claim(self, holder: str, current: Lease, held: StoredObject | None, written: int) -> Lease:
        """Stand in for a lease that the store does not show; it runs out when the claim is as old as it could last.
        Raises LostError."""
        seconds = self._known.term.seconds
        self._show(LeaseRecord(holder, current.number, seconds, _text(self._now()), written + 1), held)
        return Lease(current.holder, current.number, seconds)

    def _show(self, record: LeaseRecord, held: StoredObject | None) -> None:
        """Write the object in place of the one that was read. Raises LostError, UnreachableError."""
        try:
            self._store.replace(leases.key(self.chain), record.stored(), held.tag if held else None)
        except TakenError:
            raise LostError(f"the lease of {self.chain} was written by somebody else") from None

    def release(self, holder: str) -> None:
        """Give the lease back; nothing happens if somebody else has it."""
        if self._known.term.holder == holder:
            self.append(leases.RELEASED, {"holder": holder})

    def _standing(self) -> tuple[StoredObject | None, LeaseState]:
        """A lease that the store does not show (somebody deleted it) lives on for its time, in which its holder shows
        it again."""
        held = self._store.held(leases.key(self.chain))
        state = standing(self._known.term, held)
        if state.lease is None or state.shown:
            self._missed = None
            return held, state
        if self._missed is None or self._missed[0] != state.lease.number:
            self._missed = (state.lease.number, self._now())
        left = state.lease.left - (self._now() - self._missed[1]).total_seconds()
        return held, state._replace(lease=Lease(state.lease.holder, state.lease.number, left))


def register(store: LedgerStore, chain: str, release: Mapping[str, Any]) -> str:
    """Keep a release under the hash of its content; answers the hash. Registering the same release again changes
    nothing."""
    content = canonical(release)
    name = digest(content)
    path = f"{chain}/releases/{name}.json"
    if not create_or_agree(store, path, content):
        raise UserError(
            f"The stored release {name[:12]} of {chain} is not what its name says.",
            "It was altered after it was registered; it cannot be deployed.",
            "Restore the object from its versions, or register the release under a new version.",
            Exit.REFUSED,
        )
    return name


def _text(time: datetime) -> str:
    return rfc3339(time, "milliseconds")
