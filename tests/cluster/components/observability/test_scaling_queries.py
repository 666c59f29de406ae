"""The queries by which replicas are decided, answered by the real PromQL engine: what cannot be read never looks like less load.

KEDA takes an answer that is empty or not a number for a failure, and keeps the replicas (test_autoscaling.py).
"""

from pathlib import Path

import pytest

from headway.signals import Scope, Source, signal
from sandbox.cluster.toolchain import Toolchain
from tests.cluster.components.observability.promtool import MINUTE, answers, judge, series

pytestmark = pytest.mark.timeout(1800)

SCOPE = Scope(tenant="vision", model="defects", release="r1")
LABELS = {"platform_io_model": "defects", "platform_io_release": "r1", "platform_io_tenant": "vision"}

# What a pod that carries four units of the signal shows: series, growth of a step (0 for a gauge), and its steady value.
FOUR: dict[tuple[str, Source], list[tuple[str, dict[str, str], int, int]]] = {
    ("in_flight", Source.TRITON): [("nv_inference_request_duration_us", {"version": "1"}, 60_000_000, 0)],
    ("in_flight", Source.VLLM): [("vllm:num_requests_running", {}, 0, 3), ("vllm:num_requests_waiting", {}, 0, 1)],
    ("waiting", Source.TRITON): [("nv_inference_pending_request_count", {"version": "1"}, 0, 4)],
    ("waiting", Source.VLLM): [("vllm:num_requests_waiting", {}, 0, 4)],
    ("request_rate", Source.TRITON): [
        ("nv_inference_request_success", {"version": "1"}, 45, 0),
        ("nv_inference_request_failure", {"version": "1", "reason": "BACKEND"}, 15, 0),
    ],
    ("request_rate", Source.VLLM): [
        ("vllm:request_success_total", {"finished_reason": "stop"}, 45, 0),
        ("vllm:request_success_total", {"finished_reason": "length"}, 15, 0),
    ],
}
TOTALS = sorted(FOUR)
LOST = 5 * MINUTE
"""Steps after which something happens; the end is at 30 minutes."""
END = 30 * MINUTE


def readings(kind: tuple[str, Source], pod: str, steps: int = END, then: str = "") -> list[dict[str, str]]:
    """What `pod` shows for that many steps, and `then`."""
    found: list[dict[str, str]] = []
    for name, labels, growth, value in FOUR[kind]:
        values = f"0+{growth}x{steps}" if growth else f"{value}x{steps}"
        found.append(series(name, {**LABELS, **labels, "pod": pod}, f"{values} {then}".strip()))
    return found


def up(pod: str, values: str) -> dict[str, str]:
    return series("up", {**LABELS, "pod": pod}, values)


def check(toolchain: Toolchain, folder: Path, kind: tuple[str, Source], shown: list[dict[str, str]], **at: float | None) -> None:
    expression = signal(kind[0]).held(kind[1], SCOPE)
    expected = [answers(expression, when, value) for when, value in at.items()]
    assert judge(toolchain, folder, [{"interval": "15s", "input_series": shown, "promql_expr_test": expected}]) == ""


each = pytest.mark.parametrize("kind", TOTALS, ids=lambda kind: f"{kind[0]}-{kind[1]}")


@each
def test_the_load_of_all_replicas_counts(toolchain: Toolchain, tmp_path: Path, kind: tuple[str, Source]) -> None:
    shown = [*readings(kind, "a"), *readings(kind, "b"), up("a", f"1x{END}"), up("b", f"1x{END}")]
    check(toolchain, tmp_path, kind, shown, **{"10m": 8})


@each
def test_a_replica_that_cannot_be_read_counts_for_ten_minutes_more(toolchain: Toolchain, tmp_path: Path, kind: tuple[str, Source]) -> None:
    shown = [*readings(kind, "a"), *readings(kind, "b", LOST, "stale"), up("a", f"1x{END}"), up("b", f"1x{LOST} 0x{END}")]
    check(toolchain, tmp_path, kind, shown, **{"5m30s": 8, "8m": 8, "14m": 8, "20m": 4})


