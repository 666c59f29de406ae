"""What the gate answers each tick: a verdict for each signal, one for the rollout, the weights to set, and why, in plain words.

The trap: NO_DATA is neither failure nor success, and CONTINUE is not "almost pass".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, unique

import numpy as np

from headway.release.gate.policy import GatePolicy
from headway.release.gate.tick import Bools, Floats, Ints


@unique
class Verdict(IntEnum):
    """Of one signal, or of a rollout, in one tick."""

    NO_DATA = 0
    """Means nothing can be said: weights stay and clocks stop."""
    CONTINUE = 1
    """Means neither shown: stay at this weight."""
    PASS = 2
    """Means a regression beyond this step's margin is ruled out."""
    FAIL = 3
    """Means worse than tolerated: roll back."""


@unique
class Phase(IntEnum):
    """Where a rollout is."""

    RELEASING = 0
    """Mirroring, or at a weight below 100 %."""
    BAKING = 1
    """At 100 %, the old version kept warm."""
    DONE = 2
    ROLLED_BACK = 3


@unique
class Reason(IntEnum):
    """Why this decision; one a tick, the first that applies in the order of `gate.py`."""

    OVER = 0
    UNANSWERED = 1
    CANARY_NOT_SCRAPED = 2
    CONTROL_NOT_SCRAPED = 3
    WRONG_SHARE = 4
    IDLE = 5
    NOT_READY = 6
    GRACE = 7
    SHARE_SETTLING = 8
    BLIND_TOO_LONG = 9
    GATHERING = 10
    SUSPICIOUS = 11
    TOO_EARLY = 12
    SATURATING = 20
    UNANSWERED_GOLDEN = 21
    FROZEN = 13
    INCONCLUSIVE = 14
    PROVEN = 15
    ADVANCED_UNPROVEN = 16
    PROMOTED = 17
    BAKING = 18
    BAKED = 19
    FAILED_LATENCY = 30
    FAILED_ERRORS = 31
    FAILED_CORRECTNESS = 32
    FAILED_MEMORY = 33
    FAILED_QUEUE = 41
    FAILED_COST = 42
    CATASTROPHIC = 34
    NOT_ROUTABLE = 35
    RESTARTS = 36
    GPU = 37
    INVALID_ANSWER = 38
    OUT_OF_TIME = 39
    ROLLED_BACK_INCONCLUSIVE = 40


_WORDS: Mapping[Reason, str] = {
    Reason.OVER: "The rollout is over.",
    Reason.UNANSWERED: "The metrics could not be read in full. Nothing can be said; the weight stays.",
    Reason.CANARY_NOT_SCRAPED: "The new version is not being scraped. Nothing can be said; the weight stays.",
    Reason.CONTROL_NOT_SCRAPED: "There are no metrics of the stable version to compare with. Nothing can be said; the weight stays.",
    Reason.WRONG_SHARE: "The new version does not get the share of requests it should. Nothing is concluded; check routes and stickiness.",
    Reason.IDLE: "There were no requests. The clock stands still.",
    Reason.NOT_READY: "The new version is not ready yet.",
    Reason.GRACE: "The new version has just become ready; its first ticks are no evidence.",
    Reason.SHARE_SETTLING: "The weight was changed and the share of requests has not followed yet; these ticks are no evidence.",
    Reason.BLIND_TOO_LONG: "There has been no data for too long. Traffic goes back to the last weight with evidence.",
    Reason.GATHERING: "The evidence says neither good nor bad yet.",
    Reason.SUSPICIOUS: "There is some evidence against the new version. It gets no more traffic until that is settled.",
    Reason.TOO_EARLY: "All signals pass; the shortest time at this weight is not over.",
    Reason.SATURATING: "At the next weight the new version's GPUs would be busier than 85 %. It gets no more traffic; give it replicas.",
    Reason.UNANSWERED_GOLDEN: "Too few golden answers were compared, or too many differed, for the weight to grow.",
    Reason.FROZEN: "All signals pass; a person holds the weight.",
    Reason.INCONCLUSIVE: "The time of this step is over and the evidence says neither good nor bad. A person may decide; evidence goes on.",
    Reason.PROVEN: "A regression beyond this step's margin is ruled out. Traffic grows.",
    Reason.ADVANCED_UNPROVEN: "The time of this step is over without proof; the policy says to go on.",
    Reason.PROMOTED: "A regression beyond the last margin is ruled out. The new version takes all traffic.",
    Reason.BAKING: "The new version has all traffic; the old one is kept warm.",
    Reason.BAKED: "The new version has kept all traffic for long enough.",
    Reason.FAILED_LATENCY: "Requests are slower than tolerated.",
    Reason.FAILED_ERRORS: "More requests fail than tolerated.",
    Reason.FAILED_CORRECTNESS: "More answers differ from the expected ones than tolerated.",
    Reason.FAILED_MEMORY: "GPU memory is nearly used up, or will be soon.",
    Reason.FAILED_QUEUE: "Requests wait longer in the queue than tolerated.",
    Reason.FAILED_COST: "A request costs more GPU time than tolerated.",
    Reason.CATASTROPHIC: "More than 30 % of the new version's requests failed in one tick, and not those of the stable version.",
    Reason.NOT_ROUTABLE: "The new version is up and should have had 20 requests or more, and got none.",
    Reason.RESTARTS: "Containers of the new version restarted repeatedly, or were killed for memory.",
    Reason.GPU: "A GPU of the new version reported a fatal error.",
    Reason.INVALID_ANSWER: "The new version gave an empty answer, or one that is no number or breaks its schema.",
    Reason.OUT_OF_TIME: "The rollout has taken longer than its policy allows.",
    Reason.ROLLED_BACK_INCONCLUSIVE: "The time of this step is over without proof; the policy says to roll back.",
}


