"""One measure before something began and since: both means, and a 95 % interval of what they differ by. Pure.

Minutes of a service resemble their neighbours, so the variance of a mean is that of independent blocks times (1 + r) / (1 - r), with r
the correlation of neighbours (Box and Jenkins, "Time Series Analysis", 2.1.5, for r^k); Welch's interval of two means does the rest.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

LEAST_BLOCKS = 3
"""Of fewer nobody knows how they scatter."""
_MOST_CORRELATION = 0.8
_CONFIDENCE = 0.95
APART = 2.0
"""Every value since is so many times every value before: what goes on growing is more, however much its own trend scatters its mean."""


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean of `blocks` that do not overlap, `error` its standard error, `free` its degrees of freedom."""

    value: float
    error: float
    free: float
    blocks: int


@dataclass(frozen=True, kw_only=True)
class BeforeAfter:
    """Means before and since, in the measure's unit; `low` to `high` holds their true difference (since minus before) in 95 of 100 cases."""

    before: float
    since: float
    low: float
    high: float
    blocks: tuple[int, int]

    @property
    def change(self) -> float:
        return self.since - self.before

    @property
    def ratio(self) -> float:
        """Since by before; 1 where both are zero."""
        return self.since / self.before if self.before else math.inf if self.since else 1.0

    def more(self, by: float, least: float = 0.0) -> bool:
        """At least `by` times as much and `least` more, proven or not."""
        return self.change > 0 and self.ratio >= by and self.change >= least

    def less(self, by: float, least: float = 0.0) -> bool:
        """At most 1/`by` of it and `least` less, proven or not."""
        return self.change < 0 and self.since * by <= self.before and -self.change >= least

    def rose(self, by: float, least: float = 0.0) -> bool:
        """Proven to be more, and so much."""
        return self.low > 0 and self.more(by, least)

    def fell(self, by: float, least: float = 0.0) -> bool:
        """Proven to be less, and so much."""
        return self.high < 0 and self.less(by, least)


def mean(values: Sequence[float]) -> Mean | None:
    """None of fewer than `LEAST_BLOCKS` finite values."""
    kept = np.array([each for each in values if math.isfinite(each)])
    if kept.size < LEAST_BLOCKS:
        return None
    away = kept - kept.mean()
    spread = float(away @ away)
    likeness = float(away[1:] @ away[:-1]) / spread if spread else 0.0
    inflation = (1 + (r := min(max(likeness, 0.0), _MOST_CORRELATION))) / (1 - r)
    free = max(kept.size / inflation - 1, 1.0)
    return Mean(
        value=float(kept.mean()), error=math.sqrt(spread / (kept.size - 1) / kept.size * inflation), free=free, blocks=int(kept.size)
    )


def compared(before: Sequence[float], since: Sequence[float]) -> BeforeAfter | None:
    """None where either has too few values to be compared."""
    first, second = mean(before), mean(since)
    if first is None or second is None:
        return None
    variances = first.error**2, second.error**2
    total = sum(variances)
    free = total**2 / sum(v**2 / m.free for v, m in zip(variances, (first, second), strict=True)) if total else 1.0
    half = float(t.ppf((1 + _CONFIDENCE) / 2, max(free, 1.0))) * math.sqrt(total)
    change = second.value - first.value
    least = apart(before, since)
    return BeforeAfter(
        before=first.value,
        since=second.value,
        low=max(change - half, least) if least else change - half,
        high=change + half,
        blocks=(first.blocks, second.blocks),
    )


def apart(before: Sequence[float], since: Sequence[float]) -> float | None:
    """By how much the least value since is more than the greatest before, where it is `APART` times as much."""
    least, most = (choose(filter(math.isfinite, values)) for choose, values in ((min, since), (max, before)))
    return least - most if least > 0 and least >= APART * most else None
