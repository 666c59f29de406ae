"""What is known of the GPU nodes at one moment, as plain frozen values. Pure: `cluster` reads them, `decision` judges
them.

A node carries its own quarantine, as a taint that the scheduler obeys and an annotation that says why; nothing about it
is kept elsewhere. A taint alone moves nothing, and a cordon is undone by whoever drains for another reason, so the
taint has a key of its own. Another taint, with which it was born, says that MIG has still to cut its GPUs.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from headway.bounded_json import bounded_json
from headway.problem import ODD
from headway.wire import MIG_CONFIG, MIG_STATE, MIG_TAINT, MODEL, NODE_HEALTH_NAMESPACE, POOL, PREFIX, QUARANTINE, RELEASE, TENANT

DRIVER_LABEL = "nvidia.com/cuda.driver-version.full"
GPU_PREFIX = "nvidia.com/"
MIG_PREFIX = f"{GPU_PREFIX}mig-"
CORDON = "node.kubernetes.io/unschedulable"
UNCUT = ("", "all-disabled")
"""Layouts that leave GPUs whole."""
_LATEST = 2.0**53
"""No time in seconds, and no count, is larger."""
DIAGNOSTIC_LABEL = f"{PREFIX}/diagnostic"
"""Label of a diagnostic's pod: the trial that it is."""


class QuarantineState(StrEnum):
    """How far a node in quarantine is. Not its health: a node stays here until it has proved itself."""

    DRAINING = "draining"
    """Nothing new is scheduled; what runs leaves as disruption budgets allow."""
    WAITING = "waiting"
    """Empty. Repair has its turn, or, if it is held, a person has."""
    TESTING = "testing"
    """Empty, no fault is reported any more, a diagnostic runs."""
    REPLACING = "replacing"
    """Its instance was told to end."""


class Diagnostic(StrEnum):
    """How the diagnostic of a node stands."""

    NONE = "none"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Quarantine:
    """Why a node is set apart. Times are Unix seconds; `attempts` counts diagnostics started; `held` by a person
    until released."""

    state: QuarantineState
    reason: str
    by: str
    since: float
    changed: float
    attempts: int = 0
    held: bool = False

    @property
    def trial(self) -> str:
        """Names this quarantine's present diagnostic: the result of another one proves nothing."""
        return f"{int(self.since)}-{self.attempts}"

    def text(self) -> str:
        """As the annotation's value."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> "Quarantine | None":
        """None for what nobody here has written."""
        try:
            given = bounded_json(text)
            return cls(
                state=QuarantineState(given["state"]),
                reason=str(given["reason"]),
                by=str(given["by"]),
                since=_number(given["since"]),
                changed=_number(given["changed"]),
                attempts=int(_number(given["attempts"])),
                held=bool(given["held"]),
            )
        except (ValueError, KeyError, TypeError):
            return None


def _number(value: Any) -> float:
    """Raises ValueError for what is no number, such as the text `nan`."""
    if type(value) not in (int, float) or abs(value) > _LATEST:
        raise ValueError("it is no number")
    return float(value)


@dataclass(frozen=True, kw_only=True)
class NodeCondition:
    """A node's condition; `since` in Unix seconds."""

    type: str
    status: str
    reason: str
    since: float


@dataclass(frozen=True, kw_only=True)
class NodePod:
    """A pod on a node. `movable` is false for what belongs to the node (DaemonSets, mirrors) and for what has ended."""

    namespace: str
    name: str
    tenant: str = ""
    model: str = ""
    release: str = ""
    movable: bool = True
    gpus: int = 0


@dataclass(frozen=True, kw_only=True)
class SlowReplica:
    """A replica that takes longer than its siblings on GPUs of the same kind, though it is given no more to do. `slower`: times as long;
    `siblings`: the others; `evidence`: that it is not chance, of `needed`."""

    pod: str
    slower: float
    siblings: int
    evidence: float
    needed: float

    @property
    def proven(self) -> bool:
        return self.evidence >= self.needed

    @property
    def words(self) -> str:
        return (
            f"{self.pod} takes {self.slower:.2f} times as long as its {self.siblings} siblings "
            f"(evidence {self.evidence:.3g}, {self.needed:.3g} needed)"
        )


