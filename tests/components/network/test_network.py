"""The address plan and the VPC: nothing overlaps, nothing moves, nothing leaves by accident."""

import json
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto.iam.aws_managed_policies import aws_managed_policies_data

from components.addons import cluster_autoscaler, loki, tempo
from components.network.endpoints import ACTIONS, statements
from components.network.network import NatChoice, Network, NetworkArgs
from components.network.plan import ZONE_LETTERS, subnets
from components.permissions import Statement
from headway.artifact_upload.bucket import RIGHTS
from headway.contract.arithmetic.month import GATEWAY_ENDPOINTS
from tests.components.program import cloud_outputs
from tests.components.recording import Recording, record

ZONES = tuple(f"us-east-1{letter}" for letter in ZONE_LETTERS)
cidrs = st.builds(
    lambda prefix, offset: IPv4Network((int(IPv4Address("10.0.0.0")) + offset * 2 ** (32 - prefix), prefix)),
    st.integers(min_value=16, max_value=20),
    st.integers(min_value=0, max_value=100),
)
some_zones = st.lists(st.sampled_from(ZONES), min_size=1, max_size=6, unique=True).map(tuple)


@given(cidrs, some_zones)
def test_no_two_subnets_share_an_address(cidr: IPv4Network, zones: tuple[str, ...]) -> None:
    found = [network for zone in subnets(cidr, zones) for network in (zone.private, zone.public, zone.intra)]
    assert all(network.subnet_of(cidr) for network in found)
    for number, network in enumerate(found):
        assert not any(network.overlaps(other) for other in found[number + 1 :])


@given(cidrs, some_zones, st.sampled_from(ZONES))
def test_adding_a_zone_moves_no_subnet(cidr: IPv4Network, zones: tuple[str, ...], added: str) -> None:
    before = set(subnets(cidr, zones))
    assert before <= set(subnets(cidr, (added, *zones))), "an existing subnet would be replaced, with every node in it"


@given(cidrs, some_zones)
def test_the_order_of_zones_does_not_matter(cidr: IPv4Network, zones: tuple[str, ...]) -> None:
    assert subnets(cidr, zones) == subnets(cidr, tuple(reversed(zones)))


@given(cidrs)
def test_nodes_get_an_eighth_of_the_network_in_each_zone(cidr: IPv4Network) -> None:
    for zone in subnets(cidr, ZONES):
        assert zone.private.prefixlen == cidr.prefixlen + 3
        assert zone.public.prefixlen <= 26, "a load balancer needs more addresses while it scales"
        assert zone.intra.prefixlen == 28


def test_a_zone_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="has no place in the plan"):
        subnets(IPv4Network("10.0.0.0/16"), ("us-east-1z",))


DEPLOYER = "arn:aws:iam::123456789012:role/deploy"


def network(nat: NatChoice, endpoints: tuple[str, ...] = ("ecr.api", "s3", "sts")) -> Recording:
    def program() -> None:
        provider = aws.Provider("aws", region="us-east-1")
        args = NetworkArgs(
            cluster_name="headway-test",
            account_id="123456789012",
            region="us-east-1",
            cidr=IPv4Network("10.0.0.0/16"),
            zones=ZONES[:3],
            nat=nat,
            nat_zone=ZONES[0],
            endpoints=endpoints,
            deployers=(DEPLOYER,),
            flow_log_days=30,
            logs_key_arn="arn:aws:kms:us-east-1:123456789012:key/logs",
        )
        Network("net", args, pulumi.ResourceOptions(provider=provider))

    return record(program, outputs=cloud_outputs)


@pytest.mark.parametrize(
    ("nat", "gateways", "addresses", "ways_out"), [("none", 0, 0, 0), ("single", 1, 1, 3), ("per-zone", 3, 3, 3), ("regional", 1, 0, 3)]
)
def test_each_choice_of_nat_makes_its_own_gateways(nat: NatChoice, gateways: int, addresses: int, ways_out: int) -> None:
    found = network(nat)
    assert len(found.of_type("aws:ec2/natGateway:NatGateway")) == gateways
    assert len(found.of_type("aws:ec2/eip:Eip")) == addresses
    assert len([r for r in found.of_type("aws:ec2/route:Route") if "natGatewayId" in r.inputs]) == ways_out


