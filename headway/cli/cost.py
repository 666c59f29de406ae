"""`headway cost`: what an environment's cluster layer costs a month, from list prices with their date."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.output import Output, OutputOption

if TYPE_CHECKING:
    from headway.capacity.monthly import Estimate
    from headway.contract.units import Money


def cost(
    stack: Annotated[str, typer.Option("--stack", "-s", help="the cluster layer's stack, such as prod-cluster")],
    output: OutputOption = Output.TEXT,
    project: Annotated[Path | None, typer.Option("--project", help="the checkout; default: the one around the working folder")] = None,
) -> None:
    """What the cluster layer of an environment costs a month: list prices, nodes at their fewest and at their most."""
    from headway.capacity.described import described
    from headway.capacity.monthly import estimate
    from headway.environment.checkout import find

    _, cluster_layer = described(find(project), stack)
    reckoned = estimate(cluster_layer)
    if output is Output.JSON:
        typer.echo(json.dumps(_record(stack, cluster_layer.region, reckoned), indent=2))
    else:
        _print(stack, cluster_layer.region, reckoned)


def _record(stack: str, region: str, reckoned: "Estimate") -> dict[str, object]:
    from headway.capacity.monthly import BY_USE
    from headway.contract.accelerators import PRICES_SOURCE

    return {
        "stack": stack,
        "region": region,
        "currency": "USD",
        "prices": {"kind": "list", "as_of": reckoned.as_of, "region": "us-east-1", "source": PRICES_SOURCE},
        "month": {"least": _dollars(reckoned.least), "greatest": _dollars(reckoned.greatest)},
        "items": [
            {
                "what": item.what,
                "fewest": item.fewest,
                "most": item.most,
                "month_each": _dollars(item.month),
                "month": {"least": _dollars(item.least), "greatest": _dollars(item.greatest)},
                "how": item.how,
            }
            for item in reckoned.items
        ],
        "not_included": list(BY_USE),
    }


def _dollars(money: "Money") -> float:
    return round(float(money.dollars), 2)


def _print(stack: str, region: str, reckoned: "Estimate") -> None:
    from rich.console import Console
    from rich.table import Table

    from headway.capacity.monthly import BY_USE

    console = Console(highlight=False, soft_wrap=False)
    table = Table(box=None, pad_edge=False, header_style="bold", show_footer=True)
    table.add_column("USD a month", footer="together", footer_style="bold")
    for column, footer in (
        ("number", ""),
        ("each", ""),
        ("at least", f"{reckoned.least.dollars:,.0f}"),
        ("at most", f"{reckoned.greatest.dollars:,.0f}"),
    ):
        table.add_column(column, footer=footer, justify="right", footer_style="bold", no_wrap=True)
    table.add_column("what", overflow="fold")
    for item in reckoned.items:
        number = f"{item.fewest}" if item.fewest == item.most else f"{item.fewest}-{item.most}"
        table.add_row(
            item.what,
            number,
            f"{item.month.dollars:,.2f}",
            f"{item.least.dollars:,.0f}",
            f"{item.greatest.dollars:,.0f}",
            item.how,
        )
    console.print(f"[bold]{stack}[/bold], in {region}")
    console.print(table)
    where = "" if region == "us-east-1" else f" {region} is another price list: expect tenths more or less."
    console.print(f"\nList prices of us-east-1 as of {reckoned.as_of}, without discounts.{where}")
    console.print(f"Paid by use and not in it: {'; '.join(BY_USE)}.")
