"""Commands as pages print them, judged without running them: by the shell's grammar, and each program by what it takes.

`headway` and `pulumi` are judged by their own parsers, `aws` by AWS's service models, `make` by the Makefile, `python` and
`pytest` by this checkout's files, `kubectl` and `helm` by the verbs and options that are written down here. A program that
is not here is refused: whoever prints a new one says how it is judged.
"""

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import botocore.session
import typer
from typer.core import TyperGroup

from headway.cli.main import app
from pulumi_embedded.engine import arguments
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.verbs import VERBS

ROOT = Path(__file__).parents[1]

Judge = Callable[[Sequence[str]], str | None]
"""The words after the program's name to what is wrong with them."""

KUBECTL: Mapping[str, frozenset[str]] = {
    "apply": frozenset({"--force-conflicts", "--server-side", "-f"}),
    "cordon": frozenset(),
    "create": frozenset({"--from-literal", "--namespace", "--audience", "--duration", "--cert", "--key", "--dry-run", "-o"}),
    "debug": frozenset(),
    "delete": frozenset({"--field-selector"}),
    "describe": frozenset(),
    "get": frozenset({"-A", "-L", "-l", "-o", "--field-selector", "--raw"}),
    "logs": frozenset({"-c", "-l", "--all-containers", "--prefix", "--previous", "--tail"}),
    "patch": frozenset({"--type", "-p"}),
    "port-forward": frozenset({"--namespace"}),
    "replace": frozenset({"-f"}),
    "run": frozenset({"--image", "--restart", "--rm", "-it"}),
    "taint": frozenset(),
    "top": frozenset(),
    "uncordon": frozenset(),
}
"""Verb to the options that our pages use with it, from kubectl's reference (Kubernetes 1.35). `-n` goes with each."""
HELM: Mapping[str, frozenset[str]] = {
    "history": frozenset(),
    "list": frozenset({"-A", "--pending"}),
    "registry": frozenset({"-u", "--password-stdin"}),
    "rollback": frozenset(),
    "show": frozenset({"--repo", "--version"}),
    "uninstall": frozenset(),
}
"""Likewise, from Helm's reference (version 3)."""
NOT_JUDGED: Mapping[str, str] = {
    "checkov ": "a scanner that nobody here installs",
    "kube-score ": "a scanner that nobody here installs",
    "pulumi login": "the embedded engine's backend is a folder",
    "pulumi state unprotect": "the embedded engine edits no state",
    'pulumi stack change-secrets-provider "awskms': "the embedded engine has one kind of secrets",
}
"""Beginnings of commands that no dry run can judge, and why."""
AWS_CLI_ONLY: Mapping[str, frozenset[str]] = {
    "ecr get-login-password": frozenset(),
    "eks update-kubeconfig": frozenset({"--name"}),
    "s3 mb": frozenset(),
    "s3 rm": frozenset({"--recursive"}),
}
"""Commands that the AWS CLI adds to the services' own, with the options that our pages use (AWS CLI Command Reference)."""
AWS_CLI_GLOBAL = frozenset({"--output", "--profile", "--query", "--region"})
AWS_CLI_SERVICES = {"s3api": "s3"}
"""Names that the AWS CLI has of its own for a service."""
TAKEN = frozenset({"cat", "cd", "curl", "eval", "export", "grep", "jq", "mkdir", "pip", "pre-commit", "sed", "sort", "zcat"})
"""Programs and builtins that every machine has or this checkout installs; their words are the shell's affair."""


def wrong_in(line: str) -> str | None:
    """What is wrong with a command line; None where nothing is. Nothing is run."""
    text = re.sub(r"<[\w. -]+>", "WORD", line)
    parsed = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True, check=False)
    if parsed.returncode != 0:
        return parsed.stderr.strip()
    return next((said for part in _commands(text) if (said := _judged(part))), None)


def reason_not_judged(line: str) -> str | None:
    return next((why for start, why in NOT_JUDGED.items() if line.startswith(start)), None)


