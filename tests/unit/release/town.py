"""Runners, a guard and a stack around one service, of which only one moves at a time: whoever meets the ledger or the
cluster waits there until it is told to go on, or is killed.

The route is an object of an API server, read and changed by the real `LiveService` and `ReleaseGuard`.
"""

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from headway.environment.clock import ClockOffset
from headway.environment.port import OutOfReachError
from headway.ledger.serving import latest
from headway.ledger.store import StoredObject, UnreachableError, Written
from headway.ledger.traffic_split import TrafficSplit
from headway.ledger.witness import SilentWitnessError
from headway.problem import UserError
from headway.release.driver.clocks import wrong
from headway.release.driver.live_service import LiveService, route_of
from headway.release.guard import LOOK_SECONDS, ReleaseGuard
from headway.wire import EXPERIMENT_HEADER, RELEASE_HEADER, SAFE_RELEASE, SPLIT_ROUTE, WEIGHTS_ROUTE
from tests.unit.ledger.bucket import Bucket
from tests.unit.release_kill import KilledError
from tests.unit.release_world import CHAIN, START, Memory, Result

TENANT, MODEL = CHAIN.split("/")
CONFLICT = OutOfReachError("HTTP 409")


class Turn:
    """Something that runs in a thread of its own, from one place where it waits to the next."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act, self._go, self._stopped = act, threading.Semaphore(0), threading.Semaphore(0)
        self._stops: Callable[[], bool] = lambda: True
        self._killed, self.over = False, False
        self.failed: BaseException | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self._killed:
                self._act()
        except (KilledError, UserError, OutOfReachError):
            pass
        except BaseException as failure:  # told to who waits
            self.failed = failure
        self.over = True
        self._stopped.release()

    def waits(self) -> None:
        """Called by what runs."""
        if not self._stops():
            return
        self._stopped.release()
        self._go.acquire()
        if self._killed:
            raise KilledError

    def goes_on(self, stops: Callable[[], bool] = lambda: True) -> None:
        """To the next place where it `stops`, or until it is over."""
        self._stops = stops
        if not self.over:
            self._go.release()
            self._stopped.acquire()
        if self.failed is not None:
            raise self.failed

    def dies(self) -> None:
        self._killed = True
        self.goes_on()


class ApiServer:
    """One that has one route; whoever states the version that he read changes nothing newer (Kubernetes API
    conventions, "Concurrency Control and Consistency")."""

    def __init__(self, waits: Callable[[], None] = lambda: None) -> None:
        self.live: dict[str, Any] = {}
        self.away: Callable[[], bool] = lambda: False
        self.waits, self.ahead, self.changed = waits, 0.0, lambda: None

    def seen_by(self, waits: Callable[[], None], ahead: float = 0.0) -> "ApiServer":
        """The same one, asked by somebody else, whose clock may be wrong."""
        found = copy.copy(self)
        found.live, found.waits, found.ahead = self.live, waits, ahead
        return found

    def copied(self) -> "ApiServer":
        found = ApiServer()
        found.live = copy.deepcopy(self.live)
        return found

    def _asked(self) -> None:
        self.waits()
        if self.away():
            raise OutOfReachError("it does not answer")

    def get(self, path: str) -> dict[str, Any] | None:
        self._asked()
        assert path.endswith(f"/{MODEL}")
        return copy.deepcopy(self.live)

    def each(self, path: str, **_: Any) -> Iterator[dict[str, Any]]:
        self._asked()
        yield copy.deepcopy(self.live)

    def request(self, method: str, path: str, query: Mapping[str, str], body: Any, content_type: str) -> None:
        self._asked()
        if path.endswith(f"/{MODEL}"):
            {"application/merge-patch+json": self._annotate, "application/apply-patch+yaml": self._apply}[content_type](body)
            self.changed()
        self.waits()

    def clock_offset(self) -> ClockOffset:
        self._asked()
        return ClockOffset(self.ahead, 0.5)

    def _annotate(self, body: Mapping[str, Any]) -> None:
        self._newest(body)
        notes = {**self.live["metadata"]["annotations"], **body["metadata"].get("annotations", {})}
        self.live["metadata"]["annotations"] = {name: text for name, text in notes.items() if text is not None}

    def _apply(self, body: Mapping[str, Any]) -> None:
        self._newest(body)
        self.live["spec"] = copy.deepcopy(dict(body["spec"]))

    def _newest(self, body: Mapping[str, Any]) -> None:
        if body["metadata"].get("resourceVersion", self.live["metadata"]["resourceVersion"]) != self.live["metadata"]["resourceVersion"]:
            raise CONFLICT
        self.live["metadata"]["resourceVersion"] = str(int(self.live["metadata"]["resourceVersion"]) + 1)


class Ledgered(Bucket):
    """A bucket with versions that may be away, or lose the answer to a write, as it is seen by one runner."""

    def __init__(self) -> None:
        super().__init__(versioned=True)
        self.away: Callable[[], bool] = lambda: False
        self.loses: Callable[[], bool] = lambda: False
        self.waits: Callable[[], None] = lambda: None

    def seen_by(self, waits: Callable[[], None]) -> "Ledgered":
        found = copy.copy(self)
        found.waits = waits
        return found

    def _asked(self) -> None:
        self.waits()
        if self.away():
            raise UnreachableError("it does not answer")

    def _wrote(self) -> None:
        if self.loses():
            raise UnreachableError("its answer was lost")
        self.waits()

    def written(self, prefix: str, after: str = "") -> tuple[Written, ...]:
        self._asked()
        return super().written(prefix, after)

    def held(self, key: str) -> StoredObject | None:
        self._asked()
        return super().held(key)

    def create(self, key: str, body: bytes) -> None:
        self._asked()
        super().create(key, body)
        self._wrote()

    def replace(self, key: str, body: bytes, tag: str | None) -> str:
        self._asked()
        written = super().replace(key, body, tag)
        self._wrote()
        return written


class Onlooker:
    """A witness beside the bucket, in memory."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}
        self.away: Callable[[], bool] = lambda: False

    def said(self, chain: str) -> str | None:
        if self.away():
            raise SilentWitnessError("it does not answer")
        return self.words.get(chain)

    def write(self, chain: str, text: str) -> None:
        self.said(chain)
        self.words[chain] = text


