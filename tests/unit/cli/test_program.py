"""The command as a program: its help, version, completion and examples, and what it loads before it answers."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from headway import VERSION
from headway.cli.catalogue import CATALOGUE, EXAMPLES
from headway.cli.completion import environment_names, services
from headway.cli.main import app
from tests import dry_runs

ROOT = Path(__file__).parents[3]
PROGRAM = str(Path(sys.executable).parent / "headway")


def leaves(words: str, command: Any, parent: Any) -> Iterator[tuple[str, Any]]:
    """Every command that runs, with its words."""
    if not isinstance(command, TyperGroup) or command.invoke_without_command:
        yield words, command
    if isinstance(command, TyperGroup):
        context = command.make_context(words, [], parent=parent, resilient_parsing=True)
        for name in command.list_commands(context):
            yield from leaves(f"{words} {name}".strip(), command.get_command(context, name), context)


ALL = dict(leaves("", typer.main.get_command(app), None))


def helped(*words: str) -> str:
    answer = CliRunner().invoke(app, [*words, "-h"])
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_help_lists_every_command_below_its_group() -> None:
    said = helped()
    assert all(f"  {name} " in said for name in [*CATALOGUE, "sandbox"])
    assert said.index("Contracts:") < said.index("  check ") < said.index("Releases:") < said.index("  release ")
    assert said.index("Operators") < said.index("  nodes ")
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize("words", sorted(ALL), ids=str)
def test_help_of_a_command_ends_with_examples_that_parse(words: str) -> None:
    assert words in EXAMPLES or words.startswith(("rehearse ", "sandbox "))
    said = helped(*words.split())
    examples = [line.strip() for line in said.partition("For example:")[2].splitlines() if line.strip()]
    assert examples, said
    assert {line: wrong for line in examples if (wrong := dry_runs.wrong_in(line))} == {}
    assert all(f"headway {words.replace('artifact describe', 'artifact')}" in line for line in examples)


def test_each_option_and_argument_is_explained_in_a_sentence() -> None:
    told = {f"{words} {each.name}": each.help or "" for words, command in ALL.items() for each in command.params}
    assert [name for name, text in told.items() if not re.match(r"[A-Z`].*[.!?]$", text, re.DOTALL)] == []


@pytest.mark.parametrize("group", ["new", "artifact", "release", "nodes", "loops", "verify", "sandbox", "incident", "certificate"])
def test_a_group_lists_its_commands_with_whole_sentences(group: str) -> None:
    commands = helped(group).partition("Commands:")[2].partition("For example:")[0]
    assert commands
    assert "..." not in commands


def test_an_example_names_the_environment_of_what_is_written() -> None:
    typed = [line.split()[1:] for lines in EXAMPLES.values() for line in lines if "release" in line.split()[1] and '"' not in line]
    assert {" ".join(words): said for words in typed if (said := dry_runs.headway(words, complete=True))} == {}


def test_a_misspelt_command_is_told_its_neighbour() -> None:
    answer = CliRunner().invoke(app, ["doctr"])
    assert answer.exit_code == 2
    assert "No such command 'doctr'. Did you mean 'doctor'?" in answer.stderr


def test_the_version_is_told() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"headway {VERSION}\n"


def test_usage_names_the_program_however_it_was_started() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "headway.cli.main", "release", "freeze"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "Usage: headway release freeze [OPTIONS]" in ended.stderr


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("bash", {"COMP_WORDS": "headway rel", "COMP_CWORD": "1"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "headway rel"}),
        ("fish", {"_TYPER_COMPLETE_ARGS": "headway rel", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)
def test_shells_are_told_how_a_word_goes_on(shell: str, words: dict[str, str]) -> None:
    environment = {**os.environ, "_HEADWAY_COMPLETE": f"complete_{shell}", **words}
    ended = subprocess.run([PROGRAM], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "release" in ended.stdout, ended.stderr


@pytest.mark.parametrize(
    ("typed", "goes_on"),
    [
        ("release status -e s", ["sandbox", "staging"]),
        ("check -e pr", ["prod"]),
        ("nodes -e pr", ["prod"]),
        ("release start vision/d", ["vision/defects"]),
        ("status vision/d", ["vision/defects"]),
        ("logs v", ["vision", "vision/defects", "vision/embeddings"]),
        ("policies image-by", ["image-by-digest"]),
        ("cost -s dev", ["dev-cluster", "dev-platform"]),
        ("doctor -s dev", ["dev-cluster"]),
        ("verify --only m", ["mig", "mesh"]),
        ("new model h", ["hello"]),
    ],
)
def test_shells_are_told_what_the_checkout_has(typed: str, goes_on: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    environment = {"_HEADWAY_COMPLETE": "complete_bash", "COMP_WORDS": f"headway {typed}", "COMP_CWORD": str(len(typed.split()))}
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(ROOT)
        for name, value in environment.items():
            patched.setenv(name, value)
        with pytest.raises(SystemExit):
            app([], prog_name="headway")
    assert capsys.readouterr().out.split() == goes_on


def test_shells_are_told_nothing_outside_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert environment_names("") == services("") == []


@pytest.mark.parametrize(
    ("words", "unneeded"),
    [
        (["--help"], {"pydantic", "yaml", "rich", "headway.cli.contracts", "headway.cli.release", "headway.environment.checkout"}),
        (
            ["check"],
            {
                "numpy",
                "kubernetes",
                "boto3",
                "pulumi",
                "rich.table",
                "headway.cli.contract_view",
                "headway.cli.doctor",
                "headway.cli.release",
            },
        ),
    ],
)
def test_a_command_loads_no_more_than_it_needs(words: list[str], unneeded: set[str]) -> None:
    code = (
        f"import json, sys; sys.argv = ['headway', *{words!r}]\n"
        "from headway.cli.main import main\n"
        "try:\n    main()\nfinally:\n    print(json.dumps(list(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert unneeded & set(json.loads(ended.stdout.splitlines()[-1])) == set()