@pytest.mark.parametrize("nat", ["single", "per-zone", "regional"])
def test_the_internet_gateway_outlives_every_address_behind_it(nat: NatChoice) -> None:
    found = network(nat)
    internet = found.one("aws:ec2/internetGateway:InternetGateway").urn
    for r in (*found.of_type("aws:ec2/natGateway:NatGateway"), *found.of_type("aws:ec2/eip:Eip")):
        assert internet in r.depends_on, f"a destroy would wait 20 minutes for {r.name}"


def test_a_zone_of_its_own_gateway_does_not_route_through_another() -> None:
    routes = [r for r in network("per-zone").of_type("aws:ec2/route:Route") if "natGatewayId" in r.inputs]
    assert len({r.inputs["natGatewayId"] for r in routes}) == 3


def test_changing_nat_replaces_no_route_table() -> None:
    def tables(found: Recording) -> dict[str, Any]:
        return {r.urn: r.inputs for r in found.of_type("aws:ec2/routeTable:RouteTable")}

    assert tables(network("single")) == tables(network("regional"))


def test_only_public_subnets_reach_the_internet_gateway() -> None:
    found = network("per-zone")
    direct = [r for r in found.of_type("aws:ec2/route:Route") if "gatewayId" in r.inputs]
    assert [r.inputs["routeTableId"] for r in direct] == ["net-public-id"]
    public = {
        r.inputs["subnetId"]
        for r in found.of_type("aws:ec2/routeTableAssociation:RouteTableAssociation")
        if r.inputs["routeTableId"] == "net-public-id"
    }
    assert public == {f"net-public-{letter}-id" for letter in "abc"}


def test_no_subnet_gives_out_public_addresses() -> None:
    assert not any(r.inputs["mapPublicIpOnLaunch"] for r in network("single").of_type("aws:ec2/subnet:Subnet"))


def test_the_default_security_group_lets_nobody_through() -> None:
    group = network("none").one("aws:ec2/defaultSecurityGroup:DefaultSecurityGroup")
    assert not group.inputs.get("ingress")
    assert not group.inputs.get("egress")


def test_every_endpoint_has_a_policy_of_its_own() -> None:
    found = network("single").of_type("aws:ec2/vpcEndpoint:VpcEndpoint")
    assert [r.name for r in sorted(found, key=lambda r: r.name)] == ["net-endpoint-ecr-api", "net-endpoint-s3", "net-endpoint-sts"]
    assert all(json.loads(r.inputs["policy"])["Statement"] for r in found)


def test_endpoints_are_reached_from_inside_the_network_only() -> None:
    rule = network("single").one("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule")
    assert (rule.inputs["cidrIpv4"], rule.inputs["fromPort"], rule.inputs["toPort"]) == ("10.0.0.0/16", 443, 443)


def test_without_endpoints_there_is_nothing_to_protect() -> None:
    found = network("single", endpoints=())
    assert not found.of_type("aws:ec2/vpcEndpoint:VpcEndpoint")
    assert not found.of_type("aws:ec2/securityGroup:SecurityGroup")


def of(service: str) -> dict[str, Statement]:
    """The statements of an endpoint's policy by their id."""
    return {statement.sid: statement for statement in statements(service, "123456789012", "eu-west-1", (DEPLOYER,), nat=True)}


@pytest.mark.parametrize("service", sorted(set(ACTIONS) - GATEWAY_ENDPOINTS))
def test_an_interface_endpoint_admits_this_account_only(service: str) -> None:
    own = of(service)["OwnPrincipals"]
    assert own.conditions == {"StringEquals": {"aws:PrincipalAccount": "123456789012"}}
    assert not [action for action in own.actions if action.endswith(":*")], "any credentials of the account could do anything through it"


@pytest.mark.parametrize("service", sorted(ACTIONS))
def test_endpoints_let_only_deployers_from_inside_do_everything(service: str) -> None:
    everything = [statement for statement in of(service).values() if any(action.endswith(":*") for action in statement.actions)]
    assert [statement.conditions for statement in everything] == [{"ArnLike": {"aws:PrincipalArn": [DEPLOYER]}}]
    assert "Deployers" not in {s.sid for s in statements(service, "123456789012", "eu-west-1", (), nat=True)}


