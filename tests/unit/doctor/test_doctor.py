"""What stops the first apply is found before it: each check by a planted fault, and nothing is concluded from silence."""

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
import typer
from botocore.stub import Stubber
from moto.iam.aws_managed_policies import aws_managed_policies_data
from typer.testing import CliRunner

from components.access.duty import Duty
from components.access.permissions import SERVICES, documents
from headway.capacity.described import Described, described
from headway.cli import doctor as doctor_cli
from headway.contract.pool_parts import CapacityBlock, Reservation, WarmNodes
from headway.doctor.account import (
    EKS_NODES_ROLE,
    EKS_ROLE,
    SERVICE_LINKED_ROLES,
    SPOT_ROLE,
    AccountFacts,
    Caller,
    ReservationFacts,
    generated_arns,
    generated_roles,
    judge,
)
from headway.doctor.aws import account_facts
from headway.doctor.check import CheckState, DoctorResult, Unanswered
from headway.doctor.endpoints import EndpointFacts
from headway.doctor.quotas import ADDRESSES, GATEWAYS, GROUPS, NETWORKS, STORAGE, ServiceQuota, addresses, counted, needs, storage
from headway.doctor.samples import judge_samples
from headway.doctor.tools import judge_aws, judge_kubectl, judge_pulumi, version
from headway.environment.trusted import trusted
from headway.problem import Exit, ProblemLevel
from tests.guide_page import commands

ROOT = Path(__file__).parents[3]
ACCOUNT, KUBERNETES = "123456789012", "1.36"
ADDONS = {"coredns": "v1.14.2-eksbuild.4", "vpc-cni": "v1.21.1-eksbuild.8"}
DEPLOYER = f"arn:aws:iam::{ACCOUNT}:role/platform/headway-deploy"


def layer(**changes: Any) -> Described:
    found = described(ROOT, "dev-cluster")[1]
    return found.model_copy(update={"account_id": ACCOUNT, "administrators": (DEPLOYER,), **changes})


LAYER = layer()
DEPLOYING = Duty(environment="dev", account_id=ACCOUNT, region=LAYER.region, state_bucket="state", layer="cluster")
WELL = AccountFacts(
    caller=Caller(ACCOUNT, f"arn:aws:sts::{ACCOUNT}:assumed-role/headway-deploy/me"),
    roles=frozenset(SERVICE_LINKED_ROLES),
    principals=frozenset({DEPLOYER}),
    zones={zone: f"usw2-az{number}" for number, zone in enumerate(LAYER.zones, 1)},
    quotas={
        **{need.code: ServiceQuota("Running instances", need.vcpus) for need in needs(LAYER)},
        ADDRESSES: ServiceQuota("EC2-VPC Elastic IPs", 5, 4),
        GATEWAYS: ServiceQuota("NAT gateways per Availability Zone", 5, 4),
        GROUPS: ServiceQuota("Managed node groups per cluster", 4),
        NETWORKS: ServiceQuota("VPCs per Region", 5, 4),
        STORAGE: ServiceQuota("Storage for gp3 volumes, in TiB", 50, 50 - storage(LAYER)),
    },
    launched=True,
    offerings={zone: frozenset(t for p in (LAYER.system_pool, *LAYER.pools) for t in p.instance_types) for zone in LAYER.zones},
    addons={name: frozenset({pinned}) for name, pinned in ADDONS.items()},
    installed={"coredns": "DEGRADED", "vpc-cni": "ACTIVE"},
    endpoints={endpoint: EndpointFacts(frozenset(LAYER.zones), policy=True) for endpoint in LAYER.endpoints},
    reservations={},
)


def examined(facts: AccountFacts = WELL, found: Described = LAYER) -> dict[str, DoctorResult]:
    return {result.name: result for result in judge(found, facts, ADDONS, KUBERNETES)}


def test_an_add_on_that_the_environment_leaves_out_is_not_missed() -> None:
    pinned = {**ADDONS, "eks-pod-identity-agent": "v1.3.10-eksbuild.3"}
    states = {
        identity: {each.name: each.state for each in judge(layer(workload_identity=identity), WELL, pinned, KUBERNETES)}["add-on-versions"]
        for identity in ("pod-identity", "irsa")
    }
    assert states == {"pod-identity": CheckState.PROBLEM, "irsa": CheckState.OK}


