"""`headway nodes` against an API server on loopback."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs

import pytest
import yaml
from typer.testing import CliRunner

from headway.cli.main import app
from headway.problem import Exit, UserError
from headway.wire import MODEL, NODE_HEALTH_IMAGE_KEY, NODE_HEALTH_POOLS_KEY, POOL, QUARANTINE, RELEASE, TENANT
from sandbox.layout import Layout
from tests.loopback import Handler, served

WAITING = {"state": "waiting", "by": "headway", "since": 1.0, "changed": 1.0, "attempts": 0, "held": False}
PROJECT = Path(__file__).parents[3]
GPUS = {"nvidia.com/gpu": "4"}


def node(name: str, *taints: str, **quarantine: Any) -> dict[str, Any]:
    status = {"capacity": GPUS, "allocatable": GPUS, "conditions": [{"type": "Ready", "status": "True"}]}
    kept = {QUARANTINE: json.dumps({**WAITING, **quarantine})} if quarantine else {}
    return {
        "metadata": {"name": name, "labels": {POOL: "l4"}, "annotations": kept},
        "spec": {"taints": [{"key": key} for key in taints]},
        "status": status,
    }


class Api(Handler):
    events: ClassVar[list[dict[str, Any]]] = []
    forbidden: ClassVar[bool] = False

    def do_GET(self) -> None:
        nodes = [
            node("l4-0"),
            node("l4-1", "node.kubernetes.io/unschedulable"),
            node("l4-2", QUARANTINE, reason="NvidiaXID48Error"),
            node("l4-3", QUARANTINE, reason="NvidiaXID79Error"),
            node("l4-4", QUARANTINE, reason="slow", held=True, by="person:me"),
        ]
        if "/events" in self.path and self.forbidden:
            self.reply(403, {"message": "events is forbidden"})
            return
        kinds = {"/nodes": nodes, "/events": self.events}
        self.reply(200, {"items": next((found for kind, found in kinds.items() if kind in self.path), []), "metadata": {}})


def event(name: str, message: str, minutes: float = 1.0, reason: str = "Watched") -> dict[str, Any]:
    when = (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")
    return {"involvedObject": {"kind": "Node", "name": name}, "reason": reason, "message": message, "lastTimestamp": when}


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Of the sandbox."""
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    file = Layout.of(PROJECT).kubeconfig
    file.parent.mkdir(parents=True, mode=0o700)
    with served(Api) as address:
        named = {"clusters": [{"name": "c", "cluster": {"server": address}}], "users": [{"name": "u", "user": {}}], "current-context": "x"}
        file.write_text(yaml.safe_dump({**named, "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}))
        yield file


def health(*words: str) -> dict[str, str]:
    found = json.loads(CliRunner().invoke(app, ["nodes", *words, "--output", "json"]).output)
    return {each["node"]: each["health"] for each in found}


def test_a_node_that_takes_no_new_pods_is_not_called_sound(kubeconfig: Path) -> None:
    found = health("--kubeconfig", str(kubeconfig))
    assert (found["l4-0"], found["l4-1"]) == ("sound", "cordoned")


def test_a_node_in_quarantine_says_what_it_waits_for(kubeconfig: Path) -> None:
    found = health("--kubeconfig", str(kubeconfig))
    assert [found[f"l4-{n}"] for n in (2, 3, 4)] == ["waiting for repair", "waiting for replacement", "waiting for a person"]


def test_what_node_health_watches_is_shown_before_any_quarantine(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [
        event("l4-0", "it is watched", minutes=2),
        event("l4-0", "older", minutes=9),
        event("l4-1", "it was", minutes=30),
        event("l4-2", "draining: slow", reason="Quarantine"),
    ]
    monkeypatch.setattr(Api, "events", said)
    answer = CliRunner().invoke(app, ["nodes", "--kubeconfig", str(kubeconfig), "--output", "json"])
    assert {each["node"]: each["notice"] for each in json.loads(answer.stdout) if each["notice"]} == {"l4-0": "it is watched"}
    (line,) = [each for each in CliRunner().invoke(app, ["nodes", "--kubeconfig", str(kubeconfig)]).output.splitlines() if "l4-0" in each]
    assert "sound" in line and "it is watched" in line


def test_who_may_not_list_events_still_sees_the_nodes(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Api, "forbidden", True)
    answer = CliRunner().invoke(app, ["nodes", "--kubeconfig", str(kubeconfig), "--output", "json"])
    assert answer.exit_code == Exit.OK and len(json.loads(answer.stdout)) == 5
    assert "what node health says of nodes cannot be read: " in answer.stderr


def test_nodes_are_those_of_the_environment_that_is_named(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    assert health("-e", "sandbox") == health("--kubeconfig", str(kubeconfig))


@pytest.mark.parametrize(
    "words",
    [("-e", "sandbox", "--kubeconfig", "x"), ("-e", "sandbox", "release", "l4-2"), ("--kubeconfig", "x", "quarantine", "l4-0", "-r", "y")],
    ids=["two clusters", "an environment", "a kubeconfig"],
)
def test_a_cluster_that_would_be_ignored_is_refused(kubeconfig: Path, words: tuple[str, ...]) -> None:
    refused = CliRunner().invoke(app, ["nodes", *words]).exception
    assert isinstance(refused, UserError) and refused.exit == Exit.USAGE


PATCHED: list[tuple[str, Any]] = []


class SlowApi(Handler):
    """Four nodes, on each a replica of one version."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.endswith("/nodes"):
            self.reply(200, {"items": [node(f"l4-{n}") for n in range(4)], "metadata": {}})
        elif path.endswith("/pods"):
            self.reply(200, {"items": [replica(n) for n in range(4)], "metadata": {}})
        elif path.endswith("/configmaps/node-health"):
            self.reply(200, {"data": {NODE_HEALTH_IMAGE_KEY: "dcgm", NODE_HEALTH_POOLS_KEY: "{}"}})
        else:
            self.reply(404, {"reason": "NotFound"})

    def do_POST(self) -> None:
        self.reply(201, {**self.given(), "metadata": {"resourceVersion": "1"}})

    def do_PUT(self) -> None:
        self.do_POST()

    def do_PATCH(self) -> None:
        PATCHED.append((self.path.partition("?")[0], self.given()))
        self.reply(200, {})

    def given(self) -> Any:
        return json.loads(self.body())


def replica(number: int) -> dict[str, Any]:
    labels = {TENANT: "vision", MODEL: "defects", RELEASE: "r1"}
    container = {"name": "server", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    metadata = {"namespace": "vision", "name": f"defects-{number}", "labels": labels}
    return {"metadata": metadata, "spec": {"nodeName": f"l4-{number}", "containers": [container]}, "status": {"phase": "Running"}}


class SlowPrometheus(Handler):
    """The replica on the first node takes 1.4 times as long as the others since ever."""

    def do_POST(self) -> None:
        asked = parse_qs(self.body().decode() + "&" + self.path.partition("?")[2])
        at, series = float(asked["time"][0]), []
        for number in range(4 if "nv_inference" in asked["query"][0] else 0):
            for name, rate in (("compute_infer_duration_us", 1.4e6 if number == 0 else 1e6), ("count", 400.0), ("exec_count", 100.0)):
                metric = {"__name__": f"nv_inference_{name}", "namespace": "vision", "pod": f"defects-{number}"}
                values = [[moment, str(rate * moment)] for moment in range(int(at) - 135, int(at), 15)]
                series.append({"metric": metric, "values": values})
        self.reply(200, {"status": "success", "data": {"resultType": "matrix", "result": series}})


def test_a_loop_sets_the_node_of_a_slow_replica_apart_with_its_numbers(tmp_path: Path) -> None:
    PATCHED.clear()
    with served(SlowApi) as address, served(SlowPrometheus) as prometheus:
        file = tmp_path / "kubeconfig"
        named = {"clusters": [{"name": "c", "cluster": {"server": address}}], "users": [{"name": "u", "user": {}}], "current-context": "x"}
        file.write_text(yaml.safe_dump({**named, "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}))
        words = ["nodes", "watch", "--once", "--prometheus", prometheus, "--kubeconfig", str(file)]
        said = CliRunner().invoke(app, words, catch_exceptions=False)
    assert PATCHED, said.output
    ((path, body),) = PATCHED
    reason = json.loads(body["metadata"]["annotations"][QUARANTINE])["reason"]
    assert (path, said.exit_code) == ("/api/v1/nodes/l4-0", Exit.OK)
    assert reason.startswith("SlowerThanSiblings: vision/defects-0 takes 1.40 times as long as its 3 siblings")
