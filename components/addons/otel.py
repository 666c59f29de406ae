"""The OpenTelemetry collector: everything that describes a request passes here, and what could hold a prompt ends here.

Attributes pass by an allow-list; what is left over is free text (`node_logs.py`), in which secrets and what names a prompt are masked. A request
is called by its tenant, model and release, as its metrics are, which the collector reads off the name of the upstream. The traps: a deny-list
of prompt attributes leaks the first attribute that a new model server invents; and the redaction processor knows attributes only, while a
span has free text beside them.
"""

import copy
import json
from collections.abc import Mapping
from typing import Any

import pulumi

from components.addons.istio import SAMPLES_PLACE
from components.addons.placement import ON_SYSTEM_NODES
from components.addons.prometheus import LOKI_URL, NAMESPACE
from components.addons.tempo import OTLP_PORT
from components.permissions import Statement
from headway.contract.sampling import PREFIX

RELEASE = "otel-collector"
HOST = f"{RELEASE}.{NAMESPACE}.svc.cluster.local"
IMAGE = "otel/opentelemetry-collector-contrib"
TEMPO = f"tempo.{NAMESPACE}.svc.cluster.local:{OTLP_PORT}"

LABELS = ("model", "release", "tenant")
"""By what a metric, a line of the log and a span say whose request it was."""

ALLOWED_ATTRIBUTES = (
    *LABELS,
    "arm",
    "bucket",
    "bytes_received",
    "bytes_sent",
    "duration_ms",
    "error.type",
    "experiment",
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
    "k8s.container.name",
    "k8s.namespace.name",
    "k8s.node.name",
    "k8s.pod.name",
    "log.iostream",
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
    "upstream",
    "upstream_cluster",
    "url.path",
)
"""What may be known of a request: sizes, times, names, states. Nothing that a caller wrote: the gateway makes request ids anew.

The names are those of the access log, of Envoy's spans (`guid:x-request-id` is the log's `request_id`), and of OpenTelemetry's conventions,
which model servers follow. A span's `http.url`, `user_agent` and `peer.address` are left out on purpose.
"""

MASKED = (
    # From a word that announces what a caller wrote to the end of it; `prompt throughput: 3` is no such word.
    r"(?is)\b(?:completions?|generated_text|input_ids|messages|prompt_token_ids|prompts?)\b[\"']?\s*[:=].*",
    r"(?i)(?:api[-_]?key|authorization|passw(?:or)?d|secret[-_a-z]*|token)[\"']?\s*[:=]\s*[\"']?[^\s\"',]{8,}",
    r"(?i)\bbearer\s+[A-Za-z0-9._~+/=-]{8,}",
    r"\beyJ[A-Za-z0-9_-]{8,}[.][A-Za-z0-9_-]+[.][A-Za-z0-9_-]+",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:[.][A-Za-z0-9-]+)+",
    r"\b[0-9]{4}[ -][0-9]{4}[ -][0-9]{4}[ -][0-9]{1,7}\b",
)
"""What is masked wherever it stands, in a printed line too: announced contents, passwords and tokens, AWS key ids, addresses of people, numbers
of cards.

A net with holes, unlike the list above: a program that prints a prompt without saying so is heard. Servers here are told not to.
"""

ACCESS_LOG = "access-log"
"""The service that proxies' lines belong to in Loki."""

OF_UPSTREAM = (
    "^outbound[|][0-9]+[|][^|]*[|](?P<model>[a-z0-9-]+?)-(?P<release>r[0-9a-f]{10})(?:-baseline)?[.](?P<tenant>[a-z0-9-]+)[.]svc[.]"
)
"""istiod's name for a release's Service, as `components.model_service` calls it. Without a backslash: the language of statements has its own."""

NOT_SPOKEN = ("jaeger-compact", "jaeger-grpc", "jaeger-thrift", "zipkin")
"""Ports that the chart opens by default."""
METRICS_PORT = 8888
METRICS: Mapping[str, Any] = {"metrics": {"enabled": True}}

SERVICE_ACCOUNT = RELEASE
SAMPLES_SECONDS = 10
"""How late a sample is stored at most, while the bucket answers."""
_A_PLACE = "^[0-9]+d/[a-z0-9-]+/[a-z0-9-]+$$"
"""The collector expands a single dollar."""

