"""From raw samples to what the gate takes in, without a Prometheus."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.release.evidence import queries
from headway.release.evidence.counted import mesh_counts
from headway.release.evidence.reading import ArmNames, JudgedService, TickWindow, edges, learnt, slowest_replica, tick, unanswered
from headway.release.evidence.samples import Series, UnreadableError, appeared, per_bucket, rises, scraped

ARMS = ArmNames(stable="m-r1", baseline="m-r1-baseline", canary="m-r2")
LABELS = {"job": "j", "instance": "i", "pod": "p"}


def one(samples, before=(), ends=(0.0, 60.0), **labels):
    series = Series({**LABELS, **labels}, samples)
    known = [Series({**LABELS, **labels}, before)] if before else []
    return list(rises([series], known, ends)[0][1])


def test_a_rise_belongs_to_the_tick_of_the_later_sample():
    assert one([(55, 10.0), (65, 25.0)], [(0, 4.0)], (0.0, 60.0, 120.0)) == [6.0, 15.0]


def test_a_sample_at_the_end_of_a_tick_is_in_it_and_one_at_its_start_is_not():
    assert one([(0, 5.0), (60, 9.0), (120, 10.0)], [(0, 5.0)], (0.0, 60.0, 120.0)) == [4.0, 1.0]


def test_a_series_never_seen_before_begins_at_zero():
    assert one([(30, 7.0), (45, 8.0)]) == [8.0]


def test_a_counter_that_fell_has_begun_anew():
    assert one([(15, 100.0), (30, 3.0)], [(0, 90.0)]) == [13.0]


def test_a_restart_is_told_by_another_counter_of_the_same_target():
    fell, overtook = ({**LABELS, "le": edge} for edge in ("1", "2"))
    found = rises(
        [Series(fell, [(15, 2.0)]), Series(overtook, [(15, 60.0)])], [Series(fell, [(0, 50.0)]), Series(overtook, [(0, 50.0)])], (0.0, 60.0)
    )
    assert [list(risen) for _, risen in found] == [[2.0], [60.0]]


def test_a_restart_of_another_target_says_nothing():
    other = {**LABELS, "pod": "q"}
    found = rises(
        [Series(other, [(15, 2.0)]), Series(LABELS, [(15, 60.0)])], [Series(other, [(0, 50.0)]), Series(LABELS, [(0, 50.0)])], (0, 60)
    )
    assert [list(risen) for _, risen in found] == [[2.0], [10.0]]


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_a_value_that_counts_nothing_makes_the_answer_unreadable(value):
    with pytest.raises(UnreadableError, match="is no count"):
        one([(15, value)])


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.lists(st.integers(1, 39), max_size=6, unique=True))
def test_whatever_the_ticks_all_rises_together_are_the_whole_rise(steps, cuts):
    values = np.cumsum(steps)
    samples = [(15.0 * (k + 1), float(value)) for k, value in enumerate(values)]
    ends = sorted({0.0, *(15.0 * cut for cut in cuts), 15.0 * 41})
    assert sum(one(samples, [(0, 0.0)], ends)) == values[-1]


GPU = {"pod": "chat-r1-a", "UUID": "GPU-1"}


def test_what_a_gpu_already_showed_when_the_pod_came_is_not_the_pods():
    assert appeared([Series(GPU, [(15.0, 79.0), (30.0, 79.0)])], [], 0.0, 30.0) == set()


def test_a_gpu_error_is_found_only_in_the_tick_where_it_appears():
    shown = [Series(GPU, [(15.0, 0.0), (30.0, 79.0), (45.0, 79.0), (60.0, 79.0)])]
    assert appeared(shown, [], 0.0, 30.0) == {79}
    assert appeared(shown, [], 30.0, 60.0) == set()


def test_what_a_gpu_showed_before_the_reading_is_remembered():
    assert appeared([Series(GPU, [(45.0, 79.0)])], [Series(GPU, [(30.0, 0.0)])], 30.0, 60.0) == {79}
    assert appeared([Series(GPU, [(45.0, 79.0)])], [Series(GPU, [(30.0, 79.0)])], 30.0, 60.0) == set()


def test_a_target_is_scraped_when_no_scrape_failed_and_none_is_missing():
    every = [(15.0 * k, 1.0) for k in range(1, 5)]
    assert scraped(every, 0, 60, 48)
    assert not scraped([*every[:2], (45.0, 0.0), every[3]], 0, 60, 48)
    assert not scraped([every[0], (75.0, 1.0)], 0, 75, 48)
    assert not scraped([], 0, 60, 48)


def test_a_target_that_came_or_went_in_between_was_scraped():
    assert scraped([(45.0, 1.0), (60.0, 1.0)], 0, 60, 48)
    assert scraped([(15.0, 1.0)], 0, 60, 48)


def test_buckets_are_differences_between_edges():
    cumulative = {1.0: np.array([3.0]), 2.0: np.array([5.0]), math.inf: np.array([9.0])}
    assert per_bucket(cumulative, (1.0, 2.0)).tolist() == [[3.0], [2.0], [4.0]]
    with pytest.raises(UnreadableError, match="edges differ at 4"):
        per_bucket(cumulative, (1.0, 2.0, 4.0))


def requests(workload, number, code="200", **more):
    return {**LABELS, "destination_workload": workload, "response_code": code, **more}, np.array([float(number)])


def durations(workload, counts, **more):
    return [({**LABELS, "destination_workload": workload, "le": le, **more}, np.array([float(n)])) for le, n in counts.items()]


FEW = {"10": 1, "20": 3, "+Inf": 4}


def test_copies_users_and_failures_go_to_their_arms():
    found = mesh_counts(
        JudgedService(tenant="t", model="m"),
        ARMS,
        [
            requests("m-r1", 90),
            requests("m-r1", 5, "503"),
            requests("m-r1-baseline", 8),
            requests("m-r2", 7),
            requests("m-r2", 40, mirrored="true"),
            requests("m-r1", 3, mirrored="true"),
            requests("other", 11),
        ],
        durations("m-r1", FEW),
        [({"destination_service_name": "m-r2"}, np.array([2.0]))],
    ).arms(0, {})
    shown = {part: (arm["requests"], arm["errors"]) for part, arm in found.items()}
    assert shown == {"stable": ([95], [5]), "baseline": ([8], [0]), "canary": ([9], [2]), "mirrored": ([40], [0])}
    assert found["stable"]["buckets"] == {"latency": [[1, 2, 1]]}


def of_two_pods(**more):
    slow, fast = {"10": 1, "20": 1, "+Inf": 9}, {"10": 9, "20": 9, "+Inf": 9}
    return [*durations("m-r2", slow, pod="m-r2-b", **more), *durations("m-r2", fast, pod="m-r2-a", **more)]


def test_replicas_of_the_new_version_are_told_apart():
    series = [*of_two_pods(), *of_two_pods(mirrored="true"), *durations("m-r1", FEW, pod="m-r1-a")]
    found = mesh_counts(JudgedService(tenant="t", model="m"), ARMS, [requests("m-r2", 18)], series, []).arms(0, {})
    alone = {"m-r2-a": {"latency": [[9, 0, 0]]}, "m-r2-b": {"latency": [[1, 0, 8]]}}
    assert (found["canary"]["replicas"], found["mirrored"]["replicas"]) == (alone, alone)
    assert "replicas" not in found["stable"]


def raw_of_two_pods():
    shown = mesh_counts(JudgedService(tenant="t", model="m"), ARMS, [requests("m-r2", 18)], of_two_pods(), [])
    return {**unanswered(JudgedService(tenant="t", model="m"), TickWindow(0, 60), ""), "edges": shown.edges, "arms": shown.arms(0, {})}


def test_the_gate_takes_replicas_in_the_order_of_their_names():
    canary = tick(raw_of_two_pods()).canary
    assert canary and isinstance(canary.by_replica, dict)
    assert np.asarray(canary.by_replica["latency"]).tolist() == [[[9, 0, 0]], [[1, 0, 8]]]


def test_a_replica_is_named_with_what_sets_it_apart():
    assert slowest_replica(raw_of_two_pods()) == (
        "In this tick 88.9 % of the requests of m-r2-b took longer than 20 ms, and 0 % of its siblings'."
    )


def test_no_replica_is_named_where_nobody_tells_them_apart():
    raw = raw_of_two_pods()
    del raw["arms"]["canary"]["replicas"]
    assert slowest_replica(raw) == ""
    seen = tick(raw).canary
    assert seen and seen.by_replica is None


@pytest.mark.parametrize(("status", "failed"), [("", 0), ("0", 0), ("1", 0), ("13", 6), ("14", 6)])
def test_a_grpc_status_other_than_ok_is_a_failure_unless_the_client_cancelled(status, failed):
    found = mesh_counts(
        JudgedService(tenant="t", model="m"), ARMS, [requests("m-r1", 6, grpc_response_status=status)], durations("m-r1", FEW), []
    )
    assert found.arms(0, {})["stable"]["errors"] == [failed]


@pytest.mark.parametrize(("flags", "failed"), [("-", 0), ("DC", 0), ("UC", 6), ("UPE", 6), ("DC,UR", 6)])
def test_an_answer_that_its_server_broke_off_is_a_failure_whatever_its_status(flags, failed):
    found = mesh_counts(JudgedService(tenant="t", model="m"), ARMS, [requests("m-r1", 6, response_flags=flags)], durations("m-r1", FEW), [])
    assert found.arms(0, {})["stable"]["errors"] == [failed]


def test_requests_without_a_class_of_the_contract_are_counted_apart():
    service = JudgedService(tenant="t", model="m", classes=("short", "long"))
    series = [requests("m-r1", 4, request_class="long"), requests("m-r1", 9), requests("m-r1", 2, request_class="probe")]
    stable = mesh_counts(service, ARMS, series, durations("m-r1", FEW, request_class="long"), []).arms(0, {})["stable"]
    assert (stable["requests"], stable["unclassified"]) == ([0, 4], 11)


def test_arms_with_other_edges_are_not_compared():
    with pytest.raises(UnreadableError, match="different edges"):
        mesh_counts(JudgedService(tenant="t", model="m"), ARMS, [], [*durations("m-r1", FEW), *durations("m-r2", {"10": 1, "+Inf": 2})], [])


def test_edges_other_than_those_of_the_release_are_not_compared():
    with pytest.raises(UnreadableError, match="different edges"):
        mesh_counts(JudgedService(tenant="t", model="m", edges={"latency": (10.0, 30.0)}), ARMS, [], durations("m-r1", FEW), [])


def test_time_in_queue_is_shared_between_copies_and_users_requests():
    found = mesh_counts(
        JudgedService(tenant="t", model="m"),
        ARMS,
        [requests("m-r2", 10), requests("m-r2", 30, mirrored="true")],
        durations("m-r2", FEW),
        [],
    ).arms(0, {"m-r2": {"queued": 8.0}})
    assert (found["canary"]["queued"], found["mirrored"]["queued"], found["stable"]["queued"]) == (2.0, 6.0, None)


def test_a_source_that_is_down_is_an_observation_the_gate_can_take_in():
    raw = unanswered(JudgedService(tenant="t", model="m"), TickWindow(0, 60), "connection refused")
    seen = tick(raw)
    assert (seen.answered, seen.canary_up, seen.stable) == (False, False, None)
    with pytest.raises(ValueError, match="connection refused"):
        edges(raw)
    with pytest.raises(ValueError, match="connection refused"):
        learnt(raw)


def test_all_that_a_reading_knows_reaches_the_gate():
    series = [requests("m-r1", 4), requests("m-r2", 4)]
    shown = mesh_counts(JudgedService(tenant="t", model="m"), ARMS, series, [*durations("m-r1", FEW), *durations("m-r2", FEW)], [])
    raw = {
        **unanswered(JudgedService(tenant="t", model="m"), TickWindow(0, 60), ""),
        "edges": shown.edges,
        "arms": shown.arms(0, {"m-r2": {"queued": 8.0, "busy": 3.0}}),
        "memory": 0.5,
        "control_memory": 0.4,
        "room": 90.0,
        "answers": {"pairs": 7, "mismatches": 2, "invalid": 1, "labelled": 5, "only_canary_right": 3, "only_stable_right": 1},
    }
    seen = tick(raw)
    assert seen.canary is not None and seen.stable is not None
    assert (seen.canary.queued, seen.canary.busy, seen.capacity) == (8.0, 3.0, 90.0)
    assert (seen.memory, seen.control_memory) == (0.5, 0.4)
    assert np.isnan(tick({key: value for key, value in raw.items() if key != "control_memory"}).control_memory), "a ledger of before"
    assert np.isnan(seen.stable.queued) and np.isnan(tick({**raw, "room": None}).capacity), "what nobody knows is not zero"
    assert (seen.pairs, seen.mismatches, seen.invalid_answers) == (7, 2, 1)
    assert (seen.labelled, seen.only_canary_right, seen.only_stable_right) == (5, 3, 1)


def test_a_window_without_time_is_refused():
    with pytest.raises(ValueError, match="empty"):
        TickWindow(60, 60)


@pytest.mark.parametrize(
    ("pod", "mine"),
    [
        ("m-r1-6d4cf56db6-x2lq9", True),
        ("m-r1-baseline-6d4cf56db6-x2lq9", False),
        ("m-r10-6d4cf56db6-x2lq9", False),
        ("x-m-r1-6d4cf56db6-x2lq9", False),
    ],
)
def test_a_pod_belongs_to_one_arm_only(pod, mine):
    assert bool(queries.compiled_pods_of("m-r1").fullmatch(pod)) is mine


def test_no_name_can_leave_its_place_in_a_query():
    assert queries.quoted('a"} or up{x="') == '"a\\"} or up{x=\\""'
    assert queries.one_of(("b.c", "a-d")) == '"a-d|b\\\\.c"'
