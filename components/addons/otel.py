"""The OpenTelemetry collector: everything that describes a request passes here, and what could hold a prompt ends here.

Attributes pass by an allow-list; what is left over is free text (`node_logs.py`), in which secrets and what names a
prompt are masked. A request is called by its tenant, model and release, as its metrics are. Who may say so: every
pod of every tenant reaches this port, so what a sender says of itself is thrown away, and who it is is asked of
Kubernetes by the address of its connection. Only the gateway speaks of others, by the names of its upstreams. The
traps: a deny-list of prompt attributes leaks the first attribute that a new model server invents; the redaction
processor knows attributes only, while a span has free text beside them; and behind a processor that batches, no
connection is known any more.
"""

import copy
import json
from collections.abc import Mapping
from typing import Any

import pulumi

from components.addons.istio import SAMPLES_PLACE
from components.addons.placement import ON_SYSTEM_NODES
from components.addons.prometheus import LOKI_URL, NAMESPACE
from components.addons.service_account import Annotations, service_account
from components.addons.tempo import OTLP_PORT
from components.permissions import Statement
from headway.contract.sampling import KEPT_DAYS, PREFIX
from headway.wire import COLLECTOR, GATEWAY_NAMESPACE, MODEL, TENANT
from headway.wire import RELEASE as RELEASE_LABEL

RELEASE = COLLECTOR
HOST, PORT = f"{RELEASE}.{NAMESPACE}.svc.cluster.local", OTLP_PORT
PODS = {"app.kubernetes.io/instance": RELEASE}
"""The labels of its pods, as the chart writes them."""
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
"""What may be known of a request: sizes, times, names, states. Nothing that a caller wrote: the gateway makes request
ids anew.

The names are those of the access log, of Envoy's spans (`guid:x-request-id` is the log's `request_id`), and of
OpenTelemetry's conventions, which model servers follow. A span's `http.url`, `user_agent` and `peer.address` are
left out on purpose.
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
"""What is masked wherever it stands, in a printed line too: announced contents, passwords and tokens, AWS key ids,
addresses of people, numbers of cards.

A net with holes, unlike the list above: a program that prints a prompt without saying so is heard. Servers here are
told not to.
"""

ACCESS_LOG, TOLD = "access-log", "told"
"""The services of Loki that proxies' lines belong to, and lines that a program sent under a service's name: a name
of its own choice would be a stream of its own choice.
"""

READS = [{"apiGroups": [""], "resources": ["namespaces", "pods"], "verbs": ["get", "list", "watch"]}]
"""What a collector needs to know whose a pod is."""
_SOURCE = "source"
"""What Kubernetes says of a sender stands under keys of this prefix, which the redaction lets through nowhere."""

OF_UPSTREAM = (
    "^outbound[|][0-9]+[|][^|]*[|](?P<model>[a-z0-9-]+?)-(?P<release>r[0-9a-f]{10})(?:-baseline)?[.](?P<tenant>[a-z0-9-]+)[.]svc[.]"
)
"""istiod's name for a release's Service, as `components.model_service` calls it. Without a backslash: the language
of statements has its own.
"""

NOT_SPOKEN = ("jaeger-compact", "jaeger-grpc", "jaeger-thrift", "zipkin")
"""Ports that the chart opens by default."""
METRICS_PORT = 8888
METRICS: Mapping[str, Any] = {"metrics": {"enabled": True}}

SERVICE_ACCOUNT = RELEASE
SAMPLES_SECONDS = 10
"""How late a sample is stored at most, while the bucket answers."""
SAMPLES_AT_ONCE = 64
"""In an object, each of at most twice `BODY_BYTES`: 8 MiB, which S3's client stores in one piece. One of several
pieces would need the right to read with the bucket's key.
"""
_DAYS = f"^(?P<days>{'|'.join(map(str, KEPT_DAYS))})d/"
"""All that a proxy may say of where its sample belongs; whose it is, its address says."""

_KNOWN = ("transform/claims", "k8s_attributes")
"""Whoever sends is what Kubernetes calls the pod at the other end, and nothing that it says itself."""

SHORT_NAME = "(?s)^([^ ]{1,100}(?: [^ ]{1,100}){0,2}).*"
"""Three words of a span's name: `POST /v1/chat/completions`, `async outbound|8000||... egress`."""

MEMORY_MIB, QUEUE_MIB = 1_024, 60
"""Of a replica, and of each of its three queues, whose contents take some three times their size. At 100 services a
store may be away for ten minutes before lines are lost.
"""
ALWAYS_KEPT_MILLISECONDS = 1_000
SAMPLED_PERCENT = 5


