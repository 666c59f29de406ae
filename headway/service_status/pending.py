"""Why a replica is not ready, in words: quarantine, quota, pool, image, probe. Pure; from objects as the API server
answers them.

The scheduler's own message names every node that does not fit, those of other pools too, so a pod of one pool is judged
by the nodes of that pool. What no rule here explains is left in the words of who refused it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from headway.contract.gpu_resources import is_gpu
from headway.environment.kubernetes import quantity
from headway.wire import MIG_TAINT, POOL, QUARANTINE

_PULLS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable", "SignatureValidationFailed"}
)
"""Reasons of a waiting container whose image is missing (kubelet, `pkg/kubelet/images/types.go`)."""
_PULLED = re.compile(r'"?: (?P<why>.+)', re.DOTALL)
"""What a registry or the kubelet says after an image's name; containerd repeats the name at each step (`core/remotes/docker/resolver.go`)."""
_CRASHES = "CrashLoopBackOff"
_QUOTA = re.compile(r"exceeded quota: (?P<name>[^,]+), requested: (?P<asked>.+), used: (?P<used>.+), limited: (?P<limited>.+)")
"""As ResourceQuota's admission says it (kubernetes, `plugin/pkg/admission/resourcequota/controller.go`)."""
_ENDED = ("Succeeded", "Failed")
_UNFIT = re.compile(r"Insufficient (cpu|memory|ephemeral-storage)|Too many pods")
"""What a node lacks beside GPUs, as the scheduler says it (kubernetes, `pkg/scheduler/framework/plugins/noderesources/fit.go`). It says one
thing of each node, and of a node of another pool that its labels do not match."""
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")

Body = Mapping[str, Any]


class PendingKind(StrEnum):
    """What keeps a replica from being ready."""

    QUOTA_FULL = "quota-full"
    IMAGE_MISSING = "image-missing"
    ARTIFACTS_MISSING = "artifacts-missing"
    """A container that runs before the server ends again and again: the model's files are fetched there."""
    GPUS_TAKEN = "gpus-taken"
    QUARANTINED = "quarantined"
    NODE_UNREADY = "node-unready"
    CORDONED = "cordoned"
    UNCUT = "uncut"
    POOL_EMPTY = "pool-empty"
    GPUS_SCATTERED = "gpus-scattered"
    """Enough GPUs are free, and no node has them together, or in the shape that is asked for."""
    TAINTED = "tainted"
    NODE_UNFIT = "node-unfit"
    """A GPU is free, but not the processors, memory or disk beside it."""
    NODE_PRESSURE = "node-pressure"
    UNPLACED = "unplaced"
    """No node takes it, for another reason."""
    ENDED = "ended"
    MEMORY_KILLED = "memory-killed"
    UNREADY = "unready"
    """It runs, and a probe has not passed, or it is still on its way."""
    LEAVING = "leaving"


@dataclass(frozen=True)
class Pending:
    """Why a replica is not ready, for programs and in words."""

    kind: PendingKind
    words: str


def why(pod: Body, nodes: Sequence[Body] = (), pods: Sequence[Body] = (), events: Iterable[Body] = ()) -> str:
    """Why `pod` is not ready, in words; empty where it is."""
    found = pending(pod, nodes, pods, events)
    return found.words if found else ""


def pending(pod: Body, nodes: Sequence[Body] = (), pods: Sequence[Body] = (), events: Iterable[Body] = ()) -> Pending | None:
    """Why `pod` is not ready; None where it is. `nodes` and `pods` are the cluster's, `events` those about the pod."""
    status = pod.get("status", {})
    if condition(pod, "Ready"):
        return None
    if "deletionTimestamp" in pod["metadata"]:
        return Pending(PendingKind.LEAVING, "it is ending")
    if not pod.get("spec", {}).get("nodeName"):
        unplaced = next((c for c in status.get("conditions", []) if c.get("type") == "PodScheduled" and c.get("status") == "False"), None)
        if unplaced:
            return _unplaced(pod, unplaced.get("message", ""), nodes, pods)
        return Pending(PendingKind.UNREADY, "the scheduler has not looked at it yet")
    for each in status.get("initContainerStatuses", ()):
        if said := _waits(each, pod) or _failed(each):
            return Pending(_kind(each, PendingKind.ARTIFACTS_MISSING), said)
    for each in status.get("containerStatuses", ()):
        if said := _waits(each, pod):
            return Pending(_kind(each, PendingKind.ENDED), said)
    words = _unproven(status, events) or f"{status.get('phase', 'Unknown').lower()}, not ready"
    return Pending(PendingKind.UNREADY, words)


