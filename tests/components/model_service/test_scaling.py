"""Autoscaling of model services. Expected values are written by hand."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.model_service.manifests import ServicePlan
from components.model_service.objectives import burns
from components.model_service.release import Release
from headway.contract.scaling import ScalingSignal
from headway.contract.units import Share
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficSplit
from tests.components.contracts import CHAT, CONTAINER, DEFECTS, MODELS, PLAIN, SURROUNDINGS, bodies, changed, pool_of, service


def test_headroom_grows_with_the_root_of_the_load() -> None:
    (scaler,) = bodies(service("defects"), "ScaledObject")
    in_flight, activity = scaler["spec"]["triggers"]
    query = in_flight["metadata"]["query"]
    assert query.endswith("/ 12)")
    assert " + 2 * sqrt((" in query
    assert (in_flight["metricType"], in_flight["metadata"]["threshold"]) == ("AverageValue", "1")
    assert (activity["metricType"], activity["metadata"]["threshold"]) == ("Value", "0.8")


@pytest.mark.parametrize("signal", ScalingSignal)
@pytest.mark.parametrize(
    ("base", "changes"), [(CHAT, {}), (DEFECTS, {}), (DEFECTS, {**PLAIN, "runtime": CONTAINER})], ids=["vllm", "triton", "container"]
)
def test_a_trigger_that_a_contract_may_name_has_a_query(base: dict[str, Any], changes: dict[str, Any], signal: ScalingSignal) -> None:
    demand = {"signal": "request_rate", "target": "5/s"}
    target = {"queue_time": "100ms", "kv_cache_use": "80%", "gpu_activity": "80%", "request_rate": "5/s"}.get(signal.value, 8)
    triggers = [demand] if signal is ScalingSignal.REQUEST_RATE else [{"signal": signal.value, "target": target}, demand]
    try:
        model = changed(base, **{**changes, "scaling__triggers": triggers})
    except ValidationError as refused:
        assert "does not report" in str(refused)
        return
    (scaler,) = bodies(ServicePlan.of("vision", model, pool_of(model), SURROUNDINGS), "ScaledObject")
    first, *_ = scaler["spec"]["triggers"]
    assert first["metadata"]["query"]
    assert first["name"] == signal.value.replace("_", "-")


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_silent_signal_never_scales_in(name: str) -> None:
    scaler, *_ = bodies(service(name), "ScaledObject")
    spec = scaler["spec"]
    assert all(trigger["metadata"]["ignoreNullValues"] == "false" for trigger in spec["triggers"])
    assert spec["fallback"]["behavior"] == "currentReplicasIfHigher"
    assert spec["fallback"]["replicas"] >= max(1, spec["minReplicaCount"])


@pytest.mark.parametrize("base", [CHAT, {**DEFECTS, "batch": None}], ids=["vllm", "triton"])
def test_only_a_service_that_may_go_to_zero_is_woken_by_the_gateways_count(base: dict[str, Any]) -> None:
    models = [changed(base), changed(base, scaling__min_replicas=0)]
    scalers = [bodies(ServicePlan.of("vision", model, pool_of(model), SURROUNDINGS), "ScaledObject")[0] for model in models]
    always, never = ([trigger["metadata"]["query"] for trigger in scaler["spec"]["triggers"]] for scaler in scalers)
    assert not any("vector(0)" in query for query in always)
    *servers, gateways, waiting = never
    assert len(servers) == len(always)
    assert all("or vector(0)" in query for query in servers)
    assert "istio_requests_total" in gateways
    assert "vector(0)" not in gateways, "a gateway that cannot be read is not idle"
    assert "headway_activator_waiting_requests" in waiting, "what is held is counted at the gateway only when it is over"


def test_a_burn_rate_is_scaled_to_the_objectives_window_and_budget() -> None:
    rules = bodies(service("defects"), "PrometheusRule")[0]["spec"]["groups"][0]["rules"]
    alerts = [rule for rule in rules if "alert" in rule]
    # 99.95 % over 28 days: 14.4 * 28/30 * 0.0005
    assert 'headway:slo_bad:share1h{model="defects",objective="availability",tenant="vision"} > 0.00672 ' in alerts[0]["expr"]
    assert alerts[0]["expr"].endswith("* 3600 >= 100")
    assert [(a["labels"]["severity"], a["labels"]["long_window"]) for a in alerts] == [
        ("page", "1h"),
        ("page", "6h"),
        ("ticket", "1d"),
        ("ticket", "3d"),
    ]


@given(objective=st.sampled_from(["50", "90", "93", "95", "99", "99.5", "99.9", "99.99"]), days=st.sampled_from([7, 28, 30, 90]))
def test_a_breakdown_wakes_somebody_within_minutes_whatever_was_promised(objective: str, days: int) -> None:
    slo = changed(DEFECTS, slo=[{"signal": "availability", "objective": f"{objective}%", "window": f"{days}d"}]).slo[0]
    allowed = 1 - slo.objective.fraction
    told = list[float]()
    for burn in burns(slo):
        limit = burn.factor * days / 30 * allowed
        assert limit < 1, "no alert that cannot fire"
        seconds = {"1m": 60, "5m": 300, "1h": 3600, "6h": 21_600, "1d": 86_400, "3d": 259_200}[burn.long]
        if burn.severity == "page" and burn.hold == "0s":
            told.append(limit * seconds)
    assert min(told) <= 225
    assert len(told) == 1 or told == sorted(told), "the breakdown's own alert only where it is the first"


def test_the_longest_name_gives_autoscalers_that_keda_admits() -> None:
    model = changed(DEFECTS, name="m" * 40, batch=None)
    release = Release(model=model)
    arms = tuple(TrafficArm(release=release.id, role=role, weight=Share.percent(50)) for role in (ArmRole.STABLE, ArmRole.BASELINE))
    plan = replace(ServicePlan.of("t" * 40, model, pool_of(model), SURROUNDINGS), traffic=TrafficSplit(arms=arms))
    scalers = bodies(plan, "ScaledObject")
    named = [scaler["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["name"] for scaler in scalers]
    assert len(set(named)) == 2
    assert max(map(len, (*named, *(scaler["metadata"]["name"] for scaler in scalers)))) <= 63
