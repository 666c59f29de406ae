"""What a node of an EKS node group offers and is called: pure, from the group, its launch template and the accelerator catalogue.

It answers as a node does once the GPU Operator has done its work: device plugin, MIG manager and feature discovery are taken as running
wherever the AMI has a driver; `mig.py` knows what of it comes late. The trap: MIG and sharing are chosen by node labels, so a misspelt
label is refused here, by name, where the real MIG manager would only write `failed` into a label.
"""

import base64
import email
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import yaml

from headway.contract.accelerators import INSTANCE_TYPES, Gpu, InstanceType
from headway.wire import MIG_CONFIG, MIG_STATE
from pulumi_embedded.engine.provider import ProviderError
from pulumi_embedded.providers.aws.catalogue.eks import is_arm
from pulumi_embedded.providers.aws.nodes import NodeGroup, NodeZone, SimulatedNode

PLUGIN_LABEL = "nvidia.com/device-plugin.config"

_MI, _GI = 2**20, 2**30
_OVERHEAD = 0.075
"""Part of an instance's memory that hypervisor and kernel keep: Karpenter's default for vmMemoryOverheadPercent."""
_SMALL_VCPUS, _PODS_SMALL, _PODS_LARGE = 30, 110, 250
"""Pods with prefix delegation: EKS user guide, "Increase the available IP addresses", up to and above 30 vCPUs."""
_EVICTION_MI, _EPHEMERAL_RESERVED, _EPHEMERAL_EVICTION = 100, 1 * _GI, 0.10
_GFD = {"ampere": ("ampere", 8, 0), "ada": ("ada-lovelace", 8, 9), "hopper": ("hopper", 9, 0)}
"""Architecture -> feature discovery's family and compute capability."""
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
_SHARED = re.compile(r"(ts|slice|mps)-(\d+)")
_CUSTOM = re.compile(r"(\d+)x(\d+g\.\d+gb(?:\+me)?)")
_WHOLE = ("", "exclusive", "default")


DRIVERS = {"1.36.2-20260714": "580.159.03"}
"""NVIDIA's driver in releases of the accelerated AMI (awslabs/amazon-eks-ami, CHANGELOG). Nodes of a release that is not here name none."""


def nodes(group: NodeGroup, count: int) -> tuple[SimulatedNode, ...]:
    """The first `count` nodes of `group`, spread over its zones in turn. ProviderError for labels or types that cannot be simulated."""
    facts = INSTANCE_TYPES.get(group.instance_type)
    if facts is None:
        raise ProviderError(
            f"instance type {group.instance_type} is not in the accelerator catalogue (headway/contract/accelerators.py), so its nodes "
            f"cannot be simulated; it holds {', '.join(INSTANCE_TYPES)}"
        )
    gpu = facts.gpu if _has_driver(group.ami_type) else None
    advertised, gpu_labels = accelerators(facts, gpu, group.labels)
    if gpu and group.release_version in DRIVERS:
        gpu_labels["nvidia.com/cuda.driver-version.full"] = DRIVERS[group.release_version]
    capacity = _capacity(facts, group) | advertised
    allocatable = capacity | _allocatable(facts, capacity)
    taints = [node_taint(taint) for taint in group.taints]
    return tuple(
        SimulatedNode(
            name=node_name(group.name, ordinal),
            labels=_labels(group, facts, ordinal) | gpu_labels | dict(group.labels),
            taints=taints,
            capacity=capacity,
            allocatable=allocatable,
            provider_id=f"aws:///{_zone(group, ordinal).name}/{_instance_id(group, ordinal)}",
        )
        for ordinal in range(count)
    )


def node_name(group: str, ordinal: int) -> str:
    """Stable, legal as a host name, and at most 63 characters."""
    base = re.sub(r"[^a-z0-9-]", "-", group.lower()).strip("-")
    if len(base) > 58:
        base = f"{base[:50]}-{sha256(group.encode()).hexdigest()[:7]}"
    return f"{base}-{ordinal}"


