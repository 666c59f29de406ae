"""How a release looks: live on a terminal, a line an event in a log, an object a line for machines; and tables of what
was."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live as Screen
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headway.ledger.events import Event
from headway.ledger.traffic_split import ArmRole
from headway.problem import printable
from headway.release import messages
from headway.release.driver.event_kinds import EventKind, ReleaseOutcome
from headway.release.driver.rollout_state import RolloutState, ServiceState
from headway.release.evaluator.after_promotion import AfterPromotion
from headway.release.notify import Webhook
from headway.release.plan import StepKind
from headway.release.report import measured
from headway.release.report.measured import MeasuredSignal, ReleaseFigures
from headway.timestamp import rfc3339

BAR_CELLS = 12
WIDE_COLUMNS = 120
"""Terminals narrower than this get no bars, so that no row is folded."""
LAST_LINES = 7
_LONG_NUMBER = 1_000_000
_COLOURS = {"FAIL": "red", "PASS": "green", "CONTINUE": "default", "NO_DATA": "yellow"}
_OUTCOMES = {
    ReleaseOutcome.PROMOTED: "green",
    ReleaseOutcome.ROLLED_BACK: "red",
    ReleaseOutcome.OUT_OF_TIME: "yellow",
    ReleaseOutcome.REFUSED: "yellow",
}


class ReleaseView:
    """What all have in common: they hear of events, and may tell a webhook. Whoever joins late is shown the whole release,
    and the webhook is told of what is new."""

    def __init__(self, chain: str, hook: Webhook | None) -> None:
        self.chain, self.hook = chain, hook
        self._first = 0
        self._figures = ReleaseFigures()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def follows(self, rollout: RolloutState) -> None:
        """Show this release from its beginning; what was before it is in `history` and `report`."""
        self._first = rollout.number

    def told(self, event: Event, service: ServiceState) -> None:
        if event.number < self._first:
            return
        self._figures = measured.after(self._figures, event)
        if self.hook and _fresh(event):
            self.hook.tell(event, service)
        self.show(event, service)

    def show(self, event: Event, service: ServiceState) -> None:
        raise NotImplementedError

    def say(self, text: str) -> None:
        raise NotImplementedError

    def ended(self, rollout: RolloutState) -> None:
        raise NotImplementedError


class LogView(ReleaseView):
    """For logs: what happened, when. Ticks that say nothing new are left out."""

    def __init__(self, chain: str, hook: Webhook | None) -> None:
        super().__init__(chain, hook)
        self._console, self._last = Console(highlight=False, soft_wrap=True), ""

    def show(self, event: Event, service: ServiceState) -> None:
        text = messages.said(event)
        if text is None or (event.kind == EventKind.OBSERVED and text == self._last):
            return
        self._last = text
        figures = measured.nearest(self._figures, event.body["decision"]) if event.kind == EventKind.OBSERVED else ""
        self._console.print(f"[dim]{event.time[11:19]}Z[/dim] {escape(text)}{f' [dim]{escape(figures)}[/dim]' if figures else ''}")

    def say(self, text: str) -> None:
        self._console.print(escape(printable(text)))

    def ended(self, rollout: RolloutState) -> None:
        self._console.print(f"[bold {_OUTCOMES.get(rollout.outcome, 'default')}]{escape(messages.verdict(rollout))}[/]")  # type: ignore[arg-type]


class JsonView(ReleaseView):
    """For machines: each event as it is stored, then the summary."""

    def show(self, event: Event, service: ServiceState) -> None:
        if event.kind not in (EventKind.LEASE, EventKind.LEASE_RELEASED):
            print(json.dumps({"event": event.kind, "number": event.number, "time": event.time, "actor": event.actor, "body": event.body}))

    def say(self, text: str) -> None:
        print(json.dumps({"note": text}))

    def ended(self, rollout: RolloutState) -> None:
        print(json.dumps({"end": summary(rollout)}))


class TerminalView(ReleaseView):
    """For people: where it is, what each signal says, what happened last."""

    def __init__(self, chain: str, hook: Webhook | None) -> None:
        super().__init__(chain, hook)
        self._console = Console(highlight=False)
        self._service = ServiceState()
        self._said: Sequence[StoryLine] = ()
        self._screen = Screen(console=self._console, refresh_per_second=4, get_renderable=self._render, transient=True)

    def __enter__(self) -> Self:
        self._screen.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.stop()

    def show(self, event: Event, service: ServiceState) -> None:
        if not self._screen.is_started:  # a release that was superseded has ended on this terminal, and the next one begins
            self._screen.start()
        self._service = service
        self._said = heard(self._said, event)[-LAST_LINES:]

    def say(self, text: str) -> None:
        self._console.print(escape(printable(text)))

    def ended(self, rollout: RolloutState) -> None:
        self._screen.stop()
        self._console.print(panel(self.chain, rollout, self._said, self._figures, self._console.width))

    def _render(self) -> RenderableType:
        rollout = self._service.rollout
        return (
            fitting(self._console, self.chain, rollout, self._said, self._figures)
            if rollout
            else Text("Reading the ledger ...", style="dim")
        )


@dataclass(frozen=True)
class StoryLine:
    """A line of what happened. Ticks that say the same, one after the other, are one line: the first and the newest of
    them."""

    first: Event
    last: Event
    times: int = 1

    def __str__(self) -> str:
        text = messages.said(self.last) or ""
        if self.times == 1:
            return text
        minutes = (datetime.fromisoformat(self.last.time) - datetime.fromisoformat(self.first.time)).total_seconds() / 60
        so_far = messages.evidence(self.last.body["decision"])
        return f"{text} {self.times} ticks in {minutes:.1f} min{f'; {so_far}' if so_far else ''}."


def heard(lines: Sequence[StoryLine], event: Event) -> tuple[StoryLine, ...]:
    """The lines with one more event."""
    text = messages.said(event)
    if text is None:
        return tuple(lines)
    last = lines[-1] if lines else None
    if last and event.kind == last.last.kind == EventKind.OBSERVED and text == messages.said(last.last):
        return (*lines[:-1], StoryLine(last.first, event, last.times + 1))
    return (*lines, StoryLine(event, event))


def fitting(
    console: Console, chain: str, rollout: RolloutState, said: Sequence[StoryLine], figures: ReleaseFigures | None = None
) -> RenderableType:
    """The picture with as many of the last lines as the terminal has room for; what happened last is always seen."""
    found = panel(chain, rollout, said, figures, console.width)
    while len(said) > 1 and len(console.render_lines(found)) >= console.height:
        said = said[1:]
        found = panel(chain, rollout, said, figures, console.width)
    return found


def panel(
    chain: str, rollout: RolloutState, said: Sequence[StoryLine], figures: ReleaseFigures | None = None, columns: int = WIDE_COLUMNS
) -> RenderableType:
    """The whole picture of one release, for a terminal of so many columns."""
    colour = _OUTCOMES.get(rollout.outcome, "cyan") if rollout.outcome else "red" if rollout.failing else "cyan"
    head = Text.from_markup(f"[bold]{rollout.release}[/bold] against {rollout.stable}   {_ladder(rollout)}")
    lines: list[RenderableType] = [head, Text(messages.verdict(rollout), style=f"bold {colour}"), Text()]
    if rollout.decision:
        cells = BAR_CELLS if columns >= WIDE_COLUMNS else 0
        lines.append(signal_table(rollout.decision.get("signals", {}), figures or ReleaseFigures(), cells))
        lines += [Text(figures.remark, style="dim")] if figures and figures.remark else []
        lines.append(Text())
    for line in said:
        lines.append(Text.from_markup(f"[dim]{line.first.time[11:19]}Z[/dim] {escape(str(line))}"))
    return Panel(Group(*lines), title=f"{chain} · {rollout.status}", title_align="left", border_style=colour)


def _ladder(rollout: RolloutState) -> str:
    """Rungs of the plan, the one of now marked."""
    users = " of users" if rollout.user_split else ""
    rungs = [
        f"copies {step.mirror.whole_percent} %" if step.mirror else f"{step.weight.whole_percent} %{users}" for step in rollout.plan.traffic
    ] + [f"{rollout.plan.one(StepKind.BAKE).weight.whole_percent} %", "done"]
    decision = rollout.decision or {}
    phase = decision.get("phase", "preparing")
    at = {"releasing": decision.get("stage", -1), "baking": len(rungs) - 2, "done": len(rungs) - 1}.get(str(phase), -1)
    marked = [f"[bold reverse] {r} [/]" if i == at else f"[green]{r}[/]" if i < at else f"[dim]{r}[/]" for i, r in enumerate(rungs)]
    return " → ".join(marked)


def signal_table(signals: Mapping[str, Mapping[str, Any]], figures: ReleaseFigures, cells: int = 0) -> Table:
    """A row for each signal: what it says, both versions' figure with the limit (in brackets: the stable version's of an
    earlier step), and the evidence; bars of so many cells."""
    known = measured.signals(figures)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("signal", overflow="fold")
    table.add_column("says", no_wrap=True)
    for column in ("new", "stable", "limit", "n"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("against it", "proof"):
        table.add_column(column, no_wrap=True)
    for name, signal in signals.items():
        colour = _COLOURS[signal["verdict"]]
        says = f"[{colour}]{signal['verdict'].replace('_', ' ').lower()}[/]"
        against = _evidence(signal["evidence"], signal["bound"], "red", cells)
        proof = _evidence(signal["proof"], signal["proof_bound"], "green", cells)
        one = known.get(name)
        told = f" [dim]{one.figure}[/dim]" if one and (cells or one.figure.startswith("p")) else ""
        table.add_row(f"{name}{told}", says, *(_values(one) if one else [""] * 4), against, proof)
    return table


def _values(signal: MeasuredSignal) -> tuple[str, str, str, str]:
    stable = signal.said(signal.stable)
    n = "" if signal.n is None else f"{signal.n:,}" if signal.n < _LONG_NUMBER else f"{signal.n / 1e6:.2f} M"
    return signal.said(signal.new), f"({stable})" if signal.earlier else stable, signal.said(signal.limit), n


def _evidence(value: float | str | None, bound: float | str, colour: str, cells: int) -> str:
    bar = _bar(value, bound, colour, cells) if cells else ""
    return " ".join(part for part in (bar, _figure(value, bound)) if part)


def _bar(value: float | str | None, bound: float | str, colour: str, of: int) -> str:
    if value is None:
        return ""
    cells = round(messages.reach(value, bound) * of)
    return f"[{colour}]{'━' * cells}[/][dim]{'─' * (of - cells)}[/]"


def _figure(value: float | str | None, bound: float | str) -> str:
    return "" if value is None else f"[dim]{messages.of_bound(value, bound)}[/]"


def summary(rollout: RolloutState) -> dict[str, Any]:
    """One release as data."""
    return {
        "release": rollout.release,
        "stable": rollout.stable,
        "status": rollout.status,
        "outcome": str(rollout.outcome) if rollout.outcome else None,
        "verdict": messages.verdict(rollout),
        "weight": rollout.split.weight(rollout.release, ArmRole.CANARY).whole_percent if not rollout.over else None,
        "experiment": experiment(rollout),
        "frozen": rollout.frozen,
        "started": rollout.time,
        "actor": rollout.actor,
        "commit": rollout.body["commit"],
        "reason": rollout.body["reason"],
        "last": rollout.last,
        "ticks": rollout.ticks,
        "unproven_steps": (rollout.decision or {}).get("unproven", 0),
        "speed": rollout.body["speed"],
        "reconciled": rollout.ended["reconciled"] if rollout.ended else None,
    }


def experiment(rollout: RolloutState) -> dict[str, Any] | None:
    """How an A/B release divides users, as data; None for any other."""
    user_split, ends = rollout.user_split, rollout.users_end
    if user_split is None:
        return None
    times = {"since": rollout.users_since, "ends": rfc3339(ends, "milliseconds") if ends else None}
    return {**user_split.document(), **times, "running": rollout.divided and not rollout.over, "due": rollout.due}


def document(service: ServiceState, figures: ReleaseFigures | None = None, since: AfterPromotion | None = None) -> dict[str, Any]:
    """One service as data."""
    known = {name: one.document() for name, one in measured.signals(figures).items()} if figures else {}
    return {
        "stable": service.stable,
        "routes": service.split.percentages if service.split else {},
        "driven_by": service.lease["holder"] if service.lease else None,
        "release": {**summary(service.rollout), "measured": known} if service.rollout else None,
        **(since or AfterPromotion()).document(),
        "events": service.count,
    }


def overview(by_chain: Mapping[str, ServiceState]) -> None:
    """All services: a line each."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("service", "serves", "release", "status", "says"):
        table.add_column(column, overflow="fold")
    for chain, service in sorted(by_chain.items()):
        rollout = service.rollout
        if service.split is None:
            table.add_row(chain, "[dim]not in the ledger yet[/]", "", "", "")
        elif rollout is None:
            table.add_row(chain, service.stable or "", "[dim]none yet[/]", "", "")
        else:
            says = messages.verdict(rollout)
            table.add_row(chain, service.stable or "", rollout.release, rollout.status, escape(says))
    Console(highlight=False).print(table)


def past(chain: str, rollouts: Sequence[RolloutState]) -> None:
    """All releases of a service, oldest first, numbered as `report --number` wants them; below each who began it, and why it
    ended so."""
    if not rollouts:
        Console(highlight=False).print(f"{chain} has had no release yet.")
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for number, rollout in enumerate(rollouts, 1):
        colour = _OUTCOMES.get(rollout.outcome, "cyan") if rollout.outcome else "cyan"
        when = rollout.time[:16].replace("T", " ")
        reason = f": {messages.one_line(str(rollout.body['reason']))}" if rollout.body["reason"] else ""
        by = escape(f"by {messages.one_line(rollout.actor)}{reason}")
        table.add_row(str(number), f"[bold]{rollout.release}[/bold] against {rollout.stable}, {when}Z, [{colour}]{rollout.status}[/]")
        table.add_row("", f"[dim]{by}[/dim]")
        table.add_row("", escape(messages.one_line(messages.why(rollout))))
    Console(highlight=False).print(table)


_STARTED = datetime.now(UTC)


def _fresh(event: Event) -> bool:
    """Whether it happened since this command began."""
    return (datetime.fromisoformat(event.time) - _STARTED).total_seconds() > -1
