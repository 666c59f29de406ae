"""Which environment a command means: `-e`, else HEADWAY_ENVIRONMENT, else the only one that the checkout has.

Where it has several, a command that only reads takes the sandbox, and one that writes is refused: what somebody did not say is not guessed.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from headway.cli.completion import environment_names
from headway.environment.checkout import ENVIRONMENT_VARIABLE, SANDBOX, environments, find
from headway.problem import Exit, UserError


def environment_option(help: str, metavar: str | None = None) -> Any:
    """`-e`, which the variable may say instead, and which shells complete."""
    return typer.Option(
        "--environment",
        "-e",
        envvar=ENVIRONMENT_VARIABLE,
        show_envvar=True,
        metavar=metavar,
        autocompletion=environment_names,
        help=help,
    )


EnvironmentOption = Annotated[str | None, environment_option("Which environment, such as prod.", "NAME")]


def to_read(told: str | None, project: Path | None) -> str:
    """The environment that is read from. Raises UserError where none is told, and the checkout has several without a sandbox."""
    return told or _only(project) or (SANDBOX if SANDBOX in _known(project) else _refused(project, "Nothing was read."))


def to_write(told: str | None, project: Path | None) -> str:
    """The environment that is written to; says so on standard error. Raises UserError where none is told, and the checkout has several."""
    chosen = named(told, project, "What it writes could reach the wrong one; nothing was done.")
    typer.echo(f"writing to environment {chosen}", err=True)
    return chosen


def named(told: str | None, project: Path | None, consequence: str = "Nothing was looked at.") -> str:
    """The environment that is told, or the only one. Raises UserError where the checkout has several."""
    return told or _only(project) or _refused(project, consequence)


def typed(context: typer.Context, environment: str | None) -> str | None:
    """The environment where it was typed; None where only the variable says it, for what one types counts before what is usual."""
    source = context.get_parameter_source("environment")
    return environment if source is not None and source.name == "COMMANDLINE" else None


def cluster_stack(context: typer.Context, environment: str | None, stack: str | None, project: Path | None) -> str:
    """The stack of a cluster layer, by its own name or by its environment's. Raises UserError where the two differ, and where none is told."""
    one = typed(context, environment)
    if stack and one and stack != f"{one}-cluster":
        raise UserError(
            f"--environment {one} and --stack {stack} name two environments.",
            "Nothing was looked at.",
            "Leave one of them out.",
            Exit.USAGE,
        )
    return stack or f"{named(environment, project)}-cluster"


def _known(project: Path | None) -> tuple[str, ...]:
    return environments(find(project))


def _only(project: Path | None) -> str | None:
    known = _known(project)
    return known[0] if len(known) == 1 else None


def _refused(project: Path | None, consequence: str) -> str:
    known = _known(project)
    if not known:
        raise UserError(
            "The checkout describes no environment.", "Nothing was done.", "Write stacks/Pulumi.NAME-cluster.yaml first.", Exit.USAGE
        )
    raise UserError(
        f"The command does not say which environment it means: the checkout has {', '.join(known)}.",
        consequence,
        f"Add `-e NAME` with one of them; `export {ENVIRONMENT_VARIABLE}=NAME` says it for every command but `nodes`.",
        Exit.USAGE,
    )
