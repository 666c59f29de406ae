"""Dashboards drawn without Grafana: what is read of them, how series are named and drawn, and what an empty panel says."""

import json
import math
import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.observability import layers, overview, trail
from components.observability.panels import Dashboard, PanelUnit
from components.observability.service import service_dashboard
from headway.contract.model import Model
from headway.problem import UserError
from sandbox.dashboards import answers, curves, grafana, page
from sandbox.dashboards.answers import AnsweredPanel, DrawnSeries, TimeSpan
from sandbox.dashboards.units import UNITS, shown
from tests.components.contracts import DEFECTS

SPAN = TimeSpan(start=1_000_000.0, end=1_003_600.0)
ALL = (overview.OVERVIEW, *layers.LAYERS, trail.PAGE, service_dashboard("vision", Model.model_validate(DEFECTS)))


def drawn(dashboard: Dashboard) -> grafana.GrafanaDashboard:
    return grafana.read(dashboard.json())


@pytest.mark.parametrize("dashboard", ALL, ids=lambda each: each.uid)
def test_every_panel_that_the_platform_deploys_is_drawn_under_its_row(dashboard: Dashboard) -> None:
    wanted = [(row.title, [panel.title for panel in row.panels]) for row in dashboard.rows]
    assert [(title, [panel.title for panel in panels]) for title, panels in drawn(dashboard).rows] == wanted


@pytest.mark.parametrize("dashboard", ALL, ids=lambda each: each.uid)
def test_no_variable_of_a_deployed_dashboard_is_left_in_a_query(dashboard: Dashboard) -> None:
    found = drawn(dashboard)
    for panel in found.panels:
        for query in panel.queries:
            assert "$" not in grafana.chosen(query.expression, found.variables)


@pytest.mark.parametrize("dashboard", ALL, ids=lambda each: each.uid)
def test_no_curve_is_called_by_its_query(dashboard: Dashboard) -> None:
    assert [panel.title for panel in drawn(dashboard).panels for query in panel.queries if not query.legend] == []


def test_every_unit_of_a_panel_can_be_written() -> None:
    assert UNITS.keys() == {unit.value for unit in PanelUnit}


def test_all_tenants_are_shown_unless_one_is_chosen() -> None:
    found = drawn(layers.REQUEST)
    expression = found.panels[0].queries[0].expression
    assert 'tenant=~".*"' in grafana.chosen(expression, found.variables)
    assert 'tenant=~"vision"' in grafana.chosen(expression, {**found.variables, "tenant": "vision"})


def test_an_unknown_variable_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"variable \$pool"):
        grafana.chosen('up{pool="$pool"}', {"tenant": ".*"})


@pytest.mark.parametrize(("change", "said"), [({"type": "heatmap"}, "heatmap"), ({"fieldConfig": {"defaults": {"unit": "dB"}}}, "dB")])
def test_what_is_not_drawn_here_is_refused_by_name(change: dict[str, Any], said: str) -> None:
    document = json.loads(layers.GPU.json())
    document["panels"][1].update(change)
    with pytest.raises(UserError, match=said):
        grafana.read(json.dumps(document))


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"panels": [{}]}', "[" * 100_000, '{"panels": 3, "uid": "x", "title": "y"}'])
def test_what_is_no_dashboard_is_refused_without_a_traceback(text: str) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        grafana.read(text)


@pytest.mark.parametrize(
    ("pattern", "labels", "name"),
    [
        ("{{tenant}}/{{model}}", {"tenant": "vision", "model": "defects"}, "vision/defects"),
        ("{{ tenant }} {{gone}}", {"tenant": "vision"}, "vision "),
        ("", {"__name__": "up", "job": 'a "b"'}, 'up{job="a \\"b\\""}'),
        ("", {"__name__": "up"}, "up"),
        ("", {}, "sum(up)"),
    ],
)
def test_series_have_the_names_that_grafana_gives_them(pattern: str, labels: dict[str, str], name: str) -> None:
    assert grafana.legend(pattern, labels, "sum(up)") == name


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0234, "s", "23.4 ms"),
        (0.0, "s", "0 s"),
        (90.0, "s", "1.5 min"),
        (0.0098, "percentunit", "0.98 %"),
        (1536.0, "bytes", "1.5 KiB"),
        (12_345.0, "reqps", "12.3k req/s"),
        (-3.0, "short", "-3"),
        (1.98e9, "hertz", "1.98 GHz"),
    ],
)
def test_values_are_written_with_three_figures_and_their_unit(value: float, unit: str, text: str) -> None:
    assert shown(value, unit) == text


@given(st.lists(st.floats(-1e12, 1e12).filter(lambda value: value == 0 or abs(value) > 1e-9), max_size=20))
def test_an_axis_holds_zero_and_every_value(values: list[float]) -> None:
    low, high = curves.bounds(values)
    assert low < high
    assert all(low - 1e-9 * (high - low) <= value <= high + 1e-9 * (high - low) for value in [*values, 0.0])


