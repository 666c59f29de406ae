"""What a diagnosis asks of nodes, neighbours, the autoscaler and the watchers, answered by the real PromQL from series with the labels that
production's exporters give them: n2 is under the replica, n1 is not, and another pod shares n2."""

from pathlib import Path

import pytest

from headway.diagnosis.measures import MEASURES, query
from headway.diagnosis.triage import questions
from sandbox.cluster.toolchain import Toolchain
from tests.cluster.components.observability.promtool import judge, series

POD = {"namespace": "vision", "pod": "defects-r0123456789-5b6bb57495-tj4tz"}
SERVER = {**POD, "node": "n2", "container": "server"}
OTHER = {"namespace": "default", "pod": "load-test", "node": "n2", "container": "main"}
FAR = {"namespace": "default", "pod": "far-away", "node": "n1", "container": "main"}
SERVICE = {"platform_io_tenant": "vision", "platform_io_model": "defects", **POD}
GROUP = {"node_group": "eks-l4-a-1a2b3c-0c1d"}


def counts(name: str, labels: dict[str, str], per_second: float) -> dict[str, str]:
    return series(name, labels, f"0+{per_second * 15}x60")


def of_machine(node: str, busy: float) -> list[dict[str, str]]:
    """Two processors, a disk and a card."""
    own = {"node": node, "instance": f"{node}:9100"}
    card = {**own, "device": "ens5"}
    return [
        *(counts("node_cpu_seconds_total", {**own, "cpu": cpu, "mode": "idle"}, 1 - busy) for cpu in ("0", "1")),
        *(counts("node_cpu_seconds_total", {**own, "cpu": cpu, "mode": "user"}, busy) for cpu in ("0", "1")),
        series("node_memory_MemAvailable_bytes", own, "2x60"),
        series("node_memory_MemTotal_bytes", own, "100x60"),
        counts("node_disk_io_time_seconds_total", {**own, "device": "nvme0n1"}, 0.5),
        counts("node_disk_read_time_seconds_total", {**own, "device": "nvme0n1"}, 0.3),
        counts("node_disk_write_time_seconds_total", {**own, "device": "nvme0n1"}, 0.1),
        counts("node_disk_reads_completed_total", {**own, "device": "nvme0n1"}, 3),
        counts("node_disk_writes_completed_total", {**own, "device": "nvme0n1"}, 1),
        counts("node_netstat_Tcp_RetransSegs", own, 2),
        counts("node_netstat_Tcp_OutSegs", own, 100),
        *(counts(f"node_network_{way}_{how}_total", card, 1) for way in ("receive", "transmit") for how in ("drop", "errs")),
        counts("node_network_receive_drop_total", {**own, "device": "eni0a1b2c"}, 50),
    ]


GIVEN = [
    *of_machine("n1", 0.1),
    *of_machine("n2", 0.9),
    *(
        series("kube_pod_info", {**{k: v for k, v in each.items() if k != "container"}, "host_ip": "10.0.0.1"}, "1x60")
        for each in (OTHER, FAR)
    ),
    series("kube_pod_info", {**POD, "node": "n2", "host_ip": "10.0.0.2"}, "1x60"),
    *(
        counts("container_cpu_usage_seconds_total", {**each, "cpu": "total"}, cores)
        for each, cores in ((SERVER, 0.3), (OTHER, 1.4), (FAR, 2))
    ),
    counts("container_cpu_usage_seconds_total", {**SERVER, "container": "", "cpu": "total"}, 0.3),
    *(series("container_memory_working_set_bytes", each, f"{size}x60") for each, size in ((SERVER, 7), (OTHER, 90), (FAR, 5))),
    *(
        counts(f"container_pressure_{of}_waiting_seconds_total", SERVER, share)
        for of, share in (("cpu", 0.6), ("memory", 0.2), ("io", 0.1))
    ),
    series("cluster_autoscaler_node_group_target_count", GROUP, "3x60"),
    series("cluster_autoscaler_node_group_max_count", GROUP, "4x60"),
    *(
        series("cluster_autoscaler_node_group_backoff_status", {**GROUP, "reason": each}, f"{on}x60")
        for each, on in (("QuotaExceeded", 0), ("Other", 1))
    ),
    counts("nv_inference_request_success", {**SERVICE, "model": "defects", "version": "1"}, 12),
    series("up", {**SERVICE, "endpoint": "metrics"}, "1x60"),
    series("up", {**SERVICE, "endpoint": "proxy"}, "0x60"),
    series("up", {**SERVICE, "pod": "defects-r0123456789-5b6bb57495-gone1", "endpoint": "metrics"}, "0x60"),
    series("kube_pod_status_ready", {**POD, "condition": "true"}, "1x60"),
    counts("prometheus_rule_evaluation_failures_total", {"rule_group": "a"}, 0.5),
]