def accelerators(facts: InstanceType, gpu: Gpu | None, labels: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Extended resources and feature discovery labels of an instance with these node labels."""
    mig, plugin = labels.get(MIG_CONFIG, ""), labels.get(PLUGIN_LABEL, "")
    sharing = _SHARED.fullmatch(plugin)
    if sharing is None and plugin not in _WHOLE:
        raise ProviderError(f"label {PLUGIN_LABEL} is {plugin!r}; the double knows exclusive, default, ts-N, slice-N and mps-N")
    if gpu is None:
        if mig not in ("", "all-disabled") or sharing:
            why = "has no GPU" if facts.gpu is None else "has an AMI without GPU driver"
            raise ProviderError(
                f"labels {MIG_CONFIG}={mig!r} and {PLUGIN_LABEL}={plugin!r} share a GPU, but the group of {facts.name} {why}"
            )
        return {}, {}
    described = _described(gpu, facts)
    if mig not in ("", "all-disabled"):
        if sharing:
            raise ProviderError(f"labels ask for MIG ({mig}) and for {plugin} at once; the double models one way of sharing a GPU")
        return _partitioned(gpu, facts, mig, described)
    if sharing:
        replicas = int(sharing[2])
        strategy = "mps" if sharing[1] == "mps" else "time-slicing"
        shared = {"nvidia.com/gpu.replicas": str(replicas), "nvidia.com/gpu.sharing-strategy": strategy}
        return {"nvidia.com/gpu.shared": str(facts.gpus * replicas)}, described | shared
    return {"nvidia.com/gpu": str(facts.gpus)}, described | {"nvidia.com/gpu.sharing-strategy": "none"}


def layout(gpu: Gpu, config: str) -> dict[str, int]:
    """Instances of each MIG profile on one GPU, as mig-parted reads the name of a configuration."""
    legal = [f"all-{profile.name}" for profile in gpu.mig]
    if config == "all-balanced" and gpu.mig:
        smallest = {profile.name.split(".")[0]: profile.name for profile in reversed(gpu.mig)}
        return {smallest["1g"]: 2, smallest["2g"]: 1, smallest["3g"]: 1}
    if config in legal:
        profile = gpu.profile(config.removeprefix("all-"))
        return {profile.name: len(profile.starts)} if profile else {}
    counts = {name: int(count) for count, name in _CUSTOM.findall(config)} if config.startswith("custom-") else {}
    if counts and all(gpu.profile(name) for name in counts):
        return counts
    known = ", ".join([*legal, "all-balanced", "all-disabled"]) if legal else "none: this GPU has no MIG"
    raise ProviderError(
        f"label {MIG_CONFIG} is {config!r}, which {gpu.product} does not know; legal are {known}, custom-<count>x<profile>-…"
    )


def _partitioned(gpu: Gpu, facts: InstanceType, config: str, described: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    resources: dict[str, str] = {}
    labels = described | {MIG_STATE: "success", "nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.sharing-strategy": "none"}
    for name, count in sorted(layout(gpu, config).items()):
        profile = gpu.profile(name)
        if profile is None:
            continue
        resources[profile.resource] = str(count * facts.gpus)
        labels |= {
            f"{profile.resource}.count": str(count * facts.gpus),
            f"{profile.resource}.memory": str(int(profile.memory) // _MI),
            f"{profile.resource}.product": f"{gpu.product}-MIG-{name}",
        }
    return resources, labels


def _described(gpu: Gpu, facts: InstanceType) -> dict[str, str]:
    family, major, minor = _GFD[gpu.architecture]
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": gpu.product,
        "nvidia.com/gpu.count": str(facts.gpus),
        "nvidia.com/gpu.memory": str(int(gpu.memory) // _MI),
        "nvidia.com/gpu.family": family,
        "nvidia.com/gpu.compute.major": str(major),
        "nvidia.com/gpu.compute.minor": str(minor),
        "nvidia.com/mig.capable": str(bool(gpu.mig)).lower(),
        "nvidia.com/mps.capable": "true",
        "nvidia.com/gpu.replicas": "1",
    }


def _has_driver(ami_type: str) -> bool:
    """Only AMIs with NVIDIA's driver, or unknown ones, show GPUs to the device plugin."""
    return "NVIDIA" in ami_type or ami_type == "CUSTOM"


def _labels(group: NodeGroup, facts: InstanceType, ordinal: int) -> dict[str, str]:
    zone = _zone(group, ordinal)
    labels = {
        "beta.kubernetes.io/instance-type": facts.name,
        "node.kubernetes.io/instance-type": facts.name,
        "eks.amazonaws.com/capacityType": group.capacity_type,
        "eks.amazonaws.com/nodegroup": group.name,
        "eks.amazonaws.com/nodegroup-image": group.release_version,
        "failure-domain.beta.kubernetes.io/region": group.region,
        "failure-domain.beta.kubernetes.io/zone": zone.name,
        "topology.kubernetes.io/region": group.region,
        "topology.kubernetes.io/zone": zone.name,
        "topology.k8s.aws/zone-id": zone.id,
        "kubernetes.io/arch": "arm64" if is_arm(facts.name) else "amd64",
    }
    if group.template_id:
        labels |= {
            "eks.amazonaws.com/sourceLaunchTemplateId": group.template_id,
            "eks.amazonaws.com/sourceLaunchTemplateVersion": group.template_version,
        }
    return {key: value for key, value in labels.items() if value}


def _capacity(facts: InstanceType, group: NodeGroup) -> dict[str, str]:
    # No `vpc.amazonaws.com/efa`, whatever interfaces the template has: that resource is its own plugin's, which nobody installs.
    return {
        "cpu": str(facts.vcpus),
        "memory": f"{int(int(facts.memory) * (1 - _OVERHEAD)) // 1024}Ki",
        "pods": str(_pods(facts)),
        "ephemeral-storage": f"{_disk(facts, group) // 1024}Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
    }


def _allocatable(facts: InstanceType, capacity: Mapping[str, str]) -> dict[str, str]:
    """Less what nodeadm reserves (github.com/awslabs/amazon-eks-ami, nodeadm/internal/kubelet) and the kubelet's eviction thresholds."""
    memory = int(capacity["memory"].removesuffix("Ki")) - (255 + 11 * _pods(facts) + _EVICTION_MI) * 1024
    disk = int(capacity["ephemeral-storage"].removesuffix("Ki")) * 1024
    return {
        "cpu": f"{facts.vcpus * 1000 - _reserved_millicores(facts.vcpus)}m",
        "memory": f"{memory}Ki",
        "ephemeral-storage": str(int(disk * (1 - _EPHEMERAL_EVICTION)) - _EPHEMERAL_RESERVED),
    }


def _reserved_millicores(vcpus: int) -> int:
    """6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of all others."""
    tenths = 600 + 100 * min(1, max(0, vcpus - 1)) + 50 * min(2, max(0, vcpus - 2)) + 25 * max(0, vcpus - 4)
    return tenths // 10


def _pods(facts: InstanceType) -> int:
    return _PODS_SMALL if facts.vcpus <= _SMALL_VCPUS else _PODS_LARGE


def _disk(facts: InstanceType, group: NodeGroup) -> int:
    """Bytes for images, logs and empty directories: the root volume, or the instance's NVMe where the node configuration says RAID0."""
    if int(facts.nvme) and local_storage(str(group.template.get("userData") or "")) == "RAID0":
        return int(facts.nvme)
    for mapping in group.template.get("blockDeviceMappings") or []:
        size = (mapping.get("ebs") or {}).get("volumeSize")
        if size:
            return int(size) * _GI
    return group.disk_gibibytes * _GI


def local_storage(user_data: str) -> str:
    """`spec.instance.localStorage.strategy` of the NodeConfig in a launch template's user data; empty without one."""
    if not user_data:
        return ""
    text = base64.b64decode(user_data).decode(errors="replace")
    message = email.message_from_string(text)
    parts = message.walk() if message.is_multipart() else [message]
    for part in parts:
        body = part.get_payload() if part.get_content_type() == "application/node.eks.aws" else None
        document = yaml.safe_load(body) if isinstance(body, str) else None
        if isinstance(document, dict) and document.get("kind") == "NodeConfig":
            instance = (document.get("spec") or {}).get("instance") or {}
            return str((instance.get("localStorage") or {}).get("strategy") or "")
    return ""


def node_taint(taint: Mapping[str, Any]) -> dict[str, str]:
    """A taint of the EKS API as a node has it."""
    written = {"key": str(taint["key"]), "effect": _EFFECTS[str(taint["effect"])]}
    return written | ({"value": str(taint["value"])} if taint.get("value") else {})


def _zone(group: NodeGroup, ordinal: int) -> NodeZone:
    return group.zones[ordinal % len(group.zones)]


def _instance_id(group: NodeGroup, ordinal: int) -> str:
    """A new launch template version or AMI means new instances under the same node name."""
    seed = f"{group.arn}#{ordinal}#{group.template_version}#{group.release_version}"
    return f"i-0{sha256(seed.encode()).hexdigest()[:16]}"