@dataclass(frozen=True, kw_only=True)
class GpuNode:
    """One GPU node. `offered` and `installed` count each GPU resource as allocatable and as capacity."""

    name: str
    pool: str
    driver: str = ""
    ready: bool = True
    created: float = 0.0
    """When it joined, in Unix seconds."""
    sliced: bool = False
    """Its GPUs are cut by MIG, or are to be, which DCGM's diagnostic cannot test."""
    mig_state: str = ""
    """What the MIG manager says of its layout: `pending`, `rebooting`, `success` or `failed`; empty before it has begun."""
    taints: tuple[Mapping[str, Any], ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    quarantine: Quarantine | None = None
    offered: Mapping[str, int]
    installed: Mapping[str, int]
    pods: tuple[NodePod, ...] = ()
    diagnostic: Diagnostic = Diagnostic.NONE
    provider_id: str = ""
    version: str = ""
    """Its resource version, so that a change is refused when someone else was faster."""
    unreadable: str = ""
    """What of it nobody understands; then nothing but name and pool is known."""

    @property
    def tainted(self) -> bool:
        """Carries the quarantine's taint."""
        return any(taint.get("key") == QUARANTINE for taint in self.taints)

    @property
    def cordoned(self) -> bool:
        """Somebody keeps new pods from it; the control plane then taints it (Kubernetes, "Taints and Tolerations")."""
        return any(taint.get("key") == CORDON for taint in self.taints)

    @property
    def uncut(self) -> bool:
        """Carries the taint of a node that MIG has still to cut."""
        return any(taint.get("key") == MIG_TAINT for taint in self.taints)

    @property
    def movable(self) -> tuple[NodePod, ...]:
        return tuple(pod for pod in self.pods if pod.movable)

    @property
    def whole(self) -> bool:
        """Ready, and offers every GPU that is installed."""
        return self.ready and any(self.offered.values()) and all(self.offered.get(key, 0) >= n for key, n in self.installed.items())


def node(body: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> GpuNode | None:
    """A node as the API server describes it, with the pods that are on it; None if it has no place in a GPU pool."""
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    labels: Mapping[str, str] = meta.get("labels") or {}
    installed = _gpus(status.get("capacity") or {})
    if POOL not in labels or not (installed or any(key.startswith(GPU_PREFIX) for key in labels)):
        return None
    conditions = tuple(
        NodeCondition(type=c["type"], status=c["status"], reason=c.get("reason") or "", since=_seconds(c.get("lastTransitionTime")))
        for c in status.get("conditions") or ()
    )
    mine = [pod for pod in pods if (pod.get("spec") or {}).get("nodeName") == meta["name"]]
    annotation = (meta.get("annotations") or {}).get(QUARANTINE)
    quarantine = Quarantine.read(annotation) if annotation else None
    return GpuNode(
        name=meta["name"],
        pool=labels[POOL],
        driver=labels.get(DRIVER_LABEL, ""),
        ready=any(c.type == "Ready" and c.status == "True" for c in conditions),
        created=_seconds(meta.get("creationTimestamp")),
        sliced=labels.get(MIG_CONFIG, "") not in UNCUT or any(key.startswith(MIG_PREFIX) for key in installed),
        mig_state=labels.get(MIG_STATE, ""),
        taints=tuple(spec.get("taints") or ()),
        conditions=conditions,
        quarantine=quarantine,
        offered=_gpus(status.get("allocatable") or {}),
        installed=installed,
        pods=tuple(sorted((_pod(pod) for pod in mine if not _is_diagnostic(pod)), key=lambda pod: (pod.namespace, pod.name))),
        diagnostic=_diagnostic(mine, quarantine.trial) if quarantine else Diagnostic.NONE,
        provider_id=spec.get("providerID") or "",
        version=meta.get("resourceVersion") or "",
    )


def nodes(bodies: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]]) -> tuple[GpuNode, ...]:
    """Every node of a GPU pool, by pool and name."""
    known = (_read(body, pods) for body in bodies)
    return tuple(sorted((n for n in known if n is not None), key=lambda n: (n.pool, n.name)))


