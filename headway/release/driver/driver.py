"""The driver: asks the ledger what is next, does it, looks whether it took, writes it down. Until the release is over.

All decisions are elsewhere (`actions.py`, the gate); here is the order of doing and writing. A runner can die at any
line, and a write can arrive without its answer; so every action looks at the world first, and every decision is made
again from what is written.
"""

import contextlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from headway.environment.port import OutOfReachError
from headway.ledger.chain import LostError
from headway.ledger.store import UnreachableError
from headway.ledger.traffic_split import ArmRole, TrafficSplit
from headway.problem import Exit, UserError
from headway.release.driver import actions
from headway.release.driver.actions import DriverAction, next_action
from headway.release.driver.clocks import refusal
from headway.release.driver.event_kinds import EventKind, ReleaseOutcome, nothing_read
from headway.release.driver.judge import carried_over, decided_by, gate_version
from headway.release.driver.leased_run import SLICE_SECONDS, LeasedRun
from headway.release.driver.refusal import by_policy, described, unevaluated, why
from headway.release.driver.retry import with_retries
from headway.release.driver.rollback_diagnosis import DiagnoseRollback, RollbackDiagnosis
from headway.release.driver.rollout_state import RolloutState
from headway.release.driver.service_under_release import LiveRoute, ProbeResult
from headway.release.plan import StepKind

ATTEMPTS = 4
"""Of a preview or an update that fails for another reason than a policy."""
PAUSES = (5.0, 15.0, 30.0)
BUSY_SECONDS = 900.0
"""How long an update of somebody else is waited for."""
HISTORY_SECONDS = 900.0
HISTORY_READINGS = 5
"""So often is the past asked for, before the release ends because nothing tells it."""
DRAIN_SECONDS = 60.0
"""How long the last request to a version that was taken back is looked for: four scrapes in production, of which two
new ones tell."""
DRAIN_LOOK_SECONDS = SLICE_SECONDS / 4
ROUTE_LOOKS = 40
TICKS_BETWEEN_CLOCKS = 10
"""How often a running release compares clocks."""


