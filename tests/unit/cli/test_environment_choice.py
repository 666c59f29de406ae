"""Which environment a command means: `-e`, else HEADWAY_ENVIRONMENT, else the only one; the sandbox for who only reads."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headway.cli.main import app
from headway.problem import Exit, UserError

SERVICE = "vision/defects"
WRITING = (
    ("release", "start", SERVICE),
    ("release", "resume", SERVICE),
    ("release", "freeze", SERVICE, "--reason", "x"),
    ("release", "promote", SERVICE, "--reason", "x"),
    ("release", "rollback", SERVICE, "--reason", "x"),
    ("release", "bind", SERVICE),
    ("release", "copy", "--to", "file:///nowhere"),
    ("release", "guard", "vision"),
    ("artifact", "push", ".", "vision/defects/1"),
    ("verify",),
    ("loops", "push", "--base", f"python:3@sha256:{'0' * 64}"),
)
READING = (("release", "status"), ("release", "history", SERVICE), ("release", "watch", SERVICE), ("verify", "show"))


@pytest.fixture(autouse=True)
def _nothing_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HEADWAY_SANDBOX_LEDGER", (tmp_path / "ledger").as_uri())
    for name in ("HEADWAY_ENVIRONMENT", "HEADWAY_LEDGER", "HEADWAY_PROMETHEUS"):
        monkeypatch.delenv(name, raising=False)


def checkout(folder: Path, *environments: str) -> Path:
    (folder / "stacks").mkdir(parents=True)
    (folder / "tenants" / "vision").mkdir(parents=True)
    (folder / "tenants" / "vision" / "defects.yaml").touch()
    (folder / "Pulumi.yaml").write_text("name: headway\n", encoding="utf-8")
    for name in environments:
        (folder / "stacks" / f"Pulumi.{name}-cluster.yaml").touch()
    return folder


def run(project: Path, *words: str, environment: str | None = None) -> Result:
    return CliRunner().invoke(app, [*words, "--project", str(project)], env={"HEADWAY_ENVIRONMENT": environment} if environment else {})


def refusal(result: Result) -> UserError:
    assert isinstance(result.exception, UserError), result.output
    return result.exception


@pytest.mark.parametrize("words", WRITING, ids=lambda words: "-".join(words[:2]))
def test_a_command_that_writes_is_refused_where_the_environment_is_not_told(words: tuple[str, ...], tmp_path: Path) -> None:
    error = refusal(run(checkout(tmp_path / "checkout", "prod", "sandbox"), *words))
    assert error.exit is Exit.USAGE
    assert error.fact == "The command does not say which environment it means: the checkout has prod, sandbox."
    assert "`export HEADWAY_ENVIRONMENT=NAME`" in error.remedy
    assert not (tmp_path / "ledger").exists()


@pytest.mark.parametrize("words", READING, ids=lambda words: "-".join(words[:2]))
def test_a_command_that_reads_takes_the_sandbox_where_none_is_told(words: tuple[str, ...], tmp_path: Path) -> None:
    result = run(checkout(tmp_path / "checkout", "prod", "sandbox"), *words)
    assert "which environment" not in str(result.exception)


def test_a_command_that_writes_takes_the_only_environment_and_says_so(tmp_path: Path) -> None:
    result = run(checkout(tmp_path / "checkout", "sandbox"), "release", "freeze", SERVICE, "--reason", "x")
    assert result.stderr == "writing to environment sandbox\n"
    assert refusal(result).fact == "No release of vision/defects is under way."


def test_the_environment_comes_from_the_variable_where_no_option_tells_it(tmp_path: Path) -> None:
    project = checkout(tmp_path / "checkout", "prod", "sandbox")
    words = ("release", "freeze", SERVICE, "--reason", "x")
    assert run(project, *words, environment="sandbox").stderr == "writing to environment sandbox\n"
    assert run(project, *words, "-e", "sandbox", environment="prod").stderr == "writing to environment sandbox\n"


def test_a_checkout_without_environments_is_told_to_describe_one(tmp_path: Path) -> None:
    assert refusal(run(checkout(tmp_path / "checkout"), "release", "status")).fact == "The checkout describes no environment."


@pytest.mark.parametrize("words", [("doctor", "--offline"), ("leftovers",)])
def test_commands_about_a_cluster_take_the_environment_as_all_others_do(words: tuple[str, ...], tmp_path: Path) -> None:
    project = checkout(tmp_path / "checkout", "dev", "prod")
    assert "which environment" in refusal(run(project, *words)).fact
    assert refusal(run(project, *words, "-e", "moon")).fact == "There is no environment moon."


def test_a_stack_that_is_typed_counts_before_the_variable() -> None:
    words = ["cost", "--stack", "dev-cluster", "--output", "json", "--project", str(Path(__file__).parents[3])]
    assert CliRunner().invoke(app, words, env={"HEADWAY_ENVIRONMENT": "prod"}).exit_code == 0
