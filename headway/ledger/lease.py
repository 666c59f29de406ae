"""Who may act on a service's releases: an object beside the chain that its holder renews in place, and the event by
which it was taken. Pure.

Renewals would fill a chain with what nobody reads, so the chain holds only who took the lease and who gave it back. The
event decides whose the lease is, the object whether its holder still lives. Nobody's clock may judge another's, so a
lease's age is told by the store that holds it, and how much is left of one's own is counted from before it was asked
for.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

from headway.bounded_json import bounded_json
from headway.ledger.events import Event, canonical, unreadable
from headway.ledger.store import StoredObject
from headway.problem import ODD
from headway.wire import LEDGER_LEASES

TAKEN = "lease"
RELEASED = "lease-released"


LONGEST_SECONDS = 3600.0
"""Of a lease that is believed: a longer one, which nobody writes, would keep others out for as long as it says."""
_COUNTED = 1 << 53


def key(chain: str) -> str:
    """Where the lease of a chain lies."""
    return f"{LEDGER_LEASES}{chain}.json"


@dataclass(frozen=True, slots=True)
class LeaseTerm:
    """What a chain says: the newest event that took the lease, or gave it back (then `holder` is None)."""

    number: int = 0
    holder: str | None = None
    seconds: float = 0.0

    def after(self, event: Event) -> "LeaseTerm":
        """The term once `event` is written. Raises UserError for one of a newer Headway."""
        if event.kind == RELEASED:
            return LeaseTerm(event.number)
        if event.kind != TAKEN:
            return self
        try:
            length = datetime.fromisoformat(event.body["until"]) - datetime.fromisoformat(event.time)
            return LeaseTerm(event.number, event.body["holder"], length.total_seconds())
        except ODD:
            raise unreadable(event) from None


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The object's content. `number`: of the event that takes the lease, which is written right after the object.
    `renewed` and `count` make each writing another one, so that whoever read the one before cannot replace this one."""

    holder: str
    number: int
    seconds: float
    renewed: str
    count: int

    def stored(self) -> bytes:
        return canonical(asdict(self))


@dataclass(frozen=True, slots=True)
class Lease:
    """Who may act. `left`: for how many more seconds, when nothing renews it."""

    holder: str
    number: int
    left: float

    @property
    def live(self) -> bool:
        return self.left > 0

    def kept(self, gone: Callable[[str], bool]) -> bool:
        """Whether its holder still acts on it; `gone` tells of a holder whether it is known to have died."""
        return self.live and not gone(self.holder)


class LeaseState(NamedTuple):
    """What chain and object say together."""

    lease: Lease | None
    """None: nobody's. One that the object does not show is believed to be whole."""
    shown: bool
    written: int
    """How often the object was written, as far as it says so."""


def standing(term: LeaseTerm, held: StoredObject | None) -> LeaseState:
    """Whose the lease is. An object of an earlier term, one that is gone and one that is no lease all show nothing.

    One that somebody else wrote in this term is a claim: who missed the object put it there. The holder replaces it
    when it renews, so while it stands nothing was renewed since it was written, whatever was deleted before.
    """
    record = _read(held)
    count = record.count if record else 0
    if held and record and record.number > term.number:  # being taken; its event is not there yet
        return LeaseState(_of(record, held), shown=True, written=count)
    if term.holder is None:
        return LeaseState(None, shown=True, written=count)
    if held and record and record.number == term.number:
        lease = _of(record, held) if record.holder == term.holder else Lease(term.holder, term.number, term.seconds - held.age)
        return LeaseState(lease, shown=True, written=count)
    return LeaseState(Lease(term.holder, term.number, term.seconds), shown=False, written=count)


def _of(record: LeaseRecord, held: StoredObject) -> Lease:
    return Lease(record.holder, record.number, record.seconds - held.age)


def _read(held: StoredObject | None) -> LeaseRecord | None:
    try:
        found: Mapping[str, Any] = bounded_json(held.body if held else b"null")
        record = LeaseRecord(
            str(found["holder"]), int(found["number"]), float(found["seconds"]), str(found["renewed"]), int(found["count"])
        )
    except ODD:
        return None
    return record if 0 <= record.seconds <= LONGEST_SECONDS and record.count < _COUNTED else None
