"""The index of runbooks: every page of `docs/runbooks/`, by where it hurts and how urgent it is.

`python -m components.observability.runbook_index > docs/runbooks/README.md` writes it anew.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from components.observability.alert import AlertSeverity, FailureLayer
from components.observability.alerts import ALERTS

FOLDER = Path(__file__).parents[2] / "docs" / "runbooks"
INDEX = "README.md"
OF_TENANTS = {
    "slo-burn-rate.md": (FailureLayer.REQUEST, "page or ticket"),
    "tenant-over-budget.md": (FailureLayer.REQUEST, AlertSeverity.TICKET.value),
    "tenant-tokens-above-quota.md": (FailureLayer.REQUEST, AlertSeverity.TICKET.value),
    "release-stuck.md": (FailureLayer.DEPLOYMENT, AlertSeverity.TICKET.value),
}
"""Alerts that tenants' and models' own rules raise."""


def markdown(pages: Mapping[str, str]) -> str:
    """The index of `pages`, texts by file name."""
    alerts = {alert.runbook: (alert.layer, alert.severity.value) for alert in ALERTS} | OF_TENANTS
    lines = ["# Runbooks", "", "An alert's `runbook_url` leads to its page.", "", "| where | page | told by |", "|---|---|---|"]
    for layer in FailureLayer:
        told = {name: by for name, (where, by) in sorted(alerts.items()) if where is layer}
        lines += [f"| {layer.value} | {_link(name, pages)} | {by} |" for name, by in told.items()]
    lines += [f"| | {_link(name, pages)} | no alert |" for name in _others(pages, alerts)]
    return "\n".join(lines) + "\n"


def read(folder: Path = FOLDER) -> dict[str, str]:
    """All runbooks, by file name."""
    return {page.name: page.read_text(encoding="utf-8") for page in sorted(folder.glob("*.md")) if page.name != INDEX}


def _others(pages: Mapping[str, str], alerts: Mapping[str, object]) -> Iterator[str]:
    return (name for name in sorted(pages) if name not in alerts)


def _link(name: str, pages: Mapping[str, str]) -> str:
    return f"[{pages[name].partition(chr(10))[0].removeprefix('# ')}]({name})"


if __name__ == "__main__":
    sys.stdout.write(markdown(read()))
