"""One chain of events on a store: append as the owner of the next number, read all, hold a lease. The clock is injected.

Who writes number N owns step N. A writer whose number is taken has lost: somebody else acted since it last read.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from headway.errors import Exit, UserError
from headway.release.ledger.events import GENESIS, Event, canonical, digest, flaws, key, parse
from headway.release.ledger.store import Store, TakenError, UnreachableError

LEASE = "lease"
RELEASED = "lease-released"
READERS = 16


class LostError(Exception):
    """Somebody else wrote the event that this writer wanted to write: it must stop, read, and decide anew."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who may act on a rollout, until when."""

    holder: str
    until: datetime

    def live(self, now: datetime) -> bool:
        return now < self.until


class Ledger:
    """The chain `chain` (`<tenant>/<model>`) on a store."""

    def __init__(self, store: Store, chain: str, actor: str, now: Callable[[], datetime]) -> None:
        self._store, self.chain, self._actor, self._now = store, chain, actor, now
        self._events: list[Event] = []

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
            self._events.append(self._accepted(content))
        return self.events

    def _read_many(self) -> None:
        """Read a chain that is new to this reader: many objects at once, for each is a round trip."""
        count = len(self._store.list(f"{self.chain}/events/"))
        with ThreadPoolExecutor(max_workers=READERS) as pool:
            for content in pool.map(self._store.get, [key(self.chain, number) for number in range(1, count + 1)]):
                if content is None:
                    return
                self._events.append(self._accepted(content))

    def append(self, kind: str, body: Mapping[str, Any]) -> Event:
        """Write the next event. Raises LostError when its number is taken by somebody else, UnreachableError when nothing can be known.

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
        self._events.append(event)
        return event

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
        """The last lease in the chain, live or not; None if there is none or it was given back."""
        for event in reversed(self._events):
            if event.kind == RELEASED:
                return None
            if event.kind == LEASE:
                return Lease(event.body["holder"], datetime.fromisoformat(event.body["until"]))
        return None

    def acquire(self, holder: str, duration: timedelta, gone: Callable[[str], bool] = lambda _: False) -> Lease:
        """Become, or stay, the one who acts. Raises UserError when another holder's lease is live, LostError when a race was lost.

        `gone` says of a holder whether it is known to have died; its lease is then free at once.
        """
        self.read()
        now, current = self._now(), self.lease()
        if current and current.holder != holder and current.live(now) and not gone(current.holder):
            raise UserError(
                f"The rollout of {self.chain} is driven by {current.holder} until {_text(current.until)}.",
                "Two drivers would move traffic against each other; nothing was done.",
                "Wait for it to end, or for its lease to run out if it died.",
                Exit.BUSY,
            )
        lease = Lease(holder, now + duration)
        self.append(LEASE, {"holder": holder, "until": _text(lease.until)})
        return lease

    def release(self, holder: str) -> None:
        """Give the lease back; nothing happens if somebody else has it."""
        current = self.lease()
        if current and current.holder == holder:
            self.append(RELEASED, {"holder": holder})


def verify(store: Store, chain: str, head: str | None = None) -> tuple[str, ...]:
    """Every flaw of a chain, as sentences; empty for a sound one. Reads the whole chain, also what lies beside it."""
    objects = [(name, content) for name in store.list(f"{chain}/events/") if (content := store.get(name)) is not None]
    return tuple(f.fact for f in flaws(chain, objects, head))


def register(store: Store, chain: str, release: Mapping[str, Any]) -> str:
    """Keep a release under the hash of its content; answers the hash. Registering the same release again changes nothing."""
    content = canonical(release)
    name = digest(content)
    path = f"{chain}/releases/{name}.json"
    try:
        store.create(path, content)
    except TakenError:
        if store.get(path) != content:
            raise UserError(
                f"The stored release {name[:12]} of {chain} is not what its name says.",
                "It was altered after it was registered; it cannot be deployed.",
                "Restore the object from its versions, or register the release under a new version.",
                Exit.REFUSED,
            ) from None
    return name


def _text(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
