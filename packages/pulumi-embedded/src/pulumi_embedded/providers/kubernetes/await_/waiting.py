"""The one loop that waits: looks, asks the judge of the kind, shows the reason, and gives up at the timeout or on request.

An API server that does not answer is waited out like any other reason: it may be restarting.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pulumi_embedded.engine.provider import Properties, ProviderStep
from pulumi_embedded.providers.kubernetes.await_ import foundations, pods, services, workloads
from pulumi_embedded.providers.kubernetes.await_.verdict import (
    READY,
    SETTLE_SECONDS,
    Judge,
    ReadinessState,
    ReadinessVerdict,
    at,
    waiting,
)
from pulumi_embedded.providers.kubernetes.client import ClusterConnection
from pulumi_embedded.providers.kubernetes.clock import AwaitClock
from pulumi_embedded.providers.kubernetes.errors import ApiRefusal, ApiUnreachableError, UnknownKindError
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind
from pulumi_embedded.providers.kubernetes.names import object_id

DEFAULT_SECONDS = 600.0
"""As long as the real provider waits."""

_JUDGES: dict[tuple[str, str], Judge] = {
    ("", "Namespace"): foundations.namespace,
    ("", "PersistentVolume"): foundations.volume,
    ("", "PersistentVolumeClaim"): foundations.claim,
    ("", "Pod"): pods.pod,
    ("", "ResourceQuota"): foundations.quota,
    ("", "Secret"): foundations.token,
    ("", "Service"): services.service,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): foundations.definition,
    ("apiregistration.k8s.io", "APIService"): foundations.api_service,
    ("apps", "DaemonSet"): workloads.daemon_set,
    ("apps", "Deployment"): workloads.deployment,
    ("apps", "StatefulSet"): workloads.stateful_set,
    ("batch", "Job"): workloads.job,
    ("keda.sh", "ScaledObject"): foundations.scaled_object,
    ("networking.k8s.io", "Ingress"): services.ingress,
}
_JUDGED_WHEN_READ = frozenset({"DaemonSet", "Deployment", "Ingress", "Job", "Pod", "Service", "StatefulSet"})
"""Kinds that the real provider judges again whenever it reads them (`awaitRead` in provider/pkg/await/awaiters.go)."""


@dataclass(frozen=True)
class _Glance:
    """Looks once and does not wait for an API server that is away: the loop does."""

    cluster: ClusterConnection

    def get(self, kind: ObjectKind, namespace: str, name: str) -> Properties | None:
        return self.cluster.get(kind, namespace, name, patience=0)

    def find(self, kind: ObjectKind, namespace: str = "", *, labels: str = "", fields: str = "") -> Sequence[Properties]:
        return self.cluster.find(kind, namespace, labels=labels, fields=fields, patience=0)

    def serves(self, group: str, version: str) -> bool:
        return self.cluster.serves(group, version, patience=0)


class NotReadyError(Exception):
    """The wait ended without success; `live` is what was last seen."""

    def __init__(self, reason: str, live: Properties) -> None:
        super().__init__(reason)
        self.live = live


def pause_after(waited: float) -> float:
    """Seconds until the next look: quick at first, never faster than four times a second."""
    if waited < 5:
        return 0.25
    return 0.5 if waited < 30 else 1.0


def until_ready(
    kind: ObjectKind, applied: Properties, cluster: ClusterConnection, step: ProviderStep, seconds: float, clock: AwaitClock
) -> Properties:
    """The live object once it is ready. `applied` is what the apply answered. Raises NotReadyError with the reason."""
    judge = _JUDGES.get((kind.group, kind.kind))
    if judge is None:
        return applied
    namespace, name = at(applied, "metadata", "namespace") or "", at(applied, "metadata", "name")
    subject = f"{kind.kind} {object_id(namespace, name)}"
    look, live, started, shown = _Glance(cluster), applied, clock.now(), ""
    verdict = _judged(judge, live, look)
    settled = _Settled(clock.now(), verdict.version)
    while verdict.state is ReadinessState.WAITING or (verdict.state is ReadinessState.SETTLING and not settled.by(clock.now())):
        waited = clock.now() - started
        if step.cancelled():
            raise NotReadyError(f"{subject} was not awaited to its end, because the update was cancelled: {verdict.text}", live)
        if waited >= seconds:
            if verdict.holds:
                return live
            raise NotReadyError(f"{subject} is not ready after {waited:.0f} s: {verdict.text}", live)
        if verdict.text != shown:
            step.status(shown := verdict.text)
        clock.sleep(min(pause_after(waited), max(seconds - waited, 0.01)))
        try:
            found = look.get(kind, namespace, name)
        except (ApiUnreachableError, ApiRefusal) as error:
            verdict = waiting(f"the API server does not answer ({error})")
            continue
        except UnknownKindError:
            found = None
        if found is None:
            raise NotReadyError(f"{subject} was deleted by somebody while it was awaited", live)
        live = found
        verdict = _judged(judge, live, look)
        if verdict.version != settled.version:
            settled = _Settled(clock.now(), verdict.version)
    if verdict.state is ReadinessState.FAILED:
        raise NotReadyError(f"{subject} has failed: {verdict.text}", live)
    return live


@dataclass(frozen=True)
class _Settled:
    """Since when what settles has looked as it does."""

    since: float
    version: str

    def by(self, now: float) -> bool:
        return now - self.since >= SETTLE_SECONDS


def unready(kind: ObjectKind, live: Properties, cluster: ClusterConnection) -> str:
    """Why an object that was read is not ready; empty where it is, or where the kind is not judged when it is read."""
    judge = _JUDGES.get((kind.group, kind.kind))
    if judge is None or kind.kind not in _JUDGED_WHEN_READ:
        return ""
    verdict = _judged(judge, live, _Glance(cluster))
    return "" if verdict.holds else verdict.text


def until_gone(
    kind: ObjectKind, namespace: str, name: str, uid: str, cluster: ClusterConnection, step: ProviderStep, seconds: float, clock: AwaitClock
) -> str:
    """Nothing once the object (with that uid) is gone, else what still holds it when time is up or the user has asked to stop."""
    look, started, shown = _Glance(cluster), clock.now(), ""
    while True:
        waited = clock.now() - started
        try:
            live = look.get(kind, namespace, name)
            if live is None or (uid and at(live, "metadata", "uid") != uid):
                return ""
            held = holders(live)
        except UnknownKindError:
            return ""
        except (ApiUnreachableError, ApiRefusal) as error:
            held = f"the API server does not answer ({error})"
        if step.cancelled():
            return f"the update was cancelled while it was being deleted: {held}"
        if waited >= seconds:
            return f"still there after {waited:.0f} s: {held}"
        if held != shown:
            step.status(f"deleting: {held}")
            shown = held
        clock.sleep(min(pause_after(waited), max(seconds - waited, 0.01)))


def holders(live: Properties) -> str:
    """What keeps an object that is being deleted: finalizers, and what its conditions say."""
    if not at(live, "metadata", "deletionTimestamp"):
        return "the deletion has not begun"
    finalizers = [*(at(live, "metadata", "finalizers") or ()), *(at(live, "spec", "finalizers") or ())]
    texts = [f"finalizer {finalizer}" for finalizer in sorted(finalizers)]
    blocking = ("NamespaceContentRemaining", "NamespaceFinalizersRemaining")
    conditions = [found for found in at(live, "status", "conditions") or () if found.get("status") == "True"]
    texts += [str(found.get("message")) for found in conditions if found.get("type") in blocking]
    return "; ".join(texts) or "waiting for what depends on it"


def _judged(judge: Judge, live: Properties, look: _Glance) -> ReadinessVerdict:
    if at(live, "metadata", "deletionTimestamp"):
        return waiting("it is being deleted")
    try:
        return judge(live, look)
    except (ApiUnreachableError, ApiRefusal) as error:
        return waiting(f"the API server does not answer ({error})")
    except UnknownKindError:
        # A kind that a judge looks at is not served here: there is nothing to wait for.
        return READY
