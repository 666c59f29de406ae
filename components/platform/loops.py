"""How a loop of Headway's own stands in the cluster: two replicas of an image of headway on the system nodes, one of
them at every time. Pure.
"""

from collections.abc import Mapping
from typing import Any

from components.addons.placement import ON_SYSTEM_NODES, RESTRICTED_CONTAINER, RESTRICTED_POD, spread
from components.labels import labels
from components.manifests import object_
from components.platform.capacity import PLATFORM_PRIORITY

REPLICAS = 2
SCRATCH = "/scratch"
"""The only place where the loop can write."""
SCRATCH_VOLUME: Mapping[str, Any] = {"name": "scratch", "emptyDir": {"sizeLimit": "16Mi"}}
SETTINGS = "/settings"
"""Where the loop reads what the platform layer wrote for it."""


def picked(name: str) -> dict[str, str]:
    """What selects the pods of the loop called `name`."""
    found = labels(name)
    return {key: found[key] for key in ("app.kubernetes.io/component", "app.kubernetes.io/part-of")}


def deployment(
    name: str,
    namespace: str,
    *containers: Mapping[str, Any],
    grace_seconds: int,
    settings: str | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The loop itself, as the service account of its name; `containers` say what is special about each, and one beside the first also its
    name; `settings` names a ConfigMap that they read; `annotations` are the pods'."""
    pod = {
        "automountServiceAccountToken": True,
        "containers": [container(name, each, settings) for each in containers],
        "enableServiceLinks": False,
        "nodeSelector": dict(ON_SYSTEM_NODES),
        "priorityClassName": PLATFORM_PRIORITY,
        "securityContext": dict(RESTRICTED_POD),
        "serviceAccountName": name,
        "terminationGracePeriodSeconds": grace_seconds,
        "topologySpreadConstraints": spread(picked(name)),
        "volumes": [
            dict(SCRATCH_VOLUME),
            *([{"name": "settings", "configMap": {"name": settings}}] if settings else []),
        ],
    }
    return object_(
        "apps/v1",
        "Deployment",
        name,
        namespace=namespace,
        labels=labels(name),
        spec={
            "replicas": REPLICAS,
            "selector": {"matchLabels": picked(name)},
            # Never fewer than one: a surge first.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": labels(name), **({"annotations": dict(annotations)} if annotations else {})}, "spec": pod},
        },
    )


def container(name: str, special: Mapping[str, Any], settings: str | None = None) -> dict[str, Any]:
    """A container of a loop: what is `special` about it, and what all have."""
    return {
        "name": name,
        **special,
        # The client of Kubernetes keeps the API server's certificate in a temporary file.
        "env": [*special.get("env", ()), {"name": "TMPDIR", "value": SCRATCH}],
        "securityContext": dict(RESTRICTED_CONTAINER),
        "volumeMounts": [
            {"name": "scratch", "mountPath": SCRATCH},
            *([{"name": "settings", "mountPath": SETTINGS, "readOnly": True}] if settings else []),
        ],
    }


def budget(name: str, namespace: str) -> dict[str, Any]:
    """A drain takes one replica at a time."""
    return object_(
        "policy/v1",
        "PodDisruptionBudget",
        name,
        namespace=namespace,
        labels=labels(name),
        spec={"maxUnavailable": 1, "selector": {"matchLabels": picked(name)}},
    )


def probes(port: str) -> dict[str, Any]:
    """Of a container that answers `/healthz` at the port of this name."""
    probe = {"httpGet": {"path": "/healthz", "port": port}, "periodSeconds": 10, "timeoutSeconds": 2}
    return {"livenessProbe": {**probe, "failureThreshold": 3}, "readinessProbe": {**probe, "failureThreshold": 1}}


def monitor(name: str, namespace: str, *ports: str, series: int = 100, **more: Any) -> dict[str, Any]:
    """What scrapes the loop at these ports, at most so many series of a page. Needs the Prometheus operator's definitions."""
    endpoints = [{"port": port, "path": "/metrics", "interval": "15s", "scrapeTimeout": "10s"} for port in ports]
    spec = {"selector": {"matchLabels": picked(name)}, "sampleLimit": series, "podMetricsEndpoints": endpoints, **more}
    return object_("monitoring.coreos.com/v1", "PodMonitor", name, namespace=namespace, labels=labels(name), spec=spec)
