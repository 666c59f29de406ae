"""The double's promise: what it does not know, and what AWS would refuse, is an error that names it and says what is legal."""

import json
from pathlib import Path
from typing import Any

import pytest
from aws_world import REGION, World, by_path, token, trust, urn_of

from pulumi_embedded.engine.provider import UNKNOWN, ProviderError

VALID_GROUP: dict[str, Any] = {
    "clusterName": "dev",
    "nodeRoleArn": "arn:aws:iam::000000000000:role/nodes",
    "subnetIds": ["subnet-1"],
    "scalingConfig": {"minSize": 0, "desiredSize": 1, "maxSize": 2},
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_type_that_the_sdk_has_but_the_double_has_not_is_refused_by_name(world: World) -> None:
    failures = world.check("rds/instance", engine="postgres")
    assert "aws:rds/instance:Instance is not modelled" in by_path(failures)[""]


def test_a_type_that_exists_nowhere_is_refused_with_the_nearest_one(world: World) -> None:
    assert "did you mean aws:ec2/subnet:Subnet?" in by_path(world.check("ec2/subnett", vpcId="vpc-1"))[""]


@pytest.mark.parametrize("operation", ["create", "diff", "read", "update", "delete"])
def test_no_operation_accepts_a_type_that_is_not_modelled(world: World, operation: str) -> None:
    type = token("rds/instance")
    arguments: dict[str, tuple[Any, ...]] = {
        "create": (urn_of(type, "x"), type, "x", {}, None),
        "diff": (urn_of(type, "x"), type, "i", {}, {}, {}, ()),
        "read": (urn_of(type, "x"), type, "i", {}, {}),
        "update": (urn_of(type, "x"), type, "i", {}, {}, {}, None),
        "delete": (urn_of(type, "x"), type, "i", {}, {}, None),
    }
    with pytest.raises(ProviderError, match="not modelled"):
        getattr(world.provider, operation)(*arguments[operation])


def test_an_unknown_input_is_refused_with_its_path_and_the_nearest_legal_name(world: World) -> None:
    failures = by_path(world.check("ec2/vpc", cidrBlock="10.0.0.0/16", enableDnsHostname=True))
    assert failures.keys() == {"enableDnsHostname"}
    assert "did you mean enableDnsHostnames?" in failures["enableDnsHostname"]


def test_a_nested_unknown_input_is_refused_with_its_whole_path(world: World) -> None:
    mapping = {"deviceName": "/dev/xvda", "ebs": {"volumeSise": 100}}
    failures = by_path(world.check("ec2/launchTemplate", blockDeviceMappings=[mapping]))
    assert "did you mean volumeSize?" in failures["blockDeviceMappings[0].ebs.volumeSise"]


@pytest.mark.parametrize(
    ("path", "inputs"),
    [
        ("scalingConfig.desiredSize", {"scalingConfig": {"minSize": 0, "desiredSize": "1", "maxSize": 2}}),
        ("subnetIds", {"subnetIds": "subnet-1"}),
        ("labels", {"labels": ["gpu"]}),
        ("labels.gpu", {"labels": {"gpu": 1}}),
        ("forceUpdateVersion", {"forceUpdateVersion": "true"}),
        ("taints[0]", {"taints": ["gpu"]}),
    ],
)
def test_a_value_of_another_type_is_refused_at_its_path(world: World, path: str, inputs: dict[str, Any]) -> None:
    assert "must be" in by_path(world.check("eks/nodeGroup", **VALID_GROUP | inputs))[path]


def test_a_missing_required_input_is_named_also_inside_an_object(world: World) -> None:
    failures = by_path(world.check("eks/nodeGroup", clusterName="dev", scalingConfig={"minSize": 0, "maxSize": 2}))
    assert {"nodeRoleArn", "subnetIds", "scalingConfig.desiredSize"} <= failures.keys()


@pytest.mark.parametrize(
    ("path", "inputs", "legal"),
    [
        ("amiType", {"amiType": "AL2023_x86_64_NVIDA"}, "AL2023_x86_64_NVIDIA"),
        ("capacityType", {"capacityType": "ONDEMAND"}, "ON_DEMAND"),
        ("taints[0].effect", {"taints": [{"key": "k", "effect": "NoSchedule"}]}, "NO_SCHEDULE"),
        ("instanceTypes[0]", {"instanceTypes": ["g6.xlarg"]}, "g6.xlarge"),
        ("warmPoolConfig.poolState", {"warmPoolConfig": {"poolState": "Stopped"}}, "STOPPED"),
    ],
)
def test_a_value_outside_an_enumeration_is_refused_with_the_legal_ones(world: World, path: str, inputs: dict[str, Any], legal: str) -> None:
    assert legal in by_path(world.check("eks/nodeGroup", **VALID_GROUP | inputs))[path]


@pytest.mark.parametrize(
    ("short", "path", "inputs"),
    [
        ("eks/nodeGroup", "updateConfig.maxUnavailablePercentage", {**VALID_GROUP, "updateConfig": {"maxUnavailablePercentage": 101}}),
        ("iam/role", "maxSessionDuration", {"assumeRolePolicy": trust("ec2.amazonaws.com"), "maxSessionDuration": 60}),
        ("kms/key", "deletionWindowInDays", {"deletionWindowInDays": 3}),
        ("sqs/queue", "messageRetentionSeconds", {"messageRetentionSeconds": 5}),
        ("ec2/launchTemplate", "metadataOptions.httpPutResponseHopLimit", {"metadataOptions": {"httpPutResponseHopLimit": 65}}),
        ("cloudwatch/logGroup", "retentionInDays", {"retentionInDays": 8}),
    ],
)
def test_a_number_out_of_range_is_refused_with_the_range(world: World, short: str, path: str, inputs: dict[str, Any]) -> None:
    assert path in by_path(world.check(short, **inputs))


@pytest.mark.parametrize(
    ("short", "path", "inputs"),
    [
        ("iam/role", "name", {"assumeRolePolicy": trust("ec2.amazonaws.com"), "name": "role/with/slashes"}),
        ("ecr/repository", "name", {"name": "Upper"}),
        ("s3/bucket", "bucket", {"bucket": "Under_score"}),
        ("eks/nodeGroup", "releaseVersion", {**VALID_GROUP, "releaseVersion": "latest"}),
        ("eks/nodeGroup", f"labels.{'k' * 64}", {**VALID_GROUP, "labels": {"k" * 64: "v"}}),
        ("eks/nodeGroup", "labels.empty", {**VALID_GROUP, "labels": {"empty": ""}}),
        ("eks/nodeGroup", 'labels["node-role.kubernetes.io/gpu"]', {**VALID_GROUP, "labels": {"node-role.kubernetes.io/gpu": "true"}}),
        ("sqs/queue", f"tags.{'k' * 129}", {"tags": {"k" * 129: "v"}}),
        ("kms/alias", "name", {"name": "platform", "targetKeyId": "k"}),
        ("ec2/vpc", "cidrBlock", {"cidrBlock": "10.0.0.1/16"}),
        ("ec2/vpc", "cidrBlock", {"cidrBlock": "10.0.0.0/8"}),
        ("iam/rolePolicyAttachment", "policyArn", {"role": "r", "policyArn": "arn:aws:iam::aws:policy/AmazonEKSWorkerNodesPolicy"}),
        ("eks/addon", "addonName", {"clusterName": "dev", "addonName": "coredn"}),
    ],
)
def test_text_of_a_wrong_form_is_refused(world: World, short: str, path: str, inputs: dict[str, Any]) -> None:
    assert path in by_path(world.check(short, **inputs))


@pytest.mark.parametrize(
    ("short", "path", "inputs"),
    [
        ("eks/nodeGroup", "scalingConfig.minSize", {**VALID_GROUP, "scalingConfig": {"minSize": 3, "desiredSize": 3, "maxSize": 2}}),
        ("eks/nodeGroup", "scalingConfig.desiredSize", {**VALID_GROUP, "scalingConfig": {"minSize": 0, "desiredSize": 3, "maxSize": 2}}),
        ("eks/nodeGroup", "diskSize", {**VALID_GROUP, "diskSize": 50, "launchTemplate": {"id": "lt-1", "version": "1"}}),
        ("eks/nodeGroup", "instanceTypes[0]", {**VALID_GROUP, "amiType": "AL2023_x86_64_STANDARD", "instanceTypes": ["m7g.large"]}),
        (
            "eks/cluster",
            "vpcConfig.endpointPrivateAccess",
            {"roleArn": "r", "vpcConfig": {"subnetIds": ["s"], "endpointPublicAccess": False}},
        ),
        ("ec2/natGateway", "allocationId", {"subnetId": "subnet-1"}),
        ("ec2/natGateway", "vpcId", {"availabilityMode": "regional"}),
        ("ec2/vpcEndpoint", "routeTableIds", {
            "vpcId": "v", "vpcEndpointType": "Interface", "serviceName": f"com.amazonaws.{REGION}.sts", "routeTableIds": ["rtb-1"],
        }),
        ("ec2/vpcEndpoint", "serviceName", {"vpcId": "v", "serviceName": "com.amazonaws.us-east-1.s3"}),
        ("vpc/securityGroupIngressRule", "fromPort", {"securityGroupId": "sg", "ipProtocol": "-1", "cidrIpv4": "10.0.0.0/8", "fromPort": 1}),
        ("vpc/securityGroupIngressRule", "cidrIpv4", {"securityGroupId": "sg", "ipProtocol": "-1"}),
        ("kms/key", "rotationPeriodInDays", {"rotationPeriodInDays": 90}),
        ("ecr/repository", "imageTagMutabilityExclusionFilters", {"imageTagMutability": "IMMUTABLE_WITH_EXCLUSION"}),
        ("ec2/subnet", "availabilityZone", {"vpcId": "v", "cidrBlock": "10.0.0.0/24", "availabilityZone": "us-east-1a"}),
        ("eks/podIdentityAssociation", "disableSessionTags", {
            "clusterName": "dev", "namespace": "n", "serviceAccount": "s", "roleArn": "r",
            "policy": '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}',
        }),
    ],
)  # fmt: skip
def test_a_combination_that_aws_refuses_is_refused(world: World, short: str, path: str, inputs: dict[str, Any]) -> None:
    assert path in by_path(world.check(short, **inputs))


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("{", "must be a JSON object"),
        ('{"Version":"2012-10-17"}', "Statement is missing"),
        ('{"Version":"2012","Statement":[]}', "Version"),
        ('{"Version":"2012-10-17","Statement":[{"Effect":"Permit","Action":"s3:GetObject","Resource":"*"}]}', "Effect"),
        ('{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"GetObject","Resource":"*"}]}', "service:Action"),
        ('{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject"}]}', "Resource"),
        ('{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Actions":"s3:*","Resource":"*"}]}', "did you mean Action?"),
        ('{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*","Principal":"*"}]}', "Principal"),
    ],
)
def test_a_policy_document_that_iam_would_call_malformed_is_refused(world: World, document: str, reason: str) -> None:
    assert any(reason in failure.reason for failure in world.check("iam/policy", policy=document))


