"""Commands that a refusal proposes mean the environment of the command that was refused."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headway.cli.main import app
from headway.problem import UserError

PROJECT = Path(__file__).parents[3]
CHAIN = "vision/defects"


@pytest.fixture(autouse=True)
def holed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A ledger in which an event is no event."""
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path))
    monkeypatch.delenv("HEADWAY_ENVIRONMENT", raising=False)
    event = tmp_path / "ledger" / CHAIN / "events" / "00000000.json"
    event.parent.mkdir(parents=True)
    event.write_text("{}")


def history(*more: str) -> Result:
    return CliRunner().invoke(app, ["release", "history", CHAIN, "--project", str(PROJECT), *more])


def remedy(result: Result) -> str:
    assert isinstance(result.exception, UserError), result.output
    return result.exception.problems[0].remedy


@pytest.mark.parametrize("told", [("-e", "sandbox"), ("--environment", "sandbox")])
def test_a_proposed_command_names_the_environment_that_was_told(told: tuple[str, str]) -> None:
    assert f"`headway release verify {CHAIN} -e sandbox`" in remedy(history(*told))


def test_a_proposed_command_names_the_environment_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_ENVIRONMENT", "sandbox")
    assert f"`headway release verify {CHAIN} -e sandbox`" in remedy(history())


def test_where_no_environment_was_told_none_is_proposed() -> None:
    assert f"`headway release verify {CHAIN}`" in remedy(history())


def test_what_was_refused_keeps_its_exit_code() -> None:
    told, untold = history("-e", "sandbox").exception, history().exception
    assert isinstance(told, UserError)
    assert isinstance(untold, UserError)
    assert told.exit is untold.exit
    assert told.fact == untold.fact


@pytest.mark.parametrize(
    ("said", "proposed"),
    [
        ("Run `headway release verify`.", "Run `headway release verify -e prod`."),
        (
            "`headway evaluate a/b` and `headway drift a/b --anew`.",
            "`headway evaluate a/b -e prod` and `headway drift a/b --anew -e prod`.",
        ),
        ("`headway release resume a/b -e staging` goes on.", "`headway release resume a/b -e staging` goes on."),
        ("`headway status --environment staging` goes on.", "`headway status --environment staging` goes on."),
        ("Describe it: `headway artifact FOLDER`.", "Describe it: `headway artifact FOLDER`."),
        ("Write `--reason`, see `headway -h`.", "Write `--reason`, see `headway -h`."),
        ("`headway sandbox up` starts it; `headway nowhere` is none.", "`headway sandbox up` starts it; `headway nowhere` is none."),
    ],
)
def test_only_commands_that_know_environments_are_given_one(said: str, proposed: str) -> None:
    from headway.cli.proposed_commands import naming

    assert naming(said, "prod") == proposed