def values(*, bucket: pulumi.Input[str], region: str, annotations: Annotations = None) -> dict[str, Any]:
    """Chart values. Two replicas: each decides about the traces that it receives. Samples of requests go to
    `bucket`.
    """
    return {
        "mode": "deployment",
        "fullnameOverride": RELEASE,
        "image": {"repository": IMAGE},
        "replicaCount": 2,
        "podDisruptionBudget": {"enabled": True, "minAvailable": 1},
        "nodeSelector": dict(ON_SYSTEM_NODES),
        "ports": {**{port: {"enabled": False} for port in NOT_SPOKEN}, **METRICS},
        "podMonitor": monitored(),
        "resources": {"limits": {"memory": f"{MEMORY_MIB}Mi"}, "requests": {"cpu": "200m", "memory": "512Mi"}},
        # `config` would be merged with the chart's own pipelines, and a release cannot carry the nulls that remove those.
        "alternateConfig": sampling(config(), bucket=bucket, region=region),
        "serviceAccount": {"create": True, **service_account(SERVICE_ACCOUNT, annotations)},
        "clusterRole": {"create": True, "rules": READS},
    }


def permissions(bucket_arn: str) -> tuple[Statement, ...]:
    """Write samples, and nothing else; it never reads one."""
    return (Statement(sid="WriteSamples", actions=["s3:PutObject"], resources=[f"{bucket_arn}/{PREFIX}/*"]),)


def sampling(config: Mapping[str, Any], *, bucket: pulumi.Input[str], region: str) -> dict[str, Any]:
    """The configuration with a way of their own for samples of requests: past Loki to the bucket, by day and minute,
    each below its model's prefix.

    A sample is a line that says where it belongs (`SAMPLES_PLACE`), of which the days are believed. Its text is
    JSON: as an object every value in it is masked by itself, and stays JSON. One batch of a proxy is one model's,
    which is why its place may be said of the whole batch.
    """
    place, tenant, model = f'log.attributes["{SAMPLES_PLACE}"]', _source("tenant"), _source("model")
    own = f'Concat([Concat([ExtractPatterns({place}, "{_DAYS}")["days"], "d"], ""), {tenant}, {model}], "/")'
    chosen = {
        "error_mode": "ignore",
        "log_statements": [
            f'set(resource.attributes["{SAMPLES_PLACE}"], {own}) where IsMatch({place}, "{_DAYS}") and {tenant} != nil and {model} != nil',
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
            "s3_partition_timezone": "UTC",
            "compression": "gzip",
        },
        "marshaler": "body",
        "resource_attrs_to_s3": {"s3_prefix": SAMPLES_PLACE},
        # An object is one model's: what waits here is not put together once more.
        "sending_queue": {key: value for key, value in waiting(QUEUE_MIB).items() if key != "batch"},
    }
    found = copy.deepcopy(dict(config))
    found["processors"] |= {
        "batch/samples": {"send_batch_max_size": SAMPLES_AT_ONCE, "send_batch_size": SAMPLES_AT_ONCE, "timeout": f"{SAMPLES_SECONDS}s"},
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
        "processors": [
            "memory_limiter",
            "filter/samples",
            *_KNOWN,
            "transform/samples",
            "filter/strays",
            "redaction/samples",
            "batch/samples",
        ],
        "exporters": ["awss3"],
    }
    return found


def monitored() -> dict[str, Any]:
    """Without it nobody scrapes a collector, and what it loses is lost in silence."""
    return {"enabled": True, "metricsEndpoints": [{"port": "metrics"}]}


def telemetry() -> dict[str, Any]:
    """A collector's own metrics, where Prometheus can reach them: by default only itself can."""
    return {"metrics": {"readers": [{"pull": {"exporter": {"prometheus": {"host": "${env:MY_POD_IP}", "port": METRICS_PORT}}}}]}}


def waiting(mebibytes: int) -> dict[str, Any]:
    """What one exporter holds while its store is away. By bytes: a thousand requests of any size, the default, would
    fill the memory before the queue, and then nothing of any kind is taken. In pieces that the store takes: Loki's
    gateway refuses 4 MB, Tempo 4 MiB.
    """
    return {"enabled": True, "queue_size": mebibytes * 2**20, "sizer": "bytes", "batch": {"max_size": 2 * 2**20}}


def redaction() -> dict[str, Any]:
    """The one redaction of every collector here. Lists and maps under an allowed key are masked as the text that
    they print as.
    """
    return {
        "allow_all_keys": False,
        "allowed_keys": list(ALLOWED_ATTRIBUTES),
        "blocked_values": list(MASKED),
        "redact_all_types": True,
        "summary": "silent",
    }