WEB = {
    "Action": "sts:AssumeRoleWithWebIdentity",
    "Principal": {"Federated": "arn:aws:iam::000000000000:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/A"},
}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"Action": "sts:AssumeRoleWithWebIdendity"}, "AssumeRole policy may only specify STS AssumeRole actions"),
        ({"Action": ["sts:AssumeRole", "s3:GetObject"]}, "AssumeRole policy may only specify STS AssumeRole actions"),
        ({"Principal": {"Federated": ""}}, "Federated principals must be valid domain names"),
        ({"Principal": {"Federated": ["arn:aws:iam::000000000000:role/cluster"]}}, "Federated principals must be valid domain names"),
        ({"Principal": {"Federated": "https://oidc.eks.eu-west-1.amazonaws.com/id/A"}}, "Federated principals must be valid domain names"),
    ],
)
def test_a_trust_that_iam_would_call_malformed_is_refused(world: World, changes: dict[str, Any], reason: str) -> None:
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **WEB, **changes}]}
    assert reason in by_path(world.check("iam/role", assumeRolePolicy=json.dumps(document)))["assumeRolePolicy"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"Action": ["sts:AssumeRole", "sts:TagSession", "sts:SetSourceIdentity"], "Principal": {"Service": "pods.eks.amazonaws.com"}},
        {"Principal": {"Federated": "cognito-identity.amazonaws.com"}},
        {"Principal": {"Federated": UNKNOWN}},
    ],
)
def test_a_trust_in_the_forms_that_iam_takes_is_taken(world: World, changes: dict[str, Any]) -> None:
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **WEB, **changes}]}
    assert world.check("iam/role", assumeRolePolicy=json.dumps(document)) == ()


