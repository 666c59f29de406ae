"""Versions and their circumstances, healthy and bad, in a simulated world: what each changes, minute by minute."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headway.release.worlds.world import ARMS, Floats


@dataclass
class Minute:
    """What a scenario may change in one minute, by arm and rollout; starts as a healthy minute."""

    minute: int
    weight: Floats
    """Canary weight in force."""
    since_change: Floats
    """Minutes since the weight in force was set."""
    slow: dict[str, Floats]
    """Factor on latency."""
    error_rate: dict[str, Floats]
    long_share: dict[str, Floats]
    load: Floats
    baking: Floats = field(default_factory=lambda: np.full((), -1.0))
    """Minutes since the canary was promoted; below zero before."""
    far: Floats = field(default_factory=lambda: np.zeros(()))
    """Share of requests of all arms far above the body, by a factor of 12."""
    peak: tuple[float, float] = (0.0, 1.0)
    """Share of the requests of all arms that take nearly the same time, and that time in milliseconds."""
    by_replica: dict[str, Floats] = field(default_factory=dict[str, Floats])
    """Factors on the latency of an arm's replicas, (replicas, rollouts), that the requests divide among themselves; an arm that is not here
    shows no replicas."""
    tail: dict[str, float] = field(default_factory=dict)
    """Share of an arm's requests that are slower by a factor of 2.5."""
    answered: NDArray[np.bool_] = field(default_factory=lambda: np.ones((), dtype=bool))
    canary_up: NDArray[np.bool_] = field(default_factory=lambda: np.ones((), dtype=bool))


CANARY = ("canary", "mirrored")
ServiceChange = Callable[[Minute, Floats], None]
"""Applies a scenario to a minute; the second argument is uniform in [0, 1), one a rollout and column, fixed for the rollout."""


@dataclass(frozen=True)
class Scenario:
    """A version and its circumstances. `kind`: healthy (any rollback is false), bad (a promotion is a miss) or grey (not scored)."""

    name: str
    kind: str
    change: ServiceChange
    shape: ServiceChange | None = None
    """What is so of all arms, and was before the release."""
    late: int = 0
    """Minutes until a weight that was set is in force: the update of the stack, and the way to the proxies."""


def _between(minute: Minute, onset: Floats, length: float) -> NDArray[np.bool_]:
    return (minute.minute >= onset) & (minute.minute < onset + length)


def _onset(draw: Floats) -> Floats:
    """Somewhere in the first 25 minutes: most rollouts of busy services are under way then."""
    return np.floor(2 + 23 * draw[0])


def _nothing(minute: Minute, draw: Floats) -> None:
    del minute, draw


def _warm_up(minute: Minute, draw: Floats) -> None:
    first = (2.0 + 2.0 * draw[0]) * np.exp(-minute.minute / (0.8 + 0.6 * draw[1]))
    bump = (0.10 + 0.10 * draw[2]) * np.exp(-minute.since_change) * (minute.minute > 0)
    for arm in CANARY:
        minute.slow[arm] = minute.slow[arm] * (1 + first + bump)


def _daily(minute: Minute, draw: Floats) -> None:
    swing = np.sin(2 * math.pi * (minute.minute / 240 + draw[0]))
    minute.load = minute.load * (1 + (0.4 + 0.4 * draw[1]) * swing)
    for arm in ARMS:
        minute.slow[arm] = minute.slow[arm] * (1 + (0.2 + 0.2 * draw[2]) * swing)


def _neighbour(minute: Minute, draw: Floats) -> None:
    hit = _between(minute, _onset(draw), 5)
    for arm in ARMS:
        minute.slow[arm] = np.where(hit, 2.0, 1.0) * minute.slow[arm]


def _dependency(minute: Minute, draw: Floats) -> None:
    hit = _between(minute, _onset(draw), 3)
    for arm in ARMS:
        minute.error_rate[arm] = np.where(hit, 0.05, minute.error_rate[arm])


def _prometheus_down(minute: Minute, draw: Floats) -> None:
    minute.answered = ~_between(minute, _onset(draw), 3)


def _scrape_gap(minute: Minute, draw: Floats) -> None:
    minute.canary_up = ~_between(minute, _onset(draw), 4)


def _blip(minute: Minute, draw: Floats) -> None:
    hit = _between(minute, _onset(draw), 1)
    for arm in CANARY:
        minute.error_rate[arm] = np.where(hit, 0.08 + 0.04 * draw[1], minute.error_rate[arm])


