"""`headway policies --output json`: what a script that reads it finds."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headway.cli.main import app
from headway.problem import UserError
from policies.guardrails.registry import RULES

PAGE = (Path(__file__).parents[3] / "docs/reference/cli.md").read_text(encoding="utf-8")


DOCUMENTED = json.loads(PAGE.partition("```json\n")[2].partition("```")[0])
"""The object that the page shows."""


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    answer = CliRunner().invoke(app, ["policies", "--output", "json"])
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


@pytest.mark.parametrize("rule", [rule.id for rule in RULES])
def test_a_rule_is_explained_with_its_reason_and_its_remedy(rule: str) -> None:
    (meant,) = [each for each in RULES if each.id == rule]
    said = CliRunner().invoke(app, ["policies", rule]).output
    assert said.startswith(f"{rule}: {meant.title}\n")
    assert f"  Why: {meant.rationale}\n" in said and f"  Remedy: {meant.remedy}\n" in said


def test_an_explained_rule_shows_what_it_refuses() -> None:
    said = CliRunner().invoke(app, ["policies", "image-by-digest"]).output
    assert '  Refused, for example: Deployment with spec.template.spec.containers[0].image: "nvcr.io/' in said
    assert "Deployment without spec.template.spec.nodeSelector\n" in CliRunner().invoke(app, ["policies", "gpu-pod-names-its-pool"]).output


def test_an_explained_rule_says_which_environments_set_it_otherwise() -> None:
    said = CliRunner().invoke(app, ["policies", "node-group-bounded"]).output
    assert "  Setting maxNodes (integer), default 32, in policies/config/<environment>.json\n" in said
    assert "  In dev: maxNodes 8\n" in said and "  In sandbox: maxNodes 6\n" in said
    assert "  In " not in CliRunner().invoke(app, ["policies", "image-by-digest"]).output


def test_one_rule_may_be_asked_for_by_programs() -> None:
    (found,) = json.loads(CliRunner().invoke(app, ["policies", "image-by-digest", "-o", "json"]).stdout)
    assert found["id"] == "image-by-digest"


def test_a_rule_that_is_not_there_is_told_its_neighbours() -> None:
    refused = CliRunner().invoke(app, ["policies", "image-by-digst"]).exception
    assert isinstance(refused, UserError)
    assert (refused.exit, refused.remedy) == (2, "Did you mean image-by-digest?")


def test_every_rule_is_an_object_with_the_documented_keys(records: list[dict[str, Any]]) -> None:
    assert [record["id"] for record in records] == [rule.id for rule in RULES]
    assert {tuple(record) for record in records} == {tuple(DOCUMENTED)}


def test_an_exemption_is_an_object_with_the_documented_keys(records: list[dict[str, Any]]) -> None:
    exempted = [exemption for record in records for exemption in record["exemptions"]]
    assert {tuple(exemption) for exemption in exempted} == {tuple(DOCUMENTED["exemptions"][0])}