SHORT_NAME = "(?s)^([^ ]{1,100}(?: [^ ]{1,100}){0,2}).*"
"""Three words of a span's name: `POST /v1/chat/completions`, `async outbound|8000||... egress`."""

ALWAYS_KEPT_MILLISECONDS = 1_000
SAMPLED_PERCENT = 5


def values(*, bucket: pulumi.Input[str], region: str) -> dict[str, Any]:
    """Chart values. Two replicas: each decides about the traces that it receives. Samples of requests go to `bucket`."""
    return {
        "mode": "deployment",
        "fullnameOverride": RELEASE,
        "image": {"repository": IMAGE},
        "replicaCount": 2,
        "podDisruptionBudget": {"enabled": True, "minAvailable": 1},
        "nodeSelector": dict(ON_SYSTEM_NODES),
        "ports": {**{port: {"enabled": False} for port in NOT_SPOKEN}, **METRICS},
        "podMonitor": monitored(),
        "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "200m", "memory": "512Mi"}},
        # `config` would be merged with the chart's own pipelines, and a release cannot carry the nulls that remove those.
        "alternateConfig": sampling(config(), bucket=bucket, region=region),
        "serviceAccount": {"create": True, "name": SERVICE_ACCOUNT},
    }


def permissions(bucket_arn: str) -> tuple[Statement, ...]:
    """Write samples, and nothing else; it never reads one."""
    return (Statement(sid="WriteSamples", actions=["s3:PutObject"], resources=[f"{bucket_arn}/{PREFIX}/*"]),)


def sampling(config: Mapping[str, Any], *, bucket: pulumi.Input[str], region: str) -> dict[str, Any]:
    """The configuration with a way of their own for samples of requests: past Loki to the bucket, by day and minute, each below its model's prefix.

    A sample is a line that says where it belongs (`SAMPLES_PLACE`). Its text is JSON: as an object every value in it is masked by itself, and stays
    JSON. The trap: one batch of a proxy is one model's, which is why its place may be said of the whole batch.
    """
    place = f'log.attributes["{SAMPLES_PLACE}"]'
    chosen = {
        "error_mode": "ignore",
        "log_statements": [
            f'set(resource.attributes["{SAMPLES_PLACE}"], {place}) where IsMatch({place}, "{_A_PLACE}")',
            "set(log.body, ParseJSON(log.body))",
        ],
    }
    # What belongs nowhere is dropped; so is what is no JSON, for then its body is still text.
    strays = [f'resource.attributes["{SAMPLES_PLACE}"] == nil', "not IsMap(body)"]
    masked = {"allow_all_keys": True, "blocked_values": list(MASKED), "summary": "silent"}
    store = {
        "s3uploader": {
            "region": region,
            "s3_bucket": bucket,
            "s3_base_prefix": PREFIX,
            "s3_partition_format": "%Y/%m/%d/%H/%M",
            "compression": "gzip",
        },
        "marshaler": "body",
        "resource_attrs_to_s3": {"s3_prefix": SAMPLES_PLACE},
        "sending_queue": {"enabled": True},
    }
    found = copy.deepcopy(dict(config))
    found["processors"] |= {
        "batch/samples": {"timeout": f"{SAMPLES_SECONDS}s"},
        "filter/lines": {"error_mode": "ignore", "logs": {"log_record": [f'attributes["{SAMPLES_PLACE}"] != nil']}},
        "filter/samples": {"error_mode": "ignore", "logs": {"log_record": [f'attributes["{SAMPLES_PLACE}"] == nil']}},
        "filter/strays": {"error_mode": "ignore", "logs": {"log_record": strays}},
        "redaction/samples": masked,
        "transform/samples": chosen,
    }
    found["exporters"] |= {"awss3": store}
    pipelines = found["service"]["pipelines"]
    pipelines["logs"]["processors"] = ["filter/lines", *pipelines["logs"]["processors"]]
    pipelines["logs/samples"] = {
        "receivers": ["otlp"],
        "processors": ["memory_limiter", "filter/samples", "transform/samples", "filter/strays", "redaction/samples", "batch/samples"],
        "exporters": ["awss3"],
    }
    return found