def test_a_curve_is_not_drawn_over_a_gap() -> None:
    points = ((0.0, 1.0), (15.0, 2.0), (60.0, 3.0), (75.0, math.nan), (90.0, 4.0))
    assert curves.runs(points, 15.0) == [[(0.0, 1.0), (15.0, 2.0)], [(60.0, 3.0)], [(90.0, 4.0)]]


def test_a_single_point_is_drawn_as_a_dot() -> None:
    svg = curves.curves([DrawnSeries(name="one", points=((1_001_800.0, 1.0),))], SPAN, "short", UTC)
    found = re.search(r'points="([^"]+)"', svg)
    assert found
    assert len(set(found[1].split())) == 1
    assert len(found[1].split()) == 2


@given(st.floats(60, 200_000))
def test_no_curve_has_more_points_than_can_be_seen(seconds: float) -> None:
    span = TimeSpan(start=0.0, end=seconds)
    assert span.step >= answers.LEAST_STEP
    assert seconds / span.step <= answers.MOST_POINTS


def test_what_tenants_call_their_models_cannot_write_into_the_page() -> None:
    found = drawn(layers.REQUEST)
    series = (DrawnSeries(name="<script>alert(1)</script>", points=((1_001_800.0, 1.0), (1_001_815.0, 2.0))),)
    html = page.page(found, {panel: AnsweredPanel(panel=panel, series=series) for panel in found.panels}, SPAN, {"tenant": "<b>"}, UTC)
    assert "<script" not in html
    assert "<b>," not in html


def test_a_legend_names_the_highest_series_and_counts_the_others() -> None:
    found = drawn(layers.REQUEST)
    series = tuple(DrawnSeries(name=f"s{n}", points=((1_003_600.0, float(-n)),)) for n in range(11))
    html = page.page(found, {panel: AnsweredPanel(panel=panel, series=series) for panel in found.panels}, SPAN, {}, UTC)
    assert "<span>s7</span>" in html
    assert "<span>s8</span>" not in html
    assert "and 3 more<" in html


@pytest.mark.parametrize(
    ("dashboard", "title", "said"),
    [
        (layers.GPU, "Temperature", "DCGM exporter"),
        (layers.SCHEDULER, "Free GPUs by pool", "kube-state-metrics"),
        (trail.PAGE, trail.PAGE.panels[0].title, "Loki"),
        (layers.REQUEST, "Server errors", "nothing of the kind has happened"),
    ],
)
def test_an_empty_panel_says_what_the_sandbox_lacks(dashboard: Dashboard, title: str, said: str) -> None:
    panel = next(each for each in drawn(dashboard).panels if each.title == title)
    assert said in answers.why_empty(panel)


@contextmanager
def prometheus(answer: dict[str, Any], asked: list[dict[str, list[str]]]) -> Generator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(parse_qs(self.rfile.read(int(self.headers["content-length"])).decode()))
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def matrix(**values: str) -> dict[str, Any]:
    result = [{"metric": {"response_code": name}, "values": [[1_003_585, "0.5"], [1_003_600, value]]} for name, value in values.items()]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def test_the_series_that_is_highest_now_stands_first_and_no_number_last() -> None:
    with prometheus(matrix(low="1", none="NaN", high="7"), []) as port:
        found = answers.ask(port, drawn(layers.REQUEST), SPAN, {})
    panel = next(each for each in found.values() if each.panel.title == "Requests by response code")
    assert [each.name for each in panel.series] == [" high", " low", " none"]


@pytest.mark.parametrize(
    ("last", "newest"), [((1_003_600.0, 2.0), 2.0), ((1_003_570.0, 2.0), 2.0), ((1_003_569.0, 2.0), None), ((1_003_600.0, math.nan), None)]
)
def test_a_series_that_has_ended_has_no_value_now(last: tuple[float, float], newest: float | None) -> None:
    assert DrawnSeries(name="one", points=((1_003_000.0, 1.0), last)).newest(SPAN) == newest


def test_queries_go_over_the_whole_span_with_the_chosen_tenant() -> None:
    asked: list[dict[str, list[str]]] = []
    with prometheus(matrix(), asked) as port:
        answers.ask(port, drawn(layers.REQUEST), SPAN, {"tenant": "vision"})
    assert {(each["start"][0], each["end"][0], each["step"][0]) for each in asked} == {("1000000.000", "1003600.000", "15")}
    assert 'tenant=~"vision"' in asked[0]["query"][0]


def test_a_query_that_prometheus_refuses_is_said_with_its_words() -> None:
    with (
        prometheus({"status": "error", "error": "parse error"}, []) as port,
        pytest.raises(UserError, match="parse error"),
    ):
        answers.ask(port, drawn(layers.REQUEST), SPAN, {})


def test_a_prometheus_that_is_down_is_said_with_how_to_start_it() -> None:
    with prometheus(matrix(), []) as port:
        pass
    with pytest.raises(UserError) as raised:
        answers.ask(port, drawn(layers.REQUEST), SPAN, {})
    assert "--with monitoring" in raised.value.problems[0].remedy
