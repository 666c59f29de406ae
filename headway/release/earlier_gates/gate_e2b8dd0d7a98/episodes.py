"""Evidence that one node in trouble cannot make.

A version is in all its replicas, all the time; a node's trouble is in one replica, or over after some minutes. So a tick in which more
than one replica answered counts without the replica whose counts say most, and where only one answered, or nobody tells them apart, the
gains of any one episode are left out. Both are the least of e-processes of which one is that of a healthy version, whichever replica and
whichever episode the trouble was in: the null hypothesis is that of the gate, save for one replica in each tick that has others, and save
for one episode of the ticks that have none.
"""

import numpy as np

from headway.release.earlier_gates.gate_e2b8dd0d7a98.evidence import Mixture
from headway.release.earlier_gates.gate_e2b8dd0d7a98.minutes import BadMinutes
from headway.release.earlier_gates.gate_e2b8dd0d7a98.state import Stateful
from headway.release.earlier_gates.gate_e2b8dd0d7a98.tick import Bools, Floats

EPISODE_MINUTES = 11.0
"""The longest trouble of one node that takes nothing back: ten minutes, which may lie across eleven ticks of a minute."""
_LEAST_GAIN = 1e-300


class ButOneEpisode(Stateful):
    """The least that R = (R + w) g would be by now if in any one run of so many ticks it had been R = R + w.

    R grows with what it was before, so the least over all runs that are over takes one number, and only runs that are not over yet are
    remembered one by one. A run counts only if it holds a tick in which one replica answered alone. Rollouts on the last axis.
    """

    def __init__(self, shape: tuple[int, ...], ticks: int) -> None:
        self._ticks = ticks
        self.begun = np.full((ticks, *shape), np.inf)
        """R before the tick in which each run began, less all that had been staked; a ring."""
        self.over = np.full(shape, np.inf)
        """The least over the runs that are over."""
        self.at = np.zeros(1, dtype=np.int64)
        self.staked = np.zeros(shape[-1])
        self.ago = np.full(shape[-1], ticks, dtype=np.int64)
        """Ticks since one replica answered alone."""

    def begin(self, before: Floats, stake: Floats, alone: Bools) -> None:
        """A tick, `before` being R; `stake` is below zero where it is no evidence."""
        place = int(self.at[0]) % self._ticks
        ended = np.minimum(self.over, np.maximum(self.begun[place] + self.staked, 0.0))
        self.over = np.where(self.ago < self._ticks, ended, self.over)
        self.begun[place] = before - self.staked
        self.staked = self.staked + np.maximum(stake, 0.0)
        self.ago = np.where(alone & (stake >= 0), 0, np.minimum(self.ago + 1, self._ticks))
        self.at = self.at + 1

    def follow(self, gains: Floats, stake: Floats) -> None:
        """What the tick multiplies R by."""
        grown = (self.over + np.maximum(stake, 0.0)) * np.maximum(gains, _LEAST_GAIN)
        self.over = np.where(stake >= 0, grown, self.over)

    def least(self) -> Floats:
        """Over all runs."""
        # What was staked since is the same for all runs, so the least of them without it is the least of them with it.
        ages = (int(self.at[0]) - 1 - np.arange(self._ticks)) % self._ticks + 1
        holds = (self.ago < ages[:, None]).reshape(self._ticks, *(1,) * (self.over.ndim - 1), -1)
        least = np.minimum.reduce(np.where(holds, self.begun, np.inf), axis=0)
        return np.minimum(self.over, np.maximum(least + self.staked, 0.0))


class LastingMixture(Mixture):
    """A `Mixture` whose value is that without any one episode. Call `begin` before the gains of a tick."""

    def __init__(self, shape: tuple[int, ...], episode_ticks: int) -> None:
        super().__init__(shape)
        self.episodes = ButOneEpisode(shape, episode_ticks)

    def begin(self, stake: Floats, alone: Bools) -> None:
        """The next tick; `alone`: one replica answered, or nobody tells them apart."""
        self.episodes.begin(self.won, stake, alone)

    def gain(self, gains: Floats, stake: Floats, largest: Floats | float) -> None:
        """As in a `Mixture`."""
        super().gain(gains, stake, largest)
        self.episodes.follow(gains, stake)

    def shown(self) -> Floats:
        """What shows, by alternative."""
        return np.minimum(self.wealth, self.episodes.least())


class LastingBadMinutes(BadMinutes):
    """`BadMinutes` whose value is that without any one episode. Call `begin` before a bet."""

    def __init__(self, rollouts: int, episode_ticks: int) -> None:
        super().__init__(rollouts)
        self.episodes = ButOneEpisode(self.wealth.shape, episode_ticks)

    def begin(self, stake: Floats, alone: Bools) -> None:
        """The next tick."""
        self.episodes.begin(self.wealth, stake, alone)

    def gain(self, gains: Floats, stake: Floats) -> None:
        """As in `BadMinutes`."""
        super().gain(gains, stake)
        self.episodes.follow(gains, stake)

    def shown(self) -> Floats:
        """What shows, by bet."""
        return np.minimum(self.wealth, self.episodes.least())
