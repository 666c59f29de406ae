"""One chain of events on a store: append as the owner of the next number, read all, hold a lease. The clock is
injected.

Who writes number N owns step N. A writer whose number is taken has lost: somebody else acted since it last read. So
whoever takes the lease writes an event, and nothing that its former holder still wants to write fits the chain.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from headway.ledger import lease as leases
from headway.ledger.events import GENESIS, Event, canonical, digest, flaws, key, parse
from headway.ledger.lease import Lease, LeaseRecord, LeaseState, LeaseTerm, standing
from headway.ledger.store import LedgerStore, StoredObject, TakenError, UnreachableError, create_or_agree
from headway.problem import Exit, UserError

READERS = 16


class LostError(Exception):
    """Somebody else wrote the event that this writer wanted to write: it must stop, read, and decide anew."""


class Ledger:
    """The chain `chain` (`<tenant>/<model>`) on a store."""

    def __init__(self, store: LedgerStore, chain: str, actor: str, now: Callable[[], datetime]) -> None:
        self._store, self.chain, self._actor, self._now = store, chain, actor, now
        self._events: list[Event] = []
        self._term = LeaseTerm()
        self._mine: tuple[int, datetime] | None = None
        """The term that was taken here, and until when it lives without another renewal."""
        self._missed: tuple[int, datetime] | None = None
        """The term whose lease the store does not show, and since when this reader knows."""

    @property
    def events(self) -> Sequence[Event]:
        """What has been read or written so far, in order."""
        return tuple(self._events)

    @property
    def head(self) -> str:
        return self._events[-1].hash if self._events else GENESIS

    def read(self) -> Sequence[Event]:
        """Read what is new. Raises UserError for a chain with a flaw, UnreachableError when the store does not answer."""
        if not self._events:
            self._read_many()
        while (content := self._store.get(key(self.chain, len(self._events) + 1))) is not None:
            self._keep(self._accepted(content))
        return self.events

    def _read_many(self) -> None:
        """Read a chain that is new to this reader: many objects at once, for each is a round trip."""
        count = len(self._store.list(f"{self.chain}/events/"))
        with ThreadPoolExecutor(max_workers=READERS) as pool:
            for content in pool.map(self._store.get, [key(self.chain, number) for number in range(1, count + 1)]):
                if content is None:
                    return
                self._keep(self._accepted(content))

    def append(self, kind: str, body: Mapping[str, Any]) -> Event:
        """Write the next event. Raises LostError when its number is taken by somebody else, UnreachableError when
        nothing can be known.

        A write whose answer was lost is found again by reading the key: if it holds this very event, the write arrived.
        """
        event = Event(
            number=len(self._events) + 1,
            previous=self.head,
            time=_text(self._now()),
            actor=self._actor,
            kind=kind,
            body=json.loads(canonical(body)),
        )
        name = key(self.chain, event.number)
        try:
            self._store.create(name, event.stored())
        except (TakenError, UnreachableError) as doubt:
            there = self._store.get(name)
            if there is None:
                raise UnreachableError(str(doubt)) from None
            if there != event.stored():
                raise LostError(f"event {event.number} of {self.chain} was written by somebody else") from None
        self._keep(event)
        return event

    def _keep(self, event: Event) -> None:
        self._events.append(event)
        self._term = self._term.after(event)

    def _accepted(self, content: bytes) -> Event:
        number = len(self._events) + 1
        try:
            event = parse(content)
            sound = event.number == number and event.previous == self.head
        except (ValueError, TypeError):
            sound, event = False, None
        if not sound or event is None:
            raise UserError(
                f"Event {number} of {self.chain} does not fit the chain: it, or the one before it, was altered.",
                "Nothing is decided on a ledger that cannot be trusted; traffic stays where it is.",
                f"Run `headway release verify {self.chain}` for every flaw; restore the object from its versions.",
                Exit.REFUSED,
            )
        return event

    def lease(self) -> Lease | None:
        """Whose term it is by what was read so far, and whether he lives; None if it is nobody's. Raises
        UnreachableError."""
        return self._standing()[1].lease

    def left(self, holder: str) -> float:
        """For how many seconds `holder` may certainly act on what it took here, as far as the chain was read."""
        if self._mine is None or (self._mine[0], holder) != (self._term.number, self._term.holder):
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
        stays = current is not None and (current.number, holder) == (self._term.number, self._term.holder)
        number = self._term.number if stays else len(self._events) + 1
        self._show(LeaseRecord(holder, number, duration.total_seconds(), _text(began), state.written + 1), held)
        if not stays:
            self.append(leases.TAKEN, {"holder": holder, "until": _text(began + duration)})
        self._mine = (number, began + duration)
        return Lease(holder, number, duration.total_seconds())

    def _claim(self, holder: str, current: Lease, held: StoredObject | None, written: int) -> Lease:
        """Stand in for a lease that the store does not show; it runs out when the claim is as old as it could last.
        Raises LostError."""
        seconds = self._term.seconds
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
        if self._term.holder == holder:
            self.append(leases.RELEASED, {"holder": holder})

    def _standing(self) -> tuple[StoredObject | None, LeaseState]:
        """A lease that the store does not show (somebody deleted it) lives on for its time, in which its holder shows
        it again."""
        held = self._store.held(leases.key(self.chain))
        state = standing(self._term, held)
        if state.lease is None or state.shown:
            self._missed = None
            return held, state
        if self._missed is None or self._missed[0] != state.lease.number:
            self._missed = (state.lease.number, self._now())
        left = state.lease.left - (self._now() - self._missed[1]).total_seconds()
        return held, state._replace(lease=Lease(state.lease.holder, state.lease.number, left))


def verify(store: LedgerStore, chain: str, head: str | None = None) -> tuple[str, ...]:
    """Every flaw of a chain, as sentences; empty for a sound one. Reads the whole chain, also what lies beside it."""
    names = store.list(f"{chain}/events/")
    with ThreadPoolExecutor(max_workers=READERS) as pool:
        objects = [(name, content) for name, content in zip(names, pool.map(store.get, names), strict=True) if content is not None]
    return tuple(f.fact for f in flaws(chain, objects, head))


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
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