class Town(Memory):
    """What all runners share. `clock` is the right one."""

    def __init__(self, store: Ledgered) -> None:
        super().__init__(store)
        self.witness = Onlooker()
        self.bad: frozenset[str] = frozenset()
        """Releases that fail requests."""
        self.api = ApiServer()
        self.api.changed = self._seen
        self.guard_looks = True
        self.next_look = START + timedelta(seconds=LOOK_SECONDS)
        self.updating: object | None = None
        """Who holds the lock of the stack."""

    def begins(self, split: TrafficSplit) -> None:
        head = {"name": MODEL, "namespace": TENANT, "resourceVersion": "1", "annotations": {}}
        self.api.live |= {"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": head}
        self.applies(split)

    def applies(self, split: TrafficSplit) -> None:
        """The stack brings the route to a split."""
        self.stack, self.share_of_users = split, split.user_split.share.fraction if split.user_split else 0.0
        self.api._apply({"metadata": {}, "spec": rendered(split)})
        self._seen()

    def _seen(self) -> None:
        route = route_of(self.api.live)
        self.routed = {key: weight.whole_percent for key, weight in route.weights.items()}
        self.mirrored, self.copies, self.led = route.mirrored, route.copies.whole_percent, route.led
        self._reaches_proxies()

    def goes_to(self, moment: Any) -> None:
        """Time passes, and the guard looks now and then."""
        while self.clock < moment:
            self.clock = min(max(self.clock, self.next_look), moment)
            if self.clock == self.next_look:
                self.next_look += timedelta(seconds=LOOK_SECONDS)
                self.looks()

    def looks(self) -> None:
        if self.guard_looks:
            look(self.api, self.clock)

    def update(self, who: object, waits: Callable[[], None] = lambda: None) -> Result:
        """A plan by the ledger, and what it comes to. Nobody plans while another one updates (Pulumi's lock)."""
        if self.updating is not None:
            return Result(ok=False, busy=True)
        self.updating = who
        try:
            wanted = latest(self.store, CHAIN, "sandbox", self.witness)
            waits()
            if wanted is not None:
                self.applies(wanted)
                waits()
        except (UserError, UnreachableError) as refused:
            return Result(ok=False, errors=(str(refused),))
        finally:
            self.updating = None
        return Result(changed=1, operation="up")


