"""The `headway` command: joins the commands and turns every failure into a few readable lines and an exit code.

Commands import what they need when they run, so that `headway --help` answers at once.
"""

import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.plugins import Commands
from headway.problem import Exit, UserError

app = typer.Typer(
    name="headway",
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        from headway import VERSION

        typer.echo(f"headway {VERSION}")
        raise typer.Exit


@app.callback(epilog="`headway COMMAND -h` says what a command takes, with examples. Exit codes and variables: docs/reference/cli.md.")
def _headway(
    version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version, and exit.")] = False,
) -> None:
    """A GPU inference platform as code."""


def main() -> None:
    """Entry point. Exit codes: see `headway.problem.Exit`."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by who called us
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  as long as the process
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without the character is shown its number
    _warn_root()
    try:
        app(prog_name="headway")
    except UserError as error:
        _say("stopped" if error.exit == Exit.INTERRUPTED else "error", error)
        sys.exit(error.exit)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _say(
            "error",
            UserError(
                f"{where}{error.strerror or error}.",
                "The command has stopped; what was complete is kept.",
                "Put that right (free some space, or correct the permissions) and run the command again.",
            ),
        )
        sys.exit(Exit.ENVIRONMENT)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except Exception as error:
        if str(error).rstrip(" :").endswith("KeyboardInterrupt"):  # while pydantic built a model, which tells of it as an error of its own
            sys.exit(Exit.INTERRUPTED)
        log = _keep(error)
        _say(
            "internal error",
            UserError(
                f"{type(error).__name__}: {error}",
                "This is a fault of headway, not of your input; state on disk is as the last completed step left it.",
                f"The details are in {log}; please report them.",
            ),
        )
        sys.exit(70)


def _warn_root() -> None:
    from headway.private_folder import told_to_root

    with suppress(OSError):
        if said := told_to_root(Path.cwd()):
            print(f"warning: {said}.", file=sys.stderr)


def _say(kind: str, error: UserError) -> None:
    from rich.console import Console

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]{kind}[/bold red]: ", end="")
    console.print(error, markup=False)


def _keep(error: Exception) -> Path:
    import traceback

    from headway.environment import selection
    from headway.private_folder import private_folder

    folder = selection.logs()
    try:
        path = private_folder(folder) / "headway-error.log"
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    except (OSError, UserError):
        traceback.print_exception(error)
        return Path("the lines above")
    return path


if __name__ == "__main__":
    main()