def _bimodal(minute: Minute, draw: Floats) -> None:
    minute.far = 0.005 + 0.01 * draw[0]


def _mix(minute: Minute, draw: Floats) -> None:
    del draw
    for arm in CANARY:
        minute.long_share[arm] = np.minimum(2 * minute.long_share[arm], 0.95)


def _idle(minute: Minute, draw: Floats) -> None:
    minute.load = np.where(_between(minute, _onset(draw), 10), 0.0, minute.load)


def _slow_node(minute: Minute, draw: Floats) -> None:
    del draw
    _slower(minute, 1.05)


def _cold_cache(minute: Minute, draw: Floats) -> None:
    warm = np.minimum(minute.weight / 0.5, 1.0)
    for arm in ("canary", "baseline"):
        minute.slow[arm] = minute.slow[arm] * (1 + (0.25 + 0.25 * draw[0]) * (1 - warm))


def _slower(minute: Minute, factor: Floats | float) -> None:
    for arm in CANARY:
        minute.slow[arm] = minute.slow[arm] * factor


def _by(factor: float) -> ServiceChange:
    def change(minute: Minute, draw: Floats) -> None:
        del draw
        _slower(minute, factor)

    return change


def _failing(rate: float) -> ServiceChange:
    def change(minute: Minute, draw: Floats) -> None:
        del draw
        for arm in CANARY:
            minute.error_rate[arm] = np.full_like(minute.error_rate[arm], rate)

    return change


def _tail_only(minute: Minute, draw: Floats) -> None:
    del draw
    minute.tail = dict.fromkeys(CANARY, 0.05)


def _late(minute: Minute, draw: Floats) -> None:
    del draw
    _slower(minute, 1.5 if minute.minute >= 10 else 1.0)


def _saturating(minute: Minute, draw: Floats) -> None:
    del draw
    _slower(minute, np.where(minute.weight >= 0.5, 2.0, np.where(minute.weight >= 0.25, 1.5, 1.0)))


def _masked(minute: Minute, draw: Floats) -> None:
    del draw
    _slower(minute, 1.3)
    for arm in CANARY:
        minute.long_share[arm] = np.full_like(minute.long_share[arm], 0.05)


SCENARIOS = (
    Scenario("identical versions", "healthy", _nothing),
    Scenario("warm-up transient", "healthy", _warm_up),
    Scenario("daily load", "healthy", _daily),
    Scenario("noisy neighbour", "healthy", _neighbour),
    Scenario("dependency outage", "healthy", _dependency),
    Scenario("Prometheus down", "healthy", _prometheus_down),
    Scenario("scrape gap", "healthy", _scrape_gap),
    Scenario("one-minute error blip", "healthy", _blip),
    Scenario("bimodal latency", "healthy", _nothing, shape=_bimodal),
    Scenario("different request mix", "healthy", _mix),
    Scenario("idle service", "healthy", _idle),
    Scenario("slower node +5 %", "healthy", _slow_node),
    Scenario("cold prefix cache", "healthy", _cold_cache),
    Scenario("weights late by two minutes", "healthy", _nothing, late=2),
    Scenario("p99 +20 %", "bad", _by(1.2)),
    Scenario("p99 +50 %", "bad", _by(1.5)),
    Scenario("p99 +100 %", "bad", _by(2.0)),
    Scenario("tail only", "bad", _tail_only),
    Scenario("errors 1 %", "bad", _failing(0.01)),
    Scenario("errors 5 %", "bad", _failing(0.05)),
    Scenario("errors 50 %", "bad", _failing(0.5)),
    Scenario("late +50 %", "bad", _late),
    Scenario("saturates with weight", "bad", _saturating),
    Scenario("masked by an easier mix", "bad", _masked),
    Scenario("p99 +10 %", "grey", _by(1.1)),
    Scenario("errors 0.3 %", "grey", _failing(0.003)),
)


BAKE_MINUTES = 60


def _from_promotion(minute: Minute, draw: Floats) -> Floats:
    del draw
    return minute.baking


def _from_any_minute(minute: Minute, draw: Floats) -> Floats:
    """Since an onset anywhere in the bake, up to its last minute."""
    return np.where(minute.baking >= 0, minute.baking - np.floor(BAKE_MINUTES * draw[3]), -1.0)


