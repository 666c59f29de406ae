"""`headway golden`: the body of a golden request, as a caller would send it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from headway.problem import Exit, UserError


def golden(
    contract: Annotated[Path, typer.Argument(help="The model's contract.")],
    name: Annotated[
        str | None, typer.Option("--name", help="Which golden request; the first that stands in the contract otherwise.")
    ] = None,
) -> None:
    """Print the body of a golden request of CONTRACT, as a caller would send it.

    Exit codes: 0 printed, 1 the contract is refused, 2 wrong use.
    """
    from headway.contract.model import Model
    from headway.contract.reading.document import read
    from headway.contract.reading.validation import contract_from

    if not contract.is_file():
        raise UserError(f"There is no file {contract}.", "Nothing was printed.", "Name the contract of a model.", Exit.USAGE)
    document = read(contract.read_bytes(), str(contract))
    model, findings = contract_from(document, Model)
    if model is None:
        first = next(iter((*document.findings, *findings)))
        raise UserError(
            ": ".join(filter(None, (first.place, first.dotted, f"{first.fact}."))),
            "A refused contract has no golden request.",
            "Run `headway check` on it.",
            Exit.REFUSED,
        )
    written = {each.name: each.request for each in model.health.golden if each.request is not None}
    if not written:
        raise UserError(
            f"{contract} writes no golden request down: each is a file of the artifact.",
            "Nothing was printed.",
            f"Take {', '.join(each.file or '' for each in model.health.golden)} of the artifact.",
            Exit.USAGE,
        )
    if name is not None and name not in written:
        raise UserError(
            f"{contract} writes down no golden request {name}.", "Nothing was printed.", f"Use one of {', '.join(written)}.", Exit.USAGE
        )
    typer.echo(json.dumps(written[name or next(iter(written))]))
