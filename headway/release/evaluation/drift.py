"""Whether inputs or answers of a serving version still come from where those of its promotion came.

Each new value gets a conformal p-value: its rank among all values before it, those of the promotion first. While nothing changes, these are
independent and uniform whatever the values' distribution is (Fedorova and others, "Plug-in martingales for testing exchangeability on-line",
ICML 2012, arXiv 1204.3251), so bets on them are martingales: Vovk and others, "Retrain or not retrain: conformal test martingales for
change-point detection" (COPA 2021, arXiv 2102.10439). So the promotion's values need not be known without error, only be exchangeable.

Most money bets on values that moved or spread; the rest is lent to learners, each of which bets on the shape that it has seen since it began.
The traps: values after a change join those before it, so a small change that comes soon after few values is found late or never; and it is
exchangeability that is refuted, so an hour of the day is a change like any other: let `earlier` hold values of the same hour only. Requests that
come in clusters are not exchangeable either: take one of each.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from headway.release.evaluation.lifelong import FALSE_ALARM, LifelongEvidence, begun, observed, stake

Floats = NDArray[np.float64]

_SHIFTS = (-1.8, -0.9, -0.4, 0.4, 0.9, 1.8)
"""Standard deviations."""
_SCALES = (0.5, 2.0)
BETS = len(_SHIFTS) + len(_SCALES)
_SMALLEST = 1e-12

_LENT = 0.25
"""Part of the money that learners have."""
_CELLS, _PRIOR = 8, 4.0
"""Of the p-values that learners tell apart; p-values that each is thought to have had before the first one."""
_EVERY, _LEARNERS = 8, 64
"""Values after which a learner begins; how many bet at once. The oldest one then keeps what it has."""


@dataclass(frozen=True, kw_only=True)
class LearnersEvidence:
    """Of one stream, or of many at once. `wealth` of each learner, the last axis; `counts` of the p-values that it saw, by cell; `kept`: what
    those have that bet no more; `cash`: what was not lent yet."""

    wealth: Floats
    counts: Floats
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
    """Both kinds of bets at one budget."""

    known: LifelongEvidence
    learned: LearnersEvidence

    @property
    def value(self) -> Floats:
        """The e-value."""
        return (1 - _LENT) * self.known.value + _LENT * self.learned.value

    @property
    def observations(self) -> int:
        """Values that were seen."""
        return self.known.observations

    def proven(self, false_alarm: float = FALSE_ALARM) -> NDArray[np.bool_]:
        """Whether something changed, at this probability of ever saying so falsely. True for good only at the moment it is asked."""
        return self.value >= 1 / false_alarm


def drift_begun(streams: tuple[int, ...] = ()) -> DriftEvidence:
    """Nothing seen yet."""
    learners = LearnersEvidence(
        wealth=np.zeros((*streams, _LEARNERS)), counts=np.zeros((*streams, _LEARNERS, _CELLS)), kept=np.zeros(streams)
    )
    return DriftEvidence(known=begun(BETS, streams), learned=learners)


def drift_observed(evidence: DriftEvidence, p: ArrayLike) -> DriftEvidence:
    """After one more p-value of each stream."""
    return DriftEvidence(known=observed(evidence.known, drift_factors(p)), learned=_learned(evidence.learned, np.asarray(p)))


def _learned(before: LearnersEvidence, p: Floats) -> LearnersEvidence:
    if before.observations % _EVERY == 0:
        before = _with_a_new_one(before)
    cell = np.broadcast_to(np.minimum((p * _CELLS).astype(int), _CELLS - 1)[..., None, None], (*p.shape, _LEARNERS, 1))
    seen = np.take_along_axis(before.counts, cell, axis=-1)
    wealth = before.wealth * (_CELLS * (seen[..., 0] + _PRIOR) / (before.ages + _CELLS * _PRIOR))
    counts = before.counts.copy()
    np.put_along_axis(counts, cell, seen + 1, axis=-1)
    return LearnersEvidence(wealth=wealth, counts=counts, kept=before.kept, cash=before.cash, observations=before.observations + 1)


def _with_a_new_one(before: LearnersEvidence) -> LearnersEvidence:
    """A learner that has seen nothing takes the oldest one's place, with the stakes of all values until the next one begins."""
    place = before.observations // _EVERY % _LEARNERS
    put = sum(stake(before.observations + 1 + number) for number in range(_EVERY))
    wealth, counts = before.wealth.copy(), before.counts.copy()
    kept = before.kept + wealth[..., place]
    wealth[..., place], counts[..., place, :] = put, 0.0
    return LearnersEvidence(wealth=wealth, counts=counts, kept=kept, cash=before.cash - put, observations=before.observations)


def conformal_p(value: ArrayLike, earlier: ArrayLike, tie: ArrayLike) -> Floats:
    """Of one new value in each stream among the values before it, which are the last axis of `earlier`. `tie`: uniform in [0, 1), drawn
    anew for each value; it decides between equal ones."""
    new, before = np.asarray(value)[..., None], np.asarray(earlier)
    above, equal = (before > new).sum(axis=-1), (before == new).sum(axis=-1) + 1
    return (above + np.asarray(tie) * equal) / (before.shape[-1] + 1)


def drift_factors(p: ArrayLike) -> Floats:
    """Factors of the bets after one p-value of each stream: likelihood ratios of normal values that moved or spread, at the p-value's quantile.

    Such a ratio has a mean of 1 when p-values are uniform, so the bets are valid for values that are not normal, too.
    """
    quantile = -ndtri(np.clip(np.asarray(p, dtype=np.float64), _SMALLEST, 1 - _SMALLEST))[..., None]
    shifts, scales = np.asarray(_SHIFTS), np.asarray(_SCALES)
    moved = shifts * quantile - shifts**2 / 2
    spread = (1 - scales**-2) * quantile**2 / 2 - np.log(scales)
    return np.exp(np.concatenate([moved, spread], axis=-1))
