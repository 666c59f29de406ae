"""How results look to a person. Takes frozen values, prints; decides nothing."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headway.cli.listing import print_listing
from headway.cli.progress import elapsed
from headway.environment.stacks import StackResult
from headway.private_folder import told_to_root
from headway.service_status.replicas import ServiceStatus
from headway.wire import POLICY_GATE
from sandbox.cluster.processes import ProcessStatus
from sandbox.deploy import LayerResult
from sandbox.extras import RunningExtra
from sandbox.session import Report
from sandbox.status import ClusterView, PoolStatus

_OPERATIONS = {
    "create": ("+", "green"),
    "update": ("~", "yellow"),
    "delete": ("-", "red"),
    "replace": ("±", "magenta"),
    "create-replacement": ("±", "magenta"),
    "delete-replaced": ("-", "red"),
    "import": ("=", "cyan"),
}


def say_whose(console: Console, project: Path) -> None:
    """Warn root in a checkout of somebody else."""
    if said := told_to_root(project):
        console.print(f"[yellow]warning[/yellow]: {escape(said)}, or set HEADWAY_SANDBOX_HOME to a folder of root.")


def layer(result: LayerResult) -> RenderableType:
    """One layer: what changes or changed, what the pack said, what went wrong."""
    last = result.last
    mark = "[green]✓[/green]" if result.ok else "[red]✗[/red]"
    head = f"{mark} [bold]{result.layer.stack:<18}[/bold] {_changes(last)}  [dim]{_verb(result)}, {elapsed(last.seconds)}[/dim]"
    lines: list[RenderableType] = [head]
    lines += [_finding(v.level, v.policy, v.resource, v.message) for v in last.violations if not v.unevaluated and v.policy != POLICY_GATE]
    lines += [Padding(Text(e, style="red"), (0, 0, 0, 4), expand=False) for e in last.errors]
    lines += [Padding(Text(w, style="yellow"), (0, 0, 0, 4), expand=False) for w in last.warnings]
    return Group(*lines)


def _verb(result: LayerResult) -> str:
    if not result.ok:
        return "failed" if result.applied else "refused"
    if result.compared is not None:
        return f"unchanged: same inputs as last time, {result.compared} live objects compared"
    return "applied" if result.applied else "unchanged" if result.last.changed == 0 else "planned"


def _changes(result: StackResult) -> str:
    parts = [
        f"[{colour}]{sign} {n} {op}[/{colour}]"
        for op, n in result.changes.items()
        if op in _OPERATIONS
        for sign, colour in [_OPERATIONS[op]]
    ]
    same = result.changes.get("same", 0)
    return "  ".join([*parts, *([f"[dim]{same} unchanged[/dim]"] if same else [])]) or "[dim]nothing[/dim]"


def _finding(level: str, policy: str, resource: str, message: str) -> RenderableType:
    colour = "red" if level == "mandatory" else "yellow"
    name = resource.rsplit("::", 1)[-1]
    said = Text.from_markup(f"[{colour}]{level}[/{colour}] [bold]{policy}[/bold] on {escape(name)}\n{escape(message)}")
    return Padding(said, (0, 0, 0, 4), expand=False)


def view(console: Console, cluster: ClusterView, live: Sequence[RunningExtra] = ()) -> None:
    """Nodes by pool and services by tenant, as the cluster told them; and which add-ons run here as processes, which
    do not."""
    console.print(f"[bold]Cluster[/bold] [dim]Kubernetes {cluster.version}, read from its API just now[/dim]")
    pools = ((f"  {pool.pool}", pool.instance_type, pool.product or "-", _ready(pool), _allocated(pool)) for pool in cluster.pools)
    print_listing(console, ("  pool", "instance type", "accelerator", "nodes", "allocated"), pools, sentences=("nodes", "allocated"))
    console.print()
    services = ((f"  {each.tenant}/{each.model}", each.release, _count(each), _where(each)) for each in cluster.services)
    print_listing(console, ("  service", "release", "ready", "where"), services, sentences=("where",))
    if live:
        console.print()
        for each in live:
            console.print(f"  [bold]{each.extra.name}[/bold]: {', '.join(_server(p) for p in each.processes)}", soft_wrap=True)
    stood_for = {chart for each in live for chart in each.extra.charts}
    names = ", ".join(f"{chart} {version}" for chart, version in cluster.recorded if chart not in stood_for)
    if names:
        console.print(Padding(f"[dim]Add-ons that the sandbox records and does not run: {escape(names)}[/dim]", (1, 0, 0, 2), expand=False))


def _server(process: ProcessStatus) -> str:
    at = f" on 127.0.0.1:{process.ports[0]}" if process.ports else ""
    return f"{process.name} [green]runs[/green][dim]{at}, pid {process.pid}[/dim]"


def _ready(pool: PoolStatus) -> str:
    ready = f"{pool.nodes}" if pool.ready == pool.nodes else f"[red]{pool.ready} of {pool.nodes} ready[/red]"
    return f"{ready}, [yellow]{pool.quarantined} in quarantine[/yellow]" if pool.quarantined else ready


def _allocated(pool: PoolStatus) -> str:
    return ", ".join(f"{used} of {total} {name}" for name, (used, total) in pool.accelerators.items()) or "-"


def _count(service: ServiceStatus) -> str:
    colour = "green" if service.ready >= service.wanted > 0 else "red"
    return f"[{colour}]{service.ready}/{service.wanted}[/{colour}]"


def _where(service: ServiceStatus) -> str:
    places = ", ".join(sorted({p.node for p in service.pods if p.node and p.ready}))
    return " ".join(x for x in (places, f"[red]{escape(service.reason)}[/red]" if service.reason else "") if x) or "-"


def summary(console: Console, report: Report, spent: str, *, ready: bool, usual: bool) -> None:
    """The last lines of `up`; what to do next is only said where these words mean the `usual` sandbox, that of the
    checkout."""
    changed = sum(r.applied.changed for r in report.layers if r.applied)
    total = sum(r.last.total for r in report.layers)
    changes = f"{changed} change{'' if changed == 1 else 's'}"
    what = f"{changes} in {total} resources" if changed else f"nothing changed, {total} resources are as the program says"
    state = "[bold green]Everything is ready[/bold green]" if ready else "[bold red]Not everything is ready[/bold red]"
    console.print(f"{state}: {what}. [dim]{spent}[/dim]")
    for stack, count in report.left_behind.items():
        console.print(
            f"[yellow]warning[/yellow]: {escape(stack)} has no stack file any more, and what it deployed still runs: {count} "
            f"resource{'' if count == 1 else 's'}.\n  No update reaches them.\n"
            f"  Remove them with pulumi destroy -s {escape(stack)} --yes && pulumi stack rm {escape(stack)} --yes, or bring its file back.",
            soft_wrap=True,
        )
    if usual:
        console.print(
            '[dim]Now: eval "$(.venv/bin/headway sandbox env)", then headway sandbox status, or pulumi preview -s sandbox-platform;'
            " make down stops it.[/dim]",
            soft_wrap=True,
        )
        console.print(
            "[dim]Release something yourself, to users who never stop asking: make demo-traffic, then docs/guide/own-release.md[/dim]"
        )


def stopped(console: Console, report: Report) -> None:
    """The last line of an `up` that did not reach the end: which layers stopped it, and what that means."""
    wrong = [each for each in report.layers if not each.ok]
    names = ", ".join(each.layer.stack for each in wrong) or "the interrupt"
    happened = "What was deployed before stays" if any(each.applied for each in report.layers) else "Nothing was deployed"
    console.print(f"[bold red]Stopped[/bold red] by {escape(names)}: see above. {happened}; correct it, and run the command again.")
    rules = sorted(
        {each.policy for layer in wrong for each in layer.last.violations if each.level == "mandatory" and each.policy != POLICY_GATE}
    )
    for rule in rules[:3]:
        console.print(
            f"[dim]`headway policies {escape(rule)}` says what the rule is for, and where its limit stands.[/dim]", soft_wrap=True
        )


def processes(console: Console, found: Sequence[ProcessStatus]) -> None:
    """The sandbox's servers."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("process", "state", "pid", "memory"):
        table.add_column(column)
    for p in found:
        state = "[green]running[/green]" if p.running else "[red]stopped[/red]"
        table.add_row(p.name, state, str(p.pid or "-"), f"{p.memory_bytes / 2**20:.0f} MiB" if p.running else "")
    console.print(table)
