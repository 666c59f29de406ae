"""Evidence from one latency histogram: that the canary is slower than tolerated, and that it is not slower than the step's margin.

Counts above edges are compared, never interpolated quantiles. One process for each edge and class and one for each edge over all classes;
their mean is one e-process, so no alpha is spent on choosing. Edges are chosen once, from the control's past, and never again.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headway.release.gate.clusters import Clusters
from headway.release.gate.episodes import EPISODE_MINUTES
from headway.release.gate.evidence import Flags, Mixture, Proof, TickStake, alternatives, mean_exp, ratio_log, ticks_in
from headway.release.gate.minutes import Recent
from headway.release.gate.noise import Noise
from headway.release.gate.policy import GatePolicy
from headway.release.gate.proof import TailProof, TailStanding
from headway.release.gate.replicas import MOST_REPLICAS
from headway.release.gate.slowness import LastingSlowness, Slowness
from headway.release.gate.state import Stateful
from headway.release.gate.tail import ControlHistogram, LatencyTail
from headway.release.gate.tick import Bools, Floats, Ints, over_classes
from headway.release.gate.usual import LoadEffect

_SLOWDOWNS = (2.0, 3.5, 6.0, 10.0, 20.0)
"""Alternatives, as multiples of the tolerated slow-down."""
_FACTORS = (1.15, 1.4, 2.0, 3.0, 5.0)
"""Least factor between an alternative's ratio and the tolerated one."""
_BEYOND_BOUND = (1.4, 3.0)
"""Alternatives, as multiples of the most that a tolerated slow-down can make of the tail."""
_CROSSED = 8
"""Pairs of edges at most; the slowest ones, for that is where a tail shows first."""
_CROSSED_MASS = (0.0005, 0.5)
"""The control's tail mass above the earlier edge of a pair: what fewer requests meet is no matter of the tail that a contract promises."""
_CROSSED_REQUESTS = 3000.0
"""Requests that must be known before pairs are chosen, so that the least mass is one or two of them."""
_BEYOND_CROSSED = (1.4, 3.0, 8.0)
"""Alternatives: how much larger the canary's tail above the later edge is than the control's above the earlier one."""
_STABLE_ARMS = 2
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
_ASSUMED_NOISE, _ASSUMED_DRIFT = 0.03, 0.15
"""Standard deviation of an arm's latency level from tick to tick, assumed until the baseline shows it; and of a service's from hour to hour,
where the past stands in for the control."""
_PROOF_OF_ALL = 100.0
"""E-value that all requests together must reach before full traffic: a version slower than its margin at some edge gets there in one of a
hundred rollouts at most. A weight risks less and asks for less."""


BadOf = tuple[Floats, Floats]
"""Requests of an arm above each edge, and all of them, by class."""


class ArmsOfTick(NamedTuple):
    """Requests of canary and control above each edge, and all of them; and what evidence is raised to."""

    bad: Floats
    n: Floats
    bad_control: Floats
    n_control: Floats
    power: Floats

    def by_alternative(self) -> "ArmsOfTick":
        """With an axis before the last, for alternatives."""
        return ArmsOfTick(*(each[..., None, :] for each in self))

    def log(self, null: Floats, alternative: Floats) -> Floats:
        """Log likelihood ratio by class and edge."""
        return self.power * ratio_log(self.bad, self.bad_control, self.n, self.n_control, null, alternative)

    def excess(self, tolerated: Floats) -> Floats:
        """Requests of the canary above each edge beyond `tolerated` times its part of those of both arms."""
        part = self.n * tolerated / np.maximum(self.n * tolerated + self.n_control, 1e-9)
        return self.power * (self.bad - (self.bad + self.bad_control) * part)


def _shown_by_others(found: Floats, rest: Floats | None, alone: Bools, power: Floats) -> tuple[Floats, Floats]:
    """Raised to `power`, of each class, and of all together: without each replica, on the first axis, and without none; of all where one
    answers alone."""
    found = found * power
    if rest is None:
        return found[None], over_classes(found)[None]
    by_others = np.concatenate([np.where(alone, found, rest * power), found[None]])[:MOST_REPLICAS]
    return by_others, np.stack([over_classes(each) for each in by_others])