def test_an_account_that_has_everything_has_no_problem() -> None:
    assert {result.state for result in examined().values()} == {CheckState.OK}


@pytest.mark.parametrize(
    ("check", "fault", "fact"),
    [
        (
            "identity",
            {"caller": Caller("999999999999", "arn:aws:iam::999999999999:user/me")},
            "The credentials are of account 999999999999",
        ),
        ("administrator", {"caller": Caller(ACCOUNT, f"arn:aws:iam::{ACCOUNT}:user/me")}, "user/me is not among the cluster's admin"),
        ("service-linked-roles", {"roles": frozenset[str]()}, "The account has no role AWSServiceRoleForAutoScaling"),
        ("principals", {"principals": frozenset[str]()}, f"The account has no role {DEPLOYER}"),
        ("zones", {"zones": {LAYER.zones[0]: "usw2-az1"}}, f"The account has no zone {LAYER.zones[1]}"),
        (
            "zones",
            {"zones": {LAYER.zones[0]: "usw2-az1", LAYER.zones[1]: "use1-az3"}},
            f"EKS makes no control plane in {LAYER.zones[1]}, which is use1-az3",
        ),
        (
            "quotas",
            {"quotas": {"L-DB2E81BA": ServiceQuota("Running On-Demand G and VT instances", 8)}},
            "G and VT instances is 8 vCPUs, and pool l4",
        ),
        ("quotas", {"quotas": {ADDRESSES: ServiceQuota("EC2-VPC Elastic IPs", 5, 5)}}, "Elastic IPs is 5, of which 5 are in use"),
        (
            "quotas",
            {"quotas": {GATEWAYS: ServiceQuota("NAT gateways per Availability Zone", 5, 5)}},
            "each zone with a NAT gateway needs 1",
        ),
        ("quotas", {"quotas": {GROUPS: ServiceQuota("Managed node groups per cluster", 3)}}, "each zone of the others need 4"),
        ("quotas", {"quotas": {NETWORKS: ServiceQuota("VPCs per Region", 5, 5)}}, "VPCs per Region is 5, of which 5 are in use, and its"),
        ("quotas", {"quotas": {STORAGE: ServiceQuota("Storage for gp3 volumes, in TiB", 1)}}, "the root volumes of all nodes may take"),
        ("offerings", {"offerings": {LAYER.zones[0]: frozenset({"m7i.xlarge"})}}, f"{LAYER.zones[0]} offers none of g6.2xlarge"),
        ("endpoints", {"endpoints": {}}, f"{LAYER.region} has no interface endpoint com.amazonaws.{LAYER.region}.eks-auth"),
        ("endpoints", {"endpoints": {}}, f"{LAYER.region} has no gateway endpoint com.amazonaws.{LAYER.region}.s3"),
        (
            "endpoints",
            {"endpoints": {"eks-auth": EndpointFacts(frozenset(LAYER.zones[:1]), policy=True)}},
            f"com.amazonaws.{LAYER.region}.eks-auth is not in {', '.join(LAYER.zones[1:])}",
        ),
        (
            "endpoints",
            {"endpoints": {"eks-auth": EndpointFacts(frozenset(LAYER.zones), policy=False)}},
            f"Endpoints of com.amazonaws.{LAYER.region}.eks-auth take no policy",
        ),
        ("add-ons", {"installed": {"coredns": "CREATE_FAILED"}}, "EKS gave up making add-on coredns"),
        ("add-on-versions", {"addons": {"coredns": frozenset({"v1.0.0"})}}, "EKS does not offer version v1.14.2-eksbuild.4 of coredns"),
    ],
)
def test_each_planted_fault_is_found_by_its_check(check: str, fault: Mapping[str, Any], fact: str) -> None:
    result = examined(replace(WELL, **fault))[check]
    assert result.blocking
    assert fact in "\n".join(problem.fact for problem in result.problems)
    assert all(problem.consequence and problem.remedy for problem in result.problems)


