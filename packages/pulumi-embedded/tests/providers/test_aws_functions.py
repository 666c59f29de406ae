"""Functions that a program may call while it plans, and those it may not."""

import json
from pathlib import Path
from typing import Any

import pytest
from aws_world import REGION, ZONES, World

from pulumi_embedded.engine.provider import UNKNOWN, ProviderError


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, defaultTags='{"tags": {"team": "a"}}')


def ask(world: World, token: str, **args: Any) -> dict[str, Any]:
    return world.provider.invoke(token, args, False)


def document(world: World, *statements: dict[str, Any], **more: Any) -> dict[str, Any]:
    return json.loads(ask(world, "aws:iam/getPolicyDocument:getPolicyDocument", statements=list(statements), **more)["json"])


def test_zones_are_those_of_the_region_and_may_be_left_out(world: World) -> None:
    token = "aws:index/getAvailabilityZones:getAvailabilityZones"
    assert ask(world, token)["names"] == [*ZONES, "us-west-2d"]
    assert ask(world, token, excludeNames=[ZONES[0]])["zoneIds"] == ["usw2-az2", "usw2-az3", "usw2-az4"]


def test_region_partition_and_tags_are_the_providers(world: World) -> None:
    assert ask(world, "aws:index/getRegion:getRegion")["region"] == REGION
    assert ask(world, "aws:index/getPartition:getPartition")["partition"] == "aws"
    assert ask(world, "aws:index/getDefaultTags:getDefaultTags")["tags"] == {"team": "a"}


def test_a_policy_document_is_written_as_the_provider_writes_it(world: World) -> None:
    statement = {
        "sid": "Read",
        "actions": ["s3:GetObject", "s3:ListBucket"],
        "resources": ["arn:aws:s3:::b/*"],
        "principals": [{"type": "AWS", "identifiers": ["arn:aws:iam::1:root"]}],
        "conditions": [{"test": "StringEquals", "variable": "aws:PrincipalTag/tenant", "values": ["a", "b"]}],
    }
    assert document(world, statement) == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "Read",
                "Effect": "Allow",
                "Action": ["s3:ListBucket", "s3:GetObject"],
                "Resource": "arn:aws:s3:::b/*",
                "Principal": {"AWS": "arn:aws:iam::1:root"},
                "Condition": {"StringEquals": {"aws:PrincipalTag/tenant": ["a", "b"]}},
            }
        ],
    }


def test_a_source_document_comes_first_and_an_override_replaces_by_sid(world: World) -> None:
    source = json.dumps({"Statement": [{"Sid": "A", "Effect": "Allow"}, {"Sid": "B", "Effect": "Allow"}]})
    override = json.dumps({"Statement": [{"Sid": "B", "Effect": "Deny"}, {"Sid": "C", "Effect": "Deny"}]})
    made = document(world, {"sid": "D", "actions": ["s3:*"]}, sourcePolicyDocuments=[source], overridePolicyDocuments=[override])
    assert [(s["Sid"], s["Effect"]) for s in made["Statement"]] == [("A", "Allow"), ("B", "Deny"), ("D", "Allow"), ("C", "Deny")]


def test_an_unknown_value_makes_the_document_unknown(world: World) -> None:
    args = {"statements": [{"actions": ["s3:*"], "resources": [UNKNOWN]}]}
    assert ask(world, "aws:iam/getPolicyDocument:getPolicyDocument", **args)["json"] == UNKNOWN


@pytest.mark.parametrize("token", ["aws:ec2/getAmi:getAmi", "aws:ssm/getParameter:getParameter", "aws:eks/getAddonVersion:getAddonVersion"])
def test_a_function_that_reads_live_values_is_refused_by_name(world: World, token: str) -> None:
    with pytest.raises(ProviderError, match=f"function {token} is not modelled.*Pin the value"):
        ask(world, token)


