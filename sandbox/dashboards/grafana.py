"""A dashboard as Grafana reads it, as far as it is drawn here: variables, rows, and panels with their queries. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.bounded_json import bounded_json
from headway.problem import UserError
from sandbox.dashboards.units import UNITS

PREFIX = "headway-"
"""Of every dashboard's uid."""
COLUMNS = 24
"""Of Grafana's grid."""
_CURVES, _NUMBER, _HEADING = "timeseries", "stat", "row"
_ELSEWHERE = {"loki": "Loki", "tempo": "Tempo"}
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


@dataclass(frozen=True, kw_only=True)
class GrafanaQuery:
    """PromQL, and how its series are called; `legend` holds `{{label}}`."""

    expression: str
    legend: str


@dataclass(frozen=True, kw_only=True)
class GrafanaPanel:
    """`number` shows the newest value and no curve. `width` in columns of 24. `store` names what the sandbox lacks, if the panel asks
    that and not Prometheus; it then has no queries."""

    title: str
    meaning: str
    unit: str
    width: int
    number: bool
    queries: tuple[GrafanaQuery, ...]
    store: str | None = None


@dataclass(frozen=True, kw_only=True)
class GrafanaDashboard:
    """`rows` by their titles; `variables` with the value that each has unless somebody chooses."""

    uid: str
    title: str
    variables: Mapping[str, str]
    rows: tuple[tuple[str, tuple[GrafanaPanel, ...]], ...]

    @property
    def panels(self) -> tuple[GrafanaPanel, ...]:
        return tuple(panel for _, panels in self.rows for panel in panels)


def read(text: str) -> GrafanaDashboard:
    """From the JSON that Grafana would read. Raises UserError for what is not drawn here, or is no dashboard."""
    try:
        return _read(bounded_json(text))
    except (ValueError, LookupError, TypeError, AttributeError) as failure:
        raise _not_drawn(f"A dashboard that cannot be read ({type(failure).__name__}: {failure})") from None


def _read(found: Any) -> GrafanaDashboard:
    rows: list[tuple[str, list[GrafanaPanel]]] = []
    for panel in found["panels"]:
        if panel["type"] == _HEADING:
            rows.append((panel["title"], []))
            continue
        if not rows:
            rows.append(("", []))
        rows[-1][1].append(_panel(found["uid"], panel))
    return GrafanaDashboard(
        uid=found["uid"],
        title=found["title"],
        variables={each["name"]: each.get("allValue") or each.get("query", "") for each in found.get("templating", {}).get("list", ())},
        rows=tuple((title, tuple(panels)) for title, panels in rows),
    )


def chosen(expression: str, variables: Mapping[str, str]) -> str:
    """The query with the variables' values in place. Raises UserError for a variable that the dashboard does not have."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise _not_drawn(f"The variable ${match[1]} in {expression}")
        return variables[match[1]]

    return _VARIABLE.sub(value, expression)


def legend(pattern: str, labels: Mapping[str, str], expression: str) -> str:
    """A series' name, by Grafana's `getName` (pkg/promlib/querydata/response.go): a label that it lacks is left empty, and
    without a pattern its name and labels stand there, or else the query."""
    if pattern:
        return re.sub(r"\{\{\s*(.+?)\s*\}\}", lambda match: labels.get(match[1], ""), pattern)
    name, rest = labels.get("__name__", ""), sorted(item for item in labels.items() if item[0] != "__name__")
    if not rest:
        return name or expression
    return f"{name}{{{', '.join(f'{label}={json.dumps(value)}' for label, value in rest)}}}"


def _panel(uid: str, panel: Mapping[str, Any]) -> GrafanaPanel:
    store = _ELSEWHERE.get(panel["datasource"]["type"])
    unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "short")
    if store is None and (panel["type"] not in {_CURVES, _NUMBER} or unit not in UNITS):
        raise _not_drawn(f"The panel {panel['title']!r} of {uid} ({panel['type']}, unit {unit})")
    return GrafanaPanel(
        title=panel["title"],
        meaning=panel.get("description", ""),
        unit=unit,
        width=panel["gridPos"]["w"],
        number=panel["type"] == _NUMBER,
        queries=() if store else _queries(panel["targets"]),
        store=store,
    )


def _queries(targets: Sequence[Mapping[str, Any]]) -> tuple[GrafanaQuery, ...]:
    return tuple(GrafanaQuery(expression=each["expr"], legend=each.get("legendFormat", "")) for each in targets)


def _not_drawn(what: str) -> UserError:
    return UserError(
        f"{what} is not drawn here.",
        "No dashboard was written.",
        "The sandbox draws curves and numbers of Prometheus with the units of sandbox/dashboards/units.py; open others in Grafana.",
    )
