"""The mesh's own rules: encrypted and closed everywhere, one gateway, telemetry without contents. Pure.

The trap: an AuthorizationPolicy without rules in the root namespace refuses every request of the mesh, the gateway's
own included; tenants open their services to the gateway, and the gateway is opened here.
"""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from components.addons.istio import ACCESS_LOG, ADDED_TAGS, GATEWAY_LABELS, TRACER
from components.addons.prometheus import NAMESPACE as MONITORING
from components.envoy_filter import manager, network_filter
from components.labels import labels
from components.manifests import Manifest, object_
from components.platform import gateway_filters, gateway_measures
from components.platform.replica_measures import DURATIONS
from headway.signals.buckets import latency_edges_milliseconds
from headway.signals.definition import GATEWAY_MONITOR
from headway.wire import (
    CLASS_HEADER,
    DEGRADE_HEADER,
    DOOR,
    EXPERIMENT_HEADER,
    GATEWAY_NAMESPACE,
    GATEWAY_STATISTICS,
    MESH_NAMESPACE,
    PRIORITY_HEADER,
    STREAM_TIMES,
    USER_HEADER,
)

GATEWAY = "headway"
TRACED_PERCENT = 10
"""Head sampling; the collector keeps a share of these, and all that failed or were slow."""

OWN_HEADERS = (DEGRADE_HEADER, EXPERIMENT_HEADER, CLASS_HEADER, PRIORITY_HEADER, USER_HEADER)
"""Written by the platform's proxies only; what a client sends under these names never gets past the gateway's door."""
HEADERS_SECONDS, HEADERS_KIB = 10, 32
"""A client that takes longer to say what it wants, or says more, is cut off."""
REQUEST_SECONDS = 120
"""A request has arrived whole by then, or is answered with 408: the largest body that a contract may allow at 18
Mbit/s. A stream of requests is free of it once it has been answered.
"""
SILENT_SECONDS = 3600
"""Of a request that nothing is heard of in either direction: no model may take longer. istiod's own is for ever."""
UNREAD_SECONDS = 60
"""Of an answer that its client does not read."""
UNUSED_SECONDS = 300
"""Of a connection that carries nothing."""
CONNECTIONS = 10_000
"""At once, of one proxy and port; more are closed. At some 70 KiB each with TLS they fit into a proxy's memory."""

LABEL_LIMITS = {"labelLimit": 64, "labelNameLengthLimit": 256, "labelValueLengthLimit": 1024}
"""Of each series on a page that a tenant's code may write."""
REPLICA_PROXY_LIMITS = {"sampleLimit": 20_000, "bodySizeLimit": "32MB", **LABEL_LIMITS}
"""Of the page of one replica's proxy, on which two dozen kinds of answers make some 2,000 series. Whoever is in its mesh
writes headers that become labels, and whoever is in its pod may answer in its place.
"""

_UNREAD_TAGS = ("connection_security_policy", "destination_principal", "source_canonical_revision", "source_principal", "source_version")
"""Labels that no query here reads: each multiplies the number of series."""
_UNREAD_METRICS = ("GRPC_REQUEST_MESSAGES", "GRPC_RESPONSE_MESSAGES", "REQUEST_SIZE", "RESPONSE_SIZE")
"""Metrics that no query here reads: sizes are histograms with the edges of the latencies, two thirds of all series. Those of requests are
measured by `gateway_measures.py`, as a sum."""


def histogram_buckets() -> str:
    """The annotation of the gateway's proxies: of the latencies that are compared, and of tokens."""
    return json.dumps({DURATIONS: list(latency_edges_milliseconds()), **gateway_measures.edges()}, separators=(",", ":"))


