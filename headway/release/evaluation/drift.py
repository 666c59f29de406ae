"""Whether inputs or answers of a serving version still come from where those of its promotion came.

Each new value gets a conformal p-value: its rank among all values before it, those of the promotion first. While nothing changes, these are
independent and uniform whatever the values' distribution is (Fedorova and others, "Plug-in martingales for testing exchangeability on-line",
ICML 2012, arXiv 1204.3251), so bets on them are martingales: Vovk and others, "Retrain or not retrain: conformal test martingales for
change-point detection" (COPA 2021, arXiv 2102.10439). So the promotion's values need not be known without error, only be exchangeable.

Money bets on values that moved or spread; on shapes, by learners that each know what they have seen since they began; and on every cell alone,
that it holds more than it did, by ranks that put this cell first and call all others equal. The traps: values after a change join those before
it, so a small change that comes soon after few values is found late or never; and it is exchangeability that is refuted, so an hour of the day
is a change like any other: compare with values of the same hour only. Requests that come in clusters are not exchangeable either: take one of
each. Ranks of different orders are martingales each in what it has seen itself, and their mean need not be one in what all have seen (Choe and
Ramdas, "Combining evidence across filtrations", 2024, arXiv 2402.09698): so it is the largest that counts, each against its part of the budget.

What a delay is made of: a change is worth its Kullback-Leibler divergence a value. Even a test that is told everything needs log 100 = 4.6
nats in the mean (Wald); this one needs about 7 more for not knowing when, and 2 to 4 for not knowing what. Nor does it know what is usual: the
last d of N + d exchangeable values are worth log of N + d over d at most, 7 nats for one among 1,250. So one value never proves drift, and what
a CUSUM with exact knowledge finds within 5 takes 8 to 13.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from headway.release.evaluation.lifelong import FALSE_ALARM, LifelongEvidence, begun, observed, stake

Floats = NDArray[np.float64]

_SHIFTS = (-1.8, -0.9, -0.4, 0.4, 0.9, 1.8)
"""Standard deviations."""
_SCALES = (0.6, 1.5, 2.5)
BETS = len(_SHIFTS) + len(_SCALES)
_SMALLEST = 1e-12

_OF_KNOWN, _OF_LEARNED, _OF_CELLS = 0.35, 0.25, 0.4
"""Parts of the budget."""
_ODDS = 4.0
"""By which the odds of a cell are bet to grow."""
_UNSURE = 1.2
"""Standard deviations of a cell's share, as far as it is known, between the three places where it is thought to end."""
_WAVES = np.arange(1, 6)
"""Half waves of the cosines that a learner's density is made of."""
_PRIOR = 16.0
"""P-values, spread evenly, that a learner is thought to have seen before the first one."""
_STEEPEST = 0.95
"""Of what a learner has, the most that it may lose on one value."""
_EVERY, _LEARNERS = 8, 64
"""Values after which a learner begins; how many bet at once. The oldest one then keeps what it has."""


class Ranks(NamedTuple):
    """Conformal p-values of one new value of each stream: `p` by the order of values; `of_cells`, the last axis, with each cell put first."""

    p: Floats
    of_cells: Floats


def conformal_ranks(counts: ArrayLike, cell: ArrayLike, tie: ArrayLike) -> Ranks:
    """Of a value in `cell`, where `counts`, the last axis, are the values before it. `tie`: uniform in [0, 1), drawn anew for each value; it
    decides between equal ones."""
    before, chance = np.asarray(counts), np.asarray(tie, dtype=np.float64)
    cells, own = np.arange(before.shape[-1]), np.asarray(cell)[..., None]
    with_it = before.sum(axis=-1) + 1
    above = np.where(cells > own, before, 0).sum(axis=-1)
    equal = np.where(cells == own, before, 0).sum(axis=-1) + 1
    share, drawn = with_it[..., None], chance[..., None]
    of_cells = np.where(cells == own, drawn * (before + 1), before + drawn * (share - before)) / share
    return Ranks((above + chance * equal) / with_it, of_cells)


@dataclass(frozen=True, kw_only=True)
class CellBets:
    """That a cell holds more: a p-value below `steps` is worth `more`, and one above it `less`; three steps, the first axis, at even odds."""

    steps: Floats
    more: Floats
    less: Floats

    @classmethod
    def of(cls, counts: ArrayLike) -> "CellBets":
        """By values, in each cell, that are not among those compared: only these may be known before the first bet."""
        drawn = np.asarray(counts, dtype=np.float64)
        all_drawn = drawn.sum(axis=-1, keepdims=True) + drawn.shape[-1] / 2
        share = (drawn + 0.5) / all_drawn
        deviation = _UNSURE * np.sqrt(share * (1 - share) / all_drawn)
        steps = np.clip(np.stack([share - deviation, share, share + deviation]), 1e-4, 1 - 1e-4)
        grown = _ODDS * steps / (1 - steps + _ODDS * steps)
        return cls(steps=steps, more=grown / steps, less=(1 - grown) / (1 - steps))

    def factors(self, p: Floats) -> Floats:
        """Of each cell; with a mean of 1 while p-values are uniform."""
        return np.where(p <= self.steps, self.more, self.less).mean(axis=0)


