"""When it began: the moment that divides a series best into two levels, of which the later one is the worse. Pure.

The moment is where the sum of squares around both means is least (the least-squares estimate of one change; Bai, "Least squares estimation
of a shift in linear processes", 1994). A median of three takes out minutes that were odd by themselves and keeps steps where they are. What
had begun before the series, or is over, is no change.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headway.diagnosis.comparison import LEAST_BLOCKS, mean
from headway.release.evidence.samples import TimedValue

_ERRORS = 5.0
"""Standard errors between both levels: the best of some sixty divisions of smoothed noise has four now and then."""


def onset(samples: Sequence[TimedValue]) -> float | None:
    """Unix seconds of the last sample of before; None where the series has no such change."""
    finite = [(moment, value) for moment, value in samples if np.isfinite(value)]
    if len(finite) < 2 * LEAST_BLOCKS:
        return None
    values = _without_odd(np.array([value for _, value in finite]))
    left = {at: _scatter(values[:at]) + _scatter(values[at:]) for at in range(LEAST_BLOCKS, len(values) - LEAST_BLOCKS + 1)}
    at = min(left, key=lambda each: (left[each], each))
    before, since = mean(values[:at].tolist()), mean(values[at:].tolist())
    if before is None or since is None or since.value - before.value <= _ERRORS * float(np.hypot(before.error, since.error)):
        return None
    return finite[at - 1][0]


def _without_odd(values: NDArray[np.float64]) -> NDArray[np.float64]:
    smooth = values.copy()
    smooth[1:-1] = np.median([values[:-2], values[1:-1], values[2:]], axis=0)
    return smooth


def _scatter(values: NDArray[np.float64]) -> float:
    return float(((values - values.mean()) ** 2).sum())
