"""Which histograms versions of a language model are compared by, and how times of tokens become them."""

import numpy as np
import pytest

from headway.release.evidence import queries
from headway.release.evidence.counted import mesh_counts
from headway.release.evidence.reading import ArmNames, JudgedService, TickWindow, tick, unanswered
from headway.release.evidence.samples import UnreadableError
from headway.release.gate import Gate, GatePolicy

ARMS = ArmNames(stable="m-r1", canary="m-r2")
SERVICE = JudgedService(tenant="t", model="m")
STABLE, ONE, TWO = "m-r1-6d4cf56db6-aaaaa", "m-r2-6d4cf56db6-aaaaa", "m-r2-6d4cf56db6-bbbbb"


def requests(workload, number, **more):
    return {"destination_workload": workload, "response_code": "200", **more}, np.array([float(number)])


def durations(workload, number):
    edges = {"10": 0, "20": number, "+Inf": number}
    return [({"destination_workload": workload, "pod": STABLE, "le": le}, np.array([float(n)])) for le, n in edges.items()]


def streams(pod, counts, **more):
    return [({"pod": pod, "le": le, **more}, np.array([float(n)])) for le, n in counts.items()]


def first(pod, quick, slow, **more):
    return streams(pod, {"100": quick, "+Inf": quick + slow}, **more)


def following(pod, quick, slow, **more):
    return streams(pod, {"20000": quick, "+Inf": quick + slow}, **more)


def counted(asked, firsts, nexts, service=SERVICE):
    return mesh_counts(service, ARMS, asked, durations("m-r1", 100), [], {queries.FIRST: firsts, queries.NEXT: nexts})


def test_where_a_fifth_of_the_answers_are_streams_their_tokens_are_compared():
    found = counted([requests("m-r1", 100)], first(STABLE, 15, 5), following(STABLE, 20, 0))
    assert dict(found.edges) == {"first_token": (0.1,), "next_token": (0.02,)}, "in seconds"
    stable = found.arms(0, {})["stable"]
    assert (stable["requests"], stable["buckets"]) == ([100], {"first_token": [[15, 5]], "next_token": [[20, 0]]})


def test_where_fewer_are_streams_whole_answers_are_compared():
    assert set(counted([requests("m-r1", 101)], first(STABLE, 15, 5), following(STABLE, 20, 0)).edges) == {"latency"}


def test_of_answers_of_one_token_the_first_alone_is_compared():
    assert set(counted([requests("m-r1", 100)], first(STABLE, 100, 0), following(STABLE, 3, 0)).edges) == {"first_token"}


@pytest.mark.parametrize("begun_with", [{"latency": (10.0, 20.0)}, {"first_token": (0.1,), "next_token": (0.02,)}])
def test_a_release_goes_on_by_what_it_began_with(begun_with):
    service = JudgedService(tenant="t", model="m", edges=begun_with)
    few, many = (counted([requests("m-r1", 100)], first(STABLE, n, 0), following(STABLE, n, 0), service) for n in (1, 100))
    assert dict(few.edges) == dict(many.edges) == begun_with


def test_a_release_by_tokens_that_nobody_shows_any_more_knows_nothing():
    service = JudgedService(tenant="t", model="m", edges={"first_token": (0.1,), "next_token": (0.02,)})
    found = counted([requests("m-r1", 100)], first(STABLE, 100, 0), [], service)
    assert (dict(found.edges), found.arms(0, {})["stable"]["buckets"]) == ({}, {})


def test_edges_of_tokens_other_than_those_of_the_release_are_not_compared():
    service = JudgedService(tenant="t", model="m", edges={"first_token": (0.2,), "next_token": (0.02,)})
    with pytest.raises(UnreadableError, match=r"different edges \(at 0.1, 0.2 s"):
        counted([requests("m-r1", 100)], first(STABLE, 100, 0), following(STABLE, 100, 0), service)


def test_copies_and_replicas_are_told_apart_by_their_tokens_too():
    asked = [requests("m-r1", 100), requests("m-r2", 30, mirrored="true"), requests("m-r2", 8)]
    firsts = [
        *first(STABLE, 90, 10),
        *first(ONE, 9, 1, mirrored="true"),
        *first(TWO, 12, 8, mirrored="true"),
        *first(ONE, 8, 0, mirrored="false"),
    ]
    nexts = [*following(STABLE, 100, 0), *following(ONE, 10, 0, mirrored="true"), *following(ONE, 8, 0, mirrored="false")]
    arms = counted(asked, firsts, nexts).arms(0, {})
    assert arms["mirrored"]["buckets"] == {"first_token": [[21, 9]], "next_token": [[10, 0]]}
    assert arms["mirrored"]["replicas"] == {
        ONE: {"first_token": [[9, 1]], "next_token": [[10, 0]]},
        TWO: {"first_token": [[12, 8]], "next_token": [[0, 0]]},
    }
    assert arms["canary"]["buckets"] == {"first_token": [[8, 0]], "next_token": [[8, 0]]}


def test_classes_of_a_contract_are_told_apart_by_their_tokens_too():
    service = JudgedService(tenant="t", model="m", classes=("short", "long"))
    firsts = [*first(STABLE, 50, 0, request_class="short"), *first(STABLE, 1, 9, request_class="long")]
    found = counted([requests("m-r1", 60, request_class="short")], firsts, [], service)
    assert found.arms(0, {})["stable"]["buckets"] == {"first_token": [[50, 0], [1, 9]]}


def test_a_pod_of_another_service_counts_nowhere():
    other = "m-r10-6d4cf56db6-aaaaa"
    found = counted([requests("m-r1", 10)], [*first(STABLE, 10, 0), *first(other, 70, 0)], following(STABLE, 10, 0))
    assert found.arms(0, {})["stable"]["buckets"]["first_token"] == [[10, 0]]


def test_a_stream_whose_server_said_that_it_had_failed_is_a_failure():
    asked = [requests("m-r1", 100), requests("m-r2", 30, mirrored="true")]
    broken = [({"pod": STABLE}, np.array([2.0])), ({"pod": TWO, "mirrored": "true"}, np.array([3.0])), ({"pod": "other"}, np.array([9.0]))]
    arms = mesh_counts(SERVICE, ARMS, asked, durations("m-r1", 100), [], broken=broken).arms(0, {})
    assert {part: (arm["requests"], arm["errors"]) for part, arm in arms.items()} == {
        "stable": ([100], [2]),
        "canary": ([0], [0]),
        "mirrored": ([30], [3]),
    }


def test_the_gate_takes_what_was_counted_of_tokens():
    asked = [requests("m-r1", 100), requests("m-r2", 30, mirrored="true")]
    times = {"100": 60, "200": 90, "+Inf": 100}
    stable, copied = streams(STABLE, times), streams(ONE, times, mirrored="true")
    found = counted(asked, [*stable, *copied], [*stable, *copied])
    raw = {**unanswered(SERVICE, TickWindow(0, 60), ""), "answered": True, "edges": dict(found.edges), "arms": found.arms(0, {})}
    decision = Gate(GatePolicy(), found.edges).observe(tick(raw))
    assert {"latency", "latency.first_token", "latency.next_token"} <= set(decision.signals)
