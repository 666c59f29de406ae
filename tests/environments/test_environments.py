"""Every environment as people review it: the real program, the real packs, the embedded engine."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.environments.environments import environment, spoiling

pytestmark = pytest.mark.needs("in-memory providers")

BLOCK = {"kind": "block", "id": "cr-0123456789abcdef0", "ends": "2027-03-01T11:30:00Z"}
CHOICES: dict[str, dict[str, Any]] = {
    "block": {"instance_types": ["p5en.48xlarge"], "capacity": BLOCK, "size": {"min": 0, "max": 2}, "workload_class": "batch"},
    "reserved": {"instance_types": ["p4d.24xlarge"], "capacity": {"kind": "reservation", "id": "cr-0123456789abcdef1"}},
    "shares": {"instance_types": ["g6e.2xlarge"], "sharing": {"mode": "mps", "replicas": 4}, "packing": "spread"},
    "turns": {"instance_types": ["g6.xlarge"], "sharing": {"mode": "slice", "replicas": 2}, "workload_class": "throughput"},
    "cut": {"instance_types": ["p5.48xlarge"], "sharing": {"mode": "mig", "layout": {"3g.40gb": 1, "1g.10gb": 3}}},
    "warm": {"instance_types": ["g6.12xlarge"], "warm": {"size": 1, "state": "running"}, "model_cache": "disk"},
    "repaired": {
        "instance_types": ["g6.4xlarge"],
        "repair": {"overrides": [{"reason": "NvidiaXID74Error", "action": "reboot", "wait": "5m"}], "parallel": 2},
        "update": {"strategy": "default", "max_unavailable": 2},
    },
    "tainted": {"instance_types": ["g6.2xlarge"], "taints": [{"key": "team"}]},
}
"""One pool for each choice that a pool offers and that no environment makes."""

LATE = "running-aws-ebs-csi-driver-volumes-key"
"""The one policy that names a key to be made: it is judged before its step, not in the first preview."""


@pytest.mark.parametrize("name", ["dev", "staging", "prod"])
def test_an_environment_previews_clean_with_its_pack(tmp_path: Path, name: str) -> None:
    with environment(tmp_path, f"{name}-cluster") as found:
        result = found.preview()
    assert (result.ok, result.errors) == (True, ())
    assert set(result.changes) == {"create"} and result.changes["create"] > 150
    late = {(v.level, v.resource.rsplit("::", 1)[-1]) for v in result.violations}
    assert late == {("advisory", LATE)}, "everything else of a new environment is judged before anything of it exists"


OWN_STACK_FILES = """
from functools import partial
from pathlib import Path
from stacks import settings
settings.load = partial(settings.load, folder=Path(__file__).parent / "stacks")
"""
"""Lets the program read the other layers' stack files in the test's folder, and not beside its own code."""


def by_irsa(sections: dict[str, Any]) -> None:
    sections["workload_identity"] = "irsa"


def test_an_environment_by_irsa_previews_clean_before_there_is_an_issuer(tmp_path: Path) -> None:
    with environment(tmp_path, "prod-cluster") as found:
        found.rewrite(by_irsa)
        found.program(OWN_STACK_FILES)
        result = found.preview()
    assert (result.ok, result.errors) == (True, ())
    late = {(v.level, v.resource.rsplit("::", 1)[-1]) for v in result.violations}
    roles = {"joining-vpc-cni-role", "running-aws-ebs-csi-driver-role"}
    assert late == {("advisory", name) for name in (LATE, *roles)}, "whom the two trust is judged when the cluster has its issuer"


def test_an_environment_by_irsa_is_made_and_its_roles_trust_the_issuer(tmp_path: Path) -> None:
    with environment(tmp_path, "dev-cluster") as found:
        found.rewrite(by_irsa)
        found.program(OWN_STACK_FILES)
        result = found.up()
        again = found.up()
    assert (result.ok, result.errors, result.violations) == (True, (), ())
    assert set(again.changes) == {"same"}
    resources = json.loads(found.state_file.read_text())["checkpoint"]["latest"]["resources"]
    (provider,) = [r["outputs"]["arn"] for r in resources if r["type"] == "aws:iam/openIdConnectProvider:OpenIdConnectProvider"]
    host, trusted, told = provider.partition("/")[2], dict[str, str](), dict[str, str]()
    for r in resources:
        if r["type"] == "aws:iam/role:Role" and "WebIdentity" in r["inputs"]["assumeRolePolicy"]:
            (statement,) = json.loads(r["inputs"]["assumeRolePolicy"])["Statement"]
            assert statement["Principal"] == {"Federated": provider}
            assert statement["Condition"]["StringEquals"].pop(f"{host}:aud") == "sts.amazonaws.com"
            trusted[r["outputs"]["arn"]] = statement["Condition"]["StringEquals"][f"{host}:sub"]
        if r["type"] == "aws:eks/addon:Addon" and "serviceAccountRoleArn" in r["inputs"]:
            told[r["inputs"]["addonName"]] = r["inputs"]["serviceAccountRoleArn"]
    assert {name: trusted[arn] for name, arn in told.items()} == {
        "aws-ebs-csi-driver": "system:serviceaccount:kube-system:ebs-csi-controller-sa",
        "vpc-cni": "system:serviceaccount:kube-system:aws-node",
    }
    assert len(trusted) == len(told)


@pytest.mark.parametrize("nat", ["none", "single", "regional"])
def test_the_provider_and_aws_accept_every_choice_that_the_layer_offers(tmp_path: Path, nat: str) -> None:
    def choose(sections: dict[str, Any]) -> None:
        base = next(pool for pool in sections["pools"] if pool["name"] == "l4")
        plain = {"workload_class": "latency", "zones": ["us-west-2a"], "size": {"min": 1, "max": 2}}
        sections["pools"] = [
            {"name": name, **plain, **chosen, "ami": {**base["ami"], **chosen.get("ami", {})}} for name, chosen in CHOICES.items()
        ]
        sections["network"]["nat"] = nat
        sections["control_plane"]["support"] = "EXTENDED"

    def mirrored(sections: dict[str, Any]) -> None:
        sections["registry"]["mirror"] = "333333333333.dkr.ecr.us-west-2.amazonaws.com/mirror"

    with environment(tmp_path, "prod-cluster") as found:
        found.rewrite(choose)
        found.rewrite(mirrored, "prod-platform")
        found.program(OWN_STACK_FILES)
        result = found.preview()
    assert result.errors == ()
    assert {v.policy for v in result.violations if v.level == "mandatory"} == set()
    assert result.ok


OVER_HTTP = (
    '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::333333333333:role/reader"},'
    ' "Action": "s3:GetObject", "Resource": "arn:aws:s3:::headway-prod-ledger-333333333333/*"}]}'
)
PUBLIC, UNPINNED, UNENCRYPTED, UNPROTECTED = "public", "unpinned", "unencrypted", "unprotected"
SPOILT = {
    ("Cluster control-plane-eks", "cluster-endpoint-private", PUBLIC): {"endpointPublicAccess": True},
    ("Cluster control-plane-eks", "cluster-version-pinned", UNPINNED): {"version": None},
    ("Cluster control-plane-eks", "cluster-secrets-encrypted", UNENCRYPTED): {"encryptionConfigKeyArn": None},
    ("Cluster control-plane-eks", "cluster-deletion-protected", UNPROTECTED): {"deletionProtection": False},
    ("Subnet network-private-a", "subnet-gives-no-public-address", PUBLIC): {"mapPublicIpOnLaunch": True},
    ("SecurityGroupIngressRule network-endpoints-https", "no-ingress-from-anywhere", PUBLIC): {"cidrIpv4": "0.0.0.0/0"},
    ("LaunchTemplate l4-template", "no-public-instance", PUBLIC): {"networkInterfaces": [{"associatePublicIpAddress": "true"}]},
    ("NodeGroup l4-a", "node-without-remote-access", PUBLIC): {"remoteAccess": {"ec2SshKey": "mine"}, "launchTemplate": None},
    ("BucketPublicAccessBlock storage-artifacts-closed", "bucket-blocks-public-access", PUBLIC): {"restrictPublicBuckets": False},
    ("BucketPolicy storage-artifacts-policy", "resource-policy-not-public", PUBLIC): {
        "policy": '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",'
        ' "Resource": "arn:aws:s3:::headway-prod-artifacts-333333333333/*"}]}'
    },
    ("Addon joining-vpc-cni", "addon-version-pinned", UNPINNED): {"addonVersion": None},
    ("NodeGroup l4-b", "node-release-pinned", UNPINNED): {"releaseVersion": None},
    ("Repository storage-images-vllm", "repository-tags-immutable", UNPINNED): {"imageTagMutability": "MUTABLE"},
    ("LaunchTemplate system-template", "node-volumes-encrypted", UNENCRYPTED): {
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {}}]
    },
    ("BucketServerSideEncryptionConfiguration storage-ledger-encryption", "bucket-encrypted-by-key", UNENCRYPTED): {
        "rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}}]
    },
    ("BucketPolicy storage-ledger-policy", "bucket-tls-only", UNENCRYPTED): {"policy": OVER_HTTP},
    ("Queue storage-batch-live", "queue-encrypted", UNENCRYPTED): {"kmsMasterKeyId": None},
    ("Repository storage-images-fetch", "repository-encrypted-by-key", UNENCRYPTED): {"encryptionConfigurations": None},
    ("LogGroup control-plane-logs", "logs-encrypted-by-key", UNENCRYPTED): {"kmsKeyId": None},
    ("Bucket storage-telemetry-bucket", "no-forced-destroy", UNPROTECTED): {"forceDestroy": True},
    ("Repository storage-images-tritonserver", "no-forced-destroy", UNPROTECTED): {"forceDelete": True},
}
"""(resource by kind and name, rule that refuses it, what it would be) -> the one input that is changed."""


def named(urn: str) -> str:
    """`Subnet network-private-a` of a URN."""
    *_, types, name = urn.split("::")
    return f"{types.rsplit(':', 1)[-1]} {name}"


def test_production_refuses_all_that_is_public_unpinned_or_unprotected_at_once(tmp_path: Path) -> None:
    mutations: dict[str, dict[str, object]] = {}
    for (resource, _, _), change in SPOILT.items():
        mutations.setdefault(resource, {}).update(change)
    with environment(tmp_path, "prod-cluster") as found:
        found.program(spoiling(mutations))
        result = found.preview()
    assert (result.ok, result.errors) == (False, ())
    refused = {(named(v.resource), v.policy) for v in result.violations if v.level == "mandatory"}
    wanted = {(resource, rule) for resource, rule, _ in SPOILT}
    assert wanted <= refused, f"let through: {sorted(wanted - refused)}"
    side_effects = {("BucketPolicy storage-artifacts-policy", "bucket-tls-only")}
    inner = {("Cluster control-plane-eks-eksCluster", rule) for resource, rule, _ in SPOILT if resource == "Cluster control-plane-eks"}
    assert refused - wanted <= side_effects | inner, "a rule refuses what nobody changed"


def test_production_refuses_settings_that_only_passing_environments_may_have(tmp_path: Path) -> None:
    with environment(tmp_path, "prod-cluster") as found:
        found.settings("public_cidrs: []", 'public_cidrs: ["203.0.113.0/24"]')
        found.settings("deletion_protection: true", "deletion_protection: false")
        found.settings("disposable: false", "disposable: true")
        result = found.preview()
    refused = {v.policy for v in result.violations if v.level == "mandatory"}
    assert refused == {"bucket-protected", "cluster-deletion-protected", "cluster-endpoint-private", "no-forced-destroy"}
