"""When a release counts as stuck, and where its alert, like all of a service, leads people."""

from dataclasses import replace
from typing import Any

import pytest

from components.model_service import objectives
from components.model_service.stuck_release import group, longest_seconds
from components.observability import alerts
from components.observability.layers import LAYERS
from components.observability.overview import OVERVIEW
from components.observability.service import service_dashboard
from headway.contract.rollout import Rollout
from tests.components.contracts import DEFECTS, SURROUNDINGS, changed

LINKED = replace(SURROUNDINGS, runbooks="https://git.example.com/docs/runbooks", grafana="https://grafana.example.com")
MODEL = changed(DEFECTS)
HOUR = 3600.0


@pytest.mark.parametrize(
    ("policy", "hours"),
    [
        ({"strategy": "canary", "weights": ["10%", "50%"], "step_at_most": "1h", "bake": "1h"}, 5.5),
        ({"strategy": "canary", "weights": ["10%"], "step_at_most": "1h", "bake": "1h", "mirror": {"share": "10%", "timeout": "2h"}}, 6.5),
        ({"strategy": "canary", "weights": ["10%", "25%", "50%"], "step_at_most": "10h", "at_most": "1d", "bake": "1h"}, 27.5),
        ({"strategy": "blue_green", "bake": "1h"}, 3.5),
        ({"strategy": "blue_green", "bake": "1h", "held_back": "0%"}, 1.5),
        ({"strategy": "rolling", "at_most": "6h", "bake": "1h"}, 7.5),
    ],
)
def test_a_release_is_stuck_half_an_hour_after_all_steps_of_its_policy(policy: dict[str, Any], hours: float) -> None:
    assert longest_seconds(Rollout.model_validate(policy)) == hours * HOUR


def test_an_experiment_is_stuck_once_its_time_is_over_and_not_before() -> None:
    split = {"share": "20%", "duration": "14d", "user_claim": "sub", "experiment": "tone"}
    assert longest_seconds(Rollout.model_validate({"strategy": "ab", "split": split})) == 14 * 24 * HOUR + HOUR / 2


def test_its_alert_says_how_long_and_which_command_tells_why() -> None:
    (rule,) = group("vision", MODEL, SURROUNDINGS)["rules"]
    assert rule["for"] == f"{longest_seconds(MODEL.rollout):.0f}s"
    assert f"headway release status vision/{MODEL.name} -e {SURROUNDINGS.environment}" in rule["annotations"]["description"]


def test_all_alerts_of_a_service_lead_to_its_dashboard_and_to_its_logs() -> None:
    page = service_dashboard("vision", MODEL)
    rules = [each for found in objectives.rules("vision", MODEL, LINKED)["spec"]["groups"] for each in found["rules"] if "alert" in each]
    assert {each["alert"] for each in rules} == {"ReleaseStuck", "SloBurnRate"}
    for annotations in (each["annotations"] for each in rules):
        assert annotations["dashboard_url"] == f"https://grafana.example.com/d/{page.uid}"
        assert annotations["logs_url"] == f"https://grafana.example.com/d/headway-trail?var-tenant=vision&var-model={MODEL.name}"
        assert annotations["runbook_url"].startswith("https://git.example.com/docs/runbooks/")


def test_alerts_of_the_platform_lead_to_a_dashboard_that_there_is() -> None:
    known = {f"https://grafana.example.com/d/{page.uid}" for page in (OVERVIEW, *LAYERS)}
    rules = [rule for each in alerts.groups("x", "https://grafana.example.com", environment="prod") for rule in each["rules"]]
    assert {rule["annotations"]["dashboard_url"] for rule in rules} == known


def test_without_an_address_of_grafana_no_dashboard_is_linked() -> None:
    rules = [rule for each in alerts.groups("x", environment="prod") for rule in each["rules"]]
    assert not any("dashboard_url" in rule["annotations"] for rule in rules)
