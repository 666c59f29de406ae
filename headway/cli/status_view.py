"""How `headway status` looks: a line for each service, or one of them in full; and the same as data. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from headway.cli.release_status import standing
from headway.problem import Problem, printable
from headway.release import messages
from headway.release.driver.rollout_state import ServiceState
from headway.release.evaluator.after_promotion import AfterPromotion
from headway.service_status.present import PresentFigures
from headway.service_status.promises import Promise
from headway.service_status.reading import ServiceView
from headway.service_status.replicas import ServiceStatus

_BURNS = 1.0
"""At this rate an error budget lasts exactly for its window."""
_LATELY = timedelta(hours=1)
"""As far back as promises are measured."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One service in the ledger. `driver`: who drives its release now; `since`: what is known of what serves."""

    service: ServiceState
    driver: str | None
    since: AfterPromotion | None = None


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Everything at one moment. `unmeasured` and `unread`: why figures or releases are missing; empty where they are
    not."""

    environment: str
    services: tuple[ServiceView, ...]
    releases: Mapping[str, Standing]
    present: tuple[PresentFigures, ...]
    """Of one service, where it is shown alone."""
    unmeasured: str
    unread: str
    doubts: tuple[Problem, ...]
    """What its witness says against a chain, or that it says nothing."""
    now: datetime
    alone: bool

    @property
    def ready(self) -> bool:
        return bool(self.services) and all(each.ready for each in self.services)


def drawn(picture: Picture) -> RenderableType:
    """For people."""
    lines: list[RenderableType] = []
    if picture.alone:
        lines += [_full(picture, each) for each in picture.services]
    elif picture.services:
        lines += [f"[bold]{escape(picture.environment)}[/bold]", _table(picture), *_missing(picture)]
    else:
        lines.append(f"Environment {escape(picture.environment)} has no model service.")
    lines += [f"[yellow]No promises: {escape(printable(picture.unmeasured))}.[/yellow]"] if picture.unmeasured else []
    lines += [f"[yellow]No releases: {escape(printable(picture.unread))}.[/yellow]"] if picture.unread else []
    lines += [f"[{'red' if each.blocking else 'yellow'}]{escape(each.brief)}[/]" for each in picture.doubts]
    return Group(*lines)


def document(picture: Picture) -> dict[str, Any]:
    """For programs."""
    return {
        "environment": picture.environment,
        "ready": picture.ready,
        "services": {each.chain: _document(picture, each) for each in picture.services},
        "unmeasured": picture.unmeasured or None,
        "unread": picture.unread or None,
        "doubts": [{"chain": each.subject, **each.record()} for each in picture.doubts],
    }


def _document(picture: Picture, service: ServiceView) -> dict[str, Any]:
    from headway.cli.release_view import summary

    known = picture.releases.get(service.chain)
    rollout = known.service.rollout if known else None
    return {
        "ready": service.ready,
        "addresses": list(service.addresses),
        "weights": dict(service.weights) if service.weights is not None else None,
        "copies": service.copies,
        "replicas": [
            {
                "release": arm.release,
                "arm": arm.arm,
                "wanted": arm.wanted,
                "ready": arm.ready,
                "why": arm.reason or None,
                "pods": [
                    {"name": pod.name, "node": pod.node or None, "ready": pod.ready, "why": pod.reason or None, "ended": pod.ended or None}
                    for pod in arm.pods
                ],
            }
            for arm in service.arms
        ],
        "promises": [promise.document() for promise in service.promises],
        "present": [each.document() for each in picture.present],
        "release": summary(rollout) if rollout else None,
        "links": _links(picture, service),
    }


def _table(picture: Picture) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for column in ("service", "ready", "serves", "promises", "release"):
        table.add_column(column, no_wrap=column in ("service", "ready", "serves"), overflow="fold")
    for service in picture.services:
        serves = escape("\n".join(_serves(service)))
        cells = (_ready(service), serves, _promised(service.promises), escape(_release(picture, service)))
        table.add_row(escape(service.chain), *cells)
    return table


def _missing(picture: Picture) -> Iterator[str]:
    """A line for each arm that lacks a replica, and for each pod of which a container ended in the last hour and runs again."""
    for service in picture.services:
        for arm in service.arms:
            who = f"{escape(service.chain)} {escape(_named(arm))}"
            if arm.reason:
                yield f"  [red]{who}[/red]: {escape(arm.reason)}"
            lately = (pod for pod in arm.pods if pod.ended_at and picture.now - pod.ended_at < _LATELY)
            yield from (f"  [yellow]{who}[/yellow]: {escape(pod.name)}: {escape(pod.ended)}" for pod in lately)


def _full(picture: Picture, service: ServiceView) -> RenderableType:
    rows = Table(box=None, pad_edge=False, show_header=False)
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(overflow="fold")
    rows.add_row("  address", ", ".join(map(escape, service.addresses)) or "[dim]none: it has no route[/dim]")
    rows.add_row("  serves", escape(", ".join(_serves(service))))
    rows.add_row("  replicas", _replicas(service))
    rows.add_row("  promises", Group(*(_promise(each) for each in service.promises)) if service.promises else "[dim]not measured[/dim]")
    if picture.present:
        rows.add_row("  now", Group(*(present(each) for each in picture.present)))
    known = picture.releases.get(service.chain)
    if known:
        for row in standing(f"{service.chain} -e {picture.environment}", known.service, known.driver, picture.now, known.since):
            if row.name != "serves":
                rows.add_row(f"  {row.name}", escape(row.text))
    for name, address in _links(picture, service).items():
        rows.add_row(f"  {name}", escape(address))
    return Group(f"[bold]{escape(service.chain)}[/bold] in {escape(picture.environment)}", rows)


def _replicas(service: ServiceView) -> RenderableType:
    """Arms, and below each its pods."""
    if not service.arms:
        return "[red]not deployed[/red]"
    tree = Tree("", hide_root=True)
    for arm in service.arms:
        colour = "green" if arm.ready >= arm.wanted else "red"
        branch = tree.add(f"{escape(_named(arm))} [{colour}]{arm.ready} of {arm.wanted} ready[/]")
        for pod in arm.pods:
            where = f"{escape(pod.name)} [dim]{escape(pod.node or 'on no node')}[/dim]"
            leaf = branch.add(f"{where} [green]ready[/green]" if pod.ready else f"{where} [red]{escape(pod.reason)}[/red]")
            if pod.ended:
                leaf.add(f"[yellow]{escape(pod.ended)}[/yellow]")
        if arm.reason and not any(pod.reason for pod in arm.pods):
            branch.add(f"[red]{escape(arm.reason)}[/red]")
    return tree


def _named(arm: ServiceStatus) -> str:
    return f"{arm.release} ({arm.arm})" if arm.arm else arm.release


def _ready(service: ServiceView) -> str:
    ready, wanted = sum(arm.ready for arm in service.arms), sum(arm.wanted for arm in service.arms)
    if not service.arms:
        return "[red]not deployed[/red]"
    return f"[{'green' if service.ready else 'red'}]{ready}/{wanted}[/]"


def _serves(service: ServiceView) -> tuple[str, ...]:
    """`r1234 95 %`, `r5678 5 %`; arms that get nothing are left out while another one does."""
    if service.weights is None:
        return ("no route",)
    shares = (f"{key} {weight} %" for key, weight in service.weights.items() if weight)
    return (*shares, *([f"copies of {service.copies} %"] if service.copies else []))


def _promised(promises: tuple[Promise, ...]) -> str:
    """The one that burns fastest."""
    if not promises:
        return "[dim]not measured[/dim]"
    worst = max(promises, key=lambda each: each.burn)
    if worst.burn <= _BURNS:
        return f"[green]kept[/green] [dim]burns {times(worst.burn)}[/dim]"
    return f"[red]{escape(worst.objective)} burns {times(worst.burn)}[/red]"


def _promise(promise: Promise) -> str:
    colour = "green" if promise.burn <= _BURNS else "red"
    return (
        f"{escape(promise.objective)}: {100 * promise.broken:.3g} % of requests broke it in the last hour, "
        f"{100 * promise.allowed:.3g} % may: [{colour}]burns {times(promise.burn)}[/]"
    )


def present(figures: PresentFigures) -> str:
    """What a version does now, in a line: signals are recorded over `DEFAULT_WINDOW`. The mesh counts and times what its gateway refuses, too."""
    failing = "" if figures.errors is None else f", {100 * figures.errors:.3g} % fail"
    slow = "" if figures.p99 is None else f", p99 {_time(figures.p99)}{' with these' if figures.refused else ''}"
    means = {"in the queue": figures.queue, "in the model": figures.compute}
    where = " and ".join(f"{_time(seconds)} {place}" for place, seconds in means.items() if seconds is not None)
    shares = ((100 * rate / max(figures.rate, rate), code) for code, rate in figures.refused)
    refused = "".join(f", {share:.3g} % refused with {code}" for share, code in shares)
    asked = f"{escape(figures.release)}: {figures.rate:.3g} requests a second in the last minute{refused}{failing}{slow}"
    return f"{asked}{f'; on average {where}' if where else ''}"


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _release(picture: Picture, service: ServiceView) -> str:
    known = picture.releases.get(service.chain)
    rollout = known.service.running if known else None
    if known is None:
        return ""
    return f"{rollout.release} {rollout.status}: {messages.split(rollout.split)}" if rollout else "none"


def _links(picture: Picture, service: ServiceView) -> Mapping[str, str]:
    """Where to read on; a report only where there was a release, or nobody could read whether there was."""
    known = picture.releases.get(service.chain)
    if known and not known.service.all:
        return service.links
    return {**service.links, "report": f"headway release report {service.chain} -e {picture.environment}"}


def times(burn: float) -> str:
    """Two figures, and a large one whole: nobody reads 1.2e+02."""
    return f"{burn:.0f}x" if burn >= 10 else f"{burn:.2g}x"
