"""`eks:index:Cluster`: the resources that the component of pulumi-eks registers, for the part of its inputs that the double models.

Pure description: which children, with which inputs, from which options. The registering and the kubeconfig are the provider's.
The trap it refuses: CoreDNS without a default node group waits 20 minutes for nodes that only come after the component
(github.com/pulumi/pulumi-eks#1819).
"""

import json
from collections.abc import Mapping
from hashlib import sha1
from typing import Any

from pulumi_embedded.engine.provider import UNKNOWN, Properties, ProviderError
from pulumi_embedded.providers.conform import nonconformities
from pulumi_embedded.providers.schema import schema_of

CLUSTER = "eks:index:Cluster"
_CLUSTER_POLICY = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"

MODELLED = frozenset({
    "accessEntries", "authenticationMode", "bootstrapSelfManagedAddons", "clusterSecurityGroup", "clusterSecurityGroupTags", "clusterTags",
    "corednsAddonOptions", "createInstanceRole", "createOidcProvider", "deletionProtection", "enabledClusterLogTypes",
    "encryptionConfigKeyArn", "endpointPrivateAccess", "endpointPublicAccess", "ipFamily", "kubeProxyAddonOptions",
    "kubernetesServiceIpAddressRange", "name", "nodeAssociatePublicIpAddress", "nodeSecurityGroupTags", "privateSubnetIds",
    "providerCredentialOpts", "publicAccessCidrs", "publicSubnetIds", "serviceRole", "skipDefaultNodeGroup", "skipDefaultSecurityGroups",
    "subnetIds", "tags", "upgradePolicy", "useDefaultVpcCni", "version", "vpcCniOptions", "vpcId",
})  # fmt: skip
_CNI_ENVIRONMENT = {
    "cniConfigureRpfilter": "AWS_VPC_K8S_CNI_CONFIGURE_RPFILTER",
    "cniExternalSnat": "AWS_VPC_K8S_CNI_EXTERNALSNAT",
    "customNetworkConfig": "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG",
    "enablePodEni": "ENABLE_POD_ENI",
    "enablePrefixDelegation": "ENABLE_PREFIX_DELEGATION",
    "eniConfigLabelDef": "ENI_CONFIG_LABEL_DEF",
    "eniMtu": "AWS_VPC_ENI_MTU",
    "logLevel": "AWS_VPC_K8S_CNI_LOGLEVEL",
    "warmEniTarget": "WARM_ENI_TARGET",
    "warmIpTarget": "WARM_IP_TARGET",
    "warmPrefixTarget": "WARM_PREFIX_TARGET",
}
"""Options of the VPC CNI -> its environment (github.com/aws/amazon-vpc-cni-k8s, README)."""
_CNI_OTHER = frozenset(
    {"addonVersion", "configurationValues", "enableNetworkPolicy", "resolveConflictsOnCreate", "resolveConflictsOnUpdate", "serviceAccountRoleArn"}
)  # fmt: skip


def refuse(inputs: Properties) -> None:
    """ProviderError with everything about the inputs that pulumi-eks or the double does not know."""
    failures = [f"{failure.property}: {failure.reason}" for failure in nonconformities(inputs, schema_of(CLUSTER).inputs, CLUSTER)]
    known = schema_of(CLUSTER).inputs.members
    foreign = [key for key in sorted(inputs.keys() & known.keys() - MODELLED) if inputs[key] not in (None, False)]
    failures += [f"{key}: is not modelled by the embedded eks provider; leave it out, or write the resource itself" for key in foreign]
    if inputs.get("skipDefaultNodeGroup") is not True:
        failures.append("skipDefaultNodeGroup: must be true: the double makes no default node group; use aws.eks.NodeGroup")
    if _is_enabled(inputs, "corednsAddonOptions"):
        failures.append(
            "corednsAddonOptions.enabled: must be false: without a default node group CoreDNS would wait 20 minutes for nodes; "
            "install it as aws.eks.Addon after the node groups"
        )
    public = inputs.get("endpointPublicAccess")
    if public is False and inputs.get("publicAccessCidrs"):
        failures.append("publicAccessCidrs: has no effect while endpointPublicAccess is false")
    options = inputs.get("vpcCniOptions") or {}
    unmodelled = sorted(options.keys() - _CNI_ENVIRONMENT.keys() - _CNI_OTHER)
    failures += [f"vpcCniOptions.{key}: is not modelled by the embedded eks provider" for key in unmodelled]
    if not (inputs.get("subnetIds") or inputs.get("privateSubnetIds") or inputs.get("publicSubnetIds")):
        failures.append("subnetIds: is missing: the simulated account has no default VPC; give subnetIds, or public and private ones")
    if failures:
        raise ProviderError("; ".join(failures))