@dataclass(frozen=True, kw_only=True)
class LearnersEvidence:
    """Of one stream, or of many at once. `wealth` of each learner, the last axis; `sums` of the cosines at the p-values that it saw; `kept`:
    what those have that bet no more; `cash`: what was not lent yet."""

    wealth: Floats
    sums: Floats
    kept: Floats
    cash: float = 1.0
    observations: int = 0

    @property
    def value(self) -> Floats:
        """The e-value."""
        return self.cash + self.kept + self.wealth.sum(axis=-1)

    @property
    def ages(self) -> Floats:
        """How many p-values each learner has seen; without meaning for one that has not begun."""
        begun_since = (self.observations // _EVERY - np.arange(_LEARNERS)) % _LEARNERS
        return (self.observations % _EVERY + _EVERY * begun_since).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class DriftEvidence:
    """All bets at one budget. `cells`: the e-value of each cell is one of its streams."""

    known: LifelongEvidence
    learned: LearnersEvidence
    cells: LifelongEvidence
    bets: CellBets

    @property
    def value(self) -> Floats:
        """What is compared with the budget: ever 1 / alpha with a probability of alpha at most, as an e-value."""
        by_order = _OF_KNOWN * self.known.value + _OF_LEARNED * self.learned.value
        return np.maximum(by_order, _OF_CELLS * self.cells.value.max(axis=-1) / self.cells.value.shape[-1])

    @property
    def observations(self) -> int:
        """Values that were seen."""
        return self.known.observations

    def proven(self, false_alarm: float = FALSE_ALARM) -> NDArray[np.bool_]:
        """Whether something changed, at this probability of ever saying so falsely. True for good only at the moment it is asked."""
        return self.value >= 1 / false_alarm


def drift_begun(counts: ArrayLike) -> DriftEvidence:
    """Nothing seen yet. `counts`: values in each cell, the last axis, that will not be among those compared; streams before it."""
    streams = np.shape(counts)[:-1]
    learners = LearnersEvidence(
        wealth=np.zeros((*streams, _LEARNERS)), sums=np.zeros((*streams, _LEARNERS, len(_WAVES))), kept=np.zeros(streams)
    )
    return DriftEvidence(known=begun(BETS, streams), learned=learners, cells=begun(1, np.shape(counts)), bets=CellBets.of(counts))


def drift_observed(evidence: DriftEvidence, ranks: Ranks) -> DriftEvidence:
    """After one more value of each stream."""
    return replace(
        evidence,
        known=observed(evidence.known, drift_factors(ranks.p)),
        learned=_learned(evidence.learned, np.asarray(ranks.p)),
        cells=observed(evidence.cells, evidence.bets.factors(ranks.of_cells)[..., None]),
    )


def _learned(before: LearnersEvidence, p: Floats) -> LearnersEvidence:
    """Each learner bets the density 1 + sum of its mean cosines times the cosines, made flatter where it could become negative."""
    if before.observations % _EVERY == 0:
        before = _with_a_new_one(before)
    cosines = np.sqrt(2) * np.cos(np.pi * p[..., None] * _WAVES)[..., None, :]
    means = before.sums / (before.ages + _PRIOR)[:, None]
    deepest = np.sqrt(2) * np.abs(means).sum(axis=-1)
    slope = (means * cosines).sum(axis=-1) * np.minimum(1, _STEEPEST / np.maximum(deepest, _SMALLEST))
    return replace(before, wealth=before.wealth * (1 + slope), sums=before.sums + cosines, observations=before.observations + 1)


def _with_a_new_one(before: LearnersEvidence) -> LearnersEvidence:
    """A learner that has seen nothing takes the oldest one's place, with the stakes of all values until the next one begins."""
    place = before.observations // _EVERY % _LEARNERS
    put = sum(stake(before.observations + 1 + number) for number in range(_EVERY))
    wealth, sums = before.wealth.copy(), before.sums.copy()
    kept = before.kept + wealth[..., place]
    wealth[..., place], sums[..., place, :] = put, 0.0
    return replace(before, wealth=wealth, sums=sums, kept=kept, cash=before.cash - put)


def drift_factors(p: ArrayLike) -> Floats:
    """Factors of the bets after one p-value of each stream: likelihood ratios of normal values that moved or spread, at the p-value's quantile.

    Such a ratio has a mean of 1 when p-values are uniform, so the bets are valid for values that are not normal, too.
    """
    quantile = -ndtri(np.clip(np.asarray(p, dtype=np.float64), _SMALLEST, 1 - _SMALLEST))[..., None]
    shifts, scales = np.asarray(_SHIFTS), np.asarray(_SCALES)
    moved = shifts * quantile - shifts**2 / 2
    spread = (1 - scales**-2) * quantile**2 / 2 - np.log(scales)
    return np.exp(np.concatenate([moved, spread], axis=-1))
