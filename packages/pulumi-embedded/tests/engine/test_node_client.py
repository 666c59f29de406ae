"""The executable, driven by the Automation API of another language, which nobody here has written: Node.js, from npm.

It runs where `make test-engine` has put that client, `clients/node`, with Node.js: in `.venv-clients` of the checkout.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CLIENTS = ROOT.parents[2] / ".venv-clients"
PROGRAM = """
import pulumi
from engine.doubles import Thing

config = pulumi.Config()
Thing("a", value=config.require("value"))
pulumi.export("value", config.require("value"))
pulumi.export("password", config.require_secret("password"))
"""


@pytest.mark.timeout(300)
@pytest.mark.needs("client of Node")
def test_the_automation_api_of_node_creates_updates_lists_and_destroys(tmp_path: Path) -> None:
    project, path = tmp_path / "project", tmp_path / "bin"
    project.mkdir()
    path.mkdir()
    (project / "Pulumi.yaml").write_text("name: proj\nruntime: python\n")
    (project / "__main__.py").write_text(PROGRAM)
    executable = path / "pulumi"
    executable.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m engine.executable "$@"\n')
    executable.chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
    done = subprocess.run(
        [CLIENTS / "bin" / "node", Path(__file__).with_name("clients") / "node" / "client.cjs", project],
        env={
            **kept,
            "NODE_PATH": str(CLIENTS / "node_modules"),
            "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
            "PULUMI_BACKEND_URL": (tmp_path / "backend").as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "pw",
            "PULUMI_HOME": str(tmp_path / "home"),
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["missing"] == "StackNotFoundError"
    assert said["config"]["proj:value"] == {"value": "7", "secret": False}
    assert said["config"]["proj:password"] == {"value": "not-in-the-clear", "secret": True}
    assert said["planned"] == said["created"] == {"create": 2}
    assert said["steps"] == 2
    assert said["outputs"] == {
        "password": {"value": "not-in-the-clear", "secret": True},
        "value": {"value": "7", "secret": False},
    }
    assert said["again"] == {"same": 2}
    assert said["history"] == ["update succeeded", "update succeeded"]
    assert said["stacks"] == ["node"] and said["user"]
    assert said["exported"] == 3
    assert said["destroyed"] == {"delete": 2}
    assert said["left"] == 0
