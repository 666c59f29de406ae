"""Nodes without GPUs, over all zones, for everything that needs none.

CoreDNS and the controllers land here first, so this pool carries no taint; the GPU pools do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.labels import SYSTEM, WORKLOAD_LABEL
from components.nodes import rolling, scaling, template
from components.nodes.launch import NodeOptions
from components.nodes.scaling import LiveGroup
from headway.contract.pool import SystemPool
from headway.wire import POOL

IMAGE_FAMILY, ON_DEMAND = "AL2023_x86_64_STANDARD", "ON_DEMAND"

AT_ONCE = 1
"""Nodes that an update takes out of service together."""


@dataclass(frozen=True, kw_only=True)
class SystemNodesArgs:
    """`subnet_ids` are those of the pool's zones."""

    pool: SystemPool
    cluster_name: pulumi.Input[str]
    kubernetes_version: str
    role_arn: pulumi.Input[str]
    subnet_ids: Sequence[pulumi.Input[str]]
    volumes_key_arn: pulumi.Input[str]
    tags: dict[str, str]
    live: Mapping[str, LiveGroup]
    """Groups that are there already, by logical name."""
    after: Sequence[pulumi.Resource]
    """What must be there before a node can join."""


class SystemNodes(pulumi.ComponentResource):
    """Creates the managed node group without GPUs, on which add-ons and controllers run, and its launch template."""

    group: aws.eks.NodeGroup

    def __init__(self, name: str, args: SystemNodesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:nodes:SystemNodes", name, {}, opts)
        pool = args.pool
        launch = template.create(
            f"{name}-template",
            template.TemplateArgs(
                disk=pool.disk,
                options=NodeOptions(stripe_nvme=False, parallel_pull=False),
                volumes_key_arn=args.volumes_key_arn,
                tags={**args.tags, POOL: pool.name},
                more={},
            ),
            pulumi.ResourceOptions(parent=self),
        )
        group = scaling.system_group(name)
        live = args.live.get(group)
        again = scaling.anew(live, ON_DEMAND, pool.instance_types, pool.zones)
        desired, ignored = scaling.desired(pool.size, live, again=again)
        self.group = aws.eks.NodeGroup(
            group,
            cluster_name=args.cluster_name,
            node_role_arn=args.role_arn,
            subnet_ids=list(args.subnet_ids),
            ami_type=IMAGE_FAMILY,
            version=args.kubernetes_version,
            release_version=pool.release,
            capacity_type=ON_DEMAND,
            instance_types=list(pool.instance_types),
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(desired_size=desired, min_size=pool.size.min, max_size=pool.size.max),
            update_config=aws.eks.NodeGroupUpdateConfigArgs(max_unavailable=AT_ONCE),
            node_repair_config=aws.eks.NodeGroupNodeRepairConfigArgs(enabled=True),
            launch_template=template.reference(launch),
            labels={POOL: pool.name, WORKLOAD_LABEL: SYSTEM},
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(args.after),
                ignore_changes=[*ignored, *rolling.postponed(live, pool.release, again=again)],
                custom_timeouts=rolling.wait(pool.size.max, AT_ONCE),
            ),
        )
        self.register_outputs({"group": self.group.node_group_name})
