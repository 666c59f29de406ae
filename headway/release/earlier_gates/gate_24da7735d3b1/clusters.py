"""How many requests fail together, as those of one caller do, or those that one bad moment catches.

Where up to K requests fail together in whatever way, a likelihood ratio of single requests to the power 1/K still has a mean of 1 at
most: by Hölder's inequality that of a cluster of k is at most the product of E[L^(k/K)]^(1/k), and each of these is at most 1 (Jensen). K
is measured on past ticks: a failed request has as many others with it beyond the expected as its cluster is larger than one.
"""

import numpy as np

from headway.release.earlier_gates.gate_24da7735d3b1.state import Stateful
from headway.release.earlier_gates.gate_24da7735d3b1.tick import Floats

_ASSUMED, _ASSUMED_FAILURES = 10.0, 1.0
"""Requests that fail together, and how many failed requests the assumption is worth."""
_USUAL_REQUESTS = 500.0
"""What an arm's own share of failures is worth at first: that of the control."""
_LARGEST = 30.0
_KEEP, _KEEP_OF_ARM = 0.97, 0.5
"""Of what was measured, and of an arm's own counts, from minute to minute: a version that begins to fail looks like one large cluster
until its own share is known."""


class Clusters(Stateful):
    """Of one rollout's arms together."""

    def __init__(self, arms: int, rollouts: int, tick_minutes: float = 1.0) -> None:
        self._keep, self._keep_of_arm = _KEEP**tick_minutes, _KEEP_OF_ARM**tick_minutes
        self.bad, self.requests = np.zeros((arms, rollouts)), np.zeros((arms, rollouts))
        """Of each arm's latest ticks."""
        self.others, self.failures = np.zeros(rollouts), np.zeros(rollouts)
        """Failed requests beside each failed one beyond the expected, and all failed ones."""

    def size(self) -> Floats:
        """K, as known before this tick; 1 to 30."""
        others = (_ASSUMED - 1) * _ASSUMED_FAILURES + self.others
        return np.clip(1.0 + others / (_ASSUMED_FAILURES + self.failures), 1.0, _LARGEST)

    def fade(self) -> None:
        """A tick has passed."""
        self.others, self.failures = self._keep * self.others, self._keep * self.failures

    def learn(self, arm: int, bad: Floats, requests: Floats, usual: Floats) -> None:
        """Add an arm's tick, once it was judged; nothing where it had no requests."""
        share = (self.bad[arm] + _USUAL_REQUESTS * usual) / (self.requests[arm] + _USUAL_REQUESTS)
        self.others = self.others + bad * (bad - 1.0 - share * requests)
        self.failures = self.failures + bad
        there = requests > 0
        self.bad[arm] = np.where(there, self._keep_of_arm * self.bad[arm] + bad, self.bad[arm])
        self.requests[arm] = np.where(there, self._keep_of_arm * self.requests[arm] + requests, self.requests[arm])
