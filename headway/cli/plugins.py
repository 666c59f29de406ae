"""The commands of `headway`, each loaded when it is asked for: its own by the catalogue, and those that other distributions, or other parts
of this one, add by the entry points `headway.commands`.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperGroup

from headway.cli.catalogue import CATALOGUE, EXAMPLES, CommandGroup, for_example
from headway.cli.proposed_commands import takes_environment, told_to

GROUP = "headway.commands"
"""An entry point of this group names a `typer.Typer`; its own name is the command."""


class Commands(TyperGroup):
    """Headway's own commands, and those that were installed beside it."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            if found := own(cmd_name):
                self.add_command(found, cmd_name)
            elif installed := _installed().get(cmd_name):
                self.add_command(_made(installed.load(), cmd_name), cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in CATALOGUE:
            for near in get_close_matches(args[0], self.list_commands(ctx)):
                self.get_command(ctx, near)  # what the parser proposes is among what was loaded
        try:
            return super().resolve_command(ctx, args)
        except typer.TyperException as wrong:
            groups = [name for name in self.list_commands(ctx) if args[0] in getattr(self.get_command(ctx, name), "commands", {})]
            if groups:
                wrong.message = (
                    f"No such command '{args[0]}'. Did you mean {' or '.join(f'`headway {each} {args[0]}`' for each in groups)}?"
                )
            raise

    def list_commands(self, ctx: Any) -> list[str]:
        return [*CATALOGUE, *sorted(_installed())]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """By group, each with what the catalogue says of it: nothing of Headway's own is loaded."""
        installed = [(name, self.get_command(ctx, name).get_short_help_str(limit=60)) for name in sorted(_installed())]
        for group in CommandGroup:
            own = [(name, each.says) for name, each in CATALOGUE.items() if each.group is group]
            rows = [*own, *(installed if group is CommandGroup.HERE else ())]
            if rows:
                with formatter.section(group.value):
                    formatter.write_dl(rows)


def own(name: str) -> Any:
    """A command of Headway's own, as the parser knows it; None where there is none of that name."""
    from importlib import import_module

    entry = CATALOGUE.get(name)
    return _made(getattr(import_module(entry.module), entry.attribute), name) if entry else None


def _installed() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {found.name: found for found in entry_points(group=GROUP) if found.name not in CATALOGUE}


def _made(given: Any, name: str) -> Any:
    """A command of the parser from a `typer.Typer` or a function, with its examples."""
    app = given if isinstance(given, typer.Typer) else typer.Typer(add_completion=False)
    if app is not given:
        app.command(name)(given)
    app.rich_markup_mode = None
    command = typer.main.get_group(app) if app is given else typer.main.get_command(app)
    command.name = name
    for words, inner in _within(name, command):
        inner.short_help = inner.get_short_help_str(limit=200)  # a group lists each command with its whole first sentence
        if examples := EXAMPLES.get(words):
            inner.epilog = for_example(*examples)
        if takes_environment(inner):
            told_to(inner)
    return command


def _within(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    """The command and all below it, each with the words that are typed for it."""
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _within(f"{words} {name}", inner)
