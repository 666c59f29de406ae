"""What simulated nodes offer, and how a node group keeps them."""

import base64
from pathlib import Path
from typing import Any

import pytest
from aws_world import Made, Watch, World

from components.versions import NODE_RELEASES
from headway.contract import offerings
from headway.contract.accelerators import GPUS, INSTANCE_TYPES, Accelerator
from pulumi_embedded.engine.provider import PartialFailureError, ProviderError
from pulumi_embedded.providers.aws import instance_regions
from pulumi_embedded.providers.aws.nodes import NodeGroup, NodeZone, SimulatedNode
from sandbox.cloud.nodes import layout, local_storage, node_name, nodes

REGION = "us-west-2"


def node(instance_type: str = "g6.xlarge", /, **more: Any) -> SimulatedNode:
    given: dict[str, Any] = {
        "name": "gpu", "arn": "arn", "region": REGION, "instance_type": instance_type, "ami_type": "AL2023_x86_64_NVIDIA",
        "capacity_type": "ON_DEMAND", "release_version": "1.36.2-20260714", "labels": {}, "taints": [],
        "zones": [NodeZone(name=f"{REGION}a", id="usw2-az1")], "template": {},
    }  # fmt: skip
    return nodes(NodeGroup(**given | more), 1)[0]


def user_data(strategy: str) -> str:
    config = f"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {{instance: {{localStorage: {{strategy: {strategy}}}}}}}\n"
    text = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="x"\n\n--x\nContent-Type: application/node.eks.aws\n\n{config}\n--x--\n'
    return base64.b64encode(text.encode()).decode()


# -- accelerators


@pytest.mark.parametrize("name", INSTANCE_TYPES)
def test_double_and_contracts_know_each_type_in_the_same_regions(name: str) -> None:
    assert instance_regions.regions_of(name) == offerings.regions_of(name)


@pytest.mark.parametrize(("instance", "gpus"), [("g6.xlarge", "1"), ("g6.12xlarge", "4"), ("p5.48xlarge", "8")])
def test_a_whole_gpu_node_offers_each_of_its_gpus(instance: str, gpus: str) -> None:
    assert node(instance).capacity["nvidia.com/gpu"] == gpus


@pytest.mark.parametrize(
    ("instance", "config", "resource", "count"),
    [
        ("p4de.24xlarge", "all-1g.10gb", "nvidia.com/mig-1g.10gb", "56"),
        ("p4de.24xlarge", "all-3g.40gb", "nvidia.com/mig-3g.40gb", "16"),
        ("p4d.24xlarge", "all-1g.5gb", "nvidia.com/mig-1g.5gb", "56"),
        ("p5.48xlarge", "all-7g.80gb", "nvidia.com/mig-7g.80gb", "8"),
        ("p5en.48xlarge", "all-1g.35gb", "nvidia.com/mig-1g.35gb", "32"),
        ("p5.48xlarge", "custom-2x1g.10gb-1x3g.40gb", "nvidia.com/mig-1g.10gb", "16"),
        ("p5.48xlarge", "all-balanced", "nvidia.com/mig-1g.10gb", "16"),
    ],
)
def test_a_mig_label_turns_gpus_into_slices(instance: str, config: str, resource: str, count: str) -> None:
    made = node(instance, labels={"nvidia.com/mig.config": config})
    assert made.capacity[resource] == count and "nvidia.com/gpu" not in made.capacity
    assert made.labels["nvidia.com/mig.config.state"] == "success"


def test_a_balanced_layout_is_two_small_one_middle_and_one_large_slice() -> None:
    assert layout(GPUS[Accelerator.A100_80GB], "all-balanced") == {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}


@pytest.mark.parametrize(
    ("label", "shares", "strategy"), [("ts-4", "4", "time-slicing"), ("slice-3", "3", "time-slicing"), ("mps-2", "2", "mps")]
)
def test_sharing_offers_shares_and_no_whole_gpu(label: str, shares: str, strategy: str) -> None:
    made = node(labels={"nvidia.com/device-plugin.config": label})
    assert made.capacity["nvidia.com/gpu.shared"] == shares and "nvidia.com/gpu" not in made.capacity
    assert made.labels["nvidia.com/gpu.sharing-strategy"] == strategy