@each
def test_without_readable_replicas_the_load_stays_and_then_is_unknown_not_zero(
    toolchain: Toolchain, tmp_path: Path, kind: tuple[str, Source]
) -> None:
    shown = [*readings(kind, "a", LOST, "stale"), up("a", f"1x{LOST} 0x{END}")]
    check(toolchain, tmp_path, kind, shown, **{"8m": 4, "14m": 4, "20m": None})


@each
def test_a_replica_that_is_gone_counts_no_more(toolchain: Toolchain, tmp_path: Path, kind: tuple[str, Source]) -> None:
    shown = [*readings(kind, "a"), *readings(kind, "b", LOST, "stale"), up("a", f"1x{END}"), up("b", f"1x{LOST} stale")]
    check(toolchain, tmp_path, kind, shown, **{"7m": 4})


@each
def test_a_replica_that_is_starting_adds_nothing(toolchain: Toolchain, tmp_path: Path, kind: tuple[str, Source]) -> None:
    shown = [*readings(kind, "a"), up("a", f"1x{END}"), up("b", f"0x{END}")]
    check(toolchain, tmp_path, kind, shown, **{"10m": 4})


@each
def test_load_that_was_never_read_is_unknown_not_zero(toolchain: Toolchain, tmp_path: Path, kind: tuple[str, Source]) -> None:
    check(toolchain, tmp_path, kind, [up("a", f"1x{END}")], **{"10m": None})


@each
def test_another_releases_replicas_never_count(toolchain: Toolchain, tmp_path: Path, kind: tuple[str, Source]) -> None:
    theirs = [
        {**one, "series": one["series"].replace('"r1"', '"r2"')}
        for one in (*readings(kind, "c", LOST, "stale"), up("c", f"1x{LOST} 0x{END}"))
    ]
    shown = [*readings(kind, "a"), up("a", f"1x{END}"), *theirs]
    check(toolchain, tmp_path, kind, shown, **{"8m": 4})


@pytest.mark.parametrize("kind", [("waiting", Source.TRITON), ("waiting", Source.VLLM)], ids=lambda kind: str(kind[1]))
def test_a_reading_that_is_no_number_makes_the_whole_no_number(toolchain: Toolchain, tmp_path: Path, kind: tuple[str, Source]) -> None:
    name, labels, _, _ = FOUR[kind][0]
    shown = [
        *readings(kind, "a"),
        series(name, {**LABELS, **labels, "pod": "b"}, " ".join(["NaN"] * END)),
        up("a", f"1x{END}"),
        up("b", f"1x{END}"),
    ]
    expression = signal(kind[0]).held(kind[1], SCOPE)
    unequal = {"expr": f"count(({expression}) != ({expression}))", "eval_time": "10m", "exp_samples": [{"labels": "{}", "value": 1}]}
    assert judge(toolchain, tmp_path, [{"interval": "15s", "input_series": shown, "promql_expr_test": [unequal]}]) == ""


@pytest.mark.parametrize(
    ("name", "source", "counters", "expected"),
    [
        ("queue_time", Source.TRITON, ("nv_inference_queue_duration_us", "nv_inference_request_success"), 0.0),
        ("queue_time", Source.VLLM, ("vllm:request_queue_time_seconds_sum", "vllm:request_queue_time_seconds_count"), 0.0),
        ("in_flight", Source.TRITON, ("nv_inference_request_duration_us",), 0.0),
        ("request_rate", Source.VLLM, ("vllm:request_success_total",), 0.0),
    ],
)
def test_without_requests_the_load_is_zero_and_without_a_source_it_is_unknown(
    toolchain: Toolchain, tmp_path: Path, name: str, source: Source, counters: tuple[str, ...], expected: float
) -> None:
    expression = signal(name).held(source, SCOPE)
    idle = [series(counter, {**LABELS, "pod": "a"}, f"7x{END}") for counter in counters]
    tests = [
        {"interval": "15s", "input_series": [*idle, up("a", f"1x{END}")], "promql_expr_test": [answers(expression, "10m", expected)]},
        {"interval": "15s", "input_series": [up("a", f"1x{END}")], "promql_expr_test": [answers(expression, "10m", None)]},
    ]
    assert judge(toolchain, tmp_path, tests) == ""
