"""How much more two arms of the same version differ than counting alone explains, and the discount that follows.

Pods differ a little from minute to minute, and more traffic does not average that out. Baseline and stable run the same version, so
what they differ by beyond counting noise is measured from them, per class and edge, on past ticks only; before there is such a
measurement, an assumed noise stands in. Evidence is then raised to the power 1 / phi, phi = 1 + events * variance (quasi-likelihood); the
power is never above 1, so validity only gains. The trap: a lasting difference between baseline and stable (a cold cache) is not noise,
so each is compared with its own past ratio.
"""

import numpy as np

from headway.release.earlier_gates.gate_fc4f452ae5f1.state import Stateful
from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import Floats

_PRIOR_TICKS = 5.0
"""How many ticks of measurement the assumed noise is worth."""


class Noise(Stateful):
    """Measured extra variance of the log ratio of two small arms, for counts of any leading shape (..., n)."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.excess = np.zeros(shape)
        self.exposure = np.zeros(shape)
        self.seen = np.zeros(shape)
        self.expected = np.zeros(shape)

    def phi(self, share: Floats, n: Floats, n_control: Floats, assumed: Floats | float) -> Floats:
        """Dispersion of a comparison of `n` with `n_control` requests of which about `share` are bad; `assumed`: variance before data."""
        events = share * n * n_control / np.maximum(n + n_control, 1.0)
        prior = _PRIOR_TICKS * np.maximum(events, 1e-9)
        variance = np.maximum((prior * assumed + self.excess) / (prior + self.exposure), 0.0)
        return 1.0 + events * variance

    def learn(self, bad: Floats, n: Floats, bad_stable: Floats, n_stable: Floats) -> None:
        """Compare the baseline with stable, once their tick has been judged."""
        share = (bad_stable + 0.5) / (n_stable + 1.0)
        ratio = (self.seen + 2.0) / (self.expected + 2.0)
        expected = n * share * ratio
        usable = (n > 0) & (n_stable > 0) & (expected >= 1.0) & (bad_stable >= 5.0)
        variance = expected + expected * expected / np.maximum(bad_stable, 1.0)
        surprise = np.minimum((bad - expected) ** 2 / np.maximum(variance, 1e-9), 50.0)
        weight = np.where(usable, expected / (1.0 + expected), 0.0)
        events = 1.0 / (1.0 / np.maximum(expected, 1e-9) + 1.0 / np.maximum(bad_stable, 1e-9))
        self.excess = self.excess + weight * (surprise - 1.0) * 2.0
        self.exposure = self.exposure + weight * events
        self.seen = self.seen + np.where(n_stable > 0, bad, 0.0)
        self.expected = self.expected + np.where(n_stable > 0, n * share, 0.0)
