"""A hundred events of a chain in one object, so that a reader of a long chain makes few round trips. Pure.

A bundle is believed no more than any other object: its events are proven with all others, and the event after it is
always read by itself, so that its hash holds the bundle to what the chain says. A bundle that is missing or forged
costs time and nothing else: the events themselves are read then.
"""

from collections.abc import Iterable, Sequence

from headway.ledger import events
from headway.ledger.store import LARGEST

EVENTS = 100


def prefix(chain: str) -> str:
    return f"{chain}/bundles/"


def key(chain: str, bundle: int) -> str:
    """Where bundle `bundle` of a chain lies; they count from 1, and are named by their last event."""
    return f"{prefix(chain)}{bundle * EVENTS:08d}.jsonl"


def whole(count: int) -> int:
    """How many bundles a chain of `count` events has: each has an event after it."""
    return max(0, count - 1) // EVENTS


def bundled(contents: Iterable[bytes]) -> bytes | None:
    """The content of a bundle of these events; None where they are too few, or it would be larger than what is read."""
    lines: list[bytes] = []
    room = LARGEST
    for content in contents:
        lines.append(content)
        room -= len(content) + 1
        if room < -1:
            return None
    return b"\n".join(lines) if len(lines) == EVENTS else None


def unpacked(chain: str, bundle: int, content: bytes | None) -> Sequence[tuple[str, bytes]]:
    """The events by key, as the bundle has them; none where it cannot be one."""
    lines = content.split(b"\n") if content else []
    first = (bundle - 1) * EVENTS + 1
    return [(events.key(chain, first + place), line) for place, line in enumerate(lines)] if len(lines) == EVENTS else ()
