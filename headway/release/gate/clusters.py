"""How many requests are bad together, as those of one caller are, or those that one bad moment catches.

Bad requests are those that failed, or that took longer than an edge. Where up to K are bad together in whatever way, a likelihood ratio
of single requests to the power 1/K still has a mean of 1 at most: by Hölder's inequality that of a cluster of k is at most the product of
E[L^(k/K)]^(1/k), and each of these is at most 1 (Jensen). K is measured on past ticks: how much more an arm's share of bad requests changes
from one tick to the next than requests that are bad alone explain. A cluster changes it twice, and a version that begins to fail once. So
of each arm the one change that says most is left out, or its first minutes of failure would hide the rest. What moves all requests of a
service counts as clusters, too: K errs to the careful side.
"""

import numpy as np

from headway.release.gate.state import Stateful
from headway.release.gate.tick import Floats, over_classes

_ASSUMED, _ASSUMED_BAD = 10.0, 1.0
"""Requests that are bad together, and how many bad requests the assumption is worth."""
_LARGEST = 30.0
_KEEP = 0.97
"""Of what was measured, from minute to minute."""


class Clusters(Stateful):
    """Of one rollout's arms together. `shape`: arms, edges where there are some, and rollouts."""

    def __init__(self, shape: tuple[int, ...], tick_minutes: float = 1.0) -> None:
        self._keep = _KEEP**tick_minutes
        self.bad, self.requests = np.zeros((2, *shape))
        """Of each arm's latest tick that had requests."""
        self.others, self.counted = np.zeros((2, *shape))
        """Bad requests beside each bad one, as the changes of each arm's share say, and all bad ones."""
        self.most_others, self.most_counted = np.zeros((2, *shape))
        """Those of the change that says most."""

    def size(self, arms: int | None = None) -> Floats:
        """K, as known before this tick; 1 to 30. By the first so many arms."""
        others = (_ASSUMED - 1) * _ASSUMED_BAD + over_classes((self.others - self.most_others)[:arms])
        counted = _ASSUMED_BAD + over_classes((self.counted - self.most_counted)[:arms])
        return np.clip(1.0 + others / counted, 1.0, _LARGEST)

    def fade(self) -> None:
        """A tick has passed."""
        for name in ("others", "counted", "most_others", "most_counted"):
            setattr(self, name, self._keep * getattr(self, name))

    def learn(self, arm: int | slice, bad: Floats, requests: Floats) -> None:
        """Add the tick of an arm, or of some, once it was judged; nothing where it had no requests."""
        before, of = self.bad[arm], np.maximum(self.requests[arm], 1.0)
        there, n = requests > 0, np.maximum(requests, 1.0)
        changed = there & (self.requests[arm] > 0) & (bad + before > 0)
        share = np.clip((bad + before) / (n + of), 1e-9, 1 - 1e-3)
        counted = np.where(changed, (bad + before) / 2, 0.0)
        others = counted * ((bad / n - before / of) ** 2 / (share * (1 - share) * (1 / n + 1 / of)) - 1.0)
        self.others[arm], self.counted[arm] = self.others[arm] + others, self.counted[arm] + counted
        most = others > self.most_others[arm]
        self.most_others[arm] = np.where(most, others, self.most_others[arm])
        self.most_counted[arm] = np.where(most, counted, self.most_counted[arm])
        self.bad[arm] = np.where(there, bad, before)
        self.requests[arm] = np.where(there, requests, self.requests[arm])
