"""What a release waits for, tick by tick, by the part of the contract that asks for it."""

from collections.abc import Mapping
from enum import IntEnum, unique
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from headway.release.gate import Decision, GatePolicy, Reason, Verdict

Ints = NDArray[np.int64]


@unique
class WaitingFor(IntEnum):
    """What was missing for the next step."""

    READY = 0
    ROUTE = 1
    REQUESTS = 2
    DATA = 3
    LATENCY = 4
    ERRORS = 5
    BOTH = 6
    ANSWERS = 7
    CALM = 8
    STEP = 9
    FIFTEEN = 10


WORDS: Mapping[WaitingFor, tuple[str, str]] = MappingProxyType(
    {
        WaitingFor.READY: ("the first two minutes of ready replicas", ""),
        WaitingFor.ROUTE: ("a new weight that takes effect", "rollout.weights"),
        WaitingFor.REQUESTS: ("requests, of which there were none", ""),
        WaitingFor.DATA: ("counters that were not scraped, or not of the weight asked for", ""),
        WaitingFor.LATENCY: ("proof that it is not slower", "rollout.tolerances.latency_unacceptable"),
        WaitingFor.ERRORS: ("proof that it does not fail more often", "rollout.tolerances.error_unacceptable"),
        WaitingFor.BOTH: ("both of these proofs", "rollout.tolerances"),
        WaitingFor.ANSWERS: ("answers, GPU time or time in queue", "rollout.tolerances"),
        WaitingFor.CALM: ("evidence against it that went away", "rollout.tolerances.latency"),
        WaitingFor.STEP: ("the shortest time of a step", "rollout.step_at_least"),
        WaitingFor.FIFTEEN: ("three minutes of evidence a step, and fifteen before full traffic", ""),
    }
)
"""In words, and the field of the contract; empty where no field changes it."""
_OF: Mapping[Reason, WaitingFor] = MappingProxyType(
    {
        Reason.NOT_READY: WaitingFor.READY,
        Reason.GRACE: WaitingFor.READY,
        Reason.SHARE_SETTLING: WaitingFor.ROUTE,
        Reason.UNREACHED: WaitingFor.ROUTE,
        Reason.IDLE: WaitingFor.REQUESTS,
        Reason.UNANSWERED: WaitingFor.DATA,
        Reason.CANARY_NOT_SCRAPED: WaitingFor.DATA,
        Reason.CONTROL_NOT_SCRAPED: WaitingFor.DATA,
        Reason.WRONG_SHARE: WaitingFor.DATA,
        Reason.BLIND_TOO_LONG: WaitingFor.DATA,
        Reason.SUSPICIOUS: WaitingFor.CALM,
        Reason.ONE_EDGE: WaitingFor.CALM,
        Reason.TAIL_ABOVE: WaitingFor.CALM,
        Reason.ONE_REPLICA: WaitingFor.CALM,
        Reason.ONE_EPISODE: WaitingFor.CALM,
    }
)
_FINISHED = (Reason.PROVEN, Reason.PROMOTED, Reason.ADVANCED_UNPROVEN)


class WaitedTicks:
    """Counts, for many rehearsals at once, the ticks spent waiting for each thing."""

    def __init__(self, policy: GatePolicy, rehearsals: int) -> None:
        self._at_least = np.asarray([stage.ticks_at_least for stage in policy.stages])
        self._here = np.zeros(rehearsals, dtype=np.int64)
        self._stage = np.zeros(rehearsals, dtype=np.int64)
        self._last = np.zeros(rehearsals, dtype=np.int64)
        self.ticks = np.zeros((rehearsals, len(WaitingFor)))

    def observe(self, decision: Decision, running: NDArray[np.bool_]) -> None:
        """`running`: which rehearsals were not over before this decision."""
        self._here += 1
        early = self._here <= self._at_least[self._stage]
        held = self._held(decision, early)
        finished = np.isin(decision.reason, _FINISHED)
        # The tick that proves a step was the last one spent on what was missing before it.
        self._last = np.where(finished, np.where(early, int(WaitingFor.STEP), self._last), held)
        self.ticks[np.arange(len(held))[running], self._last[running]] += 1
        self._here = np.where(decision.stage != self._stage, 0, self._here)
        self._stage = np.asarray(decision.stage)

    def _held(self, decision: Decision, early: NDArray[np.bool_]) -> Ints:
        late = {name: decision.signals[name].verdict != Verdict.PASS for name in ("latency", "errors")}
        proof = np.where(late["latency"], int(WaitingFor.LATENCY), int(WaitingFor.ANSWERS))
        proof = np.where(late["errors"], np.where(late["latency"], int(WaitingFor.BOTH), int(WaitingFor.ERRORS)), proof)
        held = np.where(decision.reason == Reason.TOO_EARLY, np.where(early, int(WaitingFor.STEP), int(WaitingFor.FIFTEEN)), proof)
        for reason, what in _OF.items():
            held = np.where(decision.reason == reason, int(what), held)
        return held
