"""The verdict of `headway check`: the findings, place by place, and what was accepted or refused.

Loads no arithmetic, which most checks do not show: `contract_view` has it.
"""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from headway.cli.finding_view import print_findings
from headway.contract.reading.loader import CheckResult
from headway.problem import Problem, count


def print_result(result: CheckResult, prefix: str, pool_findings: Sequence[Problem], stacks: str = "") -> None:
    """The findings of `check`, place by place, then the verdict in a line; `stacks` is where the environment's files are, seen from here."""
    console = plain_console()
    print_findings(console, pool_findings, stacks)
    print_findings(console, result.findings, prefix)
    errors = sum(finding.blocking for finding in (*result.findings, *pool_findings))
    warnings = len(result.findings) + len(pool_findings) - errors
    models = sum(len(each.models) for each in result.contracts)
    if errors:
        console.print(f"[bold red]refused[/]: {count(errors, 'error')}, {count(warnings, 'warning')} in {count(result.files, 'file')}")
    elif not result.files:
        console.print("[yellow]nothing to check[/]: no contracts here; `headway new tenant NAME` writes the first")
    else:
        accepted = f"{count(len(result.contracts), 'tenant')}, {count(models, 'model')}"
        console.print(f"[bold green]accepted[/]: {accepted}" + (f", {count(warnings, 'warning')}" if warnings else ""))
    for note in result.notes:
        console.print(f"[dim]not checked: {note} ({'correct the stack file first' if stacks else '--environment NAME'})[/]", soft_wrap=True)
    if result.left_out:
        console.print(
            f"[dim]not deployed here, because no stack file names them: {', '.join(map(escape, result.left_out))}[/]", soft_wrap=True
        )


def plain_console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)
