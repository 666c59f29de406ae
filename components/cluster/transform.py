"""What `pulumi_eks.Cluster` cannot be told by its arguments: how the scheduler packs, that the creator is no
administrator, and what access entries were called before. Pure.

The component bundles an older AWS provider and always keeps the cluster's creator as administrator; a transform on
it sets both fields on the `aws.eks.Cluster` inside (docs/adr/0004). The trap: the scheduler field needs an explicit
AWS provider of 7.50 or later on the component.
"""

from collections.abc import Callable
from typing import Any

import pulumi

CLUSTER_TYPE, ROLE_TYPE = "aws:eks/cluster:Cluster", "aws:iam/role:Role"
ENTRY_TYPES = ("aws:eks/accessEntry:AccessEntry", "aws:eks/accessPolicyAssociation:AccessPolicyAssociation")
PRINCIPAL = "principal"
"""How the names of access entries begin; a principal's rights, once there instead, come and go."""
FORMERLY = ("administrator", "member")
WEIGHTS = {"nvidia.com/gpu": 10, "cpu": 1, "memory": 1}
"""A node's GPUs are what it costs; CPU and memory only break ties."""


def scheduler() -> dict[str, Any]:
    """Pods fill the fullest node that fits, so that whole nodes fall free. Services that must spread say so
    themselves.
    """
    resources = [{"name": name, "weight": weight} for name, weight in WEIGHTS.items()]
    return {"nodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated", "resources": resources}}}


def access(*, creator_is_administrator: bool) -> dict[str, Any]:
    """Access entries alone decide, and the creator gets none unless that is chosen."""
    return {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": creator_is_administrator}


def of_cluster(
    *, creator_is_administrator: bool, zonal_shift: bool, boundary: str | None = None
) -> Callable[[pulumi.ResourceTransformArgs], pulumi.ResourceTransformResult | None]:
    """The transform for the component. It touches the cluster inside, the former names of access entries, and with a boundary the cluster's
    role.
    """

    def transform(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        if args.type_ == ROLE_TYPE and boundary:
            return pulumi.ResourceTransformResult({**args.props, "permissionsBoundary": boundary}, args.opts)
        if args.type_ in ENTRY_TYPES:
            former = [pulumi.Alias(name=args.name.replace(f"-{PRINCIPAL}-", f"-{rights}-", 1)) for rights in FORMERLY]
            return pulumi.ResourceTransformResult(
                args.props, pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(aliases=former))
            )
        if args.type_ != CLUSTER_TYPE:
            return None
        props = {
            **args.props,
            "kubeSchedulerConfig": scheduler(),
            "accessConfig": access(creator_is_administrator=creator_is_administrator),
            "zonalShiftConfig": {"enabled": zonal_shift},
        }
        return pulumi.ResourceTransformResult(props, args.opts)

    return transform
