"""`headway nodes` against an API server on loopback."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from headway.cli.main import app
from headway.problem import Exit, UserError
from headway.wire import POOL, QUARANTINE
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
    def do_GET(self) -> None:
        nodes = [
            node("l4-0"),
            node("l4-1", "node.kubernetes.io/unschedulable"),
            node("l4-2", QUARANTINE, reason="NvidiaXID48Error"),
            node("l4-3", QUARANTINE, reason="NvidiaXID79Error"),
            node("l4-4", QUARANTINE, reason="slow", held=True, by="person:me"),
        ]
        self.reply(200, {"items": nodes if "/nodes" in self.path else [], "metadata": {}})


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
