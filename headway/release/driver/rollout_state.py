"""Where a service stands, as its chain of events says: which release serves, which one is on its way, and how far it
is. Pure.

A fold over events; nothing else is remembered anywhere. An event of an ended release must not touch the next one, so
everything about a release begins with its `started` event.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from headway.ledger.events import Event, unreadable
from headway.ledger.traffic_split import ArmRole, TrafficSplit, UserSplit, release_name
from headway.problem import ODD
from headway.release.driver.event_kinds import EventKind, OperatorRequest, ReleaseOutcome, nothing_read
from headway.release.gate.reasons import OUT_OF_TIME
from headway.release.plan import RolloutPlan, StepKind

_KINDS = frozenset(kind.value for kind in EventKind)


@dataclass(frozen=True, kw_only=True)
class RolloutFailure:
    """Why traffic goes back, since which event, and what was asked or found. `kind` says who decided: the gate by
    its evidence, a time that was over, a person, a step."""

    number: int
    time: str
    kind: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class RolloutState:
    """One release on its way. `number` and `time` are those of its `started` event, `last` those of the newest event
    about it."""

    number: int
    time: str
    actor: str
    release: str
    digest: str
    stable: str
    stable_digest: str
    plan: RolloutPlan
    body: Mapping[str, Any]
    """All that was recorded at the start."""
    gate: str
    """Which gate decides it."""
    before: TrafficSplit
    """The split when it began."""
    split: TrafficSplit
    """The newest one that was intended."""
    split_number: int
    settled: bool = True
    """Whether the split was applied and read back."""
    awaited: bool = True
    """Whether the replicas that the split asks for are ready, or there were no new ones."""
    checked: bool = False
    learned: Mapping[str, Any] | None = None
    probed: frozenset[StepKind] = frozenset()
    decision: Mapping[str, Any] | None = None
    """The newest decision of the gate, as recorded."""
    window_end: float | None = None
    ticks: int = 0
    compared: frozenset[str] = frozenset()
    """Labelled requests that both versions have answered: asked again, they would be no new evidence."""
    users_since: str | None = None
    """When users were first divided."""
    users_until: str | None = None
    """When users ceased to be divided, for the last time so far."""
    due: bool = False
    """Whether the experiment's time is over, so that a person decides."""
    frozen: str | None = None
    """Why a person holds the weight."""
    promote: str | None = None
    """Why a person wants all traffic at once."""
    failing: RolloutFailure | None = None
    was_exposed: bool = False
    """Whether the new version ever was to get requests or copies of them."""
    grown: tuple[tuple[str, int], ...] = ()
    """When it was first to get requests or copies, and when more of users' requests; each with its whole percent of these."""
    was_deployed: bool = False
    shifted: bool = False
    drained: bool = False
    unreconciled: bool = False
    drifts: int = 0
    outcome: ReleaseOutcome | None = None
    ended: Mapping[str, Any] | None = None
    last: str = ""
    changed: str = ""
    """When the split was last applied."""

    @property
    def over(self) -> bool:
        return self.outcome is not None

    @property
    def phase(self) -> str:
        """Of the gate: `releasing`, `baking`, `done`, `rolled back`; `preparing` before its first decision."""
        return str(self.decision["phase"]) if self.decision else "preparing"

    @property
    def exposed(self) -> bool:
        """Whether users' requests, or copies of them, go to the new version."""
        return self.split.exposes

    @property
    def unproven(self) -> bool:
        """Whether users depend on a version that has not passed the last step."""
        return self.exposed and self.failing is None and self.phase in ("preparing", "releasing")

    @property
    def replaced(self) -> bool:
        """Whether the old version is gone, or going: then there is nothing to go back to."""
        return all(arm.release != self.stable for arm in self.split.arms)

    @property
    def user_split(self) -> UserSplit | None:
        """How an A/B release divides users."""
        found = self.body.get("split")
        return UserSplit.read(found) if found else None

    @property
    def divided(self) -> bool:
        """Whether users are divided now."""
        return self.split.user_split is not None and self.failing is None

    @property
    def held(self) -> bool:
        """Whether the gate may not move the weight: a person says so, or will."""
        return self.frozen is not None or self.split.user_split is not None

    @property
    def users_end(self) -> datetime | None:
        """When a person is to decide; None before users are divided."""
        if self.users_since is None:
            return None
        length = self.plan.one(StepKind.SPLIT).at_least.seconds / float(self.body["speed"])
        return datetime.fromisoformat(self.users_since) + timedelta(seconds=length)

    @property
    def status(self) -> str:
        """One of deploying, active, held, draining; or how it ended."""
        if self.outcome:
            return str(self.outcome)
        if self.failing:
            return "draining"
        if self.frozen is not None:
            return "held"
        return "active" if self.exposed else "deploying"


