"""`headway nodes` against an API server on loopback."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from headway.cli.main import app
from headway.wire import POOL
from tests.loopback import Handler, served

GPUS = {"nvidia.com/gpu": "4"}


def node(name: str, *taints: str) -> dict[str, Any]:
    status = {"capacity": GPUS, "allocatable": GPUS, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": {POOL: "l4"}}, "spec": {"taints": [{"key": key} for key in taints]}, "status": status}


class Api(Handler):
    def do_GET(self) -> None:
        nodes = [node("l4-0"), node("l4-1", "node.kubernetes.io/unschedulable")]
        self.reply(200, {"items": nodes if "/nodes" in self.path else [], "metadata": {}})


@pytest.fixture
def said(tmp_path: Path) -> str:
    with served(Api) as address:
        file = tmp_path / "kubeconfig"
        named = {"clusters": [{"name": "c", "cluster": {"server": address}}], "users": [{"name": "u", "user": {}}], "current-context": "x"}
        file.write_text(yaml.safe_dump({**named, "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}))
        return CliRunner().invoke(app, ["nodes", "--kubeconfig", str(file)]).output


def test_a_node_that_takes_no_new_pods_is_not_called_sound(said: str) -> None:
    rows = {words[0]: words[2] for line in said.splitlines() if (words := line.split())}
    assert (rows["l4-0"], rows["l4-1"]) == ("sound", "cordoned")
