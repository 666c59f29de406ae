"""The role of the nodes: join the cluster, pull images, hand out pod identities. No bucket, no queue, no secret.

A node group that is created before its role's policies are attached never becomes ready, so groups depend on `ready`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.naming import ROLE_LIMIT, physical
from components.permissions import Statement, document, service_trust

MANAGED = {
    "pull": "arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly",
    "worker": "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
}


@dataclass(frozen=True, kw_only=True)
class NodeRoleArgs:
    """The cluster whose nodes these are."""

    cluster_name: str
    account_id: str
    region: str
    boundary: str | None = None


class NodeRole(pulumi.ComponentResource):
    """Creates the IAM role of all nodes of a cluster, with the policies that a node needs to join."""

    arn: pulumi.Output[str]
    ready: Sequence[pulumi.Resource]
    """What must be attached before the first node."""

    def __init__(self, name: str, args: NodeRoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:nodes:NodeRole", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        role = aws.iam.Role(
            f"{name}-role",
            name=physical(args.cluster_name, "nodes", limit=ROLE_LIMIT),
            description=f"Nodes of {args.cluster_name}",
            assume_role_policy=service_trust("ec2.amazonaws.com"),
            permissions_boundary=args.boundary,
            opts=child,
        )
        attached = [
            aws.iam.RolePolicyAttachment(f"{name}-{policy}", role=role.name, policy_arn=arn, opts=child)
            for policy, arn in sorted(MANAGED.items())
        ]
        # The first pull through a cache makes the repository; nodes may make those of this cluster's caches only.
        fill = Statement(
            sid="FillCaches",
            actions=["ecr:BatchImportUpstreamImage", "ecr:CreateRepository"],
            resources=[f"arn:aws:ecr:{args.region}:{args.account_id}:repository/{args.cluster_name}-*"],
        )
        filling = aws.iam.RolePolicy(f"{name}-caches", role=role.name, name="caches", policy=document(fill), opts=child)
        self.arn, self.ready = role.arn, [*attached, filling]
        self.register_outputs({"arn": role.arn})
