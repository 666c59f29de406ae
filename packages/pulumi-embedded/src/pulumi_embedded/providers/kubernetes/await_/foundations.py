"""Readiness of what other objects stand on: namespaces, definitions, quotas, volumes, aggregated APIs, autoscaling."""

from pulumi_embedded.engine.provider import Properties
from pulumi_embedded.providers.kubernetes import quantities
from pulumi_embedded.providers.kubernetes.await_.verdict import (
    READY,
    Lookup,
    ReadinessVerdict,
    at,
    condition,
    failed,
    last_warning,
    said,
    waiting,
)
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind

_STORAGE_CLASS = ObjectKind("storage.k8s.io", "v1", "StorageClass")
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_KEDA_METRICS = ("external.metrics.k8s.io", "v1beta1")
"""Asked for by discovery, which everybody who is authenticated may read: whoever releases a model sees no APIService."""


def namespace(live: Properties, _look: Lookup) -> ReadinessVerdict:
    """Active."""
    phase = at(live, "status", "phase")
    return READY if phase == "Active" else waiting(f"phase {phase or 'unknown'}")


def definition(live: Properties, _look: Lookup) -> ReadinessVerdict:
    """A CustomResourceDefinition is served."""
    if condition(live, "NamesAccepted").get("status") == "False":
        return failed(said(condition(live, "NamesAccepted")))
    return READY if condition(live, "Established").get("status") == "True" else waiting("not established")


def api_service(live: Properties, _look: Lookup) -> ReadinessVerdict:
    """The aggregated API answers."""
    found = condition(live, "Available")
    return READY if found.get("status") == "True" else waiting(said(found) or "not available")


def quota(live: Properties, _look: Lookup) -> ReadinessVerdict:
    """The quota controller has taken the limits over; until then the API server refuses pods with 'status unknown for quota'."""
    wanted, known = at(live, "spec", "hard") or {}, at(live, "status", "hard") or {}
    missing = sorted(key for key, value in wanted.items() if not quantities.equal(value, known.get(key)))
    return waiting(f"not counted yet: {', '.join(missing)}") if missing else READY


def volume(live: Properties, _look: Lookup) -> ReadinessVerdict:
    """A PersistentVolume can be claimed."""
    phase = at(live, "status", "phase")
    return READY if phase in ("Available", "Bound") else waiting(f"phase {phase or 'unknown'}")


def claim(live: Properties, look: Lookup) -> ReadinessVerdict:
    """A PersistentVolumeClaim is bound, unless its class waits for the first pod that uses it."""
    phase = at(live, "status", "phase")
    if phase == "Bound" or _binds_late(live, look):
        return READY
    if phase == "Lost":
        return failed("its volume is gone")
    why = last_warning(live, look)
    return waiting("not bound to a volume" + (f"; {why}" if why else ""))


def _binds_late(live: Properties, look: Lookup) -> bool:
    name = at(live, "spec", "storageClassName")
    if name == "":
        return False
    classes = [found] if name and (found := look.get(_STORAGE_CLASS, "", name)) else []
    if name is None:
        classes = [each for each in look.find(_STORAGE_CLASS) if at(each, "metadata", "annotations", _DEFAULT_CLASS) == "true"]
    return any(each.get("volumeBindingMode") == "WaitForFirstConsumer" for each in classes)


def token(live: Properties, _look: Lookup) -> ReadinessVerdict:
    """A Secret that asks for a service account's token has it."""
    if live.get("type") != "kubernetes.io/service-account-token" or at(live, "data", "token"):
        return READY
    return waiting("the token has not been issued")


def scaled_object(live: Properties, look: Lookup) -> ReadinessVerdict:
    """KEDA has taken it over. Where KEDA does not run (its metrics API does not answer) nobody will, and there is no wait."""
    found = condition(live, "Ready")
    if found.get("status") == "True" or not look.serves(*_KEDA_METRICS):
        return READY
    return waiting(said(found) or "KEDA has not seen it")
