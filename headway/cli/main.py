"""The `headway` command: joins the commands and turns every failure into a few readable lines and an exit code.

Commands import what they need when they run, so that `headway --help` answers at once.
"""

import os
import sys
import traceback
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path

import typer

from headway.cli import (
    access,
    artifact,
    artifact_cache,
    backtest,
    certificate,
    contracts,
    cost,
    doctor,
    golden,
    leftovers,
    loops,
    mirror,
    nodes,
    policies,
    release,
    status,
    verify,
)
from headway.cli.plugins import Commands
from headway.problem import Exit, UserError
from headway.wire import ARTIFACT_CACHE_COMMAND

app = typer.Typer(
    name="headway",
    cls=Commands,
    help="A GPU inference platform as code.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    add_completion=False,
)
app.add_typer(contracts.app)
app.add_typer(release.app, name="release")
app.add_typer(nodes.app, name="nodes")
app.add_typer(artifact.app, name="artifact")
app.add_typer(verify.app, name="verify")
app.add_typer(loops.app, name="loops")
app.add_typer(certificate.app, name="certificate")
app.command(ARTIFACT_CACHE_COMMAND)(artifact_cache.artifact_cache)
app.command("backtest")(backtest.backtest)
app.command("cost")(cost.cost)
app.command("doctor")(doctor.doctor)
app.command("golden")(golden.golden)
app.command("access")(access.access)
app.command("leftovers")(leftovers.leftovers)
app.command("status")(status.status)
app.command("policies")(policies.policies)
app.command("mirror")(mirror.mirror)


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
        app()
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
