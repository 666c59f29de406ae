"""What Prometheus answers to a dashboard's queries: each panel with its series over a span of time."""

import http.client
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from headway.problem import UserError
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.dashboards.grafana import GrafanaDashboard, GrafanaPanel, chosen, legend

MOST_POINTS = 240
"""Of a curve. More would not be seen."""
LEAST_STEP = 15.0
"""Seconds: Grafana's own least interval of a Prometheus data source."""
_EXPORTERS = (
    ("kube_", "kube-state-metrics"),
    ("DCGM_", "the DCGM exporter"),
    ("node_", "the node exporter"),
    ("container_", "cAdvisor"),
    ("cluster_autoscaler_", "the Cluster Autoscaler"),
    ("headway:gpu_activity", "the DCGM exporter"),
)


@dataclass(frozen=True, kw_only=True)
class TimeSpan:
    """From `start` to `end` in Unix seconds."""

    start: float
    end: float

    @property
    def step(self) -> float:
        """Seconds between two points."""
        return max(LEAST_STEP, math.ceil((self.end - self.start) / MOST_POINTS))


@dataclass(frozen=True, kw_only=True)
class DrawnSeries:
    """Points of (Unix seconds, value) in order; a value may be no number."""

    name: str
    points: tuple[tuple[float, float], ...]

    def newest(self, span: TimeSpan) -> float | None:
        """None where the series ended before the span does, or its newest value is no number."""
        at, value = self.points[-1]
        return value if span.end - at <= 2 * span.step and math.isfinite(value) else None


@dataclass(frozen=True, kw_only=True)
class AnsweredPanel:
    """Its series, the one with the highest newest value first, and last those without; or `missing`, the reason why it has none."""

    panel: GrafanaPanel
    series: tuple[DrawnSeries, ...]
    missing: str = ""


def ask(port: int, dashboard: GrafanaDashboard, span: TimeSpan, variables: Mapping[str, str]) -> dict[GrafanaPanel, AnsweredPanel]:
    """Every panel's answer. Raises UserError where Prometheus does not answer, or refuses a query."""
    values = {**dashboard.variables, **variables}
    return {panel: _answered(port, panel, span, values) for panel in dashboard.panels}


def series_of(result: Iterable[Mapping[str, Any]], pattern: str, expression: str) -> list[DrawnSeries]:
    """From the `result` of a range query."""
    found: list[DrawnSeries] = []
    for each in result:
        points = tuple((float(at), float(value)) for at, value in each["values"])
        found.append(DrawnSeries(name=legend(pattern, each["metric"], expression), points=points))
    return found


def why_empty(panel: GrafanaPanel) -> str:
    """Why a panel has no series: what the sandbox lacks, as far as its queries tell."""
    if panel.store:
        return f"The sandbox does not run {panel.store}."
    text = " ".join(query.expression for query in panel.queries)
    lacks = sorted({exporter for prefix, exporter in _EXPORTERS if re.search(rf"(?<![\w:]){prefix}", text)})
    if lacks:
        return f"Nothing has sent these series; in a cluster {' and '.join(lacks)} would."
    return "No series: nothing of the kind has happened in this time."


def _answered(port: int, panel: GrafanaPanel, span: TimeSpan, values: Mapping[str, str]) -> AnsweredPanel:
    found: list[DrawnSeries] = []
    for query in panel.queries:
        found += series_of(_range(port, chosen(query.expression, values), span), query.legend, query.expression)
    found.sort(key=lambda each: (each.newest(span) is None, -(each.newest(span) or 0.0), each.name))
    return AnsweredPanel(panel=panel, series=tuple(found), missing="" if found else why_empty(panel))


def _range(port: int, expression: str, span: TimeSpan) -> list[dict[str, Any]]:
    query = urlencode({"query": expression, "start": f"{span.start:.3f}", "end": f"{span.end:.3f}", "step": f"{span.step:g}"})
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    try:
        answer = LoopbackEndpoint(port=port).call("POST", "/api/v1/query_range", query, form)
    except (OSError, http.client.HTTPException) as failure:
        raise UserError(
            f"Prometheus does not answer ({failure}).",
            "No dashboard was written.",
            "`headway sandbox status` says whether it runs; `headway sandbox up --with monitoring` starts it.",
        ) from None
    document = json.loads(answer.body)
    if document["status"] != "success":
        raise UserError(
            f"Prometheus refuses the query {expression}: {document.get('error', answer.status)}.",
            "No dashboard was written.",
            "Mend the query in components/observability, and deploy the platform layer again.",
        )
    return document["data"]["result"]
