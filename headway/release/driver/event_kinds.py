"""Kinds of events in a service's chain, and what each means. What a kind's body holds is said where it is written, in
`driver.py`."""

from collections.abc import Mapping
from enum import StrEnum, unique
from typing import Any

from headway.ledger import serving
from headway.ledger.events import ACCEPTED, BOUND
from headway.ledger.lease import RELEASED, TAKEN


@unique
class EventKind(StrEnum):
    """Of an event."""

    ACCEPTED = ACCEPTED
    ADOPTED = serving.ADOPTED
    BOUND = BOUND
    LEASE = TAKEN
    """Means a runner began to drive, or took over."""
    LEASE_RELEASED = RELEASED
    STARTED = serving.STARTED
    CHECKED = "checked"
    """Means the evidence was tried out before anything was deployed."""
    LEARNED = "learned"
    """Means the gate has seen what the stable version did before."""
    INTENDED = serving.INTENDED
    APPLIED = "applied"
    """Means the stack was brought to the split and the live route was read back."""
    REFUSED = "refused"
    """Means a preview was refused by a policy or failed; nothing was changed."""
    FAILED = "failed"
    """Means an update failed, and failed again."""
    READY = "ready"
    LATE = "late"
    """Means replicas were not ready in their time."""
    PROBED = "probed"
    REGATED = "regated"
    """Means a person let another gate than the one it began with decide the rest of it."""
    OBSERVED = "observed"
    """Means one tick: raw counters, and what the gate made of them."""
    DUE = "due"
    """Means an experiment's time is over: a person promotes or rolls back, and users stay divided until then."""
    DRIFTED = "drifted"
    """Means the live route was not what it should be."""
    ASKED = "asked"
    """Means a person, or the dead man's limit, wants something: freeze, resume, promote, rollback."""
    SHIFTED = "shifted"
    """Means the live route was patched, ahead of the stack."""
    DRAINED = "drained"
    """Means the new version was seen to get nothing any more, or could not be seen."""
    ENDED = serving.ENDED


@unique
class OperatorRequest(StrEnum):
    """What may be asked for."""

    FREEZE = "freeze"
    RESUME = "resume"
    PROMOTE = "promote"
    """Means all traffic at once; while baking, the end of baking."""
    ROLLBACK = "rollback"


@unique
class ReleaseOutcome(StrEnum):
    """How a release ended."""

    PROMOTED = "promoted"
    ROLLED_BACK = "rolled back"
    OUT_OF_TIME = "out of time"
    """Means traffic went back because a time was over; nothing was shown against the version."""
    REFUSED = "refused"
    """Means it never got as far as being deployed."""


def nothing_read(raw: Mapping[str, Any]) -> bool:
    """Whether a reading of the past (LEARNED) found no histogram, which earlier drivers kept as one that did; the earliest name no edges."""
    return raw.get("edges") == {}
