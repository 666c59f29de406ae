"""Evidence from answers: golden and mirrored ones that differ or are malformed, and labelled ones that got better.

A model that answers differently from itself needs its own mismatch measured first (stable against stable), or every release
of it fails.
"""

import numpy as np

from headway.release.earlier_gates.gate_fc4f452ae5f1.evidence import AnyOnset, alternatives, of_a_tick, share_log
from headway.release.earlier_gates.gate_fc4f452ae5f1.state import Stateful
from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import Bools, Floats

_RATES = (0.0075, 0.01, 0.02, 0.05, 0.10, 0.30)
"""Alternatives for a tolerated mismatch of 0.5 %; they grow with it."""
_USUAL = 0.005
_RULED_OUT, _LEAST_RULED_OUT = 10.0, 0.05
_MALFORMED_TOLERATED = 0.001
"""Share of answers that may be malformed: a fifth of those that may differ."""
_MALFORMED_BETS = (0.02, 0.1, 0.5, 0.9)
_ENOUGH = 14.0
"""More proof than this (its logarithm) is not remembered, so that answers that turn bad lose it again."""


class Correctness(Stateful):
    """Answers that differ from the expected ones; a Bernoulli e-process in product form, mean over alternatives."""

    def __init__(self, tolerated: float, rollouts: int) -> None:
        """`tolerated`: share of answers that may differ; give twice the stable-versus-stable mismatch where that is more."""
        self._tolerated = max(tolerated, 1e-4)
        self.logs = np.zeros((len(_RATES), rollouts))
        self.proof = np.zeros(rollouts)
        """Logarithm of the evidence for the canary, over the whole rollout: answers do not depend on the weight."""

    def compare(self, pairs: Floats, mismatches: Floats) -> None:
        rates = np.minimum(self._tolerated / _USUAL * alternatives(_RATES, 2), 0.9)
        rates = np.maximum(rates, min(0.95, 1.2 * self._tolerated))
        self.logs = np.minimum(self.logs + share_log(np.minimum(mismatches, pairs), pairs, self._tolerated, rates), 700.0)
        ruled_out = min(0.95, max(_RULED_OUT * self._tolerated, _LEAST_RULED_OUT))
        for_canary = share_log(np.minimum(mismatches, pairs), pairs, ruled_out, ruled_out / _RULED_OUT)
        self.proof = np.clip(self.proof + for_canary, -700.0, _ENOUGH)

    def proven(self) -> Floats:
        """For the canary: e-value that its mismatch is below ten times the tolerated one, and 5 % at least."""
        return np.exp(self.proof)

    def evidence(self) -> Floats:
        """Against the canary."""
        wealth = np.exp(self.logs)
        total = wealth[0].copy()
        for row in wealth[1:]:
            total += row
        return total / len(_RATES)


class Malformed(Stateful):
    """Answers that are empty, no numbers or against their schema.

    Null hypothesis: of the answers of a tick a share of 0.1 % at most is malformed, on average given the past. Answers of one tick may be so
    together, because one bad moment spoils them all. Then 1 + b (share / 0.1 % - 1) is an e-value for any bet b in [0, 1].
    """

    def __init__(self, rollouts: int, tick_minutes: float = 1.0) -> None:
        self._largest = of_a_tick(1 / _MALFORMED_TOLERATED, tick_minutes)
        self.bets = AnyOnset(len(_MALFORMED_BETS), rollouts)

    def compare(self, pairs: Floats, malformed: Floats, known: Bools) -> None:
        judged = known & (pairs > 0)
        share = np.minimum(malformed / np.maximum(pairs, 1.0), 1.0)
        self.bets.multiply([np.minimum(1 + bet * (share / _MALFORMED_TOLERATED - 1), self._largest) for bet in _MALFORMED_BETS], judged)


class Gain(Stateful):
    """Whether the canary answers labelled requests right more often than stable, by more than `gain` in points.

    Of the pairs that only one of the two got right, b by the canary and c by stable, H0 says that (b - c) / n is at most `gain`. Given
    each pair's outcome D in {-1, 0, 1}, the product of 1 + lambda * (D - gain) is an e-process for every lambda in [0, 1 / (1 + gain)):
    its mean under H0 is at most 1 (betting on a bounded mean, Waudby-Smith and Ramdas 2024).
    """

    _BETS = (0.02, 0.05, 0.1, 0.2, 0.4)

    def __init__(self, gain: float, rollouts: int = 1) -> None:
        self._gain = gain
        self.logs = np.zeros((len(self._BETS), rollouts))

    def compare(self, pairs: Floats, only_canary: Floats, only_stable: Floats) -> None:
        """Of `pairs` labelled requests answered by both, how many only one got right."""
        for place, bet in enumerate(self._BETS):
            same = pairs - only_canary - only_stable
            up, none, down = np.log1p(bet * (1 - self._gain)), np.log1p(-bet * self._gain), np.log1p(-bet * (1 + self._gain))
            self.logs[place] = np.minimum(self.logs[place] + only_canary * up + same * none + only_stable * down, 700.0)

    def evidence(self) -> Floats:
        """For a gain above the one asked for; 100 or more lets the trade rule hold."""
        total = np.zeros(self.logs.shape[1])
        for row in self.logs:
            total = total + np.exp(row)
        return total / len(self._BETS)