def look(api: ApiServer, now: Any) -> None:
    try:
        seen: Any = api
        ReleaseGuard(seen, TENANT, "guard", lambda: now, lambda: 0.0).look()
    except (OutOfReachError, UserError):
        return


def rendered(split: TrafficSplit) -> dict[str, Any]:
    """The route as the stack writes it (`components/model_service/routing`)."""

    def to(key: str, weight: int) -> dict[str, Any]:
        return {"destination": {"host": key}, "headers": {"response": {"set": {RELEASE_HEADER: key}}}, "weight": weight}

    weights: dict[str, Any] = {"name": WEIGHTS_ROUTE, "route": [to(key, weight) for key, weight in split.percentages.items()]}
    if split.mirror:
        weights |= {"mirror": {"host": split.mirror.release}, "mirrorPercentage": {"value": float(split.mirror.share.whole_percent)}}
    if not split.led:
        return {"http": [weights]}
    match = [{"headers": {EXPERIMENT_HEADER: {"exact": split.led[0]}}}]
    return {"http": [{"name": SPLIT_ROUTE, "match": match, "route": [to(split.led[1], 100)]}, weights]}


def exposed(live: Mapping[str, Any]) -> set[str]:
    """Releases that requests, or copies of them, reach."""
    route = route_of(live)
    keys = {key for key, weight in route.weights.items() if weight}
    more = {route.mirrored} | {route.led[1] if route.led else None}
    return {key.removesuffix("-baseline") for key in keys | (more - {None}) if key}


def watched_over(live: Mapping[str, Any]) -> str | None:
    return live["metadata"]["annotations"].get(SAFE_RELEASE)


class Seat:
    """The town as one runner sees it; `ahead`: seconds by which its clock is wrong. A `ServiceUnderRelease`."""

    settle_seconds = 5.0

    def __init__(self, town: Town, ahead: float = 0.0) -> None:
        self._town, self._ahead, self.turn = town, ahead, None
        self.turn: Turn | None = None
        seen: Any = town.api.seen_by(self.waits, ahead)
        self._api, self._service = seen, LiveService(seen, TENANT, MODEL)

    def waits(self) -> None:
        if self.turn is not None:
            self.turn.waits()

    def jumps(self, seconds: float) -> None:
        self._ahead += seconds
        self._api.ahead = self._ahead

    def now(self) -> Any:
        return self._town.clock + timedelta(seconds=self._ahead)

    def sleep(self, seconds: float) -> None:
        until = self._town.clock + timedelta(seconds=seconds)
        self.waits()
        self._town.goes_to(until)

    def clocks_apart(self) -> str:
        return wrong(self._service.clock_offset(), "the API server")

    def preview(self, *, refresh: bool) -> Any:
        self.waits()
        try:
            wanted = latest(self._town.store, CHAIN, "sandbox", self._town.witness)
        except (UserError, UnreachableError) as refused:
            return Result(ok=False, errors=(str(refused),))
        there = route_of(self._town.api.live)
        return Result(changed=int(self._town.stack != wanted or (refresh and wanted is not None and not there.carries(wanted))))

    def up(self, *, refresh: bool) -> Any:
        self.waits()
        return self._town.update(self, self.waits)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    def unready(self, split: TrafficSplit) -> Sequence[str]:
        self.waits()
        return ()

    def given_up(self, split: TrafficSplit) -> Sequence[str]:
        return ()

    def probe(self, rollout: Any, step: Any) -> Any:
        self.waits()
        return self._town.probe(rollout, step)

    def check(self, rollout: Any) -> Sequence[str]:
        self.waits()
        return ()

    def history(self, rollout: Any, seconds: float) -> Any:
        self.waits()
        return self._town.history(rollout, seconds)

    def read(self, rollout: Any, start: float, end: float) -> Any:
        self.waits()
        self._town.errors = 0.4 if rollout.release in self._town.bad else 0.001
        return self._town.read(rollout, start - self._ahead, end - self._ahead)

    def drained(self, rollout: Any) -> Any:
        self.waits()
        return self._town.drained(rollout)