def _commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a line, those within `$(...)` too, as words without assignments and redirections."""
    for inner in re.findall(r"\$\((.+?)\)", text):
        yield from _commands(inner)
    lexer = shlex.shlex(re.sub(r"\$\((.+?)\)", "SAID", text), posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] = []
    skip = False
    for token in [*lexer, ";"]:
        if skip:
            skip = False
        elif set(token) <= set("|&;"):
            if words:
                yield words
            words = []
        elif set(token) <= set("<>"):
            skip = True
        elif words or not re.fullmatch(r"\w+=.*", token, re.DOTALL):
            words.append(token)


def _judged(words: Sequence[str]) -> str | None:
    program = words[0].removeprefix(".venv/bin/")
    if program in TAKEN:
        return None
    judge = _JUDGES.get(program)
    return judge(words[1:]) if judge else f"no dry run knows the program {program}"


# headway --------------------------------------------------------------------------------------------------------------------------


def headway(words: Sequence[str], *, complete: bool = False) -> str | None:
    """What the real parser says against the words; None where it takes them, or where they are the name of a command alone.

    `complete` is for who is woken: the name alone is not taken, nor is a command about an environment that does not say which.
    """
    rest = [{"...": "reason"}.get(word, word).strip("[]") for word in words]  # a page writes what may be left out in brackets
    here = typer.main.get_command(app)
    parent = here.make_context("headway", [], resilient_parsing=True)
    while isinstance(here, TyperGroup) and rest and not rest[0].startswith("-"):
        inner = here.get_command(parent, rest[0])
        if inner is None:
            return None if getattr(here, "invoke_without_command", False) else f"there is no command {rest[0]}"
        if isinstance(inner, TyperGroup):
            parent = inner.make_context(rest[0], [], parent=parent, resilient_parsing=True)
        here = inner
        rest.pop(0)
    if (not rest and not complete) or rest in (["--help"], ["-h"]):
        return None
    if here.name == "headway":  # an option of the program itself acts as soon as it is read, so it is not given to the parser
        taken = {word for option in here.params for word in option.opts}
        return None if set(rest) <= taken else f"No such option: {', '.join(rest)}"
    if (
        complete
        and any(option.name == "environment" and option.metavar == "NAME" for option in here.params)
        and not {"-e", "--environment"} & set(rest)
    ):
        return "it does not say which environment it means"
    try:
        here.make_context(here.name or "", rest, parent=parent)
    except Exception as problem:  # what the parser raises has no public name
        said = problem.format_message() if hasattr(problem, "format_message") else repr(problem)  # pyright: ignore
        return None if "does not exist" in said else said
    return None


# The others -----------------------------------------------------------------------------------------------------------------------


def _pulumi(words: Sequence[str]) -> str | None:
    try:
        arguments.parse(words, VERBS)
    except EngineError as error:
        return str(error)
    return None


def _make(words: Sequence[str]) -> str | None:
    targets = set(re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    unknown = [word for word in words if not word.startswith("-") and "=" not in word and word not in targets]
    return f"the Makefile has no {', '.join(unknown)}" if unknown else None


def _pytest(words: Sequence[str]) -> str | None:
    files = [word.partition("::")[0] for word in words if word.startswith("tests/")]
    missing = [file for file in files if not (ROOT / file).exists()]
    return f"there is no {', '.join(missing)}" if missing else None


def _python(words: Sequence[str]) -> str | None:
    """Whether the module or file is there, and names each option somewhere."""
    if words[0] == "-c":
        try:
            compile(words[1], "page", "exec")
        except SyntaxError as error:
            return str(error)
        return None
    name = words[1] if words[0] == "-m" else words[0]
    if name == "pytest":
        return _pytest(words[2:])
    path = ROOT / (name.replace(".", "/") if words[0] == "-m" else name)
    files = [*path.rglob("*.py")] if path.is_dir() else [path if path.suffix == ".py" else path.with_suffix(".py")]
    if not files or not all(file.is_file() for file in files):
        return f"there is no {name}"
    source = "".join(file.read_text(encoding="utf-8") for file in files)
    unknown = [word for word in words[2 if words[0] == "-m" else 1 :] if word.startswith("-") and word not in source]
    return f"{name} names no {', '.join(unknown)}" if unknown else None


def _by_verb(program: str, verbs: Mapping[str, frozenset[str]], words: Sequence[str]) -> str | None:
    rest = list(words)
    if rest[:1] == ["-n"]:
        del rest[:2]
    verb = rest[0] if rest else ""
    if verb not in verbs:
        return f"{program} {verb} is not among the verbs of our pages"
    own = rest[: rest.index("--")] if "--" in rest else rest
    unknown = [word for word in own if word.startswith("-") and word.partition("=")[0] not in {*verbs[verb], "-n", "-"}]
    return f"{program} {verb} is not known to take {', '.join(unknown)}" if unknown else None


@cache
def _aws_models() -> Any:
    return botocore.session.get_session().get_component("data_loader")


def _aws(words: Sequence[str]) -> str | None:
    """Whether the service has the operation and the operation the parameters, by the models that the AWS CLI itself is made from."""
    given = {word.partition("=")[0] for word in words if word.startswith("--")} - AWS_CLI_GLOBAL
    if (own := AWS_CLI_ONLY.get(" ".join(words[:2]))) is not None:
        return f"aws {' '.join(words[:2])} is not known to take {', '.join(sorted(given - own))}" if given - own else None
    service, operation = AWS_CLI_SERVICES.get(words[0], words[0]), words[1]
    if service not in _aws_models().list_available_services("service-2"):
        return f"AWS has no service {service}"
    model = _aws_models().load_service_model(service, "service-2")
    named = {_dashed(name): each for name, each in model["operations"].items()}
    if operation not in named:
        return f"{words[0]} has no operation {operation}"
    shape = named[operation].get("input", {}).get("shape")
    members = {f"--{_dashed(name)}" for name in (model["shapes"][shape]["members"] if shape else ())}
    return f"{words[0]} {operation} takes no {', '.join(sorted(given - members))}" if given - members else None


def _dashed(name: str) -> str:
    """A name of the API as the command line writes it: `ListObjectVersions` is `list-object-versions`."""
    return botocore.xform_name(name, "-")


_FILES: Mapping[str, Judge] = {"make": _make, "pytest": _pytest, "python": _python}
_VERBS: Mapping[str, Mapping[str, frozenset[str]]] = {"helm": HELM, "kubectl": KUBECTL}
_JUDGES: Mapping[str, Judge] = {
    "aws": _aws,
    "headway": headway,
    "pulumi": _pulumi,
    **_FILES,
    **{program: partial(_by_verb, program, verbs) for program, verbs in _VERBS.items()},
}
PROGRAMS = frozenset({*_JUDGES, "curl"})
"""Programs of which a span or a line that begins with one is a command, wherever it stands."""
