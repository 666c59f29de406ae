"""Releases by the real command: real API server, real policy packs, the Automation API, real Prometheus. Nobody helps.

Callers, proxies and replicas are stood in for by counters that follow the live route (`release_service.py`). One sandbox for the file; the
tests follow each other, as releases do.
"""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from headway.contract.loader import load_tenant
from headway.contract.released import release_id
from headway.release.driver.api import Api
from headway.release.driver.cluster import ROUTES, SAFE_RELEASE, WATCHED_UNTIL, Cluster, route_of
from headway.release.evidence import queries
from headway.release.guard import Guard
from headway.release.ledger.ledger import Ledger
from headway.release.ledger.store import Folder
from sandbox.cluster.control_plane import Cluster as ControlPlane
from sandbox.cluster.processes import Supervisor
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout
from sandbox.monitoring.servers import folder_of
from sandbox.progress import Silent
from tests.cluster.command import SECONDS, Sandbox
from tests.cluster.conftest import eventually
from tests.cluster.release_service import Behaviour, Traffic, exported

PROJECT = Path(__file__).parents[2]
SERVICE = "vision/defects"
SPEED = "20"
"""A tick lasts three seconds, in which Prometheus scrapes three times."""
ROLLOUT = {
    "strategy": "canary",
    "mirror": {"share": "100%", "timeout": "45m"},
    "weights": ["25%"],
    "bake": "5m",
    "step_at_least": "3m",
    "baseline_arm": False,
    "classes": [{"name": "small", "body_up_to": "1Mi"}, {"name": "large"}],
}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]


@dataclass
class Bed:
    """A sandbox with requests."""

    sandbox: Sandbox
    api: Api
    traffic: Traffic
    bad: set[str] = field(default_factory=set)

    @property
    def ledger(self) -> Ledger:
        return Ledger(Folder(self.sandbox.layout.ledger), SERVICE, "test", lambda: datetime.now(UTC))

    def kinds(self) -> list[str]:
        return [event.kind for event in self.ledger.read() if not event.kind.startswith("lease")]

    def write(self, version: str) -> str:
        """A new version of the contract in the checkout; answers its release."""
        file = self.sandbox.project / "tenants" / "vision" / "defects.yaml"
        content: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        content["artifact"]["version"] = version
        content["rollout"] = ROLLOUT
        file.write_text(yaml.safe_dump(content), encoding="utf-8")
        found = load_tenant(file.parent).tenant("vision")
        assert found is not None
        return release_id(next(model for model in found.models if model.name == "defects"))

    def route(self) -> dict[str, int]:
        live = self.api.get(f"{ROUTES.format('vision')}/defects")
        assert live is not None
        return {key: weight for key, weight in route_of(live).weights.items() if weight}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    ensure_toolchain(Layout.of(PROJECT), Silent())
    sandbox = Sandbox(tmp_path_factory.mktemp("release"))
    try:
        code, output = sandbox.run("sandbox", "up", "--with", "monitoring")
        assert code == 0, output
        api = Api(str(sandbox.layout.kubeconfig))
        bad: set[str] = set()
        how = lambda release: Behaviour(slower=1.8 if release in bad else 1.0)  # noqa: E731
        with Traffic(Cluster(api, "vision", "defects"), how) as traffic, exported(traffic, "vision") as target:
            file = folder_of(sandbox.layout) / "targets" / "mesh.json"
            file.write_text(json.dumps([{"targets": [target], "labels": {"job": "mesh"}}]), encoding="utf-8")
            eventually(lambda: scrapes(sandbox) >= 10, within=120.0)  # some history, as every service in use has
            yield Bed(sandbox, api, traffic, bad)
    finally:
        sandbox.run("sandbox", "down")


def scrapes(sandbox: Sandbox) -> float:
    """How often Prometheus has looked at the service."""
    address = f"http://127.0.0.1:{Supervisor(sandbox.layout).port('prometheus')}"
    query = urlencode({"query": f"max(count_over_time({queries.REQUESTS}[5m]))"})
    with urlopen(f"{address}/api/v1/query?{query}", timeout=10) as answer:
        result = json.load(answer)["data"]["result"]
    return float(result[0]["value"][1]) if result else 0.0


