"""What stands in the cluster is what Prometheus evaluates and Alertmanager tells: through the real API server, to the named receiver."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.observability import routes
from components.observability.manifests import platform_manifests, tenant_manifests
from headway.contract.model import Model
from sandbox.cluster.toolchain import Toolchain, ensure_toolchain
from sandbox.layout import Layout
from sandbox.monitoring import follower, objects, servers
from sandbox.monitoring.servers import Monitoring
from sandbox.progress import Silent
from tests.cluster.conftest import PROJECT, ControlPlane, eventually
from tests.cluster.definitions import define
from tests.components.contracts import DEFECTS, EMBEDDINGS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MODELS = (Model.model_validate(DEFECTS), Model.model_validate(EMBEDDINGS))
PLATFORM, TENANT = "monitoring/platform", "vision/alerts"
WITHIN = 120.0


@pytest.fixture(scope="module")
def alertmanager_yml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = routes.tenant_routes("vision", MODELS)
    assert found is not None
    whole, refused = objects.alerting([routes.platform_routes(), found], "monitoring", "http://127.0.0.1:9")
    assert not refused
    path = tmp_path_factory.mktemp("alertmanager") / "alertmanager.yml"
    path.write_text(yaml.safe_dump(whole))
    return path


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    return ensure_toolchain(Layout.of(PROJECT), Silent(), servers.TOOL_SETS)


def told(toolchain: Toolchain, config: Path, **labels: str) -> list[str]:
    """Receivers that Alertmanager would tell of an alert with these labels."""
    command = [str(toolchain.binary("amtool")), "config", "routes", "test", f"--config.file={config}"]
    done = subprocess.run([*command, *(f"{k}={v}" for k, v in labels.items())], capture_output=True, text=True, check=True)
    return sorted(done.stdout.strip().split(","))


def test_a_models_page_reaches_its_own_people_and_the_platforms(toolchain: Toolchain, alertmanager_yml: Path) -> None:
    labels = {"namespace": "vision", "model": "defects", "receiver": "vision-oncall", "severity": "page"}
    assert told(toolchain, alertmanager_yml, **labels) == [f"{PLATFORM}/platform-oncall", f"{TENANT}/vision-oncall"]


def test_an_alert_on_a_tenants_namespace_without_a_contract_reaches_the_tenant(toolchain: Toolchain, alertmanager_yml: Path) -> None:
    labels = {"alertname": "PodsUnschedulable", "namespace": "vision", "severity": "ticket"}
    assert told(toolchain, alertmanager_yml, **labels) == [f"{PLATFORM}/platform-tickets", f"{TENANT}/vision-oncall"]


def test_another_tenants_alert_never_reaches_this_one(toolchain: Toolchain, alertmanager_yml: Path) -> None:
    labels = {"namespace": "assist", "receiver": "vision-oncall", "severity": "page"}
    assert told(toolchain, alertmanager_yml, **labels) == [f"{PLATFORM}/platform-oncall"]


def test_the_heartbeat_reaches_its_receiver_alone(toolchain: Toolchain, alertmanager_yml: Path) -> None:
    assert told(toolchain, alertmanager_yml, alertname="Watchdog", severity="heartbeat") == [f"{PLATFORM}/heartbeat"]


@pytest.fixture(scope="module")
def followed(control_plane: ControlPlane) -> Iterator[tuple[ControlPlane, Monitoring]]:
    layout, progress = control_plane.layout, Silent()
    define(control_plane, "prometheus-operator")
    for name in ("monitoring", "vision"):
        control_plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    _create(control_plane)
    running = servers.start(layout, progress)
    follower.start(layout, progress)
    yield control_plane, running


def _create(control_plane: ControlPlane) -> None:
    """Store every object of the platform and of a tenant."""
    bodies = [manifest.body for manifest in platform_manifests("docs/runbooks", environment="prod", diagnosed=True)]
    bodies += [body for _, body in tenant_manifests("vision", MODELS)]
    for body in bodies:
        control_plane.client.resources.get(api_version=body["apiVersion"], kind=body["kind"]).server_side_apply(
            body=dict(body), name=body["metadata"]["name"], namespace=body["metadata"]["namespace"], field_manager="test"
        )


def notifications(running: Monitoring) -> list[dict[str, Any]]:
    path = running.folder / follower.NOTIFICATIONS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_rules_in_the_cluster_are_evaluated_and_the_heartbeat_arrives(followed: tuple[ControlPlane, Monitoring]) -> None:
    _, running = followed
    eventually(lambda: running.query('ALERTS{alertname="Watchdog",alertstate="firing"}'), WITHIN)
    heard = eventually(lambda: [n for n in notifications(running) if n["receiver"] == f"{PLATFORM}/heartbeat"], WITHIN)
    assert [alert["labels"]["alertname"] for alert in heard[0]["alerts"]] == ["Watchdog"]


def test_a_rule_that_is_deleted_is_evaluated_no_more(followed: tuple[ControlPlane, Monitoring]) -> None:
    control_plane, running = followed
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "brief", "namespace": "vision"},
        "spec": {"groups": [{"name": "g", "interval": "1s", "rules": [{"record": "brief:one", "expr": "vector(1)"}]}]},
    }
    control_plane.create(rule)
    eventually(lambda: running.query("brief:one"), WITHIN)
    control_plane.resource(rule).delete(name="brief", namespace="vision")
    eventually(lambda: not running.query("brief:one"), WITHIN)
