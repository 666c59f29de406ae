"""Where a pod's specification sits in each kind of workload, and what kinds of GPU it can ask for. Pure."""

from collections.abc import Iterator

from headway.contract.gpu_resources import is_gpu
from headway.wire import WARM_CAPACITY_NAMESPACE
from policies.guardrails.view import InputNode, ResourceView

APPS = "kubernetes:apps/v1:"
DEPLOYMENT = f"{APPS}Deployment"
STATEFUL_SET = f"{APPS}StatefulSet"
DAEMON_SET = f"{APPS}DaemonSet"
REPLICA_SET = f"{APPS}ReplicaSet"
JOB = "kubernetes:batch/v1:Job"
CRON_JOB = "kubernetes:batch/v1:CronJob"
POD = "kubernetes:core/v1:Pod"
SCALED_JOB = "kubernetes:keda.sh/v1alpha1:ScaledJob"
REPLICATION_CONTROLLER = "kubernetes:core/v1:ReplicationController"
WORKLOADS = (CRON_JOB, DAEMON_SET, DEPLOYMENT, JOB, POD, REPLICA_SET, REPLICATION_CONTROLLER, SCALED_JOB, STATEFUL_SET)

NAMESPACE = "kubernetes:core/v1:Namespace"
SERVICE = "kubernetes:core/v1:Service"
RESOURCE_QUOTA = "kubernetes:core/v1:ResourceQuota"
HELM_RELEASE = "kubernetes:helm.sh/v3:Release"
SCALED_OBJECT = "kubernetes:keda.sh/v1alpha1:ScaledObject"
HORIZONTAL_POD_AUTOSCALER = "kubernetes:autoscaling/v1:HorizontalPodAutoscaler"
PERSISTENT_VOLUME = "kubernetes:core/v1:PersistentVolume"
VIRTUAL_SERVICE = "kubernetes:networking.istio.io/v1:VirtualService"

PLACEHOLDERS = {"placeholderNamespaces": {"type": "array", "items": {"type": "string"}, "default": [WARM_CAPACITY_NAMESPACE]}}
"""Setting of rules that do not hold for the platform's own placeholders, which serve no model and give way to any."""


def template(resource: ResourceView) -> InputNode:
    """The object that holds the pod's `metadata` and `spec`: the resource itself for a Pod."""
    if resource.type == POD:
        return resource.properties
    if resource.type == CRON_JOB:
        return resource.at("spec", "jobTemplate", "spec", "template")
    if resource.type == SCALED_JOB:
        return resource.at("spec", "jobTargetRef", "template")
    return resource.at("spec", "template")


def pod(resource: ResourceView) -> InputNode:
    return template(resource)["spec"]


def containers(resource: ResourceView, *, init: bool = True) -> Iterator[InputNode]:
    """Containers in order; init containers (native sidecars among them) and ephemeral ones too unless `init` is off."""
    spec = pod(resource)
    if init:
        yield from spec["initContainers"].each()
    yield from spec["containers"].each()
    if init:
        yield from spec["ephemeralContainers"].each()


def images(resource: ResourceView) -> Iterator[InputNode]:
    """Names of the images that a pod brings to its node: of containers, and of volumes that are images."""
    for container in containers(resource):
        yield container["image"]
    for volume in pod(resource)["volumes"].each():
        if volume["image"].present:
            yield volume["image"]["reference"]


def gpus(container: InputNode, side: str = "limits") -> Iterator[tuple[str, InputNode]]:
    """(resource name, quantity) for every GPU that a container's `limits` or `requests` name."""
    for name, quantity in container["resources"][side].entries():
        if is_gpu(name):
            yield name, quantity


def asks_for_gpu(resource: ResourceView) -> bool:
    """Whether any container of the pod, init containers among them, is limited to a GPU, a share or a slice."""
    return any(True for container in containers(resource) for _ in gpus(container))


def gpu_demand(resource: ResourceView) -> dict[str, float]:
    """GPUs of one pod by resource name, as the scheduler and a quota count them: containers and sidecars together, or the greatest of the
    init containers that end before them."""
    together: dict[str, float] = {}
    before: dict[str, float] = {}
    for container in pod(resource)["initContainers"].each():
        stays = container["restartPolicy"].value == "Always"
        for name, amount in gpus(container):
            count = quantity(amount.value)
            if stays:
                together[name] = together.get(name, 0.0) + count
            else:
                before[name] = max(before.get(name, 0.0), count)
    for container in pod(resource)["containers"].each():
        for name, amount in gpus(container):
            together[name] = together.get(name, 0.0) + quantity(amount.value)
    return {name: max(together.get(name, 0.0), before.get(name, 0.0)) for name in {*together, *before}}


def pods(resource: ResourceView) -> int:
    """Pods that the workload runs at once as it is written; a DaemonSet's, which nodes decide, count as one."""
    if resource.type == POD:
        return 1
    if resource.type == SCALED_JOB:
        at_once = resource.at("spec", "jobTargetRef", "parallelism").value or 1
        return int(at_once) * int(resource.at("spec", "maxReplicaCount").value or KEDAS_MAXIMUM)
    counted = {JOB: ("spec", "parallelism"), CRON_JOB: ("spec", "jobTemplate", "spec", "parallelism")}
    value = resource.at(*counted.get(resource.type, ("spec", "replicas"))).value
    return 1 if value is None else int(value)


KEDAS_MAXIMUM = 100
"""Replicas that KEDA takes for the most where nothing is said (keda.sh, ScaledObject and ScaledJob specifications)."""


def label(holder: InputNode, key: str) -> InputNode:
    return holder["metadata"]["labels"][key]


def namespace(resource: ResourceView) -> str:
    """Namespace of the object; `default` when none is given."""
    return str(resource.at("metadata", "namespace").value or "default")


def quantity(value: object) -> float:
    """A Kubernetes quantity as a plain number.

    Raises:
        ValueError: for text that is no quantity. Source of the suffixes: Kubernetes API conventions, `resource.Quantity`.
    """
    text = str(value).strip()
    for suffix, factor in _SUFFIXES:
        if text.endswith(suffix):
            return float(text.removesuffix(suffix)) * factor
    return float(text)


_SUFFIXES = (
    ("Ki", 2.0**10),
    ("Mi", 2.0**20),
    ("Gi", 2.0**30),
    ("Ti", 2.0**40),
    ("Pi", 2.0**50),
    ("Ei", 2.0**60),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
)
