"""The EKS control plane: closed by default, encrypted, audited, its versions pinned.

The traps: the private endpoint lets in the cluster's own members only, so whoever deploys must be let in by name;
`pulumi_eks` would install CoreDNS before there is a node and wait 20 minutes for it, so every add-on is installed by
`components.cluster.addons` instead; EKS makes its log group itself, kept for ever, unless it is there first; and the
component asks the issuer of the region for its certificate in each plan, which fails inside a VPC with the endpoint
`eks`, whose private name hides the issuer's (aws/containers-roadmap#2038; pulumi-eks, nodejs/eks/cluster/cert-thumprint.ts).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Literal

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks

from components.cluster.transform import PRINCIPAL, of_cluster

ADMINISTRATOR_POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
API_PORT = 443
LOGS = ("api", "audit", "authenticator", "controllerManager", "scheduler")


@dataclass(frozen=True, kw_only=True)
class ControlPlaneArgs:
    """`cluster_name` is the physical name; `subnet_ids` hold the control plane's interfaces."""

    cluster_name: str
    kubernetes_version: str
    vpc_id: pulumi.Input[str]
    subnet_ids: Sequence[pulumi.Input[str]]
    public_cidrs: tuple[IPv4Network, ...]
    private_cidrs: tuple[IPv4Network, ...]
    private_security_groups: tuple[str, ...]
    administrators: tuple[str, ...]
    groups: Mapping[str, Sequence[str]]
    """Kubernetes groups, and the ARNs of who is in each."""
    creator_is_administrator: bool
    deletion_protection: bool
    log_days: int
    support: Literal["STANDARD", "EXTENDED"]
    secrets_key_arn: pulumi.Input[str]
    logs_key_arn: pulumi.Input[str]
    boundary: str | None = None
    """What the cluster's role never goes beyond."""


class ControlPlane(pulumi.ComponentResource):
    """Creates an EKS cluster without nodes: endpoint, encryption, logs and access entries. `name` waits until it
    exists.
    """

    name: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    authority: pulumi.Output[str]
    """The certificate of whoever signs the endpoint's, in base64."""
    oidc_issuer: pulumi.Output[str]
    oidc_provider_arn: pulumi.Output[str]
    security_group_id: pulumi.Output[str]
    """The group that EKS makes for control plane and nodes."""

    def __init__(self, name: str, args: ControlPlaneArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:cluster:ControlPlane", name, {}, opts)
        logs = aws.cloudwatch.LogGroup(
            f"{name}-logs",
            name=f"/aws/eks/{args.cluster_name}/cluster",
            retention_in_days=args.log_days,
            kms_key_id=args.logs_key_arn,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.eks = eks.Cluster(
            f"{name}-eks",
            name=args.cluster_name,
            version=args.kubernetes_version,
            upgrade_policy=aws.eks.ClusterUpgradePolicyArgs(support_type=args.support),
            deletion_protection=args.deletion_protection,
            vpc_id=args.vpc_id,
            subnet_ids=list(args.subnet_ids),
            endpoint_private_access=True,
            endpoint_public_access=bool(args.public_cidrs),
            public_access_cidrs=[str(cidr) for cidr in args.public_cidrs] or None,
            authentication_mode=eks.AuthenticationMode.API,
            access_entries=access_entries(args.administrators, args.groups),
            encryption_config_key_arn=args.secrets_key_arn,
            enabled_cluster_log_types=list(LOGS),
            skip_default_node_group=True,
            skip_default_security_groups=True,
            create_instance_role=False,
            bootstrap_self_managed_addons=False,
            use_default_vpc_cni=True,
            coredns_addon_options=eks.CoreDnsAddonOptionsArgs(enabled=False),
            kube_proxy_addon_options=eks.KubeProxyAddonOptionsArgs(enabled=False),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[logs],
                transforms=[of_cluster(creator_is_administrator=args.creator_is_administrator, zonal_shift=True, boundary=args.boundary)],
            ),
        )
        self.name = self.eks.eks_cluster.apply(lambda cluster: cluster.name)
        self.endpoint = self.eks.eks_cluster.apply(lambda cluster: cluster.endpoint)
        self.authority = self.eks.eks_cluster.apply(lambda cluster: cluster.certificate_authority.apply(lambda found: str(found.data)))
        self.oidc_issuer = self.eks.oidc_issuer
        self.oidc_provider_arn = self._introduce_issuer(name).arn
        self.security_group_id = self.eks.cluster_security_group_id
        self._let_in(name, args)
        self.register_outputs({"name": self.name})

    def _introduce_issuer(self, name: str) -> aws.iam.OpenIdConnectProvider:
        """So that roles may trust the cluster's tokens. IAM reads the certificate itself where it is given none (API reference,
        CreateOpenIDConnectProvider).
        """
        former = pulumi.Alias(name=f"{name}-eks-oidcProvider", parent=self.eks)
        return aws.iam.OpenIdConnectProvider(
            f"{name}-issuer",
            url=self.oidc_issuer.apply(lambda host: f"https://{host.removeprefix('https://')}"),
            client_id_lists=["sts.amazonaws.com"],
            opts=pulumi.ResourceOptions(parent=self, aliases=[former]),
        )

    def _let_in(self, name: str, args: ControlPlaneArgs) -> None:
        """Who else than the cluster's own members reaches the private endpoint, which is behind the group that EKS made."""
        for role, cidr, group in (
            *((str(cidr).replace("/", "-"), str(cidr), None) for cidr in sorted(args.private_cidrs)),
            *((group, None, group) for group in sorted(args.private_security_groups)),
        ):
            aws.vpc.SecurityGroupIngressRule(
                f"{name}-from-{role}",
                security_group_id=self.security_group_id,
                description="The API server, for those who deploy",
                ip_protocol="tcp",
                from_port=API_PORT,
                to_port=API_PORT,
                cidr_ipv4=cidr,
                referenced_security_group_id=group,
                opts=pulumi.ResourceOptions(parent=self),
            )


def access_entries(administrators: Sequence[str], groups: Mapping[str, Sequence[str]]) -> dict[str, eks.AccessEntryArgs]:
    """One entry for each principal, as EKS takes no second: its Kubernetes groups, and for an administrator the policy. What it may do is not
    in its name: under another one a second entry would be made before the first went.

    Raises RunError for two principals of one name, of which one would be lost.
    """
    found: dict[str, eks.AccessEntryArgs] = {}
    for arn in sorted({*administrators, *(member for members in groups.values() for member in members)}):
        name = f"{PRINCIPAL}-{_slug(arn)}"
        if name in found:
            raise pulumi.RunError(
                f"{arn} has the name of another principal, so one of their access entries would be lost. Rename one of the two."
            )
        found[name] = eks.AccessEntryArgs(
            principal_arn=arn,
            kubernetes_groups=sorted(group for group, members in groups.items() if arn in members) or None,
            access_policies={"administrator": _administration()} if arn in administrators else None,
        )
    return found


def _administration() -> eks.AccessPolicyAssociationArgs:
    scope = aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster")
    return eks.AccessPolicyAssociationArgs(policy_arn=ADMINISTRATOR_POLICY, access_scope=scope)


def _slug(arn: str) -> str:
    """The role's or user's own name: it ends up in logical names, which must not move when another entry is added."""
    return arn.rsplit("/", 1)[-1].lower()
