"""What the Cluster Autoscaler would make of a node: whether it is ready, how much of it is in use, whether it may go.
Pure.

The real one cannot be built here, so its rules stand here, read from kubernetes/autoscaler at cluster-autoscaler-1.35.2,
below `cluster-autoscaler/`. The trap is in the source itself: it knows GPUs by the names of whole ones only, so a node
of MIG slices or shares is judged by CPU and memory, or, with the label that promises a GPU, as broken and empty.
Nodes and pods are bodies as the API server gives them.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

from headway.environment.kubernetes import quantity

LABEL = "k8s.amazonaws.com/accelerator"
"""`cloudprovider/aws/aws_cloud_provider.go`, GPULabel."""
WHOLE_GPUS = ("nvidia.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx")
"""`utils/gpu/gpu.go`, GPUVendorResourceNames."""
STARTUP_TAINTS = ("ignore-taint.cluster-autoscaler.kubernetes.io/", "startup-taint.cluster-autoscaler.kubernetes.io/")
"""`utils/taints/taints.go`: a node with such a taint, or the one of `--startup-taint`, is not ready yet, and a node to come is planned without it."""
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""`utils/drain/drain.go`."""
_HINTS = "k8s.io/cluster-autoscaler/node-template/"

Body = Mapping[str, Any]


def is_ready(node: Body, startup_taint: str = "") -> bool:
    """`processors/customresources/gpu_processor.go`, FilterOutNodesWithUnreadyResources, and startup taints."""
    keys = [str(taint["key"]) for taint in (node.get("spec") or {}).get("taints") or ()]
    if any(key.startswith(STARTUP_TAINTS) or key == startup_taint for key in keys):
        return False
    return LABEL not in node["metadata"]["labels"] or _whole_gpu(node) is not None


def utilisation(node: Body, pods: Sequence[Body]) -> Decimal:
    """`simulator/utilization/info.go`, Calculate: of GPUs alone where the node has some, else of CPU or memory."""
    resource = _whole_gpu(node)
    if resource is None and LABEL in node["metadata"]["labels"]:
        return Decimal(0)
    return max(_share(node, pods, name) for name in ([resource] if resource else ["cpu", "memory"]))


def is_underused(node: Body, pods: Sequence[Body], arguments: Mapping[str, Any]) -> bool:
    """`core/scaledown/eligibility/eligibility.go`, isNodeAtOrBelowUtilizationThreshold."""
    has_gpu = _whole_gpu(node) is not None or LABEL in node["metadata"]["labels"]
    name = "scale-down-gpu-utilization-threshold" if has_gpu else "scale-down-utilization-threshold"
    return utilisation(node, pods) <= Decimal(str(arguments.get(name, "0.5")))


def requests(pod: Body) -> dict[str, Decimal]:
    """What the pod takes of its node, itself counted as one of `pods`: `utils/pod/pod.go`, PodRequests. Init containers
    run one after another before the others, those that restart (sidecars) beside all that come later.
    """
    running, peak = {"pods": Decimal(1)}, dict[str, Decimal]()
    for container in pod["spec"].get("initContainers") or ():
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            running = _summed(running, asked)
            asked = running
        else:
            asked = _summed(running, asked)
        peak = {name: max(peak.get(name, Decimal(0)), asked.get(name, Decimal(0))) for name in {*peak, *asked}}
    for container in pod["spec"]["containers"]:
        running = _summed(running, _asked(container))
    overhead = {name: amount(value) for name, value in (pod["spec"].get("overhead") or {}).items()}
    most = {name: max(peak.get(name, Decimal(0)), running.get(name, Decimal(0))) for name in {*peak, *running}}
    return _summed(most, overhead)


@cache
def amount(text: str) -> Decimal:
    """A quantity, remembered: a turn reads the same few texts thousands of times."""
    return quantity(text)


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
        "spec": {"taints": taints},
        "status": {"allocatable": offered, "capacity": offered},
    }


def _asked(container: Body) -> dict[str, Decimal]:
    found = container.get("resources") or {}
    # The API server fills in a missing request from the limit.
    return {name: amount(str(value)) for name, value in {**(found.get("limits") or {}), **(found.get("requests") or {})}.items()}


def _summed(one: Mapping[str, Decimal], other: Mapping[str, Decimal]) -> dict[str, Decimal]:
    return {name: one.get(name, Decimal(0)) + other.get(name, Decimal(0)) for name in {*one, *other}}


def _hinted(tags: Mapping[str, str], kind: str) -> dict[str, str]:
    prefix = f"{_HINTS}{kind}"
    return {key.removeprefix(prefix): value for key, value in tags.items() if key.startswith(prefix)}


def _whole_gpu(node: Body) -> str | None:
    allocatable = node["status"]["allocatable"]
    return next((name for name in WHOLE_GPUS if quantity(allocatable.get(name, "0"))), None)


def _share(node: Body, pods: Sequence[Body], resource: str) -> Decimal:
    asked = sum((requests(pod).get(resource, Decimal(0)) for pod in pods), Decimal(0))
    return asked / quantity(node["status"]["allocatable"][resource])
