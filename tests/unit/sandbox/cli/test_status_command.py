"""`headway sandbox status` where nothing runs."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.problem import UserError
from sandbox.cli.commands import app

ROOT = Path(__file__).parents[4]


def test_a_stopped_sandbox_is_an_error_and_no_empty_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path))
    answer = CliRunner().invoke(app, ["status", "--project", str(ROOT)])
    assert isinstance(answer.exception, UserError), answer.output
    assert answer.exception.fact == "The sandbox is not running."
    assert answer.stdout == ""
