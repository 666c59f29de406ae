"""What the gate answers each tick: a verdict for each signal, one for the rollout, the weights to set, and the reason.

NO_DATA is neither failure nor success, and CONTINUE does not mean "almost passed".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, unique

import numpy as np

from headway.release.earlier_gates.gate_fc4f452ae5f1.policy import GatePolicy
from headway.release.earlier_gates.gate_fc4f452ae5f1.reasons import SENTENCES, Reason
from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import Bools, Floats, Ints


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


@dataclass(frozen=True, kw_only=True)
class SignalResult:
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
    signals: Mapping[str, SignalResult]

    def sentence(self, policy: GatePolicy, place: int | None = None) -> str:
        """The decision on one rollout, `place` in the batch, in plain words."""
        one = () if place is None else place
        reason, phase, stage = Reason(int(self.reason[one])), Phase(int(self.phase[one])), policy.stages[int(self.stage[one])]
        where = stage.name if phase is Phase.RELEASING else phase.name.lower().replace("_", " ")
        parts = [f"{SENTENCES[reason]} Now: {where}."]
        for name, signal in self.signals.items():
            verdict = Verdict(int(signal.verdict[one])).name.replace("_", " ").lower()
            parts.append(f"{name}: {verdict} (evidence against {float(signal.evidence[one]):.3g} of {signal.bound:.0f})")
        return " ".join([parts[0], "; ".join(parts[1:])]) + "."


def verdicts(failed: Bools, unknown: Bools, passed: Bools) -> Ints:
    """FAIL before NO_DATA before PASS before CONTINUE."""
    known = np.where(passed, int(Verdict.PASS), int(Verdict.CONTINUE))
    return np.where(failed, int(Verdict.FAIL), np.where(unknown, int(Verdict.NO_DATA), known))
