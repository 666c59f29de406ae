"""Who changed what, and when: releases by the ledger, objects by the API server's own record of who last wrote which field
(`metadata.managedFields`, Kubernetes "Server-Side Apply"). Pure.

What the platform's program and the cluster's controllers write is no change by hand. An entry tells the newest write of each manager only.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from headway.diagnosis.facts import Change, ChangeKind, State, StateKind
from headway.release.driver.rollout_state import RolloutState, ServiceState
from headway.wire import NODE_HEALTH_FIELD_MANAGER, RELEASE_FIELD_MANAGER

Body = Mapping[str, Any]

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


def by_hand(kind: ChangeKind, objects: Iterable[Body], *, field: str = "") -> Iterator[Change]:
    """Writes of the specification of `objects` by people; where `field` is said, of that field of it alone."""
    for each in objects:
        name = each["metadata"]["name"]
        for entry in each["metadata"].get("managedFields", ()):
            who, spec = str(entry.get("manager", "")), entry.get("fieldsV1", {}).get("f:spec")
            if spec is None or entry.get("subresource") or who.startswith(_PLATFORM) or (field and f"f:{field}" not in spec):
                continue
            try:
                time = datetime.fromisoformat(str(entry.get("time"))).timestamp()
            except ValueError:
                continue
            yield Change(kind=kind, time=time, who=who or "somebody", words=f"the {_NAMES[kind]} {name} was written")


def of_releases(service: ServiceState) -> Iterator[Change]:
    """When users first got each version that was released, as far as the ledger says."""
    for rollout in service.all:
        if rollout.was_exposed:
            words = f"release {rollout.release} began to replace {rollout.stable}"
            time = datetime.fromisoformat(rollout.time).timestamp()
            yield Change(kind=ChangeKind.RELEASE, time=time, who=rollout.actor, words=words, release=rollout.release)
        if rollout.over and rollout.changed:
            time = datetime.fromisoformat(rollout.changed).timestamp()
            words = f"release {rollout.release} ended: {rollout.outcome}"
            yield Change(kind=ChangeKind.RELEASE, time=time, who=rollout.actor, words=words, release=rollout.release)


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
