"""The control plane and its add-ons: closed, encrypted, audited, and told what its component cannot be told by
argument.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest
from moto.iam.aws_managed_policies import aws_managed_policies_data

from components.cluster.addons import BEFORE_NODES, ON_NODES, Addons, AddonsArgs
from components.cluster.control_plane import ControlPlane, ControlPlaneArgs
from components.cluster.transform import of_cluster
from components.identity import Binding, ClusterIdentity, WorkloadIdentity, WorkloadIdentityArgs
from components.permissions import Statement
from components.versions import ADDONS
from headway.wire import ACCELERATOR, MIG_CONFIG, MIG_STATE, POOL
from tests.components.program import cloud_outputs
from tests.components.recording import EKS_CLUSTER, EKS_COMPONENT, Recording, record

CLUSTER = ClusterIdentity(
    name="headway-test",
    account_id="123456789012",
    region="us-east-1",
    oidc_issuer="https://oidc.eks.us-east-1.amazonaws.com/id/ABC",
    oidc_provider_arn="arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/ABC",
)
AWS_POLICIES: Mapping[str, Any] = json.loads(aws_managed_policies_data)
"""AWS's own policies by name, as moto lists them."""


def as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def control_plane(**changes: Any) -> Recording:
    given: dict[str, Any] = {
        "cluster_name": "headway-test",
        "kubernetes_version": "1.36",
        "vpc_id": "vpc-1",
        "subnet_ids": ["subnet-1", "subnet-2"],
        "public_cidrs": (),
        "private_cidrs": (),
        "private_security_groups": (),
        "administrators": ("arn:aws:iam::123456789012:role/deploy",),
        "groups": {},
        "creator_is_administrator": False,
        "deletion_protection": True,
        "log_days": 90,
        "support": "STANDARD",
        "secrets_key_arn": "arn:aws:kms:us-east-1:123456789012:key/secrets",
        "logs_key_arn": "arn:aws:kms:us-east-1:123456789012:key/logs",
    }

    def program() -> None:
        provider = aws.Provider("aws", region="us-east-1")
        plane = ControlPlane("plane", ControlPlaneArgs(**{**given, **changes}), pulumi.ResourceOptions(provider=provider))
        pulumi.export("endpoint", plane.endpoint)
        pulumi.export("authority", plane.authority)
        pulumi.export("name", plane.name)

    return record(program, outputs=cloud_outputs)


def test_the_endpoint_is_private_unless_ranges_are_named() -> None:
    found = control_plane().one(EKS_COMPONENT).inputs
    assert (found["endpointPrivateAccess"], found["endpointPublicAccess"]) == (True, False)
    assert "publicAccessCidrs" not in found


def test_named_ranges_open_the_endpoint_to_themselves_only() -> None:
    found = control_plane(public_cidrs=(IPv4Network("203.0.113.0/24"),)).one(EKS_COMPONENT).inputs
    assert (found["endpointPrivateAccess"], found["endpointPublicAccess"]) == (True, True)
    assert found["publicAccessCidrs"] == ["203.0.113.0/24"]


def test_the_log_group_is_there_before_the_cluster_would_make_its_own() -> None:
    found = control_plane()
    group = found.one("aws:cloudwatch/logGroup:LogGroup")
    assert (group.inputs["name"], group.inputs["retentionInDays"]) == ("/aws/eks/headway-test/cluster", 90)
    assert group.urn in found.one(EKS_COMPONENT).depends_on


def test_every_control_plane_log_is_kept() -> None:
    logs = control_plane().one(EKS_COMPONENT).inputs["enabledClusterLogTypes"]
    assert sorted(logs) == ["api", "audit", "authenticator", "controllerManager", "scheduler"]


def test_iam_learns_of_the_issuer_without_anybody_asking_it() -> None:
    found = control_plane()
    provider = found.one("aws:iam/openIdConnectProvider:OpenIdConnectProvider").inputs
    assert provider == {"clientIdLists": ["sts.amazonaws.com"], "url": "https://oidc.eks.mock/id/1"}
    assert not found.one(EKS_COMPONENT).inputs.get("createOidcProvider"), (
        "it fetches the certificate, and no name leads to it inside the VPC"
    )


def test_the_component_installs_no_add_on_itself() -> None:
    found = control_plane().one(EKS_COMPONENT).inputs
    assert found["bootstrapSelfManagedAddons"] is False
    assert found["useDefaultVpcCni"] is True, "the component would install its own, unpinned"
    assert found["corednsAddonOptions"]["enabled"] is False, "it would wait 20 minutes for a node"
    assert found["kubeProxyAddonOptions"]["enabled"] is False