def manifests(*, hosts: Sequence[str], certificate: str | None, region: str) -> tuple[Manifest, ...]:
    """Rules of the whole mesh, the gateway for `hosts` (their subdomains included), AWS as the one outside service."""
    return (
        Manifest(
            role="strict-mtls",
            body=object_(
                "security.istio.io/v1",
                "PeerAuthentication",
                "default",
                namespace=MESH_NAMESPACE,
                labels=labels("mesh"),
                spec={"mtls": {"mode": "STRICT"}},
            ),
        ),
        Manifest(
            role="refuse-by-default",
            body=object_(
                "security.istio.io/v1",
                "AuthorizationPolicy",
                "refuse-by-default",
                namespace=MESH_NAMESPACE,
                labels=labels("mesh"),
                spec={},
            ),
        ),
        Manifest(
            role="gateway-open",
            # Who may call which model is said by its tenant's policies, where the model is.
            body=object_(
                "security.istio.io/v1",
                "AuthorizationPolicy",
                "gateway-open",
                namespace=GATEWAY_NAMESPACE,
                labels=labels("mesh"),
                spec={"selector": {"matchLabels": dict(GATEWAY_LABELS)}, "action": "ALLOW", "rules": [{}]},
            ),
        ),
        _gateway(hosts, certificate),
        _door(),
        gateway_filters.manifest(port=80 if certificate is None else 443),
        _telemetry(),
        _aws(region),
        *_monitors(),
    )


def _gateway(hosts: Sequence[str], certificate: str | None) -> Manifest:
    served = sorted({name for host in hosts for name in (host, f"*.{host}")})
    plain = {"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": served}
    encrypted = {
        "port": {"number": 443, "name": "https", "protocol": "HTTPS"},
        "hosts": served,
        "tls": {"mode": "SIMPLE", "credentialName": certificate, "minProtocolVersion": "TLSV1_2"},
    }
    servers = [plain] if certificate is None else [{**plain, "tls": {"httpsRedirect": True}}, encrypted]
    return Manifest(
        role="gateway",
        body=object_(
            "networking.istio.io/v1",
            "Gateway",
            GATEWAY,
            namespace=GATEWAY_NAMESPACE,
            labels=labels("gateway"),
            spec={"selector": dict(GATEWAY_LABELS), "servers": servers},
        ),
    )


def _door() -> Manifest:
    """Before any route is chosen: the platform's own headers are taken off a client's request, and clients may not
    take for ever.
    """
    mutation = "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation"
    config = {
        "early_header_mutation_extensions": [
            {
                "name": "envoy.http.early_header_mutation.header_mutation",
                "typed_config": {
                    "@type": f"type.googleapis.com/{mutation}",
                    "mutations": [{"remove": name} for name in OWN_HEADERS],
                },
            }
        ],
        # istiod chooses a route without looking at the port of a request's host, and policies by host would see it.
        "strip_any_host_port": True,
        # The id that the gateway gave it, by which a caller can ask what became of its request.
        "always_set_request_id_in_response": True,
        "max_request_headers_kb": HEADERS_KIB,
        "request_headers_timeout": f"{HEADERS_SECONDS}s",
        "request_timeout": f"{REQUEST_SECONDS}s",
        "stream_idle_timeout": f"{SILENT_SECONDS}s",
        "stream_flush_timeout": f"{UNREAD_SECONDS}s",
        # A server that hands headers on as CGI does would take `x_user_id` for `x-user-id`.
        "common_http_protocol_options": {"idle_timeout": f"{UNUSED_SECONDS}s", "headers_with_underscores_action": "DROP_HEADER"},
    }
    limit = {
        "name": "envoy.filters.network.connection_limit",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit",
            "stat_prefix": DOOR,
            "max_connections": CONNECTIONS,
        },
    }
    return gateway_filters.of_gateway(DOOR, [manager("GATEWAY", config), network_filter("GATEWAY", "INSERT_BEFORE", limit)])


def _telemetry() -> Manifest:
    both = "CLIENT_AND_SERVER"
    tags = {tag: {"operation": "REMOVE"} for tag in _UNREAD_TAGS} | {tag: {"value": value} for tag, value in ADDED_TAGS.items()}
    return Manifest(
        role="telemetry",
        body=object_(
            "telemetry.istio.io/v1",
            "Telemetry",
            "default",
            namespace=MESH_NAMESPACE,
            labels=labels("mesh"),
            spec={
                "accessLogging": [{"providers": [{"name": ACCESS_LOG}]}],
                "metrics": [
                    {
                        "providers": [{"name": "prometheus"}],
                        "overrides": [
                            {"match": {"metric": "ALL_METRICS", "mode": both}, "tagOverrides": tags},
                            *({"match": {"metric": metric, "mode": both}, "disabled": True} for metric in _UNREAD_METRICS),
                        ],
                    }
                ],
                "tracing": [{"providers": [{"name": TRACER}], "randomSamplingPercentage": TRACED_PERCENT}],
            },
        ),
    )


