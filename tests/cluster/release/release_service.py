"""A service with requests for tests of releases: counters that follow the live route, as the mesh's proxies would count them.

Stands in for callers, proxies and replicas, which the simulated cluster has none of: every so often it reads the VirtualService from the
API server and divides requests by what stands there. So traffic really moves only when the route does.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headway.environment.port import OutOfReachError
from headway.release.driver.live_service import LiveService
from headway.release.driver.service_under_release import LiveRoute
from headway.release.evidence import queries
from tests.loopback import Handler, served

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

    cluster: LiveService
    behaviour: Callable[[str], Behaviour]
    classes: Sequence[str] = ("small", "large")
    rate: float = 400.0
    every: float = 0.05
    arms: dict[str, Arm] = field(default_factory=dict)
    log: list[tuple[float, LiveRoute]] = field(default_factory=list)
    """When each route was first seen."""
    users: float = 0.2
    """Share of requests that an experiment's users make, where the route leads them: what the gateway's filter marks."""
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

    def _serve(self, rng: np.random.Generator, route: LiveRoute, requests: float, now: float) -> None:
        with self._guard:
            if not self.log or self.log[-1][1] != route:
                self.log.append((now, route))
            led, by_user = route.led[1] if route.led else None, self.users if route.led else 0.0
            for key, weight in route.weights.items():
                share = (1 - by_user) * weight.fraction + (by_user if key == led else 0.0)
                self._answer(rng, key, route.hosts[key], requests * share, now, copies=False)
            if route.mirrored:
                key = next(k for k, host in route.hosts.items() if host == route.mirrored)
                self._answer(rng, key, route.mirrored, requests * route.copies.fraction, now, copies=True)

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


@contextlib.contextmanager
def exported(traffic: Traffic, namespace: str) -> Generator[str]:
    """The counters as a mesh's proxies show them, on a port of this machine; answers `host:port`."""

    class Server(Handler):
        def do_GET(self) -> None:
            self.reply(200, "".join(f"{line}\n" for line in _lines(traffic, namespace)), content_type="text/plain; version=0.0.4")

    with served(Server) as url:
        yield url.removeprefix("http://")


def _lines(traffic: Traffic, namespace: str) -> Iterator[str]:
    for host, arm in sorted(traffic.counters().items()):
        for copies, buckets, errors in ((False, arm.buckets, arm.errors), (True, arm.copies_buckets, arm.copies_errors)):
            for kind, name in enumerate(traffic.classes):
                labels = {
                    queries.REPORTER: queries.AT_REPLICA,
                    queries.WORKLOAD_NAMESPACE: namespace,
                    queries.WORKLOAD: host,
                    queries.CLASS: name,
                    queries.MIRRORED: str(copies).lower(),
                }
                total, failed = buckets[kind].sum(), errors[kind]
                for code, count in (("200", total - failed), ("503", failed)):
                    yield _sample(queries.REQUESTS, {**labels, queries.CODE: code, queries.FLAGS: "-"}, count)
                for edge, below in zip((*EDGES, "+Inf"), np.cumsum(buckets[kind]), strict=True):
                    yield _sample(queries.DURATIONS, {**labels, "le": str(edge)}, below)


def _sample(metric: str, labels: Mapping[str, str], value: float) -> str:
    return f"{metric}{{{','.join(f'{k}={queries.quoted(v)}' for k, v in labels.items())}}} {value:.0f}"
