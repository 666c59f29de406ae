"""The plan of a release: which steps, with how many replicas of each arm, and where their GPUs come from.

Pure: from the contract's rollout policy and the room that the pool has. All strategies are the same plan with other
steps. Room is decided before the first replica starts; a plan that would run out of GPUs half way is refused, or begins
without surge.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Any, NamedTuple

from headway.contract.rollout import Rollout, Strategy, Surge
from headway.contract.units import Duration, Share
from headway.problem import Exit, UserError

_NOTHING = Share(0)
_ALL = Share(Share.WHOLE)
_STARTED = Duration.parse("30m")
"""Longest for a replica to be scheduled, to fetch its artifact and to become ready."""
_ANSWERED = Duration.parse("15m")
"""Longest for warm-up, synthetic and golden requests together with their retries."""
_AT_ONCE = Duration(0)


@unique
class StepKind(StrEnum):
    """What a step is for."""

    DARK = "dark"
    """Means the new version starts and nobody reaches it."""
    WARM = "warm"
    """Means requests that fill its caches; their latency is no evidence."""
    SYNTHETIC = "synthetic"
    """Means requests of all shapes straight to the pods: does it answer at all?"""
    GOLDEN = "golden"
    """Means requests whose right answers are known."""
    MIRROR = "mirror"
    """Means copies of users' requests."""
    WEIGHT = "weight"
    """Means a share of users' requests."""
    REPLACE = "replace"
    """Means one more replica of the old version makes room for one of the new; rolling only."""
    SPLIT = "split"
    """Means a long-lived share of users; A/B only. A person ends it: to all traffic, or back."""
    BAKE = "bake"
    """Means all traffic but what is held back on the old version, which is kept warm where there is room for both."""
    RETIRE = "retire"
    """Means the loser and the baseline arm are removed."""


PROBES = (StepKind.WARM, StepKind.SYNTHETIC, StepKind.GOLDEN)
TRAFFIC = (StepKind.MIRROR, StepKind.WEIGHT, StepKind.REPLACE, StepKind.SPLIT)
"""Steps that the gate climbs, one stage each."""


@dataclass(frozen=True, kw_only=True)
class PoolCapacity:
    """What the pool can hold, counted in replicas of this model."""

    replicas: int
    """Of the stable version, now."""
    free: int
    """More that fit on GPUs nobody uses."""
    warm: int = 0
    """More that fit on GPUs held warm for bursts."""
    arms: int = 2
    """Further arms that the tenant may have objects for; a canary is one, a baseline arm another."""
    limits: tuple[str, ...] = ()
    """Where these numbers come from, in words."""

    def document(self) -> dict[str, Any]:
        """As part of the event that begins a release."""
        return {**vars(self), "limits": list(self.limits)}


class Fleet(NamedTuple):
    """Replicas by arm."""

    stable: int
    baseline: int
    canary: int


@dataclass(frozen=True, kw_only=True)
class RolloutStep:
    """One step: what to set, and how long it takes. Weight and mirror are whole percent, which is all that a mesh
    carries."""

    kind: StepKind
    weight: Share = _NOTHING
    """Share of users' requests for the new version."""
    mirror: Share = _NOTHING
    fleet: Fleet
    at_least: Duration = _AT_ONCE
    at_most: Duration
    gated: bool
    """Whether the gate must pass it; else it is over when what it asks for is so."""
    scales_to: Fleet | None = None
    """How far each arm may grow by itself while the step lasts; None where the new version keeps its replicas."""

    def document(self) -> dict[str, Any]:
        """As part of the event that begins a release: shares in whole percent, times in seconds."""
        return {
            "kind": self.kind.value,
            "weight": self.weight.whole_percent,
            "mirror": self.mirror.whole_percent,
            **self.fleet._asdict(),
            "at_least": self.at_least.seconds,
            "at_most": self.at_most.seconds,
            "gated": self.gated,
            **({"stable_to": self.scales_to.stable, "canary_to": self.scales_to.canary} if self.scales_to else {}),
        }

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> "RolloutStep":
        """Raises one of `ODD` of headway/problem.py for what is no step, or one of a newer Headway."""
        known: dict[str, Any] = {**body}
        return cls(
            kind=StepKind(known.pop("kind")),
            weight=Share.percent(known.pop("weight")),
            mirror=Share.percent(known.pop("mirror")),
            fleet=Fleet(known.pop("stable"), known.pop("baseline"), known.pop("canary")),
            at_least=Duration.of_seconds(known.pop("at_least")),
            at_most=Duration.of_seconds(known.pop("at_most")),
            scales_to=Fleet(known.pop("stable_to"), 0, known.pop("canary_to")) if "canary_to" in known else None,
            **known,
        )


