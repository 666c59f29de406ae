"""Events of a rollout as the ledger keeps them: one canonical text, one hash, each carrying the hash of the one before.
Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.problem import Exit, UserError

GENESIS = "0" * 64
"""What the first event of a chain carries as the hash of the one before."""

FIELDS = ("body", "actor", "kind", "number", "previous", "time")


def canonical(value: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no spaces, UTF-8, no NaN. Raises ValueError for what JSON cannot hold
    exactly."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`number` counts from 1 without gaps; `time` is RFC 3339 in UTC; `previous` is the SHA-256 of the event before, as
    stored."""

    number: int
    previous: str
    time: str
    actor: str
    kind: str
    body: Mapping[str, Any]

    def stored(self) -> bytes:
        return canonical(
            {"number": self.number, "previous": self.previous, "time": self.time, "actor": self.actor, "kind": self.kind, "body": self.body}
        )

    @property
    def hash(self) -> str:
        return digest(self.stored())


def key(chain: str, number: int) -> str:
    """Where event `number` of a chain lies; sorts as it counts."""
    return f"{chain}/events/{number:08d}.json"


def parse(content: bytes) -> Event:
    """Read a stored event. Raises ValueError when it is not the canonical text of one."""
    document = json.loads(content)
    if not isinstance(document, dict) or set(document) != set(FIELDS):
        raise ValueError("not an event: its fields are not those of one")
    event = Event(**document)
    if event.stored() != content:
        raise ValueError("not the canonical text of an event")
    return event


def unreadable(event: Event) -> UserError:
    """What is said of a sound event that means nothing here: a newer Headway wrote it."""
    return UserError(
        f"Event {event.number} of the release ledger ({event.kind}) says something that this Headway does not know.",
        "Where the release stands cannot be told, so nothing is done; traffic stays where it is.",
        "Use the Headway that wrote it, or a newer one. `headway release verify` tells whether the chain is whole.",
        Exit.REFUSED,
    )


@dataclass(frozen=True, slots=True)
class ChainFlaw:
    """Something wrong with a chain, at event `number`."""

    number: int
    fact: str


def flaws(chain: str, objects: Sequence[tuple[str, bytes]], head: str | None = None) -> tuple[ChainFlaw, ...]:
    """Everything wrong with a chain, given its objects by key: altered, missing, reordered, foreign, cut off.

    `head` is the hash of the last event as known from elsewhere (a report, a release note); without it the removal of
    the newest events cannot be seen, because a shorter chain is a chain too.
    """
    found: list[ChainFlaw] = []
    previous, expected = GENESIS, 1
    for name, content in sorted(objects):
        try:
            event = parse(content)
        except (ValueError, TypeError) as problem:
            found.append(ChainFlaw(expected, f"{name} is no event: {problem}"))
            previous, expected = digest(content), expected + 1
            continue
        if name != key(chain, event.number):
            found.append(ChainFlaw(event.number, f"{name} holds event {event.number}: it was moved"))
        if event.number > expected:
            found.append(
                ChainFlaw(
                    expected,
                    f"event {expected} is missing"
                    if event.number == expected + 1
                    else f"events {expected} to {event.number - 1} are missing",
                )
            )
        elif event.previous != previous:
            found.append(
                ChainFlaw(event.number, f"event {event.number} does not follow the one before it: that one was altered or replaced")
            )
        previous, expected = digest(content), event.number + 1
    if head is not None and previous != head:
        found.append(
            ChainFlaw(expected, f"the chain ends in {previous[:12]}, not in {head[:12]}: its newest events were removed or replaced")
        )
    return tuple(found)
