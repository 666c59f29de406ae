"""Readiness of the kinds that make pods: the rollout is over and every pod of the new revision is available.

The conditions are those of `kubectl rollout status`. Where the object says nothing, its pods and events say why.
"""

from pulumi_embedded.engine.provider import Properties
from pulumi_embedded.providers.kubernetes.await_ import pods
from pulumi_embedded.providers.kubernetes.await_.verdict import (
    READY,
    Lookup,
    ReadinessVerdict,
    at,
    condition,
    failed,
    last_warning,
    said,
    selector,
    waiting,
)
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind

_REPLICA_SET = ObjectKind("apps", "v1", "ReplicaSet")
_REVISION = "deployment.kubernetes.io/revision"
_TEMPLATE_HASH = "pod-template-hash"


def deployment(live: Properties, look: Lookup) -> ReadinessVerdict:
    """All replicas of the new revision are available and none of an older one is left."""
    if _unobserved(live):
        return waiting("the rollout has not begun")
    if at(live, "spec", "paused"):
        return READY
    wanted = _wanted(live)
    updated, available, total = (_count(live, key) for key in ("updatedReplicas", "availableReplicas", "replicas"))
    if updated >= wanted and total <= updated and available >= updated:
        return READY
    progress = f"{min(available, updated)} of {wanted} replicas available"
    if total > updated:
        progress += f", {total - updated} of an older revision still there"
    why = _refused(live) or pods.troubles(_new_pods(live, look))
    verdict = failed if condition(live, "Progressing").get("reason") == "ProgressDeadlineExceeded" else waiting
    return verdict(f"{progress}; {why}" if why else progress)


def stateful_set(live: Properties, look: Lookup) -> ReadinessVerdict:
    """All replicas run the new revision and are ready; with a partition, those above it."""
    if _unobserved(live):
        return waiting("the rollout has not begun")
    wanted = _wanted(live)
    partition = at(live, "spec", "updateStrategy", "rollingUpdate", "partition") or 0
    by_hand = at(live, "spec", "updateStrategy", "type") == "OnDelete"
    ready, updated = _count(live, "readyReplicas"), _count(live, "updatedReplicas")
    if ready >= wanted and (by_hand or updated >= wanted - partition):
        return READY
    return _pods_missing(live, look, ready, wanted, "replicas ready")


def daemon_set(live: Properties, look: Lookup) -> ReadinessVerdict:
    """Every node that should run the pod runs the new revision of it, available."""
    if _unobserved(live):
        return waiting("the rollout has not begun")
    wanted = _count(live, "desiredNumberScheduled")
    updated, available = _count(live, "updatedNumberScheduled"), _count(live, "numberAvailable")
    by_hand = at(live, "spec", "updateStrategy", "type") == "OnDelete"
    if available >= wanted and (by_hand or updated >= wanted):
        return READY
    return _pods_missing(live, look, min(available, updated), wanted, "nodes run it")


def job(live: Properties, look: Lookup) -> ReadinessVerdict:
    """Run to completion."""
    if condition(live, "Complete").get("status") == "True" or at(live, "spec", "suspend"):
        return READY
    found = pods.of(_namespace(live), selector(at(live, "spec", "selector")), look)
    why = pods.troubles(found)
    if condition(live, "Failed").get("status") == "True":
        return failed("; ".join(filter(None, (said(condition(live, "Failed")), why))))
    wanted = at(live, "spec", "completions") or 1
    return _pods_missing(live, look, _count(live, "succeeded"), wanted, "completions")


def _pods_missing(live: Properties, look: Lookup, have: int, wanted: int, what: str) -> ReadinessVerdict:
    progress = f"{have} of {wanted} {what}"
    why = pods.troubles(pods.of(_namespace(live), selector(at(live, "spec", "selector")), look)) or last_warning(live, look)
    return waiting(f"{progress}; {why}" if why else progress)


def _unobserved(live: Properties) -> bool:
    return (at(live, "status", "observedGeneration") or 0) < (at(live, "metadata", "generation") or 0)


def _wanted(live: Properties) -> int:
    replicas = at(live, "spec", "replicas")
    return 1 if replicas is None else replicas


def _count(live: Properties, key: str) -> int:
    return at(live, "status", key) or 0


def _namespace(live: Properties) -> str:
    return at(live, "metadata", "namespace") or "default"


def _refused(live: Properties) -> str:
    """Why the ReplicaSet could not create pods: a quota, a policy, a missing ServiceAccount."""
    found = condition(live, "ReplicaFailure")
    return said(found) if found.get("status") == "True" else ""


def _new_pods(live: Properties, look: Lookup) -> list[Properties]:
    labels = selector(at(live, "spec", "selector"))
    revision = at(live, "metadata", "annotations", _REVISION)
    found = pods.of(_namespace(live), labels, look)
    for replica_set in look.find(_REPLICA_SET, _namespace(live), labels=labels) if revision else ():
        if at(replica_set, "metadata", "annotations", _REVISION) == revision:
            digest = at(replica_set, "metadata", "labels", _TEMPLATE_HASH)
            return [each for each in found if at(each, "metadata", "labels", _TEMPLATE_HASH) == digest]
    return found