@dataclass(frozen=True, kw_only=True)
class Signal:
    """What one signal says."""

    verdict: Ints
    """Of type Verdict."""
    evidence: Floats
    """Against the new version: an e-value; fails at `bound`."""
    bound: float
    """1 / alpha."""
    proof: Floats
    """For the new version at this weight: an e-value; passes at `proof_bound`. Not-a-number where the signal proves nothing."""
    proof_bound: Floats
    """That of the stage."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Arrays of the gate's `shape`; plain numbers of numpy for a single rollout."""

    verdict: Ints
    """Of type Verdict, over all signals."""
    reason: Ints
    """Of type Reason."""
    phase: Ints
    """Of type Phase."""
    stage: Ints
    """Place in the policy's `stages`, of the next tick."""
    weight: Floats
    """Share of users' requests that the canary gets from now on."""
    baseline_weight: Floats
    """Share that the baseline arm gets from now on; stable has the rest."""
    mirror: Floats
    """Share of requests copied to the canary from now on."""
    counted: Bools
    """Whether this tick was evidence."""
    inconclusive: Bools
    """Whether this step's time is over."""
    unproven: Ints
    """How many steps were passed without proof."""
    better: Bools
    """Whether it was shown to answer better, so that it may be as slow as the trade says."""
    signals: Mapping[str, Signal]

    def sentence(self, policy: GatePolicy, place: int | None = None) -> str:
        """The decision on one rollout, `place` in the batch, in plain words."""
        one = () if place is None else place
        reason, phase, stage = Reason(int(self.reason[one])), Phase(int(self.phase[one])), policy.stages[int(self.stage[one])]
        where = stage.name if phase is Phase.RELEASING else phase.name.lower().replace("_", " ")
        parts = [f"{_WORDS[reason]} Now: {where}."]
        for name, signal in self.signals.items():
            verdict = Verdict(int(signal.verdict[one])).name.replace("_", " ").lower()
            parts.append(f"{name}: {verdict} (evidence against {float(signal.evidence[one]):.3g} of {signal.bound:.0f})")
        return " ".join([parts[0], "; ".join(parts[1:])]) + "."


def any_of(conditions: list[tuple[Bools, Reason]], otherwise: Ints) -> Ints:
    """The reason of the first condition that holds."""
    reason = otherwise
    for holds, code in reversed(conditions):
        reason = np.where(holds, int(code), reason)
    return reason
