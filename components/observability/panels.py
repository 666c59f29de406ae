"""What a dashboard is here: rows of panels, each with its queries, drawn by Grafana's own types.

A panel of metrics whose series say whose they are leads to the requests behind it (`links.py`). The trap: Grafana
keeps a dashboard by its `uid`; a changed one is a second dashboard beside the old.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from grafana_foundation_sdk.builders import dashboard, logs, loki, prometheus, stat, table, tempo, timeseries
from grafana_foundation_sdk.builders.common import VizLegendOptions
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import DashboardLinkType, DataSourceRef, DynamicConfigValue, VariableRefresh

from components.observability import links
from headway.wire import RELEASE_STATE, TRAIL

PROMETHEUS = DataSourceRef(type_val="prometheus", uid="prometheus")
"""As kube-prometheus-stack names its own."""
LOKI, TEMPO = DataSourceRef(type_val="loki", uid="loki"), DataSourceRef(type_val="tempo", uid="tempo")
"""As `components.addons.prometheus` names them."""
WIDTH, HEIGHT = 8, 7
"""Three panels a row of Grafana's 24 columns."""
WIDE, HIGH = 24, 12
"""A panel of lines."""
HALF = 12
TENANT_VARIABLE = "tenant"


class PanelUnit(StrEnum):
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


class PanelSource(StrEnum):
    """Where a panel's answer comes from; it decides how the panel is drawn."""

    METRICS = "metrics"
    LOGS = "logs"
    LOG_RATES = "log rates"
    """Curves that are counted from lines when somebody looks."""
    TRACES = "traces"
    """A list of them."""
    TRACE = "trace"
    """One, by its id."""


@dataclass(frozen=True, kw_only=True)
class Query:
    """PromQL and how its series are called; `legend` holds Grafana's `{{label}}`. LogQL and TraceQL have no legend."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One question with its answer. `single` shows the newest value as a number."""

    title: str
    queries: tuple[Query, ...]
    unit: PanelUnit = PanelUnit.NUMBER
    meaning: str = ""
    single: bool = False
    store: PanelSource = PanelSource.METRICS


@dataclass(frozen=True, kw_only=True)
class PanelRow:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """`by_tenant` gives it a choice of tenants; its queries then hold `$tenant`. `asked` are other variables, typed in,
    with their defaults.

    `about` is what every series of it belongs to, by name of the trail's variable.
    """

    uid: str
    title: str
    rows: tuple[PanelRow, ...]
    tags: tuple[str, ...] = ()
    by_tenant: bool = False
    asked: tuple[tuple[str, str], ...] = ()
    about: Mapping[str, str] = field(default_factory=dict[str, str])

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
        if whose := self._whose():
            drawn = drawn.annotation(_releases(whose))
        for name, default in self.asked:
            drawn = drawn.with_variable(dashboard.TextBoxVariable(name).label(name.capitalize()).default_value(default))
        for row in self.rows:
            drawn = drawn.with_row(dashboard.Row(row.title))
            for panel in row.panels:
                drawn = drawn.with_panel(self._drawn(panel))
        # Through a second reading, because the SDK leaves the order of some sets to chance.
        return json.dumps(json.loads(JSONEncoder(sort_keys=True).encode(drawn.build())), sort_keys=True, separators=(",", ":"))

    def _whose(self) -> str:
        """Of whose releases it tells; empty where it knows no tenant."""
        if self.by_tenant:
            return f'{TENANT_VARIABLE}=~"${TENANT_VARIABLE}"'
        return ",".join(f'{name}="{self.about[name]}"' for name in ("tenant", "model") if "tenant" in self.about and name in self.about)

    def _drawn(self, panel: Panel) -> Any:
        if panel.store is not PanelSource.METRICS:
            return _OTHERS[panel.store](panel)
        if panel.single:
            return _single(panel)
        return _over_time(panel, links.address((query.legend for query in panel.queries), self.about))


def panel(
    title: str,
    *queries: tuple[str, str] | str,
    unit: PanelUnit = PanelUnit.NUMBER,
    meaning: str = "",
    single: bool = False,
    store: PanelSource = PanelSource.METRICS,
) -> Panel:
    """A panel of queries, each an expression or an expression with its legend."""
    found = tuple(Query(expression=each) if isinstance(each, str) else Query(expression=each[0], legend=each[1]) for each in queries)
    return Panel(title=title, queries=found, unit=unit, meaning=meaning, single=single, store=store)


