"""Every query of every dashboard, asked of a real Prometheus that scrapes a working platform's series and runs the real rules."""

import json
import math
import re
from collections.abc import Iterator
from time import monotonic, time
from typing import Any

import pytest

from components.model_service import objectives
from components.observability import layers, overview, recording
from components.observability.panels import Dashboard
from components.observability.service import service_dashboard
from headway.contract.model import Model
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.monitoring import servers
from sandbox.monitoring.configuration import MonitoringSettings
from sandbox.monitoring.servers import Monitoring
from sandbox.progress import Silent
from tests.cluster.components.observability import generated_series
from tests.cluster.conftest import PROJECT, eventually
from tests.cluster.exporter import shown
from tests.components.contracts import CHAT, DEFECTS, SURROUNDINGS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MODELS = (("vision", Model.model_validate(DEFECTS)), ("assist", Model.model_validate(CHAT)))
DASHBOARDS = (overview.OVERVIEW, *layers.LAYERS, *(service_dashboard(tenant, model) for tenant, model in MODELS))
EVERY_QUERY = [(d, p.title, q.expression) for d in DASHBOARDS for p in d.panels for q in p.queries]
FIRING = {"alert": "Always", "expr": "vector(1)", "labels": {"layer": "request", "namespace": "vision", "severity": "page"}}
WITHIN = 90.0


def rules() -> dict[str, Any]:
    groups = [*recording.groups(), {"name": "one", "rules": [FIRING]}]
    for tenant, model in MODELS:
        groups += objectives.rules(tenant, model, SURROUNDINGS)["spec"]["groups"]
    return {"groups": [{**group, "interval": "1s"} for group in groups]}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    layout = Layout(project=PROJECT, state=tmp_path_factory.mktemp("dashboards"), cache=Layout.of(PROJECT).cache)
    began = monotonic()
    # `up` is Prometheus' own: it takes its labels from the target, as a PodMonitor would give them.
    pods = {"platform_io_tenant": "vision", "platform_io_model": "defects", "platform_io_release": "r0123456789", "pod": "p"}
    with shown(lambda: generated_series.text(monotonic() - began)) as exporter:
        job = {"job_name": "everything", "honor_labels": True, "static_configs": [{"targets": [exporter.target]}]}
        pod = {"job_name": "pod", "static_configs": [{"targets": [exporter.target], "labels": pods}], "sample_limit": 1}
        try:
            running = servers.start(layout, Silent(), MonitoringSettings(scrape_configs=(job, pod)))
            servers.write(running.rules / "all.yml", json.dumps(rules()))
            running.reload()
            eventually(lambda: running.query("headway:latency:p99 > 0") and running.query("headway:slo_bad:share3d > 0"), WITHIN)
            yield running
        finally:
            Supervisor(layout).stop_all(Silent())


def filled(expression: str) -> str:
    """With all tenants chosen, as Grafana does it; without the zero that stands for nothing, which would hide a wrong name."""
    return expression.replace("$tenant", ".*").replace(" or vector(0)", "")


def test_every_rule_is_evaluated_without_an_error(prometheus: Monitoring) -> None:
    assert prometheus.query("sum(prometheus_rule_evaluation_failures_total) > 0") == []


@pytest.mark.parametrize(
    ("tenant", "model", "objective"),
    [(tenant, model.name, objectives.objective_name(slo)) for tenant, model in MODELS for slo in model.slo],
)
def test_every_promise_of_a_contract_is_measured(prometheus: Monitoring, tenant: str, model: str, objective: str) -> None:
    picks = f'tenant="{tenant}",model="{model}",objective="{objective}"'
    assert eventually(lambda: prometheus.query(f"headway:slo_bad:share5m{{{picks}}} >= 0"), WITHIN)


@pytest.mark.parametrize(("dashboard", "title", "expression"), EVERY_QUERY, ids=[f"{d.uid}-{t}" for d, t, _ in EVERY_QUERY])
def test_a_panel_shows_something_on_a_platform_that_works(
    prometheus: Monitoring, dashboard: Dashboard, title: str, expression: str
) -> None:
    found = eventually(lambda: [s for s in prometheus.query(filled(expression)) if not math.isnan(float(s["value"][1]))], 30.0)
    for sample in found:
        assert math.isfinite(float(sample["value"][1]))


@pytest.mark.parametrize(
    ("dashboard", "title", "legend", "expression"),
    [(d, p.title, q.legend, q.expression) for d in DASHBOARDS for p in d.panels for q in p.queries if q.legend],
    ids=lambda value: value.uid if isinstance(value, Dashboard) else "",
)
def test_a_legend_names_labels_that_its_series_have(
    prometheus: Monitoring, dashboard: Dashboard, title: str, legend: str, expression: str
) -> None:
    wanted = set(re.findall(r"\{\{(\w+)\}\}", legend))
    for sample in prometheus.query(filled(expression), at=time()):
        assert wanted <= sample["metric"].keys() | {"__name__"}, f"{title}: {legend}"
