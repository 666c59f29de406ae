"""What istiod makes of the mesh's providers and Telemetry objects: tracer and access loggers of one proxy, as Envoy reads them.

After istio/istio 1.30, pilot/pkg/networking/core/tracing.go and pilot/pkg/model/telemetry_logging.go. Only what the program's own objects ask
for: anything else is an error here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Config = dict[str, Any]
COLLECTOR, NOWHERE = "collector", "outbound|4317||otel-collector.monitoring.svc.cluster.local"
"""Names of the cluster that stands for the collector, and of the one that a proxy is told of whose Sidecar does not import the collector:
Envoy takes it, and drops what is sent there."""


def providers(values: Mapping[str, Any]) -> dict[str, Config]:
    """The mesh's extension providers by name, from the values of istiod's chart."""
    return {each["name"]: each for each in values["meshConfig"]["extensionProviders"]}


def collector(port: int) -> Config:
    """The cluster by which a proxy reaches the collector."""
    options = {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    at = {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}}
    return {
        "name": COLLECTOR,
        "type": "STATIC",
        "load_assignment": {"cluster_name": COLLECTOR, "endpoints": [{"lb_endpoints": [at]}]},
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options},
    }


def observed(
    manager: Config,
    telemetry: Sequence[Mapping[str, Any]],
    known: Mapping[str, Config],
    environment: Mapping[str, str],
    *,
    imported: bool = True,
) -> None:
    """Have an HTTP connection manager trace and log as these Telemetry specs say, the mesh's own first; `environment` is the proxy's, and
    `imported` whether its Sidecar has the collector."""
    cluster = COLLECTOR if imported else NOWHERE
    logging, tracing = None, None
    for spec in telemetry:
        logging = spec.get("accessLogging", logging)
        if spec.get("tracing"):
            # A child without providers keeps its parent's.
            tracing = {**(tracing or {}), **spec["tracing"][0]}
    for entry in logging or ():
        for name in (each["name"] for each in entry["providers"]):
            manager["access_log"].append(_logger(known[name]["envoyOtelAls"], entry.get("filter"), environment, cluster))
    if tracing:
        (name,) = (each["name"] for each in tracing["providers"])
        assert set(known[name]) == {"name", "opentelemetry"}
        manager["generate_request_id"] = True
        manager["tracing"] = _tracer(tracing, cluster)


def _tracer(tracing: Mapping[str, Any], cluster: str) -> Config:
    typed = {
        "@type": "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig",
        "grpc_service": {"envoy_grpc": {"cluster_name": cluster}, "timeout": "1s"},
        "service_name": "proxy",
    }
    return {
        "provider": {"name": "envoy.tracers.opentelemetry", "typed_config": typed},
        "random_sampling": {"value": float(tracing["randomSamplingPercentage"])},
        "client_sampling": {"value": 100.0},
        "overall_sampling": {"value": 100.0},
        "custom_tags": [
            {"tag": tag, "literal": {"value": said["literal"]["value"]}} for tag, said in tracing.get("customTags", {}).items()
        ],
    }


def _logger(provider: Mapping[str, Any], kept: Mapping[str, str] | None, environment: Mapping[str, str], cluster: str) -> Config:
    form = provider["logFormat"]
    text = form["text"]
    for name, value in environment.items():
        text = text.replace(f"%ENVIRONMENT({name})%", value)
    typed: Config = {
        "@type": "type.googleapis.com/envoy.extensions.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig",
        "common_config": {
            "log_name": "otel_envoy_accesslog",
            "transport_api_version": "V3",
            "grpc_service": {"envoy_grpc": {"cluster_name": cluster}},
            "buffer_flush_interval": "0.1s",
        },
        "disable_builtin_labels": True,
        "body": {"string_value": text},
        "attributes": {"values": [{"key": key, "value": {"string_value": value}} for key, value in sorted(form["labels"].items())]},
    }
    if any("%REQ_WITHOUT_QUERY(" in each for each in (text, *form["labels"].values())):
        formatter = "type.googleapis.com/envoy.extensions.formatter.req_without_query.v3.ReqWithoutQuery"
        typed["formatters"] = [{"name": "envoy.formatter.req_without_query", "typed_config": {"@type": formatter}}]
    made: Config = {"name": "envoy.access_loggers.open_telemetry", "typed_config": typed}
    if kept:
        cel = {"@type": "type.googleapis.com/envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter", **kept}
        made["filter"] = {"extension_filter": {"name": "envoy.access_loggers.extension_filters.cel", "typed_config": cel}}
    return made
