"""How findings, sums and differences of contracts are shown, to people as text and to programs as records.

Owns wording and layout of `headway check` and `headway diff`; what they say comes from `headway.contract`.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from headway.cli.contract_verdict import plain_console
from headway.contract.arithmetic.apart import apart
from headway.contract.arithmetic.cost import cost
from headway.contract.arithmetic.fit import fit, fit_ram
from headway.contract.arithmetic.node import node_room
from headway.contract.arithmetic.pipelined import spanning
from headway.contract.arithmetic.quota import quota_use, spare_devices_by_quota
from headway.contract.arithmetic.startup import budget_burn, startup
from headway.contract.arithmetic.surge import pool_for, spare_for, surge
from headway.contract.arithmetic.tensor_parallel import link_lines
from headway.contract.crosscheck import TenantContracts
from headway.contract.difference import Difference
from headway.contract.explanation import Line, written
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.reading.loader import TENANT_FILE, CheckResult
from headway.contract.roles import prefill_of
from headway.problem import Problem, count, in_code, shown

SYSTEM_POOL_HINT = "--explain shows what is left, and what a lost node does"


def _sums(
    owner: TenantContracts, model: Model, pools: Sequence[Pool] | None, models: Sequence[Model]
) -> list[tuple[str, tuple[Line, ...], str]]:
    """Titles, lines and verdicts of all calculations about one model; `models` are all roles of all tenants' models."""
    parts = _sums_of_a_role(owner, model, pools, models)
    if prefill := next((each for each in owner.roles if each == prefill_of(model)), None):
        together = apart(model, pool_for(model, pools or ()), pool_for(prefill, pools or ()))
        parts += [(f"Prefill: {title}", lines, verdict) for title, lines, verdict in _sums_of_a_role(owner, prefill, pools, models)]
        parts += [("Prefill and decode apart", together.lines, "")] if together else []
    return parts


def _sums_of_a_role(
    owner: TenantContracts, model: Model, pools: Sequence[Pool] | None, models: Sequence[Model]
) -> list[tuple[str, tuple[Line, ...], str]]:
    pool = pool_for(model, pools) if pools else None
    memory, ram, start = fit(model), fit_ram(model), startup(model, pool)
    burn = budget_burn(model, start)
    parts: list[tuple[str, tuple[Line, ...], str]] = [
        ("GPU memory, each GPU", memory.lines, "fits" if memory.fits else "does not fit"),
        *([("Between the GPUs", lines, "")] if (lines := link_lines(model)) else []),
        *([("Between the nodes", together.lines, "")] if (together := spanning(model, pool)) else []),
        ("RAM", ram.lines, "fits" if ram.fits else "does not fit"),
        ("Start-up", start.lines, f"one cold start is {burn.share.brief} of the error budget of {burn.objective}" if burn else ""),
        ("Cost", cost(model, pool).lines, f"on pool {pool.name}" if pool else "on the cheapest instance type"),
    ]
    if pool:
        spare = max(0, spare_for(model, pool, [each for each in models if pool_for(each, pools or ()) is pool]))
        spare = min(spare, spare_devices_by_quota(owner.tenant, owner.roles, model))
        room = node_room(model, pool)
        parts += [
            (f"Replicas on a node of pool {pool.name}", room.lines, f"{room.replicas}, {room.short_of} runs out first"),
            ("Capacity for a rollout, everything at its maximum", surge(model, spare).lines, ""),
        ]
    return parts


def environment_record(sums: Sequence[Line], problems: Sequence[Problem]) -> dict[str, object]:
    """What `check` says of an environment's own settings, for programs."""
    return {
        "systemPool": [{"what": line.what, "amount": line.figure, "why": line.why} for line in sums],
        "problems": [p.record("rule", "level", "file", "path") for p in problems],
    }


def print_system_pool(sums: Sequence[Line], *, explain: bool) -> None:
    """What the system pool holds: a line, or all of its sums."""
    console = plain_console()
    if explain:
        console.print("\n[bold underline]system pool[/]")
        console.print(escape(written(tuple(sums), "    ")), soft_wrap=True)
        return
    found = {line.what: line.figure for line in sums}
    needed = ", ".join(f"{found[name]} {what}" for name, what in (("CPU needed", "CPU"), ("RAM needed", "RAM")))
    console.print(f"system pool: {needed}; {found['nodes needed']} nodes needed ({SYSTEM_POOL_HINT})", soft_wrap=True)


def explained_record(result: CheckResult, pools: Sequence[Pool] | None) -> dict[str, object]:
    """All sums of all models, for programs."""
    everything = [role for each in result.contracts for role in each.roles]
    return {
        each.tenant.name: {
            "quota": {
                ".".join(use.path[1:]): {"used": str(use.show(use.used)), "limit": str(use.show(use.limit)), "within": use.within}
                for use in quota_use(each.tenant, each.roles)
            },
            "models": {
                model.name: {
                    title: [{"what": line.what, "amount": str(line.amount), "why": line.why} for line in lines]
                    for title, lines, _ in _sums(each, model, pools, everything)
                }
                for model in each.models
            },
        }
        for each in result.contracts
    }


