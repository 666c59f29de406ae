"""The limiter that all proxies of the gateway ask: Envoy's rate limit service, with its counts in Valkey. Pure.

It knows no tenant: a question brings the limit that it is judged by, so a quota is changed in its tenant's stack and
nowhere else. Counts live for a window and are kept in memory only. Whoever can reach it can use up a tenant's rate,
so the mesh lets the gateway in and nobody else.
"""

from typing import Any

from components.addons.placement import ON_SYSTEM_NODES, RESTRICTED_CONTAINER, RESTRICTED_POD, spread
from components.labels import labels
from components.manifests import Manifest, object_
from components.mirror import mirrored
from components.platform.capacity import PLATFORM_PRIORITY
from components.platform.namespaces import RATE_LIMIT
from components.versions import LIMITER_IMAGE, VALKEY_IMAGE
from headway.wire import GATEWAY_NAMESPACE

DOMAIN = "headway"
"""What the limiter calls the set of all questions."""
LIMITER, COUNTS = "limiter", "counts"
GRPC_PORT, HEALTH_PORT, COUNTS_PORT = 8081, 8080, 6379
REPLICAS = 2
CLUSTER = f"outbound|{GRPC_PORT}||{LIMITER}.{RATE_LIMIT}.svc.cluster.local"
"""istiod's name for the limiter in the configuration of a proxy."""
COUNTS_MEMORY = "64mb"
"""A count takes about 150 bytes and lives for a window: room for hundreds of thousands."""

_DISK = {"ephemeral-storage": "64Mi"}
"""Logs alone: neither keeps a file."""
_CONFIGURATION = f"domain: {DOMAIN}\n"


def manifests(mirror: str | None = None) -> tuple[Manifest, ...]:
    """The limiter and its counts, each with an identity of its own, and who may ask whom."""
    own_labels = labels(RATE_LIMIT)
    return (
        Manifest(role="identity", body=_account(LIMITER)),
        Manifest(role="counts-identity", body=_account(COUNTS)),
        Manifest(
            role="configuration",
            body=object_("v1", "ConfigMap", LIMITER, namespace=RATE_LIMIT, labels=own_labels, data={"headway.yaml": _CONFIGURATION}),
        ),
        Manifest(
            role="counts-callers", body=_callers(COUNTS, {"principals": [f"cluster.local/ns/{RATE_LIMIT}/sa/{LIMITER}"]}, COUNTS_PORT)
        ),
        Manifest(role="callers", body=_callers(LIMITER, {"namespaces": [GATEWAY_NAMESPACE]}, GRPC_PORT)),
        Manifest(role="counts-service", body=_service(COUNTS, "tcp-valkey", COUNTS_PORT)),
        Manifest(role="service", body=_service(LIMITER, "grpc", GRPC_PORT)),
        Manifest(role="counts", after=("counts-identity",), body=_deployment(COUNTS, 1, _counts(mirror))),
        Manifest(role="limiter", after=("identity", "configuration"), body=_deployment(LIMITER, REPLICAS, _limiter(mirror), _volume())),
        Manifest(role="disruption", body=_disruption()),
    )


def _account(name: str) -> dict[str, Any]:
    body = object_("v1", "ServiceAccount", name, namespace=RATE_LIMIT, labels=labels(RATE_LIMIT))
    return {**body, "automountServiceAccountToken": False}


def _callers(name: str, source: dict[str, Any], port: int) -> dict[str, Any]:
    rule = {"from": [{"source": source}], "to": [{"operation": {"ports": [str(port)]}}]}
    return object_(
        "security.istio.io/v1",
        "AuthorizationPolicy",
        name,
        namespace=RATE_LIMIT,
        labels=labels(RATE_LIMIT),
        spec={"selector": {"matchLabels": _picked(name)}, "action": "ALLOW", "rules": [rule]},
    )


def _service(name: str, protocol: str, port: int) -> dict[str, Any]:
    spec = {"selector": _picked(name), "ports": [{"name": protocol, "port": port, "targetPort": port, "protocol": "TCP"}]}
    return object_("v1", "Service", name, namespace=RATE_LIMIT, labels=labels(RATE_LIMIT), spec=spec)


