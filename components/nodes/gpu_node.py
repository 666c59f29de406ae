"""What one GPU node of a pool looks like: labels, taints, and what the autoscaler must know of it before the first one
exists. Pure.

A node that MIG is to cut is born with a taint of its own on top. Without it a server could take a GPU that is not cut
yet, which then cannot be cut (NVIDIA/gpu-operator#2670), and the autoscaler would make a second node for a pod that
waits for the first one's slices.

The trap: the autoscaler plans from the tags of an empty group, so a label, taint or resource that is missing here
makes it believe that a pending pod would not fit, and no node ever comes. And it knows whole GPUs only
(kubernetes/autoscaler 1.35.2, `cluster-autoscaler/utils/gpu/gpu.go`): of divided ones it must be told otherwise.
"""

from collections.abc import Mapping
from typing import Literal

from components.nodes.sharing import GPU, node_labels
from headway.contract.pool import Pool
from headway.contract.pool_parts import MigSharing, Taint, WholeSharing
from headway.wire import ACCELERATOR, MIG_TAINT, POOL, WORKLOAD_CLASS

AUTOSCALER_ACCELERATOR = "k8s.amazonaws.com/accelerator"
"""A node with this label counts as unready until it offers `nvidia.com/gpu`, which spares a second, needless scale-up.
A node of divided GPUs never offers that name: with the label it would count as unready, and empty, for ever
(`processors/customresources/gpu_processor.go` and `simulator/utilization/info.go` of the autoscaler; its issue 8095).
"""

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Annotation of pods: whether the autoscaler may evict it to remove its node."""

GPU_TAINT = Taint(key=GPU, value="true", effect="NoSchedule")
"""Keeps everything off that does not ask for a GPU; every GPU pool has it."""

UNCUT_TAINT = Taint(key=MIG_TAINT, value="pending", effect="NoSchedule")
"""Keeps everything off that is not needed to cut the node. The loop of node health takes it off, and EKS does not put
it back (EKS user guide, "Node taints on managed node groups"); where a group that has nodes gets it, they get it too.
"""

NO_DEVICES: Mapping[str, str] = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
"""Of a container beside the one that asks for a GPU. Images made for CUDA say `all` here, and NVIDIA's runtime, the
default one on these nodes, gives what it says to whoever got nothing from the device plugin: every GPU of the node.
"""

_HINT = "k8s.io/cluster-autoscaler/node-template"
_EKS_EFFECT: Mapping[str, Literal["NO_SCHEDULE", "PREFER_NO_SCHEDULE", "NO_EXECUTE"]] = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}


def use_is_seen(pool: Pool) -> bool:
    """Whether the autoscaler sees which GPUs of a node are in use. Where it does not, it goes by CPU and memory, of
    which a busy model server asks for little: pods there must say themselves that their node may not go.
    """
    return isinstance(pool.sharing, WholeSharing)


def labels(pool: Pool) -> dict[str, str]:
    """Labels of each node; a pool's own labels never replace the platform's."""
    own = {
        ACCELERATOR: pool.accelerator.value,
        **({AUTOSCALER_ACCELERATOR: pool.accelerator.value} if use_is_seen(pool) else {}),
        POOL: pool.name,
        WORKLOAD_CLASS: pool.workload_class.value,
        **node_labels(pool),
    }
    return dict(sorted({**pool.labels, **own}.items()))


def taints(pool: Pool) -> tuple[Taint, ...]:
    """Taints of each node that serves, the platform's own first."""
    return (GPU_TAINT, *(taint for taint in pool.taints if (taint.key, taint.effect) != (GPU_TAINT.key, GPU_TAINT.effect)))


def born_with(pool: Pool) -> tuple[Taint, ...]:
    """Taints of each node when it joins: what it needs before it can serve tolerates all of them."""
    return (*taints(pool), *((UNCUT_TAINT,) if isinstance(pool.sharing, MigSharing) else ()))


def toleration(taint: Taint) -> dict[str, str]:
    """Of exactly this taint."""
    return {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}


def eks_effect(taint: Taint) -> str:
    """The taint's effect as EKS spells it."""
    return _EKS_EFFECT[taint.effect]


def scale_from_zero(pool: Pool) -> dict[str, str]:
    """Tags of the Auto Scaling group that describe a node which does not exist yet, by key."""
    storage = pool.disk.size if pool.model_cache == "disk" else pool.instance_type.nvme
    hints = {f"{_HINT}/label/{key}": value for key, value in labels(pool).items()}
    hints |= {f"{_HINT}/taint/{taint.key}": f"{taint.value}:{taint.effect}" for taint in taints(pool)}
    # Without a word it takes every GPU of the instance type for a whole one (`aws_manager.go`, buildNodeFromTemplate).
    resources = {GPU: 0, **pool.resources_per_node}
    hints |= {f"{_HINT}/resources/{name}": str(count) for name, count in resources.items()}
    hints[f"{_HINT}/resources/ephemeral-storage"] = f"{int(storage) // 2**30}Gi"
    return dict(sorted(hints.items()))