def test_every_failure_is_told_at_once(world: World) -> None:
    failures = by_path(world.check("eks/nodeGroup", **VALID_GROUP | {"amiType": "X", "capacityType": "Y", "subnetIds": 3, "colour": "red"}))
    assert failures.keys() == {"amiType", "capacityType", "subnetIds", "colour"}


def test_unknown_values_pass_every_check_of_a_preview(world: World) -> None:
    inputs = {"clusterName": UNKNOWN, "nodeRoleArn": UNKNOWN, "subnetIds": UNKNOWN, "amiType": UNKNOWN, "taints": [UNKNOWN],
              "scalingConfig": {"minSize": UNKNOWN, "desiredSize": UNKNOWN, "maxSize": UNKNOWN}}  # fmt: skip
    assert world.check("eks/nodeGroup", **inputs) == ()


def test_a_number_that_is_whole_is_a_whole_number_however_it_travelled(world: World) -> None:
    assert world.check("kms/key", deletionWindowInDays=7.0) == ()
    assert "deletionWindowInDays" in by_path(world.check("kms/key", deletionWindowInDays=7.5))


def test_tags_that_aws_reserves_are_refused(world: World) -> None:
    assert 'tags["aws:owner"]' in by_path(world.check("ec2/vpc", cidrBlock="10.0.0.0/16", tags={"aws:owner": "me"}))


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({}, "region"),
        ({"region": "eu-west-9"}, "region"),
        ({"region": REGION, "regoin": "x"}, "regoin"),
        ({"region": REGION, "defaultTags": '{"tag": {}}'}, "defaultTags.tag"),
        ({"region": REGION, "forbiddenAccountIds": '["000000000000"]'}, "forbiddenAccountIds"),
        ({"region": REGION, "allowedAccountIds": '["12"]'}, "allowedAccountIds[0]"),
    ],
)
def test_a_provider_configuration_that_aws_would_refuse_is_refused(world: World, config: dict[str, Any], path: str) -> None:
    assert path in by_path(world.provider.check_config("urn", {}, config).failures)


def test_the_double_stands_in_for_the_account_that_the_program_expects(tmp_path: Path) -> None:
    world = World(tmp_path, allowedAccountIds='["111122223333"]')
    assert world.role().outputs["arn"].startswith("arn:aws:iam::111122223333:role/")
    assert world.provider.invoke("aws:index/getCallerIdentity:getCallerIdentity", {}, False)["accountId"] == "111122223333"
