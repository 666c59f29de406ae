"""Evidence from one latency histogram: that the canary is slower than tolerated, and that it is not slower than the step's margin.

Counts above edges are compared, never interpolated quantiles. One process for each edge and class and one for each edge over all classes;
their mean is one e-process, so no alpha is spent on choosing. Edges are chosen once, from the control's past, and never again.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headway.release.earlier_gates.gate_5d5926b96a39.evidence import Flags, Mixture, Proof, TickStake, mean_exp, ratio_log
from headway.release.earlier_gates.gate_5d5926b96a39.minutes import BadMinutes, Recent
from headway.release.earlier_gates.gate_5d5926b96a39.noise import Noise
from headway.release.earlier_gates.gate_5d5926b96a39.policy import GatePolicy
from headway.release.earlier_gates.gate_5d5926b96a39.proof import TailProof
from headway.release.earlier_gates.gate_5d5926b96a39.state import Stateful
from headway.release.earlier_gates.gate_5d5926b96a39.tail import ControlHistogram, LatencyTail
from headway.release.earlier_gates.gate_5d5926b96a39.tick import Bools, Floats, Ints, over_classes
from headway.release.earlier_gates.gate_5d5926b96a39.usual import LoadEffect

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
_GROSS = 2
"""From this alternative on a slow-down is one that may show in a minute."""
_OF_MINUTES = 0.25
"""Share of the evidence that is about bad minutes as such."""
_FIRST_REQUESTS, _CLASS_REQUESTS = 200.0, 50.0
"""Requests of all classes, and of a class, that must be known before its edges are chosen."""
_ASSUMED_NOISE, _ASSUMED_DRIFT = 0.03, 0.15
"""Standard deviation of an arm's latency level from tick to tick, assumed until the baseline shows it; and of a service's from hour to hour,
where the past stands in for the control."""


BadOf = tuple[Floats, Floats]
"""Requests of an arm above each edge, and all of them, by class."""


class TailNow(NamedTuple):
    """What is known of the stable version's tail before a tick."""

    masses: Floats
    quantiles: Floats


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
        """For the tightest margin, over the whole release, so that a lucky start does not settle it; and anew over the bake."""
        self.bad_minutes = BadMinutes(rollouts)
        self.recent = Recent((len(edges), len(_SLOWDOWNS), rollouts))
        self.load = LoadEffect(shape, rollouts, tick_minutes)
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
        tail = self.tail
        bad, bad_same, bad_control = (tail.counts(of) for of in (canary, same, control))
        n, n_same, n_control = (above[:, :1] + of[:, :1] for above, of in ((bad, canary), (bad_same, same), (bad_control, control)))
        masses = tail.masses(self.memory.buckets)
        known = TailNow(masses, tail.quantiles(masses))
        self.load.remember(masses, at.baking)
        past, unlike = (self.load.masses * n, n), self._unlike(at)
        bad_control, n_control = (np.where(at.by_history, of, now) for of, now in zip(past, (bad_control, n_control), strict=True))
        tolerated = self._slower(known, self._policy.latency)
        null = np.maximum(tolerated, _LEAST_RATIO)
        power = self._power(known, tolerated, n, n_control, at.by_history)
        together = np.empty_like(self.recent.logs)
        for place, (multiple, factor) in enumerate(zip(_SLOWDOWNS, _FACTORS, strict=True)):
            alternative = np.maximum(self._slower(known, self._policy.latency * multiple), null * factor)
            logs = np.where(self.chosen, power * ratio_log(bad, bad_control, n, n_control, null, alternative), 0.0)
            self.by_class.multiply(place, logs, at.stake, at.largest, at.worth)
            together[:, place] = over_classes(logs)
            self.together.multiply(place, together[:, place], at.stake, at.largest, at.worth)
        most = np.maximum(tail.bound(masses, self._policy.latency), null)
        for place, factor in enumerate(_BEYOND_BOUND):
            logs = np.where(self.chosen, power * ratio_log(bad, bad_control, n, n_control, most, most * factor), 0.0)
            self.bounded.multiply(place, over_classes(logs), at.stake, at.largest, at.worth)
        self.recent.restart(unlike)
        self._judge_minute(together, at, at.counts & ~unlike)
        arms: list[BadOf] = [(bad_control, n_control), (bad_same, n_same)]
        asked_of_past = unlike | at.by_history
        if asked_of_past.any():
            arms = [(np.where(asked_of_past, past[0], above), np.where(asked_of_past, past[1], of)) for above, of in arms]
            power = self._power(known, tolerated, n, arms[0][1], asked_of_past)
        self._prove(known, power, (bad, n), arms, at)
        held_back = at.baking & ~at.by_history & (at.stake >= 0)
        if held_back.any():
            self.load.observe((bad_control, n_control), (bad, n), held_back)

    def _unlike(self, at: TickStake) -> Flags:
        """Where the control of the bake is known to be faster for want of load, as of the ticks before."""
        return at.baking & ~at.by_history & self.load.unlike(self.tail) if at.baking.any() else at.baking

    def _power(self, known: TailNow, tolerated: Floats, n: Floats, n_control: Floats, by_past: Flags) -> Floats:
        """What evidence is raised to, for the noise between arms."""
        if not self._policy.tempered:
            return np.ones_like(tolerated)
        slope = np.log(tolerated) / np.log1p(self._policy.latency)
        assumed = 2.0 * (slope * np.where(by_past, _ASSUMED_DRIFT, _ASSUMED_NOISE)) ** 2
        return 1.0 / np.maximum(self.noise.phi(known.masses, n, n_control, assumed), 1.0)

    def _prove(self, known: TailNow, power: Floats, canary: BadOf, arms: Sequence[BadOf], at: TickStake) -> None:
        """Against the control, and against all arms of the stable version."""
        pooled = self.tail.masses(over_classes(self.memory.buckets)[None])[0]
        whole = self._margin(known, min(self._margins))
        ruled_out = whole
        for place in np.unique(at.stage[at.counts & ~at.baking]):
            ruled_out = np.where(at.stage == place, self._margin(known, self._margins[place]), ruled_out)
        slower = [self._slower(known, hope) for hope in self._hopes]
        bad, n = canary
        for proof, margin in ((self.here, ruled_out), (self.lasting, whole)):
            proof.begin(pooled, at.counts)
            against_control, against_stable = (
                [over_classes(power * ratio_log(bad, of, n, n_of, margin, np.minimum(hoped, margin))) for hoped in slower]
                for of, n_of in arms
            )
            proof.multiply(against_control, against_stable, at)

    def _slower(self, known: TailNow, slowdown: float) -> Floats:
        return self.tail.ratio(known.quantiles, known.masses, slowdown)

    def _judge_minute(self, logs: Floats, at: TickStake, recent: Bools) -> None:
        """The tick by itself, by (edges, alternatives, rollouts) of all classes together: without the edge that says most, because a peak
        of the histogram may lie just below it."""
        anywhere: Bools = np.logical_or.reduce(self.chosen, axis=0)
        self.recent.add(logs, recent)
        values = np.where(anywhere, mean_exp(logs[:, _GROSS:]), 0.0)
        value = (over_classes(values) - values.max(axis=0)) / np.maximum(over_classes(anywhere.astype(np.float64)) - 1, 1.0)
        self.bad_minutes.bet(value, np.where(at.young, -1.0, at.stake), at.largest)

    def _margin(self, known: TailNow, slowdown: float) -> Floats:
        """The ratio that rules out a slow-down, by class and edge."""
        margin = self._slower(known, slowdown)
        return np.where(margin < 1 + slowdown, 1 + _INSENSITIVE_MARGIN * slowdown, margin)

    def restart_proof(self, where: Bools, baking: Bools) -> None:
        """Forget what was proven at the last weight; where the bake begins, all of it."""
        self.here.restart(where)
        self.lasting.restart(where & baking)
        self.recent.restart(where)

    def most_evidence(self, bound: float) -> Floats:
        """How much of the evidence counts in the bake, whose control has less load."""
        return self.load.most_evidence(self.tail, self.chosen, self._policy.latency, bound)

    def recent_evidence(self) -> Floats:
        """Of the latest minutes, against the canary; may hold it, and never rolls it back."""
        anywhere: Bools = np.logical_or.reduce(self.chosen, axis=0)
        edges = np.maximum(over_classes(anywhere.astype(np.float64)), 1.0)
        return over_classes(np.where(anywhere, mean_exp(self.recent.logs), 0.0)) / edges

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
        return (1 - _OF_MINUTES) * np.where(np.isfinite(least), least, 0.0) + _OF_MINUTES * self.bad_minutes.value()

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

    def proven(self, stage: Ints, baking: Bools) -> Floats:
        """For the canary, as an e-value; 0 where nothing is known.

        Copies must show it at every edge. What a weight has left to find is that users' load slows the version as a whole. Before full
        traffic, all that it answered must show it at every edge again; and in the bake, all that it answered since.
        """
        here, last = self.here.overall(), stage == len(self._margins) - 1
        proven = np.where(self._copies[stage], self.here.everywhere(), here)
        proven = np.where(last & ~self._copies[stage], np.minimum(here, self.lasting.everywhere()), proven)
        proven = np.where(baking, self.lasting.everywhere(), proven)
        return np.where(self.decided, proven, 0.0)

    def remember(self, stable: Floats, baseline: Floats) -> None:
        """Add the control's counts of a judged tick to what is known, and what the two arms of one version differed by."""
        bad, bad_stable = self.tail.counts(baseline), self.tail.counts(stable)
        self.noise.learn(bad, bad[:, :1] + baseline[:, :1], bad_stable, bad_stable[:, :1] + stable[:, :1])
        self.memory.remember(stable + baseline)
