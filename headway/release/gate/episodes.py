"""Evidence that one node in trouble cannot make.

A version is in all its replicas, all the time; a node's trouble is in one replica, or over after some minutes. So where more than one
replica answered, what counts is the evidence without one of them, the same for some minutes; and where only one answered, or nobody tells
them apart, the gains of any one episode are left out. Both are the least of e-processes of which one is that of a healthy version,
whichever replica and whichever episode the trouble was in: the null hypothesis is that of the gate, save for one replica in each block of
ticks that have others, and save for one episode of the ticks that have none.
"""

import numpy as np

from headway.release.gate.evidence import Mixture
from headway.release.gate.minutes import BadMinutes
from headway.release.gate.replicas import MOST_REPLICAS
from headway.release.gate.state import Stateful
from headway.release.gate.tick import Bools, Floats

EPISODE_MINUTES = 11.0
"""The longest trouble of one node that takes nothing back: ten minutes, which may lie across eleven ticks of a minute. And for how long
it is the same replica whose counts are left out: chosen anew in each tick, it takes most of what noisy counts show of all of them."""
_LEAST_GAIN = 1e-300


class ButOneReplica(Stateful):
    """The least that R = (R + w) g would be by now without one replica, the same in each block of so many ticks.

    R grows with what it was before. So R without each is followed through a block, and the least of them goes on into the next: that is
    the least over every choice of one replica a block. Replicas on the first axis, rollouts on the last.
    """

    def __init__(self, shape: tuple[int, ...], ticks: int, begins: float = 0.0) -> None:
        self._ticks = ticks
        self.without = np.full((MOST_REPLICAS, *shape), begins)
        self.at = np.zeros(1, dtype=np.int64)

    @property
    def _same(self) -> bool:
        """Whether all rows are one in memory."""
        return self.without.strides[0] == 0

    def begin(self, alone: Bools, anew: bool) -> None:
        """A tick. A block also ends where one replica answers `alone`, and, `anew`, where a row is another replica's than before."""
        if not self._same and (anew or int(self.at[0]) % self._ticks == 0 or alone.all()):
            self.without = np.broadcast_to(self.least(), self.without.shape)
        elif not self._same and alone.any():
            self.without = np.where(alone, self.least(), self.without)
        self.at = self.at + 1

    def follow(self, gains: Floats, stake: Floats) -> None:
        """What the tick multiplies R by without each replica that there is; in one row where that is the same for all."""
        counts, new = stake >= 0, np.maximum(stake, 0.0)
        if len(gains) == 1:
            self.without = np.broadcast_to(np.where(counts, (self.without[0] + new) * gains[0], self.without[0]), self.without.shape)
        else:  # the last row says what a replica says that answered nothing
            each = gains[np.minimum(np.arange(MOST_REPLICAS), len(gains) - 1)]
            self.without = np.where(counts, (self.without + new) * each, self.without)

    def take(self, values: Floats) -> None:
        """Go on from no more than these."""
        if self._same:
            self.without = np.broadcast_to(np.minimum(self.without[0], values), self.without.shape)
        else:
            self.without = np.minimum(self.without, values)

    def least(self) -> Floats:
        """Over all replicas."""
        return self.without[0] if self._same else self.without.min(axis=0)


class ButOneEpisode(Stateful):
    """The least that R = (R + w) g would be by now if in any one run of so many ticks it had been R = R + w.

    R grows with what it was before, so the least over all runs that are over is followed as one, and only runs that are not over yet are
    remembered one by one. A run counts only if it holds a tick in which one replica answered alone. Rollouts on the last axis.
    """

    def __init__(self, shape: tuple[int, ...], ticks: int) -> None:
        self._ticks = ticks
        self.begun = np.full((ticks, *shape), np.inf)
        """R before the tick in which each run began, less all that had been staked; a ring."""
        self.over = ButOneReplica(shape, ticks, np.inf)
        """The least over the runs that are over."""
        self.at = np.zeros(1, dtype=np.int64)
        self.staked = np.zeros(shape[-1])
        self.ago = np.full(shape[-1], ticks, dtype=np.int64)
        """Ticks since one replica answered alone."""

    def begin(self, before: Floats, stake: Floats, alone: Bools, anew: bool = False) -> None:
        """A tick, `before` being R; `stake` is below zero where it is no evidence."""
        place = int(self.at[0]) % self._ticks
        self.over.begin(alone, anew)
        ended = np.where(self.ago < self._ticks, np.maximum(self.begun[place] + self.staked, 0.0), np.inf)
        self.over.take(ended)
        self.begun[place] = before - self.staked
        self.staked = self.staked + np.maximum(stake, 0.0)
        self.ago = np.where(alone & (stake >= 0), 0, np.minimum(self.ago + 1, self._ticks))
        self.at = self.at + 1

    def follow(self, gains: Floats, stake: Floats) -> None:
        """What the tick multiplies R by without each replica."""
        self.over.follow(np.maximum(gains, _LEAST_GAIN), stake)

    def least(self) -> Floats:
        """Over all runs."""
        # What was staked since is the same for all runs, so the least of them without it is the least of them with it.
        ages = (int(self.at[0]) - 1 - np.arange(self._ticks)) % self._ticks + 1
        over = self.over.least()
        holds = (self.ago < ages[:, None]).reshape(self._ticks, *(1,) * (over.ndim - 1), -1)
        least = np.minimum.reduce(np.where(holds, self.begun, np.inf), axis=0)
        return np.minimum(over, np.maximum(least + self.staked, 0.0))


class LastingMixture(Mixture):
    """A `Mixture` whose value is that without one replica a block, and without any one episode of a lone one. Call `begin` before the
    gains of a tick, which have replicas on the first axis: what it is worth without each."""

    def __init__(self, shape: tuple[int, ...], episode_ticks: int) -> None:
        super().__init__(shape)
        self.others, self.episodes = ButOneReplica(shape, episode_ticks), ButOneEpisode(shape, episode_ticks)

    def begin(self, stake: Floats, alone: Bools, anew: bool) -> None:
        """The next tick; `alone`: one replica answered, or nobody tells them apart; `anew`: a row is another
        replica's than before."""
        self.others.begin(alone, anew)
        self.episodes.begin(self.won, stake, alone, anew)

    def gain(self, gains: Floats, stake: Floats, largest: Floats | float) -> None:
        """As in a `Mixture`."""
        self.others.follow(gains, stake)
        self.won = self.others.least()
        self.wealth = np.where(stake >= 0, np.minimum(self.won, (self.wealth + np.maximum(stake, 0.0)) * largest), self.wealth)
        self.episodes.follow(gains, stake)

    def shown(self) -> Floats:
        """What shows, by alternative."""
        return np.minimum(self.wealth, self.episodes.least())


class LastingBadMinutes(BadMinutes):
    """`BadMinutes` in the same way."""

    def __init__(self, rollouts: int, episode_ticks: int) -> None:
        super().__init__(rollouts)
        shape = self.wealth.shape
        self.others, self.episodes = ButOneReplica(shape, episode_ticks), ButOneEpisode(shape, episode_ticks)

    def begin(self, stake: Floats, alone: Bools, anew: bool) -> None:
        """The next tick."""
        self.others.begin(alone, anew)
        self.episodes.begin(self.wealth, stake, alone, anew)

    def gain(self, gains: Floats, stake: Floats) -> None:
        """As in `BadMinutes`."""
        self.others.follow(gains, stake)
        self.wealth = self.others.least()
        self.episodes.follow(gains, stake)

    def shown(self) -> Floats:
        """What shows, by bet."""
        return np.minimum(self.wealth, self.episodes.least())
