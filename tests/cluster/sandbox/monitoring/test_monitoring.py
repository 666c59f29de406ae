"""Real Prometheus and Alertmanager, kept by the sandbox, without a cluster."""

import json
from collections.abc import Iterator
from pathlib import Path
from time import time

import pytest

from headway.problem import UserError
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.monitoring import servers
from sandbox.monitoring.configuration import MonitoringSettings, ScrapeJob
from sandbox.monitoring.servers import Monitoring
from sandbox.progress import Silent
from tests.cluster.conftest import PROJECT, eventually
from tests.cluster.exporter import Exporter, shown
from tests.cluster.history import backfill

pytestmark = pytest.mark.timeout(1800)  # on a fresh machine the first test waits for the programs to be built

WITHIN = 60.0


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    with shown("jobs_total 3\n") as found:
        yield found


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return Layout(project=PROJECT, state=tmp_path_factory.mktemp("monitoring"), cache=Layout.of(PROJECT).cache)


@pytest.fixture(scope="module")
def settings(exporter: Exporter) -> MonitoringSettings:
    return MonitoringSettings(jobs=(ScrapeJob(name="known", targets=(exporter.target,), labels={"who": "beforehand"}),))


@pytest.fixture(scope="module")
def monitoring(layout: Layout, settings: MonitoringSettings) -> Iterator[Monitoring]:
    try:
        yield servers.start(layout, Silent(), settings)
    finally:
        Supervisor(layout).stop_all(Silent())


def values(monitoring: Monitoring, expression: str) -> list[str]:
    return sorted(sample["value"][1] for sample in monitoring.query(expression))


def test_a_job_that_is_known_beforehand_is_scraped_with_its_labels(monitoring: Monitoring) -> None:
    assert eventually(lambda: values(monitoring, 'jobs_total{job="known",who="beforehand"}'), WITHIN) == ["3"]


def test_a_targets_file_is_scraped_without_reload_and_forgotten_when_empty(monitoring: Monitoring, exporter: Exporter) -> None:
    monitoring.scrape("late", [exporter.target], {"job": "late", "__metrics_path__": "/elsewhere"})
    assert eventually(lambda: values(monitoring, 'up{job="late"}'), WITHIN) == ["1"]
    monitoring.scrape("late", [], {})
    eventually(lambda: not monitoring.query('up{job="late"}'), WITHIN)


def test_a_rule_that_fires_reaches_alertmanager(monitoring: Monitoring) -> None:
    rule = {"alert": "TooManyJobs", "expr": "jobs_total > 2", "labels": {"severity": "page"}}
    servers.write(monitoring.rules / "jobs.yml", json.dumps({"groups": [{"name": "jobs", "rules": [rule]}]}))
    monitoring.reload()
    port = int(monitoring.alertmanager.rsplit(":", 1)[1])

    def alerts() -> list[str]:
        return [each["labels"]["alertname"] for each in json.loads(LoopbackEndpoint(port=port).call("GET", "/api/v2/alerts").body)]

    assert "TooManyJobs" in eventually(alerts, WITHIN)


def test_an_unreadable_rule_is_refused_in_prometheus_words_and_old_rules_stay(monitoring: Monitoring) -> None:
    broken = monitoring.rules / "broken.yml"
    servers.write(broken, "groups: [{name: broken, rules: [{record: a, expr: 'sum('}]}]")
    try:
        with pytest.raises(UserError, match=r"reload.*failed"):
            monitoring.reload()
        assert values(monitoring, "vector(1)") == ["1"]
    finally:
        broken.unlink()
    monitoring.reload()


def test_history_that_was_written_before_the_start_is_there_with_its_own_times(
    layout: Layout, settings: MonitoringSettings, tmp_path: Path
) -> None:
    running = servers.start(layout, Silent(), settings)
    servers.stop(layout, Silent())
    ago = int(time()) - 3600
    history = tmp_path / "history.om"
    history.write_text(f"# TYPE kept gauge\nkept 7 {ago}\n# EOF\n")
    backfill(layout, running.toolchain, history)
    again = servers.start(layout, Silent(), settings)
    assert [sample["value"][1] for sample in again.query("kept", at=ago + 1)] == ["7"]
    assert again.query("kept") == []


def test_history_that_cannot_be_read_is_refused(layout: Layout, monitoring: Monitoring, tmp_path: Path) -> None:
    history = tmp_path / "history.om"
    history.write_text("kept seven\n# EOF\n")
    with pytest.raises(UserError, match=r"promtool refused history\.om"):
        backfill(layout, monitoring.toolchain, history)


def test_what_runs_is_left_alone_and_reads_new_settings(layout: Layout, settings: MonitoringSettings, exporter: Exporter) -> None:
    servers.start(layout, Silent(), settings)
    before = {each.name: each.pid for each in Supervisor(layout).list()}
    more = ScrapeJob(name="more", targets=(exporter.target,))
    running = servers.start(layout, Silent(), MonitoringSettings(jobs=(*settings.jobs, more)))
    assert {each.name: each.pid for each in Supervisor(layout).list()} == before
    assert eventually(lambda: values(running, 'up{job="more"}'), WITHIN) == ["1"]
