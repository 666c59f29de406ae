"""What can be known of one request afterwards: its line in the log, its trace, and the way from one to the other."""

import re
from typing import Any

import pytest

from components.addons import istio, otel, prometheus


def sources() -> dict[str, dict[str, Any]]:
    values = prometheus.values(days=30, storage_bytes=2**39)
    return {source["uid"]: source for source in values["grafana"]["additionalDataSources"]}


def test_whatever_the_access_log_says_passes_the_collector() -> None:
    assert set(istio.access_log()) <= set(otel.ALLOWED_ATTRIBUTES)


def test_a_request_has_the_same_id_in_its_log_line_and_in_its_trace() -> None:
    assert istio.access_log()["request_id"] == "%REQ(X-REQUEST-ID)%"
    assert "guid:x-request-id" in otel.ALLOWED_ATTRIBUTES, "the name that Envoy's spans give it"


@pytest.mark.parametrize(
    "attribute", ["http.url", "url.full", "url.query", "user_agent", "peer.address", "gen_ai.prompt", "gen_ai.completion"]
)
def test_what_a_caller_wrote_or_is_ends_at_the_collector(attribute: str) -> None:
    assert attribute not in otel.ALLOWED_ATTRIBUTES


def test_every_pipeline_redacts_before_anything_leaves() -> None:
    for pipeline in otel.config()["service"]["pipelines"].values():
        assert pipeline["processors"].index("redaction") < pipeline["processors"].index("batch")
        assert set(pipeline["processors"]) <= set(otel.config()["processors"])
        assert set(pipeline["exporters"]) <= set(otel.config()["exporters"])


def test_a_log_line_leads_to_its_trace_and_a_trace_to_its_log_lines() -> None:
    found = sources()
    (field,) = found["loki"]["jsonData"]["derivedFields"]
    assert found[field["datasourceUid"]]["type"] == "tempo"
    back = found["tempo"]["jsonData"]["tracesToLogsV2"]
    assert found[back["datasourceUid"]]["type"] == "loki"
    for text in (field["url"], back["query"]):
        assert re.search(r"(?<!\$)\$(?!\$)", text) is None, "Grafana would put an empty environment variable there"
