"""Node groups against the real control plane: nodes appear, pods land on them, and what is lost comes back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulumi_embedded.engine.provider import Properties, ProviderError
from pulumi_embedded.providers.aws.account import SimulatedAccount
from pulumi_embedded.providers.aws.assembly import backends
from pulumi_embedded.providers.aws.nodes import SimulatedNode
from pulumi_embedded.providers.aws.provider import AccountSite, AwsProvider
from sandbox.cloud import nodes as simulation
from sandbox.cloud.control_plane import LocalControlPlane
from tests.cluster.conftest import ControlPlane, eventually

GROUP = "aws:eks/nodeGroup:NodeGroup"
SLICED = {"nvidia.com/mig.config": "all-1g.10gb"}
TRUST = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{"Service":"eks.amazonaws.com"}}]}'


class Watch:
    preview, timeout, repeated = False, 60.0, False

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def status(self, message: str) -> None: ...

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    def cancelled(self) -> bool:
        return False


class Cloud:
    """An account with a cluster in it, whose node groups live in the control plane."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        account = SimulatedAccount(folder / "account.sqlite")
        plane = LocalControlPlane(kubeconfig)
        self.provider = AwsProvider(
            lambda _: AccountSite(account, backends(account, plane, simulation.nodes, lambda *_: None)), environment={}
        )
        self.provider.configure({"region": "us-east-1"})
        self.watch = Watch()
        vpc = self.make("ec2/vpc", "v", cidrBlock="10.0.0.0/16")[1]
        self.subnets = [
            self.make("ec2/subnet", f"s{n}", vpcId=vpc, cidrBlock=f"10.0.{n}.0/24", availabilityZone=f"us-east-1{z}")[1]
            for n, z in enumerate("ab")
        ]
        self.role = self.make("iam/role", "r", assumeRolePolicy=TRUST)[2]["arn"]
        self.cluster = self.make("eks/cluster", "c", name="dev", version="1.35", roleArn=self.role, vpcConfig={"subnetIds": self.subnets})

    def make(self, short: str, name: str, /, **inputs: Any) -> tuple[Properties, str, Properties]:
        kind = short.split("/")[1]
        type = f"aws:{short}:{kind[0].upper()}{kind[1:]}"
        checked = self.provider.check(urn(type, name), type, name, None, inputs)
        assert not checked.failures, checked.failures
        id, outputs = self.provider.create(urn(type, name), type, name, checked.inputs, self.watch)
        return checked.inputs, id, outputs

    def group(self, name: str, size: int, /, **more: Any) -> tuple[Properties, str, Properties]:
        inputs = {
            "clusterName": "dev",
            "nodeGroupName": name,
            "nodeRoleArn": self.role,
            "subnetIds": self.subnets,
            "amiType": "AL2023_x86_64_NVIDIA",
            "scalingConfig": {"minSize": 0, "desiredSize": size, "maxSize": 9},
        }
        return self.make("eks/nodeGroup", name, **inputs | more)

    def change(self, name: str, made: tuple[Properties, str, Properties], **more: Any) -> Properties:
        old, id, outputs = made
        return self.provider.update(urn(GROUP, name), GROUP, id, old, outputs, {**old, **more}, self.watch)

    def remove(self, name: str, made: tuple[Properties, str, Properties]) -> None:
        self.provider.delete(urn(GROUP, name), GROUP, made[1], made[0], made[2], self.watch)


def urn(type: str, name: str) -> str:
    return f"urn:pulumi:dev::headway::{type}::{name}"


@pytest.fixture
def cloud(tmp_path: Path, control_plane: ControlPlane) -> Iterator[Cloud]:
    made = Cloud(tmp_path, control_plane.kubeconfig)
    yield made
    for node in control_plane.list("Node", label_selector="eks.amazonaws.com/nodegroup"):
        control_plane.client.resources.get(api_version="v1", kind="Node").delete(name=node["metadata"]["name"])


def nodes(control_plane: ControlPlane, group: str) -> dict[str, dict[str, Any]]:
    listed = control_plane.list("Node", label_selector=f"eks.amazonaws.com/nodegroup={group}")
    return {node["metadata"]["name"]: node for node in listed}


def is_ready(node: dict[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])


def pod(name: str, resource: str, count: int) -> dict[str, Any]:
    limits = {resource: str(count)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "c", "image": "x", "resources": {"limits": limits}}],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        },
    }


