"""What people type by mistake: each ends with a fact, its consequence, a remedy and the documented exit code."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from headway.cli import main
from headway.problem import Exit

ROOT = Path(__file__).parents[3]
Typed = Callable[..., tuple[object, list[str]]]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    def run(*words: str) -> tuple[object, list[str]]:
        monkeypatch.chdir(ROOT)
        monkeypatch.delenv("HEADWAY_ENVIRONMENT", raising=False)
        monkeypatch.setattr("sys.argv", ["headway", *words])
        with pytest.raises(SystemExit) as ended:
            main.main()
        return ended.value.code, [line for line in capsys.readouterr().err.splitlines() if not line.startswith("warning:")]

    return run


@pytest.mark.parametrize(
    ("words", "fact", "remedy"),
    [
        ("chek", "No such command 'chek'. Did you mean 'check', 'schema'?", "`headway -h` says what it takes."),
        ("release strt", "No such command 'strt'. Did you mean 'start', 'status'?", "`headway release -h` says what it takes."),
        ("check --explian", "No such option: --explian (Possible options: --explain).", "`headway check -h` says what it takes."),
        ("check -o yml", "Invalid value for '--output' / '-o': 'yml' is not one of 'text', 'json', 'sarif'.", "`headway check -h`"),
        ("logs vision -n 0", "Invalid value for '--lines' / '-n': it should be greater than or equal to 1.", "`headway logs -h`"),
        ("logs", "Missing argument 'TENANT[/MODEL]'.", "`headway logs -h` says what it takes."),
        ("check -e", "Option '-e' requires an argument.", "`headway COMMAND -h` says what it takes."),
    ],
)
def test_what_the_parser_refuses_has_the_form_of_all_refusals(typed: Typed, words: str, fact: str, remedy: str) -> None:
    code, said = typed(*words.split())
    assert code == Exit.USAGE
    assert said[-3:-1] == [f"error: {fact}", "  Nothing was done."]
    assert said[-1].startswith(f"  Remedy: {remedy}")


def test_a_group_without_a_command_shows_its_help_alone(typed: Typed) -> None:
    code, said = typed("release")
    assert code == Exit.USAGE
    assert said[0].startswith("Usage: headway release")
    assert not any("error" in line for line in said)


@pytest.mark.parametrize("words", [("check", ""), ("artifact", ""), ("status", "-e", ""), ("logs", "vision", "--pod", "")], ids=" ".join)
def test_an_empty_word_is_refused_and_means_neither_all_nor_here(typed: Typed, words: tuple[str, ...]) -> None:
    code, said = typed(*words)
    assert (code, said[-3]) == (Exit.USAGE, f"error: A word of the command is empty, after {words[-2]}.")


@pytest.mark.parametrize(("because", "code"), [(KeyboardInterrupt(), Exit.INTERRUPTED), (EOFError(), Exit.USAGE)])
def test_a_question_that_nobody_answers_does_nothing(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, because: BaseException, code: Exit
) -> None:
    def asked(*_: object, **__: object) -> None:
        try:
            raise because
        except (KeyboardInterrupt, EOFError):
            raise typer.Abort from None

    monkeypatch.setattr("headway.cli.main.app", asked)
    ended, said = typed("sandbox", "reset")
    assert ended == code
    assert [line for line in said if "question" in line] == (["error: Nobody answered the question."] if code == Exit.USAGE else [])


def test_a_missing_file_is_told_to_be_named_rightly(typed: Typed) -> None:
    code, said = typed("certificate", "check", "/nonexistent", "-e", "prod")
    assert code == Exit.ENVIRONMENT
    assert "name what is there" in said[-1]


def test_ctrl_c_while_the_program_is_loaded_leaves_no_traceback() -> None:
    code = (
        "import builtins, sys\nreal = builtins.__import__\n"
        "def stopped(name, *rest):\n"
        "    if name == 'typer': raise KeyboardInterrupt\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = stopped\nfrom headway.cli.beginning import main\nmain()"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert (ended.returncode, ended.stderr) == (Exit.INTERRUPTED, "")
