"""EKS: clusters, node groups, add-ons, access entries, pod identities."""

from pulumi_embedded.engine.provider import UNKNOWN, CheckFailure, Properties
from pulumi_embedded.providers.aws import offerings
from pulumi_embedded.providers.aws.catalogue.references import CLUSTER, EXTERNAL_KEY, ROLE_ARN, SECURITY_GROUP, SUBNET
from pulumi_embedded.providers.aws.kind import FALSE, TRUE, AwsKind, Facts, Naming, Ref, const, found, later, made
from pulumi_embedded.providers.aws.rules import Failures, among, exclusive, instance_type, json_text, matches, network, policy
from pulumi_embedded.providers.conform import join

_EKS = "arn:aws:eks:{region}:{account}:"
_RESERVED = (".kubernetes.io", ".k8s.io", ".eks.amazonaws.com")
_MAX_TAINTS = 50
"""EKS API reference, CreateNodegroup."""


def issuer(facts: Facts) -> str:
    """The OIDC issuer of a cluster."""
    return f"https://oidc.eks.{facts.region}.amazonaws.com/id/{facts.digest('oidc')[:32].upper()}" if facts.known else UNKNOWN


def group_name(facts: Facts) -> str:
    """The Auto Scaling group behind a node group, named as EKS does."""
    return facts.text("eks-{nodeGroupName}-{hex}")


def _access(inputs: Properties, _: str) -> Failures:
    config = inputs.get("vpcConfig")
    if not isinstance(config, dict):
        return
    public, private = config.get("endpointPublicAccess"), config.get("endpointPrivateAccess")
    if public is False and private in (False, None):
        yield CheckFailure(
            "vpcConfig.endpointPrivateAccess", "public and private access cannot both be off: nobody could reach the API server"
        )
    if public is False and config.get("publicAccessCidrs"):
        yield CheckFailure("vpcConfig.publicAccessCidrs", "has no effect while endpointPublicAccess is false")


def _scaling(inputs: Properties, _: str) -> Failures:
    config = inputs.get("scalingConfig")
    if not isinstance(config, dict):
        return
    low, want, high = (config.get(name) for name in ("minSize", "desiredSize", "maxSize"))
    numbers = (int, float)
    if isinstance(low, numbers) and isinstance(high, numbers) and low > high:
        yield CheckFailure("scalingConfig.minSize", f"Minimum capacity {low} can't be greater than maximum size {high}")
    if isinstance(want, numbers) and isinstance(high, numbers) and want > high:
        yield CheckFailure("scalingConfig.desiredSize", f"desired capacity {want} can't be greater than max size {high}")
    if isinstance(want, numbers) and isinstance(low, numbers) and want < low:
        yield CheckFailure("scalingConfig.desiredSize", f"Minimum capacity {low} can't be greater than desired size {want}")


def _node_group(inputs: Properties, _: str) -> Failures:
    template, taints = inputs.get("launchTemplate"), inputs.get("taints")
    if template is not None:
        for name in ("diskSize", "remoteAccess"):
            if inputs.get(name) is not None:
                yield CheckFailure(name, f"{name} must not be given beside a launch template; put it there")
    if isinstance(template, dict) and (template.get("id") is None) == (template.get("name") is None):
        yield CheckFailure("launchTemplate", "give exactly one of id and name")
    if isinstance(taints, list) and len(taints) > _MAX_TAINTS:
        yield CheckFailure("taints", f"{len(taints)} taints; EKS allows {_MAX_TAINTS}")
    ami = inputs.get("amiType")
    if isinstance(ami, str) and ami != UNKNOWN:
        arm_image = "ARM" in ami.upper()
        for index, name in enumerate(inputs.get("instanceTypes") or []):
            if isinstance(name, str) and name != UNKNOWN and is_arm(name) != arm_image and ami != "CUSTOM":
                yield CheckFailure(
                    f"instanceTypes[{index}]", f"{name} is {'arm64' if is_arm(name) else 'x86_64'}, which AMI type {ami} is not"
                )
    if inputs.get("capacityType") == "CAPACITY_BLOCK" and template is None:
        yield CheckFailure("launchTemplate", "CAPACITY_BLOCK needs a launch template with instanceMarketOptions.marketType capacity-block")


