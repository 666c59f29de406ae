"""What is usual for the stable version while it has the canary's load, for the bake, where its held-back arm has hardly any.

A replica with less to do is faster and queues less, so a healthy version may look slow beside it. How much faster the stable version itself
became is measured in the first minutes of the bake. Where that is more than luck, or not known yet, the canary is called slow only if it is
also slower than was usual, by more than the hours of a day may explain: less evidence stays valid, whatever made it less.
"""

import numpy as np

from headway.release.earlier_gates.gate_fc4f452ae5f1.evidence import Flags
from headway.release.earlier_gates.gate_fc4f452ae5f1.state import Stateful
from headway.release.earlier_gates.gate_fc4f452ae5f1.tail import LatencyTail
from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import Bools, Floats, over_classes

_MEASURED_MINUTES, _MEASURED_REQUESTS = 10.0, 300.0
"""How long, and on how many requests at least, it is measured how much faster the held-back arm is."""
_FASTER = 0.1
"""Logarithm of the factor from which on it is faster."""
_DRIFT = 0.15
"""Slow-down beyond the tolerated one that the hour may explain."""
_BODY = (0.05, 0.95)
"""Tail mass of the edges by which it is measured: the body, which few requests show."""
_HALF_LIFE_MINUTES = 10.0
_KEEP = 0.9
"""Of a level, from minute to minute."""


class LoadEffect(Stateful):
    """Whether the control of the bake is faster for want of load, and whether the canary is slower than usual all the same."""

    def __init__(self, shape: tuple[int, int], rollouts: int, tick_minutes: float) -> None:
        self._tick_minutes, self._fading = tick_minutes, 0.5 ** (tick_minutes / _HALF_LIFE_MINUTES)
        self.masses = np.zeros((*shape, rollouts))
        """The stable version's tail before the bake."""
        self.held_bad, self.held = np.zeros((*shape, rollouts)), np.zeros((shape[0], 1, rollouts))
        """Requests of the held-back arm above each edge, and all of them, in the first minutes of the bake."""
        self.canary_bad, self.canary = np.zeros((*shape, rollouts)), np.zeros((shape[0], 1, rollouts))
        """The canary's in its latest."""
        self.held_latest = np.zeros(rollouts)
        """The held-back arm's requests in its latest minutes, as the canary's fade."""
        self.minutes = np.zeros(rollouts)

    def remember(self, masses: Floats, baking: Flags) -> None:
        """Before a tick: what is known of the stable version with all its load."""
        unknown = ~self.masses.any(axis=(0, 1))
        self.masses = np.where(~baking | unknown, masses, self.masses)

    def observe(self, held: tuple[Floats, Floats], canary: tuple[Floats, Floats], counts: Bools) -> None:
        """After a tick of the bake: of each arm the requests above each edge, and all of them."""
        measuring = counts & ~self._measured()
        self.minutes = self.minutes + measuring * self._tick_minutes
        self.held_bad, self.held = (
            before + np.where(measuring, new, 0.0) for before, new in zip((self.held_bad, self.held), held, strict=True)
        )
        self.held_latest = np.where(counts, self.held_latest * self._fading + over_classes(held[1][:, 0]), self.held_latest)
        self.canary_bad, self.canary = (
            np.where(counts, before * self._fading + new, before)
            for before, new in zip((self.canary_bad, self.canary), canary, strict=True)
        )

    def _measured(self) -> Bools:
        return (self.minutes >= _MEASURED_MINUTES) & (over_classes(self.held[:, 0]) >= _MEASURED_REQUESTS)

    def most_evidence(self, tail: LatencyTail, chosen: Bools, tolerated: float, bound: float) -> Floats:
        """What may be held against the canary: all, where the control is like it; what holds the bake, where the canary is slower than usual
        by more than is tolerated; nothing, where the load may be all that there is."""
        doubtful = ~self._measured() | self.unlike(tail)
        far, near = (self._within(tail, chosen, slowdown) for slowdown in ((1 + tolerated) * (1 + _DRIFT) - 1, tolerated))
        return np.where(doubtful & near, 1.0, np.where(doubtful & far, bound / 2, np.inf))

    def slower_than_usual(self, tail: LatencyTail, chosen: Bools, tolerated: float) -> Bools:
        """Where few are held back, whether the canary's latest requests are slower than usual, by more than is tolerated and the hour may
        explain. The past proves nothing, so this may hold the canary, and never rolls it back."""
        far = (1 + tolerated) * (1 + _DRIFT) - 1
        return (self.held_latest > 0) & (self.held_latest < _MEASURED_REQUESTS) & ~self._within(tail, chosen, far)

    def _within(self, tail: LatencyTail, chosen: Bools, slowdown: float) -> Bools:
        """Whether the canary's latest requests are slower than usual by no more than that, at most of the edges."""
        null = tail.ratio(tail.quantiles(self.masses), self.masses, slowdown)
        excess = over_classes(np.where(chosen, self.canary_bad - self.canary * self.masses * null, 0.0))
        asked: Bools = np.logical_or.reduce(chosen, axis=0)
        worse, edges = np.zeros(excess.shape[-1]), np.zeros(excess.shape[-1])
        for over, there in zip(excess, asked, strict=True):
            worse, edges = worse + ((over > 0) & there), edges + there
        return 2 * worse < edges

    def unlike(self, tail: LatencyTail) -> Bools:
        """Where it was measured that the control is faster, so that what the canary must show is asked of the past."""
        return self._measured() & (self.faster(tail) >= _FASTER)

    def faster(self, tail: LatencyTail) -> Floats:
        """Logarithm of the factor by which the held-back arm is faster than usual: how far the quantiles of its body moved, in units of the
        histogram's own shape."""
        now = (self.held_bad + 0.5) / (self.held + 1.0)
        before, after = tail.quantiles(self.masses), tail.quantiles(now)
        slope = np.diff(np.log(tail.edges))[:, None] / np.maximum(np.diff(before, axis=1), 0.05)
        slope = np.concatenate([slope[:, :1], (slope[:, 1:] + slope[:, :-1]) / 2, slope[:, -1:]], axis=1)
        body = (self.masses >= _BODY[0]) & (self.masses <= _BODY[1])
        weight = np.where(body, self.held * self.masses * (1 - self.masses), 0.0)
        total, moved = np.zeros(weight.shape[-1]), np.zeros(weight.shape[-1])
        for of_class, far, steep in zip(weight, after - before, slope, strict=True):
            total, moved = total + over_classes(of_class), moved + over_classes(of_class * far * steep)
        return moved / np.maximum(total, 1e-9)


class UsualLevel(Stateful):
    """A number of the control's ticks while it had the canary's load; not-a-number before there was one."""

    def __init__(self, rollouts: int, tick_minutes: float) -> None:
        self._keep = _KEEP**tick_minutes
        self.level = np.full(rollouts, np.nan)

    def observe(self, level: Floats, counts: Bools) -> None:
        """Take in a tick's number, where it was one of the control with that load."""
        there = counts & np.isfinite(level)
        before = np.where(np.isnan(self.level), level, self.level)
        self.level = np.where(there, self._keep * before + (1 - self._keep) * np.where(there, level, 0.0), self.level)

    def at_least(self, level: Floats, baking: Flags) -> Floats:
        """The control's number; in the bake the usual one, where that is more."""
        return np.where(baking & np.isfinite(level), np.fmax(level, self.level), level)
