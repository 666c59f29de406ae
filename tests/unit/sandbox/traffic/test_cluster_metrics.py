"""What the bed's stand-in for kube-state-metrics says of the whole cluster."""

from typing import Any

from sandbox.traffic.node.cluster_metrics import deployment_samples, node_samples, phase_samples, unschedulable_samples


def test_a_taint_and_each_condition_of_a_node_are_shown_with_one_status_true() -> None:
    node: dict[str, Any] = {
        "metadata": {"name": "l4-0"},
        "spec": {"taints": [{"key": "platform.io/quarantine", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "False"}]},
    }
    assert [(name, labels, value) for name, labels, value in node_samples([node]) if value] == [
        ("kube_node_spec_taint", {"node": "l4-0", "key": "platform.io/quarantine", "value": "", "effect": "NoSchedule"}, 1.0),
        ("kube_node_status_condition", {"node": "l4-0", "condition": "Ready", "status": "false"}, 1.0),
    ]


def deployment(**more: Any) -> dict[str, Any]:
    metadata = {"namespace": "quality", "name": "classifier-r1", "creationTimestamp": "1970-01-01T00:01:00Z", "generation": 3}
    return {"metadata": metadata, "spec": {}, **more}


def test_a_deployment_without_a_status_has_no_replica_available() -> None:
    assert [(name, value) for name, _, value in deployment_samples([deployment(spec={"replicas": 2})])] == [
        ("kube_deployment_created", 60.0),
        ("kube_deployment_metadata_generation", 3.0),
        ("kube_deployment_spec_replicas", 2.0),
        ("kube_deployment_status_replicas_available", 0.0),
    ]


def test_a_deployments_condition_has_a_reason_that_the_exporter_knows() -> None:
    def reasons(said: str) -> set[str]:
        condition = {"type": "Progressing", "status": "False", "reason": said}
        made = deployment(status={"conditions": [condition]})
        return {labels["reason"] for _, labels, _ in deployment_samples([made]) if "reason" in labels}

    assert (reasons("ProgressDeadlineExceeded"), reasons("Somebodys")) == ({"ProgressDeadlineExceeded"}, {"unknown"})


def test_a_cordoned_node_is_shown_as_one() -> None:
    nodes: list[dict[str, Any]] = [{"metadata": {"name": name}, "spec": {"unschedulable": name == "b"}, "status": {}} for name in "ab"]
    assert [value for name, _, value in node_samples(nodes) if name == "kube_node_spec_unschedulable"] == [0.0, 1.0]


def test_a_pod_is_in_one_phase_of_five() -> None:
    pod = {"metadata": {"namespace": "quality", "name": "c", "uid": "u"}, "status": {"phase": "Pending"}}
    assert {labels["phase"]: value for _, labels, value in phase_samples([pod])} == {
        "Pending": 1.0,
        "Running": 0.0,
        "Succeeded": 0.0,
        "Failed": 0.0,
        "Unknown": 0.0,
    }


def test_only_pods_that_no_node_was_found_for_are_unschedulable() -> None:
    def pod(name: str, **condition: str) -> dict[str, Any]:
        metadata = {"namespace": "quality", "name": name, "uid": name}
        return {"metadata": metadata, "status": {"conditions": [{"type": "PodScheduled", **condition}]}}

    found = [pod("waits", status="False", reason="Unschedulable"), pod("runs", status="True"), {"metadata": {}, "status": {}}]
    assert [labels["pod"] for _, labels, _ in unschedulable_samples(found)] == ["waits"]
