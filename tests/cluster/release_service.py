"""A service with requests for tests of releases: counters that follow the live route, as the mesh's proxies would count them.

Stands in for callers, proxies and replicas, which the simulated cluster has none of: every so often it reads the VirtualService from the
API server and divides requests by what stands there. So traffic really moves only when the route does.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headway.release.driver.cluster import Cluster
from headway.release.driver.world import OutOfReachError, Route
from headway.release.evidence.reading import Arms, Finding, Raw, Service, Window, unanswered

EDGES = (0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000)
"""Milliseconds: Istio's own buckets up to 10 s."""


@dataclass
class Behaviour:
    """How a release answers."""

    slower: float = 1.0
    failing: float = 0.001


@dataclass
class Arm:
    """Counters of one arm, only ever rising, by class."""

    buckets: np.ndarray
    errors: np.ndarray
    copies_buckets: np.ndarray
    copies_errors: np.ndarray


@dataclass
class Traffic:
    """Requests to one service, `rate` a second, divided by the live route. `behaviour` says how a release answers."""

    cluster: Cluster
    behaviour: Callable[[str], Behaviour]
    classes: Sequence[str] = ("small", "large")
    rate: float = 400.0
    every: float = 0.05
    arms: dict[str, Arm] = field(default_factory=dict)
    log: list[tuple[float, Route]] = field(default_factory=list)
    """When each route was first seen."""
    last: dict[str, float] = field(default_factory=dict)
    """When each arm last got a request, or a copy."""
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> "Traffic":
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join(10.0)

    def _run(self) -> None:
        rng, route, then = np.random.default_rng(7), None, time.time()
        while not self._stop.wait(self.every):
            with contextlib.suppress(OutOfReachError):  # proxies go on with the routes they have
                route = self.cluster.route()
            now = time.time()
            if route is not None:
                self._serve(rng, route, self.rate * (now - then), now)
            then = now

    def _serve(self, rng: np.random.Generator, route: Route, requests: float, now: float) -> None:
        with self._guard:
            if not self.log or self.log[-1][1] != route:
                self.log.append((now, route))
            for key, weight in route.weights.items():
                self._answer(rng, key, route.hosts[key], requests * weight / 100, now, copies=False)
            if route.mirrored:
                key = next(k for k, host in route.hosts.items() if host == route.mirrored)
                self._answer(rng, key, route.mirrored, requests * route.copies / 100, now, copies=True)

    def _answer(self, rng: np.random.Generator, key: str, host: str, requests: float, now: float, *, copies: bool) -> None:
        empty = (len(self.classes), len(EDGES) + 1)
        arm = self.arms.setdefault(host, Arm(np.zeros(empty), np.zeros(empty[0]), np.zeros(empty), np.zeros(empty[0])))
        how = self.behaviour(key.removesuffix("-baseline"))
        buckets, errors = (arm.copies_buckets, arm.copies_errors) if copies else (arm.buckets, arm.errors)
        for kind, share in enumerate((0.7, 0.3)[: len(self.classes)]):
            count = int(rng.poisson(requests * share))
            latency = (20.0, 60.0)[kind] * how.slower * np.exp(0.45 * rng.standard_normal(count))
            buckets[kind] += np.bincount(np.searchsorted(EDGES, latency), minlength=len(EDGES) + 1)
            errors[kind] += rng.binomial(count, how.failing)
            if count:
                self.last[host] = now

    def counters(self) -> dict[str, Arm]:
        """A copy of everything counted so far, by Kubernetes Service."""
        with self._guard:
            return {
                host: Arm(arm.buckets.copy(), arm.errors.copy(), arm.copies_buckets.copy(), arm.copies_errors.copy())
                for host, arm in self.arms.items()
            }


@dataclass
class Counted:
    """Evidence straight from the counters, without Prometheus: for tests that are about other things."""

    traffic: Traffic
    snapshots: list[tuple[float, dict[str, Arm]]] = field(default_factory=list)
    answered: bool = True
    _stop: threading.Event = field(default_factory=threading.Event)
    settle_seconds: float = 0.3

    def __enter__(self) -> "Counted":
        threading.Thread(target=self._run, daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            self.snapshots.append((time.time(), self.traffic.counters()))

    def preflight(self, service: Service, arms: Arms, *, now: float, seconds: float = 900.0) -> Sequence[Finding]:
        return ()

    def history(self, service: Service, arms: Arms, before: float, seconds: float) -> Raw:
        return self.read(service, arms, Window(before - seconds, before))

    def read(self, service: Service, arms: Arms, window: Window) -> Raw:
        if not self.answered:
            return unanswered(service, window, "switched off")
        then, now = self._at(window.start), self._at(window.end)
        counted = {name: _between(then, now, host) for name, host in (("stable", arms.stable), ("baseline", arms.baseline)) if host}
        if arms.canary:
            counted["canary"] = _between(then, now, arms.canary)
            counted["mirrored"] = _between(then, now, arms.canary, copies=True)
        return {
            **unanswered(service, window, ""),
            "answered": True,
            "edges": {"latency": list(EDGES)},
            "arms": counted,
            "up": {"canary": True, "control": True},
            "ready": True,
        }

    def _at(self, moment: float) -> dict[str, Arm]:
        before = [counters for at, counters in list(self.snapshots) if at <= moment]
        return before[-1] if before else {}


def _between(then: Mapping[str, Arm], now: Mapping[str, Arm], host: str, *, copies: bool = False) -> dict[str, Any]:
    def picked(arms: Mapping[str, Arm]) -> tuple[np.ndarray, np.ndarray]:
        arm = arms.get(host)
        if arm is None:
            return np.zeros((2, len(EDGES) + 1)), np.zeros(2)
        return (arm.copies_buckets, arm.copies_errors) if copies else (arm.buckets, arm.errors)

    (old, old_errors), (new, new_errors) = picked(then), picked(now)
    buckets = new - old
    return {
        "requests": buckets.sum(axis=1).tolist(),
        "errors": (new_errors - old_errors).tolist(),
        "buckets": {"latency": buckets.tolist()},
        "queued": None,
        "busy": None,
        "available": None,
    }