def _labels(inputs: Properties, _: str) -> Failures:
    """EKS itself refuses some of these (eksctl-io/eksctl#4007); with the others the kubelet does not start
    (terraform-aws-modules/terraform-aws-eks#3346).
    """
    given = inputs.get("labels")
    for key in given if isinstance(given, dict) else ():
        domain = f".{key.rpartition('/')[0]}"
        if domain.endswith(_RESERVED):
            yield CheckFailure(join("labels", key), "Label cannot contain reserved prefixes [kubernetes.io/, k8s.io/, eks.amazonaws.com/]")


def is_arm(instance_type: str) -> bool:
    """Graviton families have a g after their generation: m7g, c8gn, g5g; g6 alone is a GPU family."""
    family = instance_type.partition(".")[0]
    return family == "a1" or "g" in family.lstrip("abcdefghijklmnopqrstuvwxyz")


def _access_entry(inputs: Properties, _: str) -> Failures:
    kind = inputs.get("type", "STANDARD")
    if kind not in ("STANDARD", UNKNOWN):
        for name in ("kubernetesGroups", "userName"):
            if inputs.get(name):
                yield CheckFailure(name, f"an access entry of type {kind} takes none; only STANDARD does")


def _pod_identity(inputs: Properties, _: str) -> Failures:
    if inputs.get("policy") is not None and inputs.get("disableSessionTags") is not True:
        yield CheckFailure("disableSessionTags", "must be true when a session policy is given; attribute-based rules then see no tags")


def _scope(inputs: Properties, _: str) -> Failures:
    scope = inputs.get("accessScope")
    if isinstance(scope, dict) and scope.get("type") == "namespace" and not scope.get("namespaces"):
        yield CheckFailure("accessScope.namespaces", "is required by a scope of type namespace")
    if isinstance(scope, dict) and scope.get("type") == "cluster" and scope.get("namespaces"):
        yield CheckFailure("accessScope.namespaces", "a scope of type cluster takes none")