def test_the_role_of_spot_instances_is_missed_where_there_is_a_spot_pool() -> None:
    without = replace(WELL, roles=frozenset(SERVICE_LINKED_ROLES) - {SPOT_ROLE})
    (problem,) = examined(without)["service-linked-roles"].problems
    assert (problem.subject, problem.level) == (SPOT_ROLE, ProblemLevel.WARNING)
    assert "--aws-service-name spot.amazonaws.com" in problem.remedy
    bought = layer(pools=tuple(pool for pool in LAYER.pools if pool.capacity.kind != "spot"))
    assert examined(without, bought)["service-linked-roles"].state is CheckState.OK


@pytest.mark.parametrize("role", [EKS_ROLE, EKS_NODES_ROLE])
def test_a_role_of_eks_that_is_not_there_yet_is_told_with_what_makes_it(role: str) -> None:
    (problem,) = examined(replace(WELL, roles=frozenset(SERVICE_LINKED_ROLES) - {role}))["service-linked-roles"].problems
    assert (problem.subject, problem.level) == (role, ProblemLevel.WARNING)
    service = SERVICE_LINKED_ROLES[role][0]
    assert service in SERVICES, "the deployer may make it, too"
    assert problem.remedy.endswith(f"`aws iam create-service-linked-role --aws-service-name {service}`")
    assert f"aws iam create-service-linked-role --aws-service-name {service}" in commands(), "the guide has it made first"


def test_auto_scaling_may_make_the_role_of_spot_instances_and_no_deployer_may() -> None:
    (statement,) = (
        each
        for each in json.loads(aws_managed_policies_data)["AutoScalingServiceRolePolicy"]["Document"]["Statement"]
        if "iam:CreateServiceLinkedRole" in each["Action"]
    )
    assert statement["Condition"] == {"StringEquals": {"iam:AWSServiceName": "spot.amazonaws.com"}}
    assert "spot.amazonaws.com" not in SERVICES


def reserved(**changes: Any) -> Described:
    (first, *rest) = LAYER.pools
    pool = first.model_copy(update={"capacity": Reservation(kind="reservation", id="cr-00000000aa"), **changes})
    return layer(pools=(pool, *rest))


@pytest.mark.parametrize(
    ("found", "fact"),
    [
        ({}, "has no capacity reservation"),
        ({"cr-00000000aa": ReservationFacts("expired", "g6.2xlarge", LAYER.pools[0].zones[0], 2, ACCOUNT)}, "is expired, not active"),
        ({"cr-00000000aa": ReservationFacts("active", "g6.2xlarge", "us-east-1f", 2, ACCOUNT)}, "which the pool does not use"),
        ({"cr-00000000aa": ReservationFacts("active", "p5.48xlarge", LAYER.pools[0].zones[0], 2, ACCOUNT)}, "which the pool does not use"),
    ],
)
def test_a_reservation_that_nodes_cannot_use_is_found(found: Mapping[str, ReservationFacts], fact: str) -> None:
    result = examined(replace(WELL, reservations=found), reserved())["reservations"]
    assert result.blocking
    assert fact in result.problems[0].fact


def test_a_reservation_that_another_account_shares_is_told() -> None:
    shared = ReservationFacts("active", "g6.2xlarge", LAYER.pools[0].zones[0], 2, "999999999999")
    result = examined(replace(WELL, reservations={"cr-00000000aa": shared}), reserved())["reservations"]
    assert [(problem.level, "is of account 999999999999" in problem.fact) for problem in result.problems] == [(ProblemLevel.WARNING, True)]


def test_a_deployer_starts_no_nodes_in_what_another_account_shares() -> None:
    """Which is why doctor warns: the generated policy names resources of the own account, and images."""
    (launches,) = [s for s in documents(DEPLOYING)["network"] if s.sid == "Ec2Nodes"]
    assert all(f":{ACCOUNT}:" in str(each) or str(each).endswith(":image/*") for each in launches.resources)


BLOCK = CapacityBlock(kind="block", id="cr-00000000aa", ends="2026-12-01T11:30:00Z")


