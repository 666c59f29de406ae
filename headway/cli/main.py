"""The `headway` command: joins the commands and turns every failure into a few readable lines and an exit code.

Commands import what they need when they run, so that `headway --help` answers at once.
"""

import os
import sys
from contextlib import suppress
from errno import EISDIR, ENOENT, ENOTDIR
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
        _refuse_empty_words(sys.argv[1:])
        ended = app(prog_name="headway", standalone_mode=False)
        sys.exit(ended if isinstance(ended, int) else Exit.OK)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # the parser and rich end by 1 then, which would mean a refusal
            ended.code = Exit.UNREAD
        raise
    except UserError as error:
        _say("stopped" if error.exit == Exit.INTERRUPTED else "error", error)
        sys.exit(error.exit)
    except typer.TyperException as wrong:
        sys.exit(_misused(wrong))
    except typer.Abort as unanswered:
        if isinstance(unanswered.__context__, KeyboardInterrupt):
            sys.exit(Exit.INTERRUPTED)
        _say(
            "error", UserError("Nobody answered the question.", "Nothing was done.", "Answer it in a terminal; -h says how to do without.")
        )
        sys.exit(Exit.USAGE)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        mend = "name what is there" if error.errno in (ENOENT, ENOTDIR, EISDIR) else "free some space, or correct the permissions"
        _say(
            "error",
            UserError(
                f"{where}{error.strerror or error}.",
                "The command has stopped; what was complete is kept.",
                f"Put that right ({mend}) and run the command again.",
            ),
        )
        sys.exit(Exit.ENVIRONMENT)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except Exception as error:
        if str(error).rstrip(" :").endswith("KeyboardInterrupt"):  # while pydantic built a model, which tells of it as an error of its own
            sys.exit(Exit.INTERRUPTED)
        from headway.cli.error_log import keep

        log = keep(error)
        _say(
            "internal error",
            UserError(
                f"{type(error).__name__}: {error}",
                "This is a fault of headway, not of your input; state on disk is as the last completed step left it.",
                f"The details are in {log}; please report them.",
            ),
        )
        sys.exit(70)


_MAY_BE_EMPTY = ("--commit", "--reason")
"""Of `release start`: empty by default, and optional where CI fills them in."""


def _refuse_empty_words(words: list[str]) -> None:
    """Mostly a variable of the shell that is not set; a path would mean the working folder, a filter everything. Raises UserError."""
    starts = words[:2] == ["release", "start"]
    empty = [index for index, word in enumerate(words) if not word and not (starts and words[index - 1] in _MAY_BE_EMPTY)]
    if empty:
        before = words[: empty[0]][-1:]
        raise UserError(
            f"A word of the command is empty{f', after {before[0]}' if before else ''}.",
            "It would mean everything, or the folder that you are in; nothing was done.",
            "Write it out; a variable of the shell may not be set.",
            Exit.USAGE,
        )


def _misused(wrong: typer.TyperException) -> int:
    """Say what the parser refuses in the form of all refusals, below the usage line; the exit code."""
    context = getattr(wrong, "ctx", None)
    if type(wrong).__name__ == "NoArgsIsHelpError":  # its message is the help of the group that no command follows
        print(wrong.message, file=sys.stderr)
        return wrong.exit_code
    if context:
        print(context.get_usage(), file=sys.stderr)
    command = context.command_path if context else "headway COMMAND"
    fact = wrong.format_message().replace(": Value error, ", ": ").replace(": Input should", ": it should")
    _say("error", UserError(fact, "Nothing was done.", f"`{command} -h` says what it takes.", Exit.USAGE))
    return wrong.exit_code


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


if __name__ == "__main__":
    main()
