"""The same adversary on chains of evaluations and of drift: their loops believe what the last event's hash proves, or refuse.

What is believed is then folded as a loop folds it, by whoever read it before and by whoever reads it for the first time.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from hypothesis import settings
from hypothesis.stateful import initialize, invariant, rule

from headway.ledger.chain import Ledger, LostError
from headway.ledger.events import ACCEPTED, BOUND, Event
from headway.ledger.reading import verify
from headway.ledger.serving import ADOPTED, ENDED, INTENDED, STARTED
from headway.problem import UserError
from headway.release.evaluation.standing import EvaluationEvent, evaluated
from headway.release.evaluation.watched import DriftEvent, DriftStanding, drift_told, watched
from tests.unit.ledger.test_adversary import CHAIN, ENVIRONMENT, OTHER, Attacked

HELD = {"holdout": "h", "accepted": {"all": 0.02}}
WATCHED = {"watched": "w", "seed": 1, "until": 7200.0, "rhythm": "none"}
ROUNDS: dict[str, tuple[str, dict[str, Any]]] = {
    ADOPTED: (EvaluationEvent.ROUND, {**HELD, "answers": {"all": "0" * 40}, "silent": 0}),
    STARTED: (EvaluationEvent.ROUND, {**HELD, "answers": {"all": "1" * 9}, "silent": 2}),
    INTENDED: (EvaluationEvent.LOSS, {**HELD, "to": {"release": "r1", "digest": "0" * 64}, "reason": "worse"}),
    ENDED: (EvaluationEvent.BACK, {**HELD, "to": "r1", "outcome": "promoted", "serves": "r1"}),
    "asked": (ACCEPTED, {"reason": "restored"}),
}
DRIFTS: dict[str, tuple[str, dict[str, Any]]] = {
    ADOPTED: (DriftEvent.REFERENCE, {**WATCHED, "edges": {"n": [1.0, 2.0]}, "cutting": {"n": "010"}, "windows": []}),
    STARTED: (DriftEvent.COUNTED, {**WATCHED, "windows": [{"start": 3600.0, "cells": {}}]}),
    INTENDED: (DriftEvent.DRIFTED, {**WATCHED, "reason": "longer"}),
    ENDED: (DriftEvent.ANEW, {**WATCHED, "since": 3600.0}),
    "asked": (ACCEPTED, {"reason": "restored"}),
}


class AttackedRounds(Attacked):
    kinds = ROUNDS

    @classmethod
    def words(cls, kind: str, release: str) -> dict[str, Any]:  # type: ignore[override]
        if kind == BOUND:
            return {"kind": BOUND, "body": {"service": OTHER, "environment": ENVIRONMENT}}
        named, rest = cls.kinds[kind]
        return {"kind": str(named), "body": {"release": release or "r0", **rest}}

    @staticmethod
    def believe(events: Sequence[Event]) -> None:
        """Raises UserError for what no loop writes, and nothing else."""
        half = len(events) // 2
        assert repr(evaluated(events[half:], evaluated(events[:half]))) == repr(evaluated(events))

    @initialize()
    def begin(self) -> None:
        super().begin()
        self.loop = Ledger(self.store, CHAIN, ENVIRONMENT, "loop", lambda: self.now)

    @rule()
    def the_loop_starts_anew(self) -> None:
        self.loop = Ledger(self.store, CHAIN, ENVIRONMENT, "loop", lambda: self.now)

    @rule()
    def the_loop_writes_a_round(self) -> None:
        with suppress(UserError, LostError):
            self.loop.read()
            self.loop.append(**self.words(ADOPTED, "r0"))

    @invariant()
    def the_planner_obeys_the_proven_chain_or_refuses(self) -> None:
        """Here the loop is who obeys."""
        proven = self.proven_by_the_last_hash()
        fresh = Ledger(self.store, CHAIN, ENVIRONMENT, "another", lambda: self.now)
        try:
            events = fresh.read()
        except UserError as refused:
            assert all(sentence.endswith(".") for sentence in refused.problems[0].sentences)
            assert verify(self.store, CHAIN, ENVIRONMENT) or self.foreign(proven), "a sound chain was refused"
            return
        assert proven is not None, "the loop believed objects that are no chain"
        assert list(events) == proven
        with suppress(UserError):
            seen = list(self.loop.look())
            assert seen == proven, "who looks again believes something else"
        with suppress(UserError):
            self.believe(proven)

    @staticmethod
    def foreign(proven: list[Event] | None) -> bool:
        return proven is None


class AttackedDrift(AttackedRounds):
    kinds = DRIFTS

    @staticmethod
    def believe(events: Sequence[Event]) -> None:
        new, half = DriftStanding(release="r0", watched="w"), len(events) // 2
        assert repr(watched(events[half:], watched(events[:half], new))) == repr(watched(events, new))
        drift_told(events, "r0")


SIEGES = int(os.environ.get("HEADWAY_SIEGES", "30"))
TestAttackedRounds = AttackedRounds.TestCase
TestAttackedDrift = AttackedDrift.TestCase
TestAttackedRounds.settings = TestAttackedDrift.settings = settings(max_examples=SIEGES, stateful_step_count=20, deadline=None)
