"""Nodes that MIG is to cut, on a real API server: born with a taint, admitted by the loop with its own rights, which reach no further.

What is simulated: the nodes, and what NVIDIA's MIG manager and device plugin show of them.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from typer.testing import CliRunner

from components.nodes import gpu_node
from components.platform import namespaces, node_health
from components.platform.node_boundary import RULE
from headway.cli.main import app
from headway.contract.pool import Pool
from headway.node_health import watch
from headway.node_health.cluster import Done, NodeCluster
from headway.node_health.decision import LATE, NodeHealthPolicy
from headway.node_health.facts import GpuNode, QuarantineState
from headway.node_health.replacement import refused
from headway.wire import MIG_STATE, MIG_TAINT, NODE_HEALTH_NAMESPACE, QUARANTINE
from sandbox.cluster.nodes import node_manifest
from tests.cluster.conftest import ControlPlane, api_client, eventually
from tests.cluster.node_health.as_the_loop import kubeconfig_of_the_loop

_POOL: dict[str, Any] = {
    "zones": ["us-east-1a"],
    "size": {"min": 1, "max": 2},
    "workload_class": "throughput",
    "ami": {"release": "1.36.2-20260714", "driver": "580.159.03"},
}
MIG = Pool.model_validate(
    {**_POOL, "name": "mig", "instance_types": ["p4de.24xlarge"], "sharing": {"mode": "mig", "layout": {"1g.10gb": 7}}}
)
WHOLE = Pool.model_validate({**_POOL, "name": "whole", "instance_types": ["p5.48xlarge"]})
SLICES = {"nvidia.com/mig-1g.10gb": "56"}
NODE = {"apiVersion": "v1", "kind": "Node"}
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def platform(control_plane: ControlPlane) -> ControlPlane:
    """The platform's own objects for node health, as both pools ask for them."""
    places = [dict(m.body) for m in namespaces.manifests([]) if m.name == NODE_HEALTH_NAMESPACE and m.kind == "Namespace"]
    control_plane.create(*places)
    control_plane.create(*[dict(m.body) for m in node_health.manifests([MIG, WHOLE])])
    probe = simulated("probe", WHOLE)
    control_plane.create(probe)
    # A binding acts a moment after it was accepted.
    eventually(lambda: RULE.name in patched(control_plane, "probe", {"spec": {"unschedulable": True}}), within=60)
    control_plane.resource(NODE).delete(name="probe")
    return control_plane


@pytest.fixture
def fleet(platform: ControlPlane) -> Iterator[ControlPlane]:
    """A node that has just joined in each pool; that of whole GPUs got the taint by hand."""
    platform.create(simulated("cut-0", MIG), simulated("whole-0", WHOLE, {**gpu_node.UNCUT_TAINT.model_dump()}))
    # The node controller's own taint goes a moment after the node is ready.
    eventually(lambda: [keys(platform, name) for name in ("cut-0", "whole-0")] == [["nvidia.com/gpu", MIG_TAINT]] * 2)
    yield platform
    for name in ("cut-0", "whole-0"):
        platform.resource(NODE).delete(name=name)


def simulated(name: str, pool: Pool, *taints: dict[str, Any]) -> dict[str, Any]:
    born = [taint.model_dump() for taint in gpu_node.born_with(pool)]
    offered = {} if pool is MIG else {"nvidia.com/gpu": "8"}
    capacity = {"cpu": "96", "memory": "1000Gi", "pods": "110", **offered}
    return node_manifest(name, labels=gpu_node.labels(pool), taints=[*born, *taints], capacity=capacity, provider_id=f"aws:///z/i-{name}")


def cluster(plane: ControlPlane) -> NodeCluster:
    return NodeCluster(str(kubeconfig_of_the_loop(plane)), refused)


def a_round(plane: ControlPlane, after: float = 0.0) -> tuple[Done, ...]:
    """As the loop's own identity, `after` so many seconds."""
    created = client.CoreV1Api(api_client(plane.kubeconfig.read_text())).read_node("cut-0").metadata.creation_timestamp  # pyright: ignore
    return watch.once(cluster(plane), NodeHealthPolicy(), created.timestamp() + after)


def says(plane: ControlPlane, state: str, name: str = "cut-0") -> None:
    """As the MIG manager does."""
    patch = {"metadata": {"labels": {MIG_STATE: state}}}
    plane.resource(NODE).patch(name=name, body=patch, content_type=MERGE)


def offers(plane: ControlPlane, slices: dict[str, str], name: str = "cut-0") -> None:
    """As the kubelet does once the device plugin has registered."""
    plane.patch_status("Node", name, {"capacity": slices, "allocatable": slices}, namespace=None)


def keys(plane: ControlPlane, name: str) -> list[str]:
    return sorted(taint["key"] for taint in plane.get("Node", name, namespace=None)["spec"].get("taints") or ())


def seen(plane: ControlPlane, name: str) -> GpuNode:
    return next(node for node in cluster(plane).nodes() if node.name == name)


def patched(plane: ControlPlane, name: str, patch: dict[str, Any]) -> str:
    """What the API server says to the loop's identity against `patch`; empty when it would take it. Nothing is kept."""
    nodes = client.CoreV1Api(api_client(kubeconfig_of_the_loop(plane).read_text()))
    try:
        nodes.patch_node(name, patch, dry_run="All")
    except ApiException as error:
        return str(error.body)
    return ""


def shown(plane: ControlPlane, name: str) -> str:
    """What `headway nodes` says of its health."""
    said = CliRunner().invoke(app, ["nodes", "--kubeconfig", str(plane.kubeconfig), "--output", "json"]).output
    return next(node["health"] for node in json.loads(said) if node["node"] == name)


