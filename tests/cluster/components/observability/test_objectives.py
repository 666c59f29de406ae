"""A contract's promises, alerted by the real rule engine: fast burns wake somebody, quiet models do not."""

from pathlib import Path

import pytest

from components.model_service import objectives
from headway.contract.model import Model
from headway.diagnosis.measures import MEASURES, query
from sandbox.cluster.toolchain import Toolchain
from tests.cluster.components.observability.promtool import judge, series
from tests.components.contracts import DEFECTS, SURROUNDINGS, changed

pytestmark = pytest.mark.timeout(1800)

STEPS = 480
"""Two hours of fifteen seconds."""
MODEL = changed(DEFECTS)
GROUPS = [g for g in objectives.rules("vision", MODEL, SURROUNDINGS)["spec"]["groups"] if g["name"].endswith("availability")]


LENIENT = changed(DEFECTS, slo=[{"signal": "availability", "objective": "95%"}])
"""Of whose budget a breakdown takes 43 minutes for the first two per cent."""


def requests(well: float, failed: float) -> list[dict[str, str]]:
    """So many a step, for two hours."""
    to = {"destination_service_namespace": "vision", "destination_service_name": "defects-r0123456789", "reporter": "source"}
    return [
        series("istio_requests_total", {**to, "response_code": "200"}, f"0+{well}x{STEPS}"),
        series("istio_requests_total", {**to, "response_code": "503"}, f"0+{failed}x{STEPS}"),
    ]


def fires(toolchain: Toolchain, folder: Path, shown: list[dict[str, str]], at: str, windows: dict[str, str], model: Model = MODEL) -> str:
    """What promtool has against: at that time these long windows, with their severities, alert on availability, and no others."""
    expected = [{"labels": f'{{long_window="{window}",severity="{severity}"}}', "value": 1} for window, severity in sorted(windows.items())]
    query = 'count by (long_window, severity) (ALERTS{alertname="SloBurnRate",alertstate="firing",objective="availability"})'
    test = {"interval": "15s", "input_series": shown, "promql_expr_test": [{"expr": query, "eval_time": at, "exp_samples": expected}]}
    groups = [g for g in objectives.rules("vision", model, SURROUNDINGS)["spec"]["groups"] if g["name"].endswith("availability")]
    return judge(toolchain, folder, [test], groups)


def breakdown(minutes: int) -> list[dict[str, str]]:
    """An hour in which all went well, then as many minutes in which nothing did, and all well again."""
    good, steps = requests(100, 100)
    broken = minutes * 4
    good["values"] = f"0+100x240 24000x{broken - 1} 24100+100x100"
    steps["values"] = f"0x240 100+100x{broken - 1} {broken * 100}x100"
    return [good, steps]


def test_a_breakdown_of_a_lenient_promise_wakes_somebody_within_three_minutes(toolchain: Toolchain, tmp_path: Path) -> None:
    assert fires(toolchain, tmp_path, breakdown(20), "63m", {"5m": "page"}, LENIENT) == ""


def test_a_diagnosis_knows_that_a_breakdown_of_a_lenient_promise_pages(toolchain: Toolchain, tmp_path: Path) -> None:
    asked = query(MEASURES["paged"], "vision", "defects", "1m")
    told = [{"expr": asked, "eval_time": at, "exp_samples": [{"labels": "{}", "value": value}]} for at, value in (("59m", 0), ("63m", 1))]
    groups = objectives.rules("vision", LENIENT, SURROUNDINGS)["spec"]["groups"]
    assert judge(toolchain, tmp_path, [{"interval": "15s", "input_series": breakdown(20), "promql_expr_test": told}], groups) == ""


def test_a_breakdown_that_is_over_within_a_minute_wakes_nobody(toolchain: Toolchain, tmp_path: Path) -> None:
    assert all(fires(toolchain, tmp_path, breakdown(1), f"{minute}m", {}, LENIENT) == "" for minute in (61, 62, 63))


