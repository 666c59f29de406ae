"""Who changed what, and when: releases by the ledger, objects by the API server's own record of who last wrote which field
(`metadata.managedFields`, Kubernetes "Server-Side Apply"). Pure.

What the platform's program and the cluster's controllers write is no change by hand. An entry tells the newest write of each manager only.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from headway.contract.batching import ContinuousBatching
from headway.contract.difference import written_differently
from headway.contract.model import Model
from headway.contract.runtime import Triton
from headway.contract.secret_names import masked
from headway.diagnosis.facts import Change, ChangeKind, ServedSettings, State, StateKind, TouchedField
from headway.diagnosis.objects import Body, seconds
from headway.problem import dotted, shown
from headway.release.driver.event_kinds import ReleaseOutcome
from headway.release.driver.rollout_state import RolloutState, ServiceState
from headway.wire import NODE_HEALTH_FIELD_MANAGER, RELEASE_FIELD_MANAGER

Touched = tuple[TouchedField, ...] | None

_PLATFORM = (
    "pulumi",
    "kube-",
    "kubelet",
    "horizontal-pod-autoscaler",
    "keda",
    "pilot",
    "eks",
    "cluster-autoscaler",
    RELEASE_FIELD_MANAGER,
    NODE_HEALTH_FIELD_MANAGER,
)
"""How managers begin that are no person: the program, controllers, loops, kubelets."""
_REVISION = "deployment.kubernetes.io/revision"
_HASH = "pod-template-hash"
_TOGETHER = 30.0
"""Seconds within which a write of a Deployment and a ReplicaSet of a new template are one: the controller follows at once."""
_SECOND = 1.0
"""Of times that the API server writes without fractions."""


@dataclass(frozen=True, kw_only=True)
class TemplateChange:
    """What the newest template of a Deployment's pods says otherwise than the one before, which was made `after` that, in Unix seconds. `time`:
    since when; None where the Deployment went back to one that it had before, for a ReplicaSet keeps its old time."""

    time: float | None
    after: float
    touched: tuple[TouchedField, ...]

    def is_of(self, write: float) -> bool:
        """Whether a write of that time made it."""
        return write >= self.after - _SECOND if self.time is None else abs(self.time - write) <= _TOGETHER


def by_hand(kind: ChangeKind, objects: Iterable[Body], *, field: str = "") -> Iterator[Change]:
    """Writes of the specification of `objects` by people; where `field` is said, of that field of it alone."""
    for each in objects:
        yield from (_written(kind, each, who, time) for who, time in _hands(_writes(each, field)))


def of_deployments(deployments: Iterable[Body], replica_sets: Iterable[Body], pods: Iterable[Body]) -> Iterator[Change]:
    """What people wrote into the templates of pods, and what nobody wrote by hand: a release's, which ought to stay as it is, was changed by the
    program. What was written after the newest of its `pods` was made reached none."""
    templates, newest = _templates(replica_sets), _newest_pods(pods)
    for each in deployments:
        name = str(each["metadata"]["name"])
        made, last = templates.get(name), newest.get(name, math.inf) + _SECOND
        writes = list(_writes(each, "template"))
        hands = list(_hands(writes))
        for who, time in hands:
            if time <= last:
                touched = made.touched if made and made.is_of(time) else None
                yield _written(ChangeKind.DEPLOYMENT, each, who, time, touched)
        if made is None or any(made.is_of(time) for _, time in hands):
            continue
        time = made.time if made.time is not None else max((time for _, time in writes if made.is_of(time)), default=None)
        if time is not None and time <= last:
            words = f"the template of Deployment {name} was changed within its release"
            yield Change(kind=ChangeKind.PLATFORM, time=time, who="the platform's program", words=words, touched=made.touched)


def _hands(writes: Iterable[tuple[str, float]]) -> Iterator[tuple[str, float]]:
    return ((who, time) for who, time in writes if not who.startswith(_PLATFORM))


def _written(kind: ChangeKind, this: Body, who: str, time: float, touched: Touched = None) -> Change:
    words = f"the {_NAMES[kind]} {this['metadata']['name']} was written"
    return Change(kind=kind, time=time, who=who or "somebody", words=words, touched=touched)


def _writes(this: Body, field: str) -> Iterator[tuple[str, float]]:
    """Who wrote the object's specification, or that field of it, and when in Unix seconds."""
    for entry in this["metadata"].get("managedFields", ()):
        spec, time = entry.get("fieldsV1", {}).get("f:spec"), seconds(entry.get("time"))
        if spec is not None and not entry.get("subresource") and (not field or f"f:{field}" in spec) and time is not None:
            yield str(entry.get("manager", "")), time


def _newest_pods(pods: Iterable[Body]) -> Mapping[str, float]:
    """When the newest pod of each Deployment was made, by its name. Pods keep the template that they were made of (Kubernetes, "Pods", on pod
    templates), so what is written into it later harms none of them."""
    newest: dict[str, float] = {}
    for pod in pods:
        made = seconds(pod["metadata"].get("creationTimestamp"))
        for owner in pod["metadata"].get("ownerReferences", ()):
            name = str(owner.get("name", "")).rpartition("-")[0]
            newest[name] = max(newest.get(name, 0.0), math.inf if made is None else made)
    return newest