def _kind(container: Body, ended: PendingKind) -> PendingKind:
    """Of a container that waits, or ended; `ended`: what it is called if it ended."""
    waiting = container["state"].get("waiting")
    if waiting and waiting.get("reason") in _PULLS:
        return PendingKind.IMAGE_MISSING
    if waiting and waiting.get("reason") != _CRASHES:
        return PendingKind.UNREADY
    return PendingKind.MEMORY_KILLED if out_of_memory(container) else ended


def out_of_memory(container: Body) -> bool:
    """Whether the kernel ended it the last time, for its memory."""
    return container.get("lastState", {}).get("terminated", {}).get("reason") == "OOMKilled"


def ended(pod: Body) -> tuple[str, datetime | None]:
    """How often containers of `pod` that run again have ended, and how they did the last time, with its time; empty where none has."""
    status = pod.get("status", {})
    started = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    again = [each for each in started if "running" in each.get("state", {}) and each.get("restartCount")]
    times = [datetime.fromisoformat(at) for each in again if (at := each.get("lastState", {}).get("terminated", {}).get("finishedAt"))]
    return "; ".join(map(_ends, again)), max(times, default=None)


def refused(conditions: Iterable[Body]) -> str:
    """Why a Deployment may not make its pods; empty where it may."""
    said = next((c.get("message", "") for c in conditions if c.get("type") == "ReplicaFailure" and c.get("status") == "True"), "")
    quota = quota_of(said)
    if quota is None:
        return said
    used, limited = _amounts(quota["used"]), _amounts(quota["limited"])
    full = "; ".join(
        f"{name} has {used.get(name, '?')} of {limited.get(name, '?')} in use and {asked} more asked for"
        for name, asked in _amounts(quota["asked"]).items()
    )
    return f"quota {quota['name']} is full: {full}"


def quota_of(message: str) -> re.Match[str] | None:
    """The refusal by a quota that a message tells of."""
    return _QUOTA.search(message)


def condition(thing: Body, kind: str) -> bool:
    """Whether a node or pod says so of itself."""
    return any(c.get("type") == kind and c.get("status") == "True" for c in thing.get("status", {}).get("conditions", []))


def gpus(pod: Body) -> dict[str, int]:
    """GPUs that a pod asks for, by resource."""
    asked: dict[str, int] = {}
    for container in pod.get("spec", {}).get("containers", ()):
        resources = container.get("resources", {})
        for resource, amount in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            if is_gpu(resource):
                asked[resource] = asked.get(resource, 0) + int(quantity(str(amount)))  # `1k` is a whole number, too
    return asked


def quarantined(node: Body) -> bool:
    return _tainted(node, QUARANTINE)


