"""Proof that the latency tail is not slower than a margin: as a whole, or at every edge that brackets it.

Proof says nothing of the far tail, where few requests are; what stands above the tolerance there holds the version all the same.

Which edges are asked about is chosen before the first tick that counts and kept until the proof starts anew, never by what was seen.
"""

from collections.abc import Sequence

import numpy as np

from headway.release.earlier_gates.gate_fc4f452ae5f1.evidence import Flags, Proof, TickStake
from headway.release.earlier_gates.gate_fc4f452ae5f1.state import Stateful
from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import Bools, Floats, over_classes, within

_BRACKET = (0.005, 0.20)
"""Pooled tail mass of the edges that are asked about; without such an edge, the one nearest to 1 %."""
_NEAREST_MASS = 0.01
_OF_CONTROL = 0.25
"""Share of the proof against the control; the rest is against all that the stable version answered, which is more."""
_EXPECTED_BEYOND = 5.0
"""The canary's requests that are expected above an edge, from which on they count for where its tail stands."""
_EXPECTED_SINCE = 30.0
"""The same since it is no longer young, from which on they acquit it: a long warm-up is no slow tail."""


class TailProof(Stateful):
    """E-processes for each edge: against each arm of the stable version, for each slow-down that the version may well have."""

    def __init__(self, edges: int, rollouts: int, shares: Sequence[float], spread: Floats) -> None:
        """`shares`: of each slow-down hoped for, in the mean; they add up to 1."""
        self._spread, self._shares = spread, tuple(shares)
        self.control = Proof((len(shares), edges, rollouts))
        """Against the control."""
        self.stable = Proof((len(shares), edges, rollouts))
        """Against all requests that the stable version answered, whose number helps a small canary."""
        self.masses = np.zeros((edges, rollouts))
        """Pooled tail mass above each edge before the first tick that counted."""

    def begin(self, pooled: Floats, counts: Bools) -> None:
        """Choose what must be proven, where this is the first tick that counts."""
        self.masses = np.where(counts & (self.control.ticks == 0), pooled, self.masses)

    def multiply(self, control: Sequence[Floats], stable: Sequence[Floats], at: TickStake) -> None:
        """Log likelihood ratios of one tick by slow-down hoped for, each (edges, rollouts), against either."""
        spread = self._spread[at.stage]
        self.control.multiply(np.stack(control), at.counts, spread, at.largest_of_proof, at.kept_proof)
        self.stable.multiply(np.stack(stable), at.counts, spread, at.largest_of_proof, at.kept_proof)

    def restart(self, where: Bools) -> None:
        """Forget what was proven."""
        self.control.restart(where)
        self.stable.restart(where)

    def _by_edge(self) -> Floats:
        both = _OF_CONTROL * self.control.wealth + (1 - _OF_CONTROL) * self.stable.wealth
        total = np.zeros_like(both[0])
        for share, row in zip(self._shares, both, strict=True):
            total = total + share * row
        return total

    def _wanted(self) -> Bools:
        bracket = (self.masses >= _BRACKET[0]) & (self.masses <= _BRACKET[1])
        distance = np.abs(np.log(np.maximum(self.masses, 1e-9) / _NEAREST_MASS))
        return np.where(bracket.any(axis=0), bracket, distance == distance.min(axis=0))

    def everywhere(self) -> Floats:
        """That the version is not slower at any edge: the least. A finer histogram asks more, and takes longer."""
        return np.where(self._wanted(), self._by_edge(), np.inf).min(axis=0)

    def overall(self) -> Floats:
        """That it is not slower at all of them, as one that is slower as a whole would be: the mean over edges."""
        total, number = np.zeros_like(self.masses[0]), np.zeros_like(self.masses[0])
        for wealth, wanted in zip(self._by_edge(), self._wanted(), strict=True):
            total = total + np.where(wanted, wealth, 0.0)
            number = number + wanted
        return total / number


class TailStanding(Stateful):
    """Where the canary's tail stands since it started, edge by edge: on which side of what is tolerated.

    A score, and no proof: at the tolerated ratio it is as likely above as below. So it holds a version, and takes none back.
    """

    def __init__(self, edges: int, rollouts: int) -> None:
        self.excess, self.expected = np.zeros((2, edges, rollouts)), np.zeros((2, edges, rollouts))
        """The canary's requests above each edge beyond the tolerated ones, given all of both arms; and those expected of an equal one. From
        its sixth minute on, and since it is no longer young."""

    def add(self, excess: Floats, expected: Floats, counts: Bools, young: Flags) -> None:
        """A tick's, by class and edge. None counts more than its luck may be, so that some bad minutes are made up for by as many good ones."""
        now = np.stack([over_classes(np.where(counts, each, 0.0)) for each in (excess, expected)])
        luck = np.sqrt(np.maximum(now[1], 1.0))
        now[0] = within(now[0], -luck, luck)
        self.excess = self.excess + np.stack([now[0], np.where(young, 0.0, now[0])])
        self.expected = self.expected + np.stack([now[1], np.where(young, 0.0, now[1])])

    def above(self) -> Bools:
        """Whether it is above at any edge that enough requests are beyond."""
        acquitted = (self.expected[1] >= _EXPECTED_SINCE) & (self.excess[1] <= 0)
        above = (self.expected[0] >= _EXPECTED_BEYOND) & (self.excess[0] > 0) & ~acquitted
        found: Bools = np.logical_or.reduce(above, axis=0)
        return found
