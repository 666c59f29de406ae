"""What the loop of `headway nodes watch` stands on: a place for its diagnostics, its rights, what it must know of the
pools; and, where the environment names an image of headway, the loop itself. Pure.

Two replicas, of which the one that holds the Lease acts: the other takes over within a minute. The namespace is
privileged, because a diagnostic takes GPUs past the device plugin; so nobody but the loop may make pods in it, and
what it may do to other namespaces' pods is to evict them, which disruption budgets stop, and never to delete them. A
right to patch nodes is one to all of a node; an admission rule leaves of it what the loop is there for.
"""

import json
from collections.abc import Sequence
from typing import Any

from components import rbac
from components.addons import prometheus
from components.addons.service_account import Annotations
from components.labels import labels
from components.manifests import Manifest, object_
from components.mirror import mirrored
from components.permissions import Statement
from components.platform import loops
from components.platform.node_boundary import RULE
from components.platform.rule import manifests_of
from components.versions import DIAGNOSTIC_IMAGE
from headway.contract.pool import Pool
from headway.wire import (
    NODE_HEALTH_FIELD_MANAGER,
    NODE_HEALTH_IMAGE_KEY,
    NODE_HEALTH_NAMESPACE,
    NODE_HEALTH_POOLS_KEY,
    NODE_HEALTH_SETTINGS,
)

SERVICE_ACCOUNT = NODE_HEALTH_NAMESPACE
CLUSTER_ROLE = NODE_HEALTH_FIELD_MANAGER
"""Outside its namespace the loop goes by one name, as writer of fields too."""


_EVERYWHERE: tuple[rbac.Right, ...] = (
    ("", ("nodes",), ("list", "patch")),
    ("", ("pods",), ("list",)),
    ("", ("pods/eviction",), ("create",)),
)
_EVENTS: rbac.Right = ("", ("events",), ("create",))
_PLACE_OF_EVENTS = "default"
"""Of objects without a namespace, such as nodes (kubernetes, pkg/apis/core/validation/events.go)."""
_AT_HOME: tuple[rbac.Right, ...] = (
    ("", ("pods",), ("create", "delete")),
    ("", ("configmaps",), ("get",)),
    # Which of several loops acts. A right to create cannot be bound to a name.
    ("coordination.k8s.io", ("leases",), ("create", "get", "update")),
)
LOOP = SERVICE_ACCOUNT
PORT, PORT_NAME = 8080, "metrics"


def manifests(pools: Sequence[Pool], mirror: str | None = None, annotations: Annotations = None) -> tuple[Manifest, ...]:
    """The loop's service account with its `annotations`, its rights and its settings."""
    found = labels(SERVICE_ACCOUNT)
    subjects = [rbac.account(SERVICE_ACCOUNT, NODE_HEALTH_NAMESPACE)]
    everywhere = rbac.role(CLUSTER_ROLE, rbac.rules(*_EVERYWHERE), found)
    events = rbac.role(CLUSTER_ROLE, rbac.rules(_EVENTS), found, _PLACE_OF_EVENTS)
    home = rbac.role(SERVICE_ACCOUNT, rbac.rules(*_AT_HOME), found, NODE_HEALTH_NAMESPACE)
    bounds = manifests_of(RULE)
    return (
        *bounds,
        Manifest(
            role="account",
            body=object_("v1", "ServiceAccount", SERVICE_ACCOUNT, namespace=NODE_HEALTH_NAMESPACE, labels=found, annotations=annotations),
        ),
        Manifest(
            role="settings",
            body=object_(
                "v1",
                "ConfigMap",
                NODE_HEALTH_SETTINGS,
                namespace=NODE_HEALTH_NAMESPACE,
                labels=found,
                data={
                    NODE_HEALTH_IMAGE_KEY: mirrored(DIAGNOSTIC_IMAGE, mirror),
                    NODE_HEALTH_POOLS_KEY: json.dumps(expected(pools), sort_keys=True),
                },
            ),
        ),
        Manifest(role="everywhere", body=everywhere),
        Manifest(role="everywhere-binding", after=("account", "everywhere", bounds[-1].role), body=rbac.binding(everywhere, subjects)),
        Manifest(role="events", body=events),
        Manifest(role="events-binding", after=("account", "events"), body=rbac.binding(events, subjects)),
        Manifest(role="home", body=home),
        Manifest(role="home-binding", after=("account", "home"), body=rbac.binding(home, subjects)),
    )


def loop(image: str, region: str) -> tuple[Manifest, ...]:
    """The loop as a Deployment of `image`, an image of headway by digest, and what scrapes it. Needs the Prometheus
    operator's definitions.
    """
    return (
        Manifest(role="loop", body=loops.deployment(LOOP, NODE_HEALTH_NAMESPACE, _container(image, region), grace_seconds=30)),
        Manifest(role="loop-budget", body=loops.budget(LOOP, NODE_HEALTH_NAMESPACE)),
        Manifest(role="loop-monitor", body=loops.monitor(LOOP, NODE_HEALTH_NAMESPACE, PORT_NAME)),
    )


def _container(image: str, region: str) -> dict[str, Any]:
    return {
        "image": image,
        "args": ["nodes", "watch", "--replace", "--prometheus", prometheus.SERVICE, "--serve", f"0.0.0.0:{PORT}"],
        "env": [{"name": "AWS_DEFAULT_REGION", "value": region}],
        "ports": [{"name": PORT_NAME, "containerPort": PORT, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}},
        **loops.probes(PORT_NAME),
    }


def permissions(cluster: str, account_id: str, region: str) -> tuple[Statement, ...]:
    """End an instance of this cluster's own groups, which start another; nothing else of AWS."""
    return (
        Statement(
            sid="ReplaceNodes",
            actions=["autoscaling:TerminateInstanceInAutoScalingGroup"],
            resources=[f"arn:aws:autoscaling:{region}:{account_id}:autoScalingGroup:*:autoScalingGroupName/eks-*"],
            conditions={"StringEquals": {f"aws:ResourceTag/k8s.io/cluster-autoscaler/{cluster}": "owned"}},
        ),
    )


def expected(pools: Sequence[Pool]) -> dict[str, dict[str, object]]:
    """What every node of a pool must offer once it is there, the driver of its image, and how many nodes there are
    at least.
    """
    return {
        pool.name: {
            "resources": pool.resources_per_node,
            "driver": pool.ami.driver,
            "nodesAtLeast": pool.size.min * len(pool.zones),
        }
        for pool in sorted(pools, key=lambda pool: pool.name)
    }
