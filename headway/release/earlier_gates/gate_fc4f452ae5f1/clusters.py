"""How many requests fail together, as those of one caller do, or those that one bad moment catches.

Where up to K requests fail together in whatever way, a likelihood ratio of single requests to the power 1/K still has a mean of 1 at
most: by Hölder's inequality that of a cluster of k is at most the product of E[L^(k/K)]^(1/k), and each of these is at most 1 (Jensen). K
is measured on past ticks: how much more an arm's share of failures changes from one tick to the next than requests that fail alone explain.
A cluster changes it twice, and a version that begins to fail once. So of each arm the one change that says most is left out, or its first
minutes of failure would hide the rest.
"""

import numpy as np

from headway.release.earlier_gates.gate_fc4f452ae5f1.state import Stateful
from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import Floats, over_classes

_ASSUMED, _ASSUMED_FAILURES = 10.0, 1.0
"""Requests that fail together, and how many failed requests the assumption is worth."""
_LARGEST = 30.0
_KEEP = 0.97
"""Of what was measured, from minute to minute."""


class Clusters(Stateful):
    """Of one rollout's arms together."""

    def __init__(self, arms: int, rollouts: int, tick_minutes: float = 1.0) -> None:
        self._keep = _KEEP**tick_minutes
        self.bad, self.requests = np.zeros((arms, rollouts)), np.zeros((arms, rollouts))
        """Of each arm's latest tick that had requests."""
        self.others, self.failures = np.zeros((arms, rollouts)), np.zeros((arms, rollouts))
        """Failed requests beside each failed one, as the changes of each arm's share say, and all failed ones."""
        self.most_others, self.most_failures = np.zeros((arms, rollouts)), np.zeros((arms, rollouts))
        """Those of the change that says most."""

    def size(self) -> Floats:
        """K, as known before this tick; 1 to 30."""
        others = (_ASSUMED - 1) * _ASSUMED_FAILURES + over_classes(self.others - self.most_others)
        failures = _ASSUMED_FAILURES + over_classes(self.failures - self.most_failures)
        return np.clip(1.0 + others / failures, 1.0, _LARGEST)

    def fade(self) -> None:
        """A tick has passed."""
        for name in ("others", "failures", "most_others", "most_failures"):
            setattr(self, name, self._keep * getattr(self, name))

    def learn(self, arm: int, bad: Floats, requests: Floats) -> None:
        """Add an arm's tick, once it was judged; nothing where it had no requests."""
        before, of = self.bad[arm], np.maximum(self.requests[arm], 1.0)
        there, n = requests > 0, np.maximum(requests, 1.0)
        changed = there & (self.requests[arm] > 0) & (bad + before > 0)
        share = np.clip((bad + before) / (n + of), 1e-9, 1 - 1e-3)
        failures = np.where(changed, (bad + before) / 2, 0.0)
        others = failures * ((bad / n - before / of) ** 2 / (share * (1 - share) * (1 / n + 1 / of)) - 1.0)
        self.others[arm], self.failures[arm] = self.others[arm] + others, self.failures[arm] + failures
        most = others > self.most_others[arm]
        self.most_others[arm] = np.where(most, others, self.most_others[arm])
        self.most_failures[arm] = np.where(most, failures, self.most_failures[arm])
        self.bad[arm] = np.where(there, bad, before)
        self.requests[arm] = np.where(there, requests, self.requests[arm])
