"""Command groups that other distributions, or other parts of this one, add to `headway`: found by the entry points
`headway.commands`.

They are looked for only when a command is not one of Headway's own, or when all commands are listed.
"""

from typing import Any

import typer
from typer.core import TyperGroup

GROUP = "headway.commands"
"""An entry point of this group names a `typer.Typer`; its own name is the command."""


class Commands(TyperGroup):
    """Headway's own commands, and those that were installed beside it."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._add_installed()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        self._add_installed()
        return super().list_commands(ctx)

    def _add_installed(self) -> None:
        from importlib.metadata import entry_points

        for found in sorted(entry_points(group=GROUP)):
            if found.name not in self.commands:
                command = typer.main.get_group(found.load())
                command.name = found.name
                self.add_command(command)
