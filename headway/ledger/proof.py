"""The one proof by which every reader takes objects of a store for the chain of a service in an environment. Pure.

Whoever can write below a chain can put an object there that is no part of it. So a reader believes no single object: it
takes all of them, each under the key of its number, each following the one before, from a first one that belongs to
this service and this environment; or it refuses, and says what is wrong.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from headway.ledger.events import BOUND, UNBOUND, Event, digest, genesis, key, parse
from headway.problem import Exit, UserError

_KEY = re.compile(r"events/[0-9]{8}\.json")


@dataclass(frozen=True, slots=True)
class ChainFlaw:
    """Something wrong with a chain, at event `number`."""

    number: int
    fact: str


@dataclass(frozen=True, slots=True)
class ChainEnd:
    """How far a chain is proven: its last event and that one's hash; and whether the chain says whose it is."""

    number: int = 0
    hash: str = UNBOUND
    bound: bool = True


START = ChainEnd()


@dataclass(frozen=True, slots=True)
class ChainProof:
    """What objects of a store are: events that follow each other, as far as there is no flaw."""

    events: tuple[Event, ...]
    """None where whoever had it proven took each of them."""
    flaws: tuple[ChainFlaw, ...]
    end: ChainEnd
    unfinished: bool = False
    """Whether there is more, which was not read."""

    def sound(self, chain: str) -> Self:
        """Itself, where it has no flaw. Raises UserError."""
        if self.flaws:
            raise refusal(chain, self.flaws[0])
        return self


Take = Callable[[Event, str, int], None]
"""Is given one event after the other, with its hash and its bytes, so that no chain need lie in memory."""


@dataclass(slots=True)
class ChainHashes:
    """The hash of each event of a chain: 32 bytes of an event are kept, however large it is."""

    _bytes: bytearray = field(default_factory=bytearray)

    def __len__(self) -> int:
        return len(self._bytes) // 32

    def add(self, found: str) -> None:
        self._bytes += bytes.fromhex(found)

    def of(self, number: int) -> str:
        return self._bytes[32 * (number - 1) : 32 * number].hex()

    def cut(self, length: int) -> None:
        del self._bytes[32 * length :]


def refusal(chain: str, flaw: ChainFlaw) -> UserError:
    """What every reader says of a chain with a flaw."""
    return UserError(
        f"Event {flaw.number} of {chain} does not fit the chain: {flaw.fact}.",
        "Nothing is planned or decided on a ledger that cannot be trusted; what serves goes on, and traffic stays where it is.",
        f"Run `headway release verify {chain}` for every flaw. Restore from its versions what was altered or is missing; delete what does not"
        " belong to the chain.",
        Exit.REFUSED,
    )


def listed(chain: str, keys: Sequence[str], after: int = 0) -> tuple[ChainFlaw, ...]:
    """What the keys below `events/` show before anything is read: a number that is missing, an object that is no event.
    `keys` are sorted and come after that of event `after`."""
    for number, name in enumerate(keys, after + 1):
        if name != key(chain, number):
            numbered = _KEY.fullmatch(name.removeprefix(f"{chain}/")) is not None
            return (ChainFlaw(number, f"it is missing, and {name} is there" if numbered else f"{_shown(name)} is no key of an event"),)
    return ()


def counting(
    chain: str, environment: str | None, written: Iterable[tuple[str, Iterable[bytes], bool]], after: ChainEnd = START
) -> Iterator[tuple[str, bytes]]:
    """Of what was ever written under each key, sorted (contents oldest first, and whether the newest is there still): the
    first one that follows the chain. So nobody takes back an event, and what is none is forgotten once it is deleted."""
    end = after
    for name, contents, there in written:
        content, last = None, None
        for last in contents:
            if _continues(chain, environment, name, last, end):
                content = last
                break
        if content is None and there:
            content = last
        if content is not None:
            yield name, content
            end = ChainEnd(end.number + 1, digest(content), end.bound)


def _continues(chain: str, environment: str | None, name: str, content: bytes, end: ChainEnd) -> bool:
    try:
        event = parse(content)
    except ValueError:
        return False
    next_one = event.number == end.number + 1 and name == key(chain, event.number)
    return next_one and _follows(chain, environment, event, end) and not _foreign(chain, environment, event)


def prove(
    chain: str,
    environment: str | None,
    objects: Sequence[tuple[str, bytes]],
    after: ChainEnd = START,
    head: str | None = None,
) -> ChainProof:
    """Everything wrong with a chain, given its objects by key: altered, missing, reordered, foreign, cut off.

    `after` is where an earlier proof ended. `environment` None leaves open whose the chain is: only for who copies it.
    `head` is the hash of the last event as known from elsewhere (a report, a release note); without it the removal of
    the newest events cannot be seen, because a shorter chain is a chain too.
    """
    events: list[Event] = []
    found = prove_each(chain, environment, sorted(objects), lambda event, _, __: events.append(event), after, head, beyond=True)
    return replace(found, events=tuple(events))


def prove_each(
    chain: str,
    environment: str | None,
    objects: Iterable[tuple[str, bytes]],
    take: Take,
    after: ChainEnd = START,
    head: str | None = None,
    *,
    beyond: bool = False,
) -> ChainProof:
    """The same of objects sorted by key, each of which is forgotten once `take` has its event; it is given none from a flaw on, unless
    `beyond` it."""
    found: list[ChainFlaw] = []
    end = after
    for name, content in objects:
        expected = end.number + 1
        try:
            event = parse(content)
        except ValueError as problem:
            found.append(ChainFlaw(expected, f"{_shown(name)} is no event: {problem}"))
            end = replace(end, number=expected, hash=digest(content))
            continue
        if name != key(chain, event.number):
            found.append(ChainFlaw(event.number, f"{_shown(name)} holds event {event.number}: it was moved"))
        if event.number > expected:
            missing = f"event {expected} is" if event.number == expected + 1 else f"events {expected} to {event.number - 1} are"
            found.append(ChainFlaw(expected, f"{missing} missing"))
        elif not _follows(chain, environment, event, end):
            found.append(ChainFlaw(event.number, _STRANGER if event.number == 1 else _APART.format(event.number)))
        bound = event.previous != UNBOUND if event.number == 1 else end.bound
        if event.kind == BOUND and environment is not None:
            bound = True
        if _foreign(chain, environment, event):
            found.append(ChainFlaw(event.number, _STRANGER))
        end = ChainEnd(event.number, digest(content), bound)
        if beyond or not found:
            take(event, end.hash, len(content))
    if head is not None and end.hash != head:
        fact = f"the chain ends in {end.hash[:12]}, not in {head[:12]}: its newest events were removed or replaced"
        found.append(ChainFlaw(end.number + 1, fact))
    return ChainProof((), tuple(found), end)


_STRANGER = "the chain was written for another service or another environment, or its beginning was replaced"
_APART = "event {0} does not follow the one before it: that one was altered or replaced"


def _follows(chain: str, environment: str | None, event: Event, end: ChainEnd) -> bool:
    if end.number:
        return event.previous == end.hash
    return environment is None or event.previous in (UNBOUND, genesis(chain, environment))


def _foreign(chain: str, environment: str | None, event: Event) -> bool:
    """Whether the event says that the chain is another one's."""
    whose = (event.body.get("service"), event.body.get("environment"))
    return event.kind == BOUND and environment is not None and whose != (chain, environment)


def _shown(name: str) -> str:
    """A key that anybody may have chosen, on one line."""
    return name.encode("unicode_escape").decode()[:200]
