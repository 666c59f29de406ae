"""What serves a model by the ledger: the traffic split that holds now, and the releases as they were registered. A plan
of a stack reads it.

One event of a chain decides: the newest that carries a traffic split. A chain is long and a plan must be quick, so it
is read from its end, and events that follow a split point back to it; whether the chain is whole is the business of
`headway release verify`.
"""

import json

from pydantic import ValidationError

from headway.contract.model import Model
from headway.contract.released import read_snapshot
from headway.ledger.events import digest, parse, unreadable
from headway.ledger.store import LedgerStore
from headway.ledger.traffic_split import TrafficSplit
from headway.problem import Exit, UserError, dotted

ADOPTED = "adopted"
"""Means the release that served before there was a ledger entry is registered as the stable one."""
INTENDED = "intended"
"""Means traffic shall be divided so. Written before anything is done, so that whoever applies the stack goes on with
it."""
DIVIDES = frozenset({ADOPTED, INTENDED})


def latest(store: LedgerStore, chain: str) -> TrafficSplit | None:
    """The split that holds now; None for a service that no ledger knows. Raises UnreachableError, UserError for a
    broken event."""
    keys = store.list(f"{chain}/events/")
    at = len(keys) - 1
    while at >= 0:
        content = store.get(keys[at])
        try:
            event = parse(content or b"")
        except (ValueError, TypeError):
            raise _broken(chain, keys[at]) from None
        if event.kind in DIVIDES:
            try:
                return TrafficSplit.read(event.body["division"])
            except (KeyError, TypeError, ValueError):
                raise unreadable(event) from None
        pointed = event.body.get("division")
        at = pointed - 1 if isinstance(pointed, int) and 0 < pointed <= at else at - 1
    return None


def released(store: LedgerStore, chain: str, content: str) -> Model:
    """The contract that a release was registered with. Raises UserError when it is gone, is not what its name says, or
    says what this Headway does not know."""
    body = store.get(f"{chain}/releases/{content}.json")
    if body is None or digest(body) != content:
        raise UserError(
            f"Release {content[:12]} of {chain} is {'missing' if body is None else 'not what its name says'}.",
            "What it runs is not known any more, so nothing can be planned; what runs goes on.",
            "Restore the object from its versions.",
            Exit.REFUSED,
        )
    try:
        return read_snapshot(json.loads(body)["contract"])
    except ValidationError as problems:
        fields = ", ".join(dotted(problem["loc"]) for problem in problems.errors())
        raise UserError(
            f"The contract of release {content[:12]} of {chain} says something that this Headway does not know ({fields}).",
            "What it runs cannot be told, so nothing can be planned; what runs goes on.",
            "Use the Headway that registered it, or a newer one.",
            Exit.REFUSED,
        ) from None


def _broken(chain: str, key: str) -> UserError:
    return UserError(
        f"{key} of the release ledger cannot be read.",
        f"Which release of {chain} serves is not known, so nothing can be planned; what runs goes on.",
        f"Run `headway release verify {chain}`; restore the object from its versions.",
        Exit.REFUSED,
    )
