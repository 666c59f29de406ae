"""Every alert fires when it should, says what it means, and is silent when things are almost as bad: judged by the real promtool."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from components.observability import alerts
from components.observability.alert import Alert, FailureLayer
from components.observability.alerts import ALERTS
from components.tenant import spending
from headway.contract.arithmetic.cost import HOURS_A_MONTH
from sandbox.cluster.toolchain import Toolchain
from tests.cluster.components.observability.alert_cases import CASES, Case
from tests.cluster.components.observability.promtool import judge
from tests.components.contracts import POOLS, SURROUNDINGS, tenant

pytestmark = pytest.mark.timeout(1800)

RUNBOOKS = "https://runbooks.example.com"
BY_NAME: Mapping[str, Alert] = {alert.name: alert for alert in ALERTS}


def inputs(lines: Sequence[str]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for line in lines:
        name, _, values = line.partition("} ") if "{" in line else line.partition(" ")
        found.append({"series": name + "}" if "{" in line else name, "values": values})
    return found


def expects(name: str, at: str, fired: list[dict[str, Any]]) -> dict[str, Any]:
    return {"alertname": name, "eval_time": at, "exp_alerts": fired}


def firing(case: Case) -> dict[str, Any]:
    """Whoever is told of a service is told what to type first; of a node, what says whom it hurts."""
    alert = BY_NAME[case.alert]
    service = f"{case.labels.get('namespace') or case.labels.get('tenant')}/{case.labels.get('model')}"
    first = {"description": f"Begin with `headway diagnose {service} -e prod`."} if "model" in case.labels else {}
    if not alert.of_one_service and alert.layer is not FailureLayer.PLATFORM:
        first = {"description": "`headway diagnose -e prod` says which services it hurts."}
    return {
        "exp_labels": {"layer": alert.layer.value, "severity": alert.severity.value, **case.labels},
        "exp_annotations": {"runbook_url": f"{RUNBOOKS}/{alert.runbook}", "summary": case.summary, **first},
    }


def test_every_alert_has_a_case() -> None:
    assert {case.alert for case in CASES} | {"Watchdog"} == set(BY_NAME)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_an_alert_fires_when_it_should_and_not_when_it_is_almost_so(toolchain: Toolchain, tmp_path: Path, case: Case) -> None:
    tests = [
        {"interval": "15s", "input_series": inputs(case.sick), "alert_rule_test": [expects(case.alert, case.at, [firing(case)])]},
        {"interval": "15s", "input_series": inputs(case.well), "alert_rule_test": [expects(case.alert, case.at, [])]},
    ]
    assert judge(toolchain, tmp_path, tests, alerts.groups(RUNBOOKS, environment="prod")) == ""


def test_a_tenant_whose_prompts_and_answers_pass_its_quota_is_told(toolchain: Toolchain, tmp_path: Path) -> None:
    found = spending.token_alert(tenant("assist"), SURROUNDINGS)
    assert found is not None
    granted = tenant("assist").quota.tokens
    assert granted is not None

    def used(per_second: float) -> list[dict[str, str]]:
        """Two thirds of it by prompts."""
        kinds = {"prompt": per_second * 10, "generation": per_second * 5}
        labels = 'platform_io_tenant="assist",platform_io_model="chat"'
        return [{"series": f"vllm:{kind}_tokens_total{{{labels}}}", "values": f"0+{each:g}x240"} for kind, each in kinds.items()]

    fired = {
        "exp_labels": {"layer": "request", "namespace": "assist", "severity": "ticket", "tenant": "assist"},
        "exp_annotations": {
            "summary": f"assist uses more tokens than its quota of {granted}",
            "runbook_url": f"{SURROUNDINGS.runbooks}/tenant-tokens-above-quota.md",
        },
    }
    name = "TenantTokensAboveQuota"
    tests = [
        {
            "interval": "15s",
            "input_series": used(granted.per_second * 1.1),
            "alert_rule_test": [expects(name, "40m", [fired])],
        },
        {"interval": "15s", "input_series": used(granted.per_second * 0.9), "alert_rule_test": [expects(name, "40m", [])]},
    ]
    assert judge(toolchain, tmp_path, tests, found["spec"]["groups"]) == ""


def test_a_tenant_is_told_of_its_budget_by_the_pace_of_a_day_and_what_is_spent(toolchain: Toolchain, tmp_path: Path) -> None:
    """The first hours of a load test are no month, and a mean of what was measured knows no other."""
    owner, h100 = tenant("assist"), next(pool for pool in POOLS if pool.name == "h100")
    found = spending.budget_alert(owner, POOLS, SURROUNDINGS)
    hour, granted = spending.device_hour(h100, "nvidia.com/gpu"), owner.quota.monthly_budget
    most = int(granted.dollars / hour / HOURS_A_MONTH)
    tenfold = 10 * (most + 1)

    def held(gpus: int, phase: str = "Running", namespace: str = "assist") -> list[dict[str, str]]:
        pod = f'namespace="{namespace}",pod="a"'
        return [
            {"series": f'kube_pod_container_resource_requests{{{pod},node="n",resource="nvidia_com_gpu"}}', "values": f"{gpus}x1000"},
            {"series": f'kube_pod_status_phase{{{pod},phase="{phase}"}}', "values": "1x1000"},
            {"series": 'kube_node_labels{node="n",label_platform_io_pool="h100"}', "values": "1x1000"},
        ]

    def fired(figure: str, said: str) -> dict[str, Any]:
        labels = {"layer": "request", "namespace": "assist", "severity": "ticket", "tenant": "assist", "figure": figure}
        page = f"{SURROUNDINGS.runbooks}/tenant-over-budget.md"
        about = f"GPUs at list price. The owner is {owner.owner}."
        return {
            "exp_labels": labels,
            "exp_annotations": {"summary": f"{said}, and {granted} are granted", "description": about, "runbook_url": page},
        }

    def foretold(gpus: int) -> dict[str, Any]:
        return fired("forecast", f"assist costs {gpus * hour * HOURS_A_MONTH:.0f} USD a month at the pace of the last week")

    samples = 80 * 12 + 1
    spent = fired("spent", f"assist cost {tenfold * hour * samples / 12:.0f} USD in the last 30 days")
    cases = [
        (held(most + 1), {"5h": [], "24h": [], "26h": [foretold(most + 1)], "80h": [foretold(most + 1)]}),
        (held(tenfold), {"5h": [], "70h": [foretold(tenfold)], "80h": [foretold(tenfold), spent]}),
        (held(most), {"80h": []}),
        (held(most + 1, phase="Succeeded"), {"80h": []}),
        (held(most + 1, namespace="vision"), {"80h": []}),
    ]
    tests = [
        {"interval": "5m", "input_series": series, "alert_rule_test": [expects("TenantOverBudget", at, each) for at, each in told.items()]}
        for series, told in cases
    ]
    assert judge(toolchain, tmp_path, tests, found["spec"]["groups"], every_seconds=300) == ""


def test_nothing_fires_where_nothing_is_measured_but_the_heartbeat(toolchain: Toolchain, tmp_path: Path) -> None:
    silent = [expects(alert.name, "1h", []) for alert in ALERTS if alert.name != "Watchdog"]
    heartbeat = {
        "exp_labels": {"layer": "platform", "severity": "heartbeat"},
        "exp_annotations": {"runbook_url": f"{RUNBOOKS}/watchdog.md", "summary": BY_NAME["Watchdog"].summary},
    }
    tests = [{"interval": "15s", "alert_rule_test": [*silent, expects("Watchdog", "1h", [heartbeat])]}]
    assert judge(toolchain, tmp_path, tests, alerts.groups(RUNBOOKS, environment="prod")) == ""
