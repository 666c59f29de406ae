"""The OpenTelemetry collector: everything that describes a request passes here, and what could hold a prompt ends here.

Attributes pass by an allow-list. The trap: a deny-list of prompt attributes leaks the first attribute that a new model server invents.
"""

from collections.abc import Mapping
from typing import Any

from components.addons.placement import ON_SYSTEM_NODES
from components.addons.prometheus import LOKI_URL, NAMESPACE
from components.addons.tempo import OTLP_PORT

RELEASE = "otel-collector"
HOST = f"{RELEASE}.{NAMESPACE}.svc.cluster.local"
IMAGE = "otel/opentelemetry-collector-contrib"
TEMPO = f"tempo.{NAMESPACE}.svc.cluster.local:{OTLP_PORT}"

ALLOWED_ATTRIBUTES = (
    "bytes_received",
    "bytes_sent",
    "duration_ms",
    "error.type",
    "gen_ai.request.max_tokens",
    "gen_ai.request.model",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "guid:x-request-id",
    "http.method",
    "http.request.method",
    "http.response.status_code",
    "http.status_code",
    "istio.canonical_revision",
    "istio.canonical_service",
    "istio.namespace",
    "method",
    "path",
    "protocol",
    "request_id",
    "request_size",
    "response_flags",
    "response_size",
    "route",
    "service.name",
    "status",
    "tenant",
    "upstream",
    "upstream_cluster",
    "url.path",
)
"""What may be known of a request: sizes, times, names, states. Nothing that a caller wrote: the gateway makes request ids anew.

The names are those of the access log, of Envoy's spans (`guid:x-request-id` is the log's `request_id`), and of OpenTelemetry's conventions,
which model servers follow. A span's `http.url`, `user_agent` and `peer.address` are left out on purpose.
"""

ALWAYS_KEPT_MILLISECONDS = 1_000
SAMPLED_PERCENT = 5


def values() -> dict[str, Any]:
    """Chart values. Two replicas: each decides about the traces that it receives."""
    return {
        "mode": "deployment",
        "fullnameOverride": RELEASE,
        "image": {"repository": IMAGE},
        "replicaCount": 2,
        "podDisruptionBudget": {"enabled": True, "minAvailable": 1},
        "nodeSelector": dict(ON_SYSTEM_NODES),
        # The chart opens these by default; nobody here speaks them.
        "ports": {port: {"enabled": False} for port in ("jaeger-compact", "jaeger-grpc", "jaeger-thrift", "zipkin")},
        "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "200m", "memory": "512Mi"}},
        # `config` would be merged with the chart's own pipelines, and a release cannot carry the nulls that remove those.
        "alternateConfig": config(),
    }


def config() -> Mapping[str, Any]:
    """The collector's whole configuration: traces to Tempo, logs to Loki."""
    redact = ["memory_limiter", "redaction"]
    return {
        "extensions": {"health_check": {"endpoint": "${env:MY_POD_IP}:13133"}},
        "receivers": {
            "otlp": {"protocols": {"grpc": {"endpoint": "${env:MY_POD_IP}:4317"}, "http": {"endpoint": "${env:MY_POD_IP}:4318"}}},
        },
        "processors": {
            "batch": {},
            "memory_limiter": {"check_interval": "5s", "limit_percentage": 80, "spike_limit_percentage": 25},
            "redaction": {"allow_all_keys": False, "allowed_keys": list(ALLOWED_ATTRIBUTES), "summary": "silent"},
            "tail_sampling": {
                "decision_wait": "10s",
                "policies": [
                    {"name": "failed", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
                    {"name": "slow", "type": "latency", "latency": {"threshold_ms": ALWAYS_KEPT_MILLISECONDS}},
                    {"name": "some", "type": "probabilistic", "probabilistic": {"sampling_percentage": SAMPLED_PERCENT}},
                ],
            },
        },
        "exporters": {
            "otlp_grpc": {"endpoint": TEMPO, "tls": {"insecure": True}},
            "otlp_http": {"endpoint": f"{LOKI_URL}/otlp"},
        },
        "service": {
            "extensions": ["health_check"],
            "pipelines": {
                "logs": {"receivers": ["otlp"], "processors": [*redact, "batch"], "exporters": ["otlp_http"]},
                "traces": {"receivers": ["otlp"], "processors": [*redact, "tail_sampling", "batch"], "exporters": ["otlp_grpc"]},
            },
        },
    }
