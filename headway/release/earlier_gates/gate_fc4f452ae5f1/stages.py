"""The ladder: which stage each rollout is at, how long, and what a verdict does to it.

Its clocks count only ticks in which something could be learnt: blind, idle and settling ticks do not bring a time-out nearer.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from headway.contract.rollout import OnInconclusive
from headway.release.earlier_gates.gate_fc4f452ae5f1.decision import Phase
from headway.release.earlier_gates.gate_fc4f452ae5f1.evidence import ticks_in
from headway.release.earlier_gates.gate_fc4f452ae5f1.policy import FULL_WEIGHT, GatePolicy
from headway.release.earlier_gates.gate_fc4f452ae5f1.reasons import Reason
from headway.release.earlier_gates.gate_fc4f452ae5f1.state import Stateful
from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import Bools, Floats

SUSPICIOUS = 5.0
"""Evidence from which on a rollout gets no more traffic, though it is far from failing."""
_COUNTED_MINUTES_AT_LEAST = 3
"""And as many ticks, at each stage."""
_LATEST_REQUESTS = 600.0
"""In a row without doubt, once the time of the bake is over, with which it ends: what went wrong in its last minute shows in them. A busy
service answers so many in a minute."""


class Move(NamedTuple):
    """What the ladder did in a tick."""

    changed: Bools
    """The weight changed: proofs start anew."""
    failed: Bools
    """The time was over: the rollout is to be rolled back."""
    reasons: Mapping[Reason, Bools]
    """Where each reason holds that the ladder can give. Their order is that of the gate's table."""


class BakeFindings(NamedTuple):
    """What the tick says of versions that bake."""

    suspicious: Bools
    """The latest minutes look bad."""
    controlled: Bools
    """There were requests of the old version to compare with."""
    requests: Floats
    """That the new version answered."""


