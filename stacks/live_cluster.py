"""What EKS says of the cluster: the zones of its control plane, and of each node group how large it is now, and of which image. The second
live read of a plan, beside the release ledger's (`stacks/live.py`).

`components/nodes/scaling.py` says why a plan from the stack file alone would end nodes that serve. And a control plane keeps the zones that
it was made with: EKS refuses subnets of any other set, after the plan has been half carried out (EKS user guide, "View Amazon EKS networking
requirements for VPC and subnets"; aws/containers-roadmap#2258). Nodes may be in every zone of the network.

The trap: of a group whose creation fails the provider has already told the id (hashicorp/terraform-provider-aws,
`internal/service/eks/node_group.go`, resourceNodeGroupCreate). Terraform would replace it; Pulumi's next update finds no difference, and the
bridge then answers that all is well (pulumi/pulumi-terraform-bridge, `pkg/tfbridge/provider.go`, Update).

Labels of a group go to the nodes that it has (EKS API reference, UpdateNodegroupConfig), and the device plugin and the MIG manager act on a
changed one at once (NVIDIA/k8s-device-plugin, README, "Updating Per-Node Configuration With a Node Label"): it would offer GPUs that
replicas hold a second time, under another name, and the other cannot cut them (NVIDIA/gpu-operator#2670).

A network of another range is another network (hashicorp/terraform-provider-aws, `internal/service/ec2/vpc_.go`, ForceNew). Pulumi makes it
first and remembers that the former one is to go; EKS refuses its subnets; and the next update, whatever range it names, takes away what it
can of the one that serves (pulumi/pulumi, `pkg/resource/deploy/step_generator.go`, GenerateDeletes).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Network

import pulumi
import pulumi_aws as aws

from components.network.plan import subnets
from components.nodes.scaling import LiveGroup, zone_group
from components.nodes.sharing import shared_otherwise
from headway.contract.pool import Pool
from headway.problem import problem
from stacks.settings_error import SettingsError

_MADE_UP = re.compile(r"-[0-9a-f]{7}$")
"""What Pulumi's autonaming adds to a logical name."""


@dataclass(frozen=True, kw_only=True)
class LiveCluster:
    """Ranges of the control plane's subnets by zone, and groups by logical name; none before there is a cluster. `failed` are names of groups
    that never came about.
    """

    zones: Mapping[str, str] = field(default_factory=dict[str, str])
    groups: Mapping[str, LiveGroup] = field(default_factory=dict[str, LiveGroup])
    failed: Sequence[str] = ()


def live_cluster(cluster: str, provider: aws.Provider) -> LiveCluster:
    """The cluster as it is. Of two groups, while one replaces the other, the larger."""
    options = pulumi.InvokeOptions(provider=provider)
    if cluster not in aws.eks.get_clusters(opts=options).names:
        return LiveCluster()

    @cache
    def subnet(subnet_id: str) -> aws.ec2.AwaitableGetSubnetResult:
        return aws.ec2.get_subnet(id=subnet_id, opts=options)

    ids = aws.eks.get_cluster(name=cluster, opts=options).vpc_config.subnet_ids
    zones = {found.availability_zone: found.cidr_block for found in (subnet(id) for id in sorted(ids))}
    found: dict[str, LiveGroup] = {}
    failed: list[str] = []
    for name in sorted(aws.eks.get_node_groups(cluster_name=cluster, opts=options).names):
        group = aws.eks.get_node_group(cluster_name=cluster, node_group_name=name, opts=options)
        if group.status == "CREATE_FAILED":
            failed.append(name)
        (size,), logical = group.scaling_configs, _logical(name)
        live = LiveGroup(
            desired=size.desired_size,
            min=size.min_size,
            max=size.max_size,
            release=group.release_version,
            bought=group.capacity_type or "",
            instance_types=tuple(group.instance_types or ()),
            zones=frozenset(subnet(id).availability_zone for id in sorted(group.subnet_ids)),
            labels=group.labels or {},
        )
        found[logical] = max(live, found.get(logical, live), key=lambda group: group.desired)
    return LiveCluster(zones=zones, groups=found, failed=failed)


def _logical(name: str) -> str:
    return _MADE_UP.sub("", name)


def refuse_failed(cluster: str, failed: Sequence[str], wanted: Collection[str], stack: str) -> None:
    """Raises SettingsError for groups of these logical names whose creation failed."""
    problems = [
        problem(
            "group-that-failed",
            "pools",
            value=name,
            fact=f"node group {name} is CREATE_FAILED: EKS gave it up, often for want of instances, and never makes it whole",
            consequence="Pulumi takes it for made, and its pods would wait for ever",
            remedy=f"Run `aws eks delete-nodegroup --cluster-name {cluster} --nodegroup-name {name}`, wait until it is gone, run "
            f"`pulumi refresh -s {stack}`, and apply again; a pool with min: 0 comes about without instances",
        )
        for name in failed
        if _logical(name) in wanted
    ]
    if problems:
        raise SettingsError(f"Stack {stack}", problems)


def refuse_shared_otherwise(pools: Sequence[Pool], groups: Mapping[str, LiveGroup], stack: str) -> None:
    """Raises SettingsError for pools of another sharing mode than their nodes have."""
    problems = [
        problem(
            "sharing-of-nodes-that-serve",
            "pools",
            number,
            "sharing",
            value=pool.sharing.mode,
            fact=f"group {name} has {live.desired} nodes, whose GPUs are shared otherwise",
            consequence="They would be shared anew under the replicas that hold them: two on one GPU, or none that can be cut",
            remedy="Make a pool of another name beside it, release the models to that, and then take this one out; or let it have no nodes first",
        )
        for number, pool in enumerate(pools)
        for name in (zone_group(pool.name, zone) for zone in pool.zones)
        if (live := groups.get(name)) and live.desired and shared_otherwise(pool, live.labels)
    ]
    if problems:
        raise SettingsError(f"Pulumi.{stack}.yaml", problems)


def refuse_moved(cidr: IPv4Network, live: Mapping[str, str], stack: str) -> None:
    """Raises SettingsError for a network whose range is not that in which the control plane is."""
    if {each.zone: str(each.intra) for each in subnets(cidr, tuple(live))} != live:
        moved = problem(
            "network-that-stays",
            "network",
            "cidr",
            value=str(cidr),
            fact=f"the control plane is in {', '.join(sorted(live.values()))}, which a network of {cidr} does not have",
            consequence="Another network would be made, which EKS refuses, and the next update would take the ways out of this one",
            remedy="Write the range with which it was made; or make another environment",
        )
        raise SettingsError(f"Pulumi.{stack}.yaml", [moved])


def control_plane_zones(zones: Sequence[str], live: Collection[str], stack: str) -> Sequence[str]:
    """Of the network's `zones` those whose subnets the control plane is given: all for a new one, else the ones that it has. Raises
    SettingsError where the network no longer has one of them.
    """
    if gone := sorted(set(live) - set(zones)):
        lost = problem(
            "zones-of-the-control-plane",
            "network",
            "zones",
            value=list(zones),
            fact=f"the control plane was made with subnets in {', '.join(sorted(live))}, and {', '.join(gone)} is not here",
            consequence="EKS takes no other set of zones for it, and its subnet there could not be deleted",
            remedy=f"Name {', '.join(gone)} here, and no pool's nodes there; or make another environment",
        )
        raise SettingsError(f"Pulumi.{stack}.yaml", [lost])
    return [zone for zone in sorted(zones) if zone in live or not live]
