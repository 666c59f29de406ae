"""When it began: the moment that divides a series best into two levels, of which the later one is the worse. Pure.

The moment is where the sum of squares around both means is least (the least-squares estimate of one change; Bai, "Least squares estimation
of a shift in linear processes", 1994). A median of three takes out minutes that were odd by themselves and keeps steps where they are. What
had begun before the series, or is over, is no change. What grows and grows has no second level: it began where every later value is many times
every earlier one.

A series may hold an incident that is over, which neither hides the next one nor is its calm. So it is first cut into levels, by the least sum
of squares with a price for each cut (optimal partitioning; Jackson and others, "An algorithm for optimal partitioning of data on an interval",
2005), and what came before the last calm is left out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.diagnosis.comparison import APART, LEAST_BLOCKS, mean
from headway.release.evidence.samples import TimedValue

_ERRORS = 5.0
"""Standard errors between both levels: the best of some sixty divisions of smoothed noise has four now and then."""
_PRICE = 130.0
"""Of a cut, in variances between neighbours and by the logarithm of the length: so much that noise whose neighbours resemble each other by 0.5
is cut in a tenth of all hours at most (`tests/unit/diagnosis/test_comparison.py`), and what harms people is many times as much."""
_SMALLER = 0.5586
"""The mean of the nearer four fifths of what is away from zero, in standard deviations of a normal distribution; the rest may be cuts."""

_Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Onset:
    """`time`: Unix seconds of the last sample of before; `calm`: of the first one with which to compare."""

    time: float
    calm: float


def onset(samples: Sequence[TimedValue]) -> Onset | None:
    """None where the series has no such change, or has ended it."""
    finite = [(moment, value) for moment, value in samples if np.isfinite(value)]
    if len(finite) < 2 * LEAST_BLOCKS:
        return None
    smooth = _without_odd(np.array([value for _, value in finite]))
    calm = _last_calm(smooth)
    values = smooth[calm:]
    if len(values) < 2 * LEAST_BLOCKS:
        return None
    if at := _apart(values):
        return Onset(time=finite[calm + at - 1][0], calm=finite[calm][0])
    left = {at: _scatter(values[:at]) + _scatter(values[at:]) for at in range(LEAST_BLOCKS, len(values) - LEAST_BLOCKS + 1)}
    at = min(left, key=lambda each: (left[each], each))
    before, since = mean(values[:at].tolist()), mean(values[at:].tolist())
    if before is None or since is None or since.value - before.value <= _ERRORS * float(np.hypot(before.error, since.error)):
        return None
    return Onset(time=finite[calm + at - 1][0], calm=finite[calm][0])


def _apart(values: _Floats) -> int:
    """The first place from which on every value is many times every earlier one, as where a queue grows and grows; 0 where none is."""
    most, least = np.maximum.accumulate(values)[:-1], np.minimum.accumulate(values[::-1])[::-1][1:]
    found = np.flatnonzero((least > 0) & (least >= APART * most)) + 1
    within = found[(found >= LEAST_BLOCKS) & (found <= len(values) - LEAST_BLOCKS)]
    return int(within[0]) if len(within) else 0


def _last_calm(values: _Floats) -> int:
    """Where the levels begin that lie together in the lower third between the lowest and the present one, the last such; 0 where none do."""
    begins = _levels(values)
    means = [float(values[begin:end].mean()) for begin, end in zip(begins, [*begins[1:], len(values)], strict=True)]
    calm = [each < (2 * min(means) + means[-1]) / 3 for each in means]
    if not any(calm):
        return 0
    last = max(number for number, each in enumerate(calm) if each)
    first = last
    while first > 0 and calm[first - 1]:
        first -= 1
    # The end of an incident may be so short that it shares a level with some of the calm after it.
    after = first + 1
    if first < last and begins[after] < begins[first] + 2 * LEAST_BLOCKS and means[first] > (9 * means[after] + means[-1]) / 10:
        first = after
    return begins[first]


def _levels(values: _Floats) -> list[int]:
    """Where each level begins, of at least `LEAST_BLOCKS` values."""
    steps = np.abs(np.diff(values))
    small = np.sort(steps)[: math.ceil(len(steps) * 0.8)]
    price = _PRICE * np.log(len(values)) * float(small.mean() / _SMALLER) ** 2 / 2
    price = max(price, 1e-9 * float(values @ values))  # what is level but for its last digits is level
    sums, squares = (np.concatenate([[0.0], np.cumsum(each)]) for each in (values, values**2))
    best, cut = np.full(len(values) + 1, np.inf), np.zeros(len(values) + 1, dtype=int)
    best[0] = -price
    for end in range(LEAST_BLOCKS, len(values) + 1):
        begin = np.arange(0, end - LEAST_BLOCKS + 1)
        cost = best[begin] + price + squares[end] - squares[begin] - (sums[end] - sums[begin]) ** 2 / (end - begin)
        cut[end] = int(np.argmin(cost))
        best[end] = cost[cut[end]]
    found, end = list[int](), len(values)
    while end > 0:
        end = int(cut[end])
        found.append(end)
    return found[::-1]


def _without_odd(values: _Floats) -> _Floats:
    smooth = values.copy()
    smooth[1:-1] = np.median([values[:-2], values[1:-1], values[2:]], axis=0)
    return smooth


def _scatter(values: _Floats) -> float:
    return float(((values - values.mean()) ** 2).sum())