@dataclass(frozen=True, kw_only=True)
class ServiceState:
    """A service. `split` is the one that holds now; None where no ledger knows the service."""

    split: TrafficSplit | None = None
    rollout: RolloutState | None = None
    """The newest, running or not."""
    past: tuple[RolloutState, ...] = ()
    """Ended ones, oldest first."""
    lease: Mapping[str, Any] | None = None
    count: int = 0
    known: Mapping[str, str] = field(default_factory=dict[str, str])
    """Content of each release that was ever named, by its name."""

    @property
    def running(self) -> RolloutState | None:
        return self.rollout if self.rollout and not self.rollout.over else None

    @property
    def all(self) -> tuple[RolloutState, ...]:
        """Every release, oldest first, the running one as the last."""
        return (*self.past, *((self.running,) if self.running else ()))

    def begun_with(self, number: int) -> RolloutState | None:
        """The release that began with event `number`."""
        return next((rollout for rollout in self.all if rollout.number == number), None)

    @property
    def stable(self) -> str | None:
        found = self.split.arm(ArmRole.STABLE) if self.split else None
        return found.release if found else None


def fold(events: Iterable[Event], start: ServiceState | None = None) -> ServiceState:
    """The service after `events`, which follow those that `start` has seen. Raises UserError for an event of a newer
    Headway."""
    service = start or ServiceState()
    for event in events:
        if event.kind not in _KINDS:
            raise unreadable(event)
        try:
            service = _after(service, event)
        except ODD:
            raise unreadable(event) from None
    return service


def _after(service: ServiceState, event: Event) -> ServiceState:
    service = replace(service, count=event.number)
    body = event.body
    match event.kind:
        case EventKind.ACCEPTED | EventKind.BOUND:
            return service
        case EventKind.LEASE:
            return replace(service, lease=body)
        case EventKind.LEASE_RELEASED:
            return replace(service, lease=None)
        case EventKind.ADOPTED if service.split is None:
            split = TrafficSplit.read(body["division"])
            return replace(service, split=split, known={**service.known, **split.digests})
        case EventKind.STARTED if service.split is not None:
            known = {**service.known, body["release"]: body["digest"]}
            return replace(service, rollout=_started(event, service.split), known=known)
        case _:
            pass
    rollout = service.running
    if rollout is None:
        return service
    rollout = replace(_told(rollout, event), last=event.time)
    past = (*service.past, rollout) if rollout.over else service.past
    return replace(service, rollout=rollout, past=past, split=rollout.split)


def _started(event: Event, split: TrafficSplit) -> RolloutState:
    body = event.body
    return RolloutState(
        number=event.number,
        time=event.time,
        actor=event.actor,
        release=release_name(body["release"]),
        digest=body["digest"],
        stable=release_name(body["stable"]),
        stable_digest=body["stable_digest"],
        plan=RolloutPlan.read(body["plan"]),
        body=body,
        gate=body["gate"],
        before=split,
        split=split,
        split_number=event.number,
        last=event.time,
        changed=event.time,
    )