def _in_bake(change: Callable[[Minute, Floats], None], since: Callable[[Minute, Floats], Floats]) -> ServiceChange:
    """`change`, given the minutes since its onset."""

    def changed(minute: Minute, draw: Floats) -> None:
        change(minute, since(minute, draw))

    return changed


def _slower_since(factor: float) -> Callable[[Minute, Floats], None]:
    return lambda minute, since: _slower(minute, np.where(since >= 0, factor, 1.0))


def _failing_since(rate: float) -> Callable[[Minute, Floats], None]:
    def change(minute: Minute, since: Floats) -> None:
        for arm in CANARY:
            minute.error_rate[arm] = np.where(since >= 0, rate, minute.error_rate[arm])

    return change


def _leaking(a_minute: float) -> Callable[[Minute, Floats], None]:
    return lambda minute, since: _slower(minute, 1 + a_minute * np.maximum(since, 0.0))


def _every_fifth(minute: Minute, since: Floats) -> None:
    _slower(minute, np.where((since >= 0) & (np.floor(since) % 5 == 4), 3.0, 1.0))


def _shared_swing(minute: Minute, since: Floats) -> None:
    """All arms become slower by a fifth over the bake, as in the morning."""
    for arm in ARMS:
        minute.slow[arm] = minute.slow[arm] * (1 + 0.2 * np.clip(since / BAKE_MINUTES, 0, 1))


def _outage_in_bake(minute: Minute, since: Floats) -> None:
    for arm in ARMS:
        minute.error_rate[arm] = np.where((since >= 0) & (since < 3), 0.05, minute.error_rate[arm])


def _idle_in_bake(minute: Minute, since: Floats) -> None:
    minute.load = np.where((since >= 0) & (since < 10), 0.0, minute.load)


def _relieved(minute: Minute, since: Floats) -> None:
    """The stable version's few held-back requests meet idle replicas, which are faster by a third."""
    minute.slow["stable"] = np.where(since >= 0, 0.67, 1.0) * minute.slow["stable"]


_HEALTHY_WHILE_RELEASED = (
    "identical versions",
    "warm-up transient",
    "daily load",
    "one-minute error blip",
    "bimodal latency",
    "different request mix",
    "slower node +5 %",
    "cold prefix cache",
    "weights late by two minutes",
)
BAKE_SCENARIOS = (
    *(scenario for scenario in SCENARIOS if scenario.name in _HEALTHY_WHILE_RELEASED),
    Scenario("all slower by the hour", "healthy", _in_bake(_shared_swing, _from_promotion)),
    Scenario("dependency outage in the bake", "healthy", _in_bake(_outage_in_bake, _from_any_minute)),
    Scenario("idle in the bake", "healthy", _in_bake(_idle_in_bake, _from_any_minute)),
    Scenario("held-back replicas idle", "healthy", _in_bake(_relieved, _from_promotion)),
    Scenario("errors 25 % from promotion", "bad", _in_bake(_failing_since(0.25), _from_promotion)),
    Scenario("errors 5 % from promotion", "bad", _in_bake(_failing_since(0.05), _from_promotion)),
    Scenario("errors 1 % from promotion", "bad", _in_bake(_failing_since(0.01), _from_promotion)),
    Scenario("p99 +50 % from promotion", "bad", _in_bake(_slower_since(1.5), _from_promotion)),
    Scenario("p99 +20 % from promotion", "bad", _in_bake(_slower_since(1.2), _from_promotion)),
    Scenario("errors 5 % at any minute", "bad", _in_bake(_failing_since(0.05), _from_any_minute)),
    Scenario("p99 +50 % at any minute", "bad", _in_bake(_slower_since(1.5), _from_any_minute)),
    Scenario("p99 +100 % at any minute", "bad", _in_bake(_slower_since(2.0), _from_any_minute)),
    Scenario("leak 0.5 % a minute", "bad", _in_bake(_leaking(0.005), _from_promotion)),
    Scenario("leak 1 % a minute", "bad", _in_bake(_leaking(0.01), _from_promotion)),
    Scenario("leak 1 % from any minute", "bad", _in_bake(_leaking(0.01), _from_any_minute)),
    Scenario("every fifth minute x3", "bad", _in_bake(_every_fifth, _from_promotion)),
)
"""Through the bake; a bad version is missed where the old one is gone, a healthy one is wronged where it is rolled back at any time."""
