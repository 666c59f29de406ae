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
    "http.request.method",
    "http.response.status_code",
    "method",
    "path",
    "protocol",
    "request_id",
    "response_flags",
    "route",
    "service.name",
    "status",
    "tenant",
    "upstream",
    "url.path",
)
"""What may be known of a request: sizes, times, names, states. Nothing that a caller wrote."""

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
            "otlp": {"endpoint": TEMPO, "tls": {"insecure": True}},
            "otlphttp": {"endpoint": f"{LOKI_URL}/otlp"},
        },
        "service": {
            "extensions": ["health_check"],
            "pipelines": {
                "logs": {"receivers": ["otlp"], "processors": [*redact, "batch"], "exporters": ["otlphttp"]},
                "traces": {"receivers": ["otlp"], "processors": [*redact, "tail_sampling", "batch"], "exporters": ["otlp"]},
            },
        },
    }