def _disruption() -> dict[str, Any]:
    spec = {"minAvailable": 1, "selector": {"matchLabels": _picked(LIMITER)}}
    return object_("policy/v1", "PodDisruptionBudget", LIMITER, namespace=RATE_LIMIT, labels=labels(RATE_LIMIT), spec=spec)


def _deployment(name: str, replicas: int, container: dict[str, Any], *volumes: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "containers": [container],
        "nodeSelector": dict(ON_SYSTEM_NODES),
        "priorityClassName": PLATFORM_PRIORITY,
        "securityContext": dict(RESTRICTED_POD),
        "serviceAccountName": name,
        "topologySpreadConstraints": spread(_picked(name)),
    }
    if volumes:
        pod["volumes"] = list(volumes)
    return object_(
        "apps/v1",
        "Deployment",
        name,
        namespace=RATE_LIMIT,
        labels={**labels(RATE_LIMIT), **_picked(name)},
        spec={
            "replicas": replicas,
            "selector": {"matchLabels": _picked(name)},
            "template": {"metadata": {"labels": {**labels(RATE_LIMIT), **_picked(name)}}, "spec": pod},
        },
    )


def _limiter(mirror: str | None) -> dict[str, Any]:
    settings = {
        # Else it prints a line for each question, whatever the level of its log.
        "DISABLE_STATS": "true",
        # Else a count stays in memory for up to five minutes after its window.
        "EXPIRATION_JITTER_MAX_SECONDS": "0",
        "LOG_FORMAT": "json",
        "LOG_LEVEL": "warn",
        "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION": "true",
        "REDIS_SOCKET_TYPE": "tcp",
        "REDIS_URL": f"{COUNTS}:{COUNTS_PORT}",
        "RUNTIME_IGNOREDOTFILES": "true",
        "RUNTIME_ROOT": "/data",
        "RUNTIME_SUBDIRECTORY": "ratelimit",
        "RUNTIME_WATCH_ROOT": "false",
    }
    ready = {"httpGet": {"path": "/healthcheck", "port": HEALTH_PORT}, "periodSeconds": 5, "failureThreshold": 2}
    return {
        **_container("limiter", mirrored(LIMITER_IMAGE, mirror), GRPC_PORT, cpu="100m", memory="128Mi"),
        "command": ["/bin/ratelimit"],
        "env": [{"name": name, "value": value} for name, value in sorted(settings.items())],
        # Not ready while its counts are away: the gateway then passes at once, without waiting for an answer.
        "readinessProbe": ready,
        "livenessProbe": {"tcpSocket": {"port": GRPC_PORT}, "periodSeconds": 10, "failureThreshold": 3},
        "volumeMounts": [{"name": "configuration", "mountPath": "/data/ratelimit/config", "readOnly": True}],
    }


def _volume() -> dict[str, Any]:
    return {"name": "configuration", "configMap": {"name": LIMITER}}


def _counts(mirror: str | None) -> dict[str, Any]:
    asked = ["--save", "", "--appendonly", "no", "--protected-mode", "no"]
    bounded = ["--maxmemory", COUNTS_MEMORY, "--maxmemory-policy", "volatile-ttl"]
    alive = {"exec": {"command": ["valkey-cli", "ping"]}, "periodSeconds": 10, "timeoutSeconds": 3}
    return {
        **_container("valkey", mirrored(VALKEY_IMAGE, mirror), COUNTS_PORT, cpu="100m", memory="128Mi"),
        "command": ["valkey-server", *asked, *bounded],
        "readinessProbe": alive,
        "livenessProbe": {**alive, "failureThreshold": 3},
    }


def _container(name: str, image: str, port: int, *, cpu: str, memory: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "ports": [{"containerPort": port, "protocol": "TCP"}],
        "resources": {
            "limits": {"cpu": "1", "memory": memory, **_DISK},
            "requests": {"cpu": cpu, "memory": memory, **_DISK},
        },
        "securityContext": dict(RESTRICTED_CONTAINER),
    }


def _picked(name: str) -> dict[str, str]:
    return {"app": name}