def test_an_argument_that_is_not_modelled_is_refused_by_name(world: World) -> None:
    with pytest.raises(ProviderError, match="takes no argument filters"):
        ask(world, "aws:index/getAvailabilityZones:getAvailabilityZones", filters=[])


def test_a_statement_with_a_misspelt_key_is_refused(world: World) -> None:
    with pytest.raises(ProviderError, match=r"statements\[0\].action.*did you mean actions"):
        document(world, {"action": ["s3:*"]})


CLUSTER, SUBNET = "aws:eks/getCluster:getCluster", "aws:ec2/getSubnet:getSubnet"
CLUSTERS, GROUPS, GROUP = (f"aws:eks/get{name}:get{name}" for name in ("Clusters", "NodeGroups", "NodeGroup"))


def test_a_node_groups_size_is_read_as_the_account_has_it(world: World) -> None:
    assert ask(world, CLUSTERS)["names"] == []
    world.node_group(size=2, releaseVersion="1.36.2-20260714")
    assert ask(world, CLUSTERS)["names"] == ["dev"]
    assert ask(world, GROUPS, clusterName="dev")["names"] == ["gpu"]
    found = ask(world, GROUP, clusterName="dev", nodeGroupName="gpu")
    assert found["scalingConfigs"] == [{"desiredSize": 2, "maxSize": 8, "minSize": 0}]
    assert found["releaseVersion"] == "1.36.2-20260714"


def test_the_zones_of_a_control_plane_are_read_as_the_account_has_them(world: World) -> None:
    subnets = world.subnets()
    world.cluster(subnets[:2])
    found = ask(world, CLUSTER, name="dev")["vpcConfig"]["subnetIds"]
    assert [ask(world, SUBNET, id=id)["availabilityZone"] for id in subnets if id in found] == list(ZONES[:2])
    with pytest.raises(ProviderError, match="no matching EC2 Subnet found"):
        ask(world, SUBNET, id="subnet-0")


def test_a_cluster_or_a_group_that_is_not_there_is_not_found(world: World) -> None:
    with pytest.raises(ProviderError, match="No cluster found for name: dev"):
        ask(world, CLUSTER, name="dev")
    with pytest.raises(ProviderError, match="No cluster found for name: dev"):
        ask(world, GROUPS, clusterName="dev")
    world.node_group(size=0)
    with pytest.raises(ProviderError, match="No node group found for name: cpu"):
        ask(world, GROUP, clusterName="dev", nodeGroupName="cpu")


BY_PATH = "aws:ssm/getParametersByPath:getParametersByPath"


def test_parameters_are_found_by_the_path_that_they_lie_at(world: World) -> None:
    for name, value in {"/env/layers/cluster": "{}", "/env/layers/deep/er": "x", "/env/other": "y"}.items():
        world.make("ssm/parameter", name.replace("/", "-"), name=name, type="String", value=value)
    found = ask(world, BY_PATH, path="/env/layers")
    assert (found["names"], found["values"]) == (["/env/layers/cluster"], ["{}"])
    assert found["arns"] == [f"arn:aws:ssm:{REGION}:000000000000:parameter/env/layers/cluster"]
    assert ask(world, BY_PATH, path="/env/layers", recursive=True)["names"] == ["/env/layers/cluster", "/env/layers/deep/er"]


def test_a_path_without_parameters_is_empty_and_no_failure(world: World) -> None:
    assert ask(world, BY_PATH, path="/nobody/layers")["names"] == []


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"value": "x" * 4097}, "at most 4096"),
        ({"name": "env/layers"}, "before each level"),
        ({"name": "/aws/layers"}, "reserved"),
        ({"name": "/a" * 16}, "at most 15 levels"),
    ],
)
def test_a_parameter_that_ssm_would_refuse_is_refused(world: World, inputs: dict[str, str], said: str) -> None:
    refused = world.check("ssm/parameter", **{"name": "/env/layers", "type": "String", "value": "x", **inputs})
    assert any(said in failure.reason for failure in refused), refused