def test_each_administrator_has_an_access_entry_named_after_itself() -> None:
    entries = control_plane().one(EKS_COMPONENT).inputs["accessEntries"]
    assert list(entries) == ["principal-deploy"]
    assert entries["principal-deploy"]["principalArn"] == "arn:aws:iam::123456789012:role/deploy"


VISION, DEPLOY = "arn:aws:iam::123456789012:role/vision", "arn:aws:iam::123456789012:role/deploy"


def test_the_private_endpoint_lets_in_those_who_deploy_and_no_other_port() -> None:
    found = control_plane(private_cidrs=(IPv4Network("10.200.0.0/24"),), private_security_groups=("sg-0123456789abcdef0",))
    rules = {r.name: dict(r.inputs) for r in found.of_type("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule")}
    assert set(rules) == {"plane-from-10.200.0.0-24", "plane-from-sg-0123456789abcdef0"}
    assert {rule["securityGroupId"] for rule in rules.values()} == {"sg-cluster"}, "the group that EKS made guards the endpoint"
    assert {(rule["ipProtocol"], rule["fromPort"], rule["toPort"]) for rule in rules.values()} == {("tcp", 443, 443)}
    assert rules["plane-from-10.200.0.0-24"]["cidrIpv4"] == "10.200.0.0/24"
    assert rules["plane-from-sg-0123456789abcdef0"]["referencedSecurityGroupId"] == "sg-0123456789abcdef0"


def test_a_tenants_people_are_in_their_groups_and_administer_nothing() -> None:
    entries = control_plane(groups={"vision-releases": [VISION], "vision-ml": [VISION]}).one(EKS_COMPONENT).inputs["accessEntries"]
    assert entries["principal-vision"] == {"principalArn": VISION, "kubernetesGroups": ["vision-ml", "vision-releases"]}


def test_an_administrator_who_is_in_a_group_has_one_entry() -> None:
    entries = control_plane(groups={"vision-ml": [DEPLOY]}).one(EKS_COMPONENT).inputs["accessEntries"]
    assert list(entries) == ["principal-deploy"], "EKS takes a principal once"
    assert entries["principal-deploy"]["kubernetesGroups"] == ["vision-ml"]
    assert set(entries["principal-deploy"]["accessPolicies"]) == {"administrator"}


def test_an_entry_keeps_its_name_when_its_principal_becomes_an_administrator() -> None:
    groups = {"vision-ml": [VISION]}
    before, after = (
        control_plane(groups=groups, administrators=administrators).one(EKS_COMPONENT).inputs["accessEntries"]
        for administrators in ((DEPLOY,), (DEPLOY, VISION))
    )
    assert before.keys() == after.keys(), "the second entry is made before the first goes, and EKS takes a principal once"


@pytest.mark.parametrize("former", ["administrator", "member"])
@pytest.mark.parametrize("kind", ["accessEntry:AccessEntry", "accessPolicyAssociation:AccessPolicyAssociation"])
def test_an_entry_that_was_named_after_its_rights_is_not_made_anew(former: str, kind: str) -> None:
    asked = pulumi.ResourceTransformArgs(True, f"aws:eks/{kind}", "plane-eks-principal-deploy", {}, pulumi.ResourceOptions())
    changed = of_cluster(creator_is_administrator=False, zonal_shift=True)(asked)
    named = [alias.name for alias in changed.opts.aliases or [] if isinstance(alias, pulumi.Alias)] if changed else []
    assert f"plane-eks-{former}-deploy" in named


def test_two_principals_of_one_name_are_refused() -> None:
    with pytest.raises(pulumi.RunError, match="name of another principal"):
        control_plane(groups={"vision-ml": [VISION, "arn:aws:iam::123456789012:role/team/vision"]})


@pytest.mark.parametrize("stays", [True, False])
def test_the_creator_stays_an_administrator_only_if_chosen(stays: bool) -> None:
    access = control_plane(creator_is_administrator=stays).one(EKS_CLUSTER).inputs["accessConfig"]
    assert access["bootstrapClusterCreatorAdminPermissions"] is stays


def test_the_transform_leaves_everything_else_alone() -> None:
    transform = of_cluster(creator_is_administrator=False, zonal_shift=True)
    args = pulumi.ResourceTransformArgs(True, "aws:iam/role:Role", "role", {"a": 1}, pulumi.ResourceOptions())
    assert transform(args) is None
    cluster = pulumi.ResourceTransformArgs(True, EKS_CLUSTER, "cluster", {"name": "kept"}, pulumi.ResourceOptions())
    changed = transform(cluster)
    assert changed is not None
    assert set(changed.props) == {"accessConfig", "kubeSchedulerConfig", "name", "zonalShiftConfig"}


