"""The AWS identity of a Kubernetes service account: one interface, two bindings, of which an environment has one.

EKS Pod Identity is the default. IRSA stays necessary where Pod Identity does not reach: Fargate, other clusters, and
KEDA's `identityOwner: workload`. The traps: with IRSA the service account must carry `annotations` before its first pod
is made, with Pod Identity it must not; a pod of a service account that has an association gets Pod Identity whatever is
annotated; and IRSA's credentials have no session tags, so the role carries the one by which buckets know a namespace.
Source: aws/amazon-eks-pod-identity-webhook, pkg/handler/handler.go (`buildPodPatchConfig`, `addEnvToContainer`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pulumi
import pulumi_aws as aws

from components.naming import ROLE_LIMIT, physical
from components.permissions import VERSION, Statement, document, irsa_trust, pod_identity_trust

ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"
REGIONAL_ANNOTATION = "eks.amazonaws.com/sts-regional-endpoints"
"""Said although it is EKS's default: the mesh and the endpoints of a VPC lead to the region's STS alone."""
NAMESPACE_TAG = "kubernetes-namespace"
"""The tag of a pod's credentials that names its namespace: EKS Pod Identity puts it on each session; under IRSA it
stands on the role, whose tags count as much (IAM user guide, "AWS global condition context keys", aws:PrincipalTag).
"""
POD_IDENTITY_AGENT = "169.254.170.23/32"
"""The link-local address where a pod fetches its credentials. Source: EKS User Guide, "Understand how EKS Pod
Identity works".
"""


INLINE_LIMIT = 10_240
"""Characters without white space that IAM takes in all inline policies of a role together (IAM user guide, "IAM and
AWS STS quotas").
"""


_ARN_CHARACTERS = 80


class Binding(StrEnum):
    """How a service account gets its role. Not what the role may do."""

    POD_IDENTITY = "pod-identity"
    IRSA = "irsa"


@dataclass(frozen=True, kw_only=True)
class ClusterIdentity:
    """What identities need to know of their cluster. The name is plain: ARNs and role names are made of it."""

    name: str
    waiting_name: pulumi.Input[str] | None = None
    """The same name as an output that waits for the cluster; only the layer that makes the cluster needs it."""
    account_id: str
    region: str
    binding: Binding = Binding.POD_IDENTITY
    oidc_issuer: pulumi.Input[str] | None = None
    """Only IRSA needs the issuer and its provider."""
    oidc_provider_arn: pulumi.Input[str] | None = None
    boundary: str | None = None
    """ARN of the policy that no role of a workload goes beyond; None where the environment generates no access."""

    @property
    def arn(self) -> str:
        return f"arn:aws:eks:{self.region}:{self.account_id}:cluster/{self.name}"


@dataclass(frozen=True, kw_only=True)
class WorkloadIdentityArgs:
    """`policies` are inline documents by name; `managed_policies` are ARNs of AWS's own."""

    cluster: ClusterIdentity
    namespace: str
    service_account: str
    policies: Mapping[str, Sequence[Statement]] = field(default_factory=dict)
    managed_policies: Mapping[str, str] = field(default_factory=dict)


class WorkloadIdentity(pulumi.ComponentResource):
    """Creates an IAM role that one Kubernetes service account may assume, with exactly the given permissions."""

    role_arn: pulumi.Output[str]
    role_name: pulumi.Output[str]
    annotations: dict[str, pulumi.Input[str]]
    """What the service account must carry: the role under IRSA, nothing under Pod Identity."""
    addon_role_arn: pulumi.Output[str] | None
    """What an EKS add-on must be told, which annotates its service account itself: the role under IRSA."""

    def __init__(self, name: str, args: WorkloadIdentityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:identity:WorkloadIdentity", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        irsa = args.cluster.binding is Binding.IRSA
        if (characters := inline_characters(args.policies)) > INLINE_LIMIT:
            raise pulumi.RunError(
                f"What service account {args.service_account} of namespace {args.namespace} may do takes {characters} characters, and IAM "
                f"takes {INLINE_LIMIT} for a role. The apply would fail at its policies. Have fewer contracts name what it reaches, or "
                "objects of shorter paths."
            )
        role = aws.iam.Role(
            f"{name}-role",
            name=physical(args.cluster.name, args.namespace, args.service_account, limit=ROLE_LIMIT),
            description=f"Service account {args.service_account} of namespace {args.namespace} in {args.cluster.name}",
            assume_role_policy=_trust(args),
            permissions_boundary=args.cluster.boundary,
            tags={NAMESPACE_TAG: args.namespace} if irsa else None,
            opts=child,
        )
        for policy, statements in sorted(args.policies.items()):
            aws.iam.RolePolicy(f"{name}-{policy}", role=role.name, name=policy, policy=document(*statements), opts=child)
        for policy, arn in sorted(args.managed_policies.items()):
            aws.iam.RolePolicyAttachment(f"{name}-{policy}", role=role.name, policy_arn=arn, opts=child)
        if not irsa:
            aws.eks.PodIdentityAssociation(
                f"{name}-association",
                cluster_name=args.cluster.name if args.cluster.waiting_name is None else args.cluster.waiting_name,
                namespace=args.namespace,
                service_account=args.service_account,
                role_arn=role.arn,
                opts=child,
            )
        self.role_arn, self.role_name = role.arn, role.name
        self.annotations = {ROLE_ANNOTATION: role.arn, REGIONAL_ANNOTATION: "true"} if irsa else {}
        self.addon_role_arn = role.arn if irsa else None
        self.register_outputs({"role_arn": role.arn, "role_name": role.name})


def inline_characters(policies: Mapping[str, Sequence[Statement]]) -> int:
    """Of these policies together; what a plan does not know yet counts as an ARN."""
    written = ({"Version": VERSION, "Statement": [_known(each.wire()) for each in found]} for found in policies.values())
    return sum(len(json.dumps(each, separators=(",", ":"))) for each in written)


def _known(value: Any) -> Any:
    match value:
        case pulumi.Output():
            return "?" * _ARN_CHARACTERS
        case Mapping():
            return {key: _known(each) for key, each in value.items()}
        case list() | tuple():
            return [_known(each) for each in value]
        case _:
            return value


def _trust(args: WorkloadIdentityArgs) -> pulumi.Output[str]:
    cluster = args.cluster
    if cluster.binding is Binding.POD_IDENTITY:
        return pod_identity_trust(cluster.arn, args.namespace, args.service_account)
    if cluster.oidc_provider_arn is None or cluster.oidc_issuer is None:
        raise ValueError(f"{args.namespace}/{args.service_account} is bound by IRSA, but its cluster names no OIDC provider")
    return irsa_trust(cluster.oidc_provider_arn, cluster.oidc_issuer, args.namespace, args.service_account)