def test_a_slower_version_is_rolled_back_unattended_and_no_user_met_it(bed: Bed) -> None:
    stable = next(iter(bed.route()))
    release = bed.write("2027.1.1")
    bed.bad.add(release)
    code, output = bed.sandbox.run("release", "start", SERVICE, "--speed", SPEED, "--reason", "half the size")
    assert code == 5, output
    assert "Requests are slower than tolerated" in output
    assert bed.route() == {stable: 100}
    assert not any(route.weights.get(release) for _, route in bed.traffic.log), "copies were enough to tell"
    after = [e for e in bed.ledger.read() if e.kind in ("shifted", "drained", "applied", "ended")][-4:]
    assert [e.kind for e in after] == ["shifted", "drained", "applied", "ended"]
    assert after[1].body["measured"], "Prometheus saw the last request to it"
    assert bed.sandbox.run("release", "verify", SERVICE)[0] == 0


def test_an_update_in_between_leaves_the_release_that_serves_and_says_how_to_start_the_next(bed: Bed) -> None:
    before = bed.route()
    bed.write("2027.1.2")
    code, output = bed.sandbox.run("sandbox", "up", "--with", "monitoring")
    assert code == 0, output
    assert f"headway release start {SERVICE}" in " ".join(output.split())
    assert bed.route() == before


def test_a_good_version_is_promoted_though_its_runner_was_killed_and_the_api_server_restarted(bed: Bed) -> None:
    release = bed.write("2027.1.2")
    first = bed.sandbox.begin("release", "start", SERVICE, "--speed", SPEED)
    first.until(r"Next: 25 % of requests")
    os.kill(first.pid, signal.SIGKILL)
    first.wait(SECONDS)
    assert bed.sandbox.run("release", "status", SERVICE)[0] == 6
    second = bed.sandbox.begin("release", "resume", SERVICE, "--output", "json")
    second.until(r'"event": "observed"')
    bed.sandbox.kill("kube-apiserver")
    ControlPlane(bed.sandbox.layout).start(Silent())
    code, output = second.end()
    assert code == 0, output
    assert json.loads(output.splitlines()[-1])["end"]["outcome"] == "promoted"
    assert bed.route() == {release: 100}
    assert {25, 100} <= {route.weights.get(release) for _, route in bed.traffic.log}


def test_what_became_of_it_can_be_read_and_proved(bed: Bed, tmp_path: Path) -> None:
    code, output = bed.sandbox.run("release", "verify", SERVICE, "--output", "json")
    assert (code, json.loads(output)["sound"]) == (0, True)
    assert json.loads(output)["decisions"] > 10
    assert bed.sandbox.run("release", "report", SERVICE, "--out", str(tmp_path / "report.html"))[0] == 0
    assert "<h1>Promoted</h1>" in (tmp_path / "report.html").read_text(encoding="utf-8")
    _, history = bed.sandbox.run("release", "history", SERVICE, "--output", "json")
    assert [one["outcome"] for one in json.loads(history)] == ["rolled back", "promoted"]


def test_after_a_promotion_an_update_changes_nothing(bed: Bed) -> None:
    before = bed.sandbox.objects("vision")
    bed.sandbox.run("sandbox", "up", "--with", "monitoring")
    assert bed.sandbox.objects("vision") == before


def test_a_release_that_nobody_watches_any_more_loses_its_traffic_to_the_guard(bed: Bed) -> None:
    """Runner and machine are gone; what is left is a route that gives something to an unproven release, and a time that has passed."""
    path = f"{ROUTES.format('vision')}/defects"
    live = bed.api.get(path)
    assert live is not None
    stable = next(iter(bed.route()))
    entry = next(r for r in live["spec"]["http"] if r["name"] == "weights")
    other = {**entry["route"][0], "weight": 10, "headers": {"response": {"set": {"x-model-release": "runproven"}}}}
    entry["route"] = [{**entry["route"][0], "weight": 90}, other]
    past = (datetime.now(UTC) - timedelta(seconds=5)).isoformat()
    notes = {WATCHED_UNTIL: past, SAFE_RELEASE: stable}
    body = {"metadata": {"annotations": notes}, "spec": {"http": live["spec"]["http"]}}
    bed.api.request("PATCH", path, {"fieldManager": "test"}, body, "application/merge-patch+json")
    Guard(bed.api, "vision", "test", lambda: datetime.now(UTC)).look()
    assert bed.route() == {stable: 100}
