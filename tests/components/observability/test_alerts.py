"""Recorded signals, alerts and their runbooks, as they are rendered."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from components.observability import alerts, recording, runbook_index
from components.observability.alert import Alert, AlertSeverity, FailureLayer
from components.observability.alerts import ALERTS
from components.observability.manifests import platform_manifests
from headway.signals import SIGNALS, Signal
from tests.components.contracts import MODELS, plan, service

RUNBOOKS = Path(__file__).parents[3] / "docs" / "runbooks"
NAMES = {alert.name for alert in ALERTS} | {"ReleaseStuck", "SloBurnRate", "TenantOverBudget", "TenantTokensAboveQuota"}
"""Of all alerts, those of services and tenants among them."""
LAYERS_OF_FAILURE = [layer for layer in FailureLayer if layer is not FailureLayer.PLATFORM]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_has_a_runbook_of_its_name_with_numbered_steps(alert: Alert) -> None:
    text = (RUNBOOKS / alert.runbook).read_text()
    assert text.startswith(f"# {alert.name}\n")
    assert len(re.findall(r"^\d\. ", text, re.MULTILINE)) >= 3


def test_every_runbook_belongs_to_an_alert_that_there_is() -> None:
    """Runbooks of alerts only: others (of releases, nodes, tenants) name no alert in their heading."""
    for path in RUNBOOKS.glob("*.md"):
        heading = path.read_text().partition("\n")[0].removeprefix("# ")
        if re.fullmatch(r"([A-Z][a-z0-9]+){2,}", heading):
            assert heading in NAMES, f"{path.name} is about an alert that nobody raises"


def alerting(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The alerts of a PrometheusRule."""
    return (rule for group in body["spec"]["groups"] for rule in group["rules"] if "alert" in rule)


def test_whatever_alerts_anywhere_leads_to_the_runbook_of_its_name() -> None:
    """Platform, tenants and models: every PrometheusRule that the program renders."""
    tenants = [plan("vision", tuple(MODELS.values())), plan("assist")]
    manifests = [*platform_manifests("docs/runbooks", environment="prod"), *(each for one in tenants for each in one.manifests())]
    manifests += [each for name in MODELS for each in service(name).manifests()]
    found = [rule for each in manifests if each.body["kind"] == "PrometheusRule" for rule in alerting(each.body)]
    assert {rule["alert"] for rule in found} == NAMES
    for rule in found:
        path = RUNBOOKS / Path(rule["annotations"]["runbook_url"]).name
        assert path.read_text().startswith(f"# {rule['alert']}\n"), path.name


def test_the_index_of_runbooks_has_every_page_and_is_current() -> None:
    pages = runbook_index.read()
    found = (RUNBOOKS / runbook_index.INDEX).read_text(encoding="utf-8")
    assert found == runbook_index.markdown(pages), "run: python -m components.observability.runbook_index > docs/runbooks/README.md"
    assert [name for name in pages if f"]({name})" not in found] == []


def test_the_index_says_where_it_hurts_and_how_urgent_it_is() -> None:
    rows = runbook_index.markdown(runbook_index.read()).splitlines()
    assert "| deployment | [ReleaseStuck](release-stuck.md) | ticket |" in rows
    assert "| | [The release ledger is in doubt](release-ledger.md) | no alert |" in rows


def test_alerts_have_names_of_their_own() -> None:
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)


@pytest.mark.parametrize("layer", LAYERS_OF_FAILURE)
def test_every_failure_layer_has_an_alert(layer: FailureLayer) -> None:
    assert any(alert.layer is layer for alert in ALERTS)


def test_the_heartbeat_is_the_only_alert_that_fires_always() -> None:
    assert [alert.name for alert in ALERTS if alert.severity is AlertSeverity.HEARTBEAT] == ["Watchdog"]


@pytest.mark.parametrize("signal", SIGNALS.values(), ids=lambda signal: signal.name)
def test_every_signal_is_recorded_from_every_source_that_measures_it(signal: Signal) -> None:
    rules = [rule for group in recording.groups() for rule in group["rules"]]
    quantiles = recording.QUANTILES if signal.quantiles else (None,)
    for quantile in quantiles:
        found = {rule["labels"]["source"] for rule in rules if rule["record"] == recording.recorded_name(signal, quantile)}
        assert found == {source.value for source in signal.sources}


def test_no_rule_is_given_twice() -> None:
    rules = [(rule["record"], rule["labels"]["source"]) for group in recording.groups() for rule in group["rules"]]
    assert len(set(rules)) == len(rules)


def test_every_group_of_alerts_is_one_layer() -> None:
    assert [group["name"] for group in alerts.groups("docs/runbooks", environment="prod")] == [
        f"headway-{layer.value}" for layer in FailureLayer
    ]
