"""Builds the manifest of a simulated node. Pure: who creates and deletes nodes (the cloud double) decides what they
hold.

The annotation makes kwok play the node: it keeps its lease and makes pods that are scheduled there run. The status is
accepted at creation because the API server keeps it for nodes, so a node has its GPUs from its first moment.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headway.wire import PREFIX

MANAGED = {"kwok.x-k8s.io/node": "fake"}
"""Annotation by which kwok knows its nodes."""

STATUS_BY_OTHERS = {"kwok.x-k8s.io/status": "custom"}
"""Annotation of a pod whose status somebody else keeps: kwok neither makes it ready nor repairs it, but still ends its
deletion."""

RUN_BY_AGENT = {f"sandbox.{PREFIX}/run-by": "node-agent"}
"""Annotation of a pod that `sandbox/traffic` runs as a process: kwok leaves its deletion alone too, because a process
has to end first."""

READY_DELAY = "pod-ready.stage.kwok.x-k8s.io/delay"
"""Annotation of a pod: how long it takes to become ready, as a Go duration (`45s`); simulates the warm-up of a model.
"""

KUBELET_VERSION = "v1.36.2"


def node_manifest(
    name: str,
    *,
    labels: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
    capacity: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
    internal_ip: str = "127.0.0.1",
    provider_id: str = "",
    reserved: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A node called `name` that offers `capacity` (`cpu`, `memory`, `pods`, `nvidia.com/gpu`, `nvidia.com/mig-1g.10gb`,
    ...).

    `reserved` replaces entries of `capacity` in what pods may allocate, for nodes that keep a part for the system.
    Labels that a kubelet sets itself (hostname, os, arch) are added unless given. ValueError when `capacity` has no
    `pods`: a node without it takes none, and nothing says why.
    """
    if "pods" not in capacity:
        raise ValueError(f"node {name}: capacity has no `pods`, so the scheduler would place nothing on it; say how many it takes (110)")
    own = {"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    spec: dict[str, Any] = {"taints": [dict(taint) for taint in taints]} if taints else {}
    if provider_id:
        spec["providerID"] = provider_id
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": dict(sorted({**own, **labels}.items())),
            "annotations": dict(sorted({**(annotations or {}), **MANAGED}.items())),
        },
        "spec": spec,
        "status": {
            "capacity": dict(sorted(capacity.items())),
            "allocatable": dict(sorted({**capacity, **(reserved or {})}.items())),
            "addresses": [{"type": "InternalIP", "address": internal_ip}, {"type": "Hostname", "address": name}],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "containerd://simulated",
                "kernelVersion": "simulated",
                "kubeProxyVersion": "",
                "kubeletVersion": KUBELET_VERSION,
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "simulated by kwok",
                "systemUUID": "",
            },
        },
    }
