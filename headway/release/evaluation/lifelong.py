"""Evidence that may be looked at after every observation, for as long as a version serves, at one error budget for all of its life.

Wealth begins at 1, all of it cash. At each observation some cash is staked on every bet, and each bet's wealth is multiplied by a factor whose
mean is 1 at most, given the past, while nothing is wrong. So cash and bets together are a non-negative supermartingale, and they ever reach
1 / alpha with probability alpha at most (Ville's inequality; Ramdas and others, "Game-theoretic statistics and safe anytime-valid inference",
Statistical Science 38(4), 2023, arXiv 2210.01948). Money that is staked late has not been lost before, so a change is found whenever it comes:
the mixture over its time of Shin, Ramdas and Rinaldo, "E-detectors" (2024, arXiv 2203.03532), with stakes that add up to 1, not 1 each, because
here it is the probability of any false alarm that is bounded and not their frequency.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FALSE_ALARM = 0.01
"""Probability, over the whole life of a version, that it is ever accused while nothing is wrong."""
_YOUNG = 100
"""Observations within which stakes hardly become smaller."""


@dataclass(frozen=True, kw_only=True)
class LifelongEvidence:
    """Of one stream, or of many at once: `wealth` has the bets as its last axis, and streams before it."""

    wealth: Floats
    cash: float = 1.0
    observations: int = 0

    @property
    def value(self) -> Floats:
        """The e-value: how much was won by betting that something is wrong."""
        return self.cash + self.wealth.sum(axis=-1)

    def proven(self, false_alarm: float = FALSE_ALARM) -> NDArray[np.bool_]:
        """Whether something is wrong, at this probability of ever saying so falsely. True for good only at the moment it is asked."""
        return self.value >= 1 / false_alarm


def begun(bets: int, streams: tuple[int, ...] = ()) -> LifelongEvidence:
    """Nothing staked yet."""
    return LifelongEvidence(wealth=np.zeros((*streams, bets)))


def stake(observation: int) -> float:
    """What is put in before observation 1, 2, ...; all together less than 1: the integral of 1 / (x ln(x)^2) from `_YOUNG` on is
    1 / ln(_YOUNG)."""
    place = observation + _YOUNG
    return math.log(_YOUNG) / (place * math.log(place) ** 2)


def observed(evidence: LifelongEvidence, factors: Floats, put: float | None = None) -> LifelongEvidence:
    """After one more observation. `factors`: of each bet, zero or more, with a mean of 1 at most while nothing is wrong. `put`: the stake, where
    it is another one than that of a whole life: who stakes without end has bounded alarms by time, and counts wealth alone."""
    put = stake(evidence.observations + 1) if put is None else put
    wealth = (evidence.wealth + put / evidence.wealth.shape[-1]) * factors
    return LifelongEvidence(wealth=wealth, cash=evidence.cash - put, observations=evidence.observations + 1)


def observed_all(evidence: LifelongEvidence, factors: Floats) -> LifelongEvidence:
    """After several observations of one stream, which are the first axis of `factors`: as `observed` one after the other, in one step.

    What was put in before observation i is multiplied by the factors from i on.
    """
    count = len(factors)
    if not count:
        return evidence
    put = np.asarray([stake(evidence.observations + 1 + number) for number in range(count)])
    onwards = np.cumprod(factors[::-1], axis=0)[::-1]
    wealth = evidence.wealth * onwards[0] + (put[:, None] / factors.shape[-1] * onwards).sum(axis=0)
    return LifelongEvidence(wealth=wealth, cash=evidence.cash - float(put.sum()), observations=evidence.observations + count)


def together(parts: "tuple[LifelongEvidence, ...]") -> Floats:
    """The e-value of several streams at one budget: their mean, however they depend on one another."""
    return np.mean([part.value for part in parts], axis=0)
