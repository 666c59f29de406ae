"""Simulated time around real servers: runners, guard and people as threads of which one moves at a time, as in the
sieges of `tests/unit/release`, but with the real API server and the real object store in the middle.

What is compressed: the clock of runners, guard, evidence and leases. A lease's age is told in simulated time, since
the store's own clock is not compressed. What is not: every wait of Kubernetes itself, which a runner grants by looking
again after a real pause.
"""

import copy
import errno
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.soak.bed import RELEASED, TENANT_NAME, Bed
from benchmarks.soak.stack import Stack
from headway.environment.clock import ClockOffset
from headway.environment.port import OutOfReachError
from headway.ledger.store import LedgerStore, StoredObject, UnreachableError, Written
from headway.ledger.traffic_split import TrafficSplit
from headway.ledger.witness import SilentWitnessError
from headway.ledger.witness_place import FolderWitness
from headway.problem import UserError
from headway.release.driver.live_service import ROUTES, LiveService, route_of
from headway.release.guard import LOOK_SECONDS, ReleaseGuard
from tests.unit.release.town import Seat, Town
from tests.unit.release_world import Result

CHAIN = f"{TENANT_NAME}/{RELEASED}"
ROUTE = f"{ROUTES.format(TENANT_NAME)}/{RELEASED}"
SHORTEST_SLEEP = 12.0
"""Simulated seconds: whoever sleeps for less wakes up late, as on a busy machine."""
WATCHED_LOOK_SECONDS, IDLE_LOOK_SECONDS = 3 * LOOK_SECONDS, 60.0
"""Between the guard's looks, which looks less often than it does: while a route says that somebody watches, and while
none does, so that it would find nothing."""
SPOKEN = 200
"""Changes of the route that the evidence remembers."""
REAL_PAUSE = 0.2
"""Real seconds that replicas get between two looks of a runner."""


class Moments:
    """When something that is away comes back, in simulated time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self._until = now, dict[str, float]()
        self.lost_answers = 0

    def away(self, what: str) -> bool:
        return self._now() < self._until.get(what, 0.0)

    def take_away(self, what: str, seconds: float) -> None:
        self._until[what] = self._now() + seconds

    def bring_back(self) -> None:
        self._until.clear()
        self.lost_answers = 0

    def loses(self) -> bool:
        self.lost_answers = max(0, self.lost_answers - 1)
        return self.lost_answers > 0


class SimulatedStore:
    """The ledger's store as one runner meets it. Away, full or without an answer by injection; the rest is S3."""

    def __init__(self, real: LedgerStore, now: Callable[[], float], moments: Moments) -> None:
        self._real, self._now, self._moments = real, now, moments
        self._when: dict[str, float] = {}
        self.waits: Callable[[], None] = lambda: None
        self.writes = 0

    def seen_by(self, waits: Callable[[], None]) -> "SimulatedStore":
        found = copy.copy(self)
        found.waits = waits
        return found

    def _asked(self) -> None:
        self.waits()
        if self._moments.away("ledger"):
            raise UnreachableError("it does not answer")

    def _written(self) -> None:
        if self._moments.loses():
            raise UnreachableError("its answer was lost")
        self.waits()

    def _room(self) -> None:
        """S3 has room; a store that has none answers 507, which is one more answer that says nothing."""
        if self._moments.away("room"):
            raise UnreachableError("507: no space left")

    def get(self, key: str, version: str = "") -> bytes | None:
        if self._moments.away("ledger"):
            raise UnreachableError("it does not answer")
        return self._real.get(key, version)

    def list(self, prefix: str, after: str = "") -> tuple[str, ...]:
        self._asked()
        return self._real.list(prefix, after)

    def written(self, prefix: str, after: str = "") -> tuple[Written, ...]:
        self._asked()
        return self._real.written(prefix, after)

    def held(self, key: str) -> StoredObject | None:
        self._asked()
        found = self._real.held(key)
        if found is None:
            return None
        return StoredObject(found.body, found.tag, max(0.0, self._now() - self._when.get(found.tag, 0.0)))

    def create(self, key: str, body: bytes) -> None:
        self._asked()
        self._room()
        self._real.create(key, body)
        self._written()

    def replace(self, key: str, body: bytes, tag: str | None) -> str:
        self._asked()
        self._room()
        made = self._real.replace(key, body, tag)
        self._when[made] = self._now()
        self._written()
        return made