def _unplaced(pod: Body, message: str, nodes: Sequence[Body], pods: Sequence[Body]) -> Pending:
    """Of the nodes of its pool: which are in quarantine, are not ready, are still to be cut, or have no GPU left. Called by what keeps
    most of them away."""
    unknown = Pending(PendingKind.UNPLACED, message or "not scheduled")
    pool = (pod["spec"].get("nodeSelector") or {}).get(POOL)
    if pool is None or not nodes:
        return unknown
    mine = [node for node in nodes if node["metadata"].get("labels", {}).get(POOL) == pool]
    if not mine:
        return Pending(PendingKind.POOL_EMPTY, f"pool {pool} has no node; one must be added")
    found: list[tuple[int, PendingKind, str]] = []
    left = mine
    for kind, (what, holds) in _OUT_OF_USE.items():
        those = [str(node["metadata"]["name"]) for node in left if holds(node)]
        left = [node for node in left if not holds(node)]
        if those:
            found.append((len(those), kind, f"{len(those)} of {len(mine)} {what} ({', '.join(sorted(those))})"))
    if barred := {str(node["metadata"]["name"]): said for node in left if (said := _untolerated(pod, node))}:
        named = ", ".join(f"{name}: {said}" for name, said in sorted(barred.items()))
        found.append((len(barred), PendingKind.TAINTED, f"{len(barred)} of {len(mine)} with a taint that it does not tolerate ({named})"))
    left = [node for node in left if str(node["metadata"]["name"]) not in barred]
    full = [said for resource, asked in gpus(pod).items() if left and (said := _full(resource, asked, left, pods))]
    if left and not full:
        return Pending(PendingKind.NODE_UNFIT, message) if _UNFIT.search(message) else unknown
    found += [(len(left), kind, said) for kind, said in full]
    return Pending(max(found, key=lambda each: each[0])[1], f"pool {pool}: {'; '.join(said for _, _, said in found)}")


def _unready(node: Body) -> bool:
    return not condition(node, "Ready")


def _cordoned(node: Body) -> bool:
    return bool(node.get("spec", {}).get("unschedulable"))


def _uncut(node: Body) -> bool:
    return _tainted(node, MIG_TAINT)


def _short(node: Body) -> bool:
    return any(condition(node, each) for each in _PRESSURES)


def _untolerated(pod: Body, node: Body) -> str:
    """The first taint of the node that keeps the pod away; empty where none does (Kubernetes, "Taints and Tolerations")."""
    for taint in node.get("spec", {}).get("taints") or ():
        if taint.get("effect") != "PreferNoSchedule" and not any(_tolerates(each, taint) for each in pod["spec"].get("tolerations") or ()):
            return f"{taint.get('key')}={taint['value']}" if taint.get("value") else str(taint.get("key"))
    return ""


def _tolerates(toleration: Body, taint: Body) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint.get("key"))
    return toleration.get("key") == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")


_OUT_OF_USE: Mapping[PendingKind, tuple[str, Callable[[Body], bool]]] = {
    PendingKind.QUARANTINED: ("in quarantine", quarantined),
    PendingKind.NODE_UNREADY: ("not ready", _unready),
    PendingKind.CORDONED: ("cordoned", _cordoned),
    PendingKind.UNCUT: ("still to be cut by MIG", _uncut),
    PendingKind.NODE_PRESSURE: ("short of memory, disk or processes", _short),
}


def _full(resource: str, asked: int, nodes: Sequence[Body], pods: Sequence[Body]) -> tuple[PendingKind, str] | None:
    """How the nodes are used, and by whom, where none has `asked` left."""
    names = {str(node["metadata"]["name"]) for node in nodes}
    used, users = dict.fromkeys(names, 0), dict[str, int]()
    for pod in pods:
        node, amount = pod.get("spec", {}).get("nodeName"), gpus(pod).get(resource, 0)
        if node in names and amount and pod.get("status", {}).get("phase") not in _ENDED:
            used[node] += amount
            namespace = str(pod["metadata"].get("namespace", ""))
            users[namespace] = users.get(namespace, 0) + amount
    there = {str(node["metadata"]["name"]): int((node.get("status", {}).get("allocatable") or {}).get(resource, 0)) for node in nodes}
    spare = {name: there[name] - used[name] for name in names if there[name] > used[name]}
    if any(amount >= asked for amount in spare.values()):
        return None
    if sum(spare.values()) >= asked:
        where = ", ".join(f"{amount} on {name}" for name, amount in sorted(spare.items()))
        return PendingKind.GPUS_SCATTERED, f"{sum(spare.values())} {resource} are free, but no node has {asked} of them ({where})"
    whose = ", ".join(f"{amount} by {namespace}" for namespace, amount in sorted(users.items(), key=lambda each: (-each[1], each[0])))
    said = f"no node has {asked} {resource} left ({sum(used.values())} of {sum(there.values())} in use on {len(nodes)}{whose and f': {whose}'})"
    if shapes := _other_shapes(resource, nodes, pods):
        return PendingKind.GPUS_SCATTERED, f"{said}, while others are free: {shapes}"
    return PendingKind.GPUS_TAKEN, said


