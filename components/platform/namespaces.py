"""The platform's namespaces and who may reach into them. Pure.

Each is closed to other namespaces but for scrapes and for the API server's webhook calls, which come from the
control plane's interfaces in the intra subnets. The trap: a namespace whose webhook the API server cannot reach
stops every create of that kind, cluster-wide.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Network
from typing import Any

from components.addons import cert_manager, cluster_autoscaler, gpu_operator, keda, load_balancer, loki, otel, prometheus
from components.labels import labels
from components.manifests import Manifest, object_
from headway.wire import (
    ACTIVATOR_NAMESPACE,
    ARTIFACT_CACHE_NAMESPACE,
    DIAGNOSIS_NAMESPACE,
    ENDPOINT_PICKER_NAMESPACE,
    EVALUATION_NAMESPACE,
    GATEWAY_NAMESPACE,
    MESH_NAMESPACE,
    NODE_HEALTH_NAMESPACE,
    RATE_LIMIT_NAMESPACE,
    TENANT,
    WARM_CAPACITY_NAMESPACE,
)

SYSTEM_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
ARTIFACT_CACHE_PORT = 8087
WARM_CAPACITY = WARM_CAPACITY_NAMESPACE
RATE_LIMIT = RATE_LIMIT_NAMESPACE
RELEASE_GUARD = "release-guard"


class PodSecurity(StrEnum):
    """Pod Security levels. Not RBAC: what a pod may do to its node."""

    RESTRICTED = "restricted"
    BASELINE = "baseline"
    PRIVILEGED = "privileged"
    """Host access: for agents that are part of the node."""


@dataclass(frozen=True, kw_only=True)
class Door:
    """Ports of some pods of a namespace that anybody's pods may use, or those of one namespace alone, and of no others beside them."""

    name: str
    pods: Mapping[str, str]
    ports: tuple[int, ...]
    only: str = ""


@dataclass(frozen=True, kw_only=True)
class PlatformNamespace:
    """`webhooks` has ports that the API server calls, `open_to_all` ports that any pod or client may use,
    `open_to_tenants` ports that tenants' pods may, `open_to_gateway` ports that the gateway's proxies may.
    """

    name: str
    level: PodSecurity
    webhooks: tuple[int, ...] = ()
    open_to_all: tuple[int, ...] = ()
    open_to_tenants: tuple[int, ...] = ()
    open_to_gateway: tuple[int, ...] = ()
    doors: tuple[Door, ...] = ()
    monitors: tuple[str, ...] = ()
    """Which pods of the monitoring namespace may reach it, by what they are (`app.kubernetes.io/name`); all of them where none is named."""
    meshed: bool = False
    """Whether its pods have proxies of the mesh, and so are reached by mutual TLS only."""
    mute: bool = False
    """Whether its pods open no connection at all."""
    balanced: bool = False
    """Whether a load balancer sends to its pods, which are ready only when it has found them healthy."""


NAMESPACES = (
    PlatformNamespace(name=ACTIVATOR_NAMESPACE, level=PodSecurity.RESTRICTED, open_to_gateway=(8080,), meshed=True),
    PlatformNamespace(name=ARTIFACT_CACHE_NAMESPACE, level=PodSecurity.RESTRICTED, open_to_tenants=(ARTIFACT_CACHE_PORT,)),
    PlatformNamespace(name=cert_manager.NAMESPACE, level=PodSecurity.RESTRICTED, webhooks=(10250,)),
    PlatformNamespace(name=cluster_autoscaler.NAMESPACE, level=PodSecurity.RESTRICTED),
    PlatformNamespace(name=DIAGNOSIS_NAMESPACE, level=PodSecurity.RESTRICTED, monitors=("alertmanager", "prometheus")),
    PlatformNamespace(name=ENDPOINT_PICKER_NAMESPACE, level=PodSecurity.RESTRICTED, open_to_gateway=(9002,), meshed=True),
    PlatformNamespace(name=EVALUATION_NAMESPACE, level=PodSecurity.RESTRICTED),
    PlatformNamespace(name=gpu_operator.NAMESPACE, level=PodSecurity.PRIVILEGED),
    # The proxies' own ports: clients arrive on 80 and 443, the load balancer probes 15021.
    PlatformNamespace(name=GATEWAY_NAMESPACE, level=PodSecurity.BASELINE, open_to_all=(80, 443, 15021), balanced=True),
    # Configuration and certificates for every proxy; injection and validation for the API server. The CNI agent is part of the node.
    PlatformNamespace(name=MESH_NAMESPACE, level=PodSecurity.PRIVILEGED, webhooks=(15017,), open_to_all=(15012,)),
    # 6443 is the external metrics API, which the API server proxies; 9443 the admission webhook.
    PlatformNamespace(name=keda.NAMESPACE, level=PodSecurity.RESTRICTED, webhooks=(6443, 9443)),
    PlatformNamespace(name=load_balancer.NAMESPACE, level=PodSecurity.RESTRICTED, webhooks=(9443,)),
    # A diagnostic takes every GPU of its node, past the device plugin.
    PlatformNamespace(name=NODE_HEALTH_NAMESPACE, level=PodSecurity.PRIVILEGED),
    # The node exporter is part of the node. 10250: the operator's webhook; Loki and 9093, Alertmanager, by the API server's proxy, for
    # `headway logs` and `headway verify`; 9090: KEDA's queries, and releases' by that proxy. What proxies tell goes to the collector alone,
    # for Tempo listens on the same port, and would take a span with whatever is in it.
    PlatformNamespace(
        name=prometheus.NAMESPACE,
        level=PodSecurity.PRIVILEGED,
        webhooks=(loki.GATEWAY_PORT, 9093, 10250),
        open_to_all=(9090,),
        # Whoever gives Alertmanager an alert may silence others too.
        doors=(
            Door(name="collector", pods=otel.PODS, ports=(otel.PORT,)),
            Door(name="alertmanager", pods={"app.kubernetes.io/name": "alertmanager"}, ports=(9093,), only=DIAGNOSIS_NAMESPACE),
        ),
    ),
    PlatformNamespace(name=RATE_LIMIT, level=PodSecurity.RESTRICTED, open_to_gateway=(8081,), meshed=True),
    PlatformNamespace(name=RELEASE_GUARD, level=PodSecurity.RESTRICTED),
    # Tenants' images are started here, to be on the nodes before they are asked for.
    PlatformNamespace(name=WARM_CAPACITY, level=PodSecurity.RESTRICTED, mute=True),
)


