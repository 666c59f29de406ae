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
        ("rollback vision/defects", "No such command 'rollback'. Did you mean `headway release rollback`?", "`headway -h` says"),
        ("up", "No such command 'up'. Did you mean `headway sandbox up`?", "`headway -h` says"),
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


@pytest.mark.parametrize(
    "words",
    [
        ("check", ""),
        ("artifact", ""),
        ("status", "-e", ""),
        ("logs", "vision", "--pod", ""),
        ("release", "start", "vision/defects", "--reason", "", "-e", ""),
        ("release", "freeze", "vision/defects", "--reason", ""),
    ],
    ids=" ".join,
)
def test_an_empty_word_is_refused_and_means_neither_all_nor_here(typed: Typed, words: tuple[str, ...]) -> None:
    code, said = typed(*words)
    assert (code, said[-3]) == (Exit.USAGE, f"error: A word of the command is empty, after {words[-2]}.")


@pytest.mark.parametrize("option", ["--reason", "--commit"])
def test_a_release_may_begin_without_a_reason_or_a_commit_as_by_default(typed: Typed, option: str) -> None:
    _, said = typed("release", "start", "vision/defects", option, "", "--project", "/nonexistent")
    assert not any("is empty" in line for line in said)


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


REFUSED = [
    ("check tenants/vision/defect.yaml", "There is no tenants/vision/defect.yaml.", "Did you mean tenants/vision/defects.yaml?"),
    ("check .", f"{ROOT} is a checkout.", "Name its contracts: tenants."),
    (
        "new tenant cert-manager",
        "A tenant cannot be named cert-manager: the platform calls something of its own so.",
        "Choose another name.",
    ),
    (
        "new tenant kube-team",
        "A tenant cannot be named kube-team: it begins like a namespace of the platform.",
        "Choose a name that begins",
    ),
    ("diff --against nosuch", "git knows no revision nosuch.", "Run it inside the checkout"),
    ("diff --against=--output=/nonexistent", "git knows no revision --output=/nonexistent.", "Run it inside the checkout"),
    ("diff /usr", "/usr is in no git repository.", "Run it inside the checkout"),
    (
        "doctor --offline -e dev -s prod-cluster",
        "--environment dev and --stack prod-cluster name two environments.",
        "Leave one of them out.",
    ),
    ("leftovers -e dev -s prod-cluster", "--environment dev and --stack prod-cluster name two environments.", "Leave one of them out."),
    (
        "logs vision -e sandbox --since 1h --until 2h",
        "--until 2h is no later than --since 1h.",
        "Name a later end; spans are counted back from now.",
    ),
    ("diagnose vision/defects --at 2999-01-01T00:00:00Z", "--at 2999-01-01T00:00:00Z is still to come.", "Name a time that has passed."),
    (
        "release start vision/defects -e sandbox --speed nan",
        "Invalid value for '--speed': it should be greater",
        "`headway release start -h`",
    ),
    ("access prod -e dev", "prod and --environment dev name two.", "Leave one of them out."),
    ("cost -s prod-vision", "prod-vision is no layer whose costs are listed.", "Write --stack prod-cluster or prod-platform"),
    (f"status {'a' * 100_000}/b", f"'{'a' * 57}...' names no service.", "Write <tenant>/<model>"),
    (
        "verify -e sandbox --keep /nonexistent/kept.json",
        "/nonexistent/kept.json cannot be written.",
        "Name a file that you may write, in a folder that is there.",
    ),
    ("diagnose --alert /dev/zero", "/dev/zero is no notification of Alertmanager: more than", "Give the JSON that a webhook got."),
    ("sandbox up --with monitring", "The sandbox has no monitring to bring up.", "Choose from autoscaling"),
]


@pytest.mark.parametrize(("words", "fact", "remedy"), REFUSED, ids=[words[:60] for words, *_ in REFUSED])
def test_wrong_words_are_refused_before_anything_is_done(typed: Typed, words: str, fact: str, remedy: str) -> None:
    code, said = typed(*words.split())
    assert code == Exit.USAGE
    assert said[-3].startswith(f"error: {fact}")
    assert said[-1].startswith(f"  Remedy: {remedy}")


@pytest.mark.parametrize("words", ["nodes", "nodes check"])
def test_a_kubeconfig_that_is_not_there_is_told_by_its_path(typed: Typed, words: str) -> None:
    code, said = typed(*words.split(), "--kubeconfig", "/nonexistent")
    assert (code, said[-3]) == (Exit.ENVIRONMENT, "error: No cluster is named: there is no kubeconfig /nonexistent.")


@pytest.mark.parametrize("words", [("access", "prod"), ("access", "-e", "prod")], ids=" ".join)
def test_who_may_what_takes_the_environment_as_every_command_does(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr("headway.cli.program.told_by", lambda *asked, **_: {"roles": [], "bootstrap": list(map(str, asked[2:]))})
    assert typed(*words, "--bootstrap")[0] == 0


def test_a_check_says_which_environment_the_variable_names(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("HEADWAY_ENVIRONMENT", "sandbox")
    monkeypatch.setattr("sys.argv", ["headway", "check", "tenants/vision"])
    with pytest.raises(SystemExit):
        main.main()
    assert "for environment sandbox, which HEADWAY_ENVIRONMENT names" in capsys.readouterr().err


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


@pytest.mark.parametrize("words", [["policies"], ["mirror"], ["-h"]], ids=" ".join)
def test_output_that_nobody_reads_is_no_refusal(words: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [sys.executable, "-m", "headway.cli.main", *words], cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (Exit.UNREAD, "")
