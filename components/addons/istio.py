"""Istio with sidecars: definitions, node agent, control plane, ingress gateway. Four charts of one version.

Egress is closed except to registered services. Traffic is redirected by the node agent, because an init container
that does it needs rights that the restricted Pod Security level refuses. The traps: metrics merging would make a
scrape leave the mesh unencrypted, so it is off and proxies are scraped themselves; and the chart would make a
Service of the gateway beside ours (`components/platform/gateway_service.py`).
"""

from typing import Any

from components.addons import gateway_memory
from components.addons.placement import A_FEW_AT_ONCE, ON_SYSTEM_NODES, requests, spread
from components.versions import ISTIO_IMAGES
from headway.contract.arithmetic.replica import PROXY_CPU, PROXY_MEMORY
from headway.contract.health import LONGEST_DRAIN
from headway.wire import CLASS_HEADER, CLASS_TAG, DEGRADE_HEADER, DOOR, GATEWAY_STATISTICS, MESH_NAMESPACE, SAMPLES_PROVIDER

GATEWAY_RELEASE = "istio-ingressgateway"
GATEWAY_LABELS = {"istio": "ingressgateway"}
TRACER = "otel"
ACCESS_LOG = "otel-access-log"
SAMPLES_STATE = "headway.sample"
"""Where a replica's proxy holds what it keeps of a request (`components/model_service/sampling.py`): namespace of
dynamic metadata.
"""
SAMPLES_PLACE = "sample_place"
"""The field of a line that is a sample; no other line has it."""
LINE = "%REQ(:METHOD)% %ROUTE_NAME% %RESPONSE_CODE% %RESPONSE_FLAGS% %DURATION%"
"""The text of a line, beside its fields. Without one istiod takes Envoy's own, with the query, the user agent and
the client's address.
"""
SAMPLE = f'{{"time":"%START_TIME%","workload":"%ENVIRONMENT(ISTIO_META_WORKLOAD_NAME)%",%DYNAMIC_METADATA({SAMPLES_STATE}:record)%}}'
"""A sample as a line of JSON. The workload is that of the proxy itself, which istiod tells it."""
PATHS = "DECODE_AND_MERGE_SLASHES"
"""How every proxy of the mesh writes a path before anything judges it, and hands it on."""
DRAIN_SECONDS = 60
"""A proxy finishes what it has for this long after its pod was told to stop, unless its pod says otherwise."""
GATEWAY_DRAIN_SECONDS = LONGEST_DRAIN.whole_seconds
"""Of a gateway's proxy, through which the longest request of any contract may go."""
PROXY_CONFIG = "proxy.istio.io/config"
"""A pod's annotation: what its proxy does otherwise than the mesh's (`ProxyConfig` of istio/api, mesh/v1alpha1)."""

ADDED_TAGS = {
    # The gateway wrote the header when it moved the request to a fallback. Not the header's value: a caller inside the mesh could invent some.
    "degraded": f'"{DEGRADE_HEADER}" in request.headers ? "true" : "false"',
    # What the replica's own proxy wrote there, by the size of the body; nothing for models without classes.
    CLASS_TAG: f'"{CLASS_HEADER}" in request.headers ? request.headers["{CLASS_HEADER}"] : ""',
    # Envoy ends the host of a copy so, before its port: callers inside the mesh write one.
    "mirrored": 'request.host.endsWith("-shadow") || request.host.contains("-shadow:") ? "true" : "false"',
}
"""Labels of requests beyond Istio's own, with the expression that fills each: what releases are judged by
(`headway.release.evidence`), and what fallbacks answered.

A proxy drops a label that its bootstrap was not told of.
"""

BUCKETS_ANNOTATION = "sidecar.istio.io/statsHistogramBuckets"
EMITTED_ANNOTATION = "sidecar.istio.io/statsInclusionPrefixes"
OVERLOADED = "overload.envoy.overload_actions.stop_accepting"
"""How the gauges begin of what `gateway_memory.py` has a full proxy do."""
EMITTED = f"{GATEWAY_STATISTICS},connection_limit.{DOOR},{OVERLOADED}"
"""Statistics of the gateway's proxies beyond those that Istio has them emit: `components/platform/gateway_measures.py`, and whether one is
full (Envoy, "Connection limit filter" and "Overload manager")."""


def base_values() -> dict[str, Any]:
    """The definitions and the default revision's webhook."""
    return {"defaultRevision": "default"}


def node_agent_values() -> dict[str, Any]:
    """Redirects the traffic of pods that have a proxy, on every node, behind the VPC's own network plugin."""
    return {
        "excludeNamespaces": [MESH_NAMESPACE, "kube-system"],
        "global": {"hub": ISTIO_IMAGES, "logAsJson": True},
        "resources": requests("100m", "100Mi"),
        "updateStrategy": dict(A_FEW_AT_ONCE),
    }


