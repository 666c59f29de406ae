"""`headway access`: who may assume which role of an environment, from its stack file alone."""

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from headway.cli.main import app
from headway.problem import Exit, UserError

PROJECT = Path(__file__).parents[3]


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["access", *arguments, "--project", str(PROJECT)])


def block(said: str, role: str) -> str:
    """What is said of one role: its line and the indented ones below it."""
    first, *below = said[said.index(f"{role}: ") :].splitlines()
    end = next((number for number, line in enumerate(below) if not line.startswith(" ")), len(below))
    return "\n".join([first, *below[:end]])


def test_each_role_is_shown_with_who_may_assume_it_and_where_its_state_lies() -> None:
    deployer = block(asked("prod").output, "vision deployer")
    assert "role/headway-prod/access/headway-prod-vision-deployer" in deployer
    assert "assumed by  repo:example@100001/vision@200003:environment:prod" in deployer
    assert "/prod/vision, secrets awskms://" in deployer


def test_a_viewer_has_no_state() -> None:
    assert "state " not in block(asked("prod").output, "vision viewer")


def test_programs_read_the_whole_documents() -> None:
    found = json.loads(asked("prod", "--output", "json").output)
    assert {role["layer"] for role in found["roles"]} == {"assist", "cluster", "platform", "vision"}
    assert all(role["trust"]["Statement"] and role["policies"] for role in found["roles"])


def test_the_policy_of_who_applies_the_layer_first_is_printed_alone() -> None:
    assert json.loads(asked("prod", "--bootstrap").output)["Statement"]


def test_an_environment_without_an_access_layer_is_refused_with_its_file() -> None:
    refused = asked("dev").exception
    assert isinstance(refused, UserError)
    assert (refused.exit, "stacks/Pulumi.dev-access.yaml" in str(refused)) == (Exit.USAGE, True)
