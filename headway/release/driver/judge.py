"""The gate of one release, fed from the ledger: raw counters in, a decision as plain data out.

Everything it knows comes from recorded events, so a runner that takes over, and anyone who verifies, gets the same
decisions bit for bit. A decision counts only once it is written. `decide` therefore leaves the gate as it was; `follow`
moves it, for every event alike.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from headway.contract.rollout import OnInconclusive
from headway.ledger.events import Event
from headway.release import gate
from headway.release.driver.event_kinds import EventKind, OperatorRequest, nothing_read
from headway.release.earlier_gates import kept_gate
from headway.release.evidence import reading
from headway.release.gate import Counts, Decision, Gate, GatePolicy, Phase, Reason, Tick, Verdict
from headway.release.gate.policy import FULL_WEIGHT
from headway.release.gate.predecessors import SAME_FIGURES

_PHASES = {Phase.RELEASING: "releasing", Phase.BAKING: "baking", Phase.DONE: "done", Phase.ROLLED_BACK: "rolled back"}


class CounterReader(Protocol):
    """How raw counters are read: pure, so that what is kept in the ledger says the same for ever."""

    def edges(self, raw: Mapping[str, Any]) -> Mapping[str, Sequence[float]]:
        """Upper edges of each histogram."""
        ...

    def classes(self, raw: Mapping[str, Any]) -> Sequence[str]: ...

    def learnt(self, raw: Mapping[str, Any]) -> Counts:
        """The stable version's counts before the release."""
        ...

    def tick(self, raw: Mapping[str, Any], *, frozen: bool) -> Tick: ...


def policy_document(policy: GatePolicy) -> dict[str, Any]:
    """All numbers of the gate, so that a later Headway with other defaults still decides this release as it was begun."""
    return {**asdict(policy), "weights": list(policy.weights), "on_inconclusive": policy.on_inconclusive.value}


def carried_over(document: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of another gate's policy that this gate knows; what it has besides is as it is by default."""
    known = {each.name for each in fields(GatePolicy)}
    # A plan from before there was a share to hold back gives the new version everything.
    return policy_document(_policy_of({"held_back": 0.0, **{name: value for name, value in document.items() if name in known}}))


def _policy_of(document: Mapping[str, Any], made_by: ModuleType = gate) -> Any:
    """The numbers as a policy of the gate that they were written for."""
    numbers: dict[str, Any] = {
        **document,
        "weights": tuple(document["weights"]),
        "on_inconclusive": OnInconclusive(document["on_inconclusive"]),
    }
    return made_by.GatePolicy(**numbers)


@cache
def gate_version() -> str:
    """Which gate this is: a digest of its sources, and of how it reads counts. Another one may decide otherwise on the
    same counts; `decided_by` knows those that are kept."""
    sources = [*sorted(Path(gate.__file__).parent.glob("*.py")), Path(reading.__file__)]
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]


def decided_by(version: str) -> ModuleType | None:
    """The gate that gives the figures of the gate of that version: this one, or one that is kept of those before it; None
    where Headway has none."""
    return gate if version == gate_version() or version in SAME_FIGURES else kept_gate(version)


def first_decision(policy: GatePolicy) -> dict[str, Any]:
    """Where a gate stands that has seen nothing."""
    return described(Gate(policy, (1.0, 2.0)).start(), policy)


class RolloutJudge:
    """One release's gate, of the version that the release began with, or that a person handed it to."""

    def __init__(self, made_by: ModuleType, started: Mapping[str, Any], policy: Mapping[str, Any], counts: CounterReader) -> None:
        self._made_by, self._policy = made_by, _policy_of(policy, made_by)
        self._tick_seconds = float(started["tick_seconds"])
        self._reading = counts
        self._gate: Gate | None = None

    @classmethod
    def of(cls, events: Sequence[Event], counts: CounterReader) -> "RolloutJudge | None":
        """The judge of the release that the first of `events` begins, after all of them; None where a gate decides it
        that Headway does not have."""
        judge: RolloutJudge | None = None
        started = events[0].body
        for place, event in enumerate(events):
            if event.kind in (EventKind.STARTED, EventKind.REGATED):
                made_by = decided_by(event.body["gate"])
                judge = None
                if made_by:
                    judge = cls(made_by, started, event.body["policy"], counts)
                    for before in events[:place]:
                        judge.follow(before)
            elif judge:
                judge.follow(event)
        return judge

    def decide(self, raw: Mapping[str, Any], *, frozen: bool) -> dict[str, Any]:
        """What the gate says to this tick."""
        judged = self._ready()
        kept = judged.keep()
        decision = self._told(raw, frozen=frozen)
        judged.resume(kept)
        return decision

    def follow(self, event: Event) -> dict[str, Any] | None:
        """Take in what was recorded; answers the decision on a tick."""
        body = event.body
        if event.kind == EventKind.LEARNED:
            raw = body["raw"]
            if nothing_read(raw):
                return None
            made: Gate = self._made_by.Gate(
                self._policy, self._reading.edges(raw), self._reading.classes(raw), tick_seconds=self._tick_seconds
            )
            made.learn(self._reading.learnt(raw))
            self._gate = made
        elif event.kind == EventKind.OBSERVED:
            return self._told(body["raw"], frozen=body["frozen"])
        elif event.kind == EventKind.ASKED and body["wish"] == OperatorRequest.PROMOTE and self._gate is not None:
            self._gate.promote()
        return None

    def _told(self, raw: Mapping[str, Any], *, frozen: bool) -> dict[str, Any]:
        """What the gate says, with the name of the replica that it speaks of, which only the counters know."""
        decision = described(self._ready().observe(self._reading.tick(raw, frozen=frozen)), self._policy)
        if decision["reason"] == Reason.ONE_REPLICA.name:
            decision["sentence"] = " ".join(filter(None, (decision["sentence"], reading.slowest_replica(raw))))
        return decision

    def _ready(self) -> Gate:
        if self._gate is None:
            raise ValueError("no event says what the stable version did before; nothing can be compared with it")
        return self._gate


def described(decision: Decision, policy: GatePolicy) -> dict[str, Any]:
    """A decision on one release as JSON can hold it; what is no number is left out as null. It may be a kept gate's."""
    phase, stage = Phase(int(decision.phase)), int(decision.stage)
    at = policy.stages[stage]
    weight = float(decision.weight)
    bake = f"{weight:.0%} while it bakes"
    where = at.name if phase is Phase.RELEASING else bake if phase is Phase.BAKING else _PHASES[phase]
    return {
        "verdict": Verdict(int(decision.verdict)).name,
        "reason": Reason(int(decision.reason)).name,
        "phase": _PHASES[phase],
        "stage": stage,
        "where": "all traffic" if weight == FULL_WEIGHT else where,
        "weight": weight,
        "baseline_weight": float(decision.baseline_weight),
        "mirror": float(decision.mirror),
        "counted": bool(decision.counted),
        "inconclusive": bool(decision.inconclusive),
        "unproven": int(decision.unproven),
        **({"better": bool(decision.better)} if policy.trade_gain is not None else {}),
        "signals": {
            name: {
                "verdict": Verdict(int(signal.verdict)).name,
                "evidence": _number(signal.evidence),
                "bound": _number(signal.bound),
                "proof": _number(signal.proof),
                "proof_bound": _number(signal.proof_bound),
            }
            for name, signal in sorted(decision.signals.items())
        },
        "sentence": decision.sentence(policy),
    }


def _number(value: Any) -> float | str | None:
    number = float(np.asarray(value))
    if math.isnan(number):
        return None
    return number if math.isfinite(number) else str(number)