def print_explained(result: CheckResult, pools: Sequence[Pool] | None) -> None:
    """All sums of all models, as one would write them on paper."""
    console = plain_console()

    def table(title: str, lines: tuple[Line, ...], verdict: str) -> None:
        grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        grid.add_column(min_width=26)
        grid.add_column(justify="right")
        grid.add_column(style="dim", overflow="fold")
        for line in lines:
            grid.add_row("    " + escape(line.what), escape(line.figure), escape(line.why))
        console.print(f"  [bold]{escape(title)}[/]" + (f": {escape(verdict)}" if verdict else ""))
        console.print(grid)

    everything = [role for each in result.contracts for role in each.roles]
    for each in result.contracts:
        console.print(f"\n[bold underline]{each.tenant.name}[/]")
        lines = [
            Line(
                ".".join(use.path[1:]),
                f"{use.need} of {use.show(use.limit)}",
                "; ".join(f"{line.what}: {line.why}" for line in use.lines),
            )
            for use in quota_use(each.tenant, each.roles)
        ]
        table("Quota, at maximum replicas", tuple(lines), "")
        for model in each.models:
            console.print(f"\n[bold underline]{each.tenant.name}/{model.name}[/]")
            for title, parts, verdict in _sums(each, model, pools, everything):
                table(title, parts, verdict)


def difference_record(name: str, what: str, changes: Difference | None) -> dict[str, object]:
    """One changed contract, for programs."""
    return {
        "contract": name,
        "what": what,
        "release": changes.release if changes else what == "added" and Path(name).name != TENANT_FILE,
        "changes": [
            {"path": change.dotted, "old": change.old, "new": change.new, "effect": change.effect, "release": change.release}
            for change in (changes.changes if changes else ())
        ],
        "moved": [{"what": moved.what, "old": moved.old, "new": moved.new} for moved in (changes.moved if changes else ())],
    }


_ADDED = {False: "a new service, unless it has had its first release", True: "its namespace is made by the next update"}
"""What an added contract becomes, by whether it is a tenant's: git does not know what was deployed."""


def print_differences(found: Sequence[tuple[str, str, Difference | None]]) -> None:
    """Changed contracts as tables: field, old, new, effect; `R` marks what needs a new release."""
    console = plain_console()
    if not found:
        console.print("no contract differs")
    for name, what, changes in found:
        if changes is None:
            console.print(f"[bold]{escape(name)}[/]: {_follows(name, what)}")
            continue
        verdict = "[yellow]a new release is needed[/]" if changes.release else "[green]in place, no new release[/]"
        console.print(f"[bold]{escape(name)}[/]: {count(len(changes.changes), 'change')}, {verdict}")
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        for column in ("", "field", "old", "new", "effect"):
            table.add_column(column, overflow="fold")
        for change in changes.changes:
            old, new = ("" if value is None else escape(shown(value, 40)) for value in (change.old, change.new))
            table.add_row(
                "[yellow]R[/]" if change.release else " ",
                escape(change.dotted),
                f"[red]{old}[/]",
                f"[green]{new}[/]",
                escape(change.effect),
            )
        console.print(table)
        for moved in changes.moved:
            console.print(f"   {escape(moved.what)}: {escape(moved.old)} -> {escape(moved.new)}")
        console.print()


def differences_markdown(found: Sequence[tuple[str, str, Difference | None]]) -> str:
    """The same as Markdown: values stand in code, so that nothing in a contract is a mark, a mention or HTML."""
    lines = [] if found else ["No contract differs."]
    for name, what, changes in found:
        if changes is None:
            lines += [f"**{in_code(name)}**: {_follows(name, what)}", ""]
            continue
        verdict = "**a new release is needed**" if changes.release else "in place, no new release"
        lines += [f"**{in_code(name)}**: {count(len(changes.changes), 'change')}, {verdict}", ""]
        lines += ["| | field | old | new | effect |", "|---|---|---|---|---|"]
        for change in changes.changes:
            old, new = ("" if value is None else in_code(shown(value, 60)) for value in (change.old, change.new))
            lines.append(f"| {'R' if change.release else ''} | {in_code(change.dotted)} | {old} | {new} | {change.effect} |")
        lines += ["", *(f"- {moved.what}: {in_code(moved.old)} → {in_code(moved.new)}" for moved in changes.moved), ""]
    return "\n".join(lines).rstrip("\n")


def _follows(name: str, what: str) -> str:
    """What comes of a contract that was added or removed."""
    if what == "added":
        return f"{what}; {_ADDED[Path(name).name == TENANT_FILE]}"
    return f"{what}; everything that is its own goes with the next update"
