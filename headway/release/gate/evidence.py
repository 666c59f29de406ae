"""Evidence that stays valid however often one looks: e-processes on counts (docs/reference/gate.md has the argument).

An e-process starts at 1 at most and, while the null hypothesis holds, is not expected to grow; so it reaches 1/alpha with probability
alpha at most, at any time (Ville). The trap: what it is multiplied by, and every weight, may depend on the past and on numbers of
requests, never on the events it is about to count.

Validity of `ratio_log`: control requests are bad with probability p, canary requests with at most null * p, independently. Then
E[exp(l)] <= exp(p * (nc * null * (A - 1) + nb * (B - 1))) = 1, with A and B the factors of a bad canary and a bad control request.
"""

import math
from collections.abc import Sequence

import numpy as np

from headway.release.gate.state import Kept
from headway.release.gate.tick import Floats

LARGEST_GAIN = 10.0
"""What one tick may multiply evidence by: one bad minute proves nothing."""
_LARGEST_LOG = math.log(LARGEST_GAIN)


def ratio_log(bad: Floats, bad_control: Floats, n: Floats, n_control: Floats, null: Floats, alternative: Floats) -> Floats:
    """Log likelihood ratio of `alternative` against `null`, both as canary / control ratios of bad shares.

    Below 0 <= bad <= n. Zero where either arm had no requests: there is nothing to compare.
    """
    shrink = np.log((n * null + n_control) / np.maximum(n * alternative + n_control, 1e-300))
    value = bad * np.log(alternative / null) + (bad + bad_control) * shrink
    return np.where((n > 0) & (n_control > 0), value, 0.0)


def share_log(bad: Floats, n: Floats, null: Floats | float, alternative: Floats | float) -> Floats:
    """Log likelihood ratio of a bad share of `alternative` against `null`, without a control."""
    return bad * np.log(alternative / np.asarray(null)) + (n - bad) * (np.log1p(-np.asarray(alternative)) - np.log1p(-np.asarray(null)))


class Mixture(Kept):
    """R = (R + w) * min(exp(l), 10) for each alternative; their mean is the evidence. Alternatives on axis -2, rollouts on the last."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.wealth = np.zeros(shape)

    def multiply(self, place: int, logs: Floats, stake: Floats) -> None:
        """Update the alternative at `place` by its log likelihood ratios of one tick.

        `stake` is the new weight of this tick, by rollout, whose sum over all ticks is at most 1. Where it is negative the tick is no
        evidence and nothing changes.
        """
        gains = np.minimum(np.exp(np.minimum(logs, _LARGEST_LOG)), LARGEST_GAIN)
        wealth = self.wealth[..., place, :]
        self.wealth[..., place, :] = np.where(stake >= 0, (wealth + np.maximum(stake, 0.0)) * gains, wealth)

    def update(self, logs: Floats, stake: Floats) -> None:
        """All alternatives at once."""
        for place in range(self.wealth.shape[-2]):
            self.multiply(place, np.ascontiguousarray(logs[..., place, :]), stake)

    def value(self) -> Floats:
        total = self.wealth[..., 0, :].copy()
        for place in range(1, self.wealth.shape[-2]):
            total += self.wealth[..., place, :]
        return total / self.wealth.shape[-2]


class Stakes(Kept):
    """Spreads a stake of 1 over a rollout: 0.4 at once, 0.3 over the later steps, 0.3 over the ticks, so that late onsets are found."""

    def __init__(self, steps: int, planned_ticks: int, rollouts: int) -> None:
        self._by_step, self._by_tick = 0.3 / max(steps - 1, 1), 0.3 / planned_ticks
        self.spent = np.zeros(rollouts)

    def next(self, counted: np.ndarray, new_step: np.ndarray) -> Floats:
        """The stake of this tick; -1 where it does not count."""
        wanted = np.where(self.spent == 0, 0.4, np.where(new_step, self._by_step, 0.0)) + self._by_tick
        stake = np.where(counted, np.minimum(wanted, np.maximum(1.0 - self.spent, 0.0)), -1.0)
        self.spent = self.spent + np.maximum(stake, 0.0)
        return stake


def alternatives(values: Sequence[float], rank: int) -> Floats:
    """`values` on the axis before the last of `rank` axes."""
    return np.asarray(values, dtype=np.float64).reshape((1,) * (rank - 2) + (-1, 1))
