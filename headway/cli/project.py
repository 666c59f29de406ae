"""Finding the checkout that a command is about."""

from pathlib import Path

from headway.problem import Exit, UserError


def find(start: Path | None = None) -> Path:
    """The nearest folder upwards from `start` (the working folder) that holds Headway's Pulumi.yaml. Raises UserError if there is none."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        file = folder / "Pulumi.yaml"
        if file.is_file() and "name: headway" in file.read_text(encoding="utf-8").splitlines():
            return folder
    raise UserError(
        f"{here} is not inside a checkout of Headway.",
        "The command needs its Pulumi.yaml, stacks and tenants.",
        "Change into the checkout; a command with --project may be told where it is.",
        Exit.USAGE,
    )