def _free_text() -> dict[str, Any]:
    """What a span says beside its attributes: its name loses what is masked elsewhere and all but its first words; the
    rest is not kept.

    A statement that fails takes its batch with it: better no trace than one with a prompt.
    """

    def shortened(kind: str) -> list[str]:
        masked = [f'replace_pattern({kind}.name, {json.dumps(pattern)}, "****")' for pattern in MASKED]
        return [*masked, f'replace_pattern({kind}.name, "{SHORT_NAME}", "$$1")']

    dropped = ['set(span.status.message, "")', 'set(span.trace_state, "")']
    return {"error_mode": "propagate", "trace_statements": [*shortened("span"), *shortened("spanevent"), *dropped]}


def _linked() -> dict[str, Any]:
    """Spans with links are dropped: a link has attributes of its own, which neither redaction nor statements reach.
    No server here sets one.
    """
    return {"error_mode": "propagate", "traces": {"span": ["Len(span.links) > 0"]}}


def _source(name: str) -> str:
    return f'resource.attributes["{_SOURCE}.{name}"]'


def _claims() -> dict[str, Any]:
    """A sender keeps the name of its service. Fails closed: what cannot be stripped is not taken."""
    kept = ['keep_keys(resource.attributes, ["service.name"])']
    return {"error_mode": "propagate", "log_statements": kept, "trace_statements": kept}


def _senders() -> dict[str, Any]:
    """Who is no pod that is known is nobody, as is one in its node's network: its lines and spans have no tenant,
    its samples no place.
    """
    labels = zip(LABELS, (MODEL, RELEASE_LABEL, TENANT), strict=True)
    of_pod = [{"tag_name": f"{_SOURCE}.{name}", "key": key, "from": "pod"} for name, key in labels]
    # Not as `k8s.namespace.name`, which would be a label of streams.
    namespace = {"tag_name": f"{_SOURCE}.namespace", "key": "kubernetes.io/metadata.name", "from": "namespace"}
    return {
        "pod_association": [{"sources": [{"from": "connection"}]}],
        "extract": {"metadata": ["k8s.node.name", "k8s.pod.name"], "labels": [*of_pod, namespace]},
        # Else nobody would be known while it starts.
        "wait_for_metadata": True,
    }


def _named() -> dict[str, Any]:
    """Lines and spans get the labels that metrics have: the gateway's by the upstream that it asked, anyone else's
    by its pod's.
    """
    names = "|".join(LABELS)

    def owned(kind: str, upstream: str) -> list[str]:
        asked, by_gateway = f'{kind}.attributes["{upstream}"]', f'{_source("namespace")} == "{GATEWAY_NAMESPACE}"'
        found = f'ExtractPatterns({asked}, "{OF_UPSTREAM}")'
        return [
            f'delete_matching_keys({kind}.attributes, "^({names})$$")',
            f'merge_maps({kind}.attributes, {found}, "upsert") where {by_gateway} and IsString({asked})',
            *(f'set({kind}.attributes["{name}"], {_source(name)}) where {_source(name)} != nil' for name in LABELS),
        ]

    service = 'resource.attributes["service.name"]'
    called = [f'set({service}, "{TOLD}") where {service} != nil', f'set({service}, "{ACCESS_LOG}") where {service} == nil']
    return {
        "error_mode": "propagate",
        "log_statements": [{"statements": called}, {"statements": owned("log", "upstream")}],
        "trace_statements": owned("span", "upstream_cluster"),
    }


def config() -> Mapping[str, Any]:
    """The collector's whole configuration: traces to Tempo, logs to Loki."""
    redact = ["memory_limiter", *_KNOWN, "transform", "redaction"]
    traces = ["filter/links", *redact, "transform/contents", "tail_sampling", "batch"]
    return {
        "extensions": {"health_check": {"endpoint": "${env:MY_POD_IP}:13133"}},
        "receivers": {
            "otlp": {"protocols": {"grpc": {"endpoint": "${env:MY_POD_IP}:4317"}, "http": {"endpoint": "${env:MY_POD_IP}:4318"}}},
        },
        "processors": {
            "batch": {},
            "filter/links": _linked(),
            "k8s_attributes": _senders(),
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
            "transform/claims": _claims(),
            "transform/contents": _free_text(),
        },
        "exporters": {
            "otlp_grpc": {"endpoint": TEMPO, "tls": {"insecure": True}, "sending_queue": waiting(QUEUE_MIB)},
            "otlp_http": {"endpoint": f"{LOKI_URL}/otlp", "sending_queue": waiting(QUEUE_MIB)},
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
