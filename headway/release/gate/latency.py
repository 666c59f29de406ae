"""Evidence from one latency histogram: that the canary is slower than tolerated, and that it is not slower than the step's margin.

Counts above edges are compared, never interpolated quantiles. One process for each edge and class and one for each edge over all classes;
their mean is one e-process, so no alpha is spent on choosing. Edges are chosen once, from the control's past, and never again.
"""

from collections.abc import Sequence

import numpy as np

from headway.release.gate.evidence import Mixture, Proof, TickStake, ratio_log
from headway.release.gate.noise import Noise
from headway.release.gate.policy import GatePolicy
from headway.release.gate.proof import TailProof
from headway.release.gate.state import Stateful
from headway.release.gate.tail import ControlHistogram, LatencyTail
from headway.release.gate.tick import Bools, Floats, Ints, over_classes

_SLOWDOWNS = (2.0, 3.5, 6.0, 10.0, 20.0)
"""Alternatives, as multiples of the tolerated slow-down."""
_FACTORS = (1.15, 1.4, 2.0, 3.0, 5.0)
"""Least factor between an alternative's ratio and the tolerated one."""
_BEYOND_BOUND = (1.4, 3.0)
"""Alternatives, as multiples of the most that a tolerated slow-down can make of the tail."""
_LEAST_RATIO = 1.15
"""Tolerated at every edge: one in a gap of the distribution hardly moves with a slow-down, and its counts still vary."""
_INSENSITIVE_MARGIN = 5.0
"""Where a slow-down by x makes the tail grow by less than x, the edge lies in such a gap, and 1 + 5x on the tail itself is ruled out."""
_JUDGED_MASS = (0.001, 0.5)
"""Tail mass of the edges that are judged."""
_HOPED_BEYOND = 0.10
"""Where more slow-down than this is tolerated, half of the proof is gathered for a version slower by half of what is beyond. Less is hardly
more than the arms' noise, and who bets on it lets versions pass by luck that are slower than tolerated."""
_FIRST_REQUESTS, _CLASS_REQUESTS = 200.0, 50.0
"""Requests of all classes, and of a class, that must be known before its edges are chosen."""
_ASSUMED_NOISE = 0.03
"""Standard deviation of an arm's latency level from tick to tick, assumed until the baseline shows it."""