@pytest.mark.parametrize(
    ("state", "ends", "fact"),
    [
        ("active", "2026-12-01T11:30:00Z", ""),
        ("scheduled", "2026-12-01T11:30:00Z", ""),
        ("payment-pending", "2026-12-01T11:30:00Z", "is payment-pending, not active"),
        ("active", "2026-11-30T11:30:00Z", "ends 2026-11-30T11:30:00Z, and the pool is emptied before 2026-12-01T11:30:00Z"),
    ],
)
def test_a_capacity_block_may_be_bought_ahead_and_ends_when_its_pool_says(state: str, ends: str, fact: str) -> None:
    there = ReservationFacts(state, "g6.2xlarge", LAYER.pools[0].zones[0], 2, ACCOUNT, ends)
    result = examined(replace(WELL, reservations={BLOCK.id: there}), reserved(capacity=BLOCK))["reservations"]
    assert (bool(result.problems), fact in "".join(each.fact for each in result.problems)) == (bool(fact), True)


def test_the_end_of_a_block_is_read_as_a_pool_writes_it() -> None:
    described = {
        "CapacityReservationId": BLOCK.id,
        "State": "scheduled",
        "InstanceType": "g6.2xlarge",
        "AvailabilityZone": "us-west-2a",
        "TotalInstanceCount": 2,
        "OwnerId": ACCOUNT,
        "EndDate": datetime(2026, 12, 1, 11, 30, tzinfo=UTC),
    }
    facts = asked(reserved(capacity=BLOCK), ec2=[("describe_capacity_reservations", {"CapacityReservations": [described]})])
    assert facts.reservations == {BLOCK.id: ReservationFacts("scheduled", "g6.2xlarge", "us-west-2a", 2, ACCOUNT, BLOCK.ends)}


def test_what_could_not_be_asked_is_neither_well_nor_wrong() -> None:
    silent = Unanswered("AWS refused ListServiceQuotas (AccessDenied)")
    result = examined(replace(WELL, quotas=silent))["quotas"]
    assert (result.state, result.problems) == (CheckState.UNKNOWN, ())
    assert result.seen == "Not checked: AWS refused ListServiceQuotas (AccessDenied)."


@pytest.mark.parametrize("name", ["headway-prod-cluster-deployer", "headway-prod-platform-deployer"])
def test_the_roles_of_the_access_layer_need_not_stand_in_the_file(name: str) -> None:
    facts = replace(WELL, caller=Caller(ACCOUNT, f"arn:aws:sts::{ACCOUNT}:assumed-role/{name}/ci"))
    found = {each.name: each.state for each in judge(layer(), facts, ADDONS, KUBERNETES, generated=generated_roles("prod"))}
    assert found["administrator"] is CheckState.OK
    assert {each.name: each.blocking for each in judge(layer(), facts, ADDONS, KUBERNETES)}["administrator"]


def test_a_creator_who_stays_administrator_is_only_warned() -> None:
    stranger = replace(WELL, caller=Caller(ACCOUNT, f"arn:aws:iam::{ACCOUNT}:user/me"))
    (problem,) = examined(stranger, layer(creator_is_administrator=True))["administrator"].problems
    assert problem.level is ProblemLevel.WARNING


@pytest.mark.parametrize("more", [{}, {"administrators": (), "groups": {"vision-ml": (DEPLOYER,)}}], ids=["administrator", "member"])
def test_a_creator_who_stays_administrator_is_let_in_by_nothing_else(more: dict[str, Any]) -> None:
    result = examined(WELL, layer(creator_is_administrator=True, **more))["administrator"]
    assert result.blocking and "EKS makes an entry for the creator itself" in result.problems[0].consequence
    assert "delete-access-entry" in result.problems[0].remedy, "of a cluster that is there, the setting changes nothing"


