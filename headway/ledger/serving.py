"""What serves a model by the ledger: the traffic split that holds now, and the releases as they were registered. A plan
of a stack reads it.

A plan obeys nothing that the chain does not prove: one object that somebody put behind the last event would otherwise
move all traffic. So the whole chain is read, as for every other reader.
"""

import re
from collections.abc import Iterable

from pydantic import ValidationError

from headway.bounded_json import bounded_json
from headway.contract.model import Model
from headway.contract.released import read_snapshot
from headway.ledger.events import Event, canonical, digest, unreadable
from headway.ledger.reading import witnessed
from headway.ledger.store import LARGEST, LedgerStore
from headway.ledger.traffic_split import TrafficSplit
from headway.ledger.witness import LedgerWitness
from headway.problem import ODD, Exit, UserError, dotted

ADOPTED = "adopted"
"""Means the release that served before there was a ledger entry is registered as the stable one."""
INTENDED = "intended"
"""Means traffic shall be divided so. Written before anything is done, so that whoever applies the stack goes on with
it."""
STARTED = "started"
"""Means a release begins: what it is, the plan, the policy, the difference to what serves."""
ENDED = "ended"

_CONTENT = re.compile(r"[0-9a-f]{64}")


def latest(store: LedgerStore, chain: str, environment: str, witness: LedgerWitness | None = None) -> TrafficSplit | None:
    """The split that holds now. Raises UserError for a chain with a flaw, of a newer Headway or that its witness
    contradicts, UnreachableError."""
    return serves(witnessed(store, chain, environment, witness)[0].events)


def serves(events: Iterable[Event]) -> TrafficSplit | None:
    """The split that holds after the events of a chain; None for a service that no ledger knows. Raises UserError for
    an event of a newer Headway.

    What is intended counts while a release is under way, and at no other time.
    """
    split, under_way = None, False
    for event in events:
        if (event.kind == ADOPTED and split is None) or (event.kind == INTENDED and under_way):
            split = _split(event)
        elif event.kind == STARTED and split is not None:
            under_way = True
        elif event.kind == ENDED:
            under_way = False
    return split


def _split(event: Event) -> TrafficSplit:
    try:
        split = TrafficSplit.read(event.body["division"])
    except ODD:
        raise unreadable(event) from None
    whole = canonical(split.document()) == canonical(event.body["division"])
    if not whole or not all(arm.release in split.digests for arm in split.arms):
        raise unreadable(event)
    return split


def released(store: LedgerStore, chain: str, content: str) -> Model:
    """The contract that a release was registered with. Raises UserError when it is gone, is not what its name says, or
    says what this Headway does not know."""
    body = store.get(f"{chain}/releases/{content}.json") if _CONTENT.fullmatch(content) else b""
    if body is None or digest(body) != content:
        raise UserError(
            f"Release {content[:12]} of {chain} is {'missing' if body is None else 'not what its name says'}.",
            "What it runs is not known any more, so nothing can be planned; what runs goes on.",
            "Restore the object from its versions.",
            Exit.REFUSED,
        )
    try:
        model = read_snapshot(bounded_json(body, LARGEST)["contract"])
    except ODD as problems:
        known = isinstance(problems, ValidationError)
        fields = ", ".join(dotted(problem["loc"]) for problem in problems.errors()) if known else "it holds no contract"
        raise UserError(
            f"The contract of release {content[:12]} of {chain} says something that this Headway does not know ({fields}).",
            "What it runs cannot be told, so nothing can be planned; what runs goes on.",
            "Use the Headway that registered it, or a newer one.",
            Exit.REFUSED,
        ) from None
    if model.name != chain.partition("/")[2]:
        raise UserError(
            f"Release {content[:12]} of {chain} is a contract of {model.name}.",
            "Objects of another service lie where those of this one belong, so nothing can be planned; what runs goes on.",
            "Find out who put them there; restore what lies below this service's name from its versions.",
            Exit.REFUSED,
        )
    return model
