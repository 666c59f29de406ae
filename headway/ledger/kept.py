"""What a reader of a chain keeps of it: its events, or what follows from them.

A loop reads every service's chain, and tenants' runners write these. So it keeps a state in place of events, and leaves a
service out, and no other, whose chain would take more memory or time than any honest one.
"""

import gc
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any, Generic, Protocol, TypeVar

from headway.ledger.events import Event
from headway.ledger.lease import LeaseTerm
from headway.ledger.proof import ChainHashes
from headway.problem import Exit, UserError

State = TypeVar("State")

KEPT_AT_MOST = 32 << 20
"""Bytes of memory of what a loop keeps of one chain: some 8,000 releases."""
EVENTS_AT_MOST = 1 << 22
"""Of one chain, whose hashes take 128 MiB then: some 17,000 releases by default, four a day for ten years."""
READ_AT_MOST = 256 << 20
"""Bytes of events of one chain at one look of a loop that has others to look at; at the next one it goes on."""
_WEIGHED_EVERY = 1 << 20
"""Bytes of events after which the state is weighed again, besides at the end of each look; as lists they make some 25 times as much memory
until then."""
_OF_ALL = (type, ModuleType, FunctionType, Enum)


class UnfinishedError(UserError):
    """A chain is longer than what is read at one look."""

    def __init__(self, chain: str, count: int) -> None:
        super().__init__(
            f"The ledger of {chain} is long: {count} events of it are read so far.",
            "Nothing is said of this service until all are; what serves goes on.",
            "Wait: each look reads on.",
            Exit.UNDER_WAY,
        )


class TooMuchKeptError(UserError):
    """What has to be kept of a chain takes more memory than any honest one's."""


class NewestGoneError(Exception):
    """The newest event that was read before is another one by now."""


class Kept(Protocol):
    """Takes events in their order."""

    def take(self, event: Event, hash_: str, size: int, /) -> None: ...

    def mark(self) -> Any:
        """Where it stands, before a reading."""
        ...

    def back_to(self, mark: Any, /) -> None:
        """Take back what was taken since."""
        ...


@dataclass
class EventsKept:
    """All events, for who reads one service's chain and ends."""

    events: list[Event] = field(default_factory=list[Event])
    hashes: ChainHashes = field(default_factory=ChainHashes)

    def take(self, event: Event, hash_: str, size: int, /) -> None:
        self.events.append(event)
        self.hashes.add(hash_)

    def mark(self) -> int:
        return len(self.events)

    def back_to(self, mark: int, /) -> None:
        del self.events[mark:]
        self.hashes.cut(mark)


@dataclass
class ChainKnown:
    """What a ledger itself needs of its chain, besides what its reader keeps. An event that is read again must be as it was."""

    kept: Kept
    hashes: ChainHashes = field(default_factory=ChainHashes)
    term: LeaseTerm = field(default_factory=LeaseTerm)

    def take(self, event: Event, hash_: str, size: int, /) -> None:
        if event.number <= len(self.hashes):
            if hash_ != self.hashes.of(event.number):
                raise NewestGoneError
            return
        self.term = self.term.after(event)
        self.kept.take(event, hash_, size)
        self.hashes.add(hash_)

    def mark(self) -> Any:
        return len(self.hashes), self.term, self.kept.mark()

    def back_to(self, mark: Any, /) -> None:
        count, self.term, kept = mark
        self.hashes.cut(count)
        self.kept.back_to(kept)


@dataclass
class FirstKept:
    """The first event alone."""

    first: Event | None = None

    def take(self, event: Event, hash_: str, size: int, /) -> None:
        self.first = self.first or event

    def mark(self) -> None: ...

    def back_to(self, _: None, /) -> None:
        self.first = None


@dataclass
class StateKept(Generic[State]):
    """What `step` makes of the events; `state` is replaced and never changed. Raises UserError for a chain of which more would be
    kept than `KEPT_AT_MOST` and the hashes of `EVENTS_AT_MOST`."""

    chain: str
    state: State
    step: Callable[[Iterable[Event], State], State]
    _unweighed: int = 0
    _count: int = 0

    def take(self, event: Event, hash_: str, size: int, /) -> None:
        self.state = self.step((event,), self.state)
        self._unweighed += size
        self._count += 1
        if self._count > EVENTS_AT_MOST:
            raise self._left_out(f"it has more than {EVENTS_AT_MOST} events")
        if self._unweighed > _WEIGHED_EVERY:
            self.weigh()

    def weigh(self) -> None:
        """Also at the end of a look. Raises UserError."""
        if not self._unweighed:
            return
        self._unweighed = 0
        if weighs_more(self.state, KEPT_AT_MOST):
            raise self._left_out(f"what has to be kept of it takes more than {KEPT_AT_MOST >> 20} MiB")

    def mark(self) -> tuple[State, int, int]:
        return self.state, self._unweighed, self._count

    def back_to(self, mark: tuple[State, int, int], /) -> None:
        self.state, self._unweighed, self._count = mark

    def _left_out(self, fact: str) -> UserError:
        return TooMuchKeptError(
            f"The ledger of {self.chain} is more than a loop reads: {fact}.",
            "This service is left out, and no other; what serves goes on.",
            f"Find out who writes it: `headway release history {self.chain}`. Let an operator take away its newest events that are of no"
            f" release, then `headway release accept {self.chain} --reason WHY`, and restart the loops, which miss what they had read.",
            Exit.REFUSED,
        )


def weighs_more(value: object, most: int) -> bool:
    """Whether a value and all that it holds take more than so many bytes of memory."""
    seen, found, total = set[int](), [value], 0
    while found and total <= most:
        one = found.pop()
        if id(one) in seen or isinstance(one, _OF_ALL):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        found.extend(gc.get_referents(one))
    return total > most
