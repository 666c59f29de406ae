"""How traffic is divided at each moment of a release: the arms, their replicas and their weights. Pure.

Capacity comes before traffic. Where the next split needs replicas that are not there, they are asked for first, at the
weights of now, and traffic moves when they are ready.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.contract.rollout import Surge
from headway.contract.units import Share
from headway.ledger.traffic_split import EVERYTHING, NOTHING, ArmRole, TrafficArm, TrafficMirror, TrafficSplit, UserSplit
from headway.release.driver.rollout_state import RolloutState
from headway.release.plan import RolloutStep, StepKind


def before(rollout: RolloutState) -> TrafficSplit:
    """Only the version that served when the release began."""
    return TrafficSplit.only(rollout.stable, rollout.stable_digest)


def after(rollout: RolloutState) -> TrafficSplit:
    """Only the new version."""
    return TrafficSplit.only(rollout.release, rollout.digest)


def dark(rollout: RolloutState) -> TrafficSplit:
    """The new version runs and gets nothing."""
    return _divided(rollout, rollout.plan.one(StepKind.DARK))


def judged(rollout: RolloutState, decision: Mapping[str, Any]) -> TrafficSplit:
    """What the gate's decision wants."""
    if decision["phase"] == "releasing":
        step = rollout.plan.traffic[decision["stage"]]
        shares = {name: Share.percent(round(decision[name] * 100)) for name in ("weight", "baseline_weight", "mirror")}
        if step.kind is StepKind.SPLIT:
            # Without a weight the gate has taken the step back: it cannot see.
            return _divided(rollout, step, user_split=rollout.user_split if shares["weight"] else None)
        return _divided(rollout, step, canary=shares["weight"], baseline=shares["baseline_weight"], copies=shares["mirror"])
    bake = rollout.plan.one(StepKind.BAKE)
    return _divided(rollout, bake, canary=bake.weight)


def whole(rollout: RolloutState) -> TrafficSplit:
    """All traffic to the new version, and the old one still there."""
    return _divided(rollout, rollout.plan.one(StepKind.BAKE), canary=EVERYTHING)


def back(rollout: RolloutState) -> TrafficSplit:
    """All traffic to the stable version at once; the arms stay until they have drained."""
    arms = tuple(replace(p, weight=EVERYTHING if p.role is ArmRole.STABLE else NOTHING) for p in rollout.split.arms)
    return replace(rollout.split, arms=arms, mirror=None, user_split=None)


def capacity_first(now: TrafficSplit, wanted: TrafficSplit) -> TrafficSplit:
    """The replicas of `wanted`, and every arm that still has traffic, at the weights of `now`."""
    keys = {p.key: p for p in now.arms}
    grown = tuple(_grown(keys.get(p.key), p) for p in wanted.arms)
    leaving = tuple(p for p in now.arms if p.weight and p.key not in {q.key for q in wanted.arms})
    digests = {**{p.release: now.digests[p.release] for p in leaving}, **wanted.digests}
    mirror = now.mirror if now.mirror and now.mirror.release in digests else None
    return TrafficSplit(arms=(*grown, *leaving), digests=digests, mirror=mirror, user_split=now.user_split)


def _grown(now: TrafficArm | None, wanted: TrafficArm) -> TrafficArm:
    """An arm before its weight moves: nothing that still has its users is held smaller, and nothing that has not got
    them yet scales."""
    if now is None or wanted.replicas is not None:
        scales = now is not None and now.replicas is None and now.weight > wanted.weight
        if now and scales:
            return replace(now, at_least=max(now.at_least or 0, wanted.replicas or 0))
        return replace(wanted, weight=now.weight if now else NOTHING)
    if now.replicas is None:
        to = max(now.at_most, wanted.at_least or 0) if now.at_most is not None else None
        return replace(wanted, weight=now.weight, at_most=to)
    return replace(wanted, weight=now.weight, replicas=wanted.at_least, at_least=None)


def _divided(
    rollout: RolloutState,
    step: RolloutStep,
    *,
    canary: Share = NOTHING,
    baseline: Share = NOTHING,
    copies: Share = NOTHING,
    user_split: UserSplit | None = None,
) -> TrafficSplit:
    baking, grown = step.kind is StepKind.BAKE, step.scales_to if user_split else None
    scales = baking or grown is not None
    # Kept warm, or shrinking as the new one grows, it does not scale: two fleets that may both grow would not fit the tenant's quota.
    fixed = baking or rollout.plan.surge is Surge.NO_SURGE or step.fleet.stable < rollout.plan.steps[0].fleet.stable
    stable = TrafficArm(
        release=rollout.stable,
        role=ArmRole.STABLE,
        weight=Share(EVERYTHING - canary - baseline),
        replicas=step.fleet.stable if fixed else None,
        at_least=None if fixed else step.fleet.stable,
        at_most=grown.stable if grown else None,
    )
    twin = TrafficArm(release=rollout.stable, role=ArmRole.BASELINE, weight=baseline, replicas=step.fleet.baseline or 1)
    new = TrafficArm(
        release=rollout.release,
        role=ArmRole.CANARY,
        weight=canary,
        replicas=None if scales else step.fleet.canary,
        at_least=step.fleet.canary if scales else None,
        at_most=grown.canary if grown else None,
    )
    return TrafficSplit(
        arms=(stable, *((twin,) if baseline else ()), new),
        digests={rollout.stable: rollout.stable_digest, rollout.release: rollout.digest},
        mirror=TrafficMirror(release=rollout.release, share=copies) if copies else None,
        user_split=user_split,
    )
