"""A plan goes by what EKS says of the cluster: in which zones its control plane may be, and which groups never came about."""

import json
import runpy
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any

import pytest

from components.network.plan import subnets
from stacks.settings_error import SettingsError
from tests.components.program import PROJECT, cloud_outputs, config_of
from tests.components.recording import EKS_COMPONENT, Recording, record

A, B, C = (f"us-west-2{letter}" for letter in "abc")


def planned(
    zones: Sequence[str],
    made_in: Sequence[str],
    groups: Mapping[str, str] | None = None,
    *,
    nodes: int = 0,
    shared: str = "exclusive",
    cidr: str = "10.40.0.0/16",
) -> Recording:
    """`dev-cluster` with a network over `zones`; its control plane, where there is one, was made in `made_in`; `groups` by status, each with
    `nodes` whose GPUs are `shared` so. `cidr` is the network's now; the control plane was made in that of the file.
    """

    def answer(token: str, args: dict[str, Any]) -> Mapping[str, Any]:
        match token:
            case "aws:eks/getClusters:getClusters":
                return {"names": ["headway-dev"] if made_in else []}
            case "aws:eks/getCluster:getCluster":
                return {"vpcConfig": {"subnetIds": [f"subnet-{zone}" for zone in made_in]}}
            case "aws:ec2/getSubnet:getSubnet":
                zone = args["id"].removeprefix("subnet-")
                (plan,) = subnets(IPv4Network("10.40.0.0/16"), (zone,))
                return {"availabilityZone": zone, "cidrBlock": str(plan.intra)}
            case "aws:eks/getNodeGroups:getNodeGroups":
                return {"names": sorted(groups or {})}
            case "aws:eks/getNodeGroup:getNodeGroup":
                size = {"desiredSize": nodes, "maxSize": 2, "minSize": 0}
                return {
                    "scalingConfigs": [size],
                    "releaseVersion": "1.36.2-20260714",
                    "labels": {"nvidia.com/device-plugin.config": shared},
                    "status": (groups or {})[args["nodeGroupName"]],
                    "subnetIds": [f"subnet-{zone}" for zone in made_in],
                }
            case _:
                raise AssertionError(f"{token} is looked up while planning")

    config = config_of("dev-cluster")
    config["headway:network"] = json.dumps({**json.loads(config["headway:network"]), "zones": list(zones), "cidr": cidr})
    return record(
        lambda: runpy.run_path(str(PROJECT / "__main__.py"), run_name="__main__"),
        stack="dev-cluster",
        config=config,
        outputs=cloud_outputs,
        calls=answer,
    )


def zones_of_the_control_plane(found: Recording) -> list[str]:
    ids = found.one(EKS_COMPONENT).inputs["subnetIds"]
    zones = {f"{r.name}-id": r.inputs["availabilityZone"] for r in found.of_type("aws:ec2/subnet:Subnet")}
    return sorted(zones[id] for id in ids)


def test_a_new_control_plane_is_in_every_zone_of_the_network() -> None:
    assert zones_of_the_control_plane(planned([A, B, C], [])) == [A, B, C]


def test_a_zone_added_later_is_for_nodes_and_leaves_the_control_plane_alone() -> None:
    found = planned([A, B, C], [A, B])
    assert zones_of_the_control_plane(found) == [A, B], "EKS refuses subnets of any other set of zones"
    assert C in {r.inputs["availabilityZone"] for r in found.of_type("aws:ec2/subnet:Subnet")}


def test_a_zone_added_before_the_others_does_not_move_the_only_gateway() -> None:
    found = planned([A, B, C], [B, C])
    zones = {f"{r.name}-id": r.inputs["availabilityZone"] for r in found.of_type("aws:ec2/subnet:Subnet")}
    (gateway,) = found.of_type("aws:ec2/natGateway:NatGateway")
    assert zones[gateway.inputs["subnetId"]] == B, "it would be replaced, and its address is taken until the first one is gone"


def test_a_zone_of_the_control_plane_is_not_taken_from_the_network() -> None:
    with pytest.raises(SettingsError) as refused:
        planned([A, B], [A, B, C])
    (told,) = refused.value.problems
    assert told.rule == "zones-of-the-control-plane" and C in told.fact


@pytest.mark.parametrize("cidr", ["10.41.0.0/16", "10.40.0.0/17"])
def test_a_network_that_has_a_cluster_keeps_its_range(cidr: str) -> None:
    with pytest.raises(SettingsError) as refused:
        planned([A, B], [A, B], cidr=cidr)
    (told,) = refused.value.problems
    assert (told.rule, told.dotted) == ("network-that-stays", "network.cidr")
    assert planned([A, B], [], cidr=cidr).of_type("aws:ec2/vpc:Vpc"), "before there is a cluster it is anybody's choice"


def test_a_group_whose_creation_failed_is_not_taken_for_made() -> None:
    with pytest.raises(SettingsError) as refused:
        planned([A, B], [A, B], {"l4-a-0a1b2c3": "CREATE_FAILED", "system-nodes-0a1b2c3": "ACTIVE"})
    (told,) = refused.value.problems
    assert told.rule == "group-that-failed" and "--nodegroup-name l4-a-0a1b2c3" in told.remedy, "Pulumi would go on as if it were there"


def test_a_failed_group_that_no_pool_wants_any_more_may_go() -> None:
    assert planned([A, B], [A, B], {"h100-a-0a1b2c3": "CREATE_FAILED", "l4-a-0a1b2c3": "DEGRADED"}).of_type("aws:eks/nodeGroup:NodeGroup")


def test_nodes_that_serve_are_not_shared_otherwise_under_their_replicas() -> None:
    with pytest.raises(SettingsError) as refused:
        planned([A, B], [A, B], {"l4-a-0a1b2c3": "ACTIVE"}, nodes=1, shared="slice-4")
    (told,) = refused.value.problems
    assert told.rule == "sharing-of-nodes-that-serve" and told.dotted == "pools[0].sharing" and "l4-a" in told.fact


def test_a_pool_without_nodes_may_be_shared_otherwise() -> None:
    assert planned([A, B], [A, B], {"l4-a-0a1b2c3": "ACTIVE"}, shared="slice-4").of_type("aws:eks/nodeGroup:NodeGroup")
