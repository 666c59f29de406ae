"""Where one service's release stands, row by row: weight, step, age, who drives it, and what the gate says. Pure but for
the printing."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from headway.cli.release_view import signal_table
from headway.ledger.traffic_split import ArmRole, TrafficArm
from headway.problem import count
from headway.release import messages
from headway.release.driver.rollout_state import RolloutState, ServiceState
from headway.release.evaluator import drift_words, words
from headway.release.evaluator.after_promotion import AfterPromotion
from headway.release.report.measured import ReleaseFigures

_ROLES = {ArmRole.STABLE: "", ArmRole.BASELINE: "baseline", ArmRole.CANARY: "new"}


class StatusRow(NamedTuple):
    """A name and what there is to say."""

    name: str
    text: str


def standing(
    about: str, service: ServiceState, driver: str | None, now: datetime, since: AfterPromotion | None = None
) -> Iterator[StatusRow]:
    """The rows. `about`: service and environment as commands take them.

    `driver`: whoever holds the ledger lease and lives; None where nobody does. `since`: what is known
    of what serves since its promotion."""
    if service.split is None:
        yield StatusRow("serves", "not in the ledger yet")
        return
    yield StatusRow("serves", ", ".join(_arm(arm) for arm in service.split.ordered))
    if since and (asked := since.answers):
        stands = f"{words.counted(asked)} Last asked {_ago(asked.last, now)} ago. {words.reason(asked)}"
        yield StatusRow("answers", messages.one_line(stands))
    if since and (drift := since.drift):
        yield StatusRow("drift", messages.one_line(f"{drift_words.told(drift)} Last read {_ago(drift.last, now)} ago."))
    rollout = service.rollout
    if rollout is None:
        yield StatusRow("release", "none yet")
        return
    why = f": {messages.one_line(rollout.body['reason'])}" if rollout.body["reason"] else ""
    who = messages.one_line(rollout.actor)
    yield StatusRow("release", f"{rollout.release} against {rollout.stable}, began {_ago(rollout.time, now)} ago, by {who}{why}")
    if rollout.over:
        yield StatusRow("status", f"{rollout.status}, {_ago(rollout.last, now)} ago")
    else:
        held = f": {messages.one_line(rollout.frozen)}" if rollout.status == "held" and rollout.frozen else ""
        yield StatusRow("status", f"{rollout.status}{held}")
        yield StatusRow("step", f"{_step(rollout)}, for {_ago(rollout.changed, now)}")
        nobody = f"nobody drives it; `headway release resume {about}` takes it over"
        yield StatusRow("runner", messages.one_line(driver) if driver else nobody)
    yield StatusRow("says", messages.verdict(rollout))


def show(chain: str, rows: Iterator[StatusRow], rollout: RolloutState | None, figures: ReleaseFigures) -> None:
    """Print them below the service's name, and what was measured of both versions."""
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(f"  {row.name}", escape(row.text))
    console.print(f"[bold]{escape(chain)}[/bold]")
    console.print(table)
    if rollout and rollout.decision and figures.where:
        ticks = count(figures.ticks, "tick")
        console.print(f"  [dim]measured {escape(messages.at_which(figures.where))}, over {ticks} of evidence[/dim]")
        if figures.remark:
            console.print(f"  [dim]{figures.remark}[/dim]")
        console.print(Padding(signal_table(rollout.decision["signals"], figures), (0, 0, 0, 2)))


def _arm(arm: TrafficArm) -> str:
    """`r5678 5 % (new, 2 replicas)`."""
    replicas = "" if arm.replicas is None else count(arm.replicas, "replica")
    more = ", ".join(part for part in (_ROLES[arm.role], replicas) if part)
    return f"{arm.release} {arm.weight.whole_percent} %{f' ({more})' if more else ''}"


def _step(rollout: RolloutState) -> str:
    """`5 % of requests, step 2 of 6`."""
    ladder = len(rollout.plan.traffic) + 1
    at = {"releasing": (rollout.decision or {}).get("stage", 0) + 1, "baking": ladder, "done": ladder}.get(rollout.phase)
    return f"{messages.split(rollout.split)}{f', step {at} of {ladder}' if at else ', being prepared'}"


def _ago(time: str, now: datetime) -> str:
    """`40 s`, `12 min`, `3 h 05 min`, `4 d 02 h`."""
    seconds = max(0, int((now - datetime.fromisoformat(time)).total_seconds()))
    minutes, hours = seconds // 60, seconds // 3600
    if minutes < 1:
        return f"{seconds} s"
    if hours < 1:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60:02d} min" if hours < 48 else f"{hours // 24} d {hours % 24:02d} h"