def test_a_node_is_admitted_once_its_layout_is_there_and_not_before(fleet: ControlPlane) -> None:
    assert shown(fleet, "cut-0") == "MIG not begun"
    for state in ("pending", "rebooting", "pending", "success"):
        says(fleet, state)
        assert [done for done in a_round(fleet) if done.action.node.name == "cut-0"] == []
    assert keys(fleet, "cut-0") == ["nvidia.com/gpu", MIG_TAINT], "success, and the device plugin has not answered"
    offers(fleet, SLICES)
    assert [done.refused for done in a_round(fleet) if done.action.node.name == "cut-0"] == [""]
    assert keys(fleet, "cut-0") == ["nvidia.com/gpu"]
    assert [done for done in a_round(fleet) if done.action.node.name == "cut-0"] == []
    reasons = {e["reason"] for e in fleet.list("Event", namespace="default") if e["involvedObject"].get("name") == "cut-0"}
    assert "Admitted" in reasons


def test_a_taint_on_a_node_of_whole_gpus_is_told_and_stays(fleet: ControlPlane) -> None:
    says(fleet, "success", "whole-0")
    a_round(fleet)
    assert MIG_TAINT in keys(fleet, "whole-0")
    eventually(
        lambda: (
            "UnexplainedMigTaint"
            in {e["reason"] for e in fleet.list("Event", namespace="default") if e["involvedObject"].get("name") == "whole-0"}
        )
    )


def test_a_node_that_is_not_cut_in_time_is_set_apart_and_comes_back_when_it_is(fleet: ControlPlane) -> None:
    says(fleet, "failed")
    assert [done for done in a_round(fleet, after=1799) if done.action.node.name == "cut-0"] == []
    a_round(fleet, after=1801)
    a_round(fleet, after=1802)
    record = seen(fleet, "cut-0").quarantine
    assert record and (record.reason, record.state) == (LATE, QuarantineState.WAITING)
    assert shown(fleet, "cut-0") == "waiting for repair, MIG failed"
    says(fleet, "success")
    offers(fleet, SLICES)
    a_round(fleet, after=1900)
    a_round(fleet, after=1901)
    assert keys(fleet, "cut-0") == ["nvidia.com/gpu"]


OWN: dict[str, Any] = {"key": QUARANTINE, "value": "true", "effect": "NoSchedule"}
GPU, UNCUT = gpu_node.GPU_TAINT.model_dump(), gpu_node.UNCUT_TAINT.model_dump()
TAKEN = {
    "a quarantine": {"spec": {"taints": [GPU, UNCUT, OWN]}, "metadata": {"annotations": {QUARANTINE: "{}"}}},
    "nothing": {"spec": {"taints": [GPU, UNCUT]}},
}
REFUSED: dict[str, dict[str, Any]] = {
    "a label": {"metadata": {"labels": {"platform.io/pool": "other"}}},
    "a new label": {"metadata": {"labels": {"mine": "x"}}},
    "an annotation": {"metadata": {"annotations": {"mine": "x"}}},
    "another's annotation": {"metadata": {"annotations": {"kwok.x-k8s.io/node": None}}},
    "a finalizer": {"metadata": {"finalizers": ["mine/x"]}},
    "an owner": {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}},
    "a cordon": {"spec": {"unschedulable": True}},
    "another's taint": {"spec": {"taints": [UNCUT]}},
    "a taint of others": {"spec": {"taints": [GPU, UNCUT, {"key": "team", "effect": "NoSchedule"}]}},
    "a taint with another value": {"spec": {"taints": [{**GPU, "value": "false"}, UNCUT]}},
    "a quarantine that drives out": {"spec": {"taints": [GPU, UNCUT, {**OWN, "effect": "NoExecute"}]}},
    "all taints": {"spec": {"taints": None}},
    "admission before success": {"spec": {"taints": [GPU]}},
    "a startup that drives out": {"spec": {"taints": [GPU, {**UNCUT, "effect": "NoExecute"}]}},
}


@pytest.mark.parametrize("case", TAKEN)
def test_the_loop_may_change_what_is_its_own(fleet: ControlPlane, case: str) -> None:
    assert patched(fleet, "cut-0", TAKEN[case]) == ""


@pytest.mark.parametrize("case", REFUSED)
def test_the_loop_may_change_nothing_else_of_a_node(fleet: ControlPlane, case: str) -> None:
    assert f"headway-{RULE.name}" in patched(fleet, "cut-0", REFUSED[case])


def test_the_loop_may_put_no_taint_of_a_start_on_a_node(fleet: ControlPlane) -> None:
    says(fleet, "success")
    offers(fleet, SLICES)
    a_round(fleet)
    assert f"headway-{RULE.name}" in patched(fleet, "cut-0", {"spec": {"taints": [GPU, UNCUT]}})


def test_everybody_else_is_left_to_their_own_rights(fleet: ControlPlane) -> None:
    fleet.resource(NODE).patch(name="cut-0", body={"metadata": {"labels": {"mine": "x"}}}, content_type=MERGE)


def test_the_api_server_finds_no_fault_in_the_rule_itself(fleet: ControlPlane) -> None:
    def checked() -> dict[str, Any] | None:
        api = "admissionregistration.k8s.io/v1"
        found = fleet.get("ValidatingAdmissionPolicy", f"headway-{RULE.name}", api_version=api, namespace=None)
        return found["status"] if (found.get("status") or {}).get("typeChecking") is not None else None

    status = eventually(checked)
    assert status and not status["typeChecking"].get("expressionWarnings")
