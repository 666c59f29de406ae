"""What is to be done next, from the ledger alone. Pure: the same chain gives the same next action, whoever asks and how
often.

Each action ends in one event. A runner may die between doing and writing; so whoever performs an action looks first
whether it is done already, and none of them does harm when it is done twice.
"""

from dataclasses import dataclass

from headway.ledger.traffic_split import TrafficSplit
from headway.release.driver import targets
from headway.release.driver.event_kinds import ReleaseOutcome
from headway.release.driver.rollout_state import RolloutState, grows
from headway.release.plan import PROBES, StepKind

DRIFTS_AT_MOST = 5


@dataclass(frozen=True)
class CheckEvidence:
    """Try the evidence out, before anything is deployed."""


@dataclass(frozen=True)
class LearnHistory:
    """Read what the stable version did before."""


@dataclass(frozen=True)
class IntendSplit:
    """Write down the split that shall hold."""

    split: TrafficSplit


@dataclass(frozen=True)
class ApplyStack:
    """Preview with the packs, bring the stack to the split, read the live route back."""

    split: TrafficSplit


@dataclass(frozen=True)
class AwaitReplicas:
    """Wait until every arm has its replicas ready."""

    split: TrafficSplit
    at_most: float
    """Seconds."""


@dataclass(frozen=True)
class ProbeReplicas:
    """Ask the new version's replicas."""

    step: StepKind
    at_most: float


@dataclass(frozen=True)
class ObserveTick:
    """Read one tick and decide. `start` is where the tick begins (Unix seconds); None begins now."""

    start: float | None


@dataclass(frozen=True)
class RecordDue:
    """Write down that an experiment's time is over."""


@dataclass(frozen=True)
class ShiftTraffic:
    """Patch the live route, ahead of the stack."""

    split: TrafficSplit


@dataclass(frozen=True)
class DrainTraffic:
    """See that the new version gets nothing any more."""


@dataclass(frozen=True)
class EndRelease:
    outcome: ReleaseOutcome
    reason: str


DriverAction = (
    CheckEvidence
    | LearnHistory
    | IntendSplit
    | ApplyStack
    | AwaitReplicas
    | ProbeReplicas
    | ObserveTick
    | RecordDue
    | ShiftTraffic
    | DrainTraffic
    | EndRelease
)


def next_action(rollout: RolloutState) -> DriverAction | None:
    """The next action; None when the release is over."""
    if rollout.over:
        return None
    if rollout.failing:
        return _way_back(rollout)
    if not rollout.checked:
        return CheckEvidence()
    if rollout.learned is None:
        return LearnHistory()
    if not rollout.settled:
        return ApplyStack(rollout.split)
    if not rollout.awaited:
        return AwaitReplicas(rollout.split, rollout.plan.one(StepKind.DARK).at_most.seconds)
    if rollout.decision is None:
        return _before_traffic(rollout)
    if rollout.decision["phase"] == "done":
        # The old version loses its last users before it goes.
        held_back = any(arm.weight for arm in rollout.split.arms if arm.release == rollout.stable)
        last = targets.whole(rollout) if held_back else targets.after(rollout)
        return _towards(rollout, last) or EndRelease(ReleaseOutcome.PROMOTED, _won(rollout))
    return _towards(rollout, targets.judged(rollout, rollout.decision)) or _due(rollout) or _tick(rollout)


def _before_traffic(rollout: RolloutState) -> DriverAction:
    """Dark, probed; then the first stage of the gate, whose weights are those of a gate that has seen nothing."""
    if not rollout.probed:
        towards = _towards(rollout, targets.dark(rollout))
        if towards:
            return towards
    for step in rollout.plan.steps:
        if step.kind in PROBES and step.kind not in rollout.probed:
            return ProbeReplicas(step.kind, step.at_most.seconds)
    first = rollout.body["first"]
    return _towards(rollout, targets.judged(rollout, first)) or _tick(rollout)


def _due(rollout: RolloutState) -> RecordDue | None:
    """Once in a release: when the evidence covers the experiment's time."""
    ends = rollout.users_end
    over = rollout.divided and ends is not None and rollout.window_end is not None and rollout.window_end >= ends.timestamp()
    return RecordDue() if over and not rollout.due else None


def _tick(rollout: RolloutState) -> ObserveTick:
    return ObserveTick(rollout.window_end)


def _towards(rollout: RolloutState, wanted: TrafficSplit) -> IntendSplit | None:
    """One intention on the way from the settled split to `wanted`: replicas first, then weights. None when it is there."""
    if rollout.split == wanted:
        return None
    first = targets.capacity_first(rollout.split, wanted)
    return IntendSplit(wanted if first == rollout.split or not grows(rollout.split, first) else first)


def _way_back(rollout: RolloutState) -> DriverAction:
    """Traffic first, then the stack: nothing on this way waits for a lock, a policy or a metric."""
    assert rollout.failing is not None  # noqa: S101  asked by the caller
    safe, reason = targets.before(rollout), rollout.failing.reason
    if rollout.was_exposed and not rollout.shifted:
        level = targets.back(rollout)
        return IntendSplit(level) if rollout.split != level else ShiftTraffic(level)
    if rollout.was_exposed and not rollout.drained:
        return DrainTraffic()
    if rollout.split != safe:
        return IntendSplit(safe)
    if not rollout.settled and not rollout.unreconciled:
        return ApplyStack(safe)
    back = ReleaseOutcome.OUT_OF_TIME if rollout.failing.kind == "time" else ReleaseOutcome.ROLLED_BACK
    return EndRelease(back if rollout.was_deployed else ReleaseOutcome.REFUSED, reason)


def _won(rollout: RolloutState) -> str:
    return rollout.promote or str((rollout.decision or {}).get("sentence", "It has baked for long enough."))
