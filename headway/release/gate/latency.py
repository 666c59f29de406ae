"""Evidence from one latency histogram: that the canary is slower than tolerated, and that it is not slower than the step's margin.

Counts above edges are compared, never interpolated quantiles. One process for each edge and class and one for each edge over all classes;
their mean is one e-process, so no alpha is spent on choosing. The trap: edges are chosen once, from the control's past, and never again.
"""

from collections.abc import Sequence

import numpy as np

from headway.release.gate.evidence import At, Mixture, Proof, ratio_log
from headway.release.gate.noise import Noise
from headway.release.gate.policy import GatePolicy
from headway.release.gate.state import Kept
from headway.release.gate.tail import Memory, Tail
from headway.release.gate.tick import Bools, Floats, over_classes

_SLOWDOWNS = (2.0, 3.5, 6.0, 10.0, 20.0)
"""Alternatives, as multiples of the tolerated slow-down."""
_FACTORS = (1.15, 1.4, 2.0, 3.0, 5.0)
"""Least factor between an alternative's ratio and the tolerated one."""
_LEAST_RATIO = 1.15
"""Tolerated at every edge: one in a gap of the distribution hardly moves with a slow-down, and its counts still vary."""
_INSENSITIVE_MARGIN = 5.0
"""Where a slow-down by x makes the tail grow by less than x, the edge lies in such a gap, and 1 + 5x on the tail itself is ruled out."""
_JUDGED_MASS = (0.001, 0.5)
"""Tail mass of the edges that are judged."""
_BRACKET = (0.005, 0.20)
"""Pooled tail mass of the edges that must be proven before advancing."""
_NEAREST_MASS = 0.01
_OF_CONTROL = 0.25
"""Share of the proof against the control; the rest is against all that the stable version answered, which is more."""
_FIRST_REQUESTS, _CLASS_REQUESTS = 200.0, 50.0
"""Requests of all classes, and of a class, that must be known before its edges are chosen."""
_ASSUMED_NOISE = 0.03
"""Standard deviation of an arm's latency level from tick to tick, assumed until the baseline shows it."""


