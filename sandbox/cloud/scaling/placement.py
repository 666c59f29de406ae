"""Whether a pod fits on a node, as the scheduler's filters say. Pure.

The Cluster Autoscaler asks the scheduler's own filters (kubernetes/autoscaler at cluster-autoscaler-1.35.2,
`cluster-autoscaler/simulator/clustersnapshot/predicate/plugin_runner.go`). Here are those of them that our pods use:
NodeUnschedulable, NodeAffinity, TaintToleration and NodeResourcesFit. A pod that asks for another one is named by
`unmodelled`; it fits nowhere, so that nothing is promised that the real ones may refuse.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from sandbox.cloud.autoscaler import Body, amount, requests

BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


@dataclass
class SimulatedRoom:
    """A node in a simulation: what is still free on it, and the pods that it is taken to hold."""

    node: Body
    pods: list[Body] = field(default_factory=list[Body])
    free: dict[str, Decimal] = field(default_factory=dict[str, Decimal])

    @classmethod
    def of(cls, node: Body, pods: Iterable[Body] = ()) -> "SimulatedRoom":
        room = cls(node, free={name: amount(value) for name, value in node["status"]["allocatable"].items()})
        for pod in pods:
            room.put(pod)
        return room

    def put(self, pod: Body) -> None:
        self.pods.append(pod)
        for name, asked in requests(pod).items():
            self.free[name] = self.free.get(name, Decimal(0)) - asked

    def takes(self, pod: Body) -> bool:
        return fits(pod, self.node) and all(asked <= self.free.get(name, Decimal(0)) for name, asked in requests(pod).items() if asked)


def placed(pod: Body, rooms: Iterable[SimulatedRoom]) -> bool:
    """Put the pod into the first room that takes it; False where none does."""
    for room in rooms:
        if room.takes(pod):
            room.put(pod)
            return True
    return False


def fits(pod: Body, node: Body) -> bool:
    """Whether the node is one for this pod, whatever is free on it."""
    spec: Mapping[str, Any] = pod["spec"]
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    if (node.get("spec") or {}).get("unschedulable") or unmodelled(pod):
        return False
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    return _wanted(spec, node, labels) and tolerated(spec.get("tolerations") or (), (node.get("spec") or {}).get("taints") or ())


def tolerated(tolerations: Sequence[Body], taints: Sequence[Body]) -> bool:
    """Whether none of the taints keeps the pod off."""
    return all(any(_tolerates(each, taint) for each in tolerations) for taint in taints if taint["effect"] in BLOCKING_EFFECTS)


def unmodelled(pod: Body) -> tuple[str, ...]:
    """Filters that the pod asks for and that are not here."""
    spec: Mapping[str, Any] = pod["spec"]
    affinity: Mapping[str, Any] = spec.get("affinity") or {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    found = {
        "resource claims": bool(spec.get("resourceClaims")),
        "host ports": any(port.get("hostPort") for each in spec["containers"] for port in each.get("ports") or ()),
        "pod affinity": any((affinity.get(kind) or {}).get(required) for kind in ("podAffinity", "podAntiAffinity")),
        "hard topology spread": any(each["whenUnsatisfiable"] == "DoNotSchedule" for each in spec.get("topologySpreadConstraints") or ()),
        "volumes with a zone": any({"persistentVolumeClaim", "ephemeral"} & each.keys() for each in spec.get("volumes") or ()),
    }
    return tuple(name for name, asked in found.items() if asked)


def _tolerates(toleration: Body, taint: Body) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]) or toleration.get("key") not in (None, "", taint["key"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def _wanted(spec: Mapping[str, Any], node: Body, labels: Mapping[str, str]) -> bool:
    """Required node affinity: one of the terms, with all of its expressions."""
    affinity: Mapping[str, Any] = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    fields = {"metadata.name": str(node["metadata"].get("name", ""))}
    return any(
        all(_holds(each, labels) for each in term.get("matchExpressions") or ())
        and all(_holds(each, fields) for each in term.get("matchFields") or ())
        for term in required["nodeSelectorTerms"]
        if term.get("matchExpressions") or term.get("matchFields")
    )


def _holds(expression: Body, labels: Mapping[str, str]) -> bool:
    operator, found = expression["operator"], labels.get(expression["key"])
    values: Sequence[str] = expression.get("values") or ()
    if operator in ("In", "NotIn"):
        return (found in values) == (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return (found is not None) == (operator == "Exists")
    if found is None or not found.lstrip("-").isdigit():
        return False
    bound = int(next(iter(values)))
    return int(found) > bound if operator == "Gt" else int(found) < bound
