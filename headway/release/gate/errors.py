"""Evidence from failed requests. Healthy is: at most 1.5x the control's errors, or at most 0.2 %; a failure refutes both.

The smaller of two e-processes is one for "either is healthy"; their mean would not be.
"""

import numpy as np

from headway.release.gate.clusters import Clusters
from headway.release.gate.evidence import Mixture, Proof, TickStake, alternatives, mean_exp, ratio_log, share_log, ticks_in
from headway.release.gate.minutes import BadMinutes, Recent
from headway.release.gate.noise import Noise
from headway.release.gate.policy import GatePolicy
from headway.release.gate.state import Stateful
from headway.release.gate.tick import ArmCounts, Bools, Floats, Ints, over_classes

_RATIOS = (5 / 3, 8 / 3, 16 / 3, 40 / 3, 40.0)
"""Alternatives as multiples of the tolerated ratio."""
_RATES = (1.5, 3.0, 7.5, 25.0, 100.0)
"""Alternatives as multiples of the floor."""
_LARGEST_RATE = 0.9
_OF_MINUTES = 0.25
"""Share of the evidence that is about bad minutes as such."""
_ASSUMED_VARIANCE = 0.25
"""Of the log ratio of two arms' error rates from tick to tick (each varies by a third), assumed until the baseline shows it."""
_CANARY, _STABLE, _BASELINE = range(3)
_WIDE_AFTER_MINUTES = 5
"""Counted minutes, and ticks, in the last step before the wide margin alone suffices."""


