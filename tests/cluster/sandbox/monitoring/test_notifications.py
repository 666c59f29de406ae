"""What people get of several alerts at once: the platform's and a tenant's routes in a real Alertmanager."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from components.observability import routes
from headway.contract.model import Model
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.monitoring import objects, servers
from sandbox.monitoring.configuration import MonitoringSettings
from sandbox.progress import Silent
from tests.cluster.conftest import PROJECT, eventually
from tests.components.contracts import DEFECTS, EMBEDDINGS

pytestmark = pytest.mark.timeout(1800)

ONCALL, TICKETS, TENANT = "monitoring/platform/platform-oncall", "monitoring/platform/platform-tickets", "vision/alerts/vision-oncall"
WITHIN = 60.0

Group = tuple[str, frozenset[str]]
"""A receiver, and the alerts that one notification of it has."""


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackEndpoint]:
    found = routes.tenant_routes("vision", (Model.model_validate(DEFECTS), Model.model_validate(EMBEDDINGS)))
    assert found is not None
    whole, refused = objects.alerting([routes.platform_routes(), found], "monitoring", "http://127.0.0.1:9")
    assert not refused
    layout = Layout(project=PROJECT, state=tmp_path_factory.mktemp("notifications"), cache=Layout.of(PROJECT).cache)
    try:
        running = servers.start(layout, Silent(), MonitoringSettings(alertmanager=whole))
        yield LoopbackEndpoint(port=int(running.alertmanager.rsplit(":", 1)[1]))
    finally:
        Supervisor(layout).stop_all(Silent())


def alert(name: str, severity: str, **labels: str) -> dict[str, Any]:
    return {"labels": {"alertname": name, "severity": severity, **labels}}


def told(alertmanager: LoopbackEndpoint, namespace: str, alerts: list[dict[str, Any]]) -> set[Group]:
    """What each receiver gets together, once all of them are there; without what is inhibited."""
    sent = [{"labels": {**each["labels"], "namespace": namespace} if namespace else each["labels"]} for each in alerts]
    alertmanager.call("POST", "/api/v2/alerts", json.dumps(sent), {"Content-Type": "application/json"})
    names = {each["labels"]["alertname"] for each in alerts}

    def groups() -> set[Group]:
        answer = json.loads(alertmanager.call("GET", "/api/v2/alerts/groups").body)
        seen = {each["labels"]["alertname"] for group in answer for each in group["alerts"]}
        found = {
            (group["receiver"]["name"], frozenset(each["labels"]["alertname"] for each in loud))
            for group in answer
            if (loud := [a for a in group["alerts"] if not a["status"]["inhibitedBy"] and a["labels"]["alertname"] in names])
            and loud[0]["labels"].get("namespace", "") == namespace
        }
        return found if names <= seen else set()

    return eventually(groups, WITHIN)


def test_the_pages_of_one_fault_of_a_server_are_one_notification(alertmanager: LoopbackEndpoint) -> None:
    together = [
        alert("SloBurnRate", "page", layer="request", model="defects", objective="availability", receiver="vision-oncall"),
        alert("RequestsUnanswered", "page", layer="request", model="defects"),
        alert("ModelServerRestarts", "page", layer="model-server", model="defects", pod="defects-r0123456789-1"),
        alert("ReplicasMissing", "page", layer="deployment", model="defects", deployment="defects-r0123456789"),
    ]
    assert (ONCALL, frozenset(each["labels"]["alertname"] for each in together)) in told(alertmanager, "vision", together)


def test_pages_of_two_services_are_two_notifications(alertmanager: LoopbackEndpoint) -> None:
    pages = [
        alert("ReplicasMissing", "page", layer="deployment", model="chat"),
        alert("ModelServerSilent", "page", layer="m", model="words"),
    ]
    assert told(alertmanager, "assist", pages) == {(ONCALL, frozenset({"ReplicasMissing"})), (ONCALL, frozenset({"ModelServerSilent"}))}


def test_a_page_does_not_hide_in_a_ticket(alertmanager: LoopbackEndpoint) -> None:
    both = [
        alert("RolloutStuck", "ticket", layer="deployment", model="embeddings"),
        alert("PodsUnschedulable", "page", layer="scheduler", model="embeddings"),
    ]
    found = told(alertmanager, "vision", both)
    assert {(ONCALL, frozenset({"PodsUnschedulable"})), (TICKETS, frozenset({"RolloutStuck"}))} <= found
    assert (TENANT, frozenset({"PodsUnschedulable"})) in found


def test_a_node_that_is_not_ready_is_not_told_to_lack_telemetry_as_well(alertmanager: LoopbackEndpoint) -> None:
    alerts = [
        alert("NodeNotReady", "page", layer="node", node="l4-0"),
        alert("GpuTelemetrySilent", "ticket", layer="gpu", node="l4-0"),
        alert("NodeUnderPressure", "ticket", layer="node", node="l4-0"),
    ]
    assert told(alertmanager, "", alerts) == {(ONCALL, frozenset({"NodeNotReady"})), (TICKETS, frozenset({"NodeUnderPressure"}))}


def test_telemetry_that_is_away_from_a_ready_node_is_told(alertmanager: LoopbackEndpoint) -> None:
    alerts = [alert("NodeNotReady", "page", layer="node", node="l4-1"), alert("GpuTelemetrySilent", "ticket", layer="gpu", node="l4-2")]
    assert (TICKETS, frozenset({"GpuTelemetrySilent"})) in told(alertmanager, "", alerts)
