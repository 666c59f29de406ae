"""What the release commands are told, in the same words."""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.completion import services
from headway.problem import Exit, UserError

ServiceArgument = Annotated[str, typer.Argument(metavar="TENANT/MODEL", autocompletion=services, help="Which service.")]
ProjectOption = Annotated[Path | None, typer.Option("--project", help="The checkout; found from the working folder otherwise.")]
PrometheusOption = Annotated[str | None, typer.Option("--prometheus", help="Its address; found from the environment otherwise.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; kept in the ledger.")]
NotifyOption = Annotated[
    str | None,
    typer.Option(
        "--notify",
        envvar="HEADWAY_NOTIFY",
        show_envvar=True,
        help="A webhook that is told of the beginning, of trouble and of the end. One with a secret in its address belongs into the variable: "
        "others on this machine see arguments.",
    ),
]


def reasoned(reason: str) -> None:
    """Raises UserError for a reason that says nothing."""
    if not reason.strip():
        raise UserError(
            "--reason is empty.",
            "Nobody who reads the ledger later could tell why; nothing was done.",
            "Write why, in a sentence.",
            Exit.USAGE,
        )
