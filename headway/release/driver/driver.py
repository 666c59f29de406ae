"""The driver: asks the ledger what is next, does it, looks whether it took, writes it down. Until the release is over.

All decisions are elsewhere (`actions.py`, the gate); here is the order of doing and writing. The trap: a runner can die at any line, and a
write can arrive without its answer; so every action looks at the world first, and every decision is made again from what is written.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from headway.errors import Exit, UserError
from headway.release.driver import actions, targets
from headway.release.driver.actions import Action, following
from headway.release.driver.judge import Judge, Reading, carried_over, gate_version
from headway.release.driver.kinds import Kind, Wish
from headway.release.driver.refusal import by_policy, described, unevaluated, why
from headway.release.driver.rollout import Rollout, Service, fold
from headway.release.driver.world import OutOfReachError, Probed, Route, World
from headway.release.ledger.division import Division
from headway.release.ledger.events import Event
from headway.release.ledger.ledger import Ledger, LostError
from headway.release.ledger.store import UnreachableError
from headway.release.plan import Kind as StepKind

LEASE_SECONDS = 120.0
"""How long a runner that fell silent keeps others out. Renewed at half of it."""
ATTEMPTS = 4
"""Of a preview or an update that fails for another reason than a policy."""
PAUSES = (5.0, 15.0, 30.0)
BUSY_SECONDS = 900.0
"""How long an update of somebody else is waited for."""
SLICE_SECONDS = 1.0
"""How often a waiting driver looks whether somebody wants something."""
HISTORY_SECONDS = 900.0
DRAIN_LOOKS = 60
ROUTE_LOOKS = 40

Told = Callable[[Event, Service], None]


class Driver:
    """Drives the running release of one service. `told` hears of every event, also those of others."""

    def __init__(
        self,
        ledger: Ledger,
        world: World,
        reading: Reading,
        holder: str,
        *,
        gone: Callable[[str], bool] = lambda _: False,
        told: Told = lambda _event, _service: None,
        lease_seconds: float = LEASE_SECONDS,
        regate: str | None = None,
    ) -> None:
        """`regate`: why this gate may decide a release that another one began; without a reason it does not."""
        self._ledger, self._world, self._reading, self._holder = ledger, world, reading, holder
        self._gone, self._told, self._lease_seconds = gone, told, lease_seconds
        self._regate = regate
        self._service = Service()
        self._judge: Judge | None = None
        self._guard = threading.RLock()

    @property
    def service(self) -> Service:
        return self._service

    def run(self) -> Rollout:
        """Carry on until the running release is over; answers how it ended. One that is over already is answered at once.

        Raises UserError when another runner drives it, or takes over; KeyboardInterrupt leaves everything as it is, to be resumed.
        """
        self._patiently(self._take)
        rollout = self._service.rollout
        if rollout is None:
            self._ledger.release(self._holder)
            raise UserError(
                f"There never was a release of {self._ledger.chain}.",
                "There is nothing to carry out.",
                f"Start one: `headway release start {self._ledger.chain}`.",
                Exit.REFUSED,
            )
        try:
            if not rollout.over:
                self._patiently(lambda: self._unless_unwatched(rollout))
                self._patiently(lambda: self._by_its_gate(rollout.number))
            while not (current := self._current(rollout.number)).over:
                self._patiently(self._step)
        except KeyboardInterrupt:
            with contextlib.suppress(LostError, UnreachableError):  # or the lease runs out
                self._ledger.release(self._holder)
            raise
        self._patiently(lambda: self._ledger.release(self._holder))
        return current

    # -- one step --------------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        self._renew()
        rollout = self._service.running
        action = following(rollout) if rollout else None
        if rollout and action:
            self._perform(rollout, action)

    def _perform(self, rollout: Rollout, action: Action) -> None:
        match action:
            case actions.Check():
                findings = self._world.check(rollout)
                self._write(Kind.CHECKED, {"sound": not findings, "findings": list(findings)})
            case actions.Learn():
                self._write(Kind.LEARNED, {"raw": dict(self._world.history(rollout, HISTORY_SECONDS))})
            case actions.Intend(division):
                self._write(Kind.INTENDED, {"division": division.document()})
            case actions.Apply(division):
                self._apply(rollout, division)
            case actions.Await(division, at_most):
                self._await(rollout, division, at_most)
            case actions.Probe(step, at_most):
                self._probe(rollout, step, at_most)
            case actions.Observe(start):
                self._observe(rollout, start)
            case actions.Shift(division):
                self._world.patch(division)
                if self._carried(division):
                    self._write(Kind.SHIFTED, {"route": dict(division.routes), "seconds": self._since(_failing(rollout))})
            case actions.Drain():
                self._drain(rollout)
            case actions.End(outcome, reason):
                self._world.vouch(None, rollout.stable)
                body = {"outcome": outcome.value, "reason": reason, "reconciled": not rollout.unreconciled, "ticks": rollout.ticks}
                self._write(Kind.ENDED, body)

    def _apply(self, rollout: Rollout, division: Division) -> None:
        began, refresh = self._world.now(), rollout.drifts > 0 or rollout.failing is not None
        if rollout.failing is None and division.exposes:
            self._vouch(rollout)
        failures = 0
        while True:
            planned = self._world.preview(refresh=refresh)
            if not planned.ok and by_policy(planned):
                self._write(Kind.REFUSED, {"reason": why(planned), **described(planned)})
                return
            done = planned
            if planned.ok and planned.changed:
                done = self._world.up(refresh=refresh)
            if done.ok and self._carried(division):
                took = (self._world.now() - began).total_seconds()
                found = planned.changed == 0
                parts = {"preview": planned.seconds, "update": 0.0 if found else done.seconds}
                body = {"found": found, "changes": dict(done.changes), "route": dict(division.routes), "seconds": took, "of_which": parts}
                self._write(Kind.APPLIED, {**body, "warnings": unevaluated(planned)})
                return
            refresh = refresh or done.ok
            patient = done.busy and (self._world.now() - began).total_seconds() < BUSY_SECONDS
            failures += not patient
            if failures == ATTEMPTS:
                break
            if self._pause(PAUSES[max(0, failures - 1)]):
                return
        reason = why(done) if not done.ok else "the live route did not take the weights that were asked for"
        self._write(Kind.FAILED, {"reason": reason, **described(done)})

    def _await(self, rollout: Rollout, division: Division, at_most: float) -> None:
        began = datetime.fromisoformat(rollout.changed)
        while missing := self._world.unready(division):
            if (self._world.now() - began).total_seconds() > at_most:
                self._write(Kind.LATE, {"reason": f"not ready within {at_most:.0f} s: {'; '.join(missing)}", "missing": list(missing)})
                return
            if hopeless := self._world.given_up(division):
                self._write(Kind.LATE, {"reason": f"it does not start: {'; '.join(hopeless)}", "missing": list(missing)})
                return
            if self._pause(2 * SLICE_SECONDS):
                return
        self._write(Kind.READY, {"seconds": (self._world.now() - began).total_seconds()})

    def _probe(self, rollout: Rollout, step: StepKind, at_most: float) -> None:
        try:
            probed = self._world.probe(rollout, step)
        except OutOfReachError as failure:
            if self._since(rollout.last) <= at_most:
                raise
            probed = Probed(passed=False, reason=f"its replicas could not be asked for {at_most:.0f} s: {failure}", by="the driver")
        self._write(Kind.PROBED, {"step": step.value, "passed": probed.passed, "reason": probed.reason, "by": probed.by})

    def _observe(self, rollout: Rollout, last: float | None) -> None:
        tick = float(rollout.body["tick_seconds"]) / float(rollout.body["speed"])
        start = self._start_of_tick(rollout, last, tick)
        end = start + tick
        readable = end + self._world.settle_seconds
        while (left := readable - self._world.now().timestamp()) > 0:
            if self._pause(min(left, SLICE_SECONDS)):
                return
        route = self._world.route()
        if not route.carries(rollout.division):
            self._drifted(rollout, route)
            return
        raw = self._world.read(rollout, start, end)
        frozen = rollout.frozen is not None
        decision = self._judging(rollout).decide(raw, frozen=frozen)
        body = {"window": {"start": start, "end": end}, "raw": dict(raw), "frozen": frozen, "decision": decision}
        body["seen"] = {"share": seen_share(raw), "after": end - datetime.fromisoformat(rollout.changed).timestamp()}
        self._write(Kind.OBSERVED, {**body, "division": rollout.division_number})

    def _start_of_tick(self, rollout: Rollout, last: float | None, tick: float) -> float:
        """Ticks follow each other without a gap, so that a runner who takes over reads what it missed. Only where the weights were
        changed since, and long after, a tick would be of two minds: it then begins with the new weights."""
        changed = datetime.fromisoformat(rollout.changed).timestamp()
        if last is None or (changed > last and self._world.now().timestamp() - last >= 2 * tick):
            return changed
        return last

    def _drifted(self, rollout: Rollout, route: Route) -> None:
        found = {"weights": dict(route.weights), "mirrored": route.mirrored, "copies": route.copies}
        if rollout.drifts < actions.DRIFTS_AT_MOST:
            self._write(Kind.DRIFTED, {"route": found, "asked": dict(rollout.division.routes)})
            return
        reason = f"somebody else moves its traffic: the live route was changed {rollout.drifts + 1} times"
        self._want_back(reason)

    def _drain(self, rollout: Rollout) -> None:
        """Done when a look sees no request to the new version; after long without a look, done unseen, and said so."""
        reason = "not measured"
        for _ in range(DRAIN_LOOKS):
            looked = self._world.drained(rollout)
            if looked.requests == 0:
                self._write(Kind.DRAINED, {"measured": True, "seconds": self._since(_failing(rollout)), "reason": looked.reason})
                return
            reason = looked.reason or f"{looked.requests:.0f} requests in the last look"
            self._world.sleep(SLICE_SECONDS)
        self._write(Kind.DRAINED, {"measured": False, "seconds": self._since(_failing(rollout)), "reason": reason})

    # -- the world -------------------------------------------------------------------------------------------------------------

    def _carried(self, division: Division) -> bool:
        """Whether the live route is what was asked for, within the time that an API server takes to say so."""
        for _ in range(ROUTE_LOOKS):
            if self._world.route().carries(division):
                return True
            self._world.sleep(SLICE_SECONDS / 4)
        return False

    def _vouch(self, rollout: Rollout) -> None:
        self._world.vouch(self._world.now() + timedelta(seconds=float(rollout.body["unwatched_at_most"])), rollout.stable)

    def _since(self, time: str) -> float:
        return (self._world.now() - datetime.fromisoformat(time)).total_seconds()

    def _unless_unwatched(self, rollout: Rollout) -> None:
        """The dead man's limit, seen from the next runner: what nobody watched for too long goes back, whatever it looks like now."""
        silent, limit = self._since(rollout.last), float(rollout.body["unwatched_at_most"])
        if rollout.unproven and silent > limit:
            reason = f"nobody watched it for {silent:.0f} s, longer than the {limit:.0f} s that its contract allows"
            self._want_back(reason)

    def _by_its_gate(self, number: int) -> None:
        """A release is decided by the gate that it began with, unless a person has written down why not. Going back needs no gate."""
        rollout = self._current(number)
        if rollout.failing or rollout.gate == gate_version():
            return
        if self._regate is not None:
            body = {"gate": gate_version(), "before": rollout.gate, "policy": carried_over(rollout.body["policy"]), "reason": self._regate}
            self._write(Kind.REGATED, body)
            return
        self._ledger.release(self._holder)
        raise UserError(
            f"Release {rollout.release} of {self._ledger.chain} is decided by gate {rollout.gate}, and this Headway has gate {gate_version()}.",
            "The same counts could now be judged otherwise, half way; nothing was done, and the dead man's limit goes on.",
            "Resume it with the Headway that began it; or say why this one may go on (`headway release resume --regate --reason ...`);"
            " or take it back (`headway release rollback`).",
            Exit.REFUSED,
        )

    # -- the ledger ------------------------------------------------------------------------------------------------------------

    def _current(self, number: int) -> Rollout:
        """The release that began with event `number`, as it now stands."""
        found = self._service.begun_with(number)
        assert found is not None, number  # noqa: S101  a chain only grows
        return found

    def _take(self) -> None:
        with self._guard:
            self._ledger.acquire(self._holder, timedelta(seconds=self._lease_seconds), self._gone)
            self._catch_up()

    def _renew(self) -> None:
        """Keep the lease, and the word given to the dead man's switch. Raises UserError when the lease is another's by now."""
        with self._guard:
            self._ledger.read()
            self._catch_up()
            lease = self._ledger.lease()
            left = (lease.until - self._world.now()).total_seconds() if lease and lease.holder == self._holder else 0.0
            if left < self._lease_seconds / 2:
                self._take()
                rollout = self._service.running
                if rollout and rollout.exposed and rollout.failing is None:
                    self._vouch(rollout)

    def keep(self, stopped: threading.Event) -> None:
        """Renew the lease while an update takes long. For a thread of its own; ends when `stopped`."""
        while not stopped.wait(self._lease_seconds / 4):
            try:
                self._renew()
            except (UserError, LostError, UnreachableError, OutOfReachError):
                continue  # the main thread meets the same, and acts on it

    def _write(self, kind: Kind, body: Mapping[str, Any]) -> None:
        with self._guard:
            self._ledger.append(kind, body)
            self._catch_up()

    def _want_back(self, reason: str) -> None:
        self._write(Kind.ASKED, {"wish": Wish.ROLLBACK.value, "reason": reason})

    def _catch_up(self) -> None:
        for event in self._ledger.events[self._service.count :]:
            self._service = fold((event,), self._service)
            if event.kind in (Kind.STARTED, Kind.REGATED):
                rollout = self._service.rollout
                begun = rollout.number if rollout else event.number
                self._judge = Judge.of(self._ledger.events[begun - 1 : event.number], self._reading)
            elif self._judge is not None:
                self._judge.follow(event)
            self._told(event, self._service)

    def _judging(self, rollout: Rollout) -> Judge:
        assert self._judge is not None, rollout.number  # noqa: S101  a running release has a `started` event
        return self._judge

    def _pause(self, seconds: float) -> bool:
        """Sleep, looking now and then; True when somebody wrote something, so that what is next must be asked anew."""
        left = seconds
        while left > 0:
            self._world.sleep(min(left, SLICE_SECONDS))
            left -= SLICE_SECONDS
            before = self._service.count
            self._renew()
            if any(event.kind == Kind.ASKED for event in self._ledger.events[before:]):
                return True
        return False

    def _patiently(self, act: Callable[[], None]) -> None:
        """Do it; again when a race was lost, and again and again while ledger or API server do not answer.

        While the ledger is out of reach for longer than the dead man's limit, traffic of an unproven release goes back at once: it would
        be watched by someone who cannot act. That is written down when the ledger is back.
        """
        silent_since, reverted = self._world.now(), False
        while True:
            try:
                act()
            except LostError:
                pass
            except OutOfReachError:
                self._world.sleep(SLICE_SECONDS / 2)
            except UnreachableError:
                reverted = reverted or self._give_up_watching(silent_since)
                self._world.sleep(SLICE_SECONDS)
            else:
                return
            if reverted:
                self._confess()

    def _give_up_watching(self, since: datetime) -> bool:
        rollout = self._service.running
        if rollout is None or not rollout.unproven:
            return False
        if (self._world.now() - since).total_seconds() <= float(rollout.body["unwatched_at_most"]):
            return False
        try:
            self._world.patch(targets.back(rollout))
        except OutOfReachError:
            return False
        return True

    def _confess(self) -> None:
        """Write down, as soon as the ledger takes it, that traffic went back meanwhile."""
        try:
            self._renew()
            rollout = self._service.running
            if rollout and rollout.failing is None:
                reason = "the ledger was out of reach for longer than its contract lets it be unwatched; traffic went back meanwhile"
                self._want_back(reason)
        except (LostError, UnreachableError, OutOfReachError):
            return


def seen_share(raw: Mapping[str, Any]) -> float | None:
    """Share of users' requests that the new version answered in a tick, as it was counted; None where nothing was."""
    requests = {arm: float(sum(of["requests"])) for arm, of in raw.get("arms", {}).items() if of}
    users = sum(requests.get(arm, 0.0) for arm in ("stable", "baseline", "canary"))
    return requests.get("canary", 0.0) / users if users else None


def _failing(rollout: Rollout) -> str:
    return rollout.failing.time if rollout.failing else rollout.time


def ask(ledger: Ledger, wish: Wish, reason: str, refuse: Callable[[Service], None] = lambda _: None) -> Sequence[Event]:
    """Append a wish; again when a race was lost. `refuse` may raise UserError for the service as it then is."""
    while True:
        refuse(fold(ledger.read()))
        try:
            ledger.append(Kind.ASKED, {"wish": wish.value, "reason": reason})
        except LostError:
            continue
        return ledger.events
