"""What every node is started with: an encrypted root volume, IMDSv2 out of reach of pods, and its nodeadm
configuration. Pure.

The trap: a launch template that names an image, a subnet or an instance profile turns a managed node group into a
self-managed one; these name none, and EKS merges the user data below with its own.
"""

import base64
import json
from dataclasses import dataclass

from headway.contract.pool_parts import Disk

ROOT_DEVICE = "/dev/xvda"
_BOUNDARY = "headway-nodeadm"
_MI = 2**20
_GI = 2**30

SHUTDOWN_SECONDS = 300
"""A model server drains its requests and unloads within this; node repair allows ten minutes in all."""

SHUTDOWN_CRITICAL_SECONDS = 60
"""Part of it that is left to the node's own daemons."""


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """`stripe_nvme` binds images and pod storage to the instance store. `parallel_pull` needs 600 MiB/s of disk."""

    stripe_nvme: bool
    parallel_pull: bool


def user_data(options: NodeOptions) -> str:
    """The MIME document that nodeadm reads, in base64. https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/"""
    config: dict[str, object] = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            **({"featureGates": {"FastImagePull": True}} if options.parallel_pull else {}),
            **({"instance": {"localStorage": {"strategy": "RAID0"}}} if options.stripe_nvme else {}),
            "kubelet": {
                "config": {
                    "serializeImagePulls": False,
                    "shutdownGracePeriod": f"{SHUTDOWN_SECONDS}s",
                    "shutdownGracePeriodCriticalPods": f"{SHUTDOWN_CRITICAL_SECONDS}s",
                }
            },
        },
    }
    lines = [
        "MIME-Version: 1.0",
        f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"',
        "",
        f"--{_BOUNDARY}",
        "Content-Type: application/node.eks.aws",
        "",
        json.dumps(config, indent=2),  # JSON is YAML
        "",
        f"--{_BOUNDARY}--",
        "",
    ]
    return base64.b64encode("\n".join(lines).encode()).decode()


@dataclass(frozen=True, kw_only=True)
class RootVolume:
    """A gp3 volume in EC2's units."""

    gibibytes: int
    iops: int
    mebibytes_per_second: int


def root_volume(disk: Disk) -> RootVolume:
    """`disk` in EC2's units, sizes rounded up."""
    return RootVolume(gibibytes=-(-int(disk.size) // _GI), iops=disk.iops, mebibytes_per_second=-(-int(disk.throughput) // _MI))