def test_the_way_to_the_cluster_is_its_address_and_the_name_waits_for_it() -> None:
    exports = control_plane().exports
    assert (exports["endpoint"], exports["authority"]) == ("https://cluster.example", "Q0E=")
    assert exports["name"] == "headway-test"


def addons(names: tuple[str, ...], cluster: ClusterIdentity = CLUSTER) -> Recording:
    def program() -> None:
        args = AddonsArgs(
            identity=cluster,
            names=names,
            volumes_key_arn="arn:aws:kms:us-east-1:123456789012:key/volumes",
            volume_tags={"platform.io/environment": "test"},
        )
        Addons("addons", args, pulumi.ResourceOptions(provider=aws.Provider("aws", region="us-east-1")))

    return record(program, outputs=cloud_outputs)


def configuration(name: str) -> Any:
    found = addons((*BEFORE_NODES, *ON_NODES)).one("aws:eks/addon:Addon", f"addons-{name}")
    return json.loads(found.inputs["configurationValues"])


def test_every_pinned_add_on_is_installed_once() -> None:
    assert sorted((*BEFORE_NODES, *ON_NODES)) == sorted(ADDONS)


def test_the_monitoring_agent_sees_gpus_behind_taints() -> None:
    agent = configuration("eks-node-monitoring-agent")
    assert agent["dcgmAgent"]["tolerations"] == [{"operator": "Exists"}], "node repair would replace healthy GPU nodes"


