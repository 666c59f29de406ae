"""What the loop of `headway nodes watch` stands on: a place for its diagnostics, its rights, and what it must know of the pools. Pure.

The trap: the namespace is privileged, because a diagnostic takes GPUs past the device plugin; so nobody but the loop may make pods in it,
and what it may do to other namespaces' pods is to evict them, which disruption budgets stop, and never to delete them.
"""

import json
from collections.abc import Sequence

from components.labels import labels
from components.manifests import Manifest, object_
from components.permissions import Statement
from components.platform.namespaces import NODE_HEALTH
from components.versions import DIAGNOSTIC_IMAGE
from headway.contract.pool import Pool

SERVICE_ACCOUNT = "node-health"
_RBAC = "rbac.authorization.k8s.io/v1"
CLUSTER_ROLE = "headway-node-health"
SETTINGS = "node-health"
"""The ConfigMap that the loop reads (`headway.health.cluster`)."""

_EVERYWHERE = (
    ("", ("nodes",), ("get", "list", "watch", "patch")),
    ("", ("pods",), ("get", "list", "watch")),
    ("", ("pods/eviction",), ("create",)),
    ("", ("configmaps",), ("list",)),
    ("", ("events",), ("create", "patch")),
    ("nvidia.com", ("clusterpolicies",), ("get",)),
)
_AT_HOME = (("", ("pods",), ("create", "delete")), ("", ("configmaps",), ("get",)))


def manifests(pools: Sequence[Pool]) -> tuple[Manifest, ...]:
    """The loop's identity, its rights and its settings."""
    found = labels("node-health")
    subject = {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NODE_HEALTH}
    return (
        Manifest(role="account", body=object_("v1", "ServiceAccount", SERVICE_ACCOUNT, namespace=NODE_HEALTH, labels=found)),
        Manifest(
            role="settings",
            body=object_(
                "v1",
                "ConfigMap",
                SETTINGS,
                namespace=NODE_HEALTH,
                labels=found,
                data={"diagnosticImage": DIAGNOSTIC_IMAGE, "pools.json": json.dumps(expected(pools), sort_keys=True)},
            ),
        ),
        Manifest(role="everywhere", body=object_(_RBAC, "ClusterRole", CLUSTER_ROLE, labels=found, rules=_rules(_EVERYWHERE))),
        Manifest(
            role="everywhere-binding",
            after=("account", "everywhere"),
            body=object_(
                _RBAC,
                "ClusterRoleBinding",
                CLUSTER_ROLE,
                labels=found,
                roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": CLUSTER_ROLE},
                subjects=[subject],
            ),
        ),
        Manifest(role="home", body=object_(_RBAC, "Role", SERVICE_ACCOUNT, namespace=NODE_HEALTH, labels=found, rules=_rules(_AT_HOME))),
        Manifest(
            role="home-binding",
            after=("account", "home"),
            body=object_(
                _RBAC,
                "RoleBinding",
                SERVICE_ACCOUNT,
                namespace=NODE_HEALTH,
                labels=found,
                roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": SERVICE_ACCOUNT},
                subjects=[subject],
            ),
        ),
    )


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
    """What every node of a pool must offer once it is there, the driver of its image, and how many nodes there are at least."""
    return {
        pool.name: {
            "resources": pool.resources_per_node,
            "driver": pool.ami.driver,
            "nodesAtLeast": pool.size.min * len(pool.zones),
        }
        for pool in sorted(pools, key=lambda pool: pool.name)
    }


def _rules(rules: Sequence[tuple[str, Sequence[str], Sequence[str]]]) -> list[dict[str, list[str]]]:
    return [{"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)} for group, resources, verbs in rules]
