"""Whether a replica's GPU is slower than its siblings': the evidence, what it cannot say, and how it is read from Prometheus."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from headway.diagnosis.sibling_watch import HISTORY_WINDOWS, SiblingWatch, groups, queries, windows
from headway.diagnosis.slow_sibling import (
    ABOVE,
    KEPT,
    LEAST_PROOF,
    LEAST_WINDOWS,
    TOLERATED,
    WARM_UP_WINDOWS,
    WINDOW_SECONDS,
    excess,
    sibling_evidence,
    watched,
)
from headway.node_health.facts import GpuNode, NodePod
from headway.release.evidence.prometheus import UnansweredError
from headway.release.evidence.samples import Series

Floats = NDArray[np.float64]
SIBLINGS = 4
NOW = 1_700_000_100.0


def followed(slower: float, count: int, *, siblings: int = SIBLINGS, batch: float = 1.0, noise: float = 0.02, seed: int = 1) -> Floats:
    """What is known of each after a warm-up and `count` windows in which the first takes `slower` times as long, with `batch` times the work."""
    rng = np.random.default_rng(seed)
    evidence = sibling_evidence((siblings,), 1)
    for number in range(WARM_UP_WINDOWS + count):
        times, sizes = np.exp(noise * rng.standard_normal(siblings)), np.ones((siblings, 1))
        times[0] *= slower if number >= WARM_UP_WINDOWS else 1.0
        sizes[0] *= batch
        evidence = watched(evidence, times, sizes)
    return evidence.value


def test_a_replica_that_is_15_percent_slower_is_found_within_ten_minutes() -> None:
    found = followed(1.15, 10 * 60 // WINDOW_SECONDS)
    assert [value >= LEAST_PROOF for value in found] == [True, False, False, False]


def test_healthy_siblings_prove_nothing() -> None:
    assert followed(1.0, 400, noise=0.06).max() < 1e-3


def test_nobody_is_accused_within_six_minutes_however_slow() -> None:
    assert followed(3.0, LEAST_WINDOWS - 2)[0] < LEAST_PROOF <= followed(3.0, LEAST_WINDOWS + 1)[0]


def test_longer_batches_explain_longer_times() -> None:
    assert followed(1.3, 80, batch=1.3)[0] < 1e-3


def test_a_replica_that_does_less_is_not_excused() -> None:
    assert followed(1.3, 80, batch=0.5)[0] >= LEAST_PROOF


def test_all_slow_together_is_nobodys_fault() -> None:
    evidence = sibling_evidence((3,), 1)
    for number in range(200):
        evidence = watched(evidence, np.full(3, 1.0 if number < 100 else 2.0), np.ones((3, 1)))
    assert evidence.value.max() < 1e-3


def test_a_replica_without_siblings_is_not_judged() -> None:
    assert followed(2.0, 100, siblings=1)[0] == 0


def test_one_odd_fast_sibling_accuses_nobody() -> None:
    evidence = sibling_evidence((3,), 1)
    for _ in range(200):
        evidence = watched(evidence, np.asarray([1.0, 1.0, 0.5]), np.ones((3, 1)))
    assert evidence.value.max() < 1e-3


def test_windows_that_are_not_judged_change_nothing() -> None:
    evidence = sibling_evidence((3,), 1)
    for _ in range(WARM_UP_WINDOWS + 10):
        evidence = watched(evidence, np.asarray([1.2, 1.0, 1.0]), np.ones((3, 1)))
    after = watched(evidence, np.asarray([math.nan, 1.0, 1.0]), np.ones((3, 1)))
    assert (after.value[0], after.last[0]) == (evidence.value[0], evidence.last[0])


def test_a_replica_is_no_measure_while_it_warms_up() -> None:
    times, size = np.asarray([1.2, 1.0, 1.0]), np.zeros((3, 1))
    found = excess(times, size, np.asarray([True, False, False]))
    assert np.isnan(found[0])


@pytest.mark.parametrize("correlation", [0.0, 0.3, KEPT])
def test_no_bet_is_worth_more_than_one_at_any_present_excess(correlation: float) -> None:
    """The proof's condition in its worst case, by drawing: noise as large as the tolerance is made for."""
    deviation, rng = TOLERATED / 1.25, np.random.default_rng(3)
    for present in (-0.1, 0.0, TOLERATED, 0.12, 0.3):
        following = correlation * present + deviation * math.sqrt(1 - correlation**2) * rng.standard_normal(200_000)
        assert (following > TOLERATED + KEPT * max(present - TOLERATED, 0.0)).mean() <= ABOVE


# -- what Prometheus says


def pod_of(number: int, release: str = "r1") -> NodePod:
    return NodePod(namespace="vision", name=f"defects-{number}", tenant="vision", model="defects", release=release, gpus=1)


def node(number: int, *pods: NodePod, pool: str = "l4") -> GpuNode:
    return GpuNode(name=f"n{number}", pool=pool, offered={}, installed={}, pods=pods or (pod_of(number),))


NODES = tuple(node(number) for number in range(SIBLINGS))


