"""GPU memory beside the control's: beyond the contract's limit, or rising steadily so that it will be soon.

That it is beyond the limit, and the control's is not, is measured and no estimate, so it takes nothing of the budget of false rollbacks.
A ramp is three windows in a row in which memory rises above the control's by more than several standard errors, each time by about as
much as the time before. No test tells a leak from an allocator that reaches its plateau slowly before the plateau is reached, so a ramp
holds a version and takes nothing back. Engines that reserve all memory at start are flat by design; watch the cache's use instead.
"""

import numpy as np

from headway.release.earlier_gates.gate_fc4f452ae5f1.evidence import ticks_in
from headway.release.earlier_gates.gate_fc4f452ae5f1.state import Stateful
from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import Bools, Floats

_FULL_TICKS = 2
_AS_FULL = 0.05
"""Share of the memory by which the control may lie below the limit and still counts as just as full."""
_WINDOWS = ((8, 3.5), (16, 3.0))
"""Ticks of a window, and as many minutes at least, and the standard errors by which each must rise."""
_LIKE_THE_ONE_BEFORE = (0.85, 1.6)
_AHEAD_MINUTES = 480.0
_LARGEST_CORRELATION = 0.9


class GpuMemoryUse(Stateful):
    """The largest share in use over the canary's GPUs, and over the control's."""

    def __init__(self, limit: float, tick_minutes: float, rollouts: int) -> None:
        self._limit, self._tick_minutes = limit, tick_minutes
        self._windows = [(max(ticks, ticks_in(ticks, tick_minutes)), sigmas) for ticks, sigmas in _WINDOWS]
        self.full, self.alone = np.zeros(rollouts, dtype=np.int64), np.zeros(rollouts, dtype=np.int64)
        """Ticks in a row at the limit: while the control is not; while nobody knows of the control."""
        self.known = np.zeros(rollouts, dtype=np.int64)
        """Ticks that are remembered, all with the control's memory or all without."""
        self.compared = np.zeros(rollouts, dtype=bool)
        self.latest = np.zeros(rollouts)
        self.recent = np.zeros((3 * self._windows[-1][0], rollouts))
        """What the canary had more than the control in the latest ticks with a value, newest last."""

    def observe(self, used: Floats, control: Floats) -> None:
        """Not-a-number is no value; it neither extends nor breaks anything."""
        there, compared = ~np.isnan(used), ~np.isnan(control)
        value, beside = np.where(there, used, 0.0), np.where(compared, control, 0.0)
        at_limit = value >= self._limit
        self.full = np.where(there & compared, np.where(at_limit & (beside < self._limit - _AS_FULL), self.full + 1, 0), self.full)
        self.alone = np.where(there, np.where(at_limit & ~compared, self.alone + 1, 0), self.alone)
        self.known = np.where(there & (compared != self.compared), 0, self.known) + there
        self.compared = np.where(there, compared, self.compared)
        self.recent = np.where(there, np.concatenate([self.recent[1:], (value - beside)[None]]), self.recent)
        self.latest = np.where(there, value, self.latest)

    def beyond(self) -> Bools:
        """Whether memory is at its limit, and the control's is not."""
        return self.full >= _FULL_TICKS

    def suspect(self) -> Bools:
        """Whether it may become a failure: a ramp, or a limit that is reached while nobody knows of the control."""
        return ~self.beyond() & (self.ramp() | (self.alone >= _FULL_TICKS))

    def ramp(self) -> Bools:
        """Whether memory rises steadily beside the control's, and will reach the limit within eight hours."""
        found = np.zeros(len(self.known), dtype=bool)
        for ticks, sigmas in self._windows:
            rises, errors = zip(*(self._rise(ticks, back) for back in (2, 1, 0)), strict=True)
            steady = _alike(rises[0], rises[1]) & _alike(rises[1], rises[2])
            for rise, error in zip(rises, errors, strict=True):
                steady &= rise > sigmas * error
            per_minute = rises[2] / (ticks * self._tick_minutes)
            soon = self.latest + per_minute * _AHEAD_MINUTES >= self._limit
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