class Errors(Stateful):
    """Errors of canary and control."""

    def __init__(self, policy: GatePolicy, classes: int, rollouts: int, tick_minutes: float = 1.0) -> None:
        self._policy = policy
        self._wide_after = max(_WIDE_AFTER_MINUTES, ticks_in(_WIDE_AFTER_MINUTES, tick_minutes))
        self.ratio = Mixture((len(_RATIOS), rollouts))
        self.rate = Mixture((len(_RATES), rollouts))
        self.seen_ratio, self.seen_rate = Mixture((len(_RATIOS), rollouts)), Mixture((len(_RATES), rollouts))
        """As if each request failed by itself; may hold the canary, and never rolls it back."""
        self.bad_minutes = {"ratio": BadMinutes(rollouts), "rate": BadMinutes(rollouts)}
        self.recent = Recent((len(_RATES), rollouts))
        """By the rate that is usual for the control: a few held-back requests show no ratio in minutes."""
        self.noise = Noise((classes, rollouts))
        self.clusters = Clusters((3, rollouts), tick_minutes)
        self.known = np.zeros((2, classes, rollouts))
        """Errors and requests of the control, over the rollout."""
        self.wide, self.tight = Proof((rollouts,)), Proof((rollouts,))
        """Begun anew at each weight, and over the whole rollout."""
        self._margins = np.asarray([stage.error_margin for stage in policy.stages])
        self._spread = Proof.spread([stage.ticks_at_most for stage in policy.stages])
        self._last = np.asarray([stage.last for stage in policy.stages])

    def compare(self, canary: ArmCounts, control: ArmCounts, at: TickStake) -> None:
        policy = self._policy
        bad, bad_control, n, n_control = (x[:, None] for x in (canary.errors, control.errors, canary.requests, control.requests))
        null = np.full_like(n, policy.error_ratio)
        logs = ratio_log(bad, bad_control, n, n_control, null, null * alternatives(_RATIOS, 3))
        total, total_bad = canary.total(), canary.total_errors()
        rates = np.minimum(policy.error_floor * alternatives(_RATES, 2), _LARGEST_RATE)
        rate_logs = share_log(total_bad, total, policy.error_floor, rates)
        if policy.tempered:
            share = (self.known[0] + 0.5) / (self.known[1] + 500.0)
            phi = np.maximum(self.noise.phi(share, canary.requests, control.requests, _ASSUMED_VARIANCE), 1.0)[:, None]
            phi_of_rate, size = 1.0 + total * policy.error_floor * _ASSUMED_VARIANCE / 2, self.clusters.size()
            self.seen_ratio.update(over_classes(logs / phi), at.stake, at.largest, at.worth)
            self.seen_rate.update(rate_logs / phi_of_rate, at.stake, at.largest, at.worth)
            logs, rate_logs = logs / np.maximum(phi, size), rate_logs / np.maximum(phi_of_rate, size)
            self.clusters.learn(_CANARY, np.where(at.counts, total_bad, 0.0), np.where(at.counts, total, 0.0))
        ratio_logs = over_classes(logs)
        self.ratio.update(ratio_logs, at.stake, at.largest, at.worth)
        self.rate.update(rate_logs, at.stake, at.largest, at.worth)
        for name, of in (("ratio", ratio_logs), ("rate", rate_logs)):
            self.bad_minutes[name].bet(mean_exp(of), at.stake, at.largest)
        healthy = np.clip(policy.error_ratio * self._usual(), policy.error_floor, _LARGEST_RATE / 2)
        worse = np.minimum(healthy * alternatives(_RATES, 2), _LARGEST_RATE)
        self.recent.add(share_log(total_bad, total, healthy, worse), at.counts)
        self._prove(total_bad, total, at)

    def _prove(self, bad: Floats, total: Floats, at: TickStake) -> None:
        """Rates that this step must rule out follow what is usual for the control, as known before this tick."""
        usual = self._usual()
        margin = np.where(at.baking, self._policy.error_unacceptable, self._margins[at.stage])
        wide = np.minimum(np.maximum(margin, 3 * usual), _LARGEST_RATE)
        hoped = np.maximum(0.1 * wide, np.minimum(0.3 * wide, 0.001))
        tight = np.clip(2.5 * usual, 0.002, wide)
        self.wide.multiply(share_log(bad, total, wide, hoped), at.counts, self._spread[at.stage], at.largest_of_proof, at.kept_proof)
        self.tight.multiply(
            share_log(bad, total, tight, 0.4 * tight), at.counts, self._spread[at.stage], at.largest_of_proof, at.kept_proof
        )

    def _usual(self) -> Floats:
        """The control's error rate, as known before this tick."""
        return (over_classes(self.known[0]) + 0.5) / (over_classes(self.known[1]) + 500.0)

    def restart_proof(self, where: Bools) -> None:
        """Forget what was proven at the last weight."""
        self.wide.restart(where)
        self.recent.restart(where)

    def evidence(self) -> Floats:
        """Against the canary."""
        ratio, rate = (
            (1 - _OF_MINUTES) * of.value() + _OF_MINUTES * self.bad_minutes[name].value()
            for name, of in (("ratio", self.ratio), ("rate", self.rate))
        )
        return np.minimum(ratio, rate)

    def seen_evidence(self) -> Floats:
        """Against the canary as if each request failed by itself; may hold it, and never rolls it back."""
        return np.minimum(self.seen_ratio.value(), self.seen_rate.value())

    def recent_evidence(self) -> Floats:
        """Of the latest minutes, against the canary; may hold it, and never rolls it back."""
        return mean_exp(self.recent.logs)

    def proven(self, stage: Ints, counted: Ints) -> Floats:
        """For the canary: e-value that its error rate is below the step's margin; in the last step at first below the tight one as well."""
        narrow = self._last[stage] & (counted < self._wide_after)
        return np.where(narrow, np.minimum(self.wide.wealth, self.tight.wealth), self.wide.wealth)

    def remember_history(self, stable: ArmCounts) -> None:
        """Take in what the stable version did before the rollout, in how many ticks nobody knows."""
        self.known = self.known + np.stack([stable.errors, stable.requests])

    def remember(self, stable: ArmCounts, baseline: ArmCounts) -> None:
        """Add the control's counts of a judged tick to what is known."""
        self.noise.learn(baseline.errors, baseline.requests, stable.errors, stable.requests)
        self.clusters.fade()
        for place, arm in ((_STABLE, stable), (_BASELINE, baseline)):
            self.clusters.learn(place, arm.total_errors(), arm.total())
        self.known = self.known + np.stack([stable.errors + baseline.errors, stable.requests + baseline.requests])
