"""What can be known of one request afterwards: its line in the log, its trace, and the way from one to the other."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.addons import istio, loki, otel, prometheus, tempo
from components.model_service import observing, routing
from components.model_service.routing import DEGRADE_HEADER
from components.observability import alerts, layers, links, manifests, recording, trail
from components.observability.overview import OVERVIEW
from components.observability.panels import Dashboard, Panel, PanelSource
from components.observability.service import service_dashboard
from components.platform import mesh
from headway.contract import sampling
from headway.contract.units import Duration
from headway.diagnosis.reasoning import diagnoses
from headway.diagnosis.wording import summary
from headway.signals.definition import GATEWAY_JOB
from headway.wire import DIAGNOSIS_NAMESPACE, RELEASE_STATE
from sandbox.traffic.mesh import listeners
from tests.components.contracts import DEFECTS, MODELS, changed
from tests.unit.diagnosis.played import played


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


def test_samples_have_their_own_redaction_and_stay_out_of_the_request_log() -> None:
    config = otel.sampling(otel.config(), bucket="telemetry", region="us-east-1")
    pipelines = config["service"]["pipelines"]
    assert pipelines["logs"]["processors"][0] == "filter/lines"
    samples = pipelines["logs/samples"]
    assert samples["processors"].index("redaction/samples") < samples["processors"].index("batch/samples")
    assert config["processors"]["redaction/samples"]["blocked_values"] == list(otel.MASKED)
    assert set(samples["exporters"]) == {"awss3"}
    assert istio.SAMPLES_PLACE not in otel.ALLOWED_ATTRIBUTES
    assert set(istio.sample_labels()) == {istio.SAMPLES_PLACE}


def test_samples_are_kept_no_longer_than_their_contract_says() -> None:
    days = {each: sampling.kept_days(Duration.parse(each)) for each in ("1d", "2d", "29d", "30d", "45d", "400d", "3650d")}
    assert days == {"1d": 1, "2d": 1, "29d": 14, "30d": 30, "45d": 30, "400d": 365, "3650d": 365}
    assert sampling.prefix("vision", "defects", Duration.parse("45d")) == "samples/30d/vision/defects/"


def test_the_sandbox_writes_samples_as_the_mesh_does() -> None:
    assert listeners.SAMPLE == istio.SAMPLE


@pytest.mark.parametrize("fields", [{"log_fields": []}, {"sample": "0%"}])
def test_without_consent_no_proxy_keeps_anything(fields: dict[str, Any]) -> None:
    model = changed(DEFECTS, batch=None, drift=None, **{f"data__{key}": value for key, value in fields.items()})
    assert "accessLogging" not in observing.telemetry("vision", model)["spec"]
    assert "headway.sample" not in json.dumps(routing.guard("vision", model))


def test_a_log_line_leads_to_its_trace_and_a_trace_to_its_log_lines() -> None:
    found = sources()
    fields = found["loki"]["jsonData"]["derivedFields"]
    (opened,) = [field for field in fields if "datasourceUid" in field]
    assert found[opened["datasourceUid"]]["type"] == "tempo"
    back = found["tempo"]["jsonData"]["tracesToLogsV2"]
    assert found[back["datasourceUid"]]["type"] == "loki"
    for text in (*(field["url"] for field in fields), back["query"]):
        assert re.search(r"(?<!\$)\$(?!\$)", text) is None, "Grafana would put an empty environment variable there"


def test_whoever_watches_the_cluster_can_read_no_secret_of_it() -> None:
    """The charts' own roles can: Loki's for rules, Grafana's for dashboards, the exporter's to count them."""
    assert loki.values(bucket="b", region="r", days=1)["sidecar"]["rules"] == {"enabled": False}
    values = prometheus.values(days=1, storage_bytes=1)
    (role,) = [manifest.body for manifest in manifests.rights()]
    assert role["metadata"]["name"] == values["grafana"]["rbac"]["useExistingClusterRole"]
    assert [(rule["resources"], rule["verbs"]) for rule in role["rules"]] == [(["configmaps"], ["get", "list", "watch"])]
    asked = [values["grafana"]["sidecar"][kind]["resource"] for kind in ("dashboards", "datasources")]
    assert asked == ["configmap", "configmap"], "what it may not read it must not ask for"
    assert "secrets" not in values["kube-state-metrics"]["collectors"]


def test_every_kind_whose_series_are_asked_for_is_counted() -> None:
    text = json.dumps([manifest.body for manifest in manifests.platform_manifests("runbooks", environment="prod")]) + SERVICE.json()
    asked = {found.removeprefix("kube_") for found in re.findall(r"\bkube_[a-z]+", text)}
    assert len(asked) > 4
    assert asked <= {kind.removesuffix("s") for kind in prometheus.COUNTED}


def test_every_label_of_an_object_that_is_asked_for_is_shown() -> None:
    """The exporter shows no label that it was not told of, and an alert about one would be silent for ever."""
    text = json.dumps([manifest.body for manifest in manifests.platform_manifests("runbooks", environment="prod")]) + SERVICE.json()
    asked = {(kind, label) for kind, label in re.findall(r"kube_([a-z]+)_labels\{[^}]*?label_([a-z_]+)", text)}
    assert {kind for kind, _ in asked} >= {"node", "namespace"}
    told = prometheus.values(days=1, storage_bytes=1)["kube-state-metrics"]["metricLabelsAllowlist"]
    shown = {
        (kind.removesuffix("s"), re.sub(r"[^a-z0-9]", "_", label))
        for kind, _, rest in (each.partition("=") for each in told)
        for label in rest[1:-1].split(",")
    }
    assert sorted(asked - shown) == []


def test_nothing_tells_its_maker_about_the_installation() -> None:
    assert loki.values(bucket="b", region="r", days=1)["loki"]["analytics"] == {"reporting_enabled": False}
    assert tempo.values(bucket="b", region="r", days=1)["tempo"]["reportingEnabled"] is False
    assert set(prometheus.values(days=1, storage_bytes=1)["grafana"]["grafana.ini"]["analytics"].values()) == {False}


@pytest.mark.parametrize("store", [loki, tempo], ids=["logs", "traces"])
def test_a_store_learns_that_an_object_is_missing_and_is_not_just_refused(store: Any) -> None:
    """S3 says 404 to who may list, and 403 to all others; Loki 3.7 does not start on a 403 (`failed to init delete
    store`).
    """
    listing, access = (statement.wire() for statement in store.permissions("arn:aws:s3:::telemetry"))
    assert listing["Action"] == ["s3:ListBucket"]
    assert listing["Condition"] == {"StringLikeIfExists": {"s3:prefix": [store.PREFIX, f"{store.PREFIX}/*"]}}
    assert access["Resource"] == [f"arn:aws:s3:::telemetry/{store.PREFIX}/*"]


SERVICE = service_dashboard("vision", MODELS["defects"])
ASKED = {name for name, _ in trail.PAGE.asked}


def ways(dashboard: Dashboard) -> dict[str, dict[str, str]]:
    """The variables that each panel hands on to the trail, by its title, as Grafana would read them."""
    found: dict[str, dict[str, str]] = {}
    for panel in json.loads(dashboard.json())["panels"]:
        for link in panel.get("fieldConfig", {}).get("defaults", {}).get("links", ()):
            path, _, query = link["url"].partition("?")
            assert path == f"/d/{trail.PAGE.uid}"
            time, *chosen = query.split("&")
            assert time == "${__url_time_range}"
            found[panel["title"]] = {name.removeprefix("var-"): value for name, value in (each.split("=") for each in chosen)}
    return found


def test_a_panel_of_releases_leads_to_their_requests_at_that_time() -> None:
    found = ways(layers.REQUEST)["Latency p99"]
    assert found == {name: f"${{__field.labels.{name}}}" for name in ("tenant", "model", "release")}


def test_a_panel_of_a_service_page_needs_no_label_for_tenant_and_model() -> None:
    assert ways(SERVICE)["Latency p99"] == {"tenant": "vision", "model": "defects", "release": "${__field.labels.release}"}


def test_a_panel_of_pods_leads_to_what_the_pod_printed() -> None:
    assert ways(layers.NODE)["Memory use by pod"] == {"tenant": "${__field.labels.namespace}", "pod": "${__field.labels.pod}"}


@pytest.mark.parametrize("dashboard", [*layers.LAYERS, SERVICE], ids=lambda dashboard: dashboard.uid)
def test_a_way_names_labels_of_its_series_and_variables_that_the_trail_asks_for(dashboard: Dashboard) -> None:
    legends = {panel.title: [query.legend for query in panel.queries] for panel in dashboard.panels}
    for title, chosen in ways(dashboard).items():
        assert set(chosen) <= ASKED
        for label in re.findall(r"labels\.(\w+)", " ".join(chosen.values())):
            assert all(f"{{{{{label}}}}}" in legend for legend in legends[title]), f"{title}: a series may lack {label}"


def test_a_panel_that_knows_of_no_request_leads_nowhere() -> None:
    assert links.address(["{{instance}}", ""], {}) is None
    assert links.address(["{{tenant}}", "{{instance}}"], {}) is None, "half of its series could not say whose they are"


def test_the_trail_asks_for_nothing_that_is_never_kept() -> None:
    """Whatever its queries name is a label of the streams, or a field that passes the collector."""
    as_loki_writes = {re.sub(r"\W", "_", name) for name in otel.ALLOWED_ATTRIBUTES}
    streams = {re.sub(r"\W", "_", name) for name in loki.STREAM_LABELS}
    for panel in trail.PAGE.panels:
        for query in panel.queries:
            if panel.store in (PanelSource.LOGS, PanelSource.LOG_RATES):
                selector, _, filters = query.expression.partition("}")
                assert set(re.findall(r"(\w+)=", selector)) <= streams
                assert set(re.findall(r"(\w+)=", filters)) <= as_loki_writes
            else:
                named = {quoted or plain for quoted, plain in re.findall(r'span\.(?:"([^"]+)"|([\w.]+))', query.expression)}
                assert named <= set(otel.ALLOWED_ATTRIBUTES)
            assert set(re.findall(r"\$(\w+)", query.expression)) <= ASKED


@pytest.mark.parametrize(
    "panel", [each for each in trail.PAGE.panels if each.store in (PanelSource.LOGS, PanelSource.LOG_RATES)], ids=lambda panel: panel.title
)
def test_loki_is_never_asked_for_lines_that_may_lack_every_label(panel: Panel) -> None:
    """It refuses a selector of which every part also matches nothing, as all do here by default (`queries require at
    least one...`).
    """
    for query in panel.queries:
        selector = query.expression.partition("{")[2].partition("}")[0]
        assert re.search(r'="[^"$]+"|=~"\.\+"', selector)


def test_the_runbook_of_lost_telemetry_names_a_panel_that_there_is() -> None:
    text = (Path(__file__).parents[3] / "docs" / "runbooks" / "telemetry-lost.md").read_text()
    assert trail.PAGE.title in text
    assert any(f"*{panel.title}*" in text for panel in trail.PAGE.panels)


def test_a_way_ends_where_the_causes_of_the_services_alerts_are() -> None:
    """The loop says each of them as its summary, which begins with the service."""
    (query,) = next(panel.queries for panel in trail.PAGE.panels if panel.title == "Causes of alerts")
    line = re.compile(query.expression.partition('|~ "')[2].removesuffix('"').replace("$tenant", "vision").replace("$model", "defects"))
    (slow,) = diagnoses(played({"compute": 0.060}))
    assert line.search(summary(slow)) and not line.search(summary(replace(slow, model="embeddings")))
    assert f'k8s_namespace_name="{DIAGNOSIS_NAMESPACE}"' in query.expression


def test_one_request_is_called_alike_by_its_series_its_line_and_its_spans() -> None:
    """Tenant, model and release are what signals are recorded by; a line and a span get them from the name of their
    upstream.
    """
    of_series = {"tenant", "model", "release"}
    assert set(otel.LABELS) == of_series == set(re.findall(r"\?P<(\w+)>", otel.OF_UPSTREAM))
    by_proxies = observing.telemetry("vision", MODELS["defects"])["spec"]["tracing"][0]["customTags"]
    assert set(by_proxies) <= of_series <= set(otel.ALLOWED_ATTRIBUTES), "a span's own tags pass the collector"
    line, spans = (query.expression for panel in trail.PAGE.panels[:2] for query in panel.queries)
    for name in of_series:
        assert f'{name}=~"${name}"' in line
        assert f'span.{name}=~"${name}"' in spans
    assert 'request_id=~"$request"' in line
    assert 'span."guid:x-request-id"=~"$request"' in spans


def test_a_line_leads_to_its_request_and_its_trace_without_explore() -> None:
    """Explore is not for Viewers, and nobody here is more."""
    fields = {field["name"]: field for field in sources()["loki"]["jsonData"]["derivedFields"]}
    for name, label in (("request", "request_id"), ("trace", "trace_id")):
        assert fields[name]["matcherRegex"] == label
        assert fields[name]["url"] == f"/d/{trail.PAGE.uid}?var-{name}=$${{__value.raw}}"
        assert name in ASKED


def test_requests_answered_by_a_fallback_are_counted_with_a_bounded_label() -> None:
    """By the header that the gateway's overload control writes; its value could be anything that a caller inside the
    mesh thinks of.
    """
    assert istio.ADDED_TAGS["degraded"] == f'"{DEGRADE_HEADER}" in request.headers ? "true" : "false"'
    assert DEGRADE_HEADER in mesh.OWN_HEADERS, "a client from outside could say it of itself"
    (asked,) = [panel for panel in layers.REQUEST.panels if panel.title == "Requests answered by a fallback model"]
    assert 'degraded="true"' in asked.queries[0].expression


def test_no_page_of_a_tenants_pod_answers_what_the_platform_asks_of_others() -> None:
    """A series of a replica is found by the labels that the monitor gave it; every other name that is asked for is the platform's own."""
    every = json.dumps(
        [
            recording.groups(),
            alerts.groups("https://a.example", None, environment="prod"),
            [page.json() for page in (*layers.LAYERS, OVERVIEW)],
        ]
    )
    asked = {name for name in re.findall(r"\b([A-Za-z_:][\w:]*)(?=[{\[])", every) if "_" in name or name in {"up", "ALERTS"}}
    foreign = {name for name in asked if not name.startswith(("nv_", "vllm:")) and not re.fullmatch(observing.RESERVED, name)}
    assert len(asked) > 40
    assert foreign == set(), "add them to RESERVED"


def test_one_proxy_of_a_replica_fills_no_prometheus() -> None:
    found = [each.body for each in mesh.manifests(hosts=["a.example"], certificate=None, region="r") if each.kind == "PodMonitor"]
    assert GATEWAY_JOB in {f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in found}
    spec = {each["metadata"]["name"]: each["spec"] for each in found}
    assert spec["mesh-replicas"]["sampleLimit"] == 20_000
    assert "sampleLimit" not in spec["mesh-proxies"], "the gateway's grow with the tenants"


def annotation(page: Dashboard) -> str:
    (found,) = json.loads(page.json())["annotations"]["list"]
    return str(found["expr"])


def test_dashboards_of_a_tenant_show_how_long_each_release_was_in_its_state() -> None:
    of_service = service_dashboard("vision", MODELS["defects"])
    assert annotation(of_service) == f'max by (tenant, model, release, state) ({RELEASE_STATE}{{tenant="vision",model="defects"}})'
    assert 'tenant=~"$tenant"' in annotation(layers.MODEL_SERVER)


def test_a_dashboard_of_no_tenant_shows_no_releases() -> None:
    assert "annotations" not in json.loads(layers.GPU.json()) or not json.loads(layers.GPU.json())["annotations"].get("list")
