"""`headway cost`: what an environment costs a month, from list prices with their date."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.completion import priced_stacks
from headway.cli.environment_choice import EnvironmentOption, typed
from headway.cli.output import Output, OutputOption

if TYPE_CHECKING:
    from headway.contract.arithmetic.month import Estimate
    from headway.contract.units import Bytes, Money


def cost(
    context: typer.Context,
    stack: Annotated[
        str | None, typer.Option("--stack", "-s", autocompletion=priced_stacks, help="One layer, such as prod-cluster or prod-platform.")
    ] = None,
    environment: EnvironmentOption = None,
    use: Annotated[
        list[str] | None, typer.Option("--use", help="How much of what is paid by use there is a month, such as nat=2Ti; repeatable.")
    ] = None,
    output: OutputOption = Output.TEXT,
    project: Annotated[Path | None, typer.Option("--project", help="The checkout; found from the working folder otherwise.")] = None,
) -> None:
    """What an environment, or one layer of it, costs a month: list prices, everything at its fewest and at its most.

    What is paid by use (traffic, logs, objects) is counted for the amounts that `--use` names; without them its prices
    are listed. Exit codes: 0 reckoned, 1 the settings are refused, 2 wrong use.
    """
    from headway.contract.arithmetic.month import together, used_month
    from headway.environment.checkout import find

    environment = typed(context, environment) if stack else environment
    amounts = _amounts(use or [])
    folder = find(project)
    region, reckoned = _layers(folder, stack, environment)
    total = together(reckoned, used_month(amounts))
    if output is Output.JSON:
        typer.echo(json.dumps(_record(stack or str(environment), region, total, amounts), indent=2))
    else:
        _print(stack or str(environment), region, total, amounts)


def _layers(project: Path, stack: str | None, environment: str | None) -> tuple[str, "Estimate"]:
    """The region, and what is paid for in the layers that were asked for. Raises UserError for none, or too many."""
    from dataclasses import replace

    from headway.capacity.described import described
    from headway.cli.platform_sums import platform_sums
    from headway.contract.accelerators import PRICES_AS_OF
    from headway.contract.arithmetic.month import Estimate, cluster_month, together
    from headway.problem import Exit, UserError

    if (stack is None) is (environment is None):
        raise UserError(
            "Neither a layer nor an environment is named." if stack is None else "A layer and an environment are named.",
            "Nothing was calculated.",
            "Write --environment prod for all of it, or --stack prod-cluster for one layer.",
            Exit.USAGE,
        )
    owner, _, layer = (stack or f"{environment}-").rpartition("-")
    if layer not in ("", "platform", "cluster"):
        raise UserError(
            f"{stack} is no layer whose costs are listed.",
            "Nothing was calculated.",
            "Write --stack prod-cluster or prod-platform; `headway check -e prod --explain` says what each model costs.",
            Exit.USAGE,
        )
    _, cluster = described(project, f"{owner}-cluster" if layer in ("", "platform") else str(stack))
    nodes = cluster_month(cluster.billed)
    if layer == "cluster":
        return cluster.region, nodes
    sums = platform_sums(project, owner)
    if refused := [problem for problem in sums.problems if problem.blocking]:
        raise UserError.of(refused)
    around = Estimate(sums.items, PRICES_AS_OF)
    if layer == "platform":
        return cluster.region, around
    system, *others = nodes.items
    if sums.nodes_needed:
        system = replace(system, how=f"{system.how}; the platform's pods need {sums.nodes_needed}")
    return cluster.region, together(replace(nodes, items=(system, *others)), around)


def _amounts(words: list[str]) -> Mapping[str, "Bytes"]:
    """What each `--use` says. Raises UserError with every one that says nothing."""
    from headway.contract.arithmetic.month import USES
    from headway.contract.units import Bytes
    from headway.problem import Exit, Problem, UserError

    found: dict[str, Bytes] = {}
    problems = list[Problem]()
    for word in words:
        name, _, amount = word.partition("=")
        try:
            if name not in USES or name in found:
                raise ValueError(name)
            found[name] = Bytes.parse(amount)
        except ValueError:
            problems.append(
                Problem(
                    path=("--use",),
                    value=word,
                    fact=f"{word} names no amount of something that is paid by use, or names it twice",
                    consequence="Nothing was calculated",
                    remedy=f"Write each at most once, such as nat=2Ti: {', '.join(sorted(USES))}",
                )
            )
    if problems:
        raise UserError.of(problems, Exit.USAGE)
    return found


def _record(asked: str, region: str, reckoned: "Estimate", amounts: Mapping[str, "Bytes"]) -> dict[str, object]:
    from headway.contract.accelerators import PRICES_SOURCE
    from headway.contract.arithmetic.month import NEVER_COUNTED, USES

    return {
        "stack": asked,
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
        "by_use": {name: {"usd_a_gibibyte": float(price), "what": what} for name, (price, what) in USES.items() if name not in amounts},
        "not_included": list(NEVER_COUNTED),
    }


def _dollars(money: "Money") -> float:
    return round(float(money.dollars), 2)


def _print(asked: str, region: str, reckoned: "Estimate", amounts: Mapping[str, "Bytes"]) -> None:
    from rich.console import Console
    from rich.table import Table

    from headway.contract.arithmetic.month import NEVER_COUNTED, USES

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
    console.print(f"[bold]{asked}[/bold], in {region}")
    console.print(table)
    where = "" if region == "us-east-1" else f" {region} is another price list: expect tenths more or less."
    console.print(f"\nList prices of us-east-1 as of {reckoned.as_of}, without discounts.{where}")
    left = [name for name in sorted(USES) if name not in amounts]
    if left:
        console.print("\nPaid by use and not in it; name the amounts of a month, such as --use nat=2Ti:")
        prices = Table(box=None, pad_edge=False, show_header=False)
        for name in left:
            price, what = USES[name]
            prices.add_row(name, f"{price} USD a GiB", what)
        console.print(prices)
    console.print(f"\nNever counted: {'; '.join(NEVER_COUNTED)}.")
