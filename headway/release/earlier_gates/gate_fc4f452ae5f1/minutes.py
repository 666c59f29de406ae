"""Minutes as such: that bad ones come again and again, and that the latest ones look bad.

Harm that comes and goes is worn down where good minutes count against it in full. Here a minute is a bet of a small share of the wealth
on its own e-value, so that a good minute costs that share at most, however much traffic it had.
"""

import numpy as np

from headway.release.earlier_gates.gate_fc4f452ae5f1.evidence import LARGEST_GAIN, Flags
from headway.release.earlier_gates.gate_fc4f452ae5f1.state import Stateful
from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import Bools, Floats, within

_BETS = (0.05, 0.2)
"""Shares of the wealth that a minute is given; both are played with half of the stake."""
_LARGEST_RECENT = 12.0
"""Logarithm of the most that the latest minutes are remembered for."""


class BadMinutes(Stateful):
    """W = (W + w) (1 + b (min(e, 1 + (largest - 1) / b) - 1)): an e-process for every e whose mean, given the past, is 1 at most.

    Its mean over the bets is the evidence; no minute multiplies it by more than `largest`.
    """

    def __init__(self, rollouts: int) -> None:
        self.wealth = np.zeros((len(_BETS), rollouts))

    def bet(self, value: Floats, stake: Floats, largest: Floats | float = LARGEST_GAIN) -> None:
        """`value`: e-value of the tick alone. `stake`: new weight, whose sum is 1 at most; below zero the tick is no evidence."""
        self.gain(np.minimum(1.0 + np.asarray(_BETS)[:, None] * (value - 1.0), largest), stake)

    def gain(self, gains: Floats, stake: Floats) -> None:
        """What the tick multiplies the wealth of each bet by."""
        self.wealth = np.where(stake >= 0, (self.wealth + np.maximum(stake, 0.0)) * gains, self.wealth)

    def shown(self) -> Floats:
        """What shows, by bet."""
        return self.wealth

    def value(self) -> Floats:
        shown = self.shown()
        total = shown[0].copy()
        for row in shown[1:]:
            total += row
        return total / len(_BETS)


class Recent(Stateful):
    """Log evidence of the latest minutes, which never falls below nothing, so that an onset shows at once (Page's CUSUM).

    It will reach any height by luck some day. So it may hold a rollout, and never rolls one back.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.logs = np.zeros(shape)

    def add(self, logs: Floats, counts: Bools) -> None:
        self.logs = np.where(counts, within(self.logs + logs, 0.0, _LARGEST_RECENT), self.logs)

    def restart(self, where: Flags) -> None:
        self.logs = np.where(where, 0.0, self.logs)