class Latency(Kept):
    """One histogram of canary and control."""

    def __init__(
        self, policy: GatePolicy, edges: Sequence[float], classes: int, rollouts: int, tick_minutes: float = 1.0, hoped: float = 0.0
    ) -> None:
        """`hoped`: the slow-down that a version may well have, and that proof is gathered for; above zero for one that buys it."""
        self._hoped = hoped
        self._policy, self.tail = policy, Tail(edges)
        shape = (classes, len(edges))
        self.memory = Memory(classes, len(edges) + 1, rollouts, tick_minutes)
        self.chosen = np.zeros((*shape, rollouts), dtype=bool)
        self.decided = np.zeros(rollouts, dtype=bool)
        self.by_class = Mixture((*shape, len(_SLOWDOWNS), rollouts))
        self.together = Mixture((len(edges), len(_SLOWDOWNS), rollouts))
        self.proofs = {"control": Proof((len(edges), rollouts)), "stable": Proof((len(edges), rollouts))}
        """Against the control, and against all requests that the stable version answered, whose number helps a small canary."""
        self._margins = [stage.latency_margin for stage in policy.stages]
        self._spread = Proof.spread([stage.ticks_at_most for stage in policy.stages])
        self.noise = Noise((*shape, rollouts))

    def choose(self) -> None:
        """Choose the edges of rollouts whose control is known well enough by now."""
        known = self.memory.buckets
        requests = np.stack([over_classes(kind) for kind in known])
        masses = self.tail.masses(known)
        now = ~self.decided & (over_classes(requests) >= _FIRST_REQUESTS)
        fits = (masses >= _JUDGED_MASS[0]) & (masses <= _JUDGED_MASS[1]) & (requests >= _CLASS_REQUESTS)[:, None]
        self.chosen = np.where(now, fits, self.chosen)
        self.decided = self.decided | now

    def compare(self, canary: Floats, control: Floats, same: Floats, at: At) -> None:
        """Judge one tick's buckets of the canary, its control, and all arms of the stable version."""
        tail, policy = self.tail, self._policy
        bad, bad_control, bad_same = tail.counts(canary), tail.counts(control), tail.counts(same)
        n, n_control, n_same = bad[:, :1] + canary[:, :1], bad_control[:, :1] + control[:, :1], bad_same[:, :1] + same[:, :1]
        masses = tail.masses(self.memory.buckets)
        quantiles = tail.quantiles(masses)
        tolerated = tail.ratio(quantiles, masses, policy.latency)
        null = np.maximum(tolerated, _LEAST_RATIO)
        power = np.ones_like(null)
        if policy.tempered:
            slope = np.log(tolerated) / np.log1p(policy.latency)
            assumed = 2.0 * (slope * _ASSUMED_NOISE) ** 2
            power = 1.0 / np.maximum(self.noise.phi(masses, n, n_control, assumed), 1.0)
        for place, (multiple, factor) in enumerate(zip(_SLOWDOWNS, _FACTORS, strict=True)):
            alternative = np.maximum(tail.ratio(quantiles, masses, policy.latency * multiple), null * factor)
            logs = np.where(self.chosen, power * ratio_log(bad, bad_control, n, n_control, null, alternative), 0.0)
            self.by_class.multiply(place, logs, at.stake, at.largest)
            self.together.multiply(place, over_classes(logs), at.stake, at.largest)
        ruled_out = self._ruled_out(quantiles, masses, at)
        hoped = np.minimum(tail.ratio(quantiles, masses, self._hoped), ruled_out) if self._hoped else np.ones_like(ruled_out)
        for name, bad_of, n_of in (("control", bad_control, n_control), ("stable", bad_same, n_same)):
            logs = over_classes(ratio_log(bad, bad_of, n, n_of, ruled_out, hoped))
            self.proofs[name].multiply(logs, at.counts, self._spread[at.stage], at.largest_of_proof)

    def _ruled_out(self, quantiles: Floats, masses: Floats, at: At) -> Floats:
        """The ratio that each rollout's stage must rule out, by class and edge."""
        ruled_out = np.ones_like(masses)
        for place in np.unique(at.stage[at.counts]):
            slowdown = self._margins[place]
            margin = self.tail.ratio(quantiles, masses, slowdown)
            margin = np.where(margin < 1 + slowdown, 1 + _INSENSITIVE_MARGIN * slowdown, margin)
            ruled_out = np.where(at.stage == place, margin, ruled_out)
        return ruled_out

    def restart_proof(self, where: Bools) -> None:
        """Forget what was proven at the last weight."""
        for proof in self.proofs.values():
            proof.restart(where)

    def evidence(self) -> Floats:
        """Against the canary: mean over classes, and all classes together, of the mean over their edges."""
        by_class, together = self.by_class.value(), self.together.value()
        total, groups = np.zeros_like(together[0]), np.zeros_like(together[0])
        anywhere: Bools = np.logical_or.reduce(self.chosen, axis=0)
        parts: list[tuple[Floats, Bools]] = [(together, anywhere), *zip(by_class, self.chosen, strict=True)]
        for wealth, chosen in parts:
            used = chosen.astype(np.float64)
            edges = over_classes(used)
            weighted: Floats = np.multiply(wealth, used)
            total = total + over_classes(weighted) / np.maximum(edges, 1.0)
            groups = groups + (edges > 0)
        return total / np.maximum(groups, 1.0)

    def proven(self) -> Floats:
        """For the canary: the least proof over the edges that bracket the tail, as an e-value; 0 where nothing is known."""
        pooled = self.tail.masses(over_classes(self.memory.buckets)[None])[0]
        bracket = (pooled >= _BRACKET[0]) & (pooled <= _BRACKET[1])
        distance = np.abs(np.log(np.maximum(pooled, 1e-9) / _NEAREST_MASS))
        nearest = distance == distance.min(axis=0)
        wanted = np.where(bracket.any(axis=0), bracket, nearest)
        wealth = _OF_CONTROL * self.proofs["control"].wealth + (1 - _OF_CONTROL) * self.proofs["stable"].wealth
        least = np.where(wanted, wealth, np.inf).min(axis=0)
        return np.where(self.decided, least, 0.0)

    def remember(self, stable: Floats, baseline: Floats) -> None:
        """Add the control's counts of a judged tick to what is known, and what the two arms of one version differed by."""
        bad, bad_stable = self.tail.counts(baseline), self.tail.counts(stable)
        self.noise.learn(bad, bad[:, :1] + baseline[:, :1], bad_stable, bad_stable[:, :1] + stable[:, :1])
        self.memory.remember(stable + baseline)
