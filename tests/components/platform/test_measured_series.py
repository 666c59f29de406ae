"""Every series that a diagnosis asks for is one that the platform's own telemetry lets through: nothing that it switches off, drops or never
has emitted is ever looked for."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from components.addons.istio import EMITTED, gateway_values
from components.observability import recording
from components.platform import gateway_measures, mesh
from headway.diagnosis.measures import MEASURES, query
from headway.signals.definition import GATEWAY_MONITOR

ISTIO = {
    "istio_requests": "REQUEST_COUNT",
    "istio_request_duration_milliseconds": "REQUEST_DURATION",
    "istio_request_bytes": "REQUEST_SIZE",
    "istio_response_bytes": "RESPONSE_SIZE",
    "istio_request_messages": "GRPC_REQUEST_MESSAGES",
    "istio_response_messages": "GRPC_RESPONSE_MESSAGES",
}
"""By Prometheus' name what Istio's Telemetry calls a metric (istio.io, "Istio Standard Metrics"; `MetricSelector.IstioMetric` of its API)."""
ASKED = {name: query(each, "vision", "defects", "1m") for name, each in MEASURES.items()}


def bodies() -> dict[str, Any]:
    return {each.role: each.body for each in mesh.manifests(hosts=["models.example.com"], certificate="tls", region="us-west-2")}


def selected(text: str) -> Iterator[tuple[str, str]]:
    """Names (or patterns of names) of series with their matchers."""
    for name, matchers in re.findall(r"([a-zA-Z_:][a-zA-Z0-9_:]*)?\{([^{}]*(?:\{\d+\}[^{}]*)*)\}", text):
        pattern = re.search(r'__name__=~"([^"]+)"', matchers)
        yield (name or (pattern[1] if pattern else ""), matchers)


def bare(text: str) -> set[str]:
    """Names that begin as Envoy's or the platform's do, with matchers or without."""
    return set(re.findall(r"\b(?:envoy|headway)[a-zA-Z0-9_:]*(?:\([^)]*\)\?[a-z_]*)?", text))


ALL = [(name, series, matchers) for name, text in ASKED.items() for series, matchers in selected(text)]


def istio(series: str) -> str:
    return ISTIO[re.sub(r"_(total|sum|count|bucket)$", "", series)]


def overrides() -> list[dict[str, Any]]:
    (metrics,) = bodies()["telemetry"]["spec"]["metrics"]
    return metrics["overrides"]


def test_no_measure_asks_for_a_metric_that_the_mesh_switches_off() -> None:
    off = {each["match"]["metric"] for each in overrides() if each.get("disabled")}
    asked = {name: istio(series) for name, series, _ in ALL if series.startswith("istio_")}
    assert asked and off
    assert not {name: metric for name, metric in asked.items() if metric in off}


def test_no_measure_asks_for_a_label_that_the_mesh_takes_off() -> None:
    off = {tag for each in overrides() for tag, how in each.get("tagOverrides", {}).items() if how.get("operation") == "REMOVE"}
    labels = {
        label for _, series, matchers in ALL if series.startswith("istio_") for label in re.findall(r'(\w+)(?:=~|!~|!=|=)"', matchers)
    }
    assert not labels & off


@pytest.mark.parametrize(("role", "reporter"), [("proxy-metrics", "source"), ("replica-proxy-metrics", "destination")])
def test_the_monitor_of_the_proxies_keeps_what_is_asked_of_them(role: str, reporter: str) -> None:
    (endpoint,) = bodies()[role]["spec"]["podMetricsEndpoints"]
    kept = next(each["regex"] for each in endpoint["metricRelabelings"] if each["action"] == "keep")
    asked = {series for _, series, matchers in ALL if f'reporter="{reporter}"' in matchers}
    if bodies()[role]["metadata"]["name"] == GATEWAY_MONITOR:
        asked |= {name for text in ASKED.values() for name in bare(text) if name.startswith("envoy_")}
    assert asked and not [each for each in asked if not re.fullmatch(kept, re.sub(r"\(([^)]*)\)\?", r"\1", each))]


def test_what_is_asked_of_envoy_the_gateways_proxies_are_told_to_emit() -> None:
    annotations = gateway_values(replicas_min=1, replicas_max=2, histogram_buckets="{}")["podAnnotations"]
    assert EMITTED in annotations.values()
    emitted = tuple(f"envoy_{re.sub('[^a-zA-Z0-9]', '_', each)}" for each in EMITTED.split(","))
    asked = {re.sub(r"\(([^)]*)\)\?", r"\1", name) for text in ASKED.values() for name in bare(text) if name.startswith("envoy_")}
    assert len(asked) >= 5
    assert not [each for each in asked if not each.startswith(emitted)]


def test_each_statistic_of_the_gateway_that_is_asked_for_is_written() -> None:
    written = {
        f"envoy_{each['typed_config']['stat_prefix']}_{stat['stat']['name']}"
        for each in gateway_measures.access_log()
        for kind in ("counters", "histograms")
        for stat in each["typed_config"].get(kind, ())
    }
    asked = {name for text in ASKED.values() for name in bare(text) if name.startswith("envoy_headway_")}
    assert asked <= written


def test_what_is_asked_of_the_platforms_own_series_is_recorded() -> None:
    recorded = {rule["record"] for group in recording.groups() for rule in group["rules"]}
    asked = {name for text in ASKED.values() for name in bare(text) if name.startswith("headway:")}
    assert asked and not {name for name in asked if name not in recorded and not name.startswith("headway:slo_")}


def test_a_measure_of_a_metric_that_is_off_would_be_noticed() -> None:
    """As it was with the size of requests until it was measured elsewhere."""
    (series, _), *_ = selected('sum(rate(istio_request_bytes_sum{reporter="source"}[1m]))')
    assert istio(series) in {each["match"]["metric"] for each in overrides() if each.get("disabled")}