def _other_shapes(resource: str, nodes: Sequence[Body], pods: Sequence[Body]) -> str:
    """What is free on the nodes of GPUs that are cut otherwise than asked for."""
    names = {str(node["metadata"]["name"]) for node in nodes}
    free: dict[str, int] = {}
    for node in nodes:
        for each, amount in (node.get("status", {}).get("allocatable") or {}).items():
            if is_gpu(each) and each != resource:
                free[each] = free.get(each, 0) + int(amount)
    for pod in pods:
        if pod.get("spec", {}).get("nodeName") in names and pod.get("status", {}).get("phase") not in _ENDED:
            for each, amount in gpus(pod).items():
                if each in free:
                    free[each] -= amount
    return ", ".join(f"{amount} {each}" for each, amount in sorted(free.items()) if amount > 0)


def _waits(container: Body, pod: Body) -> str:
    """Why a container does not run; empty where it does, or is done."""
    name, waiting = container.get("name", "?"), container.get("state", {}).get("waiting")
    if not waiting:
        return ""
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if reason in _PULLS:
        image = next((c.get("image") for c in _containers(pod) if c.get("name") == name), container.get("image", ""))
        said = _PULLED.match(message.rpartition(image)[2]) if image else None
        return f"image {image} cannot be pulled: {said['why'] if said else message or reason}"
    if reason == _CRASHES:
        return _ends(container)
    return " ".join(part for part in (reason, message) if part)


def _ends(container: Body) -> str:
    """How often a container has ended, and of the last time when and how."""
    last, times = container.get("lastState", {}).get("terminated", {}), container.get("restartCount", "?")
    at = f"{last['finishedAt'][:16].replace('T', ' ')}Z" if last.get("finishedAt") else ""
    often = "once" if times == 1 else f"{times} times, the last time"
    how = f"{last.get('reason', 'ended')}, exit code {last.get('exitCode', '?')}"
    return f"container {container.get('name', '?')} ended {often} {f'at {at} ' if at else ''}with {how}"


def _failed(container: Body) -> str:
    """How a container that comes before the server failed, while it tries again between two waits; empty where it did not, or is done."""
    state, before = container.get("state", {}), container.get("lastState", {})
    last = state if "terminated" in state else before
    return _ends({**container, "lastState": last}) if last.get("terminated", {}).get("exitCode", 0) else ""


def running_unready(status: Body) -> list[Body]:
    """Of a pod's status, the containers that run and are not ready."""
    return [each for each in status.get("containerStatuses", ()) if "running" in each.get("state", {}) and not each.get("ready")]


def _unproven(status: Body, events: Iterable[Body]) -> str:
    """Which probe a running pod has not passed, with its newest answer where an event has one."""
    if not (running := running_unready(status)):
        return ""
    probe = "startup" if any(each.get("started") is False for each in running) else "readiness"
    said = [e.get("message", "") for e in sorted(events, key=_when) if e.get("reason") == "Unhealthy"]
    return f"{said[-1][:1].lower()}{said[-1][1:]}" if said else f"its {probe} probe has not passed"


def _when(event: Body) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def _containers(pod: Body) -> Sequence[Body]:
    return (*pod["spec"].get("initContainers", ()), *pod["spec"].get("containers", ()))


def _tainted(node: Body, key: str) -> bool:
    return any(taint.get("key") == key for taint in node.get("spec", {}).get("taints") or ())


def _amounts(text: str) -> dict[str, str]:
    """`requests.nvidia.com/gpu=1,pods=3`."""
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)
