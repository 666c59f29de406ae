"""The Cluster Autoscaler: makes nodes for pods that do not fit, reserved before on-demand before spot, and removes
empty ones.

It never empties a node of whole GPUs: only one without any GPU request is removed, and a young one stays. The traps:
of divided GPUs it sees nothing (`components/nodes/gpu_node.py`); and a group that several patterns of priorities
match has the highest of them (`BestOptions` in its expander/priority), so the pattern that matches all stands below
every other.
"""

from collections.abc import Sequence
from typing import Any

from components.addons.placement import ON_SYSTEM_NODES, RESTRICTED_CONTAINER, RESTRICTED_POD, requests
from components.addons.service_account import Annotations, service_account
from components.permissions import Statement
from components.versions import CLUSTER_AUTOSCALER
from headway.contract.pool import Pool
from headway.wire import MIG_STARTUP_SECONDS, MIG_TAINT

NAMESPACE = "cluster-autoscaler"
SERVICE_ACCOUNT = "cluster-autoscaler"
PRIORITIES = {"block": 40, "reservation": 30, "on_demand": 20, "spot": 10}
"""Paid-for capacity first; higher wins."""
OTHERS = 1
"""Groups that are no pool's. A group without a priority would never be used while another can be."""


def values(cluster_name: str, region: str, pools: Sequence[Pool], annotations: Annotations = None) -> dict[str, Any]:
    """Chart values; node groups are told apart by the pool names that their Auto Scaling groups carry."""
    cut = any(pool.sharing.mode == "mig" for pool in pools)
    return {
        "autoDiscovery": {"clusterName": cluster_name},
        "awsRegion": region,
        "cloudProvider": "aws",
        "image": {"tag": CLUSTER_AUTOSCALER.images[0].partition("@")[0].rpartition(":")[2]},
        "replicaCount": 2,
        "expanderPriorities": priorities(pools),
        "extraArgs": {
            "balance-similar-node-groups": False,
            # A diagnosis asks whether a pool may grow (`headway/diagnosis/node_measures.py`).
            "emit-per-nodegroup-metrics": True,
            "expander": "priority,least-waste",
            "max-graceful-termination-sec": 600,
            # A GPU node takes minutes to boot, join and label itself.
            "max-node-provision-time": "20m",
            # By itself 15 minutes: a node that MIG still cuts would count as broken then, and another one would be made.
            **({"max-node-startup-time": f"{MIG_STARTUP_SECONDS // 60}m", "startup-taint": MIG_TAINT} if cut else {}),
            "scale-down-delay-after-add": "15m",
            "scale-down-gpu-utilization-threshold": "0.01",
            "scale-down-unneeded-time": "15m",
            "skip-nodes-with-local-storage": False,
        },
        "nodeSelector": dict(ON_SYSTEM_NODES),
        "resources": requests("100m", "256Mi"),
        "rbac": {"serviceAccount": service_account(SERVICE_ACCOUNT, annotations)},
        "securityContext": dict(RESTRICTED_POD),
        "containerSecurityContext": dict(RESTRICTED_CONTAINER),
        "serviceMonitor": {"enabled": True, "namespace": NAMESPACE},
    }


def priorities(pools: Sequence[Pool]) -> dict[str, list[str]]:
    """Patterns of Auto Scaling group names by priority. EKS names a group `eks-<node group>-<id>`, and a node group is called after its pool
    and zone, with Pulumi's hex digits at the end: by those `l4` is told from `l4-b`, whose groups of zone a begin with `eks-l4-b-a-`.
    """
    found: dict[int, list[str]] = {}
    for pool in pools:
        found.setdefault(PRIORITIES[pool.capacity.kind], []).append(f"^eks-{pool.name}-[a-f]-[0-9a-f]{{6}}.*")
    found[OTHERS] = [".*"]
    return {str(priority): sorted(patterns) for priority, patterns in sorted(found.items())}


def permissions(cluster_name: str, account_id: str, region: str) -> tuple[Statement, ...]:
    """Describe node groups; change the size of this cluster's, and of no other's."""
    tag = f"aws:ResourceTag/k8s.io/cluster-autoscaler/{cluster_name}"
    return (
        Statement(
            sid="SeeGroups",
            actions=[
                "autoscaling:DescribeAutoScalingGroups",
                "autoscaling:DescribeAutoScalingInstances",
                "autoscaling:DescribeLaunchConfigurations",
                "autoscaling:DescribeScalingActivities",
                "autoscaling:DescribeTags",
                "ec2:DescribeImages",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeLaunchTemplateVersions",
                "ec2:GetInstanceTypesFromInstanceRequirements",
            ],
            resources=["*"],
            reason="These actions know no resource: they list",
        ),
        Statement(
            sid="SeeNodeGroups",
            actions=["eks:DescribeNodegroup"],
            resources=[f"arn:aws:eks:{region}:{account_id}:nodegroup/{cluster_name}/*/*"],
        ),
        Statement(
            sid="ResizeGroups",
            actions=["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"],
            resources=[f"arn:aws:autoscaling:{region}:{account_id}:autoScalingGroup:*:autoScalingGroupName/eks-*"],
            conditions={"StringEquals": {tag: "owned"}},
        ),
    )