def row(title: str, *panels: Panel) -> PanelRow:
    return PanelRow(title=title, panels=panels)


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


def _targets(panel: Panel, *, instant: bool) -> list[prometheus.Dataquery]:
    """A curve without a legend is called as the panel: Grafana would write out its query."""
    targets: list[prometheus.Dataquery] = []
    for number, query in enumerate(panel.queries):
        target = prometheus.Dataquery().expr(query.expression).legend_format(query.legend or panel.title).ref_id(chr(ord("A") + number))
        targets.append(target.instant() if instant else target.range())
    return targets


def _single(panel: Panel) -> stat.Panel:
    drawn = stat.Panel().title(panel.title).description(panel.meaning).unit(panel.unit.value).datasource(PROMETHEUS)
    for target in _targets(panel, instant=True):
        drawn = drawn.with_target(target)
    return drawn.span(WIDTH).height(HEIGHT)


def _over_time(panel: Panel, leads_to: str | None) -> timeseries.Panel:
    legend = VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM).show_legend(show_legend=True)
    drawn = timeseries.Panel().title(panel.title).description(panel.meaning).unit(panel.unit.value).datasource(PROMETHEUS).legend(legend)
    for target in _targets(panel, instant=False):
        drawn = drawn.with_target(target)
    if leads_to is not None:
        drawn = drawn.data_links([_link(links.TITLE, leads_to)])
    return drawn.span(WIDTH).height(HEIGHT)


def _releases(whose: str) -> dashboard.AnnotationQuery:
    """How long a release was in which state, as its ledger says: Grafana draws a region for as long as a series is above 0 (grafana,
    `packages/grafana-prometheus/src/datasource.ts`, `processAnnotationResponse`)."""
    return (
        dashboard.AnnotationQuery()
        .name("Releases")
        .datasource(PROMETHEUS)
        .enable(enable=True)
        .icon_color("purple")
        .expr(f"max by (tenant, model, release, state) ({RELEASE_STATE}{{{whose}}})")
        .title_format("{{tenant}}/{{model}}: release {{release}}")
        .text_format("{{state}}")
        .tag_keys("state")
    )


def _link(title: str, url: str) -> dashboard.DashboardLink:
    return dashboard.DashboardLink(title).type(DashboardLinkType.LINK).url(url)


def _lines(panel: Panel) -> logs.Panel:
    drawn = logs.Panel().title(panel.title).description(panel.meaning).datasource(LOKI).show_time(show_time=True)
    for query in panel.queries:
        drawn = drawn.with_target(loki.Dataquery().expr(query.expression).ref_id("A"))
    return drawn.enable_log_details(enable_log_details=True).span(WIDE).height(HIGH)


def _rates(panel: Panel) -> timeseries.Panel:
    drawn = timeseries.Panel().title(panel.title).description(panel.meaning).unit(panel.unit.value).datasource(LOKI)
    for query in panel.queries:
        drawn = drawn.with_target(loki.Dataquery().expr(query.expression).legend_format(query.legend).ref_id("A"))
    return drawn.span(WIDE).height(HEIGHT)


def _traces(panel: Panel) -> table.Panel:
    drawn = table.Panel().title(panel.title).description(panel.meaning).datasource(TEMPO)
    for query in panel.queries:
        drawn = drawn.with_target(_traceql(query))
    kept = "".join(f"&${{{name}:queryparam}}" for name in links.NAMES)
    here = {"title": "Open this trace here", "url": f"/d/{TRAIL}?${{__url_time_range}}{kept}&var-trace=${{__value.raw}}"}
    chosen = DynamicConfigValue(id_val="links", value=[here])
    return drawn.override_by_name("traceID", [chosen]).span(HALF).height(HIGH)


def _trace(panel: Panel) -> dashboard.Panel:
    drawn = dashboard.Panel().type("traces").title(panel.title).description(panel.meaning).datasource(TEMPO)
    for query in panel.queries:
        drawn = drawn.with_target(_traceql(query))
    return drawn.span(HALF).height(HIGH)


def _traceql(query: Query) -> tempo.Dataquery:
    return tempo.Dataquery().query(query.expression).query_type("traceql").ref_id("A")


_OTHERS: Mapping[PanelSource, Callable[[Panel], Any]] = {
    PanelSource.LOGS: _lines,
    PanelSource.LOG_RATES: _rates,
    PanelSource.TRACES: _traces,
    PanelSource.TRACE: _trace,
}