@pytest.mark.parametrize(
    ("instance", "labels", "told"),
    [
        ("g6.xlarge", {"nvidia.com/mig.config": "all-1g.10gb"}, "has no MIG"),
        ("p4d.24xlarge", {"nvidia.com/mig.config": "all-1g.20gb"}, "all-1g.5gb"),
        ("p5.48xlarge", {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/device-plugin.config": "mps-2"}, "one way of sharing"),
        ("g6.xlarge", {"nvidia.com/device-plugin.config": "timeslice-4"}, "ts-N"),
        ("m7i.xlarge", {"nvidia.com/device-plugin.config": "ts-4"}, "has no GPU"),
        ("g4dn.xlarge", {}, "accelerator catalogue"),
    ],
)
def test_a_label_that_the_node_cannot_follow_is_refused_by_name(instance: str, labels: dict[str, str], told: str) -> None:
    with pytest.raises(ProviderError, match=told):
        node(instance, labels=labels)


def test_an_ami_without_a_driver_shows_no_gpu() -> None:
    made = node(ami_type="AL2023_x86_64_STANDARD")
    assert not [key for key in (*made.capacity, *made.labels) if key.startswith("nvidia.com/")]


def test_a_node_names_the_driver_of_its_release_as_the_platforms_table_does() -> None:
    for release, driver in NODE_RELEASES.items():
        assert node(release_version=release).labels["nvidia.com/cuda.driver-version.full"] == driver
    assert "nvidia.com/cuda.driver-version.full" not in node(release_version="1.35.0-20250101").labels, "what is not known is not made up"


def test_feature_discovery_names_product_memory_and_family() -> None:
    labels = node("p5.48xlarge").labels
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert (labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.memory"], labels["nvidia.com/gpu.family"]) == ("8", "81559", "hopper")


# -- everything else a node says


@pytest.mark.parametrize("instance", sorted(INSTANCE_TYPES))
def test_pods_may_allocate_less_than_there_is_and_more_than_half(instance: str) -> None:
    made = node(instance)
    kibibytes = [int(offer["memory"].removesuffix("Ki")) for offer in (made.allocatable, made.capacity)]
    assert kibibytes[1] / 2 < kibibytes[0] < kibibytes[1]
    assert int(made.capacity["cpu"]) * 900 < int(made.allocatable["cpu"].removesuffix("m")) < int(made.capacity["cpu"]) * 1000


def test_the_reserve_is_that_of_nodeadm() -> None:
    made = node("m7i.xlarge", ami_type="AL2023_x86_64_STANDARD")
    assert made.allocatable["cpu"] == "3920m"
    kept = int(made.capacity["memory"].removesuffix("Ki")) - int(made.allocatable["memory"].removesuffix("Ki"))
    assert kept == (255 + 11 * 110 + 100) * 1024


def test_the_disk_is_the_root_volume_unless_the_nvme_is_joined() -> None:
    volume = {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": 200}}]}
    assert node(template=volume).capacity["ephemeral-storage"] == f"{200 * 1024 * 1024}Ki"
    joined = node("p5.48xlarge", template={**volume, "userData": user_data("RAID0")})
    assert joined.capacity["ephemeral-storage"] == f"{30_720 * 10**9 // 1024}Ki"
    assert local_storage(user_data("Mount")) == "Mount"


def test_labels_say_where_a_node_is_and_whose_the_programs_win() -> None:
    made = node(labels={"workload": "gpu"}, capacity_type="SPOT")
    expected = {
        "workload": "gpu",
        "eks.amazonaws.com/capacityType": "SPOT",
        "eks.amazonaws.com/nodegroup": "gpu",
        "node.kubernetes.io/instance-type": "g6.xlarge",
        "topology.kubernetes.io/zone": f"{REGION}a",
        "kubernetes.io/arch": "amd64",
    }
    assert expected.items() <= made.labels.items()


def test_taints_are_spelled_as_kubernetes_does() -> None:
    assert node(taints=[{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]).taints == [
        {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
    ]


def test_nodes_go_round_the_zones() -> None:
    zones = [NodeZone(name=f"{REGION}{letter}", id="") for letter in "abc"]
    group = NodeGroup(
        name="g", arn="a", region=REGION, instance_type="m7i.large", ami_type="", capacity_type="", release_version="", labels={},
        taints=[], zones=zones, template={},
    )  # fmt: skip
    assert [made.labels["topology.kubernetes.io/zone"][-1] for made in nodes(group, 5)] == list("abcab")


@pytest.mark.parametrize("group", ["GPU_pool", "x" * 63, "-a-"])
def test_a_node_name_is_a_legal_host_name(group: str) -> None:
    name = node_name(group, 449)
    assert len(name) <= 63 and name == name.lower() and name[0].isalnum() and "_" not in name


def test_efa_interfaces_are_offered_by_their_plugin_only_which_nobody_installs() -> None:
    template = {"networkInterfaces": [{"interfaceType": "efa"}, {"interfaceType": "efa-only"}, {"interfaceType": "interface"}]}
    assert "vpc.amazonaws.com/efa" not in node("p5.48xlarge", template=template).capacity


# -- the group


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, nodes)


def names(world: World) -> list[str]:
    return sorted(world.plane.manifests)


def scaled(size: int) -> dict[str, int]:
    return {"minSize": 0, "desiredSize": size, "maxSize": 8}


def test_a_group_has_as_many_nodes_as_desired_and_follows_changes(world: World) -> None:
    group = world.node_group(size=2)
    assert names(world) == ["gpu-0", "gpu-1"]
    group.update(scalingConfig=scaled(3))
    assert names(world) == ["gpu-0", "gpu-1", "gpu-2"]
    group.update(scalingConfig=scaled(1))
    assert names(world) == ["gpu-0"]
    group.delete()
    assert names(world) == []


def test_a_group_of_none_has_none(world: World) -> None:
    world.node_group(size=0)
    assert names(world) == []


def test_a_preview_makes_no_node(world: World) -> None:
    group = world.node_group(size=1)
    group.update(Watch(preview=True), scalingConfig=scaled(5))
    assert names(world) == ["gpu-0"]


def test_labels_and_taints_change_on_live_nodes_without_replacing_them(world: World) -> None:
    group = world.node_group(size=1, labels={"a": "1", "b": "2"})
    before = world.plane.manifests["gpu-0"]["spec"]["providerID"]
    group.update(labels={"b": "3"}, taints=[{"key": "k", "effect": "NO_EXECUTE"}])
    made = world.plane.manifests["gpu-0"]
    assert made["metadata"]["labels"]["b"] == "3" and "a" not in made["metadata"]["labels"]
    assert made["spec"]["taints"] == [{"key": "k", "effect": "NoExecute"}]
    assert made["spec"]["providerID"] == before and not world.plane.deleted


def test_a_new_mig_layout_changes_what_a_live_node_offers(world: World) -> None:
    group = world.node_group(size=1, instanceTypes=["p5.48xlarge"], labels={"nvidia.com/mig.config": "all-1g.10gb"})
    group.update(labels={"nvidia.com/mig.config": "all-disabled"})
    made = world.plane.manifests["gpu-0"]
    assert made["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert "nvidia.com/mig-1g.10gb.count" not in made["metadata"]["labels"]


def test_a_new_ami_release_replaces_each_node_under_its_name(world: World) -> None:
    group = world.node_group(size=2, releaseVersion="1.36.2-20260714")
    before = {name: made["spec"]["providerID"] for name, made in world.plane.manifests.items()}
    group.update(releaseVersion="1.36.2-20260801")
    after = {name: made["spec"]["providerID"] for name, made in world.plane.manifests.items()}
    assert before.keys() == after.keys() and not set(before.values()) & set(after.values())


def test_a_template_version_that_does_not_exist_is_refused(world: World) -> None:
    template = world.make("ec2/launchTemplate", "t")
    with pytest.raises(ProviderError, match="has no version 2; it has 1"):
        world.node_group(launchTemplate={"id": template.id, "version": "2"})
    assert names(world) == []


def test_a_group_keeps_the_version_of_the_template_that_it_names(world: World) -> None:
    volume = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": 100}}]
    template = world.make("ec2/launchTemplate", "t", blockDeviceMappings=volume)
    template.update(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": {"volumeSize": 300}}])
    world.node_group(size=1, launchTemplate={"id": template.id, "version": "1"})
    assert world.plane.manifests["gpu-0"]["status"]["capacity"]["ephemeral-storage"] == f"{100 * 1024 * 1024}Ki"


def lose(world: World, name: str) -> None:
    del world.plane.manifests[name]


def test_a_node_deleted_by_hand_is_found_missing_and_made_again(world: World) -> None:
    group = world.node_group(size=2)
    assert not group.diff().details
    lose(world, "gpu-1")
    assert group.diff().details == {"resources": "update"}
    live = group.read()
    assert live is not None and live.inputs["scalingConfig"]["desiredSize"] == 1
    group.update()
    assert names(world) == ["gpu-0", "gpu-1"] and not group.diff().details


def test_a_control_plane_that_is_down_is_no_drift(world: World) -> None:
    group = world.node_group(size=2)
    world.plane.down = True
    live = group.read()
    assert live is not None and live.inputs == group.inputs and not group.diff().details


def test_nodes_that_never_get_ready_are_a_partial_failure(world: World) -> None:
    world.plane.broken.add("gpu-1")
    with pytest.raises(PartialFailureError, match="1 of 2 nodes did not become ready: gpu-1") as error:
        world.node_group(size=2)
    assert error.value.id == "dev:gpu" and error.value.outputs["arn"]


def test_without_a_control_plane_there_is_no_cluster(world: World) -> None:
    subnets = world.subnets()
    world.plane.down = True
    with pytest.raises(ProviderError, match="no control plane"):
        world.cluster(subnets)


def test_a_cluster_in_one_zone_is_refused(world: World) -> None:
    with pytest.raises(ProviderError, match="at least two zones"):
        world.cluster(world.subnets()[:1])


def cluster(world: World, **more: Any) -> Made:
    return world.cluster(world.subnets(), **more)


def test_a_cluster_answers_with_the_local_endpoint_and_the_running_version(world: World) -> None:
    made = cluster(world, version="1.35")
    assert made.outputs["endpoint"] == "https://127.0.0.1:6443" and made.outputs["certificateAuthority"] == {"data": "Q0E="}
    assert made.outputs["version"] == "1.35"
    step = Watch()
    made.update(step, upgradePolicy={"supportType": "STANDARD"})
    assert "control plane is v1.36.2" in step.warnings[0]


def test_a_cluster_is_upgraded_by_one_minor_version_at_a_time(world: World) -> None:
    made = cluster(world, version="1.34")
    with pytest.raises(ProviderError, match="one minor version at a time"):
        made.update(version="1.36")
    assert made.update(version="1.35")["version"] == "1.35"
