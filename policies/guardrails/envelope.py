"""Envelopes: what a container asks for is stated, bounded and honest, so that the scheduler's arithmetic is true."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from headway.contract.gpu_resources import SHARED_GPU, WHOLE_GPU
from policies.guardrails import workloads as w
from policies.guardrails.rule import Breaches, Domain, PolicyRule, PolicySeverity, breach
from policies.guardrails.view import InputNode, ResourceView


def _gpu_limits_equal_requests(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for c in w.containers(r):
        requests = dict(w.gpus(c, "requests"))
        limits = dict(w.gpus(c))
        for name, requested in requests.items():
            if name not in limits:
                yield breach(requested, f"requests {name} without a limit")
            elif str(limits[name].value) != str(requested.value):
                yield breach(limits[name], f"the limit of {name} is {limits[name].value} and the request {requested.value}")


def _gpu_is_whole_number(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for c in w.containers(r):
        for side in ("limits", "requests"):
            for name, amount in w.gpus(c, side):
                if not str(amount.value).isdigit() or int(str(amount.value)) < 1:
                    yield breach(amount, f"{name} is {amount.value!r}; GPUs are counted in whole positive numbers")


def _stated(amount: InputNode) -> bool:
    """Whether an amount is there and bounds anything: to the kubelet, 0 is no limit and no request."""
    return amount.present and w.quantity(amount.value) > 0


def _memory_limit(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for c in w.containers(r):
        if not _stated(c["resources"]["limits"]["memory"]):
            yield breach(f"{c.path}.resources.limits.memory", f"container {c['name'].value} has no memory limit")


def _requests(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for c in w.containers(r):
        for kind in ("cpu", "memory"):
            requested = c["resources"]["requests"][kind]
            if not _stated(requested if requested.present else c["resources"]["limits"][kind]):
                yield breach(f"{c.path}.resources.requests.{kind}", f"container {c['name'].value} states no {kind}")


def _one_gpu_kind(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    kinds = sorted({name for c in w.containers(r) for name, _amount in w.gpus(c)})
    if len(kinds) > 1:
        yield breach(w.pod(r), f"one pod asks for {' and '.join(kinds)}")


def _shared_gpu_single(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for c in w.containers(r):
        for name, amount in w.gpus(c):
            if name == SHARED_GPU and str(amount.value) != "1":
                yield breach(amount, f"asks for {amount.value} shares of a shared GPU")


def _gpu_ceiling(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    total = w.gpu_demand(r).get(WHOLE_GPU, 0)
    if total > c["maxGpusPerPod"]:
        yield breach(w.pod(r), f"one pod asks for {total:g} GPUs; the ceiling is {c['maxGpusPerPod']}")


def _shm(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for volume in w.pod(r)["volumes"].each():
        empty = volume["emptyDir"]
        if empty.present and empty["medium"].value == "Memory" and not _stated(empty["sizeLimit"]):
            yield breach(f"{volume.path}.emptyDir.sizeLimit", f"volume {volume['name'].value} is memory without a size limit")


_rule = partial(PolicyRule, domain=Domain.ENVELOPE, applies=w.WORKLOADS)

RULES = (
    _rule(
        id="gpu-limits-equal-requests",
        title="A GPU request has an equal limit.",
        rationale="GPUs cannot be overcommitted: the API server refuses the pod, or the quota counts another number than is in use.",
        remedy="State the same amount under resources.limits and resources.requests, or only under limits.",
        check=_gpu_limits_equal_requests,
    ),
    _rule(
        id="gpu-amount-is-whole",
        title="A GPU amount is a positive whole number.",
        rationale="Extended resources are whole numbers, so the API server would never admit the pod. A part of a GPU is a MIG slice or a share.",
        remedy="Ask for 1 or more, or for a MIG profile such as nvidia.com/mig-1g.10gb.",
        check=_gpu_is_whole_number,
    ),
    _rule(
        id="memory-limit-present",
        title="Every container has a memory limit.",
        rationale="One memory leak would take down the node and every model on it.",
        remedy="Set resources.limits.memory; in a contract, envelope.memory.",
        check=_memory_limit,
    ),
    _rule(
        id="requests-present",
        title="Every container states CPU and memory.",
        rationale="The scheduler places a pod without requests blindly, and the kubelet evicts it first.",
        remedy="Set resources.requests.cpu and resources.requests.memory; in a contract, envelope.cpu and envelope.memory.",
        check=_requests,
    ),
    _rule(
        id="one-gpu-kind-per-pod",
        title="A pod asks for one kind of GPU resource.",
        rationale="No node of this platform offers two kinds, so the pod would wait for ever.",
        remedy="Split the containers into two services, each on its own pool.",
        check=_one_gpu_kind,
    ),
    _rule(
        id="shared-gpu-is-single",
        title="A container asks for one share of a shared GPU.",
        rationale="The device plugin refuses more under MPS and time-slicing, and more shares would not give more of the GPU.",
        remedy="Ask for nvidia.com/gpu.shared: 1, or move to a MIG or whole-GPU pool.",
        check=_shared_gpu_single,
    ),
    _rule(
        id="gpus-per-pod-bounded",
        title="A pod asks for no more GPUs than a node has.",
        rationale="A pod that is larger than every node stays pending for ever, and blocks the rollout that created it.",
        remedy="Lower the pod's GPUs, or raise maxGpusPerPod where nodes are larger.",
        check=_gpu_ceiling,
        settings={"maxGpusPerPod": {"type": "integer", "minimum": 1, "default": 8}},
    ),
    _rule(
        id="memory-volume-bounded",
        title="A volume in memory has a size limit.",
        rationale="Without a size limit, shared memory can take half of the node's memory.",
        remedy="Set emptyDir.sizeLimit.",
        check=_shm,
        severity=PolicySeverity.MEDIUM,
    ),
)
