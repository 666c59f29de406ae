"""One runner's hold on a service's chain: its lease, what it has read, and the gate that follows what is written.

Everything the driver remembers is here, and all of it comes from the ledger. The trap: two threads use it, the one that
drives and the one that keeps the lease beside a long update; reading and writing the chain is therefore never done by
both at once.
"""

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from headway.environment.port import OutOfReachError
from headway.ledger.chain import Ledger, LostError
from headway.ledger.events import Event
from headway.ledger.store import MissingStoreError, UnreachableError
from headway.problem import UserError
from headway.release.driver.event_kinds import EventKind, OperatorRequest
from headway.release.driver.judge import CounterReader, RolloutJudge
from headway.release.driver.rollout_state import RolloutState, ServiceState, fold
from headway.release.driver.service_under_release import ServiceUnderRelease

LEASE_SECONDS = 60.0
"""How long a runner that fell silent keeps others out: no longer than the least dead man's limit. Renewed at half of
it."""
SLICE_SECONDS = 1.0
"""How often a waiting driver looks whether somebody wants something."""

EventListener = Callable[[Event, ServiceState], None]


class LeasedRun:
    """The chain of one service, and its world, as `holder` holds them. `told` hears of every event, also those of
    others; `gone` tells of a holder whether it is known to have died."""

    def __init__(
        self,
        ledger: Ledger,
        world: ServiceUnderRelease,
        reading: CounterReader,
        holder: str,
        *,
        gone: Callable[[str], bool] = lambda _: False,
        told: EventListener = lambda _event, _service: None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._ledger, self.world, self._reading, self._holder = ledger, world, reading, holder
        self._gone, self._told, self._lease_seconds = gone, told, lease_seconds
        self._judge: RolloutJudge | None = None
        self._guard = threading.RLock()
        self.service = ServiceState()

    @property
    def chain(self) -> str:
        return self._ledger.chain

    def current(self, number: int) -> RolloutState:
        """The release that began with event `number`, as it now stands."""
        found = self.service.begun_with(number)
        assert found is not None, number  # noqa: S101  a chain only grows
        return found

    def judging(self, rollout: RolloutState) -> RolloutJudge:
        assert self._judge is not None, rollout.number  # noqa: S101  a running release has a `started` event
        return self._judge

    def take(self) -> None:
        """Become, or stay, the one who acts. Raises UserError while another one does, LostError, UnreachableError."""
        with self._guard:
            self._ledger.acquire(self._holder, timedelta(seconds=self._lease_seconds), self._gone)
            self._catch_up()

    def renew(self) -> None:
        """Keep the lease, and the word given to the dead man's switch. Raises UserError when the lease is another's by
        now."""
        with self._guard:
            self._ledger.read()
            self._catch_up()
            if self._ledger.left(self._holder) < self._lease_seconds / 2:
                self.take()
                rollout = self.service.running
                if rollout and rollout.exposed and rollout.failing is None:
                    self.vouch(rollout)

    def keep(self, stopped: threading.Event) -> None:
        """Renew the lease while an update takes long. For a thread of its own; ends when `stopped`."""
        while not stopped.wait(self._lease_seconds / 4):
            try:
                self.renew()
            except (UserError, LostError, UnreachableError, MissingStoreError, OutOfReachError):
                continue  # the main thread meets the same, and acts on it

    def release(self) -> None:
        """Give the lease back, and let the witness know how it ended. Raises LostError, UnreachableError."""
        with self._guard:
            self._ledger.release(self._holder)
            self._ledger.attest()

    def vouch(self, rollout: RolloutState) -> None:
        """Say on the live route until when this release is watched. Raises OutOfReachError, LostError."""
        self._promise(rollout, timedelta(seconds=float(rollout.body["unwatched_at_most"])))

    def unwatch(self, rollout: RolloutState) -> None:
        """Say that nobody needs to watch any more. Raises OutOfReachError, LostError."""
        self._promise(rollout, None)

    def _promise(self, rollout: RolloutState, lasts: timedelta | None) -> None:
        """A runner that stood still for long would otherwise speak for a release of somebody else. So the route is read
        first, then the chain: whoever took over since has changed neither, or is respected. And no guard is told of a chain
        that was not compared: it asks nobody (ADR 26)."""
        seen, before = self.world.route().version, self.service.count
        with self._guard:
            self._ledger.look()
            self._catch_up()
        if self.service.count != before:
            raise LostError(f"somebody else acted on {self.chain}")
        self.world.vouch(self.world.now() + lasts if lasts else None, rollout.stable, seen)
        with self._guard:
            self._ledger.attest()

    def write(self, kind: EventKind, body: Mapping[str, Any]) -> None:
        with self._guard:
            self._ledger.append(kind, body)
            self._catch_up()

    def request_rollback(self, reason: str) -> None:
        """Write down that traffic shall go back."""
        self.write(EventKind.ASKED, {"wish": OperatorRequest.ROLLBACK.value, "reason": reason})

    def pause(self, seconds: float) -> bool:
        """Sleep, looking now and then; True when somebody wrote something, so that what is next must be asked anew."""
        left = seconds
        while left > 0:
            self.world.sleep(min(left, SLICE_SECONDS))
            left -= SLICE_SECONDS
            before = self.service.count
            self.renew()
            if any(event.kind == EventKind.ASKED for event in self._ledger.events[before:]):
                return True
        return False

    def _catch_up(self) -> None:
        for event in self._ledger.events[self.service.count :]:
            self.service = fold((event,), self.service)
            if event.kind in (EventKind.STARTED, EventKind.REGATED):
                rollout = self.service.rollout
                begun = rollout.number if rollout else event.number
                self._judge = RolloutJudge.of(self._ledger.events[begun - 1 : event.number], self._reading)
            elif self._judge is not None:
                self._judge.follow(event)
            self._told(event, self.service)