def control_plane_values(otel_host: str, otel_port: int) -> dict[str, Any]:
    """istiod and the mesh's configuration; traces and access logs go to the collector."""
    return {
        "autoscaleMin": 2,
        "autoscaleMax": 5,
        "cni": {"enabled": True},
        "resources": requests("500m", "2Gi"),
        "nodeSelector": dict(ON_SYSTEM_NODES),
        "env": {
            # Off by default since 1.28, and then nothing tells a copy of a request from the request.
            "DISABLE_SHADOW_HOST_SUFFIX": "false",
            # On by default since 1.31; a replica that is not ready would count among those that an ejection leaves.
            "PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS": "false",
        },
        "topologySpreadConstraints": spread({"app": "istiod"}),
        "global": {
            "hub": ISTIO_IMAGES,
            "logAsJson": True,
            "priorityClassName": "system-cluster-critical",
            # What quotas and nodes are charged for a proxy; limits are the chart's own. An artifact passes it on its way from S3, for 0.8
            # CPU seconds a GiB (`tests/traffic/test_downloads.py`): less than half of the limit at the rate that starts are budgeted by.
            "proxy": {
                "resources": {
                    "requests": {"cpu": str(PROXY_CPU), "memory": PROXY_MEMORY.kubernetes},
                    "limits": {"cpu": "2000m", "memory": "1024Mi"},
                }
            },
        },
        "meshConfig": {
            "enablePrometheusMerge": False,
            "enableTracing": True,
            "outboundTrafficPolicy": {"mode": "REGISTRY_ONLY"},
            # Servers read an escaped slash as a slash; policies by path would not, and a server's administration is closed by them.
            "pathNormalization": {"normalization": PATHS},
            "defaultConfig": {
                "extraStatTags": sorted(ADDED_TAGS),
                "holdApplicationUntilProxyStarts": True,
                "terminationDrainDuration": f"{DRAIN_SECONDS}s",
            },
            "extensionProviders": [
                {"name": TRACER, "opentelemetry": {"service": otel_host, "port": otel_port}},
                {
                    "name": ACCESS_LOG,
                    "envoyOtelAls": {"service": otel_host, "port": otel_port, "logFormat": {"text": LINE, "labels": access_log()}},
                },
                {
                    "name": SAMPLES_PROVIDER,
                    "envoyOtelAls": {"service": otel_host, "port": otel_port, "logFormat": {"text": SAMPLE, "labels": sample_labels()}},
                },
            ],
        },
    }


def access_log() -> dict[str, str]:
    """What a request leaves in the log: an allow-list. No body, no query, no header that may hold a prompt or a
    token. Whose it is, the collector says.
    """
    return {
        "bytes_received": "%BYTES_RECEIVED%",
        "bytes_sent": "%BYTES_SENT%",
        # What the gateway's filter of an A/B release decided (`components/model_service/experiment.py`); never the user.
        **{name: f"%DYNAMIC_METADATA(headway.experiment:{name})%" for name in ("arm", "bucket", "experiment")},
        "duration_ms": "%DURATION%",
        "method": "%REQ(:METHOD)%",
        "path": "%REQ_WITHOUT_QUERY(X-ENVOY-ORIGINAL-PATH?:PATH)%",
        "protocol": "%PROTOCOL%",
        "request_id": "%REQ(X-REQUEST-ID)%",
        "response_flags": "%RESPONSE_FLAGS%",
        "route": "%ROUTE_NAME%",
        "status": "%RESPONSE_CODE%",
        "upstream": "%UPSTREAM_CLUSTER%",
    }


def sample_labels() -> dict[str, str]:
    """Where a sample belongs, for the collector."""
    return {SAMPLES_PLACE: f"%DYNAMIC_METADATA({SAMPLES_STATE}:place)%"}


def gateway_values(*, replicas_min: int, replicas_max: int, histogram_buckets: str) -> dict[str, Any]:
    """The proxies where requests enter; their latencies are what releases are judged by."""
    return {
        "labels": dict(GATEWAY_LABELS),
        "podAnnotations": {
            BUCKETS_ANNOTATION: histogram_buckets,
            EMITTED_ANNOTATION: EMITTED,
            PROXY_CONFIG: f'{{"terminationDrainDuration":"{GATEWAY_DRAIN_SECONDS}s"}}',
            **gateway_memory.annotations(),
        },
        "autoscaling": {"enabled": True, "minReplicas": replicas_min, "maxReplicas": replicas_max},
        "podDisruptionBudget": {"minAvailable": 1},
        "resources": requests(str(PROXY_CPU), PROXY_MEMORY.kubernetes),
        "nodeSelector": dict(ON_SYSTEM_NODES),
        "topologySpreadConstraints": spread(GATEWAY_LABELS),
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": GATEWAY_DRAIN_SECONDS + 15,
        "service": {"type": "None"},
        **gateway_memory.values(),
    }
