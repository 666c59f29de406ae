"""Which sandbox a command means, and where it prints."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.problem import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from sandbox.layout import Layout

ProjectOption = Annotated[Path | None, typer.Option("--project", help="The checkout; found from the working folder otherwise.")]
DemoOption = Annotated[bool, typer.Option("--demo", help="Of the demonstration (`make demo-traffic`) instead.")]


def layout_of(project: Path | None) -> "Layout":
    """The sandbox of the checkout, which the environment port then means too. Raises UserError outside a checkout."""
    from headway.environment.checkout import find
    from headway.environment.selection import use
    from sandbox.environment import Sandbox

    here = Sandbox(find(project))
    use(here)
    return here.layout


def demonstration(own: "Layout") -> "Layout":
    """That of the checkout's demonstration. Raises UserError where none was started."""
    from sandbox.traffic.release_trials import layout_of as trials

    found = trials(own.project)
    if not found.cluster.exists():
        raise UserError(f"No demonstration runs in {own.project}.", "There is nothing to point at.", "Start it with `make demo-traffic`.")
    return found


def terminal() -> "Console":
    """Of 140 columns where nobody looks."""
    from rich.console import Console

    wide = None if sys.stdout.isatty() else 140
    return Console(highlight=False, soft_wrap=False, width=wide)
