"""Who waits for the first replica of a service, and until when.

The gateway asks about each request to a service that may be scaled to zero, and sends it on when it is answered, whatever the answer: so no
failure here is one of a caller's, who then gets what the mesh says. How many wait is a series by which KEDA brings the first replica.

A service serves here once any of its arms has a ready endpoint; while a release has users on two arms and neither has a replica, the other
arm's requests may come too early.
"""

import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import Any
from urllib.parse import quote

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from headway.environment.kubernetes import ApiClient, KubernetesApi
from headway.environment.port import OutOfReachError
from headway.problem import UserError
from headway.wire import MODEL, WAITING_REQUESTS

LOOK_SECONDS = 2.0
"""Between two looks at one service, however many wait for it."""
PATIENCE_SECONDS = 0.5
"""Between two looks at whether a caller is still there."""
SETTLE_SECONDS = 3.0
"""From a ready endpoint to when the gateway's proxies know of it: istiod gathers changes for 100 ms at least (`PILOT_DEBOUNCE_AFTER`)."""
MOST = 128
"""MiB of requests that wait at once, each of one at least: of two such rooms 40 % of a gateway's proxy, which cannot end them
(components/addons/gateway_memory.py). Others need a thread too, to hear that their service serves (`MOST_AT_ONCE` of headway/listening.py).
"""
MOST_OF_A_SERVICE = 50
"""Requests, so that one service's callers leave places to others'. A tenant, which may have many services, takes no more than it leaves."""
CLIENT = ApiClient(
    name="headway-activator",
    if_refused="Nothing is held: requests to a service without a replica are sent on at once.",
    remedy="Use an identity that may list EndpointSlices.",
)
_SLICES = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices?labelSelector={}"
_LARGEST = 4 << 20


@unique
class Ended(StrEnum):
    """How a wait ended."""

    SERVES = "serves"
    """There was a replica, or nobody could say."""
    CAME = "came"
    """The first one came meanwhile."""
    LATE = "late"
    LEFT = "left"
    FULL = "full"


@dataclass(frozen=True, order=True)
class Service:
    """A model service."""

    tenant: str
    model: str


@dataclass
class WaitingRoom:
    """Held requests of all services, each in a thread of its own. `serves`: whether a service has a replica that is ready, None where
    that cannot be known now. `monotonic` and `sleep` in seconds."""

    serves: Callable[[Service], bool | None]
    monotonic: Callable[[], float]
    sleep: Callable[[float], None]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looks: dict[Service, tuple[float, Future[bool | None]]] = field(default_factory=dict[Service, "tuple[float, Future[bool | None]]"])
    _waiting: Counter[Service] = field(default_factory=Counter[Service])
    _taken: Counter[str] = field(default_factory=Counter[str])
    """MiB by tenant."""
    _ended: Counter[Ended] = field(default_factory=Counter[Ended])

    def hold(self, service: Service, seconds: float, kept: int, left: Callable[[], bool]) -> Ended:
        """Come back once the service has a replica, at most after `seconds`, or when the caller has `left`; a proxy keeps so many bytes of the
        request meanwhile."""
        size = max(1, -(-kept // 2**20))
        ended = Ended.SERVES if self._serves(service) is not False else self._held(service, seconds, size, left)
        with self._lock:
            self._ended[ended] += 1
        return ended

    def _held(self, service: Service, seconds: float, size: int, left: Callable[[], bool]) -> Ended:
        until = self.monotonic() + seconds
        with self._place(service, size) as there:
            if not there:
                return Ended.FULL
            while self.monotonic() < until:
                if left():
                    return Ended.LEFT
                if self._serves(service):
                    self.sleep(SETTLE_SECONDS)
                    return Ended.CAME
                self.sleep(PATIENCE_SECONDS)
        return Ended.LATE

    @contextmanager
    def _place(self, service: Service, size: int) -> Generator[bool]:
        with self._lock:
            left = MOST - self._taken.total()
            there = self._waiting[service] < MOST_OF_A_SERVICE and self._taken[service.tenant] + size <= left
            self._waiting[service] += there
            self._taken[service.tenant] += there * size
        try:
            yield there
        finally:
            with self._lock:
                self._waiting[service] -= there
                self._taken[service.tenant] -= there * size
                self._waiting, self._taken = +self._waiting, +self._taken

    def _serves(self, service: Service) -> bool | None:
        """By a look that began at most `LOOK_SECONDS` ago; one thread looks, the others wait for what it sees."""
        now, mine = self.monotonic(), Future[bool | None]()
        with self._lock:
            # No more is remembered than was asked for just now.
            self._looks = {each: look for each, look in self._looks.items() if now - look[0] < LOOK_SECONDS}
            found = self._looks.setdefault(service, (now, mine))[1]
        if found is mine:
            try:
                mine.set_result(self.serves(service))
            except BaseException as failure:
                mine.set_exception(failure)
        return found.result()

    @property
    def well(self) -> bool:
        """Always: it answers, also while the API server does not."""
        return True

    @property
    def empty(self) -> bool:
        with self._lock:
            return not self._waiting

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            waiting, ended = dict(self._waiting), dict(self._ended)
        shown = GaugeMetricFamily(WAITING_REQUESTS, "Requests that wait for a replica of their service.", labels=("tenant", "model"))
        for service, count in sorted(waiting.items()):
            shown.add_metric((service.tenant, service.model), count)
        yield shown
        ends = CounterMetricFamily(
            "headway_activator_requests", "Requests that were asked about, by how their wait ended.", labels=("ended",)
        )
        for each in Ended:
            ends.add_metric((each.value,), ended.get(each, 0))
        yield ends

    def text(self) -> str:
        """In Prometheus' text format."""
        return generate_latest(self).decode()


def serves(api: KubernetesApi) -> Callable[[Service], bool | None]:
    """Whether the EndpointSlices of a service have a ready endpoint, as the API server tells."""

    def of(service: Service) -> bool | None:
        try:
            slices = list(api.each(_SLICES.format(service.tenant, quote(f"{MODEL}={service.model}", safe="")), largest=_LARGEST))
        except (OutOfReachError, UserError):
            return None
        return any(ready(each) for each in slices)

    return of


def ready(endpoint_slice: Mapping[str, Any]) -> bool:
    """Whether one of its endpoints is ready; who does not say so is (discovery.k8s.io/v1, EndpointConditions)."""
    found = endpoint_slice.get("endpoints")
    endpoints = found if isinstance(found, list) else []
    conditions = [each.get("conditions") or {} for each in endpoints if isinstance(each, Mapping)]
    return any(isinstance(each, Mapping) and each.get("ready") is not False for each in conditions)
