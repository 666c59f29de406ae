"""Releases of a simulated service, for the gate to see."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.release.gate import Counts, Decision, Tick
from headway.release.worlds.scenarios import Scenario
from headway.release.worlds.service import Shown, SimulatedService
from headway.release.worlds.world import SimulatedWorld

Floats = NDArray[np.float64]
_CLASSES = ("short", "long")


def arms_shown(shown: Shown) -> dict[str, Counts]:
    """A minute as the gate takes it in, by arm."""
    return {
        arm: Counts(buckets=buckets, errors=shown.errors[arm], by_replica=shown.by_replica.get(arm))
        for arm, buckets in shown.buckets.items()
    }


class SimulatedTraffic:
    """Implements `RehearsedTraffic`. Scenarios count minutes: where something happens in one, let a tick be a minute."""

    def __init__(
        self, world: SimulatedWorld, scenario: Scenario, rate: float, rehearsals: int, seed: int, tick_seconds: float = 60.0
    ) -> None:
        """`rate`: users' requests a second, all arms together."""
        self.tick_seconds, self.rehearsals = tick_seconds, rehearsals
        self._edges = world.edges
        self._users = rate * tick_seconds
        self._before = SimulatedService(world, scenario, rate, rehearsals, seed)
        # A service shows a minute at a time; a longer tick is a minute of a busier one.
        self._service = SimulatedService(world, scenario, rate * tick_seconds / 60, rehearsals, seed)
        self._weight, self._since = np.zeros(rehearsals), np.zeros(rehearsals)

    @property
    def edges(self) -> Mapping[str, Sequence[float]]:
        return {"latency": self._edges}

    @property
    def classes(self) -> tuple[str, ...]:
        return _CLASSES

    def learnt(self) -> Counts:
        buckets, errors = self._before.history()
        return Counts(buckets=buckets, errors=errors)

    def tick(self, number: int, decision: Decision) -> tuple[Tick, Floats]:
        self._since = np.where(decision.weight != self._weight, 0.0, self._since + 1) if number else self._since
        self._weight = np.asarray(decision.weight)
        shown = self._service.minute(number, decision.weight, decision.baseline_weight, decision.mirror, self._since)
        answered = shown.buckets["canary"].sum(axis=(1, 2)) / self._users
        arms: dict[str, Any] = arms_shown(shown)
        return Tick(**arms, answered=shown.answered, canary_up=shown.canary_up), answered
