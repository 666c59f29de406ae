"""How much more often a request may be slower than a histogram edge, when all requests may be slower by a given share.

Between edges the share of faster requests is taken as linear in (logarithm of the edge, normal quantile): exact for a lognormal. The
answer rests on the control's own histogram, so that is remembered from the past only, never from the tick being judged.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from headway.release.gate.state import Stateful
from headway.release.gate.tick import Floats, Ints, within

_SMALLEST = 1e-7
_LARGEST_RATIO = 1e4
_HALF_LIFE_MINUTES = 10.0
_REMEMBERED_REQUESTS = 3000.0
"""Forgetting never takes the memory of a class below this many requests: a quiet service keeps hours, a busy one minutes."""


class LatencyTail:
    """Tail masses S(b) at the edges of one histogram, and their ratios under a slow-down. Edges must be positive and ascend."""

    def __init__(self, edges: Sequence[float]) -> None:
        if len(edges) < 2 or not all(map(math.isfinite, edges)) or any(b <= a for a, b in itertools.pairwise(edges)) or edges[0] <= 0:
            wanted = "Give at least two, ascending, without infinity"
            raise ValueError(f"edges {tuple(edges)} do not ascend from above zero. Tails cannot be compared. {wanted}")
        self.edges = tuple(map(float, edges))
        self._logs = np.log(np.asarray(self.edges))
        self._places: dict[tuple[float, ...], tuple[Ints, Floats]] = {}

    def masses(self, buckets: Floats) -> Floats:
        """Share of requests above each edge: (classes, buckets, n) to (classes, edges, n); 0 without requests."""
        tails = self.counts(buckets)
        totals = tails[:, :1] + buckets[:, :1]
        return np.divide(tails, totals, out=np.zeros_like(tails), where=totals > 0)

    def counts(self, buckets: Floats) -> Floats:
        """Requests above each edge."""
        tails = np.empty((buckets.shape[0], len(self.edges), buckets.shape[2]))
        np.add.accumulate(buckets[:, :0:-1], axis=1, out=tails[:, ::-1])
        return tails

    def ratio(self, quantiles: Floats, masses: Floats, slowdown: float) -> Floats:
        """S(b / (1 + slowdown)) / S(b) at each edge, between 1 and 10,000."""
        return self.ratios(quantiles, masses, (slowdown,))[:, :, 0]

    def ratios(self, quantiles: Floats, masses: Floats, slowdowns: tuple[float, ...]) -> Floats:
        """The same for several: (classes, edges, slow-downs, n)."""
        low, part = self._before(slowdowns)
        moved = quantiles[:, low] * (1 - part) + quantiles[:, low + 1] * part
        slower = within(ndtr(-moved), _SMALLEST, 1 - _SMALLEST)
        return within(slower / within(masses, _SMALLEST, 1 - _SMALLEST)[:, :, None], 1.0, _LARGEST_RATIO)

    def bound(self, masses: Floats, slowdown: float) -> Floats:
        """The most that `ratio` can be, wherever in its bucket a request lies: as if all of it lay just below the edge."""
        below = self.earlier(slowdown)
        slower = np.where((below >= 0)[:, None], masses[:, np.maximum(below, 0)], 1.0)
        return within(slower / within(masses, _SMALLEST, 1.0), 1.0, _LARGEST_RATIO)

    def earlier(self, slowdown: float) -> Ints:
        """For each edge, the last one that is earlier by the slow-down at least; -1 for none. What takes longer than the edge because it is so
        much slower took longer than that one before."""
        return np.searchsorted(self._logs, self._logs - math.log1p(slowdown), side="right") - 1

    def _before(self, slowdowns: tuple[float, ...]) -> tuple[Ints, Floats]:
        """For each edge and slow-down, where between which two edges b / (1 + slowdown) lies: the lower one, and the part of the way to the
        next."""
        if slowdowns not in self._places:
            at = self._logs[:, None] - np.asarray([math.log1p(each) for each in slowdowns])
            low = np.clip(np.searchsorted(self._logs, at, side="right") - 1, 0, len(self._logs) - 2)
            part = (at - self._logs[low]) / (self._logs[low + 1] - self._logs[low])
            self._places[slowdowns] = low, part[..., None]
        return self._places[slowdowns]

    def quantiles(self, masses: Floats) -> Floats:
        """Normal quantiles of the share of faster requests."""
        return ndtri(1 - within(masses, _SMALLEST, 1 - _SMALLEST))


class ControlHistogram(Stateful):
    """The control's histogram, old ticks fading: (classes, buckets, n)."""

    def __init__(self, classes: int, buckets: int, rollouts: int, tick_minutes: float = 1.0) -> None:
        self._fading = 0.5 ** (tick_minutes / _HALF_LIFE_MINUTES)
        self.buckets = np.zeros((classes, buckets, rollouts))

    def remember(self, buckets: Floats) -> None:
        """Add the counts of a tick that has been judged."""
        totals = self.buckets[:, 0].copy()
        for bucket in range(1, self.buckets.shape[1]):
            totals += self.buckets[:, bucket]
        keep = within(_REMEMBERED_REQUESTS / np.maximum(totals, 1.0), self._fading, 1.0)
        self.buckets = self.buckets * keep[:, None] + buckets
