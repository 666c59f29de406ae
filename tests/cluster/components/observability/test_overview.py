"""What the overview counts, judged by the real promtool on the life of a service: before, during and after a release."""

from pathlib import Path

import pytest

from components.observability.overview import OVERVIEW
from sandbox.cluster.toolchain import Toolchain
from tests.cluster.components.observability.promtool import answers, judge, series


def query(title: str) -> str:
    return next(panel for panel in OVERVIEW.panels if panel.title == title).queries[0].expression


def rate(release: str, values: str) -> dict[str, str]:
    return series("headway:request_rate", {"tenant": "vision", "model": "defects", "release": release, "source": "mesh"}, values)


@pytest.mark.parametrize(("at", "count"), [("1m", 0), ("5m", 1), ("9m", 0)])
def test_a_release_that_gets_no_requests_any_more_is_not_in_service(toolchain: Toolchain, tmp_path: Path, at: str, count: int) -> None:
    # Its proxies go on to report a counter that does not grow.
    old, new = rate("r1", "50x20 0x20"), rate("r2", "0x10 50x30")
    expected = [answers(query("Models with more than one release in service"), at, count)]
    assert judge(toolchain, tmp_path, [{"interval": "15s", "input_series": [old, new], "promql_expr_test": expected}]) == ""


def test_the_heartbeat_is_not_counted_among_firing_alerts(toolchain: Toolchain, tmp_path: Path) -> None:
    watchdog = series("ALERTS", {"alertname": "Watchdog", "alertstate": "firing", "layer": "platform", "severity": "heartbeat"}, "1x40")
    expected = [answers(query("Firing alerts by layer"), "5m", None)]
    assert judge(toolchain, tmp_path, [{"interval": "15s", "input_series": [watchdog], "promql_expr_test": expected}]) == ""