def _told(rollout: RolloutState, event: Event) -> RolloutState:
    body = event.body

    def failing(kind: str, reason: str) -> RolloutState:
        if rollout.failing:
            return rollout
        return replace(rollout, failing=RolloutFailure(number=event.number, time=event.time, kind=kind, reason=reason))

    match event.kind:
        case EventKind.CHECKED:
            return replace(rollout, checked=True) if body["sound"] else failing("evidence", "; ".join(body["findings"]))
        case EventKind.LEARNED:
            return rollout if nothing_read(body["raw"]) else replace(rollout, learned=body["raw"])
        case EventKind.INTENDED:
            split = TrafficSplit.read(body["division"])
            grew = grows(rollout.split, split)
            intended = replace(rollout, split=split, split_number=event.number, settled=False, awaited=not grew)
            return replace(intended, was_exposed=rollout.was_exposed or intended.exposed, grown=_grown(rollout, split, event.time))
        case EventKind.APPLIED:
            deployed = rollout.was_deployed or rollout.failing is None
            return replace(_divides(rollout, event.time), settled=True, changed=event.time, was_deployed=deployed)
        case EventKind.REFUSED | EventKind.FAILED:
            kept = rollout.failing or rollout.replaced
            given_up = replace(rollout, unreconciled=True) if kept else failing(str(event.kind), body["reason"])
            return replace(given_up, settled=True)
        case EventKind.READY:
            return replace(rollout, awaited=True)
        case EventKind.LATE:
            return replace(failing("late", body["reason"]), awaited=True)
        case EventKind.PROBED:
            done = replace(rollout, probed=rollout.probed | {StepKind(body["step"])})
            return failing(body["step"], body["reason"]) if body["passed"] is False else done
        case EventKind.OBSERVED:
            seen = replace(
                rollout,
                decision=body["decision"],
                window_end=body["window"]["end"],
                ticks=rollout.ticks + 1,
                compared=rollout.compared.union((body["raw"].get("answers") or {}).get("compared", ())),
            )
            failed = body["decision"]["phase"] == "rolled back" and not rollout.failing
            kind = "time" if body["decision"]["reason"] in OUT_OF_TIME else "gate"
            found = RolloutFailure(number=event.number, time=event.time, kind=kind, reason=body["decision"]["sentence"])
            return replace(seen, failing=found) if failed else seen
        case EventKind.DUE:
            return replace(rollout, due=True)
        case EventKind.REGATED:
            return replace(rollout, gate=body["gate"])
        case EventKind.DRIFTED:
            return replace(rollout, settled=False, drifts=rollout.drifts + 1)
        case EventKind.ASKED:
            return _asked(rollout, body, failing)
        case EventKind.SHIFTED:
            return replace(_divides(rollout, event.time), shifted=True, settled=True)
        case EventKind.DRAINED:
            return replace(rollout, drained=True)
        case EventKind.ENDED:
            return replace(rollout, outcome=ReleaseOutcome(body["outcome"]), ended=body)
        case _:
            return rollout


def _divides(rollout: RolloutState, time: str) -> RolloutState:
    """With the times between which users are divided, where the route was just brought to the split."""
    if rollout.divided:
        return replace(rollout, users_since=rollout.users_since or time, users_until=None)
    ended = rollout.users_since is not None and rollout.users_until is None
    return replace(rollout, users_until=time) if ended else rollout


def _asked(rollout: RolloutState, body: Mapping[str, Any], failing: Callable[[str, str], RolloutState]) -> RolloutState:
    reason = str(body["reason"])
    match body["wish"]:
        case OperatorRequest.FREEZE:
            return replace(rollout, frozen=reason)
        case OperatorRequest.RESUME:
            return replace(rollout, frozen=None)
        case OperatorRequest.PROMOTE if rollout.decision and not rollout.failing:
            phase = {"releasing": "baking", "baking": "done"}.get(rollout.phase, rollout.phase)
            return replace(rollout, promote=reason, decision={**rollout.decision, "phase": phase})
        case OperatorRequest.ROLLBACK if not rollout.replaced:
            return failing("asked", reason)
        case _:
            return rollout


def _grown(rollout: RolloutState, split: TrafficSplit, time: str) -> tuple[tuple[str, int], ...]:
    percent = sum(arm.weight.whole_percent for arm in split.arms if arm.release == rollout.release)
    more = split.exposes and (not rollout.grown or percent > rollout.grown[-1][1])
    return (*rollout.grown, (time, percent)) if more else rollout.grown


def grows(now: TrafficSplit, after: TrafficSplit) -> bool:
    """Whether `wanted` asks for an arm that `now` lacks, or for more replicas of one."""
    have = {p.key: p.replicas or p.at_least or 0 for p in now.arms}
    return any(p.key not in have or (p.replicas or p.at_least or 0) > have[p.key] for p in after.arms)