def _read(body: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> GpuNode | None:
    """A node that says what no node says must not hide the others."""
    try:
        return node(body, pods)
    except ODD as odd:
        pool = str((body["metadata"].get("labels") or {}).get(POOL, ""))
        reason = f"{type(odd).__name__}: {odd}"
        return GpuNode(name=str(body["metadata"]["name"]), pool=pool, ready=False, offered={}, installed={}, unreadable=reason)


_COUNTED = re.compile(r"nvidia\.com/(gpu|gpu\.shared|mig-[0-9a-z.]+)")


def _gpus(quantities: Mapping[str, str]) -> dict[str, int]:
    return {key: int(value) for key, value in sorted(quantities.items()) if _COUNTED.fullmatch(key) and value.isdigit()}


def in_short(body: dict[str, Any]) -> dict[str, Any]:
    """What is read of a pod. A tenant's may have a megabyte, and the loop keeps those of all at once."""
    try:
        meta, spec = body["metadata"], body.get("spec") or {}
        mirror = {"kubernetes.io/config.mirror": ""} if "kubernetes.io/config.mirror" in (meta.get("annotations") or {}) else {}
        asked = [_gpus((container.get("resources") or {}).get("requests") or {}) for container in spec.get("containers") or ()]
        return {
            "metadata": {
                "namespace": meta["namespace"],
                "name": meta["name"],
                "annotations": mirror,
                "labels": {key: value for key, value in (meta.get("labels") or {}).items() if key in _READ_OF_PODS},
                "ownerReferences": [{"kind": owner.get("kind")} for owner in meta.get("ownerReferences") or ()],
            },
            "spec": {
                "nodeName": spec.get("nodeName"),
                "containers": [{"resources": {"requests": {key: str(number) for key, number in each.items()}}} for each in asked if each],
            },
            "status": {"phase": (body.get("status") or {}).get("phase")},
        }
    except ODD:
        return body  # its node says that it cannot be read


_READ_OF_PODS = (DIAGNOSTIC_LABEL, MODEL, RELEASE, TENANT)


def _pod(body: Mapping[str, Any]) -> NodePod:
    meta, labels = body["metadata"], body["metadata"].get("labels") or {}
    owners = [owner.get("kind") for owner in meta.get("ownerReferences") or ()]
    ended = (body.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    claims = bool({"DaemonSet", "Node"} & set(owners)) or "kubernetes.io/config.mirror" in (meta.get("annotations") or {})
    # A tenant's pods are all its own: it makes no DaemonSets, and what its template says of a mirror proves nothing.
    belongs = claims and TENANT not in labels
    requested = [(container.get("resources") or {}).get("requests") or {} for container in body["spec"].get("containers") or ()]
    return NodePod(
        namespace=meta["namespace"],
        name=meta["name"],
        tenant=labels.get(TENANT, ""),
        model=labels.get(MODEL, ""),
        release=labels.get(RELEASE, ""),
        movable=not (belongs or ended),
        gpus=sum(sum(_gpus(requests).values()) for requests in requested),
    )


def _is_diagnostic(body: Mapping[str, Any]) -> bool:
    """Anybody may write the label; in the loop's own namespace nobody else makes pods."""
    return body["metadata"]["namespace"] == NODE_HEALTH_NAMESPACE and DIAGNOSTIC_LABEL in (body["metadata"].get("labels") or {})


def _diagnostic(pods: Sequence[Mapping[str, Any]], trial: str) -> Diagnostic:
    for pod in pods:
        if _is_diagnostic(pod) and pod["metadata"]["labels"][DIAGNOSTIC_LABEL] == trial:
            phase = str((pod.get("status") or {}).get("phase"))
            return {"Succeeded": Diagnostic.PASSED, "Failed": Diagnostic.FAILED}.get(phase, Diagnostic.RUNNING)
    return Diagnostic.NONE


def _seconds(when: Any) -> float:
    if not when:
        return 0.0
    parsed = when if isinstance(when, datetime) else datetime.fromisoformat(str(when))
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