def played(
    slow: float = 1.0,
    *,
    since: float = 0.0,
    throttled: bool = False,
    answers: float = 300.0,
    waits: float = 0.0,
    others: float = 1.0,
) -> Callable[[float, float], Iterable[Series]]:
    """Counters of Triton read every quarter of a minute; the first replica takes `slow` times as long from `since` on, and waits
    for its node for `waits` seconds in each; all else takes `others` times as long as usual."""

    def ask(seconds: float, at: float) -> Iterable[Series]:
        moments = np.arange(math.ceil((at - seconds) / 15) * 15, at, 15.0)
        for number in range(SIBLINGS):
            labels = {"namespace": "vision", "pod": f"defects-{number}"}
            rate = [slow if number == 0 and moment > since else others for moment in moments]
            count = answers * np.arange(1, len(moments) + 1)
            for name, values in (
                ("nv_inference_compute_infer_duration_us", 1e4 * answers * np.cumsum(rate)),
                ("nv_inference_count", count),
                ("nv_inference_exec_count", count / 4),
                ("container_cpu_cfs_throttled_periods_total", count * (0.5 if throttled else 0.0)),
                ("container_cpu_cfs_periods_total", count),
                ("container_pressure_cpu_waiting_seconds_total", waits * np.arange(1, len(moments) + 1) * (number == 0)),
            ):
                yield Series({**labels, "__name__": name}, list(zip(moments.tolist(), values.tolist(), strict=True)))

    return ask


def test_a_slow_replica_names_its_node_with_the_numbers() -> None:
    found = SiblingWatch(ask=played(1.3, since=NOW - 1000))(NODES, NOW)
    assert list(found) == ["n0"]
    assert found["n0"].words.startswith("vision/defects-0 takes 1.30 times as long as its 3 siblings (evidence ")


def test_a_loop_that_begins_again_finds_what_the_one_before_found() -> None:
    ask = played(1.3, since=NOW - 1000)
    watch, said = SiblingWatch(ask=ask), {}
    for moment in np.arange(NOW - 2000, NOW + 1, 15.0):
        said = watch(NODES, float(moment))
    assert list(said) == list(SiblingWatch(ask=ask)(NODES, NOW)) == ["n0"]


def test_a_slow_node_is_watched_for_a_while_before_it_is_proven_slow() -> None:
    watch = SiblingWatch(ask=played(1.3, since=NOW - 1000))
    looks = [watch(NODES, float(moment)) for moment in np.arange(NOW - 1500, NOW + 1, 15.0)]
    stages = [look["n0"].proven if look else None for look in looks]
    assert list(dict.fromkeys(stages)) == [None, False, True]
    assert stages.count(False) >= 4, "a minute before it is set apart"


def test_a_replica_whose_cpu_quota_is_used_up_is_not_judged() -> None:
    assert SiblingWatch(ask=played(1.3, throttled=True))(NODES, NOW) == {}


@pytest.mark.parametrize(("waits", "judged"), [(0.2, []), (0.01, ["n0"])])
def test_a_replica_that_waits_for_its_node_is_not_judged(waits: float, judged: list[str]) -> None:
    """It computes for about one second of fifteen, of which it is 30 % too slow."""
    assert list(SiblingWatch(ask=played(1.3, since=NOW - 1000, waits=waits))(NODES, NOW)) == judged


def test_a_replica_with_few_answers_is_not_judged() -> None:
    assert SiblingWatch(ask=played(1.3, answers=9.0))(NODES, NOW) == {}


def test_times_that_nothing_takes_are_not_judged_and_end_nothing() -> None:
    """A pod may say any number: the quotient of these two is none."""
    assert SiblingWatch(ask=played(1e160, since=NOW - 1000, others=1e-160))(NODES, NOW) == {}


def test_versions_and_pools_are_never_compared() -> None:
    mixed = (node(0), node(1, pod_of(1, "r2")), node(2, pool="a10"))
    assert groups(mixed) == {}


def test_a_prometheus_that_does_not_answer_proves_nothing_and_is_told() -> None:
    def ask(seconds: float, at: float) -> Sequence[Series]:
        raise UnansweredError("away")

    watch = SiblingWatch(ask=ask)
    assert (watch(NODES, NOW), watch.answered) == ({}, False)


def test_a_counter_that_began_anew_has_no_window() -> None:
    samples = [(0.0, 100.0), (15.0, 400.0), (30.0, 30.0), (45.0, 330.0)]
    names = ("nv_inference_compute_infer_duration_us", "nv_inference_count", "nv_inference_exec_count")
    series = [Series({"__name__": name, "namespace": "vision", "pod": "defects-0"}, samples) for name in names]
    assert sorted(windows(series, 0, 3)) == [1, 3]


def test_replicas_that_come_and_go_leave_what_is_known_of_others() -> None:
    watch = SiblingWatch(ask=played(1.3, since=NOW - 1000))
    assert list(watch(NODES, NOW)) == ["n0"]
    assert list(watch((*NODES[:3], node(9)), NOW + 15)) == ["n0"]


def test_history_is_asked_for_in_pieces_and_each_window_once() -> None:
    asked: list[tuple[float, float]] = []

    def ask(seconds: float, at: float) -> Sequence[Series]:
        asked.append((seconds, at))
        return ()

    watch = SiblingWatch(ask=ask)
    watch(NODES, NOW)
    assert sum(seconds / WINDOW_SECONDS - 1 for seconds, _ in asked) == HISTORY_WINDOWS
    assert max(seconds for seconds, _ in asked) <= 9 * WINDOW_SECONDS
    asked.clear()
    watch(NODES, NOW + 15)
    assert len(asked) == 1
    assert all("[75s]" in query for query in queries(75))


def test_windows_that_were_not_answered_are_asked_for_again() -> None:
    away, ask = [True], played(1.3, since=NOW - 1000)

    def now_and_then(seconds: float, at: float) -> Iterable[Series]:
        if away[0]:
            raise UnansweredError("away")
        return ask(seconds, at)

    watch = SiblingWatch(ask=now_and_then)
    assert watch(NODES, NOW) == {}
    away[0] = False
    assert list(watch(NODES, NOW + 15)) == ["n0"]
