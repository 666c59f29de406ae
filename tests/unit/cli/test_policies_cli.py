"""`headway policies --output json`: what a script that reads it finds."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headway.cli.main import app
from policies.guardrails.registry import RULES

PAGE = (Path(__file__).parents[3] / "docs/reference/cli.md").read_text(encoding="utf-8")


DOCUMENTED = json.loads(PAGE.partition("```json\n")[2].partition("```")[0])
"""The object that the page shows."""


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    answer = CliRunner().invoke(app, ["policies", "--output", "json"])
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def test_every_rule_is_an_object_with_the_documented_keys(records: list[dict[str, Any]]) -> None:
    assert [record["id"] for record in records] == [rule.id for rule in RULES]
    assert {tuple(record) for record in records} == {tuple(DOCUMENTED)}


def test_an_exemption_is_an_object_with_the_documented_keys(records: list[dict[str, Any]]) -> None:
    exempted = [exemption for record in records for exemption in record["exemptions"]]
    assert {tuple(exemption) for exemption in exempted} == {tuple(DOCUMENTED["exemptions"][0])}