def _at(by_edge: Floats, edges: Ints) -> Floats:
    """What is said of these edges, (pairs, rollouts): edges are on the axis before the last."""
    return np.take_along_axis(by_edge, edges.reshape((1,) * (by_edge.ndim - 2) + edges.shape), axis=-2)


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
        self.crossing = np.full((_CROSSED, rollouts), -1, dtype=np.int64)
        """The later edge of each pair; -1 for none. The earlier one is the last that whoever is slower than tolerated must pass."""
        self.crossing_decided = np.zeros(rollouts, dtype=bool)
        counted, pairs = (len(_SLOWDOWNS), len(_BEYOND_BOUND)), (_CROSSED, len(_BEYOND_CROSSED))
        self._earlier = self.tail.earlier(policy.latency)
        self.seen = Slowness(shape, counted, pairs, rollouts, Mixture)
        """By all requests: what holds a version."""
        self.shared = LastingSlowness(shape, counted, pairs, rollouts, ticks_in(EPISODE_MINUTES, tick_minutes))
        """By what more than one replica shows, or lasts: what takes it back."""
        self._slowdowns = tuple(policy.latency * multiple for multiple in _SLOWDOWNS)
        self._copies = np.asarray([stage.mirror > 0 for stage in policy.stages])
        self._margins = [stage.latency_margin for stage in policy.stages]
        self._of_all = policy.stages[-1].proof_bound / _PROOF_OF_ALL
        """What makes the last weight's bound one of `_PROOF_OF_ALL`."""
        spread = Proof.spread([stage.ticks_at_most for stage in policy.stages])
        self.here = TailProof(len(edges), rollouts, tuple(hopes.values()), spread)
        """For the margin of the stage, begun anew at each."""
        self.lasting = TailProof(len(edges), rollouts, tuple(hopes.values()), spread)
        """For the tightest margin, over the whole release, so that a lucky start does not settle it; and anew over the bake."""
        self.standing = TailStanding(len(edges), rollouts)
        self.recent = Recent((len(edges), len(_SLOWDOWNS), rollouts))
        self.load = LoadEffect(shape, rollouts, tick_minutes)
        self.noise = Noise((*shape, rollouts))
        self.clusters = Clusters((3, len(edges), rollouts), tick_minutes)
        """Of the stable version's arms, then of the canary, whose tail may reach where theirs does not. Harm that comes and goes is a cluster
        of its own, so only what is asked of pairs of edges regards it."""

    def choose(self) -> None:
        """Choose the edges of rollouts whose control is known well enough by now."""
        if not self.decided.all():
            self._choose_edges()
        if not self.crossing_decided.all():
            self._choose_pairs()

    def _choose_pairs(self) -> None:
        masses = self._pooled_masses()[np.maximum(self._earlier, 0)]
        now = ~self.crossing_decided & (over_classes(over_classes(self.memory.buckets)) >= _CROSSED_REQUESTS)
        fits = (self._earlier >= 0)[:, None] & (masses >= _CROSSED_MASS[0]) & (masses <= _CROSSED_MASS[1])
        slowest = np.sort(np.where(fits, np.arange(len(fits))[:, None], -1), axis=0)[::-1][:_CROSSED]
        pairs = np.full_like(self.crossing, -1)
        pairs[: len(slowest)] = slowest
        self.crossing = np.where(now, pairs, self.crossing)
        self.crossing_decided = self.crossing_decided | now

    def _pooled_masses(self) -> Floats:
        """Share of the control's requests of all classes above each edge."""
        return self.tail.masses(over_classes(self.memory.buckets)[None])[0]

    def _choose_edges(self) -> None:
        known = self.memory.buckets
        requests = np.stack([over_classes(kind) for kind in known])
        masses = self.tail.masses(known)
        now = ~self.decided & (over_classes(requests) >= _FIRST_REQUESTS)
        fits = (masses >= _JUDGED_MASS[0]) & (masses <= _JUDGED_MASS[1]) & (requests >= _CLASS_REQUESTS)[:, None]
        self.chosen = np.where(now, fits, self.chosen)
        self.decided = self.decided | now

    def compare(
        self, canary: Floats, control: Floats, same: Floats, at: TickStake, replicas: Floats | None = None, *, anew: bool = False
    ) -> None:
        """Judge one tick's buckets of the canary, its control, and all arms of the stable version; `replicas`: the canary's one by one;
        `anew`: one of them is not the one that was there before."""
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
        compared = ArmsOfTick(bad, n, bad_control, n_control, power)
        without, alone = self._others(replicas, compared)
        self.shared.begin(at, alone, anew)
        self._judge(known, null, compared, at, (without, alone), unlike)
        counts = at.counts & at.started & ~at.baking & (n > 0) & (n_control > 0)
        self.standing.add(compared.excess(self._margin(known, self._policy.latency)), masses * n, counts, at.young)
        arms: list[BadOf] = [(bad_control, n_control), (bad_same, n_same)]
        asked_of_past = unlike | at.by_history
        if asked_of_past.any():
            arms = [(np.where(asked_of_past, past[0], above), np.where(asked_of_past, past[1], of)) for above, of in arms]
            power = self._power(known, tolerated, n, arms[0][1], asked_of_past)
        self._prove(known, power, (bad, n), arms, at)
        held_back = at.baking & ~at.by_history & (at.stake >= 0)
        if held_back.any():
            self.load.observe((bad_control, n_control), (bad, n), held_back)

    def _others(self, replicas: Floats | None, arms: ArmsOfTick) -> tuple[ArmsOfTick | None, Bools]:
        """The canary without each of its replicas, on the first axis, None where no rollout has several; and where one answers alone."""
        if replicas is None:
            return None, np.ones(arms.n.shape[-1], dtype=bool)
        alone = np.logical_or.reduce(replicas > 0, axis=(1, 2)).sum(axis=0) < 2
        if alone.all():
            return None, alone
        above = np.stack([self.tail.counts(each) for each in replicas])
        all_of = above[:, :, :1] + replicas[:, :, :1]
        return arms._replace(bad=np.maximum(arms.bad - above, 0.0), n=np.maximum(arms.n - all_of, 0.0)), alone

    def _judge(
        self, known: TailNow, null: Floats, arms: ArmsOfTick, at: TickStake, others: tuple[ArmsOfTick | None, Bools], unlike: Flags
    ) -> None:
        """Evidence against the canary, for each alternative; `others`: as `_others` says."""
        without, alone = others
        chosen, each = self.chosen[:, :, None], arms.by_alternative()
        each_without = None if without is None else without.by_alternative()

        def logs(tolerated: Floats, alternative: Floats) -> tuple[Floats, Floats | None]:
            """By all requests; and without each replica, if there are several."""
            all_of = np.where(chosen, each.log(tolerated, alternative), 0.0)
            return all_of, None if each_without is None else np.where(chosen, each_without.log(tolerated, alternative), 0.0)

        tolerated = null[:, :, None]
        slower = self.tail.ratios(known.quantiles, known.masses, self._slowdowns)
        found, rest = logs(tolerated, np.maximum(slower, tolerated * alternatives(_FACTORS, 4)))
        together = over_classes(found)
        self.seen.compare(found, together, at)
        clustered = self._clustered(arms.power, self.clusters.size(_STABLE_ARMS))
        by_others, shared = _shown_by_others(found, rest, alone, clustered)
        self.shared.compare(by_others, shared, at)
        most = np.maximum(self.tail.bound(known.masses, self._policy.latency), null)[:, :, None]
        found, rest = logs(most, most * alternatives(_BEYOND_BOUND, 4))
        self.seen.compare_bound(over_classes(found), at)
        self.shared.compare_bound(_shown_by_others(found, rest, alone, clustered)[1], at)
        self.shared.judge_minute(shared, self.chosen, at)
        self._cross(arms, without, alone, at)
        self.recent.restart(unlike)
        self.recent.add(together, at.counts & ~unlike)

    def _cross(self, arms: ArmsOfTick, without: ArmsOfTick | None, alone: Bools, at: TickStake) -> None:
        """Evidence of pairs of edges.

        Whoever is slower by what is tolerated, and no more, is above the later edge no more often than the control above the earlier one,
        wherever in their buckets requests lie: nothing is read from the control's past.
        """
        later, sizes = np.maximum(self.crossing, 0), self.clusters.size()
        earlier = np.maximum(self._earlier[later], 0)

        def logs(each: ArmsOfTick) -> Floats:
            of = ArmsOfTick(_at(each.bad, later), each.n, _at(each.bad_control, earlier), each.n_control, _at(each.power, earlier))
            found = of.by_alternative().log(np.ones(1), alternatives(_BEYOND_CROSSED, 4))
            return np.where((self.crossing >= 0)[:, None], found, 0.0)

        found, rest = logs(arms), None if without is None else logs(without)
        self.seen.compare_crossed(over_classes(found), at)
        clustered = self._clustered(_at(arms.power, earlier), np.maximum(_at(sizes, later), _at(sizes, earlier)))
        self.shared.compare_crossed(_shown_by_others(found, rest, alone, clustered)[1], at)
        self.clusters.learn(_STABLE_ARMS, *(np.where(at.counts, over_classes(each), 0.0) for each in (arms.bad, arms.n)))

    def _clustered(self, power: Floats, sizes: Floats) -> Floats:
        """What evidence raised to `power` is raised to besides, where so many requests are slow together; with an axis for alternatives."""
        if not self._policy.tempered:
            return np.ones(1)
        return np.minimum(1.0 / (power * sizes), 1.0)[:, :, None]

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
        pooled = self._pooled_masses()
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

    def slower_than_usual(self) -> Bools:
        """Where the bake's control has too few requests to tell, whether the canary's latest ones are slower than usual."""
        return self.load.slower_than_usual(self.tail, self.chosen, self._policy.latency)

    def recent_evidence(self) -> Floats:
        """Of the latest minutes, against the canary; may hold it, and never rolls it back."""
        anywhere: Bools = np.logical_or.reduce(self.chosen, axis=0)
        edges = np.maximum(over_classes(anywhere.astype(np.float64)), 1.0)
        return over_classes(np.where(anywhere, mean_exp(self.recent.logs), 0.0)) / edges

    def evidence(self) -> Floats:
        """Against the canary, that more than one replica shows, or that lasts longer than one node's trouble."""
        return self.shared.evidence(self.chosen, self.crossing >= 0)

    def seen_evidence(self) -> Floats:
        """Against it by all requests, of which one node's trouble may be all; may hold it, and never rolls it back."""
        return self.seen.evidence(self.chosen, self.crossing >= 0)

    def anywhere(self) -> Floats:
        """The same if requests lie evenly within every bucket."""
        return self.seen.anywhere(self.chosen)

    def proven(self, stage: Ints, baking: Bools, step_over: Bools) -> Floats:
        """For the canary, as an e-value for the stage's bound; 0 where nothing is known.

        Copies must show it at every edge. What a weight has left to find is that users' load slows the version as a whole. Before full
        traffic, all that it answered must show it at every edge again, by `_PROOF_OF_ALL` until the time of the step is over: a quiet
        service never gets there. In the bake, all that it answered since must.
        """
        here, last = self.here.overall(), stage == len(self._margins) - 1
        proven = np.where(self._copies[stage], self.here.everywhere(), here)
        everywhere = self.lasting.everywhere()
        of_all = np.where(step_over, everywhere, everywhere * self._of_all)
        proven = np.where(last & ~self._copies[stage], np.minimum(here, of_all), proven)
        proven = np.where(baking, everywhere, proven)
        return np.where(self.decided, proven, 0.0)

    def remember(self, stable: Floats, baseline: Floats) -> None:
        """Add the control's counts of a judged tick to what is known, and what the two arms of one version differed by."""
        bad, bad_stable = self.tail.counts(baseline), self.tail.counts(stable)
        self.noise.learn(bad, bad[:, :1] + baseline[:, :1], bad_stable, bad_stable[:, :1] + stable[:, :1])
        self.clusters.fade()
        slow, requests = (
            np.stack([over_classes(each) for each in of])
            for of in ((bad_stable, bad), (bad_stable[:, :1] + stable[:, :1], bad[:, :1] + baseline[:, :1]))
        )
        self.clusters.learn(slice(_STABLE_ARMS), slow, requests)
        self.memory.remember(stable + baseline)