@dataclass(frozen=True, kw_only=True)
class RolloutPlan:
    """Steps in order."""

    steps: tuple[RolloutStep, ...]
    surge: Surge
    """Where the GPUs come from: never `auto`."""
    baseline_arm: bool
    """Whether there is room for an arm of the stable version beside the canary; without it the stable arm is the
    control."""
    notes: tuple[str, ...]
    """What the policy asked for and cannot have, in words."""

    @property
    def held_back(self) -> Share:
        """Share of requests that the old version keeps while the new one bakes."""
        return Share(Share.WHOLE - self.one(StepKind.BAKE).weight)

    @property
    def traffic(self) -> tuple[RolloutStep, ...]:
        """Those that the gate climbs."""
        return tuple(step for step in self.steps if step.kind in TRAFFIC)

    def one(self, kind: StepKind) -> RolloutStep:
        """The first step of that kind, of which a plan has exactly one."""
        return next(step for step in self.steps if step.kind is kind)

    def document(self) -> dict[str, Any]:
        """As part of the event that begins a release."""
        steps = [step.document() for step in self.steps]
        return {"steps": steps, "surge": self.surge.value, "baseline_arm": self.baseline_arm, "notes": list(self.notes)}

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> "RolloutPlan":
        steps = tuple(RolloutStep.read(step) for step in body["steps"])
        return cls(steps=steps, surge=Surge(body["surge"]), baseline_arm=body["baseline_arm"], notes=tuple(body["notes"]))


def plan(rollout: Rollout, room: PoolCapacity, most: int | None = None) -> RolloutPlan:
    """The plan for `rollout` where the pool has `room`; `most`: replicas that the contract allows the service. Raises
    UserError where there is none that keeps users served."""
    refused: list[str] = []
    for surge in (Surge.SURGE, Surge.BORROW, Surge.NO_SURGE) if rollout.surge is Surge.AUTO else (rollout.surge,):
        capacity = room.replicas + {Surge.SURGE: room.free, Surge.BORROW: room.free + room.warm}.get(surge, 0)
        for baseline in (True, False) if rollout.baseline_arm and rollout.strategy is Strategy.CANARY else (False,):
            steps = tuple(_steps(rollout, room.replicas, surge, baseline, most))
            served = all(step.fleet.stable > 0 for step in steps if step.weight < _ALL and step.kind is not StepKind.RETIRE)
            if served and max(sum(step.fleet) for step in steps) <= capacity and 1 + baseline <= room.arms:
                return RolloutPlan(steps=steps, surge=surge, baseline_arm=baseline, notes=tuple(_notes(rollout, surge, baseline)))
        needed = max(sum(step.fleet) for step in _steps(rollout, room.replicas, surge, baseline=False, most=most))
        refused.append(f"{surge} needs room for {needed} replicas at once and has it for {capacity}")
    if not room.arms:
        refused.append("no object of a further version may be made")
    found = f" ({'; '.join(room.limits)})" if room.limits else ""
    raise UserError(
        f"No plan of strategy {rollout.strategy} fits with rollout.surge {rollout.surge}: {'; '.join(refused)}{found}.",
        "Users would be left without a version that answers, or the new one would wait for GPUs for ever.",
        "Free GPUs in the pool, run one replica more, or choose surge: borrow where the pool holds warm capacity.",
        exit=Exit.REFUSED,
    )


