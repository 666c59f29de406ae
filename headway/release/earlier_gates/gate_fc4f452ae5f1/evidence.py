"""Evidence that stays valid however often one looks: e-processes on counts (docs/reference/gate.md has the argument).

An e-process starts at 1 at most and, while the null hypothesis holds, is not expected to grow; so it reaches 1/alpha with probability
alpha at most, at any time (Ville). The trap: what it is multiplied by, and every weight, may depend on the past and on numbers of
requests, never on the events it is about to count.

Validity of `ratio_log`: control requests are bad with probability p, canary requests with at most null * p, independently. Then
E[exp(l)] <= exp(p * (nc * null * (A - 1) + nb * (B - 1))) = 1, with A and B the factors of a bad canary and a bad control request.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.release.earlier_gates.gate_fc4f452ae5f1.state import Stateful
from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import Bools, Floats, Ints, over_classes, within

LARGEST_GAIN = 10.0
"""What a minute, or a longer tick, may multiply evidence by: one bad minute proves nothing."""
LARGEST_GAIN_WHILE_YOUNG = 1.8
"""How much of it may show after that minute, for latency while users see nothing, or the canary has not been ready for long; what is more
shows in the minutes after, unless they speak against it: a slow warm-up is not mistaken for a slow version."""
WORTH_WHILE_YOUNG = 2.5
"""What a minute is worth in the end while the canary has not been ready for long: of a warm-up of some minutes, less than it takes to fail."""
LARGEST_GAIN_OF_PROOF = 8.0
"""How much of a proof may show after a minute: one lucky minute proves nothing either."""

_LEAST_WHILE_BAKING, _ENOUGH_WHILE_BAKING = 0.01, 20.0

_LARGEST_LOG, _LARGEST_LOG_OF_PROOF = 3.0, 20.0
_MOST_KEPT = 1e12
_ENOUGH = 1e6
"""More proof than this is not remembered, so that a canary that turns bad at a stage loses it again."""


def of_a_tick(largest: float, minutes: float) -> float:
    """What a tick may multiply by where a minute may by `largest`; a tick longer than a minute by no more."""
    return largest ** min(minutes, 1.0)


def worth_of_a_tick(minutes: float) -> float:
    """What a tick is worth in the end, whenever it shows. Counts of a short tick vary by the root of its length; a limit in proportion to
    the length would take more from good luck than from bad and evidence would wither. Never more than twice a minute's in a minute."""
    return LARGEST_GAIN ** min(math.sqrt(minutes), 2 * minutes, 1.0)


def ticks_in(minutes: float, tick_minutes: float) -> int:
    """At least one."""
    return max(1, math.ceil(minutes / tick_minutes))


def ratio_log(bad: Floats, bad_control: Floats, n: Floats, n_control: Floats, null: Floats, alternative: Floats) -> Floats:
    """Log likelihood ratio of `alternative` against `null`, both as canary / control ratios of bad shares.

    Below 0 <= bad <= n. Zero where either arm had no requests: there is nothing to compare.
    """
    both = (n > 0) & (n_control > 0)
    canary, control = np.where(both, n, 1.0), np.where(both, n_control, 1.0)
    shrink = np.log((canary * null + control) / (canary * alternative + control))
    return np.where(both, bad * np.log(alternative / null) + (bad + bad_control) * shrink, 0.0)


def share_log(bad: Floats, n: Floats, null: Floats | float, alternative: Floats | float) -> Floats:
    """Log likelihood ratio of a bad share of `alternative` against `null`, without a control."""
    return bad * np.log(alternative / np.asarray(null)) + (n - bad) * (np.log1p(-np.asarray(alternative)) - np.log1p(-np.asarray(null)))


def mean_exp(logs: Floats) -> Floats:
    """Mean of the e-values with these logarithms, over the axis before the last; cut where more would change nothing."""
    values = np.exp(np.minimum(logs, _LARGEST_LOG_OF_PROOF))
    total = values[..., 0, :].copy()
    for place in range(1, values.shape[-2]):
        total += values[..., place, :]
    return total / values.shape[-2]


Flags = Bools | np.bool_
"""By rollout, or one for all."""