def test_a_role_of_a_group_is_looked_for_with_its_path() -> None:
    member = f"arn:aws:iam::{ACCOUNT}:role/ml"
    found = layer(groups={"vision-ml": (member, f"arn:aws:iam::{ACCOUNT}:user/me", "arn:aws:iam::999999999999:role/theirs")})
    (problem,) = examined(WELL, found)["principals"].problems
    assert (problem.path, problem.value) == (("control_plane", "groups"), member)
    elsewhere = replace(WELL, principals=frozenset({DEPLOYER, f"arn:aws:iam::{ACCOUNT}:role/teams/ml"}))
    assert examined(elsewhere, found)["principals"].blocking


def test_a_role_that_the_access_layer_trusts_is_looked_for_too() -> None:
    """IAM takes no trust policy that names a role which is not there (hashicorp/terraform-provider-aws#8905)."""
    reserved = f"arn:aws:iam::{ACCOUNT}:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_ml_0123456789abcdef"
    (problem,) = examined(WELL, layer(trusted=(reserved,)))["principals"].problems
    assert (problem.path, problem.value) == (("access",), reserved)
    assert "the access layer stays half made" in problem.consequence
    assert not examined(replace(WELL, principals=frozenset({DEPLOYER, reserved})), layer(trusted=(reserved,)))["principals"].blocking


def test_a_role_that_the_access_layer_is_still_to_make_stops_the_cluster_layer() -> None:
    """KMS refuses a key whose policy names who is not there (terraform-aws-modules/terraform-aws-kms#30)."""
    (first, *_) = made = generated_arns(LAYER, "dev")
    (problem,) = examined(replace(WELL, principals=frozenset({DEPLOYER, *made} - {first})), layer(generated=made))["principals"].problems
    assert (problem.value, problem.level, problem.remedy) == (
        first,
        ProblemLevel.ERROR,
        "Apply the access layer before the cluster layer",
    )
    assert not examined(replace(WELL, principals=frozenset({DEPLOYER, *made})), layer(generated=made))["principals"].problems


def test_whom_the_access_layer_trusts_stands_in_its_file(tmp_path: Path) -> None:
    assert trusted(ROOT / "stacks/Pulumi.prod-access.yaml") == tuple(
        f"arn:aws:iam::333333333333:role/sso-{tenant}" for tenant in ("assist", "vision")
    )
    odd = tmp_path / "odd.yaml"
    odd.write_text("config: []")
    assert trusted(odd) == ()


def test_a_pool_counts_in_each_of_its_zones_at_its_largest() -> None:
    taken = {need.code: (need.vcpus, need.pools) for need in needs(LAYER)}
    on_demand, spot = LAYER.pools
    assert taken["L-DB2E81BA"] == (16 * on_demand.size.max * len(on_demand.zones), ("l4",))
    assert taken["L-3819A6DF"] == (16 * spot.size.max * len(spot.zones), ("l4-batch",))
    assert taken["L-1216C47A"][1] == ("system",)


@pytest.mark.parametrize(("nat", "wanted"), [("none", 0), ("single", 1), ("per-zone", len(LAYER.zones)), ("regional", 0)])
def test_each_gateway_takes_an_address(nat: str, wanted: int) -> None:
    assert addresses(layer(nat=nat)) == wanted


def test_the_volumes_of_every_node_are_counted_at_its_pools_largest() -> None:
    nodes = {pool.name: (pool.max_nodes, int(pool.disk.size)) for pool in LAYER.pools}
    system = (LAYER.system_pool.size.max, int(LAYER.system_pool.disk.size))
    assert storage(LAYER) == sum(count * size for count, size in (system, *nodes.values())) / 2**40


def test_nodes_that_are_kept_warm_count_beside_those_of_their_groups() -> None:
    first, *rest = LAYER.pools
    warmed = layer(pools=(first.model_copy(update={"warm": WarmNodes(size=2)}), *rest))
    more, zones = {need.code: need.vcpus for need in needs(warmed)}, len(first.zones)
    assert more["L-DB2E81BA"] == 16 * (first.size.max + 2) * zones
    assert storage(warmed) - storage(LAYER) == pytest.approx(2 * zones * int(first.disk.size) / 2**40)


def test_a_network_without_gateways_needs_no_quota_of_them() -> None:
    assert {need.code for need in counted(layer(nat="none"))} == {GROUPS, NETWORKS, STORAGE}


