"""Evidence from failed requests. Healthy is: at most 1.5x the control's errors, or at most 0.2 %; a failure refutes both.

The trap: the smaller of two e-processes is one for "either is healthy"; their mean would not be.
"""

import numpy as np

from headway.release.gate.evidence import Mixture, alternatives, ratio_log, share_log
from headway.release.gate.noise import Noise
from headway.release.gate.policy import GatePolicy, Stage
from headway.release.gate.state import Kept
from headway.release.gate.tick import Arm, Bools, Floats, over_classes

_RATIOS = (5 / 3, 8 / 3, 16 / 3, 40 / 3, 40.0)
"""Alternatives as multiples of the tolerated ratio."""
_RATES = (1.5, 3.0, 7.5, 25.0, 100.0)
"""Alternatives as multiples of the floor."""
_LARGEST_RATE = 0.9
_ASSUMED_VARIANCE = 0.25
"""Of the log ratio of two arms' error rates from tick to tick (each varies by a third), assumed until the baseline shows it."""
_WIDE_AFTER_TICKS = 10
"""Counted ticks in the last step before the wide margin suffices."""


class Errors(Kept):
    """Errors of canary and control."""

    def __init__(self, policy: GatePolicy, classes: int, rollouts: int) -> None:
        self._policy = policy
        self.ratio = Mixture((len(_RATIOS), rollouts))
        self.rate = Mixture((len(_RATES), rollouts))
        self.noise = Noise((classes, rollouts))
        self.known = np.zeros((2, classes, rollouts))
        """Errors and requests of the control, over the rollout."""
        self.step = np.zeros((4, rollouts))
        """At this weight: errors and requests of the canary, then of the control."""

    def compare(self, canary: Arm, control: Arm, stake: Floats, *, tempered: bool) -> None:
        policy, counts = self._policy, stake >= 0
        bad, bad_control, n, n_control = (x[:, None] for x in (canary.errors, control.errors, canary.requests, control.requests))
        null = np.full_like(n, policy.error_ratio)
        logs = ratio_log(bad, bad_control, n, n_control, null, null * alternatives(_RATIOS, 3))
        total, total_bad = canary.total(), canary.total_errors()
        rates = np.minimum(policy.error_floor * alternatives(_RATES, 2), _LARGEST_RATE)
        rate_logs = share_log(total_bad, total, policy.error_floor, rates)
        if tempered:
            share = (self.known[0] + 0.5) / (self.known[1] + 500.0)
            logs = logs / np.maximum(self.noise.phi(share, canary.requests, control.requests, _ASSUMED_VARIANCE), 1.0)[:, None]
            rate_logs = rate_logs / (1.0 + total * policy.error_floor * _ASSUMED_VARIANCE / 2)
        self.ratio.update(over_classes(logs), stake)
        self.rate.update(rate_logs, stake)
        seen = np.stack([total_bad, total, control.total_errors(), control.total()])
        self.step = np.where(counts, self.step + seen, self.step)

    def restart_proof(self, where: Bools) -> None:
        self.step = np.where(where, 0.0, self.step)

    def evidence(self) -> Floats:
        """Against the canary."""
        return np.minimum(self.ratio.value(), self.rate.value())

    def proven(self, stages: tuple[Stage, ...], stage: np.ndarray, counted: np.ndarray) -> Floats:
        """For the canary: e-value that its error rate is below the step's margin."""
        margins = np.asarray([step.error_margin for step in stages])[stage]
        last = np.asarray([step.last for step in stages])[stage]
        bad, total, bad_control, control = self.step
        usual = (bad_control + 0.5) / (control + 500.0)
        wide = np.minimum(np.maximum(margins, 3 * usual), _LARGEST_RATE)
        hoped = np.maximum(0.1 * wide, np.minimum(0.3 * wide, 0.001))
        tight = np.clip(2.5 * usual, 0.002, wide)
        with_wide, with_tight = share_log(bad, total, wide, hoped), share_log(bad, total, tight, 0.4 * tight)
        best = np.where(last, np.where(counted >= _WIDE_AFTER_TICKS, np.maximum(with_wide, with_tight), with_tight), with_wide)
        return np.exp(np.minimum(best, 50.0))

    def remember(self, stable: Arm, baseline: Arm) -> None:
        """Add the control's counts of a judged tick to what is known."""
        self.noise.learn(baseline.errors, baseline.requests, stable.errors, stable.requests)
        self.known = self.known + np.stack([stable.errors + baseline.errors, stable.requests + baseline.requests])