DECIDED_AT_CREATION = ("accessConfig.bootstrapClusterCreatorAdminPermissions", "bootstrapSelfManagedAddons")
"""Inputs of the cluster whose later changes the component ignores; they would replace it (pulumi-eks, nodejs/eks/cluster/cluster.ts)."""


def role(name: str, inputs: Properties) -> tuple[str, Properties]:
    """The cluster's service role, where none is given."""
    trust = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": ["sts:AssumeRole", "sts:TagSession"], "Principal": {"Service": "eks.amazonaws.com"}}],
    }
    document = {"assumeRolePolicy": json.dumps(trust), "description": "Allows EKS to manage clusters on your behalf."}
    return f"{name}-eksRole-role", document | _tagged(inputs)


def role_attachment(name: str, role_name: str) -> tuple[str, Properties]:
    """Named by the digest of the policy, as the component does."""
    digest = sha1(_CLUSTER_POLICY.encode(), usedforsecurity=False).hexdigest()[:8]
    return f"{name}-eksRole-{digest}", {"policyArn": _CLUSTER_POLICY, "role": role_name}


def cluster(name: str, inputs: Properties, role_arn: str, security_groups: list[str]) -> tuple[str, Properties]:
    """The cluster itself."""
    subnets = inputs.get("subnetIds") or [*(inputs.get("publicSubnetIds") or []), *(inputs.get("privateSubnetIds") or [])]
    network = {
        "subnetIds": subnets,
        "securityGroupIds": security_groups or None,
        "endpointPrivateAccess": inputs.get("endpointPrivateAccess"),
        "endpointPublicAccess": inputs.get("endpointPublicAccess"),
        "publicAccessCidrs": inputs.get("publicAccessCidrs"),
    }
    key = inputs.get("encryptionConfigKeyArn")
    address = {"ipFamily": inputs.get("ipFamily"), "serviceIpv4Cidr": inputs.get("kubernetesServiceIpAddressRange")}
    described = {
        "name": inputs.get("name"),
        "roleArn": role_arn,
        "vpcConfig": _given(network),
        "version": inputs.get("version"),
        "enabledClusterLogTypes": inputs.get("enabledClusterLogTypes"),
        "encryptionConfig": {"provider": {"keyArn": key}, "resources": ["secrets"]} if key else None,
        "kubernetesNetworkConfig": _given(address) or None,
        "accessConfig": _access(inputs.get("authenticationMode")),
        "bootstrapSelfManagedAddons": inputs.get("bootstrapSelfManagedAddons"),
        "deletionProtection": inputs.get("deletionProtection"),
        "upgradePolicy": inputs.get("upgradePolicy"),
        "tags": {"Name": f"{name}-eksCluster", **(inputs.get("tags") or {}), **(inputs.get("clusterTags") or {})},
    }
    return f"{name}-eksCluster", _given(described)


def addons(name: str, inputs: Properties, cluster_name: str) -> list[tuple[str, Properties]]:
    """VPC CNI and kube-proxy, where they are not left to others."""
    found: list[tuple[str, Properties]] = []
    if inputs.get("useDefaultVpcCni") is not True:
        found.append((f"{name}-vpc-cni", _addon("vpc-cni", cluster_name, _cni(inputs.get("vpcCniOptions") or {}), inputs)))
    if _is_enabled(inputs, "kubeProxyAddonOptions"):
        options = inputs.get("kubeProxyAddonOptions") or {}
        found.append(
            (f"{name}-kube-proxy", _addon("kube-proxy", cluster_name, {**options, "addonVersion": options.get("version")}, inputs))
        )
    return found


def access_entries(name: str, inputs: Properties, cluster_name: str) -> list[tuple[str, Properties, list[tuple[str, Properties]]]]:
    """Every access entry with the associations of its policies, by name."""
    found: list[tuple[str, Properties, list[tuple[str, Properties]]]] = []
    for key, entry in sorted((inputs.get("accessEntries") or {}).items()):
        principal = entry["principalArn"]
        described = {
            "clusterName": cluster_name,
            "principalArn": principal,
            "kubernetesGroups": entry.get("kubernetesGroups"),
            "userName": entry.get("username"),
            "type": entry.get("type"),
            "tags": {**(inputs.get("tags") or {}), **(entry.get("tags") or {})} or None,
        }
        policies = [
            (
                f"{name}-{key}-{policy}",
                {
                    "clusterName": cluster_name,
                    "principalArn": principal,
                    "policyArn": association["policyArn"],
                    "accessScope": association["accessScope"],
                },
            )
            for policy, association in sorted((entry.get("accessPolicies") or {}).items())
        ]
        found.append((f"{name}-{key}", _given(described), policies))
    return found