def test_values_of_the_sample_files_are_refused() -> None:
    sample = described(ROOT, "prod-cluster")[1]
    assert {problem.dotted for problem in judge_samples(sample).problems} == {"account.id", "pools[2].capacity.id"}
    assert judge_samples(LAYER).state is CheckState.OK


@pytest.mark.parametrize(
    ("printed", "blocking"),
    [
        (None, True),
        ("aws-cli/2.6.9 Python/3.9.11 Linux", True),
        ("aws-cli/2.7.0 Python/3.9.11 Linux", False),
        ("aws-cli/1.23.9 Python/3.9", True),
        ("aws-cli/1.24.0 Python/3.9", False),
        ("aws-cli/3.0.0", False),
        ("something else", True),
    ],
)
def test_the_aws_cli_is_as_new_as_pulumi_eks_demands(printed: str | None, blocking: bool) -> None:
    assert judge_aws(printed).blocking is blocking


def test_a_pulumi_older_than_the_sdk_is_warned_about_and_none_is_refused() -> None:
    assert judge_pulumi(None, "3.272.0").blocking
    (problem,) = judge_pulumi("v3.99.0", "3.272.0").problems
    assert problem.level is ProblemLevel.WARNING
    assert judge_pulumi("v3.272.1", "3.272.0").state is CheckState.OK
    assert version("v3.272.0-dev.1") == (3, 272, 0)


@pytest.mark.parametrize(
    ("printed", "state"),
    [
        ("Client Version: v1.35.2\nKustomize Version: v5.7.1", CheckState.OK),
        ("Client Version: v1.36.0", CheckState.OK),
        ("Client Version: v1.37.1", CheckState.OK),
        ("Client Version: v1.34.9", CheckState.PROBLEM),
        (None, CheckState.PROBLEM),
    ],
)
def test_kubectl_is_within_one_minor_version_and_stops_no_apply(printed: str | None, state: CheckState) -> None:
    result = judge_kubectl(printed, KUBERNETES)
    assert (result.state, result.blocking) == (state, False)


def clients(answers: Mapping[str, list[tuple[str, Any]]]) -> Any:
    """Clients of botocore's own models; each gives its answers in order, and an error code refuses."""
    made: dict[str, Any] = {}
    for service, given in answers.items():
        client = boto3.client(service, region_name="us-west-2", aws_access_key_id="x", aws_secret_access_key="y")
        stub = Stubber(client)
        for method, answer in given:
            if isinstance(answer, str):
                stub.add_client_error(method, answer)
            else:
                stub.add_response(method, answer)
        stub.activate()
        made[service] = client
    return made.__getitem__


FOREIGN, OWN = {"Key": "platform.io/environment", "Value": "other"}, {"Key": "platform.io/environment", "Value": "dev"}
IN_USE: list[tuple[str, Any]] = [
    ("describe_subnets", {"Subnets": [{"SubnetId": "s-a", "AvailabilityZone": "a"}, {"SubnetId": "s-b", "AvailabilityZone": "b"}]}),
    ("describe_nat_gateways", {"NatGateways": [{"SubnetId": at, "Tags": tags} for at, tags in (("s-a", []), ("s-b", []), ("s-b", [FOREIGN]), ("s-a", [OWN]))]}),
    ("describe_volumes", {"Volumes": [{"Size": 512}, {"Size": 512, "Tags": [FOREIGN]}, {"Size": 2048, "Tags": [OWN]}]}),
    ("describe_addresses", {"Addresses": [{"Tags": [OWN]}, {}]}),
    ("describe_vpcs", {"Vpcs": [{"VpcId": "v-1"}, {"VpcId": "v-2"}, {"VpcId": "v-3", "Tags": [OWN]}]}),
]  # fmt: skip


ROLE = {
    "Path": "/",
    "RoleName": "headway-deploy",
    "RoleId": "AROAAAAAAAAAAAAAAAAA",
    "Arn": DEPLOYER,
    "CreateDate": datetime(2026, 1, 1, tzinfo=UTC),
}


