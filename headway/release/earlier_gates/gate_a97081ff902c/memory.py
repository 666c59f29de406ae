"""GPU memory: nearly full, or rising steadily so that it will be soon.

A ramp is three windows in a row that each rise by more than several standard errors, each by about as much as the one before; an
allocator's plateau and a single step are neither. Engines that reserve all memory at start are flat by design; watch the cache's
use instead.
"""

import numpy as np

from headway.release.earlier_gates.gate_a97081ff902c.evidence import ticks_in
from headway.release.earlier_gates.gate_a97081ff902c.state import Stateful
from headway.release.earlier_gates.gate_a97081ff902c.tick import Bools, Floats

_FULL_SCRAPES = 2
_WINDOWS = ((8, 3.5), (16, 3.0))
"""Ticks of a window, and as many minutes at least, and the standard errors by which each must rise."""
_LIKE_THE_ONE_BEFORE = (0.85, 1.6)
_AHEAD_MINUTES = 480.0
_LARGEST_CORRELATION = 0.9


class GpuMemoryUse(Stateful):
    """The largest share in use over the canary's GPUs."""

    def __init__(self, limit: float, tick_minutes: float, rollouts: int) -> None:
        self._limit, self._tick_minutes = limit, tick_minutes
        self._windows = [(max(ticks, ticks_in(ticks, tick_minutes)), sigmas) for ticks, sigmas in _WINDOWS]
        self.full = np.zeros(rollouts, dtype=np.int64)
        self.known = np.zeros(rollouts, dtype=np.int64)
        self.recent = np.zeros((3 * self._windows[-1][0], rollouts))
        """The latest ticks with a value, newest last."""

    def observe(self, used: Floats) -> None:
        """Not-a-number is no value; it neither extends nor breaks anything."""
        there = ~np.isnan(used)
        value = np.where(there, used, 0.0)
        self.full = np.where(there, np.where(value >= self._limit, self.full + 1, 0), self.full)
        moved = np.concatenate([self.recent[1:], value[None]])
        self.recent = np.where(there, moved, self.recent)
        self.known = self.known + there

    def nearly_full(self) -> Bools:
        return self.full >= _FULL_SCRAPES

    def ramp(self) -> Bools:
        """Whether memory rises steadily and will reach the limit within eight hours."""
        found = np.zeros(len(self.known), dtype=bool)
        for ticks, sigmas in self._windows:
            rises, errors = zip(*(self._rise(ticks, back) for back in (2, 1, 0)), strict=True)
            steady = _alike(rises[0], rises[1]) & _alike(rises[1], rises[2])
            for rise, error in zip(rises, errors, strict=True):
                steady &= rise > sigmas * error
            per_minute = rises[2] / (ticks * self._tick_minutes)
            soon = self.recent[-1] + per_minute * _AHEAD_MINUTES >= self._limit
            found |= steady & soon & (self.known >= 3 * ticks)
        return found

    def _rise(self, ticks: int, back: int) -> tuple[Floats, Floats]:
        """Rise over a window by least squares, and its standard error, inflated for correlation from tick to tick."""
        end = len(self.recent) - back * ticks
        window = self.recent[end - ticks : end]
        at = np.arange(ticks) - (ticks - 1) / 2
        spread = float((at**2).sum())
        mean, slope = np.zeros(window.shape[1]), np.zeros(window.shape[1])
        for place, row in zip(at, window, strict=True):
            mean, slope = mean + row / ticks, slope + place * row / spread
        square, lagged, before = np.zeros_like(mean), np.zeros_like(mean), np.zeros_like(mean)
        for place, row in zip(at, window, strict=True):
            residual = row - mean - slope * place
            square, lagged, before = square + residual**2, lagged + residual * before, residual
        correlation = np.clip(lagged / np.maximum(square, 1e-18), 0.0, _LARGEST_CORRELATION)
        error = np.sqrt(square / (ticks - 2) / spread * (1 + correlation) / (1 - correlation))
        return slope * ticks, error * ticks + 1e-9


def _alike(before: Floats, after: Floats) -> Bools:
    return (after >= _LIKE_THE_ONE_BEFORE[0] * before) & (after <= _LIKE_THE_ONE_BEFORE[1] * before)