def _aws(region: str) -> Manifest:
    """Egress is closed to what is not registered; model files, credentials and queues are AWS's."""
    services = ("kms", "sqs", "sts")
    hosts = [f"*.s3.{region}.amazonaws.com", f"s3.{region}.amazonaws.com", *(f"{name}.{region}.amazonaws.com" for name in services)]
    return Manifest(
        role="aws",
        body=object_(
            "networking.istio.io/v1",
            "ServiceEntry",
            "aws",
            namespace=MESH_NAMESPACE,
            labels=labels("mesh"),
            spec={
                "hosts": sorted(hosts),
                "location": "MESH_EXTERNAL",
                "resolution": "NONE",
                "ports": [{"number": 443, "name": "tls", "protocol": "TLS"}],
                "exportTo": ["*"],
            },
        ),
    )


def _monitors() -> tuple[Manifest, ...]:
    gateway = {"sourceLabels": ["__meta_kubernetes_namespace"], "regex": GATEWAY_NAMESPACE}
    # Whoever is in a pod may end its proxy and answer in its place, or make requests of any kind: of the Services of others nobody but the
    # gateway is believed.
    own = {"action": "keepequal", "sourceLabels": ["destination_service_namespace"], "targetLabel": "namespace"}
    # Times of tokens name no Service: they are of the pod that shows them.
    times = f"envoy_{STREAM_TIMES}_.*"
    of_pod = {"sourceLabels": ["__name__", "namespace"], "regex": f"{times};(.*)", "targetLabel": "destination_service_namespace"}
    istiod = {
        "selector": {"matchLabels": {"istio": "pilot"}},
        "namespaceSelector": {"matchNames": [MESH_NAMESPACE]},
        "endpoints": [{"port": "http-monitoring", "interval": "15s"}],
    }
    return (
        _proxies(
            "proxy-metrics",
            GATEWAY_MONITOR,
            {"action": "keep", **gateway},
            f"istio_.*|envoy_({GATEWAY_STATISTICS}|connection_limit|overload)_.*",
        ),
        _proxies(
            "replica-proxy-metrics",
            "mesh-replicas",
            {"action": "drop", **gateway},
            f"istio_.*|{times}",
            [of_pod, own],
            REPLICA_PROXY_LIMITS,
        ),
        Manifest(
            role="control-plane-metrics",
            body=object_(
                "monitoring.coreos.com/v1", "ServiceMonitor", "istiod", namespace=MONITORING, labels=labels("monitoring"), spec=istiod
            ),
        ),
    )


def _proxies(
    role: str,
    name: str,
    which: Mapping[str, Any],
    series: str,
    believed: Sequence[Mapping[str, Any]] = (),
    limit: Mapping[str, int | str] = MappingProxyType({}),
) -> Manifest:
    spec = {
        "selector": {"matchExpressions": [{"key": "istio-prometheus-ignore", "operator": "DoesNotExist"}]},
        "namespaceSelector": {"any": True},
        "jobLabel": "envoy-stats",
        **limit,
        "podMetricsEndpoints": [
            {
                "path": "/stats/prometheus",
                "port": "http-envoy-prom",
                "interval": "15s",
                # A scrape that finds proxies only, and none of their own series.
                "relabelings": [
                    {"action": "keep", "sourceLabels": ["__meta_kubernetes_pod_container_name"], "regex": "istio-proxy"},
                    dict(which),
                ],
                "metricRelabelings": [{"action": "keep", "sourceLabels": ["__name__"], "regex": series}, *map(dict, believed)],
            }
        ],
    }
    return Manifest(
        role=role,
        body=object_("monitoring.coreos.com/v1", "PodMonitor", name, namespace=MONITORING, labels=labels("monitoring"), spec=spec),
    )