def manifests(intra: Sequence[IPv4Network]) -> tuple[Manifest, ...]:
    """Every namespace with its network policy; `intra` are the subnets that the API server calls from."""
    return tuple(manifest for namespace in sorted(NAMESPACES, key=lambda n: n.name) for manifest in _namespace(namespace, intra))


def _namespace(namespace: PlatformNamespace, intra: Sequence[IPv4Network]) -> Iterator[Manifest]:
    levels = {f"pod-security.kubernetes.io/{mode}": namespace.level.value for mode in ("audit", "enforce", "warn")}
    injected = {"istio-injection": "enabled"} if namespace.meshed else {}
    gated = load_balancer.READINESS_GATES if namespace.balanced else {}
    body = object_("v1", "Namespace", namespace.name, labels={**labels("platform"), **gated, **injected, **levels})
    yield Manifest(role=namespace.name, body=body)
    yield Manifest(
        role=f"{namespace.name}-closed",
        after=(namespace.name,),
        body=object_(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "closed",
            namespace=namespace.name,
            labels=labels("isolation"),
            spec={
                "podSelector": {},
                "policyTypes": ["Ingress", *(["Egress"] if namespace.mute else [])],
                "ingress": list(_allowed(namespace, intra)),
            },
        ),
    )
    for door in namespace.doors:
        selected = {"matchLabels": dict(door.pods)}
        yield Manifest(
            role=f"{namespace.name}-{door.name}-open",
            after=(namespace.name,),
            body=object_(
                "networking.k8s.io/v1",
                "NetworkPolicy",
                f"{door.name}-open",
                namespace=namespace.name,
                labels=labels("isolation"),
                spec={
                    "podSelector": selected,
                    "policyTypes": ["Ingress"],
                    "ingress": [{**({"from": [_of(door.only)]} if door.only else {}), "ports": _ports(door.ports)}],
                },
            ),
        )


def _allowed(namespace: PlatformNamespace, intra: Sequence[IPv4Network]) -> Iterator[dict[str, Any]]:
    yield {"from": [{"podSelector": {}}]}
    if namespace.name != prometheus.NAMESPACE:
        those = [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": name}}} for name in namespace.monitors] or [{}]
        yield {"from": [{**_of(prometheus.NAMESPACE), **each} for each in those]}
    if namespace.webhooks:
        blocks = [{"ipBlock": {"cidr": str(cidr)}} for cidr in sorted(intra)]
        yield {"from": blocks, "ports": _ports(namespace.webhooks)}
    if namespace.open_to_all:
        yield {"ports": _ports(namespace.open_to_all)}
    if namespace.open_to_tenants:
        tenants = {"namespaceSelector": {"matchExpressions": [{"key": TENANT, "operator": "Exists"}]}}
        yield {"from": [tenants], "ports": _ports(namespace.open_to_tenants)}
    if namespace.open_to_gateway:
        yield {"from": [_of(GATEWAY_NAMESPACE)], "ports": _ports(namespace.open_to_gateway)}


def _of(namespace: str) -> dict[str, Any]:
    """Every pod of a namespace."""
    return {"namespaceSelector": {"matchLabels": {SYSTEM_NAMESPACE_LABEL: namespace}}}


def _ports(ports: tuple[int, ...]) -> list[dict[str, Any]]:
    return [{"port": port, "protocol": "TCP"} for port in sorted(ports)]