def _steps(rollout: Rollout, replicas: int, surge: Surge, baseline: bool, most: int | None) -> Iterator[RolloutStep]:
    rolling = rollout.strategy is Strategy.ROLLING

    def arms(share: Share, *, shrinks: bool = surge is Surge.NO_SURGE, beside: bool = False) -> Fleet:
        """Replicas by arm: the share's part of the fleet, at least one; where the stable version shrinks, taken from
        it."""
        canary = max(1, -(-replicas * int(share) // Share.WHOLE))
        twin = canary if beside else 0
        return Fleet(max(0, replicas - canary - twin) if shrinks else replicas, twin, canary)

    def paced(kind: StepKind, share: Share, fleet: Fleet) -> RolloutStep:
        return RolloutStep(
            kind=kind, weight=_whole_percent(share), fleet=fleet, at_least=rollout.step_at_least, at_most=rollout.step_at_most, gated=True
        )

    one = arms(_NOTHING)
    yield RolloutStep(kind=StepKind.DARK, fleet=one, at_most=_STARTED, gated=False)
    for kind in (StepKind.WARM, StepKind.SYNTHETIC, StepKind.GOLDEN):
        yield RolloutStep(kind=kind, fleet=one, at_most=_ANSWERED, gated=kind is not StepKind.WARM)
    if rollout.mirror:
        share = rollout.mirror.share
        yield RolloutStep(kind=StepKind.MIRROR, mirror=_whole_percent(share), fleet=arms(share), at_most=rollout.mirror.timeout, gated=True)
    if rolling:
        for number in range(1, replicas):
            share = Share(Share.WHOLE * number // replicas)
            yield paced(StepKind.REPLACE, share, arms(share, shrinks=True))
    if rollout.strategy is Strategy.CANARY:
        for share in rollout.weights:
            yield paced(StepKind.WEIGHT, share, arms(share, beside=baseline))
    if rollout.split:
        share, length = rollout.split.share, rollout.split.duration
        fleet = arms(share)
        scales_to = together(fleet, share, most) if most is not None and surge is not Surge.NO_SURGE else None
        yield RolloutStep(kind=StepKind.SPLIT, weight=share, fleet=fleet, at_least=length, at_most=length, gated=True, scales_to=scales_to)
    shrinks = rolling or surge is Surge.NO_SURGE
    # Where hardly an old replica is left, nobody is held back: evidence of the bake would send everybody to it.
    weight = _ALL if shrinks else Share(Share.WHOLE - _whole_percent(rollout.held_back))
    fleet = arms(_ALL, shrinks=shrinks)
    yield RolloutStep(kind=StepKind.BAKE, weight=weight, fleet=fleet, at_least=rollout.bake, at_most=rollout.bake, gated=True)
    yield RolloutStep(kind=StepKind.RETIRE, weight=_ALL, fleet=Fleet(0, 0, replicas), at_most=_STARTED, gated=False)


def together(fleet: Fleet, share: Share, most: int) -> Fleet:
    """How far two versions may grow between which users are divided: the new one to its share of `most`, the old one to
    the rest.

    Both at their maximum are what a service at its maximum and a new version that does not scale would be, so the
    tenant's quota, which holds that, holds this; and each has what its users need when the service needs `most`.
    """
    new = max(fleet.canary, -(-most * int(share) // Share.WHOLE))
    return Fleet(max(fleet.stable, most + fleet.canary - new), 0, new)


def _whole_percent(share: Share) -> Share:
    """The nearest that a mesh carries, never rounded to nothing."""
    return Share.percent(max(1, round(int(share) * 100 / Share.WHOLE))) if share else share


def _notes(rollout: Rollout, surge: Surge, baseline: bool) -> Iterator[str]:
    if rollout.baseline_arm and rollout.strategy is Strategy.CANARY and not baseline:
        yield "There is no room for a baseline arm. The new version is compared with the whole stable version, which is of another size and age."
    if surge is Surge.NO_SURGE:
        yield "There is no room for both versions. The old one shrinks as the new one grows; while baking, a rollback has to start it again."
    if rollout.held_back and (surge is Surge.NO_SURGE or rollout.strategy is Strategy.ROLLING):
        yield "No old replicas are left while the new version bakes, so nobody is held back, and it is compared with the past only."
    if surge is Surge.BORROW:
        yield "Warm capacity is borrowed. A burst meanwhile waits for nodes."