def matches(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """As the scheduler reads one term of a node affinity: every expression of it holds."""
    has = {one["key"]: {labels[one["key"]]} if one["key"] in labels else set[str]() for one in term["matchExpressions"]}
    asked = [(one["operator"], has[one["key"]], set(one.get("values", ()))) for one in term["matchExpressions"]]
    return all({"Exists": bool(found), "DoesNotExist": not found, "In": bool(found & of)}[how] for how, found, of in asked)


GPU_NODE = {"kubernetes.io/arch": "amd64", POOL: "large-models", ACCELERATOR: "H100"}
MIG_NODE = GPU_NODE | {MIG_CONFIG: "all-1g.10gb"}


@pytest.mark.parametrize(
    ("labels", "runs"),
    [
        ({"kubernetes.io/arch": "amd64", POOL: "system"}, False),
        (GPU_NODE | {"kubernetes.io/arch": "arm64"}, False),
        (GPU_NODE, True),
        (MIG_NODE, False),
        (MIG_NODE | {MIG_STATE: "pending"}, False),
        (MIG_NODE | {MIG_STATE: "failed"}, False),
        (MIG_NODE | {MIG_STATE: "success"}, True),
    ],
)
def test_the_monitoring_agent_holds_no_gpu_that_mig_is_still_cutting(labels: Mapping[str, str], runs: bool) -> None:
    affinity = configuration("eks-node-monitoring-agent")["dcgmAgent"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert any(matches(term, labels) for term in terms) is runs


def test_the_network_enforces_policies_and_hands_out_prefixes() -> None:
    network = configuration("vpc-cni")
    assert network["enableNetworkPolicy"] == "true", "the default-deny policies would be decoration"
    assert network["env"]["ENABLE_PREFIX_DELEGATION"] == "true"


def test_volumes_attach_on_tainted_nodes() -> None:
    assert configuration("aws-ebs-csi-driver")["node"]["tolerateAllTaints"] is True


def test_a_claimed_volume_says_whose_it_is() -> None:
    tags = configuration("aws-ebs-csi-driver")["controller"]["extraVolumeTags"]
    assert tags == {"platform.io/environment": "test"}, "after a destroy nobody could find what the cluster's claims left behind"


def test_the_volumes_driver_changes_no_volume_that_it_did_not_make() -> None:
    attached = addons(("aws-ebs-csi-driver",)).one("aws:iam/rolePolicyAttachment:RolePolicyAttachment").inputs["policyArn"]
    documents = {f"arn:aws:iam::aws:policy{each['Path']}{name}": each["Document"] for name, each in AWS_POLICIES.items()}
    unbound = [
        statement["Action"]
        for statement in documents[attached]["Statement"]
        if any("volume" in arn for arn in as_list(statement["Resource"])) and "Condition" not in statement
    ]
    assert unbound == [], "those of other clusters of the account could be taken off their nodes"


def test_an_add_on_waits_for_its_identity() -> None:
    found = addons(("vpc-cni",))
    association = found.one("aws:eks/podIdentityAssociation:PodIdentityAssociation").urn
    assert association in found.one("aws:eks/addon:Addon").depends_on


def test_under_irsa_an_add_on_is_told_its_role_and_no_agent_is_installed() -> None:
    found = addons((*BEFORE_NODES, *ON_NODES), replace(CLUSTER, binding=Binding.IRSA))
    told = {r.inputs["addonName"]: r.inputs.get("serviceAccountRoleArn") for r in found.of_type("aws:eks/addon:Addon")}
    assert {name: arn for name, arn in told.items() if arn} == {
        "aws-ebs-csi-driver": "arn:aws:mock:::addons-aws-ebs-csi-driver-role",
        "vpc-cni": "arn:aws:mock:::addons-vpc-cni-role",
    }
    assert set(ADDONS) - set(told) == {"eks-pod-identity-agent"}
    assert not found.of_type("aws:eks/podIdentityAssociation:PodIdentityAssociation")


def identity(binding: Binding) -> Recording:
    def program() -> None:
        args = WorkloadIdentityArgs(
            cluster=replace(CLUSTER, binding=binding),
            namespace="vision",
            service_account="model",
            policies={"artifacts": [Statement(sid="Read", actions=["s3:GetObject"], resources=["arn:aws:s3:::b/vision/*"])]},
        )
        found = WorkloadIdentity("id", args, pulumi.ResourceOptions(provider=aws.Provider("aws", region="us-east-1")))
        pulumi.export("annotations", found.annotations)

    return record(program, outputs=cloud_outputs)


def test_both_bindings_give_the_same_permissions() -> None:
    pod, irsa = identity(Binding.POD_IDENTITY), identity(Binding.IRSA)
    assert pod.one("aws:iam/rolePolicy:RolePolicy").inputs == irsa.one("aws:iam/rolePolicy:RolePolicy").inputs


def test_pod_identity_binds_by_association_and_irsa_by_annotation() -> None:
    pod, irsa = identity(Binding.POD_IDENTITY), identity(Binding.IRSA)
    assert len(pod.of_type("aws:eks/podIdentityAssociation:PodIdentityAssociation")) == 1
    assert pod.exports["annotations"] == {}
    assert not irsa.of_type("aws:eks/podIdentityAssociation:PodIdentityAssociation")
    assert irsa.exports["annotations"] == {
        "eks.amazonaws.com/role-arn": "arn:aws:mock:::id-role",
        "eks.amazonaws.com/sts-regional-endpoints": "true",
    }


def test_the_credentials_of_a_pod_name_its_namespace_under_either_binding() -> None:
    """EKS tags each session of Pod Identity; a session of IRSA has the tags of its role."""
    roles = {binding: identity(binding).one("aws:iam/role:Role").inputs for binding in Binding}
    assert "tags" not in roles[Binding.POD_IDENTITY]
    assert roles[Binding.IRSA]["tags"] == {"kubernetes-namespace": "vision"}


def test_irsa_trusts_one_service_account_for_one_audience() -> None:
    (statement,) = json.loads(identity(Binding.IRSA).one("aws:iam/role:Role").inputs["assumeRolePolicy"])["Statement"]
    host = "oidc.eks.us-east-1.amazonaws.com/id/ABC"
    assert statement == {
        "Effect": "Allow",
        "Principal": {"Federated": f"arn:aws:iam::123456789012:oidc-provider/{host}"},
        "Action": ["sts:AssumeRoleWithWebIdentity"],
        "Condition": {"StringEquals": {f"{host}:aud": "sts.amazonaws.com", f"{host}:sub": "system:serviceaccount:vision:model"}},
    }


def test_a_wildcard_without_a_reason_is_an_error() -> None:
    with pytest.raises(ValueError, match="without a reason"):
        Statement(sid="All", actions=["s3:GetObject"], resources=["*"])
    with pytest.raises(ValueError, match="without a reason"):
        Statement(sid="All", actions=["s3:*"], resources=["arn:aws:s3:::b"])
    Statement(sid="Refuse", effect="Deny", actions=["s3:*"], resources=["*"])


@pytest.mark.parametrize(
    "names",
    [{}, {"resources": ["arn:aws:s3:::b"], "all_resources_but": ["arn:aws:s3:::c"]}, {"all_resources_but": ["arn:aws:s3:::b"]}],
    ids=["nothing", "both", "allows all but"],
)
def test_a_permission_says_on_what_and_spares_only_in_a_denial(names: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must name its resources"):
        Statement(sid="Odd", actions=["s3:GetObject"], reason="none", **names)
