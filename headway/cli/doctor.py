"""`headway doctor`: what would stop the first apply of an environment, found without changing anything."""

import json
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.output import Output, OutputOption
from headway.problem import Exit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headway.capacity.described import Described
    from headway.doctor.check import DoctorResult


def doctor(
    stack: Annotated[str, typer.Option("--stack", "-s", help="the cluster layer's stack, such as dev-cluster")],
    offline: Annotated[
        bool, typer.Option("--offline", help="ask nothing of AWS; only this machine and the stack file are checked")
    ] = False,
    output: OutputOption = Output.TEXT,
    project: Annotated[Path | None, typer.Option("--project", help="the checkout; default: the one around the working folder")] = None,
) -> None:
    """Check everything that an apply of the cluster layer needs: tools, credentials, quotas, offerings, add-ons, reservations.

    It reads only, and takes seconds. Exit codes: 0 all is well; 1 the apply would fail; 3 something could not be
    checked, and nothing else is wrong.
    """
    from headway.capacity.described import described
    from headway.doctor.check import CheckState
    from headway.environment.checkout import find

    checkout = find(project)
    environment, layer = described(checkout, stack)
    results = _examined(checkout, layer, offline=offline)
    if output is Output.JSON:
        typer.echo(json.dumps({"stack": stack, "environment": environment, "checks": [_record(each) for each in results]}, indent=2))
    else:
        _print(stack, results)
    if any(each.blocking for each in results):
        raise typer.Exit(Exit.REFUSED)
    if any(each.state is CheckState.UNKNOWN for each in results) and not offline:
        raise typer.Exit(Exit.ENVIRONMENT)


def _examined(checkout: Path, layer: "Described", *, offline: bool) -> "Sequence[DoctorResult]":
    from headway.cli.mirror import installed_by
    from headway.doctor.account import judge
    from headway.doctor.aws import account_facts
    from headway.doctor.samples import judge_samples
    from headway.doctor.tools import installed, judge_aws, judge_pulumi
    from headway.environment.aws import clients

    tools = installed()
    here = (judge_pulumi(tools["pulumi"], version("pulumi")), judge_aws(tools["aws"]), judge_samples(layer))
    if offline:
        return here
    pinned = installed_by(checkout)
    kubernetes, addons = pinned["kubernetes"], pinned["addons"]
    asked = clients(layer.region, retries={"mode": "standard", "max_attempts": 3}, connect_timeout=5, read_timeout=20)
    facts = account_facts(layer, addons, kubernetes, asked)
    return (*here, *judge(layer, facts, addons, kubernetes))


def _record(result: "DoctorResult") -> dict[str, object]:
    return {
        "check": result.name,
        "state": result.state.value,
        "seen": result.seen,
        "problems": [
            {
                "level": each.level.value,
                "path": each.dotted,
                "subject": each.subject,
                "fact": each.fact,
                "consequence": each.consequence,
                "remedy": each.remedy,
            }
            for each in result.problems
        ],
    }


def _print(stack: str, results: "Sequence[DoctorResult]") -> None:
    from rich.console import Console

    from headway.doctor.check import CheckState

    console = Console(highlight=False, soft_wrap=True)
    marks = {CheckState.OK: "[green]✓[/]", CheckState.PROBLEM: "[red]✗[/]", CheckState.UNKNOWN: "[yellow]?[/]"}
    for _, alike in groupby(results, key=lambda result: (result.state, result.seen) if result.state is CheckState.UNKNOWN else result):
        group = list(alike)
        mark = marks[group[0].state]
        for each in group[0].problems:
            console.print(mark if each.blocking else "[yellow]![/]", f"{group[0].name}:", end=" ")
            console.print(str(each).replace("\n", "\n  "), markup=False)
        if not group[0].problems:
            console.print(mark, f"{', '.join(result.name for result in group)}:", end=" ")
            console.print(group[0].seen, markup=False)
    wrong = sum(each.blocking for result in results for each in result.problems)
    warned = sum(not each.blocking for result in results for each in result.problems)
    unseen = sum(result.state is CheckState.UNKNOWN for result in results)
    fine = sum(result.state is CheckState.OK for result in results)
    console.print(f"\n{stack}: {fine} checks are fine, {wrong} problems stop the apply, {warned} warnings, {unseen} not checked.")