def monitored() -> dict[str, Any]:
    """Without it nobody scrapes a collector, and what it loses is lost in silence."""
    return {"enabled": True, "metricsEndpoints": [{"port": "metrics"}]}


def telemetry() -> dict[str, Any]:
    """A collector's own metrics, where Prometheus can reach them: by default only itself can."""
    return {"metrics": {"readers": [{"pull": {"exporter": {"prometheus": {"host": "${env:MY_POD_IP}", "port": METRICS_PORT}}}}]}}


def redaction() -> dict[str, Any]:
    """The one redaction of every collector here. Lists and maps under an allowed key are masked as the text that they print as."""
    return {
        "allow_all_keys": False,
        "allowed_keys": list(ALLOWED_ATTRIBUTES),
        "blocked_values": list(MASKED),
        "redact_all_types": True,
        "summary": "silent",
    }


def _free_text() -> dict[str, Any]:
    """What a span says beside its attributes: its name loses what is masked elsewhere and all but its first words; the rest is not kept.

    A statement that fails takes its batch with it: better no trace than one with a prompt.
    """

    def shortened(kind: str) -> list[str]:
        masked = [f'replace_pattern({kind}.name, {json.dumps(pattern)}, "****")' for pattern in MASKED]
        return [*masked, f'replace_pattern({kind}.name, "{SHORT_NAME}", "$$1")']

    dropped = ['set(span.status.message, "")', 'set(span.trace_state, "")']
    return {"error_mode": "propagate", "trace_statements": [*shortened("span"), *shortened("spanevent"), *dropped]}


def _linked() -> dict[str, Any]:
    """Spans with links are dropped: a link has attributes of its own, which neither redaction nor statements reach. No server here sets one."""
    return {"error_mode": "propagate", "traces": {"span": ["Len(span.links) > 0"]}}


def _named() -> dict[str, Any]:
    """Lines and spans of proxies get the labels that metrics have; over the tenant that a caller's header named."""

    def merged(kind: str, attribute: str) -> str:
        found = f'{kind}.attributes["{attribute}"]'
        return f'merge_maps({kind}.attributes, ExtractPatterns({found}, "{OF_UPSTREAM}"), "upsert") where {found} != nil'

    service = 'resource.attributes["service.name"]'
    return {
        "error_mode": "ignore",
        "log_statements": [f'set({service}, "{ACCESS_LOG}") where {service} == nil', merged("log", "upstream")],
        "trace_statements": [merged("span", "upstream_cluster")],
    }


def config() -> Mapping[str, Any]:
    """The collector's whole configuration: traces to Tempo, logs to Loki."""
    redact = ["memory_limiter", "transform", "redaction"]
    traces = ["filter/links", *redact, "transform/contents", "tail_sampling", "batch"]
    return {
        "extensions": {"health_check": {"endpoint": "${env:MY_POD_IP}:13133"}},
        "receivers": {
            "otlp": {"protocols": {"grpc": {"endpoint": "${env:MY_POD_IP}:4317"}, "http": {"endpoint": "${env:MY_POD_IP}:4318"}}},
        },
        "processors": {
            "batch": {},
            "filter/links": _linked(),
            "memory_limiter": {"check_interval": "5s", "limit_percentage": 80, "spike_limit_percentage": 25},
            "redaction": redaction(),
            "tail_sampling": {
                "decision_wait": "10s",
                "policies": [
                    {"name": "failed", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
                    {"name": "slow", "type": "latency", "latency": {"threshold_ms": ALWAYS_KEPT_MILLISECONDS}},
                    {"name": "some", "type": "probabilistic", "probabilistic": {"sampling_percentage": SAMPLED_PERCENT}},
                ],
            },
            "transform": _named(),
            "transform/contents": _free_text(),
        },
        "exporters": {
            "otlp_grpc": {"endpoint": TEMPO, "tls": {"insecure": True}},
            "otlp_http": {"endpoint": f"{LOKI_URL}/otlp"},
        },
        "service": {
            "extensions": ["health_check"],
            "telemetry": telemetry(),
            "pipelines": {
                "logs": {"receivers": ["otlp"], "processors": [*redact, "batch"], "exporters": ["otlp_http"]},
                "traces": {"receivers": ["otlp"], "processors": traces, "exporters": ["otlp_grpc"]},
            },
        },
    }
