"""The executable, driven by the Automation API of another language, which nobody here has written: Go, with a program of its own inline.

It runs where `make test-engine` has built that client, `clients/go`, into `.venv-clients` of the checkout.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
CLIENT = ROOT.parents[2] / ".venv-clients" / "bin" / "go-client"
LOCAL = """
import pulumi
from engine.doubles import Thing

config = pulumi.Config()
Thing("a", value=config.require("value"))
pulumi.export("value", config.require("value"))
pulumi.export("password", config.require_secret("password"))
"""
PASSWORD = {"Value": "not-in-the-clear", "Secret": True}
REFUSED = {
    "env add": "`pulumi config env` is not supported",
    "env ls": "`pulumi config env` is not supported",
    "import": "`pulumi import` is not supported",
    "import file": "--import-file is not supported",
    "org": "`pulumi org` is not supported",
    "plan": "--save-plan is not supported",
    "plugin rm": "`pulumi plugin rm` is not supported",
    "rm with resources": "'dev' still has resources",
    "run program": "--run-program is not supported",
}


def said(tmp_path: Path) -> dict[str, Any]:
    project, path, backend = tmp_path / "project", tmp_path / "bin", tmp_path / "backend"
    for folder in (project, path, backend):
        folder.mkdir()
    (project / "Pulumi.yaml").write_text("name: local\nruntime: python\n")
    (project / "__main__.py").write_text(LOCAL)
    executable = path / "pulumi"
    executable.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m engine.executable "$@"\n')
    executable.chmod(0o755)
    done = subprocess.run(
        [CLIENT, project],
        env={
            **{key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")},
            "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
            "PULUMI_BACKEND_URL": backend.as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "pw",
            "PULUMI_HOME": str(tmp_path / "home"),
            "PYTHONPATH": str(ROOT),
            "WORLD": str(tmp_path / "world"),
        },
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "not-in-the-clear" not in "".join(file.read_text() for file in backend.rglob("*") if file.is_file())
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.timeout(1800)
@pytest.mark.needs("client of Go")
def test_the_automation_api_of_go_is_answered_or_refused_by_name(tmp_path: Path) -> None:
    answers = said(tmp_path)
    refused = {name: answer["refused"] for name, answer in answers.items() if isinstance(answer, dict) and "refused" in answer}
    assert refused.keys() == REFUSED.keys(), refused
    assert not [name for name, why in REFUSED.items() if why not in refused[name]]
    assert answers["missing"] and answers["twice"], "the client knows both cases by their words"
    assert answers["config"] == {
        "other:x": {"Value": "1", "Secret": False},
        "proj:dashes": {"Value": "--not-a-flag", "Secret": False},
        "proj:json": {"Value": '{"a":1}', "Secret": False},
        "proj:password": PASSWORD,
        "proj:shape": {"Value": '{"Replicas":3}', "Secret": False},
        "proj:value": {"Value": "7", "Secret": False},
    }
    assert answers["config left"] == 3
    assert answers["preview"] == answers["up"] == {"create": 4}
    assert answers["preview events"] == {"prelude": 1, "pre create": 4, "summary": 1}
    assert answers["up summary"] == {"kind": "update", "result": "succeeded", "message": '"first"', "version": 1, "end": True}
    assert answers["outputs"]["replicas"] == {"Value": 3, "Secret": False}
    assert answers["outputs"]["password"] == PASSWORD
    assert answers["again"] is True
    assert answers["replace"] == {"replace": 1, "same": 2, "update": 1}
    assert answers["exclude"] == {"same": 4}
    assert answers["refresh"] == answers["preview refresh"] == {"same": 2}
    assert answers["preview destroy"] == answers["destroy"] == {"delete": 4}
    assert answers["tag ls"] == {"owner": "vision"} and answers["tag get"] == "vision"
    assert answers["history"][-1] == "update succeeded not-in-the-clear"
    assert answers["export"] == {"version": 3, "resources": 5}
    assert answers["import state"] is True
    assert answers["secrets provider"] is True and answers["secrets provider back"] is True
    assert answers["info"] == {"name": "dev", "current": True, "resources": 5, "inProgress": False, "when": True}
    assert answers["plugins"] == ["mem resource 1.0.0"]
    assert answers["local up"] == {"create": 2} and answers["local destroy"] == {"delete": 2}
    assert answers["local outputs"] == {"password": PASSWORD, "value": {"Value": "7", "Secret": False}}
