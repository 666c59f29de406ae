"""What the Cluster Autoscaler would make of a node: whether it is ready, how much of it is in use, whether it may go.
Pure.

The real one cannot be built here, so its rules stand here, read from kubernetes/autoscaler at cluster-autoscaler-1.35.2,
below `cluster-autoscaler/`. The trap is in the source itself: it knows GPUs by the names of whole ones only, so a node
of MIG slices or shares is judged by CPU and memory, or, with the label that promises a GPU, as broken and empty.
Nodes and pods are bodies as the API server gives them.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from headway.environment.kubernetes import quantity

LABEL = "k8s.amazonaws.com/accelerator"
"""`cloudprovider/aws/aws_cloud_provider.go`, GPULabel."""
WHOLE_GPUS = ("nvidia.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx")
"""`utils/gpu/gpu.go`, GPUVendorResourceNames."""
STARTUP_TAINTS = ("ignore-taint.cluster-autoscaler.kubernetes.io/", "startup-taint.cluster-autoscaler.kubernetes.io/")
"""`utils/taints/taints.go`: a node with such a taint is not ready yet, and a node to come is planned without it."""
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""`utils/drain/drain.go`."""
_HINTS = "k8s.io/cluster-autoscaler/node-template/"

Body = Mapping[str, Any]


def is_ready(node: Body) -> bool:
    """`processors/customresources/gpu_processor.go`, FilterOutNodesWithUnreadyResources, and startup taints."""
    if any(str(taint["key"]).startswith(STARTUP_TAINTS) for taint in (node.get("spec") or {}).get("taints") or ()):
        return False
    return LABEL not in node["metadata"]["labels"] or _whole_gpu(node) is not None


def utilisation(node: Body, pods: Sequence[Body]) -> Decimal:
    """`simulator/utilization/info.go`, Calculate: of GPUs alone where the node has some, else of CPU or memory."""
    resource = _whole_gpu(node)
    if resource is None and LABEL in node["metadata"]["labels"]:
        return Decimal(0)
    return max(_share(node, pods, name) for name in ([resource] if resource else ["cpu", "memory"]))


def may_go(node: Body, pods: Sequence[Body], arguments: Mapping[str, Any]) -> bool:
    """Whether it would evict `pods` to remove the node, if they found a place elsewhere: `core/scaledown/eligibility`
    and `simulator/drainability/rules/notsafetoevict`. `arguments` are those of its command.
    """
    has_gpu = _whole_gpu(node) is not None or LABEL in node["metadata"]["labels"]
    name = "scale-down-gpu-utilization-threshold" if has_gpu else "scale-down-utilization-threshold"
    if utilisation(node, pods) > Decimal(str(arguments.get(name, "0.5"))):
        return False
    return all(_annotations(pod).get(SAFE_TO_EVICT) != "false" for pod in pods)


def node_to_come(gpus: int, vcpus: int, memory: str, tags: Mapping[str, str]) -> dict[str, Any]:
    """The node that it plans with where a group has none: `cloudprovider/aws/aws_manager.go`, buildNodeFromTemplate.
    `gpus`, `vcpus` and `memory` are the instance type's, `tags` the Auto Scaling group's.
    """
    offered = {"cpu": str(vcpus), "memory": memory, "pods": "110", "nvidia.com/gpu": str(gpus), **_hinted(tags, "resources/")}
    taints = [
        {"key": key, "value": value.partition(":")[0], "effect": value.partition(":")[2]} for key, value in _hinted(tags, "taint/").items()
    ]
    return {
        "metadata": {"labels": _hinted(tags, "label/")},
        "spec": {"taints": [taint for taint in taints if not taint["key"].startswith(STARTUP_TAINTS)]},
        "status": {"allocatable": offered, "capacity": offered},
    }


def _hinted(tags: Mapping[str, str], kind: str) -> dict[str, str]:
    prefix = f"{_HINTS}{kind}"
    return {key.removeprefix(prefix): value for key, value in tags.items() if key.startswith(prefix)}


def _whole_gpu(node: Body) -> str | None:
    allocatable = node["status"]["allocatable"]
    return next((name for name in WHOLE_GPUS if quantity(allocatable.get(name, "0"))), None)


def _share(node: Body, pods: Sequence[Body], resource: str) -> Decimal:
    containers = [container for pod in pods for container in pod["spec"]["containers"]]
    asked = sum((quantity((c.get("resources") or {}).get("requests", {}).get(resource, "0")) for c in containers), Decimal(0))
    return asked / quantity(node["status"]["allocatable"][resource])


def _annotations(pod: Body) -> Mapping[str, str]:
    return pod["metadata"].get("annotations") or {}
