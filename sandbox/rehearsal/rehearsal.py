"""One rehearsal: a fault is put in, whoever is on call is told what an alert would tell, the fault is taken out, and what
was true is said.

What has to be put back is on disk before the fault is in (`rehearsal.json` beside the state), so that a rehearsal that was
killed is undone by the next command.
"""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from headway.problem import Exit, UserError
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.rehearsal import pages
from sandbox.rehearsal.bed import RehearsalBed
from sandbox.rehearsal.catalogue import FAULTS, Fault
from sandbox.rehearsal.faults import ACTS
from sandbox.rehearsal.pages import RaisedAlert, ToldCause
from sandbox.traffic import load_process
from sandbox.traffic.load_process import UsersTally

_PERIOD_SECONDS = 2.0
_SETTLED = timedelta(seconds=20)
"""An alert that waits is told in advance once it has held for so long: of several, the one that people hear of first then
leads."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class PutFault:
    """What is in, and how it is taken out."""

    name: str
    at: str
    pid: int
    """Whose rehearsal it is."""
    kept: Mapping[str, Any]


def record_of(layout: Layout) -> Path:
    return layout.state / "rehearsal.json"


def draw(layout: Layout, choose: Callable[[Sequence[str]], str]) -> str:
    """A fault that was no surprise yet since all of them were; never the one before."""
    path = layout.state / "surprises.json"
    had: list[str] = json.loads(path.read_text()) if path.exists() else []
    left = sorted(FAULTS.keys() - set(had))
    if not left:
        had, left = [], sorted(FAULTS.keys() - {had[-1]})
    name = choose(left)
    path.write_text(json.dumps([*had, name]))
    return name


def begin(bed: RehearsalBed, name: str) -> PutFault:
    """Put the fault in. Raises UserError while another one is in."""
    path = record_of(bed.layout)
    if path.exists():
        raise UserError(
            f"The rehearsal of {json.loads(path.read_text())['name']} was not taken out.",
            "Two faults at once would teach nothing; nothing was done.",
            "Run `headway rehearse undo -e sandbox`.",
            Exit.BUSY,
        )
    fault = PutFault(name, datetime.now(UTC).isoformat(timespec="seconds"), os.getpid(), ACTS[name].read(bed))
    path.write_text(json.dumps(asdict(fault)))
    try:
        ACTS[name].put(bed, dict(fault.kept))
    except BaseException:
        undo(bed)
        raise
    return fault


def undo(bed: RehearsalBed, pid: int | None = None) -> str | None:
    """Take out whatever fault is in; its name. With `pid`, only what that process has put in. The record goes last, so that
    an undoing which fails can be repeated."""
    path = record_of(bed.layout)
    found = json.loads(path.read_text()) if path.exists() else None
    if found is None or pid not in (None, found["pid"]):
        return None
    ACTS[found["name"]].undo(bed, found["kept"])
    path.unlink()
    return str(found["name"])


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Watch:
    """Tells each alert once that did not hold `before`, has ended and come again, or that only waited then and fires now; and
    again if people will hear of it sooner than was said. Tells each cause once, too, unless it was `explained` before in the same words."""

    port: int
    before: Mapping[str, RaisedAlert]
    say: Say
    told: dict[str, RaisedAlert]
    gone: bool = False
    clock: Callable[[], datetime] = _now
    alertmanager: int | None = None
    explained: Mapping[str, ToldCause] = field(default_factory=dict[str, ToldCause])
    _said: set[str] = field(default_factory=set[str])

    @classmethod
    def over(cls, layout: Layout, say: Say, clock: Callable[[], datetime] = _now) -> "Watch":
        keeper = Supervisor(layout)
        port, alertmanager = keeper.port("prometheus"), keeper.port("alertmanager")
        before = pages.raised(port) or ()
        if names := ", ".join(sorted({each.name for each in before})):
            say(f"Held before: {names}. Such an alert is told only once it fires or comes again; wait for its end if you want to hear it.")
        explained = {each.key: each for each in pages.causes(alertmanager)}
        return cls(port, {each.key: each for each in before}, say, {}, clock=clock, alertmanager=alertmanager, explained=explained)

    def _is_news(self, alert: RaisedAlert) -> bool:
        was = self.before.get(alert.key)
        return was is None or alert.since > was.since or (alert.firing and not was.firing)

    def once(self) -> None:
        now = pages.raised(self.port)
        if now is None:
            if not self.gone:
                self.say("Prometheus does not answer: no alert can reach anybody now, and the Watchdog falls silent.")
            self.gone = True
            return
        self.gone = False
        settled = (alert for alert in now if alert.firing or self.clock() - alert.since >= _SETTLED)
        for each in pages.once_each(alert for alert in settled if self._is_news(alert)):
            told = self.told.get(each.subject)
            if told is None or each.told_at < told.told_at:  # a shorter window, by which people hear of it sooner
                known = {other.notification for other in self.told.values()}
                self.told[each.subject] = each
                was = self.before.get(each.key)
                earlier = was is not None and each.since <= was.since
                for line in [pages.joined(each, earlier=earlier)] if each.notification in known else pages.page(each, earlier=earlier):
                    self.say(line)
        self._explain()

    def _explain(self) -> None:
        for each in pages.causes(self.alertmanager) if self.alertmanager else ():
            if each != self.explained.get(each.key) and each.key not in self._said:
                self._said.add(each.key)
                for line in each.lines:
                    self.say(line)


def wait(watch: Watch, over: Callable[[float], bool], seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
    """Watch until somebody says so (`over` waits for as many seconds as it is given) or the time is up."""
    deadline = clock() + seconds
    while clock() < deadline:
        watch.once()
        if over(_PERIOD_SECONDS):
            return


def users(layout: Layout) -> Mapping[str, UsersTally]:
    """What users got so far; nothing where the load is away."""
    try:
        return load_process.read(layout)
    except UserError:
        return {}


def truth(
    fault: Fault,
    told: Mapping[str, RaisedAlert],
    before: Mapping[str, UsersTally],
    after: Mapping[str, UsersTally],
    held: Mapping[str, RaisedAlert] | None = None,
) -> list[str]:
    """What was true, in lines for people; `held` are the alerts that held before."""
    lines = [f"What was true: {fault.truth}"]
    names = sorted({each.name for each in told.values()})
    if fault.alert and fault.alert not in names:
        already = any(each.name == fault.alert for each in (held or {}).values())
        when = "held before, so it was not told anew" if already else "would have come later"
        lines.append(f"It had not been told yet: {fault.alert} {when}.")
    lines.append(f"Alerts meanwhile: {', '.join(names)}." if names else "No alert told of it.")
    for model, found in sorted(after.items()):
        was = before.get(model)
        base = was if was and was.began == found.began else UsersTally(sent=0, lost=0, refused=0, p99_ms=None, began=found.began)
        speed = f", p99 {found.p99_ms:.0f} ms" if found.p99_ms is not None else ""
        speed += f" ({was.p99_ms:.0f} ms before)" if speed and was and was.p99_ms is not None else ""
        lost, refused = found.lost - base.lost, found.refused - base.refused
        sent = found.sent - base.sent
        lines.append(f"Users of {model}: {sent:,} request{'s' if sent != 1 else ''}, {lost:,} lost, {refused:,} refused{speed}.")
    asked = [f"headway diagnose {fault.service} -e sandbox"] if fault.cause else []
    shown = [*asked, *fault.shown_by]
    return [*lines, *(["It would have been shown by:"] if shown else []), *(f"  {each}" for each in shown)]