def test_nodes_of_a_group_appear_ready_scale_and_go(cloud: Cloud, control_plane: ControlPlane) -> None:
    made = cloud.group("l4", 2, instanceTypes=["g6.12xlarge"])
    found = nodes(control_plane, "l4")
    assert sorted(found) == ["l4-0", "l4-1"] and all(map(is_ready, found.values()))
    assert found["l4-0"]["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    cloud.change("l4", made, scalingConfig={"minSize": 0, "desiredSize": 3, "maxSize": 9})
    assert sorted(nodes(control_plane, "l4")) == ["l4-0", "l4-1", "l4-2"]
    cloud.remove("l4", made)
    assert nodes(control_plane, "l4") == {}


def test_a_pod_that_asks_for_a_mig_slice_runs_on_the_node_that_has_it(cloud: Cloud, control_plane: ControlPlane) -> None:
    taint = {"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}
    made = cloud.group("mig", 1, instanceTypes=["p4de.24xlarge"], labels=SLICED, taints=[taint])
    control_plane.create(pod("sliced", "nvidia.com/mig-1g.10gb", 1))
    placed = eventually(lambda: running(control_plane, "sliced"))
    assert placed == "mig-0"
    cloud.remove("mig", made)
    eventually(lambda: not [p for p in control_plane.list("Pod", namespace="default") if p["metadata"]["name"] == "sliced"])


def running(control_plane: ControlPlane, name: str) -> str:
    found = control_plane.get("Pod", name)
    return found["spec"].get("nodeName", "") if found["status"].get("phase") == "Running" else ""


def mig_life(control_plane: ControlPlane, group: str) -> tuple[str | None, str | None]:
    """What the MIG manager says of the group's first node, and how many slices it offers."""
    node = nodes(control_plane, group)[f"{group}-0"]
    return node["metadata"]["labels"].get("nvidia.com/mig.config.state"), node["status"]["allocatable"].get("nvidia.com/mig-1g.10gb")


def test_a_node_is_cut_after_it_has_joined_and_offers_slices_after_that(cloud: Cloud, control_plane: ControlPlane) -> None:
    cloud.group("mig", 1, instanceTypes=["p4de.24xlarge"], labels=SLICED)
    seen = [mig_life(control_plane, "mig")]
    while seen[-1] != ("success", "56") and len(seen) < 9:
        eventually(lambda: mig_life(control_plane, "mig") != seen[-1])
        seen.append(mig_life(control_plane, "mig"))
    assert [one for one in seen if one != (None, None)] == [("pending", None), ("success", None), ("success", "56")]
    labels = nodes(control_plane, "mig")["mig-0"]["metadata"]["labels"]
    assert labels["nvidia.com/mig-1g.10gb.product"] == "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"


def test_a_new_layout_is_cut_anew_and_an_update_without_one_is_not(cloud: Cloud, control_plane: ControlPlane) -> None:
    made = cloud.group("mig", 1, instanceTypes=["p4de.24xlarge"], labels=SLICED)
    eventually(lambda: mig_life(control_plane, "mig") == ("success", "56"))
    cloud.change("mig", made, labels={**SLICED, "tier": "a"})
    assert mig_life(control_plane, "mig") == ("success", "56")
    cloud.change("mig", made, labels={"nvidia.com/mig.config": "all-2g.20gb"})
    assert mig_life(control_plane, "mig")[1] is None
    eventually(lambda: mig_life(control_plane, "mig")[0] == "success")
    eventually(lambda: nodes(control_plane, "mig")["mig-0"]["status"]["allocatable"].get("nvidia.com/mig-2g.20gb") == "24")


def test_a_taint_that_was_taken_off_a_node_does_not_come_back(cloud: Cloud, control_plane: ControlPlane) -> None:
    def taints() -> list[str]:
        return sorted(
            taint["key"] for taint in nodes(control_plane, "l4")["l4-0"]["spec"].get("taints") or () if "kubernetes" not in taint["key"]
        )

    born = [{"key": "first", "effect": "NO_SCHEDULE"}, {"key": "stays", "effect": "NO_SCHEDULE"}]
    inputs, id, outputs = made = cloud.group("l4", 1, instanceTypes=["g6.xlarge"], taints=born)
    control_plane.resource({"apiVersion": "v1", "kind": "Node"}).patch(
        name="l4-0",
        body={"spec": {"taints": [{"key": "stays", "effect": "NoSchedule"}, {"key": "ours", "effect": "NoSchedule"}]}},
        content_type="application/merge-patch+json",
    )
    cloud.change("l4", made, labels={"tier": "a"})
    assert taints() == ["ours", "stays"]
    old = {**inputs, "labels": {"tier": "a"}}
    cloud.change("l4", (old, id, outputs), taints=[*born[:1], {"key": "new", "effect": "NO_SCHEDULE"}])
    assert taints() == ["new", "ours"], "what the group gets its nodes get, and what it loses they lose"


def test_a_node_deleted_by_hand_is_reported_and_made_again(cloud: Cloud, control_plane: ControlPlane) -> None:
    made = cloud.group("l4", 2, instanceTypes=["g6.xlarge"])
    control_plane.client.resources.get(api_version="v1", kind="Node").delete(name="l4-1")
    eventually(lambda: "l4-1" not in nodes(control_plane, "l4"))
    inputs, id, outputs = made
    live = cloud.provider.read(urn(GROUP, "l4"), GROUP, id, inputs, outputs)
    assert live is not None and live.inputs["scalingConfig"]["desiredSize"] == 1
    assert cloud.provider.diff(urn(GROUP, "l4"), GROUP, id, inputs, outputs, inputs, ()).details == {"resources": "update"}
    cloud.change("l4", made)
    assert sorted(nodes(control_plane, "l4")) == ["l4-0", "l4-1"]
    assert not cloud.provider.diff(urn(GROUP, "l4"), GROUP, id, inputs, outputs, inputs, ()).details


def test_labels_taints_and_mig_layout_change_on_the_live_node(cloud: Cloud, control_plane: ControlPlane) -> None:
    labels = {"nvidia.com/mig.config": "all-1g.10gb", "tier": "a"}
    made = cloud.group("h100", 1, instanceTypes=["p5.48xlarge"], labels=labels)
    before = nodes(control_plane, "h100")["h100-0"]["metadata"]["uid"]
    cloud.change("h100", made, labels={"nvidia.com/mig.config": "all-disabled"}, taints=[{"key": "k", "effect": "NO_SCHEDULE"}])
    after = nodes(control_plane, "h100")["h100-0"]
    assert after["metadata"]["uid"] == before
    assert after["status"]["allocatable"]["nvidia.com/gpu"] == "8" and "nvidia.com/mig-1g.10gb" not in after["status"]["capacity"]
    assert "tier" not in after["metadata"]["labels"] and {"key": "k", "effect": "NoSchedule"} in after["spec"]["taints"]


def test_a_new_ami_release_makes_new_nodes_under_the_old_names(cloud: Cloud, control_plane: ControlPlane) -> None:
    made = cloud.group("l4", 2, instanceTypes=["g6.xlarge"], releaseVersion="1.35.6-20260714")
    before = {name: node["metadata"]["uid"] for name, node in nodes(control_plane, "l4").items()}
    cloud.change("l4", made, releaseVersion="1.35.6-20260801")
    after = {name: node["metadata"]["uid"] for name, node in nodes(control_plane, "l4").items()}
    assert before.keys() == after.keys() and not set(before.values()) & set(after.values())


def test_the_cluster_is_the_sandboxs_and_says_which_version_really_runs(cloud: Cloud, control_plane: ControlPlane) -> None:
    _, _, outputs = cloud.cluster
    assert outputs["endpoint"] in control_plane.kubeconfig.read_text()
    assert outputs["certificateAuthority"]["data"] in control_plane.kubeconfig.read_text()
    assert any("EKS would run Kubernetes 1.35" in warning for warning in cloud.watch.warnings)


def test_a_kubeconfig_that_leads_nowhere_is_an_error_that_says_what_to_do(tmp_path: Path, control_plane: ControlPlane) -> None:
    elsewhere = tmp_path / "kubeconfig"
    server = next(line.split()[-1] for line in control_plane.kubeconfig.read_text().splitlines() if "server:" in line)
    elsewhere.write_text(control_plane.kubeconfig.read_text().replace(server, "https://127.0.0.1:1"))
    plane = LocalControlPlane(elsewhere)
    assert not plane.reachable()
    with pytest.raises(ProviderError, match=r"does not answer.*headway sandbox up"):
        plane.create_node(SimulatedNode(name="n", labels={}, taints=[], capacity={"pods": "1"}, allocatable={}, provider_id=""), "arn")
