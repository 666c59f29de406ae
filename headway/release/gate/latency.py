"""Evidence from one latency histogram: that the canary is slower than tolerated, and that it is not slower than the step's margin.

Counts above edges are compared, never interpolated quantiles. One process for each edge and class and one for each edge over all classes;
their mean is one e-process, so no alpha is spent on choosing. The trap: edges are chosen once, from the control's past, and never again.
"""

from collections.abc import Sequence

import numpy as np

from headway.release.gate.evidence import Mixture, ratio_log
from headway.release.gate.noise import Noise
from headway.release.gate.policy import GatePolicy
from headway.release.gate.state import Kept
from headway.release.gate.tail import Memory, Tail
from headway.release.gate.tick import Bools, Floats, over_classes

_SLOWDOWNS = (2.0, 3.5, 6.0, 10.0, 20.0)
"""Alternatives, as multiples of the tolerated slow-down."""
_FACTORS = (1.15, 1.4, 2.0, 3.0, 5.0)
"""Least factor between an alternative's ratio and the tolerated one."""
_INSENSITIVE = 1.15
"""Ratio below which an edge says little about slow-downs: it lies in a gap of the distribution."""
_JUDGED_MASS = (0.001, 0.5)
"""Tail mass of the edges that are judged."""
_BRACKET = (0.005, 0.20)
"""Pooled tail mass of the edges that must be proven before advancing."""
_NEAREST_MASS = 0.01
_FIRST_REQUESTS, _CLASS_REQUESTS = 200.0, 50.0
"""Requests of all classes, and of a class, that must be known before its edges are chosen."""
_ASSUMED_NOISE = 0.03
"""Standard deviation of an arm's latency level from tick to tick, assumed until the baseline shows it."""


class Latency(Kept):
    """One histogram of canary and control."""

    def __init__(self, policy: GatePolicy, edges: Sequence[float], classes: int, rollouts: int) -> None:
        self._policy, self.tail = policy, Tail(edges)
        shape = (classes, len(edges))
        self.memory = Memory(classes, len(edges) + 1, rollouts)
        self.chosen = np.zeros((*shape, rollouts), dtype=bool)
        self.decided = np.zeros(rollouts, dtype=bool)
        self.by_class = Mixture((*shape, len(_SLOWDOWNS), rollouts))
        self.together = Mixture((len(edges), len(_SLOWDOWNS), rollouts))
        self.proof = np.zeros((len(edges), rollouts))
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

    def compare(
        self, canary: Floats, control: Floats, stake: Floats, margins: Sequence[float], stage: np.ndarray, *, tempered: bool
    ) -> None:
        """Judge one tick's buckets; `margins` by stage of the ladder. Changes nothing where the stake is negative."""
        tail = self.tail
        bad, bad_control = tail.counts(canary), tail.counts(control)
        n, n_control = bad[:, :1] + canary[:, :1], bad_control[:, :1] + control[:, :1]
        masses = tail.masses(self.memory.buckets)
        quantiles = tail.quantiles(masses)
        tolerated = tail.ratio(quantiles, masses, self._policy.latency)
        null = np.maximum(tolerated, _INSENSITIVE)
        power = np.ones_like(null)
        if tempered:
            slope = np.log(tolerated) / np.log1p(self._policy.latency)
            assumed = 2.0 * (slope * _ASSUMED_NOISE) ** 2
            power = 1.0 / np.maximum(self.noise.phi(masses, n, n_control, assumed), 1.0)
        for place, (multiple, factor) in enumerate(zip(_SLOWDOWNS, _FACTORS, strict=True)):
            alternative = np.maximum(tail.ratio(quantiles, masses, self._policy.latency * multiple), null * factor)
            logs = power * np.where(self.chosen, ratio_log(bad, bad_control, n, n_control, null, alternative), 0.0)
            self.by_class.multiply(place, logs, stake)
            self.together.multiply(place, over_classes(logs), stake)
        self._prove(bad, bad_control, n, n_control, (quantiles, masses), (margins, stage), stake >= 0)

    def _prove(
        self,
        bad: Floats,
        bad_control: Floats,
        n: Floats,
        n_control: Floats,
        shape: tuple[Floats, Floats],
        asked: tuple[Sequence[float], np.ndarray],
        counts: Bools,
    ) -> None:
        margins, stage = asked
        ruled_out = np.ones_like(shape[1])
        for place in np.unique(stage[counts]):
            margin = self.tail.ratio(*shape, margins[place])
            margin = np.where(margin < _INSENSITIVE, 1 + 4 * margins[place], margin)
            ruled_out = np.where(stage == place, margin, ruled_out)
        logs = over_classes(ratio_log(bad, bad_control, n, n_control, ruled_out, np.ones_like(ruled_out)))
        self.proof = np.where(counts, self.proof + logs, self.proof)

    def restart_proof(self, where: Bools) -> None:
        """Forget what was proven at the last weight."""
        self.proof = np.where(where, 0.0, self.proof)

    def evidence(self) -> Floats:
        """Against the canary: mean over classes, and all classes together, of the mean over their edges."""
        by_class, together = self.by_class.value(), self.together.value()
        total, groups = np.zeros_like(together[0]), np.zeros_like(together[0])
        for wealth, chosen in [(together, self.chosen.any(axis=0)), *zip(by_class, self.chosen, strict=True)]:
            edges = over_classes(chosen.astype(np.float64))
            mean = over_classes(np.where(chosen, wealth, 0.0)) / np.maximum(edges, 1.0)
            total, groups = total + mean, groups + (edges > 0)
        return total / np.maximum(groups, 1.0)

    def proven(self) -> Floats:
        """For the canary: the least proof over the edges that bracket the tail, as an e-value; 0 where nothing is known."""
        pooled = self.tail.masses(over_classes(self.memory.buckets)[None])[0]
        bracket = (pooled >= _BRACKET[0]) & (pooled <= _BRACKET[1])
        distance = np.abs(np.log(np.maximum(pooled, 1e-9) / _NEAREST_MASS))
        nearest = distance == distance.min(axis=0)
        wanted = np.where(bracket.any(axis=0), bracket, nearest)
        least = np.where(wanted, self.proof, np.inf).min(axis=0)
        return np.where(self.decided, np.exp(np.minimum(least, 50.0)), 0.0)

    def remember(self, stable: Floats, baseline: Floats) -> None:
        """Add the control's counts of a judged tick to what is known, and what the two arms of one version differed by."""
        bad, bad_stable = self.tail.counts(baseline), self.tail.counts(stable)
        self.noise.learn(bad, bad[:, :1] + baseline[:, :1], bad_stable, bad_stable[:, :1] + stable[:, :1])
        self.memory.remember(stable + baseline)
