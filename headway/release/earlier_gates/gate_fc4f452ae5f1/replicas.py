"""Which replica is which from tick to tick: pods come and go, and one that answered nothing is not there."""

from collections.abc import Mapping, Sequence

import numpy as np

from headway.release.earlier_gates.gate_fc4f452ae5f1.state import Stateful
from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import ArmCounts, Floats

MOST_REPLICAS = 8
"""Told apart; of more, several are taken as one, which asks more of the evidence and never less."""
_NOBODY, _SEVERAL = 0, -1


def placed(rows: Sequence[int], named: Sequence[int]) -> tuple[list[int], list[int], bool]:
    """The row of each replica of `named`, whose rows are from now on, and whether a row is now another's. `rows`: whose they were."""
    if len(named) > MOST_REPLICAS:
        return [each % MOST_REPLICAS for each in named], [_SEVERAL] * MOST_REPLICAS, any(each != _SEVERAL for each in rows)
    now = [_NOBODY if each == _SEVERAL else each for each in rows]
    anew = _SEVERAL in rows
    for newcomer in dict.fromkeys(each for each in named if each not in now):
        row = min((row for row in range(MOST_REPLICAS) if now[row] not in named), key=lambda row: now[row] != _NOBODY)
        anew = anew or now[row] != _NOBODY
        now[row] = newcomer
    return [now.index(each) for each in named], now, anew


class ReplicaRows(Stateful):
    """Gives each replica a row that it keeps. Without names a place is one, for good."""

    def __init__(self) -> None:
        self.rows = np.full(MOST_REPLICAS, _NOBODY, dtype=np.int64)

    def place(self, arm: ArmCounts) -> tuple[Mapping[str, Floats], bool]:
        """Its counts by row, as `ArmCounts.by_replica`, and whether a row is another's than before."""
        if not arm.by_replica:
            return arm.by_replica, False
        rows, anew = [place % MOST_REPLICAS for place in range(len(next(iter(arm.by_replica.values()))))], False
        if arm.named:
            rows, now, anew = placed(self.rows.tolist(), arm.named)
            self.rows = np.asarray(now, dtype=np.int64)
        placed_counts: dict[str, Floats] = {}
        for name, counts in arm.by_replica.items():
            placed_counts[name] = np.zeros((max(rows) + 1, *counts.shape[1:]))
            for row, of_one in zip(rows, counts, strict=True):
                placed_counts[name][row] += of_one
        return placed_counts, anew
