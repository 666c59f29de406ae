"""What a dashboard is here: rows of panels, each with its queries, drawn by Grafana's own types.

The trap: Grafana keeps a dashboard by its `uid`; a changed one is a second dashboard beside the old.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.builders.common import VizLegendOptions
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

PROMETHEUS = DataSourceRef(type_val="prometheus", uid="prometheus")
"""As kube-prometheus-stack names its own."""
WIDTH, HEIGHT = 8, 7
"""Three panels a row of Grafana's 24 columns."""
TENANT_VARIABLE = "tenant"


class Unit(StrEnum):
    """Grafana's names of units."""

    BYTES = "bytes"
    CELSIUS = "celsius"
    HERTZ = "hertz"
    NUMBER = "short"
    PER_SECOND = "reqps"
    SECONDS = "s"
    SHARE = "percentunit"
    TOKENS_PER_SECOND = "tokps"
    WATTS = "watt"


@dataclass(frozen=True, kw_only=True)
class Query:
    """PromQL and how its series are called; `legend` holds Grafana's `{{label}}`."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One question with its answer. `single` shows the newest value as a number."""

    title: str
    queries: tuple[Query, ...]
    unit: Unit = Unit.NUMBER
    meaning: str = ""
    single: bool = False


@dataclass(frozen=True, kw_only=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """`by_tenant` gives it a choice of tenants; its queries then hold `$tenant`."""

    uid: str
    title: str
    rows: tuple[Row, ...]
    tags: tuple[str, ...] = ()
    by_tenant: bool = False

    @property
    def panels(self) -> tuple[Panel, ...]:
        return tuple(panel for row in self.rows for panel in row.panels)

    def json(self) -> str:
        """As Grafana reads it; the same text for the same dashboard."""
        drawn: Any = (
            dashboard.Dashboard(self.title).uid(self.uid).tags(["headway", *self.tags]).readonly().time("now-3h", "now").refresh("30s")
        )
        if self.by_tenant:
            drawn = drawn.with_variable(_tenants())
        for row in self.rows:
            drawn = drawn.with_row(dashboard.Row(row.title))
            for panel in row.panels:
                drawn = drawn.with_panel(_single(panel) if panel.single else _over_time(panel))
        # Through a second reading, because the SDK leaves the order of some sets to chance.
        return json.dumps(json.loads(JSONEncoder(sort_keys=True).encode(drawn.build())), sort_keys=True, separators=(",", ":"))


def panel(title: str, *queries: tuple[str, str] | str, unit: Unit = Unit.NUMBER, meaning: str = "", single: bool = False) -> Panel:
    """A panel of queries, each an expression or an expression with its legend."""
    found = tuple(Query(expression=each) if isinstance(each, str) else Query(expression=each[0], legend=each[1]) for each in queries)
    return Panel(title=title, queries=found, unit=unit, meaning=meaning, single=single)


def row(title: str, *panels: Panel) -> Row:
    return Row(title=title, panels=panels)


def _tenants() -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(TENANT_VARIABLE)
        .label("Tenant")
        .datasource(PROMETHEUS)
        .query("label_values(headway:request_rate, tenant)")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .include_all(include_all=True)
        .all_value(".*")
        .multi(multi=True)
    )


def _targets(queries: Sequence[Query], *, instant: bool) -> list[prometheus.Dataquery]:
    targets: list[prometheus.Dataquery] = []
    for number, query in enumerate(queries):
        target = prometheus.Dataquery().expr(query.expression).legend_format(query.legend).ref_id(chr(ord("A") + number))
        targets.append(target.instant() if instant else target.range())
    return targets


def _single(panel: Panel) -> stat.Panel:
    drawn = stat.Panel().title(panel.title).description(panel.meaning).unit(panel.unit.value).datasource(PROMETHEUS)
    for target in _targets(panel.queries, instant=True):
        drawn = drawn.with_target(target)
    return drawn.span(WIDTH).height(HEIGHT)


def _over_time(panel: Panel) -> timeseries.Panel:
    legend = VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM).show_legend(show_legend=True)
    drawn = timeseries.Panel().title(panel.title).description(panel.meaning).unit(panel.unit.value).datasource(PROMETHEUS).legend(legend)
    for target in _targets(panel.queries, instant=False):
        drawn = drawn.with_target(target)
    return drawn.span(WIDTH).height(HEIGHT)