class Ladder(Stateful):
    """Stages of many rollouts."""

    def __init__(self, policy: GatePolicy, rollouts: int, tick_minutes: float = 1.0) -> None:
        self._counted_at_least = max(_COUNTED_MINUTES_AT_LEAST, ticks_in(_COUNTED_MINUTES_AT_LEAST, tick_minutes))
        self._policy, self._stages = policy, policy.stages
        self._weights = np.asarray([stage.weight for stage in self._stages])
        self._mirrors = np.asarray([stage.mirror for stage in self._stages])
        self._at_least = np.asarray([stage.ticks_at_least for stage in self._stages])
        self._at_most = np.asarray([stage.ticks_at_most for stage in self._stages])
        first = Phase.BAKING if self._stages[0].weight == FULL_WEIGHT else Phase.RELEASING
        self.phase = np.full(rollouts, int(first))
        self.stage = np.zeros(rollouts, dtype=np.int64)
        self.elapsed = np.zeros(rollouts, dtype=np.int64)
        self.ready = np.zeros(rollouts, dtype=np.int64)
        """Ticks since the canary became ready, this one included."""
        self.here = np.zeros(rollouts, dtype=np.int64)
        """Ticks with data at this stage."""
        self.clock = np.zeros(rollouts, dtype=np.int64)
        """Ticks at this stage that could have been evidence."""
        self.counted_here = np.zeros(rollouts, dtype=np.int64)
        self.counted = np.zeros(rollouts, dtype=np.int64)
        self.blind = np.zeros(rollouts, dtype=np.int64)
        self.parked = np.zeros(rollouts, dtype=bool)
        """Without traffic because there was no data at the first stage."""
        self.unproven = np.zeros(rollouts, dtype=np.int64)
        self.inconclusive = np.zeros(rollouts, dtype=bool)
        self.quiet = np.zeros(rollouts)
        """Requests in a row without doubt, since the time of the bake was over."""

    @property
    def releasing(self) -> Bools:
        return self.phase == Phase.RELEASING

    @property
    def baking(self) -> Bools:
        return self.phase == Phase.BAKING

    @property
    def mirroring(self) -> Bools:
        return self.releasing & ~self.parked & (self._mirrors[self.stage] > 0)

    @property
    def step_over(self) -> Bools:
        """Where the time of the step is over."""
        return self.clock >= self._at_most[self.stage]

    def weight(self) -> Floats:
        """Share of users' requests that the canary should have."""
        climbing = np.where(self.parked, 0.0, self._weights[self.stage])
        ended = np.where(self.phase == Phase.DONE, 1.0, 0.0)
        return np.where(self.releasing, climbing, np.where(self.baking, 1.0 - self._policy.held_back, ended))

    def mirror(self) -> Floats:
        return np.where(self.mirroring, self._mirrors[self.stage], 0.0)

    def baseline_weight(self) -> Floats:
        weight = self.weight()
        wanted = self.releasing & (weight > 0) & self._policy.baseline
        return np.where(wanted, np.minimum(weight, 1 - weight), 0.0)

    def tick(self, *, ready: Bools, blind: Bools) -> None:
        """Time passes."""
        self.elapsed = self.elapsed + 1
        self.ready = self.ready + (ready | (self.ready > 0))
        self.blind = np.where(blind, self.blind + 1, 0)
        self.here = self.here + ~blind

    def in_grace(self) -> Bools:
        return self.ready <= self._policy.grace_ticks

    def count(self, clocked: Bools, counted: Bools) -> Bools:
        """Note a tick that could be evidence, and one that is; answers where it is the first of a later stage."""
        self.clock = self.clock + clocked
        first = counted & (self.counted_here == 0)
        self.counted_here = self.counted_here + counted
        self.counted = self.counted + counted
        return first & (self.stage > 0)

    def decide(self, *, passed: Bools, worst: Floats, usable: Bools, frozen: Bools, bake: BakeFindings) -> Move:
        """Advance, hold or give up rollouts that have not failed. `worst`: largest evidence against; `usable`: this tick had data."""
        policy, releasing = self._policy, self.releasing
        last = self.stage == len(self._stages) - 1
        enough = (self.counted_here >= self._counted_at_least) & (self.here >= self._at_least[self.stage])
        enough &= ~last | (self.counted >= policy.counted_ticks_at_least)
        calm = worst < SUSPICIOUS
        proven = releasing & usable & passed & calm & enough & ~frozen
        over = releasing & usable & ~proven & ~frozen & self.step_over & ~(passed & calm)
        self.inconclusive = np.where(usable, over, self.inconclusive) & releasing
        anyway = over & calm & enough & (policy.on_inconclusive is OnInconclusive.ADVANCE)
        given_up = over & (policy.on_inconclusive is OnInconclusive.ROLLBACK)
        late = releasing & (self.elapsed >= policy.ticks_at_most) & ~(proven & last)
        lost = releasing & (self.blind == policy.blind_ticks_at_most + 1)
        forward = (proven | anyway) & ~late
        promoted = forward & last
        baked, abandoned, of_bake = self._bake(passed, worst, usable, bake)
        reasons = {
            Reason.OUT_OF_TIME: late,
            Reason.ROLLED_BACK_INCONCLUSIVE: given_up | abandoned,
            Reason.BLIND_TOO_LONG: lost,
            Reason.PROMOTED: proven & last,
            Reason.PROVEN: proven,
            Reason.ADVANCED_UNPROVEN: anyway,
            Reason.INCONCLUSIVE: self.inconclusive,
            **of_bake,
            Reason.SUSPICIOUS: releasing & ~calm,
            Reason.FROZEN: releasing & passed & frozen,
            Reason.TOO_EARLY: releasing & passed,
        }
        self.unproven = self.unproven + anyway
        self.phase = np.where(promoted, int(Phase.BAKING), np.where(baked, int(Phase.DONE), self.phase))
        back = lost & (self.stage > 0) & ~late
        returned = self.parked & usable
        self.parked = (self.parked & ~usable) | (lost & (self.stage == 0))
        self.stage = self.stage + (forward & ~last) - back
        changed = forward | back | returned | (lost & self.parked)
        self._restart(changed)
        return Move(changed, late | given_up | abandoned, reasons)

    def _bake(self, passed: Bools, worst: Floats, usable: Bools, bake: BakeFindings) -> tuple[Bools, Bools, dict[Reason, Bools]]:
        """Where the bake ends well, where it is given up, and the reasons that it gives."""
        policy, baking = self._policy, self.baking
        over = baking & (self.here >= policy.bake_ticks)
        calm = (worst < SUSPICIOUS) & ~bake.suspicious
        quiet = over & usable & passed & calm
        self.quiet = np.where(quiet, self.quiet + bake.requests, 0.0)
        proven = quiet & (self.quiet >= _LATEST_REQUESTS)
        # Nobody waits for ever for requests that do not come; but what looks bad is not let go while a person can still say so.
        late = over & ~proven & (self.here >= max(policy.bake_ticks_at_most, policy.bake_ticks))
        abandoned = late & (policy.on_inconclusive is OnInconclusive.ROLLBACK)
        let_go = late & ~abandoned & (calm | (self.elapsed >= policy.ticks_at_most))
        return (
            proven | let_go,
            abandoned,
            {
                Reason.BAKED: proven,
                Reason.BAKED_UNPROVEN: let_go,
                Reason.BAKE_UNCONTROLLED: over & ~calm & ~bake.controlled,
                Reason.BAKE_SUSPICIOUS: over & ~calm,
                Reason.BAKE_UNPROVEN: over,
                Reason.BAKING: baking,
            },
        )

    def roll_back(self, where: Bools) -> None:
        """Traffic to zero, for good."""
        self.phase = np.where(where & (self.phase != Phase.DONE), int(Phase.ROLLED_BACK), self.phase)
        self.inconclusive = self.inconclusive & ~where

    def promote(self) -> None:
        """A person decided: all traffic now; while baking, the end of it."""
        releasing, baking = self.releasing, self.phase == Phase.BAKING
        self.phase = np.where(releasing, int(Phase.BAKING), np.where(baking, int(Phase.DONE), self.phase))
        self._restart(releasing)

    def _restart(self, where: Bools) -> None:
        for name in ("here", "clock", "counted_here"):
            setattr(self, name, np.where(where, 0, getattr(self, name)))
        self.inconclusive = self.inconclusive & ~where
