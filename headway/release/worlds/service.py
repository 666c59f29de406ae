"""What Prometheus would show of a simulated service under release, minute by minute.

All arms share the world's common noise and shared outages; an independent part comes on top for each arm, and it does not average out with
volume.
"""

import math
import zlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from headway.release.worlds.scenarios import CANARY, Minute, Scenario
from headway.release.worlds.world import ARMS, Floats, SimulatedWorld

HISTORY_MINUTES = 15
_PEAK_SPREAD = 0.01
"""Standard deviation of the log latency of requests that take nearly the same time."""


@dataclass(frozen=True)
class Shown:
    """What Prometheus would show of one minute: arrays (rollouts, classes, buckets) and (rollouts, classes) by arm."""

    buckets: dict[str, Floats]
    errors: dict[str, Floats]
    answered: NDArray[np.bool_]
    canary_up: NDArray[np.bool_]
    by_replica: dict[str, Floats] = field(default_factory=dict[str, Floats])
    """Arrays (rollouts, replicas, classes, buckets) of the arms whose replicas are told apart."""


class SimulatedService:
    """Many rollouts of one scenario in one world, all random numbers from one generator."""

    def __init__(self, world: SimulatedWorld, scenario: Scenario, rate: float, rollouts: int, seed: int) -> None:
        """`rate`: users' requests a second, all arms together."""
        self._world, self._scenario, self._rate, self._n = world, scenario, rate, rollouts
        self._rng = np.random.default_rng([seed, zlib.crc32(f"{world.name}/{scenario.name}/{rate}".encode())])
        self._draw = self._rng.random((4, rollouts))
        self._common = world.common_noise * self._rng.standard_normal(rollouts)
        self._set: list[tuple[Floats, Floats, Floats]] = []

    def history(self) -> tuple[Floats, Floats]:
        """Buckets and errors of the stable version over the minutes before the rollout, healthy and summed."""
        buckets, errors = np.zeros((self._n, 2, len(self._world.edges) + 1)), np.zeros((self._n, 2))
        for _ in range(HISTORY_MINUTES):
            minute = self._healthy(-1, np.zeros(self._n), np.zeros(self._n))
            if self._scenario.shape:
                self._scenario.shape(minute, self._draw)
            count, failed = self._arm("stable", minute, np.ones(self._n))
            buckets, errors = buckets + count, errors + failed
        return buckets, errors

    def minute(
        self, number: int, weight: Floats, baseline: Floats, mirror: Floats, since_change: Floats, baking: Floats | None = None
    ) -> Shown:
        """The next minute, for which these weights were set. `baking`: minutes since promotion, below zero before."""
        self._set.append((weight, baseline, mirror))
        weight, baseline, mirror = self._set[max(0, len(self._set) - 1 - self._scenario.late)]
        minute = self._healthy(number, weight, since_change)
        minute.baking = np.full(self._n, -1.0) if baking is None else baking
        for change in filter(None, (self._scenario.shape, self._scenario.change)):
            change(minute, self._draw)
        shares = {"stable": 1 - weight - baseline, "baseline": baseline, "canary": weight, "mirrored": mirror * (1 - weight - baseline)}
        alone = {arm: self._replicas(arm, minute, share) for arm, share in shares.items()}
        counts = {
            arm: (np.sum([each for each, _ in of], axis=0), np.sum([failed for _, failed in of], axis=0)) for arm, of in alone.items()
        }
        up, answered = (np.broadcast_to(flag, (self._n,)) for flag in (minute.canary_up, minute.answered))
        buckets = {arm: np.where(answered[:, None, None], count, 0.0) for arm, (count, _) in counts.items()}
        errors = {arm: np.where(answered[:, None], failed, 0.0) for arm, (_, failed) in counts.items()}
        for arm in CANARY:
            buckets[arm] = np.where(up[:, None, None], buckets[arm], 0.0)
            errors[arm] = np.where(up[:, None], errors[arm], 0.0)
        known = (answered & up)[:, None, None, None]
        by_replica = {arm: np.where(known, np.stack([each for each, _ in alone[arm]], axis=1), 0.0) for arm in minute.by_replica}
        return Shown(buckets, errors, answered, up, by_replica)

    def _replicas(self, arm: str, minute: Minute, share: Floats) -> list[tuple[Floats, Floats]]:
        """What each replica of an arm answered, each as many requests as the next."""
        factors, slow = minute.by_replica.get(arm, np.ones((1, self._n))), minute.slow[arm]
        found: list[tuple[Floats, Floats]] = []
        for factor in factors:
            minute.slow[arm] = slow * factor
            found.append(self._arm(arm, minute, share / len(factors)))
        minute.slow[arm] = slow
        return found

    def _healthy(self, number: int, weight: Floats, since_change: Floats) -> Minute:
        world, rng = self._world, self._rng
        self._common = 0.9 * self._common + math.sqrt(1 - 0.81) * world.common_noise * rng.standard_normal(self._n)
        slow, errors, shares = {}, {}, {}
        shape = 1 / world.error_variation**2
        for arm in ARMS:
            own = (world.large_arm_noise if arm == "stable" else world.small_arm_noise) * world.stress
            slow[arm] = np.exp(self._common + own * rng.standard_normal(self._n))
            errors[arm] = world.error_rate * np.ones(self._n)
            shares[arm] = np.full(self._n, world.long_share)
        minute = Minute(number, weight, since_change, slow, errors, shares, np.ones(self._n))
        if world.replicas > 1:
            minute.by_replica = {arm: np.ones((world.replicas, self._n)) for arm in CANARY}
        self._error_factor = {arm: rng.gamma(shape, 1 / shape, self._n) for arm in ARMS}
        return minute

    def _arm(self, arm: str, minute: Minute, share: Floats) -> tuple[Floats, Floats]:
        world, rng = self._world, self._rng
        buckets, errors = np.zeros((self._n, 2, len(world.edges) + 1)), np.zeros((self._n, 2))
        if not share.any():
            return buckets, errors
        far, tail = np.broadcast_to(minute.far, (self._n,)), minute.tail.get(arm, 0.0)
        logs = np.log(np.asarray(world.edges))
        for kind, median in enumerate(world.medians):
            part = minute.long_share[arm] if kind else 1 - minute.long_share[arm]
            requests = rng.poisson(np.maximum(self._rate * 60 * minute.load * part * share, 0.0))
            level = np.log(median * minute.slow[arm])[:, None]

            def faster(factor: float, level: Floats = level) -> Floats:
                return ndtr((logs - level - math.log(factor)) / world.spread)

            body = (1 - tail) * faster(1.0) + (tail * faster(2.5) if tail else 0.0)
            alike, place = minute.peak
            if alike:
                at = math.log(place) + np.log(minute.slow[arm])[:, None]
                body = (1 - alike) * body + alike * ndtr((logs - at) / _PEAK_SPREAD)
            below = (1 - far[:, None]) * body + far[:, None] * (faster(12.0) if far.any() else 0.0)
            shares = np.diff(below, axis=1, prepend=0.0, append=1.0)
            shares = np.maximum(shares, 0.0)
            buckets[:, kind] = rng.multinomial(requests, shares / shares.sum(axis=1, keepdims=True))
            rate = np.minimum(minute.error_rate[arm] * (self._error_factor[arm] if self._noisy(minute, arm) else 1.0), 1.0)
            errors[:, kind] = rng.binomial(requests, rate)
        return buckets, errors

    def _noisy(self, minute: Minute, arm: str) -> bool:
        """Rates of some per cent and more are the scenario's own; only rare errors vary from minute to minute."""
        return float(minute.error_rate[arm].max()) < 0.02