@dataclass(frozen=True)
class TickStake:
    """How a tick counts, by rollout."""

    stake: Floats
    """New weight of every process; -1 where the tick is no evidence."""
    stage: Ints
    """Place in the ladder."""
    largest: Floats
    """What evidence may grow by in the tick."""
    largest_of_proof: float = LARGEST_GAIN_OF_PROOF
    """What proof may grow by in it."""
    worth: Floats | float = LARGEST_GAIN
    """What the tick may multiply evidence by in the end."""
    by_history: Flags = np.False_
    """Where it is compared with the past for want of a control: no evidence against, and still asked for proof."""
    baking: Flags = np.False_
    started: Flags = np.True_
    """The canary's first minutes are over."""
    young: Flags = np.False_
    """The canary has not been ready for long."""

    @property
    def counts(self) -> Bools:
        return (self.stake >= 0) | self.by_history

    @property
    def kept_proof(self) -> tuple[Floats, Floats]:
        """The least and the most proof that is remembered: while baking both are near to what it takes, so that the latest ticks decide."""
        return np.where(self.baking, _LEAST_WHILE_BAKING, 0.0), np.where(self.baking, _ENOUGH_WHILE_BAKING, _ENOUGH)


class Mixture(Stateful):
    """R = (R + w) * min(exp(l), 10) for each alternative, shown as S = min(R, (S + w) * largest); their mean is the evidence.

    S never exceeds R, so it is an e-process as R is. What a tick brought beyond `largest` is not lost, as it would be if its gain were cut:
    cut gains beside whole losses wear even clear evidence down. Alternatives on axis -2, rollouts on the last.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.won = np.zeros(shape)
        self.wealth = np.zeros(shape)

    def update(self, logs: Floats, stake: Floats, largest: Floats | float = LARGEST_GAIN, worth: Floats | float = LARGEST_GAIN) -> None:
        """Multiply by the log likelihood ratios of one tick.

        `stake` is the new weight of this tick, by rollout, whose sum over all ticks is at most 1. Where it is negative the tick is no
        evidence and nothing changes. No tick is worth more than a factor of `worth`, nor shows more than one of `largest` at once.
        """
        self.gain(np.minimum(np.exp(np.minimum(logs, _LARGEST_LOG)), worth), stake, largest)

    def gain(self, gains: Floats, stake: Floats, largest: Floats | float) -> None:
        """The same, by what the tick is worth."""
        counts, new = stake >= 0, np.maximum(stake, 0.0)
        self.won = np.where(counts, (self.won + new) * gains, self.won)
        self.wealth = np.where(counts, np.minimum(self.won, (self.wealth + new) * largest), self.wealth)

    def shown(self) -> Floats:
        """What shows, by alternative."""
        return self.wealth

    def value(self) -> Floats:
        shown = self.shown()
        total = shown[..., 0, :].copy()
        for place in range(1, shown.shape[-2]):
            total += shown[..., place, :]
        return total / shown.shape[-2]


class AnyOnset(Stateful):
    """R = (R + w) * f with w = 1 / (t (t + 1)) in the t-th tick that is judged, for each alternative; their mean is the evidence.

    The stakes w add up to 1 however long it goes on, so that what begins at any tick is found, and where each f has a mean of 1 at most
    given the past, R together with what is not staked yet is a supermartingale from 1. Alternatives on axis 0, rollouts on the last.
    """

    def __init__(self, alternatives: int, rollouts: int) -> None:
        self.wealth = np.zeros((alternatives, rollouts))
        self.ticks = np.zeros(rollouts)

    def multiply(self, factors: Sequence[Floats], judged: Bools) -> None:
        """By what a tick is worth for each alternative; nothing changes where it is not judged."""
        self.ticks = self.ticks + judged
        stake = 1.0 / (np.maximum(self.ticks, 1.0) * (self.ticks + 1.0))
        for place, factor in enumerate(factors):
            grown = np.minimum((self.wealth[place] + stake) * factor, _MOST_KEPT)
            self.wealth[place] = np.where(judged, grown, self.wealth[place])

    def value(self) -> Floats:
        return over_classes(self.wealth) / len(self.wealth)


class Proof(Stateful):
    """Evidence for the canary: W = (W + w) * exp(l), shown as S = min(W, (S + w) * largest), which as in `Mixture` loses nothing.

    Half of the stake is put in at once; the rest over the ticks, soon rather than late, so that a transient at the start of a stage does
    not have to be paid back tick by tick.
    """

    _AT_ONCE = 0.5
    _SOON = 1.3
    """The k-th tick's stake is proportional to k to the power of minus this."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.won = np.zeros(shape)
        self.wealth = np.zeros(shape)
        self.spent = np.zeros(shape[-1])
        self.ticks = np.zeros(shape[-1])

    @classmethod
    def spread(cls, planned_ticks: Sequence[int]) -> Floats:
        """What makes the later stakes of stages of so many ticks add up to their part; for `multiply`."""
        return np.asarray([(1 - cls._AT_ONCE) / sum(k**-cls._SOON for k in range(2, max(ticks, 2) + 1)) for ticks in planned_ticks])

    def multiply(
        self,
        logs: Floats,
        counts: Bools,
        spread: Floats,
        largest: float = LARGEST_GAIN_OF_PROOF,
        kept: tuple[Floats | float, Floats | float] = (0.0, _ENOUGH),
    ) -> None:
        """`spread`: of the stage of each rollout. No tick shows more than a factor of `largest` at once; `kept` are the least and the most
        that is remembered."""
        self.ticks = self.ticks + counts
        wanted = np.where(self.ticks <= 1, self._AT_ONCE, spread * np.maximum(self.ticks, 1.0) ** -self._SOON)
        stake = np.where(counts, np.minimum(wanted, np.maximum(1.0 - self.spent, 0.0)), 0.0)
        self.spent = self.spent + stake
        won = within((self.won + stake) * np.exp(np.minimum(logs, _LARGEST_LOG_OF_PROOF)), *kept)
        self.wealth = np.where(counts, np.minimum(won, (self.wealth + stake) * largest), self.wealth)
        self.won = np.where(counts, won, self.won)

    def restart(self, where: Bools) -> None:
        """Forget what was proven at the last stage."""
        for name in ("won", "wealth", "spent", "ticks"):
            setattr(self, name, np.where(where, 0.0, getattr(self, name)))


