"""`headway golden`: what somebody sends to a model that has just come up."""

import json
from pathlib import Path

from typer.testing import CliRunner

from headway.cli.main import app
from headway.problem import Exit, UserError

TENANTS = Path(__file__).parents[3] / "tenants"
DIGITS = str(TENANTS / "hello/digits.yaml")


def refusal(*arguments: str) -> UserError:
    found = CliRunner().invoke(app, ["golden", *arguments]).exception
    assert isinstance(found, UserError), found
    return found


def test_the_first_golden_request_is_printed_unless_another_is_named() -> None:
    said = json.loads(CliRunner().invoke(app, ["golden", DIGITS]).stdout)
    assert (said["inputs"][0]["name"], len(said["inputs"][0]["data"])) == ("Input3", 28 * 28)
    assert json.loads(CliRunner().invoke(app, ["golden", DIGITS, "--name", "a-one"]).stdout) == said


def test_a_name_that_the_contract_does_not_have_is_refused() -> None:
    said = refusal(DIGITS, "--name", "a-two")
    assert (said.exit, said.remedy) == (Exit.USAGE, "Use one of a-one.")


def test_a_request_that_is_a_file_of_the_artifact_is_named() -> None:
    assert "golden/scratch.json, golden/clean.json" in refusal(str(TENANTS / "vision/defects.yaml")).remedy


def test_a_refused_contract_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    contract = tmp_path / "defects.yaml"
    assert refusal(str(contract)).exit == Exit.USAGE
    contract.write_text("contract: model/v1\n")
    assert refusal(str(contract)).exit == Exit.REFUSED
