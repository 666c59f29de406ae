"""`headway rehearse FAULT`: break the demonstration, and find out why as on-call would."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.catalogue import for_example
from headway.problem import Exit, UserError
from sandbox.rehearsal.catalogue import FAULTS

if TYPE_CHECKING:
    from sandbox.layout import Layout

SURPRISE, UNDO = "surprise", "undo"

app = typer.Typer(
    short_help="break the running demonstration, and find out why",
    help="Break the running demonstration for whoever is on call, say afterwards what was true, and put everything back.",
    no_args_is_help=True,
)
EnvironmentOption = Annotated[
    str | None,
    typer.Option("--environment", "-e", envvar="HEADWAY_ENVIRONMENT", show_envvar=True, metavar="NAME", help="Only the sandbox is taken."),
]
MinutesOption = Annotated[float, typer.Option("--minutes", min=0.1, max=120, help="How long it stays in, if nobody ends it before.")]
ProjectOption = Annotated[
    Path | None, typer.Option("--project", help="The checkout whose demonstration is meant; found from the working folder otherwise.")
]


def _command(name: str) -> Callable[..., None]:
    def run(environment: EnvironmentOption = None, minutes: MinutesOption = 15.0, project: ProjectOption = None) -> None:
        _rehearse(name, environment, minutes, project)

    run.__doc__ = f"{FAULTS[name].breaks[0].upper()}{FAULTS[name].breaks[1:]}."
    return run


for _name in FAULTS:
    app.command(_name, epilog=for_example(f"headway rehearse {_name} -e sandbox"))(_command(_name))


@app.command(SURPRISE, epilog=for_example("headway rehearse surprise -e sandbox"))
def surprise(environment: EnvironmentOption = None, minutes: MinutesOption = 15.0, project: ProjectOption = None) -> None:
    """One of them, and only the end says which. None comes twice before all have come."""
    _rehearse(None, environment, minutes, project)


@app.command(UNDO, epilog=for_example("headway rehearse undo -e sandbox"))
def undo(environment: EnvironmentOption = None, project: ProjectOption = None) -> None:
    """Take out what a rehearsal that was killed has left."""
    from sandbox.rehearsal import rehearsal
    from sandbox.rehearsal.bed import RehearsalBed

    name = rehearsal.undo(RehearsalBed(_running(environment, project)))
    typer.echo(f"The rehearsal of {name} is taken out." if name else "No rehearsal was left to take out.")


def _running(environment: str | None, project: Path | None) -> "Layout":
    """The demonstration that runs: of this shell, else of the checkout. Raises UserError for another environment than the
    sandbox, and where none runs."""
    from headway.environment.checkout import SANDBOX, find
    from sandbox.traffic import load_process
    from sandbox.traffic.release_trials import layout_of

    if (environment or SANDBOX) != SANDBOX:
        raise UserError(
            f"Rehearsals break what serves, and {environment} serves people.",
            "Nothing was done.",
            "Rehearse in the sandbox: `-e sandbox`, beside `make demo-traffic`.",
            Exit.USAGE,
        )
    layout = layout_of(find(project))
    if not load_process.running(layout):
        raise UserError(
            "No demonstration with users runs here.", "There is nothing to break; nothing was done.", "Start one: `make demo-traffic`."
        )
    return layout


def _rehearse(named: str | None, environment: str | None, minutes: float, project: Path | None) -> None:
    """`named`: which fault; None for one that nobody knows."""
    import random

    from sandbox.rehearsal import rehearsal
    from sandbox.rehearsal.bed import RehearsalBed
    from sandbox.traffic.demo import stop_on_signals

    layout = _running(environment, project)
    name = named or rehearsal.draw(layout, random.choice)
    bed, before = RehearsalBed(layout), rehearsal.users(layout)
    watch = rehearsal.Watch.over(layout, typer.echo)
    stop_on_signals()
    put, interrupted = None, False
    typer.echo(f"Breaking the demonstration: {FAULTS[name].breaks}." if named else "Breaking the demonstration, and not saying how.")
    try:
        put = rehearsal.begin(bed, name)
        typer.echo(
            f"You are on call. {'Enter' if sys.stdin.isatty() else 'Ctrl-C'} ends it once you know why; else {minutes:g} minutes do."
        )
        rehearsal.wait(watch, _enter, minutes * 60)
    except KeyboardInterrupt:
        interrupted = put is None
    finally:
        after = rehearsal.users(layout)
        rehearsal.undo(bed, os.getpid())
    if put is None or interrupted:
        typer.echo("Interrupted while it was being put in; it is out again.")
        raise typer.Exit(Exit.INTERRUPTED)
    typer.echo("\nIt is out again. A server that ended may need some minutes to serve: `headway status -e sandbox`.")
    for line in rehearsal.truth(FAULTS[name], watch.told, before, after, watch.before):
        typer.echo(line)


def _enter(seconds: float) -> bool:
    """Whether somebody presses Enter within so many seconds; nobody can where there is no terminal."""
    import select
    import time

    if not sys.stdin.isatty():
        time.sleep(seconds)
        return False
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready)
