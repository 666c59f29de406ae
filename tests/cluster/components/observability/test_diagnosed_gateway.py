"""What a diagnosis asks of the way to a service, answered by the real PromQL from series with the labels that production's proxies, limiter and
istiod give them; another tenant's are beside them."""

from pathlib import Path

import pytest

from headway.diagnosis.measures import MEASURES, query
from sandbox.cluster.toolchain import Toolchain
from tests.cluster.components.observability.promtool import judge, series

GATEWAYS = [{"namespace": "istio-ingress", "pod": f"istio-ingressgateway-{each}"} for each in "ab"]
REPLICA = {"namespace": "vision", "pod": "defects-r0123456789-5b6bb57495-tj4tz"}
TOLD = {"tenant": "vision", "model": "defects"}
ASKED = (("200", "-", 50), ("503", "UO", 10), ("400", "-", 10), ("0", "DC", 10), ("429", "RL", 10), ("504", "UMSDR", 10))
ANSWERED = (("200", "-", 70), ("413", "-", 10), ("503", "UO", 10), ("503", "UF", 10))


def counts(name: str, labels: dict[str, str], per_second: float) -> dict[str, str]:
    return series(name, labels, f"0+{per_second * 15}x60")


def asked(tenant: str, service: str, code: str, flags: str, per_second: float) -> dict[str, str]:
    to = {"reporter": "source", "destination_service_namespace": tenant, "destination_service_name": service}
    return counts("istio_requests_total", {**to, "response_code": code, "response_flags": flags, **GATEWAYS[0]}, per_second)


def answered(code: str, flags: str, per_second: float) -> dict[str, str]:
    of = {"reporter": "destination", "destination_workload_namespace": "vision", "destination_workload": "defects-r0123456789"}
    labels = {**of, "mirrored": "false", "response_code": code, "response_flags": flags, **REPLICA}
    return counts("istio_requests_total", labels, per_second)


GIVEN = [
    *(asked("vision", "defects-r0123456789", *each) for each in ASKED),
    asked("assist", "chat-r9876543210", "400", "-", 70),
    *(answered(*each) for each in ANSWERED),
    *(counts("envoy_headway_worked_requests", {**TOLD, **each}, 40) for each in GATEWAYS),
    *(counts("envoy_headway_worked_bytes", {**TOLD, **each}, 200_000) for each in GATEWAYS),
    *(counts("envoy_headway_worked_attempts", {**TOLD, **each}, 44) for each in GATEWAYS),
    counts("envoy_headway_repeated_requests", {**TOLD, **GATEWAYS[0]}, 20),
    counts("envoy_headway_repeated_requests", {"tenant": "assist", "model": "chat", **GATEWAYS[0]}, 30),
    *(
        series("headway:request_rate", {"source": source, "tenant": tenant, "model": "m", "release": "r"}, f"{rate}x60")
        for source, tenant, rate in (("mesh", "vision", 100), ("mesh", "assist", 300), ("vllm", "assist", 290))
    ),
    counts("container_cpu_cfs_throttled_periods_total", {**GATEWAYS[0], "container": "istio-proxy"}, 3),
    counts("container_cpu_cfs_periods_total", {**GATEWAYS[0], "container": "istio-proxy"}, 10),
    counts("container_cpu_cfs_throttled_periods_total", {**REPLICA, "container": "istio-proxy"}, 9),
    counts("container_cpu_cfs_periods_total", {**REPLICA, "container": "istio-proxy"}, 10),
    counts("envoy_connection_limit_door_limited_connections", GATEWAYS[0], 0.5),
    *(
        series("envoy_overload_envoy_overload_actions_stop_accepting_requests_active", each, f"{full}x60")
        for each, full in zip(GATEWAYS, (1, 0), strict=True)
    ),
    *(
        counts(
            f"istio_request_duration_milliseconds_{what}", {"reporter": "destination", "destination_service_namespace": "rate-limit"}, much
        )
        for what, much in (("sum", 2000), ("count", 100))
    ),
    *(
        series("kube_deployment_status_replicas_available", {"namespace": "rate-limit", "deployment": name}, f"{ready}x60")
        for name, ready in (("limiter", 2), ("counts", 1))
    ),
    series("citadel_server_root_cert_expiry_seconds", {"namespace": "istio-system", "pod": "istiod-a"}, "864000x60"),
    series("citadel_server_cert_chain_expiry_seconds", {"namespace": "istio-system", "pod": "istiod-a"}, "3600x60"),
]

ANSWERS: dict[str, float] = {
    "requests": 100,
    "left": 0.1,
    "overflow": 0.1,
    "pool_overflow": 0.1,
    "refused_there": 0.1,
    "limited": 0.1,
    "malformed": 0.1,
    "request_size": 5000,
    "attempts": 1.1,
    "repeated": 0.2,
    "neighbours": 300,
    "gateway_throttled": 0.3,
    "gateway_closed": 0.5,
    "gateway_overloaded": 0.5,
    "limiter": 0.02,
    "limiter_ready": 1,
    "mesh_authority_left": 3600,
}


@pytest.mark.parametrize("name", [*ANSWERS, "malformed_by_pod"])
def test_a_measure_tells_of_the_services_own_way(toolchain: Toolchain, tmp_path: Path, name: str) -> None:
    labels, value = ("{}", ANSWERS[name]) if name in ANSWERS else (f'{{pod="{REPLICA["pod"]}"}}', 0.1)
    # Division leaves the last bit to chance.
    text = f"round({query(MEASURES[name], 'vision', 'defects', '1m')}, 1e-6)"
    expected = {"expr": text, "eval_time": "10m", "exp_samples": [{"labels": labels, "value": value}]}
    assert judge(toolchain, tmp_path, [{"interval": "15s", "input_series": GIVEN, "promql_expr_test": [expected]}]) == ""
