"""The simulated Cluster Autoscaler on the real API server: a pool at zero gets a node for a pod, and loses it again."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from components.addons import cluster_autoscaler
from components.nodes import gpu_node
from headway.wire import MIG_TAINT, POOL
from pulumi_embedded.engine.provider import Properties
from pulumi_embedded.providers.aws.account import SimulatedAccount
from pulumi_embedded.providers.aws.clusters import NodeGroups
from pulumi_embedded.providers.aws.scaling_groups import ScalingGroups
from sandbox.cloud import nodes as simulation
from sandbox.cloud.control_plane import LocalControlPlane
from sandbox.cloud.scaling import server
from sandbox.cloud.scaling.loop import AutoscalerLoop
from sandbox.cloud.scaling.model import AutoscalerArguments
from sandbox.cluster import control_plane_programs
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.processes import Supervisor
from sandbox.progress import Silent
from tests.cluster.conftest import ControlPlane, eventually
from tests.cluster.sandbox.cloud.test_cloud_nodes import Cloud, cloud, nodes
from tests.components.contracts import POOLS

__all__ = ["cloud"]

MIG = next(pool for pool in POOLS if pool.name == "a100-mig")
SIZE = {"minSize": 0, "desiredSize": 0, "maxSize": 2}
ARGUMENTS = AutoscalerArguments.of_chart(cluster_autoscaler.values("dev", "us-east-1", POOLS))


class Scaler:
    """The loop as its process makes it, with a clock that a test moves."""

    def __init__(self, cloud: Cloud, control_plane: ControlPlane, account: SimulatedAccount) -> None:
        self.skipped = timedelta(0)
        self.lines: list[str] = []
        plane, layout = LocalControlPlane(control_plane.kubeconfig), control_plane.layout
        who = control_plane_programs.identities(layout.cluster / "pki")
        port = Supervisor(layout).port(control_plane_programs.API_SERVER)
        self.groups = ScalingGroups(account, plane, NodeGroups(account, plane, simulation.nodes), timedelta(minutes=3), self.clock)
        api = LoopbackEndpoint(port=port, authority=who.cluster.certificate, client=who.admin)
        self.loop = AutoscalerLoop(groups=self.groups, api=api, arguments=ARGUMENTS, clock=self.clock, say=self.lines.append)

    def clock(self) -> datetime:
        return datetime.now(UTC) + self.skipped

    def after(self, minutes: float) -> tuple[Any, ...]:
        self.skipped += timedelta(minutes=minutes)
        return self.loop.once()


@pytest.fixture
def pool(cloud: Cloud) -> tuple[Properties, str, Properties]:
    """An empty group of MIG slices, with the tags that the program gives it."""
    made = cloud.group(
        "a100-mig-a",
        0,
        instanceTypes=list(MIG.instance_types),
        labels=gpu_node.labels(MIG),
        taints=[{"key": t.key, "value": t.value, "effect": gpu_node.eks_effect(t)} for t in gpu_node.born_with(MIG)],
        scalingConfig=SIZE,
    )
    name = made[2]["resources"][0]["autoscalingGroups"][0]["name"]
    for key, value in gpu_node.scale_from_zero(MIG).items():
        tag = {"key": key, "value": value, "propagateAtLaunch": False}
        cloud.make("autoscaling/tag", f"hint-{key}", autoscalingGroupName=name, tag=tag)
    return made


@pytest.fixture
def scaler(cloud: Cloud, pool: Any, control_plane: ControlPlane, tmp_path: Any) -> Scaler:
    return Scaler(cloud, control_plane, SimulatedAccount(tmp_path / "account.sqlite"))


def deployment(name: str) -> dict[str, Any]:
    picked = {"app": name}
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}, "requests": {"cpu": "1"}}}
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    template = {
        "metadata": {"labels": picked, "annotations": {gpu_node.SAFE_TO_EVICT: "false"}},
        "spec": {"containers": [container], "tolerations": tolerations, "nodeSelector": {POOL: "a100-mig"}},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": picked}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def pods(control_plane: ControlPlane, name: str) -> list[dict[str, Any]]:
    return control_plane.list("Pod", namespace="default", label_selector=f"app={name}")


def is_unschedulable(pod: dict[str, Any]) -> bool:
    return any(each.get("reason") == "Unschedulable" for each in pod["status"].get("conditions") or ())


def is_cut(control_plane: ControlPlane, name: str) -> bool:
    return "nvidia.com/mig-1g.10gb" in control_plane.get("Node", name, namespace=None)["status"]["allocatable"]


def admit(control_plane: ControlPlane, name: str) -> None:
    """As the loop of node health does."""
    node = {"apiVersion": "v1", "kind": "Node"}
    taints = [taint for taint in control_plane.get("Node", name, namespace=None)["spec"]["taints"] if taint["key"] != MIG_TAINT]
    patch = {"spec": {"taints": taints}}
    control_plane.resource(node).patch(name=name, body=patch, content_type="application/merge-patch+json")


def test_a_pool_at_zero_gets_a_node_for_a_deployment_and_loses_it_after(
    cloud: Cloud, pool: tuple[Properties, str, Properties], scaler: Scaler, control_plane: ControlPlane
) -> None:
    control_plane.create(deployment("served"))
    eventually(lambda: any(map(is_unschedulable, pods(control_plane, "served"))))
    assert scaler.after(0.1), scaler.lines
    assert nodes(control_plane, "a100-mig-a") == {}, "an instance takes time"
    assert scaler.after(2) == () and nodes(control_plane, "a100-mig-a") == {}
    assert scaler.after(2) == () and list(nodes(control_plane, "a100-mig-a")) == ["a100-mig-a-0"]
    assert scaler.after(0.1) == (), "it is ready and offers nothing: without its taint another one would be made"
    eventually(lambda: is_cut(control_plane, "a100-mig-a-0"))
    assert scaler.after(0.1) == () and any(map(is_unschedulable, pods(control_plane, "served"))), "nobody has admitted it"
    admit(control_plane, "a100-mig-a-0")
    eventually(lambda: [each["status"].get("phase") for each in pods(control_plane, "served")] == ["Running"])
    assert scaler.groups.describe()[0].desired == 1

    cloud.change("a100-mig-a", pool, labels={**gpu_node.labels(MIG), "tier": "a"})
    assert list(nodes(control_plane, "a100-mig-a")) == ["a100-mig-a-0"], "an update with the same bounds ends no node"
    for _ in range(3):
        assert scaler.after(20) == (), "the pod serves, however long"

    control_plane.client.resources.get(api_version="apps/v1", kind="Deployment").delete(name="served", namespace="default")
    eventually(lambda: not pods(control_plane, "served"))
    scaler.after(6)
    assert scaler.after(14) == ()
    assert [each.node for each in scaler.after(2)] == ["a100-mig-a-0"]
    assert nodes(control_plane, "a100-mig-a") == {} and scaler.groups.describe()[0].desired == 0


def test_a_budget_keeps_a_node_whose_pod_it_does_not_let_go(
    cloud: Cloud, pool: tuple[Properties, str, Properties], scaler: Scaler, control_plane: ControlPlane
) -> None:
    body = deployment("kept")
    body["spec"]["template"]["metadata"]["annotations"] = {}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"}}
    control_plane.create(body, {**budget, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}})
    eventually(lambda: any(map(is_unschedulable, pods(control_plane, "kept"))))
    scaler.after(0.1)
    scaler.after(4)
    eventually(lambda: is_cut(control_plane, "a100-mig-a-0"))
    admit(control_plane, "a100-mig-a-0")
    eventually(lambda: [each["status"].get("phase") for each in pods(control_plane, "kept")] == ["Running"])
    scaler.groups.set_desired_capacity(scaler.groups.describe()[0].name, 2)
    scaler.after(4)
    eventually(lambda: is_cut(control_plane, "a100-mig-a-1"))
    admit(control_plane, "a100-mig-a-1")
    names = sorted(nodes(control_plane, "a100-mig-a"))
    (used,) = {each["spec"]["nodeName"] for each in pods(control_plane, "kept")}
    scaler.after(20)
    scaler.after(20)
    assert len(names) == 2 and list(nodes(control_plane, "a100-mig-a")) == [used]


def test_its_process_makes_turns_on_the_real_api_server(control_plane: ControlPlane) -> None:
    keeper = Supervisor(control_plane.layout)
    server.start(control_plane.layout, Silent(), {})
    try:
        assert [each.name for each in keeper.list() if each.running and each.name == server.NAME]
        assert keeper.log(server.NAME).read_text() == "", "nothing to say of an account without groups"
    finally:
        keeper.stop(server.NAME, Silent())
