"""A GPU pool: one node group in each of its zones, from one launch template.

The traps: a group over several zones cannot balance scarce GPUs, and a reservation is bound to one zone, hence one
group a zone; an update that launches before it terminates needs room that a reservation does not have, hence the
pool's own update strategy; and groups without an order between them are updated at once, which drains a service in
every zone, hence one zone after another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pulumi
import pulumi_aws as aws

from components.nodes import gpu_node, rolling, scaling, template
from components.nodes.launch import NodeOptions
from components.nodes.scaling import LiveGroup
from headway.contract.pool import Pool
from headway.contract.pool_parts import CapacityBlock, Repair, Reservation
from headway.wire import ACCELERATOR_READY, POOL

FAST_PULL_MIB_PER_SECOND = 600
"""Below this the disk, not the network, is what a parallel image pull waits for."""

DRAINED_BEFORE_END = timedelta(hours=1)
"""EC2 begins to terminate a capacity block's instances 30 minutes before its end; a drain may take ten minutes for
each node.
"""

_REPAIRS = {"none": "NoAction", "reboot": "Reboot", "replace": "Replace"}
_WARM_STATES = {"running": "RUNNING", "stopped": "STOPPED"}
_STRATEGIES = {"default": "DEFAULT", "minimal": "MINIMAL"}
_CAPACITY_TYPES = {"block": "CAPACITY_BLOCK", "on_demand": "ON_DEMAND", "reservation": "ON_DEMAND", "spot": "SPOT"}


@dataclass(frozen=True, kw_only=True)
class GpuPoolArgs:
    """`subnet_ids` holds the private subnet of each zone."""

    pool: Pool
    cluster_name: pulumi.Input[str]
    kubernetes_version: str
    role_arn: pulumi.Input[str]
    subnet_ids: Mapping[str, pulumi.Input[str]]
    volumes_key_arn: pulumi.Input[str]
    tags: dict[str, str]
    live: Mapping[str, LiveGroup]
    """Groups that are there already, by logical name."""
    after: Sequence[pulumi.Resource]
    """What must be there before a node can join."""
    now: datetime


class GpuPool(pulumi.ComponentResource):
    """Creates one managed node group for each zone of a GPU pool, their launch template, and the tags that let a
    group grow from zero.
    """

    groups: dict[str, aws.eks.NodeGroup]

    def __init__(self, name: str, args: GpuPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:nodes:GpuPool", name, {}, opts)
        self._name, self._args, self._child = name, args, pulumi.ResourceOptions(parent=self)
        self._template = self._create_template()
        self.groups = {}
        for zone in sorted(args.pool.zones):
            self.groups[zone] = self._create_group(zone, [*args.after, *self.groups.values()])
        for zone, group in self.groups.items():
            self._describe_to_autoscaler(zone[-1], group)
            self._end_with_the_block(zone[-1], group)
        self.register_outputs({"groups": {zone: group.node_group_name for zone, group in self.groups.items()}})

    def _create_template(self) -> aws.ec2.LaunchTemplate:
        pool = self._args.pool
        return template.create(
            f"{self._name}-template",
            template.TemplateArgs(
                disk=pool.disk,
                options=NodeOptions(
                    stripe_nvme=pool.model_cache == "nvme",
                    parallel_pull=pool.model_cache == "nvme" or int(pool.disk.throughput) >= FAST_PULL_MIB_PER_SECOND * 2**20,
                ),
                volumes_key_arn=self._args.volumes_key_arn,
                tags={**self._args.tags, POOL: pool.name},
                more=self._capacity(),
            ),
            self._child,
        )

    def _capacity(self) -> dict[str, Any]:
        """How the template buys instances, where that is not simply by asking.

        A target without a preference: EC2's model of launch templates takes one of the two, its model of instances, and
        hashicorp/terraform-provider-aws#43890 from a run, both if the preference is for reservations only.
        """
        capacity = self._args.pool.capacity
        if not isinstance(capacity, Reservation | CapacityBlock):
            return {}
        bought: dict[str, Any] = {
            "capacity_reservation_specification": aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(
                capacity_reservation_target=aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
                    capacity_reservation_id=capacity.id
                ),
            )
        }
        if capacity.kind == "block":
            bought["instance_market_options"] = aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type="capacity-block")
            bought["instance_type"] = self._args.pool.instance_types[0]
        return bought

    def _create_group(self, zone: str, after: Sequence[pulumi.Resource]) -> aws.eks.NodeGroup:
        pool = self._args.pool
        block = pool.capacity.kind == "block"
        name = scaling.zone_group(self._name, zone)
        # A capacity block is bought for one type, which its template names.
        bought, types = _CAPACITY_TYPES[pool.capacity.kind], () if block else pool.instance_types
        live = self._args.live.get(name)
        again = scaling.anew(live, bought, types, (zone,))
        desired, ignored = scaling.desired(pool.size, live, again=again)
        return aws.eks.NodeGroup(
            name,
            cluster_name=self._args.cluster_name,
            node_role_arn=self._args.role_arn,
            subnet_ids=[self._args.subnet_ids[zone]],
            ami_type=pool.ami.family,
            version=self._args.kubernetes_version,
            release_version=pool.ami.release,
            capacity_type=bought,
            instance_types=list(types) or None,
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(desired_size=desired, min_size=pool.size.min, max_size=pool.size.max),
            update_config=aws.eks.NodeGroupUpdateConfigArgs(
                max_unavailable=pool.update.max_unavailable, update_strategy=_STRATEGIES[pool.update.strategy]
            ),
            node_repair_config=_repair(pool.repair),
            warm_pool_config=_warm(pool),
            launch_template=template.reference(self._template),
            labels=gpu_node.labels(pool),
            taints=[
                aws.eks.NodeGroupTaintArgs(key=taint.key, value=taint.value, effect=gpu_node.eks_effect(taint))
                for taint in gpu_node.born_with(pool)
            ],
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(after),
                ignore_changes=[*ignored, *rolling.postponed(live, pool.ami.release, again=again)],
                custom_timeouts=rolling.wait(pool.size.max, pool.update.max_unavailable),
            ),
        )

    def _end_with_the_block(self, letter: str, group: aws.eks.NodeGroup) -> None:
        """Empties the group in good time before a capacity block ends; EKS drains what the scaling group gives back.

        Once that time has come there is nothing to register: Auto Scaling deletes an action that it has carried out, and refuses one for
        a time that is past (hashicorp/terraform-provider-aws#8646, pulumi/pulumi-aws#2473).
        """
        capacity = self._args.pool.capacity
        if not isinstance(capacity, CapacityBlock):
            return
        empties = datetime.fromisoformat(capacity.ends) - DRAINED_BEFORE_END
        if empties > self._args.now:
            aws.autoscaling.Schedule(
                f"{self._name}-{letter}-end",
                autoscaling_group_name=group.resources.apply(_scaling_group),
                scheduled_action_name="end-of-capacity-block",
                start_time=f"{empties:%Y-%m-%dT%H:%M:%SZ}",
                desired_capacity=0,
                min_size=0,
                max_size=0,
                opts=self._child,
            )

    def _describe_to_autoscaler(self, letter: str, group: aws.eks.NodeGroup) -> None:
        scaling_group = group.resources.apply(_scaling_group)
        for key, value in gpu_node.scale_from_zero(self._args.pool).items():
            hint = key.split("node-template/", 1)[1].replace("/", "-")
            aws.autoscaling.Tag(
                f"{self._name}-{letter}-{hint}",
                autoscaling_group_name=scaling_group,
                tag=aws.autoscaling.TagTagArgs(key=key, value=value, propagate_at_launch=False),
                opts=self._child,
            )


def _scaling_group(resources: Sequence[aws.eks.outputs.NodeGroupResource]) -> str:
    groups = [group.name for resource in resources for group in resource.autoscaling_groups or () if group.name]
    if len(groups) != 1:
        raise ValueError(
            f"EKS answered with {len(groups)} Auto Scaling groups for one node group; the autoscaler's hints belong on exactly one"
        )
    return groups[0]


def _repair(repair: Repair) -> aws.eks.NodeGroupNodeRepairConfigArgs:
    return aws.eks.NodeGroupNodeRepairConfigArgs(
        enabled=repair.enabled,
        max_parallel_nodes_repaired_count=repair.parallel,
        max_unhealthy_node_threshold_percentage=repair.stop_above_unhealthy,
        node_repair_config_overrides=[
            aws.eks.NodeGroupNodeRepairConfigNodeRepairConfigOverrideArgs(
                node_monitoring_condition=ACCELERATOR_READY,
                node_unhealthy_reason=override.reason,
                min_repair_wait_time_mins=override.wait.whole_seconds // 60,
                repair_action=_REPAIRS[override.action],
            )
            for override in repair.overrides
        ],
    )


def _warm(pool: Pool) -> aws.eks.NodeGroupWarmPoolConfigArgs | None:
    """A node that is scaled in goes back to the warm pool, with the images on its root volume. Source: EKS user guide,
    "Decrease latency ... using warm pools with managed node groups".

    The bound says how many there are: without one Auto Scaling prepares what the group has room for beyond its nodes, which for twelve
    nodes are eleven; only where bound and least are one number does the pool have that size (Auto Scaling API reference, PutWarmPool).
    """
    if pool.warm is None:
        return None
    return aws.eks.NodeGroupWarmPoolConfigArgs(
        max_group_prepared_capacity=pool.warm.size,
        min_size=pool.warm.size,
        pool_state=_WARM_STATES[pool.warm.state],
        reuse_on_scale_in=True,
    )
