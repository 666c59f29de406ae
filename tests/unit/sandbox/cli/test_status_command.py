"""What commands of the sandbox say where nothing runs, was declined, or was stopped."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from headway.environment.stacks import StackResult, Violation
from headway.problem import UserError
from sandbox.cli import show
from sandbox.cli.commands import app
from sandbox.deploy import LayerResult
from sandbox.plan import Layer
from sandbox.session import Report

ROOT = Path(__file__).parents[4]


def test_the_variables_of_the_sandbox_name_it_as_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path / "home"))
    said = CliRunner().invoke(app, ["env", "--project", str(ROOT)]).stdout
    assert "export HEADWAY_ENVIRONMENT=sandbox\n" in said


def test_a_reset_that_is_declined_says_that_nothing_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path))
    (tmp_path / "kept").touch()
    answer = CliRunner().invoke(app, ["reset", "--project", str(ROOT)], input="n\n")
    assert answer.stdout.endswith("Nothing was deleted.\n")
    assert (tmp_path / "kept").exists()


def test_an_update_that_was_stopped_ends_with_who_stopped_it(capsys: pytest.CaptureFixture[str]) -> None:
    def layer(stack: str, *, ok: bool) -> LayerResult:
        return LayerResult(layer=Layer(stack=stack, packs=()), planned=StackResult(stack=stack, operation="preview", ok=ok))

    show.stopped(Console(width=200), Report(layers=(layer("sandbox-platform", ok=False), layer("sandbox-vision", ok=True)), complete=False))
    said = capsys.readouterr().out
    assert said.startswith("Stopped by sandbox-platform: see above. Nothing was deployed;")


def test_a_refusal_by_a_policy_leads_to_the_rule(capsys: pytest.CaptureFixture[str]) -> None:
    breach = Violation(pack="headway-cluster", policy="node-group-bounded", level="mandatory", message="too many", resource="l4-a")
    refused = StackResult(stack="sandbox-cluster", operation="preview", ok=False, violations=(breach, replace(breach, resource="l4-b")))
    result = LayerResult(layer=Layer(stack="sandbox-cluster", packs=()), planned=refused)
    show.stopped(Console(width=200), Report(layers=(result,), complete=False))
    assert capsys.readouterr().out.count("`headway policies node-group-bounded` says what the rule is for") == 1


def test_a_stopped_sandbox_is_an_error_and_no_empty_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path))
    answer = CliRunner().invoke(app, ["status", "--project", str(ROOT)])
    assert isinstance(answer.exception, UserError), answer.output
    assert answer.exception.fact == "The sandbox is not running."
    assert answer.stdout == ""