KINDS = (
    AwsKind(
        type="aws:eks/cluster:Cluster",
        operation="eks.CreateCluster",
        api={
            "vpcConfig": "resourcesVpcConfig",
            "enabledClusterLogTypes": "logging.clusterLogging.types",
            "kubeApiServerConfig.eventTtl": "",
            "defaultAddonsToRemoves": "",
        },
        id="{name}",
        arn=_EKS + "cluster/{name}",
        named=Naming(longest=100, prefix=""),
        references={
            "roleArn": ROLE_ARN,
            "vpcConfig.subnetIds[]": SUBNET,
            "vpcConfig.securityGroupIds[]": SECURITY_GROUP,
            "encryptionConfig.provider.keyArn": Ref("KMS key", "free", "InvalidParameterException", EXTERNAL_KEY),
        },
        handles={"EKS cluster": ("name",), "security group": ("vpcConfig.clusterSecurityGroupId",)},
        outputs={
            "version": const(offerings.KUBERNETES_VERSIONS[-1]),
            "accessConfig.authenticationMode": const("CONFIG_MAP"),
            "accessConfig.bootstrapClusterCreatorAdminPermissions": TRUE,
            "bootstrapSelfManagedAddons": TRUE,
            "certificateAuthority": lambda f: {"data": found("certificate")(f)},
            "clusterId": later(""),
            "createdAt": "{created}",
            "deletionProtection": FALSE,
            "endpoint": found("endpoint"),
            "identities": lambda f: [{"oidcs": [{"issuer": issuer(f)}]}],
            "kubernetesNetworkConfig.ipFamily": const("ipv4"),
            "kubernetesNetworkConfig.serviceIpv4Cidr": later("172.20.0.0/16"),
            "platformVersion": later("eks.1"),
            "status": later("ACTIVE"),
            "upgradePolicy.supportType": const("EXTENDED"),
            "vpcConfig.clusterSecurityGroupId": made("sg-"),
            "vpcConfig.endpointPrivateAccess": FALSE,
            "vpcConfig.endpointPublicAccess": TRUE,
            "vpcConfig.publicAccessCidrs": later(["0.0.0.0/0"]),
            "vpcConfig.vpcId": found("vpcId"),
        },
        volatile=("platformVersion",),
        replaces=(
            "name",
            "roleArn",
            "bootstrapSelfManagedAddons",
            "encryptionConfig.provider",
            "kubernetesNetworkConfig.ipFamily",
            "kubernetesNetworkConfig.serviceIpv4Cidr",
            "outpostConfig",
            "accessConfig.bootstrapClusterCreatorAdminPermissions",
        ),
        rules=(
            among("version", offerings.KUBERNETES_VERSIONS, "EKS's release calendar"),
            among("encryptionConfig.resources[]", ("secrets",), "EKS"),
            matches("kubeApiServerConfig.eventTtl", r"[0-9hms]+", "a duration such as 1h30m"),
            network("vpcConfig.publicAccessCidrs[]", 0, 32),
            network("kubernetesNetworkConfig.serviceIpv4Cidr", 12, 24),
            _access,
        ),
    ),
    AwsKind(
        type="aws:eks/nodeGroup:NodeGroup",
        operation="eks.CreateNodegroup",
        api={"instanceTypes": "ec2.RunInstances:InstanceType", "nodeRoleArn": "nodeRole"},
        id="{clusterName}:{nodeGroupName}",
        arn=_EKS + "nodegroup/{clusterName}/{nodeGroupName}/{hex}",
        named=Naming(field="nodeGroupName", longest=63, prefix="nodeGroupNamePrefix"),
        references={
            "clusterName": Ref("EKS cluster", "blocks", "ResourceNotFoundException"),
            "nodeRoleArn": ROLE_ARN,
            "subnetIds[]": SUBNET,
            "launchTemplate.id": Ref("launch template", "free", "InvalidRequestException"),
            "launchTemplate.name": Ref("launch template name", "free", "InvalidRequestException"),
        },
        handles={"node group": ("id",), "Auto Scaling group": ("resources[].autoscalingGroups[].name",)},
        outputs={
            "amiType": later("AL2023_x86_64_STANDARD"),
            "capacityType": const("ON_DEMAND"),
            "instanceTypes": lambda f: [] if f.inputs.get("launchTemplate") else ["t3.medium"],
            "releaseVersion": found("releaseVersion"),
            "version": found("version"),
            "resources": lambda f: [{"autoscalingGroups": [{"name": group_name(f)}], "remoteAccessSecurityGroupId": ""}],
            "status": later("ACTIVE"),
            "updateConfig": later({"maxUnavailable": 1}),
            "nodeRepairConfig": later({"enabled": False}),
        },
        replaces=(
            "amiType",
            "capacityType",
            "clusterName",
            "diskSize",
            "instanceTypes",
            "launchTemplate.id",
            "launchTemplate.name",
            "nodeGroupName",
            "nodeGroupNamePrefix",
            "nodeRoleArn",
            "remoteAccess",
            "subnetIds",
        ),
        ordered=("instanceTypes",),
        rules=(
            instance_type("instanceTypes[]"),
            exclusive("updateConfig.maxUnavailable", "updateConfig.maxUnavailablePercentage"),
            exclusive("nodeRepairConfig.maxParallelNodesRepairedCount", "nodeRepairConfig.maxParallelNodesRepairedPercentage"),
            exclusive("nodeRepairConfig.maxUnhealthyNodeThresholdCount", "nodeRepairConfig.maxUnhealthyNodeThresholdPercentage"),
            among("version", offerings.KUBERNETES_VERSIONS, "EKS's release calendar"),
            matches("releaseVersion", r"\d+\.\d+\.\d+-\d{8}", "an AMI release such as 1.36.2-20260714"),
            matches("nodeGroupName", r"[0-9A-Za-z][A-Za-z0-9_-]{0,62}", "a node group name of at most 63 letters, digits, - and _"),
            _scaling,
            _node_group,
            _labels,
        ),
    ),
    AwsKind(
        type="aws:eks/addon:Addon",
        operation="eks.CreateAddon",
        api={"resolveConflictsOnCreate": "resolveConflicts", "resolveConflictsOnUpdate": "eks.UpdateAddon:resolveConflicts"},
        id="{clusterName}:{addonName}",
        arn=_EKS + "addon/{clusterName}/{addonName}/{hex}",
        references={
            "clusterName": CLUSTER,
            "serviceAccountRoleArn": ROLE_ARN,
            "podIdentityAssociations[].roleArn": ROLE_ARN,
        },
        handles={"add-on": ("id",)},
        outputs={
            "createdAt": "{created}",
            "modifiedAt": "{created}",
            "addonVersion": later("v1.0.0-eksbuild.1"),
            "configurationValues": later(""),
        },
        replaces=("addonName", "clusterName", "namespaceConfig"),
        rules=(
            among("addonName", offerings.ADDONS, "EKS"),
            matches("addonVersion", r"v\d+\.\d+\.\d+(-[a-z0-9.-]+)?", "an add-on version such as v1.19.0-eksbuild.1"),
            json_text("configurationValues"),
            exclusive("serviceAccountRoleArn", "podIdentityAssociations"),
        ),
    ),
    AwsKind(
        type="aws:eks/accessEntry:AccessEntry",
        operation="eks.CreateAccessEntry",
        id="{clusterName}:{principalArn}",
        # Who else exists in the account (people's roles, CI's) is not known to the double, so the principal is checked by its form only.
        references={"clusterName": CLUSTER},
        handles={"access entry": ("id",)},
        outputs={
            "accessEntryArn": _EKS + "access-entry/{clusterName}/role/{account}/{hex}",
            "createdAt": "{created}",
            "modifiedAt": "{created}",
            "kubernetesGroups": later([]),
            "type": const("STANDARD"),
            "userName": lambda f: f.text("{principalArn}"),
        },
        replaces=("clusterName", "principalArn", "type"),
        rules=(
            among(
                "type",
                ("STANDARD", "EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX"),
                "EKS API reference",
            ),
            matches("principalArn", r"arn:aws[a-z-]*:iam::\d{12}:(role|user)/.+", "the ARN of an IAM role or user"),
            _access_entry,
        ),
    ),
    AwsKind(
        type="aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        operation="eks.AssociateAccessPolicy",
        id="{clusterName}#{principalArn}#{policyArn}",
        references={"={clusterName}:{principalArn}": Ref("access entry", "falls", "ResourceNotFoundException")},
        outputs={"associatedAt": "{created}", "modifiedAt": "{created}"},
        updatable=False,
        rules=(among("policyArn", offerings.CLUSTER_ACCESS_POLICIES, "EKS"), _scope),
    ),
    AwsKind(
        type="aws:eks/podIdentityAssociation:PodIdentityAssociation",
        operation="eks.CreatePodIdentityAssociation",
        id="a-{hex}",
        references={"clusterName": CLUSTER, "roleArn": ROLE_ARN, "targetRoleArn": ROLE_ARN},
        handles={"pod identity": ("={clusterName}/{namespace}/{serviceAccount}",)},
        outputs={
            "associationArn": _EKS + "podidentityassociation/{clusterName}/{id}",
            "associationId": "{id}",
            "externalId": later(""),
        },
        replaces=("clusterName", "namespace", "serviceAccount"),
        rules=(policy("policy", "identity"), _pod_identity),
    ),
)