ANSWERS: dict[str, tuple[dict[str, str], float]] = {
    "answered_by_pod": ({"pod": POD["pod"]}, 12),
    "cpu_stall_by_pod": ({"pod": POD["pod"]}, 0.6),
    "memory_stall_by_pod": ({"pod": POD["pod"]}, 0.2),
    "disk_stall_by_pod": ({"pod": POD["pod"]}, 0.1),
    "node_busy": ({"node": "n2"}, 0.9),
    "others_cores": ({"node": "n2"}, 1.5),
    "node_memory_left": ({"node": "n2"}, 0.02),
    "disk_busy": ({"node": "n2"}, 0.5),
    "disk_wait": ({"node": "n2"}, 0.1),
    "resent": ({"node": "n2"}, 0.02),
    "packets_lost": ({"node": "n2"}, 4),
    "neighbours_cores": ({"namespace": "default", "pod": "load-test", "node": "n2", "neighbour": "default/load-test"}, 1.4),
    "neighbours_memory": ({"namespace": "default", "pod": "load-test", "node": "n2", "neighbour": "default/load-test"}, 90),
    "group_full": (GROUP, 0.75),
    "group_failing": (GROUP, 1),
    "unread": ({}, 0.5),
    "gpus_silent": ({}, 1),
    "rules_failing": ({}, 0.5),
}


def told(labels: dict[str, str]) -> str:
    return "{" + ", ".join(f'{key}="{value}"' for key, value in sorted(labels.items())) + "}"


@pytest.mark.parametrize("name", ANSWERS)
def test_a_measure_tells_of_the_node_under_the_replica_and_of_no_other(toolchain: Toolchain, tmp_path: Path, name: str) -> None:
    labels, value = ANSWERS[name]
    text = query(MEASURES[name], "vision", "defects", "1m")
    asked = {"expr": text, "eval_time": "10m", "exp_samples": [{"labels": told(labels), "value": value}]}
    assert judge(toolchain, tmp_path, [{"interval": "15s", "input_series": GIVEN, "promql_expr_test": [asked]}]) == ""


def test_a_replica_that_came_lately_is_asked_of_its_nodes_time_before(toolchain: Toolchain, tmp_path: Path) -> None:
    came = [each for each in GIVEN if not (each["series"].startswith("kube_pod_info") and "vision" in each["series"])]
    came.append(series("kube_pod_info", {**POD, "node": "n2", "host_ip": "10.0.0.2"}, "_x38 1x20"))
    text = f"count_over_time(({query(MEASURES['node_busy'], 'vision', 'defects', '1m')})[8m:1m])"
    asked = {"expr": text, "eval_time": "10m", "exp_samples": [{"labels": told({"node": "n2"}), "value": 8}]}
    assert judge(toolchain, tmp_path, [{"interval": "15s", "input_series": came, "promql_expr_test": [asked]}]) == ""


LABELLED = {**POD, "label_platform_io_tenant": "vision", "label_platform_io_model": "defects"}
ELSEWHERE = {"exported_namespace": "assist", "exported_pod": "chat"}


@pytest.mark.parametrize("place", [-2, -1])
def test_a_service_of_which_something_is_not_measured_is_looked_at_whole(toolchain: Toolchain, tmp_path: Path, place: int) -> None:
    given = [*GIVEN, series("kube_pod_labels", LABELLED, "1x60"), series("DCGM_FI_DEV_FB_USED", ELSEWHERE, "1x60")]
    text = f"group by (tenant, model) ({questions('1m', '5m')[place]})"
    asked = {"expr": text, "eval_time": "10m", "exp_samples": [{"labels": told({"tenant": "vision", "model": "defects"}), "value": 1}]}
    assert judge(toolchain, tmp_path, [{"interval": "15s", "input_series": given, "promql_expr_test": [asked]}]) == ""
