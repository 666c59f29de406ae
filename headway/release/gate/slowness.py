"""The evidence that one histogram holds against the canary, however the tick's likelihood ratios were counted."""

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from headway.release.gate.episodes import LastingBadMinutes, LastingMixture
from headway.release.gate.evidence import Mixture, TickStake, mean_exp
from headway.release.gate.state import Stateful
from headway.release.gate.tick import Bools, Floats, over_classes

_GROSS = 2
"""From this alternative on a slow-down is one that may show in a minute."""
_OF_MINUTES = 0.25
"""Share of the evidence that is about bad minutes as such."""
_OF_CROSSED = 0.25
"""Share of the rest that compares the tail above an edge with the control's above an earlier one."""

Kind = TypeVar("Kind", bound=Mixture)


class Slowness(Stateful, Generic[Kind]):
    """E-processes by edge: of each class, of all together, against the most that a peak explains, and against an earlier edge. Of all requests,
    for what holds."""

    def __init__(
        self,
        shape: tuple[int, int],
        alternatives: tuple[int, int],
        crossed: tuple[int, int],
        rollouts: int,
        mixture: Callable[[tuple[int, ...]], Kind],
    ) -> None:
        """`shape`: classes and edges. `alternatives`: how many, and how many beyond the bound. `crossed`: pairs of edges and alternatives."""
        of_tick, beyond = alternatives
        self.by_class = mixture((*shape, of_tick, rollouts))
        self.together = mixture((shape[1], of_tick, rollouts))
        self.bounded = mixture((shape[1], beyond, rollouts))
        """Of all classes, against the most that the tail above an edge can grow, wherever requests lie within its bucket."""
        self.crossed = mixture((*crossed, rollouts))
        """Of all classes, the tail above an edge against the control's above an earlier one."""

    def compare(self, logs: Floats, together: Floats, at: TickStake) -> None:
        """Log likelihood ratios: (classes, edges, alternatives, rollouts), and of all classes together; of `LastingSlowness` without each
        replica, on the first axis."""
        self.by_class.update(logs, at.stake, at.largest, at.worth)
        self.together.update(together, at.stake, at.largest, at.worth)

    def compare_bound(self, together: Floats, at: TickStake) -> None:
        """The same of the alternatives beyond the bound."""
        self.bounded.update(together, at.stake, at.largest, at.worth)

    def compare_crossed(self, together: Floats, at: TickStake) -> None:
        """The same of pairs of edges."""
        self.crossed.update(together, at.stake, at.largest, at.worth)

    def evidence(self, judged: Bools, crossing: Bools) -> Floats:
        """Against the canary, though requests may lie anywhere within the bucket below one edge, whichever it is. `judged`: which edges of
        which class are. `crossing`: which pairs of edges.

        Leaving out an edge, and asking there only for more than the bound, gives an e-process for a histogram whose peak lies just below
        it; the least over edges is one for a peak below any of them.
        """
        wealth, chosen, bounded = *self._groups(judged), self.bounded.value()
        total, edges = np.zeros_like(wealth), chosen.sum(axis=1, keepdims=True) - chosen
        for edge in range(len(bounded)):
            total[:, :edge] += wealth[:, edge, None]
            total[:, edge + 1 :] += wealth[:, edge, None]
        whole: Bools = np.logical_or.reduce(judged, axis=0)
        without = over_classes(total / np.maximum(edges, 1.0)) + np.where(whole, bounded, 0.0)
        without = without / np.maximum(over_classes((edges > 0).astype(np.float64)) + whole, 1.0)
        least = np.where(whole, without, np.inf).min(axis=0)
        pairs = over_classes(self.crossed.value() * crossing) / np.maximum(over_classes(crossing.astype(np.float64)), 1.0)
        return (1 - _OF_CROSSED) * np.where(np.isfinite(least), least, 0.0) + _OF_CROSSED * pairs

    def anywhere(self, judged: Bools) -> Floats:
        """Against the canary if requests lie evenly within every bucket: mean over classes, and all classes together, of the mean over
        their edges."""
        wealth, chosen = self._groups(judged)
        edges = np.stack([over_classes(group) for group in chosen])
        means = np.stack([over_classes(group) for group in wealth]) / np.maximum(edges, 1.0)
        return over_classes(means) / np.maximum(over_classes((edges > 0).astype(np.float64)), 1.0)

    def _groups(self, judged: Bools) -> tuple[Floats, Floats]:
        """Of all classes together, then of each: the evidence by edge, zero where it was not chosen, and which were: 1."""
        whole: Bools = np.logical_or.reduce(judged, axis=0)
        chosen = np.concatenate([whole[None], judged]).astype(np.float64)
        return np.concatenate([self.together.value()[None], self.by_class.value()]) * chosen, chosen


class LastingSlowness(Slowness[LastingMixture]):
    """The same without the gains of any one episode, and with bad minutes as such. Call `begin` before the alternatives of a tick."""

    def __init__(
        self, shape: tuple[int, int], alternatives: tuple[int, int], crossed: tuple[int, int], rollouts: int, episode_ticks: int
    ) -> None:
        super().__init__(shape, alternatives, crossed, rollouts, lambda each: LastingMixture(each, episode_ticks))
        self.bad_minutes = LastingBadMinutes(rollouts, episode_ticks)

    def begin(self, at: TickStake, alone: Bools, anew: bool) -> None:
        """The next tick; `alone`: one replica answered, or nobody tells them apart; `anew`: a row is
        another replica's than before."""
        for part in (self.by_class, self.together, self.bounded, self.crossed):
            part.begin(at.stake, alone, anew)
        self.bad_minutes.begin(_stake_of_minute(at), alone, anew)

    def judge_minute(self, logs: Floats, judged: Bools, at: TickStake) -> None:
        """The tick by itself, by (edges, alternatives, rollouts) of all classes together: without the edge that says most, because a peak
        of the histogram may lie just below it."""
        anywhere: Bools = np.logical_or.reduce(judged, axis=0)
        edges = np.maximum(over_classes(anywhere.astype(np.float64)) - 1, 1.0)
        values = [np.where(anywhere, mean_exp(each[:, _GROSS:]), 0.0) for each in logs]
        without = np.stack([(over_classes(each) - each.max(axis=0)) / edges for each in values])
        self.bad_minutes.bet(without[:, None], _stake_of_minute(at), at.largest)

    def evidence(self, judged: Bools, crossing: Bools) -> Floats:
        """Against the canary; a part of it by bad minutes."""
        return (1 - _OF_MINUTES) * super().evidence(judged, crossing) + _OF_MINUTES * self.bad_minutes.value()


def _stake_of_minute(at: TickStake) -> Floats:
    return np.where(at.young, -1.0, at.stake)