def cluster_group(name: str, inputs: Properties) -> tuple[str, Properties]:
    """The component's own security group of the control plane."""
    tags = {"Name": f"{name}-eksClusterSecurityGroup", **(inputs.get("tags") or {}), **(inputs.get("clusterSecurityGroupTags") or {})}
    group = {"vpcId": inputs.get("vpcId"), "revokeRulesOnDelete": True, "tags": tags}
    return f"{name}-eksClusterSecurityGroup", _given(group)


def node_group(name: str, inputs: Properties, cluster_name: str) -> tuple[str, Properties]:
    """The component's own security group of nodes."""
    owned = {UNKNOWN: "owned"} if cluster_name == UNKNOWN else {f"kubernetes.io/cluster/{cluster_name}": "owned"}
    tags: Any = {"Name": f"{name}-nodeSecurityGroup", **owned, **(inputs.get("tags") or {}), **(inputs.get("nodeSecurityGroupTags") or {})}
    group = {"vpcId": inputs.get("vpcId"), "revokeRulesOnDelete": True, "tags": UNKNOWN if UNKNOWN in owned else tags}
    return f"{name}-nodeSecurityGroup", _given(group)


def group_rules(name: str, clusters: str, nodes: str) -> list[tuple[str, Properties]]:
    """What control plane and nodes may say to each other."""
    everything = {"fromPort": 0, "toPort": 0, "protocol": "-1", "cidrBlocks": ["0.0.0.0/0"]}
    return [
        (f"{name}-eksClusterInternetEgressRule", {"type": "egress", "securityGroupId": clusters, **everything}),
        (f"{name}-eksClusterIngressRule", _rule(clusters, nodes, 443, 443)),
        (
            f"{name}-eksNodeIngressRule",
            {"type": "ingress", "securityGroupId": nodes, "fromPort": 0, "toPort": 0, "protocol": "-1", "self": True},
        ),
        (f"{name}-eksNodeClusterIngressRule", _rule(nodes, clusters, 1025, 65535)),
        (f"{name}-eksExtApiServerClusterIngressRule", _rule(nodes, clusters, 443, 443)),
        (f"{name}-eksNodeInternetEgressRule", {"type": "egress", "securityGroupId": nodes, **everything}),
    ]


def oidc_provider(name: str, issuer: str) -> tuple[str, Properties]:
    """The identity provider that IRSA needs."""
    return f"{name}-oidcProvider", {"clientIdLists": ["sts.amazonaws.com"], "url": issuer}


def _rule(to: str, source: str, low: int, high: int) -> Properties:
    return {"type": "ingress", "securityGroupId": to, "sourceSecurityGroupId": source, "fromPort": low, "toPort": high, "protocol": "tcp"}


def _access(mode: str | None) -> Properties | None:
    return {"authenticationMode": mode, "bootstrapClusterCreatorAdminPermissions": True} if mode else None


def _is_enabled(inputs: Properties, key: str) -> bool:
    options = inputs.get(key)
    return not isinstance(options, dict) or options.get("enabled") is not False


def _addon(addon: str, cluster_name: str, options: Mapping[str, Any], inputs: Properties) -> Properties:
    values = options.get("configurationValues")
    described = {
        "addonName": addon,
        "clusterName": cluster_name,
        "addonVersion": options.get("addonVersion"),
        "configurationValues": json.dumps(values, sort_keys=True) if values else None,
        "resolveConflictsOnCreate": options.get("resolveConflictsOnCreate") or "OVERWRITE",
        "resolveConflictsOnUpdate": options.get("resolveConflictsOnUpdate") or "OVERWRITE",
        "serviceAccountRoleArn": options.get("serviceAccountRoleArn"),
    }
    return _given(described) | _tagged(inputs)


def _cni(options: Mapping[str, Any]) -> Mapping[str, Any]:
    environment = {
        variable: str(options[key]).lower() if isinstance(options[key], bool) else str(options[key])
        for key, variable in sorted(_CNI_ENVIRONMENT.items())
        if options.get(key) is not None
    }
    policy = {"enableNetworkPolicy": str(options["enableNetworkPolicy"]).lower()} if options.get("enableNetworkPolicy") is not None else {}
    values = {**(options.get("configurationValues") or {}), **policy, **({"env": environment} if environment else {})}
    return {**options, "configurationValues": values}


def _tagged(inputs: Properties) -> Properties:
    return {"tags": inputs["tags"]} if inputs.get("tags") else {}


def _given(values: Mapping[str, Any]) -> Properties:
    return {key: value for key, value in values.items() if value is not None}