class Latency(Stateful):
    """One histogram of canary and control."""

    def __init__(
        self, policy: GatePolicy, edges: Sequence[float], classes: int, rollouts: int, tick_minutes: float = 1.0, hoped: float = 0.0
    ) -> None:
        """`hoped`: the slow-down that a version buys, for one that does."""
        slower = (policy.latency - _HOPED_BEYOND) / 2
        hopes = {hoped: 1.0} if hoped else {0.0: 0.5, slower: 0.5} if slower > 0 else {0.0: 1.0}
        self._hopes = tuple(hopes)
        self._policy, self.tail = policy, LatencyTail(edges)
        shape = (classes, len(edges))
        self.memory = ControlHistogram(classes, len(edges) + 1, rollouts, tick_minutes)
        self.chosen = np.zeros((*shape, rollouts), dtype=bool)
        self.decided = np.zeros(rollouts, dtype=bool)
        self.by_class = Mixture((*shape, len(_SLOWDOWNS), rollouts))
        self.together = Mixture((len(edges), len(_SLOWDOWNS), rollouts))
        self.bounded = Mixture((len(edges), len(_BEYOND_BOUND), rollouts))
        """Of all classes, against the most that the tail above an edge can grow, wherever requests lie within its bucket."""
        self._copies = np.asarray([stage.mirror > 0 for stage in policy.stages])
        self._margins = [stage.latency_margin for stage in policy.stages]
        spread = Proof.spread([stage.ticks_at_most for stage in policy.stages])
        self.here = TailProof(len(edges), rollouts, tuple(hopes.values()), spread)
        """For the margin of the stage, begun anew at each."""
        self.lasting = TailProof(len(edges), rollouts, tuple(hopes.values()), spread)
        """For the tightest margin, over the whole rollout, so that a lucky start does not settle it."""
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

    def compare(self, canary: Floats, control: Floats, same: Floats, at: TickStake) -> None:
        """Judge one tick's buckets of the canary, its control, and all arms of the stable version."""
        tail, policy = self.tail, self._policy
        bad, bad_control, bad_same = (tail.counts(canary), tail.counts(control), tail.counts(same))
        n, n_control, n_same = (bad[:, :1] + canary[:, :1], bad_control[:, :1] + control[:, :1], bad_same[:, :1] + same[:, :1])
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
            self.by_class.multiply(place, logs, at.stake, at.largest, at.worth)
            self.together.multiply(place, over_classes(logs), at.stake, at.largest, at.worth)
        most = np.maximum(tail.bound(masses, policy.latency), null)
        for place, factor in enumerate(_BEYOND_BOUND):
            logs = np.where(self.chosen, power * ratio_log(bad, bad_control, n, n_control, most, most * factor), 0.0)
            self.bounded.multiply(place, over_classes(logs), at.stake, at.largest, at.worth)
        pooled = tail.masses(over_classes(self.memory.buckets)[None])[0]
        arms = [(bad_control, n_control), (bad_same, n_same)]
        whole = self._margin(quantiles, masses, min(self._margins))
        ruled_out = whole
        for place in np.unique(at.stage[at.counts]):
            ruled_out = np.where(at.stage == place, self._margin(quantiles, masses, self._margins[place]), ruled_out)
        slower = [tail.ratio(quantiles, masses, hope) for hope in self._hopes]
        for proof, margin in ((self.here, ruled_out), (self.lasting, whole)):
            proof.begin(pooled, at.counts)
            against_control, against_stable = (
                [over_classes(power * ratio_log(bad, of, n, n_of, margin, np.minimum(hoped, margin))) for hoped in slower]
                for of, n_of in arms
            )
            proof.multiply(against_control, against_stable, at.counts, at.stage, at.largest_of_proof)

    def _margin(self, quantiles: Floats, masses: Floats, slowdown: float) -> Floats:
        """The ratio that rules out a slow-down, by class and edge."""
        margin = self.tail.ratio(quantiles, masses, slowdown)
        return np.where(margin < 1 + slowdown, 1 + _INSENSITIVE_MARGIN * slowdown, margin)

    def restart_proof(self, where: Bools) -> None:
        """Forget what was proven at the last weight."""
        self.here.restart(where)

    def evidence(self) -> Floats:
        """Against the canary, though requests may lie anywhere within the bucket below one edge, whichever it is.

        Leaving out an edge, and asking there only for more than the bound, gives an e-process for a histogram whose peak lies just below
        it; the least over edges is one for a peak below any of them.
        """
        wealth, chosen, bounded = *self._groups(), self.bounded.value()
        total, edges = np.zeros_like(wealth), np.zeros_like(wealth)
        for edge in range(len(bounded)):
            others = (np.arange(len(bounded)) != edge).astype(np.float64)[None, :, None]
            total, edges = total + others * wealth[:, edge, None], edges + others * chosen[:, edge, None]
        whole: Bools = np.logical_or.reduce(self.chosen, axis=0)
        without = over_classes(total / np.maximum(edges, 1.0)) + np.where(whole, bounded, 0.0)
        without = without / np.maximum(over_classes((edges > 0).astype(np.float64)) + whole, 1.0)
        least = np.where(whole, without, np.inf).min(axis=0)
        return np.where(np.isfinite(least), least, 0.0)

    def anywhere(self) -> Floats:
        """Against the canary if requests lie evenly within every bucket: mean over classes, and all classes together, of the mean over
        their edges."""
        wealth, chosen = self._groups()
        edges = np.stack([over_classes(group) for group in chosen])
        means = np.stack([over_classes(group) for group in wealth]) / np.maximum(edges, 1.0)
        return over_classes(means) / np.maximum(over_classes((edges > 0).astype(np.float64)), 1.0)

    def _groups(self) -> tuple[Floats, Floats]:
        """Of all classes together, then of each: the evidence by edge, zero where it was not chosen, and which were: 1."""
        whole: Bools = np.logical_or.reduce(self.chosen, axis=0)
        chosen = np.concatenate([whole[None], self.chosen]).astype(np.float64)
        return np.concatenate([self.together.value()[None], self.by_class.value()]) * chosen, chosen

    def proven(self, stage: Ints) -> Floats:
        """For the canary, as an e-value; 0 where nothing is known.

        Copies must show it at every edge. What a weight has left to find is that users' load slows the version as a whole. Before full
        traffic, all that it answered must show it at every edge again.
        """
        here, last = self.here.overall(), stage == len(self._margins) - 1
        proven = np.where(self._copies[stage], self.here.everywhere(), here)
        proven = np.where(last & ~self._copies[stage], np.minimum(here, self.lasting.everywhere()), proven)
        return np.where(self.decided, proven, 0.0)

    def remember(self, stable: Floats, baseline: Floats) -> None:
        """Add the control's counts of a judged tick to what is known, and what the two arms of one version differed by."""
        bad, bad_stable = self.tail.counts(baseline), self.tail.counts(stable)
        self.noise.learn(bad, bad[:, :1] + baseline[:, :1], bad_stable, bad_stable[:, :1] + stable[:, :1])
        self.memory.remember(stable + baseline)
