"""A release in a few lines of Markdown, as a GitHub step shows them."""

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from headway.ledger.events import Event
from headway.problem import in_code
from headway.release import messages
from headway.release.driver.event_kinds import EventKind, ReleaseOutcome
from headway.release.driver.rollout_state import RolloutState
from headway.release.report import diagnosed, measured, token_figures
from headway.release.report.page import about
from headway.release.report.token_figures import TokenSums

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""File that a GitHub step's Markdown goes to (GitHub Actions, workflow commands)."""
_MARKS = {ReleaseOutcome.PROMOTED: "✅", ReleaseOutcome.ROLLED_BACK: "⛔", ReleaseOutcome.OUT_OF_TIME: "⌛", ReleaseOutcome.REFUSED: "⚠️"}
_LAST = 6


def markdown(chain: str, rollout: RolloutState, events: Sequence[Event]) -> str:
    """Verdict, signals, difference, last events."""
    mark = _MARKS[rollout.outcome] if rollout.outcome else "⏳"
    lines = [f"### {mark} {chain}: {rollout.status}", "", escape(messages.verdict(rollout), quote=False), ""]
    lines += [f"Release `{rollout.release}` against `{rollout.stable}`, {rollout.ticks} ticks of evidence."]
    if rollout.body["speed"] != 1:
        lines += [f"This release ran in a sandbox, where minutes passed {rollout.body['speed']:g} times as fast as the contract says."]
    signals = (rollout.decision or {}).get("signals", {})
    if signals:
        known = measured.figures_of(about(rollout, events))
        figures = measured.signals(known)
        lines += ["", "| signal | verdict | measured | evidence against the new version | proof for it |", "|---|---|---|---|---|"]
        for name, signal in signals.items():
            against = messages.of_bound(signal["evidence"] or 0, signal["bound"])
            proof = "" if signal["proof"] is None else messages.of_bound(signal["proof"], signal["proof_bound"])
            says = signal["verdict"].replace("_", " ").lower()
            found = f"{figures[name].figure} {figures[name].text}" if name in figures else ""
            lines.append(f"| {name} | {says} | {found} | {against} | {proof} |")
        if remark := token_figures.remark(known.tokens.get("new", TokenSums()), known.control_tokens):
            lines += ["", remark]
    lines += diagnosed.markdown(rollout)
    changes = rollout.body["difference"]["changes"]
    if changes:
        lines += ["", "| field | before | now |", "|---|---|---|"]
        lines += [f"| {_cell(c['path'])} | {_cell(c['old'])} | {_cell(c['new'])} |" for c in changes]
    told = [
        f"- {e.time[11:19]}Z {escape(messages.said(e) or '', quote=False)}"
        for e in about(rollout, events)
        if e.kind != EventKind.OBSERVED and messages.said(e)
    ]
    return "\n".join([*lines, "", *told[-_LAST:]]) + "\n"


def append(text: str, environment: Mapping[str, str] = os.environ) -> None:
    """Add it to the summary of the GitHub step that runs this, if one does."""
    path = environment.get(STEP_SUMMARY)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)


def _cell(value: str | None) -> str:
    """As code, which nothing in it ends."""
    return "" if value is None else in_code(messages.one_line(value))