class ReleaseDriver:
    """Drives the running release of one service. `regate`: why this gate may decide a release that another one began;
    without a reason it does not. `diagnose`: asks why a version was rolled back."""

    def __init__(self, leased_run: LeasedRun, *, regate: str | None = None, diagnose: DiagnoseRollback | None = None) -> None:
        self._leased_run, self._world, self._regate = leased_run, leased_run.world, regate
        self._diagnosis = RollbackDiagnosis(diagnose)

    def run(self) -> RolloutState:
        """Carry on until the running release is over; answers how it ended. One that is over already is answered at
        once.

        Raises UserError when another runner drives it, or takes over; KeyboardInterrupt leaves everything as it is, to
        be resumed.
        """
        try:
            self._with_retries(self._leased_run.take)
            rollout = self._begun()
            if not rollout.over:
                self._with_retries(self._by_the_right_clock)
                self._with_retries(lambda: self._unless_unwatched(rollout))
                self._with_retries(lambda: self._by_its_gate(rollout.number))
            while not (current := self._leased_run.current(rollout.number)).over:
                self._with_retries(self._step)
        except (KeyboardInterrupt, UserError):
            with contextlib.suppress(LostError, UnreachableError):  # or the lease runs out
                self._leased_run.release()
            raise
        self._with_retries(self._leased_run.release)
        return current

    def _begun(self) -> RolloutState:
        rollout = self._leased_run.service.rollout
        if rollout is None:
            raise UserError(
                f"There never was a release of {self._leased_run.chain}.",
                "There is nothing to carry out.",
                f"Start one: `headway release start {self._leased_run.chain}`.",
                Exit.REFUSED,
            )
        return rollout

    def _with_retries(self, act: Callable[[], None]) -> None:
        with_retries(self._leased_run, act)

    # -- one step --------------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        self._leased_run.renew()
        rollout = self._leased_run.service.running
        action = next_action(rollout) if rollout else None
        if rollout and action:
            self._diagnosis.ask(rollout)
            self._perform(rollout, action)

    def _perform(self, rollout: RolloutState, action: DriverAction) -> None:
        match action:
            case actions.CheckEvidence():
                findings = self._world.check(rollout)
                self._leased_run.write(EventKind.CHECKED, {"sound": not findings, "findings": list(findings)})
            case actions.LearnHistory():
                self._learn(rollout)
            case actions.IntendSplit(split):
                self._watched(rollout, split)  # from the intention on, any update of the stack carries it out
                self._leased_run.write(EventKind.INTENDED, {"division": split.document()})
            case actions.ApplyStack(split):
                self._apply(rollout, split)
            case actions.AwaitReplicas(split, at_most):
                self._await(rollout, split, at_most)
            case actions.ProbeReplicas(step, at_most):
                self._probe(rollout, step, at_most)
            case actions.ObserveTick(start):
                self._observe(rollout, start)
            case actions.RecordDue():
                self._leased_run.write(EventKind.DUE, {"since": rollout.users_since, "division": rollout.split_number})
            case actions.ShiftTraffic(split):
                self._world.patch(split)
                if self._carried(split):
                    self._leased_run.write(EventKind.SHIFTED, {"route": split.percentages, "seconds": self._since(_failing(rollout))})
            case actions.DrainTraffic():
                self._drain(rollout)
            case actions.EndRelease(outcome, reason):
                if outcome is ReleaseOutcome.PROMOTED or not rollout.unreconciled:  # else an update that hangs may still move it
                    self._leased_run.unwatch(rollout)
                body = {"outcome": outcome.value, "reason": reason, "reconciled": not rollout.unreconciled, "ticks": rollout.ticks}
                self._leased_run.write(EventKind.ENDED, {**body, **self._diagnosis.found(rollout, outcome)})

    def _learn(self, rollout: RolloutState) -> None:
        """Keep what the stable version did before. What tells nothing of it is not kept, for no gate could begin with it: metrics that are
        slow are asked again, and those that stay so end the release like an unsound check, before anything is deployed."""
        reason = ""
        for _ in range(HISTORY_READINGS):
            raw = dict(self._world.history(rollout, HISTORY_SECONDS))
            if not nothing_read(raw):
                self._leased_run.write(EventKind.LEARNED, {"raw": raw})
                return
            reason = raw["reason"] or "no series"
            if self._leased_run.pause(SLICE_SECONDS):
                return
        finding = f"what the stable version did before could not be read ({reason})"
        self._leased_run.write(EventKind.CHECKED, {"sound": False, "findings": [finding]})

    def _apply(self, rollout: RolloutState, split: TrafficSplit) -> None:
        began, refresh = self._world.now(), rollout.drifts > 0 or rollout.failing is not None
        self._watched(rollout, split)
        failures = 0
        while True:
            planned = self._world.preview(refresh=refresh)
            if not planned.ok and by_policy(planned):
                self._leased_run.write(EventKind.REFUSED, {"reason": why(planned), **described(planned)})
                return
            done = planned
            if planned.ok and planned.changed:
                self._leased_run.renew()  # a plan takes long enough to lose the lease in
                done = self._world.up(refresh=refresh)
            if done.ok and self._carried(split):
                took = (self._world.now() - began).total_seconds()
                found = planned.changed == 0
                parts = {"preview": planned.seconds, "update": 0.0 if found else done.seconds}
                body = {"found": found, "changes": dict(done.changes), "route": split.percentages, "seconds": took, "of_which": parts}
                self._leased_run.write(EventKind.APPLIED, {**body, "warnings": unevaluated(planned)})
                return
            refresh = refresh or done.ok
            patient = done.busy and (self._world.now() - began).total_seconds() < BUSY_SECONDS
            failures += not patient
            if failures == ATTEMPTS:
                break
            if self._leased_run.pause(PAUSES[max(0, failures - 1)]):
                return
        reason = why(done) if not done.ok else "the live route did not take the weights that were asked for"
        self._leased_run.write(EventKind.FAILED, {"reason": reason, **described(done)})

    def _watched(self, rollout: RolloutState, split: TrafficSplit) -> None:
        if rollout.failing is None and split.exposes:
            self._leased_run.vouch(rollout)

    def _await(self, rollout: RolloutState, split: TrafficSplit, at_most: float) -> None:
        began = datetime.fromisoformat(rollout.changed)
        while missing := self._world.unready(split):
            if (self._world.now() - began).total_seconds() > at_most:
                self._leased_run.write(
                    EventKind.LATE, {"reason": f"not ready within {at_most:.0f} s: {'; '.join(missing)}", "missing": list(missing)}
                )
                return
            if hopeless := self._world.given_up(split):
                self._leased_run.write(EventKind.LATE, {"reason": f"it does not start: {'; '.join(hopeless)}", "missing": list(missing)})
                return
            if self._leased_run.pause(2 * SLICE_SECONDS):
                return
        self._leased_run.write(EventKind.READY, {"seconds": (self._world.now() - began).total_seconds()})

    def _probe(self, rollout: RolloutState, step: StepKind, at_most: float) -> None:
        try:
            probed = self._world.probe(rollout, step)
        except OutOfReachError as failure:
            if self._since(rollout.last) <= at_most:
                raise
            probed = ProbeResult(passed=False, reason=f"its replicas could not be asked for {at_most:.0f} s: {failure}", by="the driver")
        self._leased_run.write(EventKind.PROBED, {"step": step.value, "passed": probed.passed, "reason": probed.reason, "by": probed.by})

    def _observe(self, rollout: RolloutState, last: float | None) -> None:
        tick = float(rollout.body["tick_seconds"]) / float(rollout.body["speed"])
        start = _start_of_tick(rollout, last)
        end = start + tick
        readable = end + self._world.settle_seconds
        while (left := readable - self._world.now().timestamp()) > 0:
            if self._leased_run.pause(min(left, SLICE_SECONDS)):
                return
        route = self._world.route()
        if not route.carries(rollout.split):
            self._drifted(rollout, route)
            return
        if rollout.ticks % TICKS_BETWEEN_CLOCKS == 0:
            self._by_the_right_clock()
        raw = self._world.read(rollout, start, end)
        frozen = rollout.held
        decision = self._leased_run.judging(rollout).decide(raw, frozen=frozen)
        body = {"window": {"start": start, "end": end}, "raw": dict(raw), "frozen": frozen, "decision": decision}
        after = end - datetime.fromisoformat(rollout.changed).timestamp()
        asked = None if rollout.divided else rollout.split.weight(rollout.release, ArmRole.CANARY).fraction  # users are not requests
        body["seen"] = {"share": seen_share(raw), "asked": asked, "after": after}
        divided = {"divided": True} if rollout.divided else {}
        self._leased_run.write(EventKind.OBSERVED, {**body, **divided, "division": rollout.split_number})

    def _drifted(self, rollout: RolloutState, route: LiveRoute) -> None:
        found = route.document()
        if rollout.drifts < actions.DRIFTS_AT_MOST:
            self._leased_run.write(EventKind.DRIFTED, {"route": found, "asked": rollout.split.percentages, "asked_led": rollout.split.led})
            return
        reason = f"somebody else moves its traffic: the live route was changed {rollout.drifts + 1} times"
        self._leased_run.request_rollback(reason)

    def _drain(self, rollout: RolloutState) -> None:
        """Done when a look sees no request to the new version; after long without a look, done unseen, and said so."""
        began = self._world.now()
        while True:
            looked = self._world.drained(rollout)
            after = self._since(_failing(rollout))
            if looked.requests == 0:
                self._leased_run.write(EventKind.DRAINED, {"measured": True, "seconds": after, "reason": looked.reason})
                return
            if (self._world.now() - began).total_seconds() > DRAIN_SECONDS:
                reason = looked.reason if looked.requests is None else f"{looked.requests:.0f} requests {looked.reason}".rstrip()
                self._leased_run.write(EventKind.DRAINED, {"measured": False, "seconds": after, "reason": reason})
                return
            self._world.sleep(DRAIN_LOOK_SECONDS)

    # -- the world -------------------------------------------------------------------------------------------------------------

    def _carried(self, split: TrafficSplit) -> bool:
        """Whether the live route is what was asked for, within the time that an API server takes to say so."""
        for _ in range(ROUTE_LOOKS):
            if self._world.route().carries(split):
                return True
            self._world.sleep(SLICE_SECONDS / 4)
        return False

    def _since(self, time: str) -> float:
        return (self._world.now() - datetime.fromisoformat(time)).total_seconds()

    def _by_the_right_clock(self) -> None:
        """A runner whose clock is wrong judges nothing, neither evidence nor who watched."""
        if how := self._world.clocks_apart():
            raise refusal(self._leased_run.chain, how)

    def _unless_unwatched(self, rollout: RolloutState) -> None:
        """The dead man's limit, seen from the next runner: what nobody watched for too long goes back, whatever it
        looks like now."""
        silent, limit = self._since(rollout.last), float(rollout.body["unwatched_at_most"])
        if rollout.unproven and silent > limit:
            reason = f"nobody watched it for {silent:.0f} s, longer than the {limit:.0f} s that its contract allows"
            self._leased_run.request_rollback(reason)

    def _by_its_gate(self, number: int) -> None:
        """A release is decided by the gate that it began with, unless a person has written down why not. Going back
        needs no gate."""
        rollout = self._leased_run.current(number)
        if rollout.failing or decided_by(rollout.gate):
            return
        if self._regate is not None:
            body = {"gate": gate_version(), "before": rollout.gate, "policy": carried_over(rollout.body["policy"]), "reason": self._regate}
            self._leased_run.write(EventKind.REGATED, body)
            return
        raise UserError(
            f"Release {rollout.release} of {self._leased_run.chain} is decided by gate {rollout.gate}, and this Headway has gate {gate_version()}.",
            "This gate could judge the same counts differently in the middle of the release; nothing was done, and the release guard watches it.",
            "Resume it with the Headway that began it; or say why this one may go on (`headway release resume --regate --reason ...`);"
            " or take it back (`headway release rollback`).",
            Exit.REFUSED,
        )


def _start_of_tick(rollout: RolloutState, last: float | None) -> float:
    """Ticks follow each other without a gap, so that a runner who takes over reads what it missed. Only where the weights
    were changed since, the tick begins with the new ones, so that none holds requests of both."""
    changed = datetime.fromisoformat(rollout.changed).timestamp()
    return changed if last is None else max(last, changed)


def seen_share(raw: Mapping[str, Any]) -> float | None:
    """Share of users' requests that the new version answered in a tick, as it was counted; None where nothing was."""
    requests = {arm: float(sum(of["requests"])) for arm, of in raw.get("arms", {}).items() if of}
    users = sum(requests.get(arm, 0.0) for arm in ("stable", "baseline", "canary"))
    return requests.get("canary", 0.0) / users if users else None


def _failing(rollout: RolloutState) -> str:
    return rollout.failing.time if rollout.failing else rollout.time
