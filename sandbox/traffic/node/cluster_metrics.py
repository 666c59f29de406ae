"""What kube-state-metrics says of nodes, Deployments and pods that wait: the series behind the alerts and dashboards of
node, scheduler and deployment. Pure.

Names and labels: kube-state-metrics' pages on the metrics of nodes, Deployments and pods. Labels and GPUs of nodes are
left out: DCGM's exporter runs here for served pods only, and the alerts that compare both would fire for every other
node.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

Samples = Iterator[tuple[str, Mapping[str, str], float]]
_STATUSES = ("true", "false", "unknown")
_PHASES = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
_REASONS = frozenset(
    [
        "",
        "DeploymentPaused",
        "DeploymentResumed",
        "FoundNewReplicaSet",
        "MinimumReplicasAvailable",
        "MinimumReplicasUnavailable",
        "NewReplicaSetAvailable",
        "NewReplicaSetCreated",
        "ProgressDeadlineExceeded",
        "ReplicaSetCreateError",
        "ReplicaSetUpdated",
    ]
)
"""Of a Deployment's conditions; any other is called unknown (kube-state-metrics 2.20, `internal/store/deployment.go`)."""


def node_samples(nodes: Iterable[Mapping[str, Any]]) -> Samples:
    for node in nodes:
        name = {"node": node["metadata"]["name"]}
        yield "kube_node_spec_unschedulable", name, float(bool(node["spec"].get("unschedulable")))
        for taint in node["spec"].get("taints") or []:
            yield "kube_node_spec_taint", name | {key: taint.get(key, "") for key in ("key", "value", "effect")}, 1.0
        for each in node["status"].get("conditions") or []:
            for status in _STATUSES:
                labels = name | {"condition": each["type"], "status": status}
                yield "kube_node_status_condition", labels, float(each["status"].lower() == status)


def deployment_samples(deployments: Iterable[Mapping[str, Any]]) -> Samples:
    for each in deployments:
        metadata = each["metadata"]
        place = {"namespace": metadata["namespace"], "deployment": metadata["name"]}
        status = each.get("status") or {}
        yield "kube_deployment_created", place, datetime.fromisoformat(metadata["creationTimestamp"]).timestamp()
        yield "kube_deployment_metadata_generation", place, float(metadata["generation"])
        yield "kube_deployment_spec_replicas", place, float(each["spec"].get("replicas", 1))
        yield "kube_deployment_status_replicas_available", place, float(status.get("availableReplicas") or 0)
        for condition in status.get("conditions") or []:
            reason = condition.get("reason", "")
            for value in _STATUSES:
                labels = place | {"reason": reason if reason in _REASONS else "unknown", "condition": condition["type"], "status": value}
                yield "kube_deployment_status_condition", labels, float(condition["status"].lower() == value)


def phase_samples(pods: Iterable[Mapping[str, Any]]) -> Samples:
    for pod in pods:
        metadata, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
        own = {"namespace": metadata["namespace"], "pod": metadata["name"], "uid": metadata["uid"]}
        for each in _PHASES if phase else ():
            yield "kube_pod_status_phase", own | {"phase": each}, float(phase == each)


def unschedulable_samples(pods: Iterable[Mapping[str, Any]]) -> Samples:
    """Only of pods that the scheduler has found no node for, as the exporter does."""
    for pod in pods:
        conditions = (pod.get("status") or {}).get("conditions") or []
        if any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions):
            metadata = pod["metadata"]
            own = {"namespace": metadata["namespace"], "pod": metadata["name"], "uid": metadata["uid"]}
            yield "kube_pod_status_unschedulable", own, 1.0
