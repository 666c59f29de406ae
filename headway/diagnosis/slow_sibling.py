"""Whether one replica's GPU is slower than those of its siblings: an anytime-valid test on windows of time. Pure.

Siblings are replicas of one version on one pool, so of one kind and slice of GPU. In each window a replica is compared with each of the
others: by how much its time is longer, as a logarithm, less what its larger work (batch, tokens, cache, request) explains at most. A step
takes longer with more work, and at most in proportion, so `excess` never accuses a replica of what it was given to do. What counts is the
lower middle of these comparisons: half of the siblings must be faster, and a single odd one is nobody's measure.

The null hypothesis is about persistence, because noise lasts and its distribution is unknown: whatever happened, with probability `ABOVE`
at most the next window lies above a + `KEPT` (y - a), where y is the present excess above the tolerance a. For Gaussian noise of first
order with correlation r <= `KEPT` and standard deviation s about a healthy level m the worst case is y = a, with probability Q((a - m) / s
sqrt((1 - r) / (1 + r))): 0.235 for a = 1.25 s and m = 0. a is never less than 1.25 deviations of neighbours' differences, which are s
sqrt(2 (1 - r)) >= s (Box and Jenkins, "Time Series Analysis", 3.2.3), as far as those are known from the past, nor than `TOLERATED`. Then
each bet's factor, 1 + b (1 / ABOVE - 1) on a window above and 1 - b on another, has a mean of 1 at most given the past, so wealth less what
was staked is a supermartingale: with a stake of one over the windows of a year in each, P(wealth ever reaches L within T years) <= T / L
(Ville). L is `LEAST_PROOF` times the node's replicas, so all of a node's replicas, looks and bets together are falsely accused with a
probability of 1 % a year. What shows never exceeds wealth and grows by a bounded factor: nobody, however slow, is accused within
`LEAST_WINDOWS`, six and a half minutes, for what is over by then is no GPU's fault.

It cannot see a replica without siblings, nor all of them slow together; and of two nobody knows which one is odd. Time that grows faster than
in proportion with a request (attention over long inputs) and is dealt out unevenly for long looks like a slow GPU.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headway.release.evaluation.lifelong import FALSE_ALARM, LifelongEvidence, begun, observed

Floats = NDArray[np.float64]

WINDOW_SECONDS = 15
"""As often as Prometheus reads."""
TOLERATED = 0.06
"""Logarithm: healthy siblings differ by less."""
KEPT = 0.5
"""Of what is above the tolerance, as much may be expected to be there in the next window."""
ABOVE = 0.25
WARM_UP_WINDOWS = 20
"""A replica's first five minutes are not judged, and are no measure for others; its noise is learned."""
LEAST_SIBLINGS = 3
"""Of fewer replicas nobody can say which is the odd one."""
LEAST_PROOF = 1 / FALSE_ALARM
_MOST = 1e4 * LEAST_PROOF
"""More is not remembered, so that a GPU that is as fast as others again is cleared in minutes."""
_BETS = np.asarray([0.4, 0.65, 0.85])
_SPREAD = 1.25
_NOISE_AT_FIRST = 0.06**2
_LEARNED = 0.02
"""Part of the noise that a window tells: it is that of the last quarter of an hour."""
_LARGEST_STEP = 0.2
"""No larger difference counts as noise, or a fault would hide behind its own beginning."""
_SMOOTHED = 0.1
YEAR = 365 * 86400
_STAKE = WINDOW_SECONDS / YEAR
LEAST_WINDOWS = 26
_SHOWS = math.exp(math.log(LEAST_PROOF / _STAKE) / LEAST_WINDOWS)
"""What a window may multiply visible evidence by; what is beyond shows later, unless windows speak against it, as in the release gate."""
_KEPT_BACK = 8.0
"""Of what shows, the most that is beyond: what is over is not accused afterwards."""


@dataclass(frozen=True, kw_only=True)
class SiblingEvidence:
    """Of many replicas at once. `shown`: of the wealth; `last`: excess of the newest window; `noise`: variance of differences; `size`: logarithms
    of what each was given to do, smoothed, measures on the last axis; `seen`: windows."""

    wealth: LifelongEvidence
    shown: Floats
    last: Floats
    noise: Floats
    size: Floats
    seen: Floats

    @property
    def value(self) -> Floats:
        """What shows; to be compared with `LEAST_PROOF` times the replicas on the node."""
        return self.shown

    @property
    def tolerance(self) -> Floats:
        """Logarithm of how much longer it may take."""
        return np.maximum(TOLERATED, _SPREAD * np.sqrt(self.noise))


def sibling_evidence(shape: tuple[int, ...], measures: int) -> SiblingEvidence:
    """Nothing seen yet."""
    return SiblingEvidence(
        wealth=begun(len(_BETS), shape),
        shown=np.zeros(shape),
        last=np.zeros(shape),
        noise=np.full(shape, _NOISE_AT_FIRST),
        size=np.full((*shape, measures), np.nan),
        seen=np.zeros(shape),
    )


def watched(before: SiblingEvidence, times: Floats, sizes: Floats) -> SiblingEvidence:
    """After one more window of siblings, which are the last axis of `times` (any unit; not-a-number: not to be judged). `sizes`: what each was
    given, measures on the last axis; not-a-number where nobody measures it."""
    given = np.log(np.where(sizes > 0, sizes, np.nan))
    size = np.where(np.isnan(before.size), given, np.where(np.isnan(given), before.size, before.size + _SMOOTHED * (given - before.size)))
    warm = before.seen >= WARM_UP_WINDOWS
    found = excess(times, size, warm)
    known = np.isfinite(found)
    judged = known & warm
    tolerance = before.tolerance
    above = found > tolerance + KEPT * np.maximum(before.last - tolerance, 0.0)
    factors = np.where(judged[..., None], 1 + _BETS * (above[..., None] / ABOVE - 1), 1.0)
    step = np.minimum(np.abs(found - before.last), _LARGEST_STEP)
    learned = before.noise + _LEARNED * (step**2 - before.noise)
    wealth = observed(before.wealth, factors, _STAKE)
    total = wealth.wealth.sum(axis=-1)
    shown = np.where(judged, np.minimum(np.minimum(total, (before.shown + _STAKE) * _SHOWS), _MOST), before.shown)
    kept = np.minimum(1.0, _KEPT_BACK * shown / np.maximum(total, np.finfo(float).tiny))
    wealth = replace(wealth, wealth=np.where(judged[..., None], wealth.wealth * kept[..., None], wealth.wealth))
    return SiblingEvidence(
        wealth=wealth,
        shown=shown,
        last=np.where(known, found, before.last),
        noise=np.where(known & (before.seen > 0), learned, before.noise),
        size=size,
        seen=before.seen + np.isfinite(times),
    )


def excess(times: Floats, size: Floats, warm: NDArray[np.bool_]) -> Floats:
    """Logarithm of how much longer each takes than its siblings that are `warm`, beyond what its `size` explains; not-a-number without any."""
    logs = np.log(np.where(times > 0, times, np.nan))
    longer = logs[..., :, None] - logs[..., None, :]
    larger = np.nan_to_num(size[..., :, None, :] - size[..., None, :, :]).max(axis=-1, initial=0.0)
    replicas = np.arange(times.shape[-1])
    others = warm[..., None, :] & (replicas[:, None] != replicas)
    each = np.sort(np.where(others, longer - larger, np.nan), axis=-1)
    count = np.isfinite(each).sum(axis=-1, keepdims=True)
    return np.take_along_axis(each, np.maximum((count - 1) // 2, 0), axis=-1)[..., 0]
