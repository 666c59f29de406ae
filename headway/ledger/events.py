"""Events of a rollout as the ledger keeps them: one canonical text, one hash, each carrying the hash of the one before.
Pure.

A chain is of one service in one environment. The hash before its first event is made of both names, so that a chain
that was copied to another place is none there. Chains of before have `UNBOUND` instead, and an event `bound` since
somebody ran `headway release bind`.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from headway.bounded_json import bounded_json
from headway.problem import Exit, UserError

UNBOUND = "0" * 64
"""What the first event of a chain carries as the hash of the one before where the chain says nowhere whose it is."""
BOUND = "bound"
"""Means the chain is, from here on, of the service and the environment that this event names."""

ACCEPTED = "accepted"
"""Means a person took the chain for right although its witness contradicted it."""

_HASH = re.compile(r"[0-9a-f]{64}")
_KIND = re.compile(r"[a-z][a-z-]{0,63}")

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


def genesis(chain: str, environment: str) -> str:
    """What the first event of a chain carries as the hash of the one before."""
    return digest(canonical({"environment": environment, "service": chain}))


def key(chain: str, number: int) -> str:
    """Where event `number` of a chain lies; sorts as it counts."""
    return f"{chain}/events/{number:08d}.json"


def parse(content: bytes) -> Event:
    """Read a stored event. Raises ValueError when it is not the canonical text of one."""
    document = bounded_json(content)
    if not isinstance(document, dict) or document.keys() != set(FIELDS):  # pyright: ignore[reportUnknownMemberType]
        raise ValueError("its fields are not those of an event")
    fields = cast(dict[str, Any], document)
    event = Event(**fields)
    texts = all(isinstance(fields[name], str) for name in ("previous", "time", "actor", "kind"))
    if not texts or type(fields["number"]) is not int or event.number < 1 or not isinstance(fields["body"], dict):
        raise ValueError("a field of it has not the type that it has in an event")
    # Between date and time `fromisoformat` takes any one character.
    timed = event.time.isprintable() and datetime.fromisoformat(event.time).tzinfo is not None
    if not _HASH.fullmatch(event.previous) or not _KIND.fullmatch(event.kind) or not timed:
        raise ValueError("its kind, its time or its hash of the event before is none")
    if event.stored() != content:
        raise ValueError("it is not the canonical text of an event")
    return event


def unreadable(event: Event) -> UserError:
    """What is said of a sound event that means nothing here: a newer Headway wrote it."""
    return UserError(
        f"Event {event.number} of the release ledger ({event.kind}) says something that this Headway does not know.",
        "Where the release stands cannot be told, so nothing is done; traffic stays where it is.",
        "Use the Headway that wrote it, or a newer one. `headway release verify` tells whether the chain is whole.",
        Exit.REFUSED,
    )
