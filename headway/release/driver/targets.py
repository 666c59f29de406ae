"""How traffic is divided at each moment of a release: the arms, their replicas and their weights. Pure.

The trap: capacity comes before traffic. Where the next division needs replicas that are not there, they are asked for first, at the
weights of now, and traffic moves when they are ready.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.ledger.traffic_split import BASELINE, CANARY, STABLE, WHOLE, Division, Portion, Split
from headway.release.driver.rollout import Rollout, Step
from headway.release.plan import Kind as StepKind


def before(rollout: Rollout) -> Division:
    """Only the version that served when the release began."""
    return Division.only(rollout.stable, rollout.stable_digest)


def after(rollout: Rollout) -> Division:
    """Only the new version."""
    return Division.only(rollout.release, rollout.digest)


def dark(rollout: Rollout) -> Division:
    """The new version runs and gets nothing."""
    return _divided(rollout, rollout.plan.one(StepKind.DARK), canary=0, baseline=0, copies=0)


def judged(rollout: Rollout, decision: Mapping[str, Any]) -> Division:
    """What the gate's decision wants."""
    if decision["phase"] == "releasing":
        step = rollout.plan.traffic[decision["stage"]]
        shares = {name: round(decision[name] * WHOLE) for name in ("weight", "baseline_weight", "mirror")}
        if step.kind is StepKind.SPLIT:
            # Without a weight the gate has taken the step back: it cannot see.
            return _divided(rollout, step, canary=0, baseline=0, copies=0, split=rollout.split if shares["weight"] else None)
        return _divided(rollout, step, canary=shares["weight"], baseline=shares["baseline_weight"], copies=shares["mirror"])
    return _divided(rollout, rollout.plan.one(StepKind.BAKE), canary=WHOLE, baseline=0, copies=0)


def back(rollout: Rollout) -> Division:
    """All traffic to the stable version at once; the arms stay until they have drained."""
    portions = tuple(replace(p, weight=WHOLE if p.arm == STABLE else 0) for p in rollout.division.portions)
    return replace(rollout.division, portions=portions, mirrored=None, copies=0, split=None)


def capacity_first(now: Division, wanted: Division) -> Division:
    """The replicas of `wanted`, and every arm that still has traffic, at the weights of `now`."""
    keys = {p.key: p for p in now.portions}
    grown = tuple(_grown(keys.get(p.key), p) for p in wanted.portions)
    leaving = tuple(p for p in now.portions if p.weight and p.key not in {q.key for q in wanted.portions})
    digests = {**{p.release: now.digests[p.release] for p in leaving}, **wanted.digests}
    mirrored = now.mirrored if now.mirrored in digests else None
    copies = now.copies if mirrored else 0
    return Division(portions=(*grown, *leaving), digests=digests, mirrored=mirrored, copies=copies, split=now.split)


def _grown(now: Portion | None, wanted: Portion) -> Portion:
    """An arm before its weight moves: nothing that still has its users is held smaller, and nothing that has not got them yet scales."""
    if now is None or wanted.replicas is not None:
        scales = now is not None and now.replicas is None and now.weight > wanted.weight
        if now and scales:
            return replace(now, at_least=max(now.at_least or 0, wanted.replicas or 0))
        return replace(wanted, weight=now.weight if now else 0)
    if now.replicas is None:
        to = max(now.at_most, wanted.at_least or 0) if now.at_most is not None else None
        return replace(wanted, weight=now.weight, at_most=to)
    return replace(wanted, weight=now.weight, replicas=wanted.at_least, at_least=None)


def _divided(rollout: Rollout, step: Step, *, canary: int, baseline: int, copies: int, split: Split | None = None) -> Division:
    whole = canary == WHOLE
    scales = whole or (split is not None and step.canary_to is not None)
    # Kept warm, or shrinking as the new one grows, it does not scale: two fleets that may both grow would not fit the tenant's quota.
    fixed = whole or rollout.plan.surge == "no_surge" or step.stable < rollout.plan.steps[0].stable
    stable = Portion(
        release=rollout.stable,
        arm=STABLE,
        weight=WHOLE - canary - baseline,
        replicas=step.stable if fixed else None,
        at_least=None if fixed else step.stable,
        at_most=step.stable_to if split else None,
    )
    twin = Portion(release=rollout.stable, arm=BASELINE, weight=baseline, replicas=step.baseline or 1)
    new = Portion(
        release=rollout.release,
        arm=CANARY,
        weight=canary,
        replicas=None if scales else step.canary,
        at_least=step.canary if scales else None,
        at_most=step.canary_to if split else None,
    )
    return Division(
        portions=(stable, *((twin,) if baseline else ()), new),
        digests={rollout.stable: rollout.stable_digest, rollout.release: rollout.digest},
        mirrored=rollout.release if copies else None,
        copies=copies,
        split=split,
    )