def _templates(replica_sets: Iterable[Body]) -> Mapping[str, TemplateChange]:
    """By the Deployment's name, of those that have more than one. A Deployment keeps a ReplicaSet for each template that it has had lately, and
    counts them (`deployment.kubernetes.io/revision`; kubernetes, `pkg/controller/deployment/util/deployment_util.go`); one to which it goes
    back keeps its old time."""
    by_owner: dict[str, list[Body]] = {}
    for each in replica_sets:
        for owner in each["metadata"].get("ownerReferences", ()):
            if owner.get("kind") == "Deployment" and _revision(each):
                by_owner.setdefault(str(owner["name"]), []).append(each)
    found: dict[str, TemplateChange] = {}
    for name, sets in by_owner.items():
        *_, before, newest = [None, *sorted(sets, key=_revision)]
        if before is None or newest is None:
            continue
        made, time = (seconds(each["metadata"].get("creationTimestamp")) for each in (before, newest))
        if made is not None and time is not None:
            differing = touched_fields(before["spec"]["template"], newest["spec"]["template"])
            touched = tuple(each for each in differing if _HASH not in each.path)
            found[name] = TemplateChange(time=time if time >= made else None, after=made, touched=touched)
    return found


def _revision(replica_set: Body) -> int:
    text = (replica_set["metadata"].get("annotations") or {}).get(_REVISION, "")
    return int(text) if text.isdecimal() else 0


def touched_fields(before: Any, after: Any) -> Iterator[TouchedField]:
    """What two documents say otherwise, for people to read, without secrets."""
    for path, old, new in written_differently(before, after):
        yield TouchedField(path=dotted(path), old=_text(old), new=_text(new))


def _text(value: Any) -> str | None:
    return None if value is None else masked(shown(value))


def of_releases(service: ServiceState) -> Iterator[Change]:
    """When users got each version that was released, or more of it, how that ended, and which one is on its way, with what each changed in the
    contract: as far as the ledger says."""
    for rollout in service.all:
        touched = _touched(rollout)

        def change(kind: ChangeKind, time: str, words: str, touched: Touched, this: RolloutState = rollout) -> Change:
            moment = datetime.fromisoformat(time).timestamp()
            return Change(kind=kind, time=moment, who=this.actor, words=words, release=this.release, touched=touched)

        name = f"release {rollout.release}"
        if not rollout.over:
            yield change(ChangeKind.CANDIDATE, rollout.time, f"{name} is on its way, to replace {rollout.stable}", touched)
        for number, (time, percent) in enumerate(rollout.grown):
            words = f"{name} got {percent} % of users' requests" if number else f"{name} began to replace {rollout.stable}"
            yield change(ChangeKind.RELEASE, time, words, touched)
        if rollout.over and rollout.changed:
            back = touched if rollout.outcome is ReleaseOutcome.PROMOTED else _reversed(touched)
            yield change(ChangeKind.RELEASE, rollout.changed, f"{name} ended: {rollout.outcome}", back)


def settings_of(model: Model) -> ServedSettings:
    """How much a replica of the contract computes at once."""
    instances = sum(each.instances for each in model.runtime.models) if isinstance(model.runtime, Triton) else None
    sequences = model.batching.max_sequences if isinstance(model.batching, ContinuousBatching) else None
    return ServedSettings(instances=instances, sequences=sequences)


def serving_contents(service: ServiceState) -> Mapping[str, str]:
    """The content of each release that may serve, or has just ceased to, by its name."""
    newest = service.rollout
    names = {arm.release for arm in service.split.arms} if service.split else set[str]()
    names |= {newest.release, newest.stable} if newest else set()
    return {name: service.known[name] for name in sorted(names) if name in service.known}


def _touched(rollout: RolloutState) -> Touched:
    """None where the ledger does not say what a release changes, as an earlier Headway did not."""
    changes = (rollout.body.get("difference") or {}).get("changes")
    if changes is None:
        return None
    return tuple(TouchedField(path=str(each["path"]), old=each.get("old"), new=each.get("new")) for each in changes)


def _reversed(touched: Touched) -> Touched:
    return None if touched is None else tuple(replace(each, old=each.new, new=each.old) for each in touched)


def held(rollout: RolloutState | None) -> Iterator[State]:
    """That a person holds a release."""
    if rollout is not None and rollout.frozen is not None:
        words = f"held at {_share(rollout)} of users' requests: {rollout.frozen}"
        yield State(kind=StateKind.HELD, subject=rollout.release, words=words, since=datetime.fromisoformat(rollout.last).timestamp())


def _share(rollout: RolloutState) -> str:
    arm = next((each for each in rollout.split.arms if each.release == rollout.release), None)
    return f"{arm.weight.whole_percent} %" if arm else "none"


_NAMES = {
    ChangeKind.DEPLOYMENT: "Deployment",
    ChangeKind.QUOTA: "ResourceQuota",
    ChangeKind.ROUTE: "VirtualService",
    ChangeKind.NODE: "node",
    ChangeKind.TAINT: "node",
}
