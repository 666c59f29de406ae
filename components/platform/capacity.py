"""Priorities and warm capacity: room on a pool that is kept free by pods that give it up at once, and images that are
there already. Pure.

A placeholder is a pod of the lowest priority that asks for one unit of the pool's GPUs. A model's pod preempts it
within seconds, and the autoscaler makes a node for the placeholder instead of for the model. It is paid for in full.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.labels import labels
from components.manifests import Manifest, object_
from components.mirror import mirrored
from components.nodes import gpu_node
from components.platform.namespaces import WARM_CAPACITY
from components.versions import PAUSE_IMAGE
from headway.contract.pool import Pool
from headway.wire import POOL

PLATFORM_PRIORITY, PLATFORM_PRIORITY_VALUE = "headway-platform", 1_000_000
PLACEHOLDER_PRIORITY, PLACEHOLDER_PRIORITY_VALUE = "headway-placeholder", -10
"""Below zero: the autoscaler's default cut-off is -10, at which it still makes nodes for them."""

_SMALL: Mapping[str, str] = {"cpu": "10m", "memory": "16Mi", "ephemeral-storage": "16Mi"}


@dataclass(frozen=True, kw_only=True)
class Warm:
    """`units` GPUs, slices or shares of `pool` that are kept free, and `images` that each of its nodes pulls as soon
    as it joins.
    """

    pool: Pool
    units: int
    images: tuple[str, ...] = ()


def manifests(warm: Sequence[Warm], mirror: str | None = None) -> tuple[Manifest, ...]:
    """The platform's priority classes, and a Deployment of placeholders for each entry."""
    return (
        _priority("platform", PLATFORM_PRIORITY, PLATFORM_PRIORITY_VALUE, "PreemptLowerPriority", "What every tenant depends on"),
        _priority("placeholder", PLACEHOLDER_PRIORITY, PLACEHOLDER_PRIORITY_VALUE, "Never", "Room kept free; gives way to anything"),
        *(_placeholders(entry, mirror) for entry in sorted(warm, key=lambda entry: entry.pool.name) if entry.units),
        *(_prefetch(entry, mirror) for entry in sorted(warm, key=lambda entry: entry.pool.name) if entry.images),
    )


def _priority(role: str, name: str, value: int, preemption: str, description: str) -> Manifest:
    body = object_("scheduling.k8s.io/v1", "PriorityClass", name, labels=labels("priority"))
    return Manifest(role=role, body={**body, "value": value, "preemptionPolicy": preemption, "description": description})


def _placeholders(warm: Warm, mirror: str | None) -> Manifest:
    pool = warm.pool
    resource = min(pool.resources_per_node)
    picked = {POOL: pool.name, "app.kubernetes.io/component": "placeholder"}
    quantity = {resource: "1", **_SMALL}
    pod = _pod(pool, [_container("placeholder", mirrored(PAUSE_IMAGE, mirror), quantity)], priorityClassName=PLACEHOLDER_PRIORITY)
    # A node of divided GPUs seems empty to the autoscaler, which would remove it and make another for the placeholder.
    stays = {} if gpu_node.use_is_seen(pool) else {"annotations": {gpu_node.SAFE_TO_EVICT: "false"}}
    return Manifest(
        role=f"warm-{pool.name}",
        after=("placeholder",),
        body=object_(
            "apps/v1",
            "Deployment",
            f"warm-{pool.name}",
            namespace=WARM_CAPACITY,
            labels={**labels("placeholder"), POOL: pool.name},
            # A placeholder waits for a node as long as it takes; an update must not wait for it.
            annotations={"pulumi.com/skipAwait": "true"},
            spec={
                "replicas": warm.units,
                "selector": {"matchLabels": picked},
                "template": {"metadata": {"labels": {**labels("placeholder"), **picked}, **stays}, "spec": pod},
            },
        ),
    )


def _prefetch(warm: Warm, mirror: str | None) -> Manifest:
    """One pod a node of the pool: it starts each image once, which pulls it, and then only stays, so that the node
    keeps them.

    An image without `/bin/true` fails here and holds up those after it; servers' images have it, as they have a
    shell.
    """
    pool = warm.pool
    picked = {POOL: pool.name, "app.kubernetes.io/component": "prefetch"}
    # An image made for CUDA would be given every GPU of the node, and would not start where it is newer than the driver.
    pulls = [
        {**_container(f"pull-{number}", image, _SMALL), "command": ["/bin/true"], "env": [dict(gpu_node.NO_DEVICES)]}
        for number, image in enumerate(warm.images)
    ]
    pod = _pod(
        pool,
        [_container("stay", mirrored(PAUSE_IMAGE, mirror), _SMALL)],
        initContainers=pulls,
        priorityClassName=PLATFORM_PRIORITY,
        # It takes no GPU, and pulls while MIG cuts them.
        tolerations=[gpu_node.toleration(taint) for taint in gpu_node.born_with(pool)],
    )
    return Manifest(
        role=f"prefetch-{pool.name}",
        after=("platform",),
        body=object_(
            "apps/v1",
            "DaemonSet",
            f"prefetch-{pool.name}",
            namespace=WARM_CAPACITY,
            labels={**labels("prefetch"), POOL: pool.name},
            # Large images take minutes; an update must not wait for them.
            annotations={"pulumi.com/skipAwait": "true"},
            spec={
                "selector": {"matchLabels": picked},
                "template": {"metadata": {"labels": {**labels("prefetch"), **picked}}, "spec": pod},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}},
            },
        ),
    )


def _container(name: str, image: str, quantity: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "image": image,
        "resources": {"limits": dict(quantity), "requests": dict(quantity)},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True},
    }


def _pod(pool: Pool, containers: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """On the nodes of `pool`, with as few rights as there are."""
    return {
        "automountServiceAccountToken": False,
        "containers": list(containers),
        "nodeSelector": {POOL: pool.name},
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "runAsGroup": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": 0,
        "tolerations": [gpu_node.toleration(taint) for taint in gpu_node.taints(pool)],
        **more,
    }