class SimulatedWitness(FolderWitness):
    """The witness's folder, on a disk that may be full (an injected ENOSPC: what a small file system answers)."""

    def __init__(self, root: Path, moments: Moments) -> None:
        super().__init__(root)
        self._moments = moments

    def write(self, chain: str, text: str) -> None:
        if self._moments.away("witness disk"):
            raise SilentWitnessError(str(OSError(errno.ENOSPC, "No space left on device")))
        super().write(chain, text)


class SeenServer:
    """The API server as one runner or guard meets it; `ahead`: seconds by which its clock is wrong."""

    def __init__(self, bed: Bed) -> None:
        self._bed, self.waits, self.ahead = bed, lambda: None, 0.0
        self.changed: Callable[[], None] = lambda: None

    def seen_by(self, waits: Callable[[], None], ahead: float = 0.0) -> "SeenServer":
        found = copy.copy(self)
        found.waits, found.ahead = waits, ahead
        return found

    @property
    def live(self) -> dict[str, Any]:
        found = self._bed.api.get(ROUTE)
        if found is None:
            raise OutOfReachError("there is no route")
        return found

    def get(self, path: str) -> Any:
        self.waits()
        return self._bed.api.get(path)

    def items(self, path: str) -> Any:
        self.waits()
        return self._bed.api.items(path)

    def each(self, path: str, **more: Any) -> Iterator[Any]:
        self.waits()
        yield from self._bed.api.each(path, **more)

    def request(self, method: str, path: str, query: Mapping[str, str], body: Any, content_type: str) -> None:
        self.waits()
        self._bed.api.request(method, path, query, body, content_type)
        if path == ROUTE:
            self.changed()
        self.waits()

    def clock_offset(self) -> ClockOffset:
        """Real clocks agree here; what differs is said."""
        self.waits()
        self._bed.api.answer("GET", "/readyz")
        return ClockOffset(self.ahead, 0.5)


class SoakTown(Town):
    """What runners, guard and people share, on real servers. `clock` is the right one."""

    def __init__(self, bed: Bed, stack: Stack, store: SimulatedStore, witness: SimulatedWitness, moments: Moments) -> None:
        given: Any = store
        super().__init__(given)
        self.bed, self.moments = bed, moments
        seen: Any = SeenServer(bed)
        told: Any = witness
        self.api, self.witness, self.tenants_stack = seen, told, stack
        self.api.changed = self._seen
        self.requests = 60_000.0
        self.watched = False
        self.touched = False
        """Whether somebody has moved the route by hand since the last update."""
        self.guard_took = 0

    def applies(self, split: TrafficSplit) -> None:
        self.tenants_stack.update(self.bed.objects, refresh=self.refreshes)
        self.stack, self.touched = split, False
        self._seen()

    refreshes = False

    def _seen(self) -> None:
        found = route_of(self.api.live)
        self.watched = found.watched_until is not None
        self.routed = {key: weight.whole_percent for key, weight in found.weights.items()}
        self.mirrored, self.copies, self.led = found.mirrored, found.copies.whole_percent, found.led
        self._reaches_proxies()
        del self.in_force[:-SPOKEN]

    def sees(self) -> None:
        """What somebody else did to the route."""
        self._seen()

    def read(self, rollout: Any, start: float, end: float) -> Any:
        self.answered = not self.moments.away("evidence")
        return super().read(rollout, start, end)

    def goes_to(self, moment: Any) -> None:
        while self.clock < moment:
            self.clock = min(max(self.clock, self.next_look), moment)
            if self.clock == self.next_look:
                self.next_look += timedelta(seconds=WATCHED_LOOK_SECONDS if self.watched else IDLE_LOOK_SECONDS)
                self.looks()

    def looks(self) -> None:
        if self.moments.away("guard"):
            return
        seen: Any = self.api
        try:
            found = ReleaseGuard(seen, TENANT_NAME, "guard", lambda: self.clock, time.monotonic).look()
            self.guard_took += len(found.taken)
        except (OutOfReachError, UserError):
            return

    def update(self, who: object, waits: Callable[[], None] = lambda: None) -> Result:
        try:
            return super().update(who, waits)
        except OutOfReachError as failure:
            return Result(ok=False, errors=(str(failure),))


class SoakSeat(Seat):
    """The town as one runner meets it."""

    def sleep(self, seconds: float) -> None:
        super().sleep(max(seconds, SHORTEST_SLEEP))

    def up(self, *, refresh: bool) -> Any:
        town: Any = self._town
        town.refreshes = refresh
        return super().up(refresh=refresh)

    def unready(self, split: TrafficSplit) -> Sequence[str]:
        live: LiveService = self._service
        missing = live.unready(split)
        if missing:
            time.sleep(REAL_PAUSE)
        return missing
