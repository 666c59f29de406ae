"""How a loop of Headway's own stands in the cluster: two replicas of an image of headway on the system nodes, one of
them at every time, in a namespace that is called as the loop. Pure.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from components import rbac
from components.addons.placement import ON_SYSTEM_NODES, RESTRICTED_CONTAINER, RESTRICTED_POD, spread
from components.addons.service_account import Annotations
from components.labels import labels
from components.manifests import Manifest, object_
from components.naming import bucket_arn
from components.permissions import Statement, finds, finds_versions
from components.platform.capacity import PLATFORM_PRIORITY
from headway.ledger.witness import named
from headway.wire import GATEWAY_NAMESPACE

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


def identity(name: str, rules: Sequence[Mapping[str, Any]], annotations: Annotations = None) -> tuple[Manifest, ...]:
    """Service account with its `annotations`, what it may do everywhere, and that it is its."""
    found = labels(name)
    rights = rbac.role(f"headway-{name}", rules, found)
    return (
        Manifest(role="account", body=object_("v1", "ServiceAccount", name, namespace=name, labels=found, annotations=annotations)),
        Manifest(role="rights", body=rights),
        Manifest(role="binding", after=("account", "rights"), body=rbac.binding(rights, [rbac.account(name, name)])),
    )


def service(name: str, port_name: str, port: int) -> Manifest:
    """Where the loop is asked."""
    ports = [{"name": port_name, "port": port, "targetPort": port, "protocol": "TCP"}]
    spec = {"selector": picked(name), "ports": ports}
    return Manifest(role="service", body=object_("v1", "Service", name, namespace=name, labels=labels(name), spec=spec))


def gateway_alone(name: str, port: int) -> Manifest:
    """The mesh lets the gateway use this port of a loop, and nobody else any."""
    callers = {"from": [{"source": {"namespaces": [GATEWAY_NAMESPACE]}}], "to": [{"operation": {"ports": [str(port)]}}]}
    spec = {"selector": {"matchLabels": picked(name)}, "action": "ALLOW", "rules": [callers]}
    policy = object_("security.istio.io/v1", "AuthorizationPolicy", name, namespace=name, labels=labels(name), spec=spec)
    return Manifest(role="callers", body=policy)


def settings(name: str, file: str, known: str) -> Manifest:
    """What the platform layer tells the loop, as the `file` that it reads in `SETTINGS`."""
    return Manifest(role="settings", body=object_("v1", "ConfigMap", name, namespace=name, labels=labels(name), data={file: known}))


def acting(name: str, region: str, known: str) -> list[dict[str, str]]:
    """Environment variables of a loop that has settings and asks AWS."""
    return [
        # The one name that boto3 reads (botocore/configprovider.py, BOTOCORE_DEFAULT_SESSION_VARIABLES).
        {"name": "AWS_DEFAULT_REGION", "value": region},
        # Who acts, in the ledger; the pod's user has no name.
        {"name": "USER", "value": name},
        # Other settings are other pods, for a loop reads them once.
        {"name": "SETTINGS", "value": hashlib.sha256(known.encode()).hexdigest()[:12]},
    ]


CHAINS = "*/*"
"""Every service's chain of releases, by the form of its place in the ledger."""


def reads_chains(ledger: str, witnesses: str) -> tuple[Statement, ...]:
    """Read every service's chain of releases and what witnesses it. `ledger`: the bucket; `witnesses`: the ARN below which these are."""
    bucket = bucket_arn(ledger)
    return (
        Statement(sid="ReadLedger", actions=["s3:GetObject", "s3:GetObjectVersion"], resources=[f"{bucket}/{CHAINS}/*"]),
        Statement(sid="AskWitness", actions=["ssm:GetParameter"], resources=[f"{witnesses}/{named(CHAINS, f's3://{ledger}')}"]),
        finds("FindEvents", bucket, f"{CHAINS}/*"),
        finds_versions(bucket, f"{CHAINS}/*"),
    )


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
