"""A cluster for the simulated Cluster Autoscaler: groups of our pools as the program describes them, nodes as the
simulated cloud makes them, and pods as the API server shows them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from components.addons import cluster_autoscaler
from components.nodes import gpu_node
from headway.contract.accelerators import INSTANCE_TYPES
from headway.contract.pool import Pool
from pulumi_embedded.providers.aws.nodes import NodeGroup, NodeZone
from sandbox.cloud.nodes import nodes
from sandbox.cloud.scaling.model import AutoscalerArguments, AutoscalerWorld, ScalableGroup
from tests.components.contracts import POOLS

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
ARGUMENTS = AutoscalerArguments.of_chart(cluster_autoscaler.values("c", "us-west-2", POOLS))
MINUTE = timedelta(minutes=1)
BY_NAME = {pool.name: pool for pool in POOLS}


def group(pool: Pool, desired: int = 0, *, low: int = 0, high: int = 4, joined: int | None = None) -> ScalableGroup:
    """The pool's group in zone a; its first `joined` instances have nodes (all, where it is left out)."""
    return ScalableGroup(
        name=f"eks-{pool.name}-a-0a1b2c",
        min=low,
        max=high,
        desired=desired,
        instance_type=pool.instance_type,
        region="us-west-2",
        zone="us-west-2a",
        instances={instance(pool, number): START - 60 * MINUTE for number in range(desired if joined is None else joined)},
        tags=gpu_node.scale_from_zero(pool),
        taints=[taint.model_dump() for taint in gpu_node.born_with(pool)],
    )


def instance(pool: Pool, number: int) -> str:
    return f"aws:///us-west-2a/i-{pool.name}-{number}"


def described(pool: Pool) -> NodeGroup:
    """The pool's node group, as the program describes it."""
    return NodeGroup(
        name=f"{pool.name}-a",
        arn="arn",
        region="us-west-2",
        instance_type=pool.instance_types[0],
        ami_type=pool.ami.family,
        capacity_type="ON_DEMAND",
        release_version=pool.ami.release,
        labels=gpu_node.labels(pool),
        taints=[{"key": t.key, "value": t.value, "effect": gpu_node.eks_effect(t)} for t in gpu_node.taints(pool)],
        zones=[NodeZone(name="us-west-2a", id="usw2-az1")],
        template={},
    )


def node(pool: Pool, number: int = 0, *, ready: bool = True, age: timedelta = 60 * MINUTE) -> dict[str, Any]:
    """A node of the pool as the simulated cloud makes it."""
    made = nodes(described(pool), number + 1)[number]
    born = (START - age).isoformat()
    return {
        "metadata": {"name": made.name, "labels": dict(made.labels), "creationTimestamp": born},
        "spec": {"taints": list(made.taints), "providerID": instance(pool, number)},
        "status": {
            "allocatable": dict(made.allocatable),
            "capacity": dict(made.capacity),
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": born}],
        },
    }


def pod(name: str, asks: Mapping[str, str] | None = None, *, on: str = "", age: timedelta = 5 * MINUTE, **spec: Any) -> dict[str, Any]:
    """A pod of a ReplicaSet that tolerates GPU nodes: pending, or running on the node of a name."""
    waits = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "labels": {"app": name},
            "annotations": {},
            "creationTimestamp": (START - age).isoformat(),
            "ownerReferences": [{"kind": "ReplicaSet", "name": name, "controller": True}],
        },
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi", **(asks or {})}}}],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            **({"nodeName": on} if on else {}),
            **spec,
        },
        "status": {"phase": "Running"} if on else {"phase": "Pending", "conditions": waits},
    }


def annotated(body: Mapping[str, Any], key: str, value: str) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "annotations": {key: value}}}


def world(
    groups: Sequence[ScalableGroup], nodes: Sequence[Mapping[str, Any]] = (), pods: Sequence[Mapping[str, Any]] = ()
) -> AutoscalerWorld:
    return AutoscalerWorld(now=START, groups=groups, nodes=nodes, pods=pods)


def later(at: AutoscalerWorld, span: timedelta, **changes: Any) -> AutoscalerWorld:
    return replace(at, now=at.now + span, **changes)


SYSTEM = INSTANCE_TYPES["m7i.xlarge"]


def system_group(desired: int, *, low: int = 1, high: int = 6) -> ScalableGroup:
    """Nodes without GPUs, whose group has no tags: all that is known is what EKS says of it."""
    ids = {f"aws:///us-west-2a/i-system-{number}": START - 60 * MINUTE for number in range(desired)}
    return ScalableGroup(
        name="eks-system-0a1b2c", min=low, max=high, desired=desired, instance_type=SYSTEM, region="us-west-2", zone="us-west-2a",
        instances=ids, labels={"eks.amazonaws.com/nodegroup": "system"},
    )  # fmt: skip


def system_node(number: int) -> dict[str, Any]:
    born = (START - 60 * MINUTE).isoformat()
    offered = {"cpu": "3920m", "memory": "14Gi", "pods": "110"}
    return {
        "metadata": {"name": f"system-{number}", "labels": {"eks.amazonaws.com/nodegroup": "system"}, "creationTimestamp": born},
        "spec": {"providerID": f"aws:///us-west-2a/i-system-{number}"},
        "status": {
            "allocatable": offered,
            "capacity": offered,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": born}],
        },
    }