def listed(*codes: str) -> tuple[str, Any]:
    return "list_service_quotas", {"Quotas": [{"QuotaCode": code, "QuotaName": f"quota {code}", "Value": 9.0} for code in codes]}


LIVE: list[tuple[str, Any]] = [
    ("list_addons", {"addons": ["coredns"]}),
    ("describe_addon", {"addon": {"addonName": "coredns", "status": "CREATE_FAILED"}}),
]


def asked(found: Described = LAYER, /, **changes: Any) -> AccountFacts:
    default = {"Quota": {"QuotaCode": GATEWAYS, "QuotaName": "by default", "Value": 5.0}}
    ec2 = listed(*(need.code for need in needs(LAYER)), ADDRESSES, "L-OTHER")
    answers: dict[str, list[tuple[str, Any]]] = {
        "sts": [("get_caller_identity", {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/me", "UserId": "AIDAAAAAAAAAAAAAAAAA"})],
        "iam": [*[("get_role", "NoSuchEntity")] * len(SERVICE_LINKED_ROLES), ("get_role", {"Role": ROLE})],
        "service-quotas": [listed(STORAGE), ec2, listed(GROUPS), listed(NETWORKS), ("get_aws_default_service_quota", default)],
        "ec2": [],
        "cloudtrail": [],
        "eks": [("describe_addon_versions", {"addons": [{"addonName": "coredns", "addonVersions": [{"addonVersion": "v1"}]}]}), *LIVE],
    }
    return account_facts(found, ADDONS, KUBERNETES, clients({**answers, **changes}), "dev")


def test_an_account_is_asked_by_the_calls_that_botocore_knows() -> None:
    facts = asked()
    assert facts.caller == Caller(ACCOUNT, f"arn:aws:iam::{ACCOUNT}:user/me")
    assert (facts.roles, facts.principals) == (frozenset(), {DEPLOYER})
    assert facts.addons == {"coredns": frozenset({"v1"})}
    assert facts.installed == {"coredns": "CREATE_FAILED"}
    assert facts.reservations == {}


def test_the_use_of_quotas_leaves_out_what_is_the_environments_own() -> None:
    # What the quota check asks EC2 is stubbed; what the others ask it meanwhile is refused.
    quotas = asked(ec2=IN_USE).quotas
    assert not isinstance(quotas, Unanswered)
    assert {code: quotas[code].used for code in (ADDRESSES, GATEWAYS, NETWORKS, STORAGE)} == {
        ADDRESSES: 1, GATEWAYS: 2, NETWORKS: 2, STORAGE: 1.0,
    }  # fmt: skip
    assert quotas[GATEWAYS].name == "by default"


def offered(endpoint: str, kind: str, zones: tuple[str, ...] = LAYER.zones, *, policy: bool = True) -> dict[str, Any]:
    name = f"com.amazonaws.{LAYER.region}.{endpoint}"
    return {
        "ServiceName": name,
        "ServiceType": [{"ServiceType": kind}],
        "AvailabilityZones": [*zones],
        "VpcEndpointPolicySupported": policy,
    }


def test_endpoints_are_read_of_the_kind_that_the_network_makes() -> None:
    services = [
        offered("eks-auth", "Interface", policy=False),
        offered("s3", "Interface", policy=False),
        offered("s3", "Gateway"),
        offered("sts", "Gateway"),
    ]
    facts = asked(ec2=[("describe_vpc_endpoint_services", {"ServiceDetails": services})])
    assert facts.endpoints == {
        "eks-auth": EndpointFacts(frozenset(LAYER.zones), policy=False),
        "s3": EndpointFacts(frozenset(LAYER.zones), policy=True),
    }


def test_the_gateway_of_a_network_without_a_zone_of_it_is_no_problem() -> None:
    everywhere = {endpoint: EndpointFacts(frozenset(LAYER.zones), policy=True) for endpoint in LAYER.endpoints}
    found = examined(replace(WELL, endpoints=everywhere | {"s3": EndpointFacts(frozenset(), policy=True)}))
    assert found["endpoints"].state is CheckState.OK


def test_one_refusal_hides_no_other_answer() -> None:
    facts = asked(sts=[("get_caller_identity", "ExpiredToken")])
    assert facts.caller == Unanswered("AWS refused GetCallerIdentity (ExpiredToken)")
    assert (facts.roles, facts.principals) == (frozenset(), {DEPLOYER})


def test_zones_are_read_with_the_ids_that_mean_the_same_in_every_account() -> None:
    facts = asked(ec2=[("describe_availability_zones", {"AvailabilityZones": [{"ZoneName": "us-west-2a", "ZoneId": "usw2-az2"}]})])
    assert facts.zones == {"us-west-2a": "usw2-az2"}


@pytest.mark.parametrize(
    ("instances", "events", "launched"),
    [
        ([{"ReservationId": "r-1"}], [], True),
        ([], ['{"eventName": "RunInstances"}', '{"errorCode": "Client.Blocked"}'], True),
        ([], ['{"eventName": "RunInstances", "errorCode": "Client.Blocked"}'], False),
        ([], [], False),
    ],
)
def test_an_account_that_never_launched_an_instance_is_warned_of(instances: list[Any], events: list[str], launched: bool) -> None:
    said = {"Events": [{"CloudTrailEvent": each} for each in events]}
    quiet = {"service-quotas": [("list_service_quotas", "AccessDeniedException")]}
    facts = asked(ec2=[("describe_instances", {"Reservations": instances})], cloudtrail=[("lookup_events", said)], **quiet)
    assert facts.launched is launched
    result = examined(replace(WELL, launched=launched))["launches"]
    assert ([problem.level for problem in result.problems], result.blocking) == ([] if launched else [ProblemLevel.WARNING], False)


def test_offerings_are_read_by_zone() -> None:
    offered = [{"InstanceType": "m7i.xlarge", "LocationType": "availability-zone", "Location": LAYER.zones[0]}]
    both = [("describe_instance_type_offerings", {"InstanceTypeOfferings": offered})]
    # The quota check asks EC2 for its addresses at the same time, and here is refused.
    assert asked(ec2=both, **{"service-quotas": [("list_service_quotas", "AccessDeniedException")]}).offerings == {
        LAYER.zones[0]: frozenset({"m7i.xlarge"})
    }


@pytest.fixture
def app() -> typer.Typer:
    found = typer.Typer()
    found.command()(doctor_cli.doctor)
    return found


def test_the_command_says_every_problem_and_ends_with_refused(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    done = CliRunner().invoke(app, ["--stack", "prod-cluster", "--offline", "--project", str(ROOT)])
    assert done.exit_code == Exit.REFUSED
    assert "✗ aws-cli: There is no AWS CLI that answers on the PATH." in done.output
    assert "Remedy: Name a reservation of yours, or take the pool out." in done.output
    assert re.search("prod-cluster: [0-9]+ checks? fine, 4 problems in the way of the apply, [0-9]+ warnings?, 0 not checked.", done.output)
    assert done.output.splitlines()[-1].startswith("Not looked at, because nothing may be asked: identity, ")


def test_the_command_tells_programs_the_same(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["--stack", "prod-cluster", "--offline", "--project", str(ROOT), "--output", "json"])
    checks = {check["check"]: check for check in json.loads(done.output)["checks"]}
    assert set(checks) == {"aws-cli", "pulumi-cli", "kubectl", "sample-values", "groups", "loops-image", "image-ways", "secrets"}
    assert checks["sample-values"]["problems"][0]["path"] == "account.id"


def test_without_credentials_nothing_of_the_account_is_concluded(tmp_path: Path) -> None:
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": str(tmp_path / "none")}
    command = [str(ROOT / ".venv" / "bin" / "headway"), "doctor", "--stack", "dev-cluster"]
    ended = subprocess.run(command, cwd=ROOT, env=bare, capture_output=True, text=True, check=False)
    assert ended.returncode == Exit.REFUSED, ended.stderr
    assert (
        "? identity, administrator, service-linked-roles, principals, zones, quotas, launches, offerings, add-on-versions, add-ons, endpoints: "
        "Not checked: there are no AWS" in ended.stdout
    )