class Stakes(Stateful):
    """Spreads a stake of 1 over a rollout: 0.35 at once, 0.2 over the later steps, 0.2 over the ticks, so that late onsets are found; and
    0.25 in the bake, with what the release has left: 0.05 of it at once, for full load is what the release has not seen."""

    _OF_RELEASE, _AT_PROMOTION = 0.75, 0.05

    def __init__(self, steps: int, planned_ticks: int, bake_ticks: int, rollouts: int) -> None:
        self._by_step, self._by_tick = 0.2 / max(steps - 1, 1), 0.2 / planned_ticks
        self._by_baking_tick = (1 - self._OF_RELEASE - self._AT_PROMOTION) / bake_ticks
        self.baked = np.zeros(rollouts)
        """Ticks of the bake that counted."""
        self.spent = np.zeros(rollouts)

    def next(self, counted: Bools, new_step: Bools, baking: Bools) -> Floats:
        """The stake of this tick; -1 where it does not count."""
        first = baking & (self.baked == 0)
        at_once = np.where(self.spent == 0, 0.35, np.where(first, self._AT_PROMOTION, np.where(new_step & ~baking, self._by_step, 0.0)))
        self.baked = self.baked + (counted & baking)
        wanted, most = at_once + np.where(baking, self._by_baking_tick, self._by_tick), np.where(baking, 1.0, self._OF_RELEASE)
        stake = np.where(counted, np.minimum(wanted, np.maximum(most - self.spent, 0.0)), -1.0)
        self.spent = self.spent + np.maximum(stake, 0.0)
        return stake


def alternatives(values: Sequence[float], rank: int) -> Floats:
    """`values` on the axis before the last of `rank` axes."""
    return np.asarray(values, dtype=np.float64).reshape((1,) * (rank - 2) + (-1, 1))
