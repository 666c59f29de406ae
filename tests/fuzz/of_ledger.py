"""Objects of a ledger, and what events say: whoever may write there may write anything."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.ledger import bundle, lease
from headway.ledger.events import UNBOUND, Event, canonical, key, parse
from headway.ledger.proof import prove
from headway.ledger.serving import released, serves
from headway.ledger.store import StoredObject
from headway.problem import UserError
from headway.release.driver.rollout_state import fold
from headway.release.evaluation.watched import DriftStanding, drift_told, watched
from headway.verify import attestation
from tests.contract_samples import DEFECTS
from tests.fuzz.parser import FuzzedParser, document, texts

CHAIN, TIME = "vision/defects", "2026-11-21T12:00:00.000Z"
STORED = (Path(__file__).parents[1] / "unit/ledger/stored_events.jsonl").read_bytes().splitlines()
EVENTS = [parse(line) for line in STORED]


@dataclass(frozen=True)
class _Store:
    content: bytes

    def get(self, name: str, version: str | None = None) -> bytes | None:
        return self.content


def _said(data: bytes) -> list[Event]:
    """A sound chain whose events have the kinds and bodies of `data`, a line each: after this much nothing but they can be odd."""
    found: list[Event] = []
    for line in data.split(b"\n"):
        said = document(line)
        if said is None or not isinstance(said.get("body"), dict) or not isinstance(said.get("kind"), str):
            continue
        previous = found[-1].hash if found else UNBOUND
        found.append(Event(number=len(found) + 1, previous=previous, time=TIME, actor="ci", kind=said["kind"], body=said["body"]))
    return found


def _event(data: bytes) -> None:
    said = document(data)
    parse(data if said is None else canonical(said))


def _folded(data: bytes) -> None:
    fold(_said(data))


def _served(data: bytes) -> None:
    serves(_said(data))


def _drifted(data: bytes) -> None:
    events = _said(data)
    drift_told(events, "r1")
    standing = watched(events, DriftStanding(release="r1", watched=_KEY))
    assert standing.value >= 0.0
    assert isinstance(standing.proven, str)


def _leased(data: bytes) -> None:
    term = lease.LeaseTerm()
    for event in _said(data):
        term = term.after(event)
        record = StoredObject(data.partition(b"\n")[0], "1", 3.0)
        lease.standing(term, record)


def _released(data: bytes) -> None:
    store: Any = _Store(data)
    released(store, CHAIN, hashlib.sha256(data).hexdigest())


def _proven(data: bytes) -> None:
    lines = data.split(b"\n")
    prove(CHAIN, "prod", [(key(CHAIN, number), line) for number, line in enumerate(lines, 1)])
    bundle.unpacked(CHAIN, 1, b"\n".join(lines * (bundle.EVENTS // len(lines) + 1)))


def _lines(*kinds: str) -> bytes:
    return b"\n".join(line for line, event in zip(STORED, EVENTS, strict=True) if not kinds or event.kind in kinds)


_ATTESTED = attestation.document(environment="prod", actor="a", commit="", began=TIME, ended=TIME, versions={}, results=())
_LEASE = {"kind": "lease", "body": {"holder": "a", "until": "2026-11-21T12:01:00.000Z"}}
_WINDOWS = [{"start": 1_763_726_400.0, "cells": {"size": "0123ABV"}}]
_KEY = "0" * 16
_WATCHED = {"release": "r1", "watched": _KEY, "rhythm": "day", "seed": 7, "until": 1_763_730_000.0}
_EDGES = {"size": [float(edge) for edge in range(31)]}
_REFERENCE = {
    "kind": "reference-taken",
    "body": {**_WATCHED, "edges": _EDGES, "cutting": {"size": [1] * (len(_EDGES["size"]) + 1)}, "windows": _WINDOWS},
}
_COUNTED = {"kind": "values-counted", "body": {**_WATCHED, "windows": _WINDOWS}}
_NEVER = {"kind": "values-counted", "body": {**_WATCHED, "windows": [{"start": 1e300, "cells": {"size": "0"}}]}}
_UNCUT = {"kind": "reference-taken", "body": {**_WATCHED, "edges": {"size": []}, "windows": _WINDOWS}}
_RECORD = {"holder": "a", "number": 1, "seconds": 60.0, "renewed": TIME, "count": 1}

PARSERS = (
    FuzzedParser(
        name="ledger-event", rooms=("headway/ledger/events.py",), read=_event, refuses=(ValueError,), seeds=(STORED[0], STORED[1])
    ),
    FuzzedParser(
        name="ledger-chain",
        rooms=("headway/ledger/proof.py", "headway/ledger/bundle.py", "headway/ledger/chain.py"),
        read=_proven,
        seeds=(b"\n".join(STORED[:4]),),
    ),
    FuzzedParser(
        name="ledger-rollout",
        rooms=("headway/release/driver/rollout_state.py", "headway/release/plan.py"),
        read=_folded,
        refuses=(UserError,),
        seeds=(_lines(),),
    ),
    FuzzedParser(
        name="ledger-division",
        rooms=("headway/ledger/serving.py", "headway/ledger/traffic_split.py"),
        read=_served,
        refuses=(UserError,),
        seeds=(_lines("adopted", "started", "intended", "ended"),),
    ),
    FuzzedParser(
        name="ledger-drift",
        rooms=("headway/release/evaluation/watched.py",),
        read=_drifted,
        refuses=(UserError,),
        seeds=tuple(b"\n".join(texts(*each)) for each in ((_REFERENCE, _COUNTED), (_REFERENCE, _NEVER), (_UNCUT, _COUNTED))),
    ),
    FuzzedParser(
        name="ledger-lease",
        rooms=("headway/ledger/lease.py",),
        read=_leased,
        refuses=(UserError,),
        seeds=(b"\n".join(texts(_RECORD, _LEASE, {"kind": "lease-released", "body": {}})),),
    ),
    FuzzedParser(
        name="ledger-release",
        rooms=("headway/ledger/serving.py", "headway/contract/released.py"),
        read=_released,
        refuses=(UserError,),
        seeds=texts({"contract": DEFECTS}),
    ),
    FuzzedParser(
        name="verification",
        rooms=("headway/verify/attestation.py",),
        read=lambda data: attestation.read(data, "x.json"),
        refuses=(UserError,),
        seeds=texts(_ATTESTED, {"kind": attestation.KIND, "digest": "x", "n": 1}),
    ),
)
