"""Replicas of every model service in a cluster: how many are wanted, how many are ready, where, and why not. Pure; from
objects as the API server answers them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headway.problem import on_one_line
from headway.service_status import pending
from headway.wire import ARM, MODEL, RELEASE, TENANT


@dataclass(frozen=True, kw_only=True)
class PodStatus:
    """One pod: where the scheduler put it, or why it is nowhere. `ended`: how its containers that run again have ended, and `ended_at` when
    the last one did; empty where none has."""

    name: str
    node: str
    ready: bool
    reason: str
    ended: str
    ended_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class ServiceStatus:
    """One arm of one model: a release, and the part that it plays. `reason` is empty once every wanted pod is ready."""

    tenant: str
    model: str
    release: str
    arm: str
    wanted: int
    ready: int
    pods: tuple[PodStatus, ...]
    reason: str


def services(
    deployments: Sequence[Mapping[str, Any]],
    pods: Sequence[Mapping[str, Any]],
    nodes: Sequence[Mapping[str, Any]] = (),
    events: Sequence[Mapping[str, Any]] = (),
) -> tuple[ServiceStatus, ...]:
    """One entry a Deployment that carries a model label, with its pods. Without `nodes`, what waits for one is told in
    the scheduler's words; `events` say what probes answered."""
    by_owner: dict[tuple[str, str, str, str], list[Mapping[str, Any]]] = {}
    for pod in pods:
        if key := _key(pod["metadata"], pod["metadata"].get("labels", {})):
            by_owner.setdefault(key, []).append(pod)
    about: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        about.setdefault(str(event.get("involvedObject", {}).get("name")), []).append(event)

    def status(pod: Mapping[str, Any]) -> PodStatus:
        name = str(pod["metadata"]["name"])
        # Probes answer with what the tenant's code printed.
        reason = on_one_line(pending.why(pod, nodes, pods, about.get(name, ())))
        node, (ended, at) = pod.get("spec", {}).get("nodeName") or "", pending.ended(pod)
        return PodStatus(name=name, node=node, ready=not reason, reason=reason, ended=on_one_line(ended), ended_at=at)

    found: list[ServiceStatus] = []
    for deployment in deployments:
        labels = {**deployment["metadata"].get("labels", {}), **deployment["spec"]["template"]["metadata"].get("labels", {})}
        if key := _key(deployment["metadata"], labels):
            mine = tuple(sorted((status(pod) for pod in by_owner.get(key, [])), key=lambda pod: pod.name))
            found.append(_service(key, deployment, mine))
    return tuple(sorted(found, key=lambda s: (s.tenant, s.model, s.release, s.arm)))


def _service(key: tuple[str, str, str, str], deployment: Mapping[str, Any], pods: tuple[PodStatus, ...]) -> ServiceStatus:
    tenant, model, release, arm = key
    wanted = int(deployment["spec"].get("replicas", 1))
    ready = int(deployment.get("status", {}).get("readyReplicas", 0) or 0)
    reason = ""
    if ready < wanted:
        reasons = sorted({p.reason for p in pods if p.reason})
        refused = on_one_line(pending.refused(deployment.get("status", {}).get("conditions", [])))
        reason = "; ".join(reasons) or refused or "no pod yet"
    return ServiceStatus(tenant=tenant, model=model, release=release, arm=arm, wanted=wanted, ready=ready, pods=pods, reason=reason)


def service_of(head: Mapping[str, Any], labels: Mapping[str, str]) -> tuple[str, str] | None:
    """The tenant and the model that an object is of, by its metadata and `labels`. Deployers write labels as they like, and none speaks for
    another namespace's service."""
    tenant, model = labels.get(TENANT), labels.get(MODEL)
    return (tenant, model) if tenant and model and tenant == head.get("namespace") else None


def _key(head: Mapping[str, Any], labels: Mapping[str, str]) -> tuple[str, str, str, str] | None:
    service = service_of(head, labels)
    return (*service, labels.get(RELEASE, ""), labels.get(ARM, "")) if service else None
