"""Probes: pods that look from inside, as manifests, and what is read of them. Pure.

They run as nobody, with no rights, and take nobody's place: their priority is that of the placeholders, which give way to
any pod of a model.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.bounded_json import bounded_json
from headway.contract.pool import Pool
from headway.wire import PART_OF, POOL, SYSTEM_NODES

COMPONENT = "verification"
LABELS: Mapping[str, str] = {
    "app.kubernetes.io/component": COMPONENT,
    "app.kubernetes.io/managed-by": "headway-verify",
    "app.kubernetes.io/part-of": PART_OF,
}
SELECTOR = f"app.kubernetes.io/component={COMPONENT},app.kubernetes.io/managed-by=headway-verify"
PRIORITY = "headway-placeholder"
"""The class of `components/platform/capacity.py`: it preempts nobody, and the autoscaler still makes nodes for it."""
NAME_LABEL = "probe"
INJECT = "sidecar.istio.io/inject"
SCRIPT = (Path(__file__).parent / "inside.py").read_text(encoding="utf-8")
_SMALL = {"cpu": "20m", "memory": "64Mi"}
LONGEST_SECONDS = 1200
_GPU_TAINT = "nvidia.com/gpu"


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One question: `task` of `inside.py` and what it is told. On a GPU `pool` it asks for one of `resource`."""

    name: str
    task: str
    question: Mapping[str, Any] = field(default_factory=dict[str, Any])
    meshed: bool = False
    pool: Pool | None = None
    resource: str = ""
    port: int = 0
    """On which it serves; 0 where it does not."""


def namespace(name: str, began: str) -> dict[str, Any]:
    """The verification's own namespace, which is all that it must remove. Closed but for what it opens itself."""
    levels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("audit", "enforce", "warn")}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {**LABELS, **levels}, "annotations": {"headway-verify/began": began}},
    }


def pod(probe: Probe, image: str) -> dict[str, Any]:
    """The pod of a probe, in the namespace to which it is posted."""
    amount = {**_SMALL, **({probe.resource: "1"} if probe.resource else {})}
    container: dict[str, Any] = {
        "name": "probe",
        "image": image,
        "command": ["python3", "-c", SCRIPT, probe.task, json.dumps(probe.question)],
        "resources": {"limits": dict(amount), "requests": dict(amount)},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True},
    }
    if probe.port:
        container["ports"] = [{"containerPort": probe.port, "name": "http", "protocol": "TCP"}]
    if probe.resource:
        # The tool that lists GPUs comes with the driver, and only to who asks for it.
        container["env"] = [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}]
    key, value = SYSTEM_NODES
    selected = {POOL: probe.pool.name} if probe.pool else {key: value}
    taints = (_GPU_TAINT, *(taint.key for taint in probe.pool.taints)) if probe.pool else ()
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": probe.name, "labels": {**LABELS, NAME_LABEL: probe.name, INJECT: str(probe.meshed).lower()}},
        "spec": {
            "activeDeadlineSeconds": LONGEST_SECONDS,
            "automountServiceAccountToken": False,
            "containers": [container],
            "nodeSelector": selected,
            "priorityClassName": PRIORITY,
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65534,
                "runAsGroup": 65534,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"key": taint, "operator": "Exists"} for taint in dict.fromkeys(taints)],
        },
    }


@dataclass(frozen=True, kw_only=True)
class ProbeSeen:
    """A probe's pod at one moment."""

    node: str = ""
    address: str = ""
    phase: str = ""
    pending: str = ""
    """The scheduler's or the kubelet's own words on why it does not run."""
    word: Mapping[str, Any] | None = None
    """Its last word; None as long as it has none."""
    running: bool = False

    @property
    def over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


def seen(body: Mapping[str, Any] | None) -> ProbeSeen:
    """What a pod's object says; a pod that is gone says so."""
    if body is None:
        return ProbeSeen(phase="Failed", pending="it was removed by somebody else")
    status: Mapping[str, Any] = body.get("status") or {}
    statuses = [each for each in status.get("containerStatuses") or () if each.get("name") == "probe"]
    state: Mapping[str, Any] = statuses[0].get("state") or {} if statuses else {}
    ended, waiting = state.get("terminated"), state.get("waiting") or {}
    unscheduled = [
        f"{each.get('reason')}: {each.get('message')}"
        for each in status.get("conditions") or ()
        if each.get("type") == "PodScheduled" and each.get("status") == "False"
    ]
    said = " ".join(filter(None, (waiting.get("reason"), waiting.get("message"))))
    return ProbeSeen(
        node=str(body["spec"].get("nodeName") or ""),
        address=str(status.get("podIP") or ""),
        phase=str(status.get("phase") or ""),
        pending=next(iter(unscheduled), said or str((ended or {}).get("reason") or status.get("reason") or "")),
        word=_word((ended or {}).get("message")),
        running="running" in state,
    )


def _word(text: str | None) -> Mapping[str, Any] | None:
    try:
        found = bounded_json(text or "")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