def test_a_breakdown_of_a_strict_promise_is_told_once(toolchain: Toolchain, tmp_path: Path) -> None:
    assert fires(toolchain, tmp_path, breakdown(20), "62m", {"1h": "page"}) == ""


def test_a_promise_that_breaks_fast_wakes_somebody_within_minutes(toolchain: Toolchain, tmp_path: Path) -> None:
    assert fires(toolchain, tmp_path, requests(90, 10), "10m", {"1h": "page"}) == ""


def test_a_promise_that_keeps_breaking_alerts_over_longer_windows_too(toolchain: Toolchain, tmp_path: Path) -> None:
    assert fires(toolchain, tmp_path, requests(90, 10), "90m", {"1h": "page", "6h": "page", "1d": "ticket"}) == ""


def test_a_promise_that_is_kept_is_silent(toolchain: Toolchain, tmp_path: Path) -> None:
    assert fires(toolchain, tmp_path, requests(100_000, 1), "90m", {}) == ""


def test_a_model_with_too_few_requests_to_judge_is_silent(toolchain: Toolchain, tmp_path: Path) -> None:
    assert fires(toolchain, tmp_path, requests(0.02, 0.02), "90m", {}) == ""


def test_an_alert_ends_soon_after_the_promise_is_kept_again(toolchain: Toolchain, tmp_path: Path) -> None:
    to = 'destination_service_namespace="vision",destination_service_name="defects-r0123456789",reporter="source"'
    shown = [
        {"series": f'istio_requests_total{{{to},response_code="200"}}', "values": f"0+90x{STEPS}"},
        {"series": f'istio_requests_total{{{to},response_code="503"}}', "values": "0+10x80 800x400"},
    ]
    test = 'ALERTS{alertname="SloBurnRate",alertstate="firing",objective="availability",long_window="1h"}'
    at = [{"expr": f"count({test})", "eval_time": "15m", "exp_samples": [{"labels": "{}", "value": 1}]}]
    at.append({"expr": f"count({test})", "eval_time": "40m", "exp_samples": []})
    assert judge(toolchain, tmp_path, [{"interval": "15s", "input_series": shown, "promql_expr_test": at}], GROUPS) == ""


@pytest.mark.parametrize("words", ['{{ query "up" }}', "{{", "{{{{ end }}", "}}{{{"])
def test_a_contracts_words_are_no_template_of_an_alert(toolchain: Toolchain, tmp_path: Path, words: str) -> None:
    model = changed(DEFECTS, owner=words, observability__runbook=f"https://example.com/{words.replace(' ', '')}")
    groups = [g for g in objectives.rules("vision", model, SURROUNDINGS)["spec"]["groups"] if g["name"].endswith("availability")]
    (rule,) = [each for each in groups[0]["rules"] if each.get("labels", {}).get("long_window") == "1h" and "alert" in each]
    said = {
        **rule["annotations"],
        "description": rule["annotations"]["description"].replace(words.replace("{{", '{{"{{"}}'), words),
        "team_runbook_url": model.observability.runbook,
    }
    assert words in said["description"]
    alert = {"eval_time": "10m", "alertname": "SloBurnRate", "exp_alerts": [{"exp_labels": rule["labels"], "exp_annotations": said}]}
    assert judge(toolchain, tmp_path, [{"interval": "15s", "input_series": requests(90, 10), "alert_rule_test": [alert]}], groups) == ""


@pytest.mark.parametrize("tenant", ["vision"])
def test_every_alert_says_whose_it_is(tenant: str) -> None:
    model = Model.model_validate(DEFECTS)
    for group in objectives.rules(tenant, model, SURROUNDINGS)["spec"]["groups"]:
        for rule in group["rules"]:
            if "alert" in rule:
                assert rule["labels"]["namespace"] == tenant, "Alertmanager routes by it"
                assert rule["labels"]["receiver"] == model.observability.receiver