def test_the_object_store_endpoint_is_no_way_out_to_other_buckets() -> None:
    found = of("s3")
    assert found["OwnBuckets"].conditions == {"StringEquals": {"aws:ResourceAccount": "123456789012"}}
    assert found["ImageLayers"].actions == ["s3:GetObject"]
    assert found["ImageLayers"].resources == [
        "arn:aws:s3:::prod-eu-west-1-starport-layer-bucket/*",
        "arn:aws:s3:::prod-registry-k8s-io-eu-west-1/*",
        "arn:aws:s3:::docker-images-prod*/*",
    ]


def test_a_web_identity_passes_to_roles_of_this_account_only() -> None:
    web = of("sts")["WebIdentity"]
    assert (web.actions, web.resources) == (["sts:AssumeRoleWithWebIdentity"], ["arn:aws:iam::123456789012:role/*"])


MANAGED = ("AmazonEBSCSIDriverPolicyV2", "AmazonEC2ContainerRegistryPullOnly", "AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy")


@pytest.mark.parametrize("policy", MANAGED)
def test_what_aws_lets_nodes_and_add_ons_do_passes_the_endpoints(policy: str) -> None:
    document = json.loads(aws_managed_policies_data)[policy]["Document"]
    actions = {action for s in document["Statement"] for action in ([s["Action"]] if isinstance(s["Action"], str) else s["Action"])}
    admitted = {pattern for service in ACTIONS for pattern in ACTIONS[service]}
    stopped = sorted(action for action in actions if not any(fnmatchcase(action, pattern) for pattern in admitted))
    assert not stopped, "without NAT these have no other way"


def test_what_our_own_identities_may_do_passes_the_endpoints() -> None:
    admitted = {pattern for service in ACTIONS for pattern in ACTIONS[service]}
    scaler = [action for s in cluster_autoscaler.permissions("c", "123456789012", "eu-west-1") for action in s.actions]
    assert [action for action in scaler if not any(fnmatchcase(action, pattern) for pattern in admitted)] == []


def test_what_traces_logs_and_an_upload_ask_of_s3_passes_its_endpoint() -> None:
    rendered = {action for addon in (loki, tempo) for s in addon.permissions("arn:aws:s3:::b") for action in s.actions}
    assert (rendered | set(RIGHTS)) - set(ACTIONS["s3"]) == set()


def test_the_flow_log_is_encrypted_and_kept_as_long_as_asked() -> None:
    found = network("none")
    group = found.one("aws:cloudwatch/logGroup:LogGroup")
    assert (group.inputs["retentionInDays"], group.inputs["kmsKeyId"]) == (30, "arn:aws:kms:us-east-1:123456789012:key/logs")
    assert found.one("aws:ec2/flowLog:FlowLog").inputs["trafficType"] == "ALL"


def test_the_flow_log_begins_once_its_role_may_write() -> None:
    found = network("none")
    assert found.one("aws:iam/rolePolicy:RolePolicy").urn in found.one("aws:ec2/flowLog:FlowLog").depends_on


def test_the_flow_logs_role_may_do_all_that_ec2_asks_of_it() -> None:
    # VPC user guide, "IAM role for publishing flow logs to CloudWatch Logs"; the group itself is there before.
    found = json.loads(network("none").one("aws:iam/rolePolicy:RolePolicy").inputs["policy"])["Statement"]
    given = [(action, resource) for statement in found for action in statement["Action"] for resource in statement["Resource"]]
    groups = "arn:aws:logs:us-east-1:123456789012:log-group"
    stream = f"{groups}:/aws/vpc/headway-test/flow:log-stream:eni-1"
    asked = [(f"logs:{action}", stream) for action in ("CreateLogStream", "DescribeLogStreams", "PutLogEvents")]
    asked.append(("logs:DescribeLogGroups", f"{groups}::log-stream:"))
    assert [each for each in asked if not any(each[0] == action and fnmatchcase(each[1], pattern) for action, pattern in given)] == []
