"""Causes that lie with the node under a replica, with who shares it, with the autoscaler, and with the watchers."""

from dataclasses import replace
from typing import Any

import pytest

from headway.diagnosis.cause_alert import place_of
from headway.diagnosis.facts import ChangeKind, State, StateKind
from headway.diagnosis.hypothesis import CauseLayer, Symptom
from headway.diagnosis.observed import Observed
from headway.diagnosis.reasoning import DiagnosisVerdict, diagnoses
from headway.diagnosis.unseen import unseen
from tests.unit.diagnosis.played import ONSET, hand, played, release, says

Levels = dict[str, dict[str, tuple[float, float]]]

PODS: Levels = {
    "compute_by_pod": {"a": (0.018, 0.018), "b": (0.018, 0.018), "c": (0.018, 0.060)},
    "served_by_pod": {"a": (0.025, 0.025), "b": (0.025, 0.025), "c": (0.025, 0.067)},
    "answered_by_pod": {"a": (33.0, 33.0), "b": (33.0, 33.0), "c": (33.0, 33.0)},
}
"""One of three replicas takes longer."""
GPUS: Levels = {
    "hot": {"x": (0.0, 0.0)},
    "power_capped": {"x": (0.0, 0.0)},
    "clock": {"x": (1980.0, 1980.0)},
    "replays": {"x": (0.0, 0.0)},
}
BUSY: Levels = {
    "cpu_stall_by_pod": {"a": (0.02, 0.02), "b": (0.02, 0.02), "c": (0.02, 0.8)},
    "node_busy": {"n1": (0.4, 0.4), "n2": (0.4, 0.99)},
    "others_cores": {"n1": (2.0, 2.0), "n2": (2.0, 14.0)},
}
SHORT: Levels = {"memory_stall_by_pod": {"a": (0.0, 0.0), "c": (0.0, 0.8)}}
NO_MEMORY: Levels = {"node_memory_left": {"n1": (0.6, 0.6), "n2": (0.5, 0.03)}}
LOADTEST: Levels = {
    "neighbours_cores": {"pod 1 of default": (0.1, 11.0), "pod 1 of kube-system": (0.1, 0.1)},
    "neighbours_memory": {"pod 1 of default": (2e9, 6e10), "pod 1 of kube-system": (1e8, 1e8)},
}


def one_slow(*levels: Levels, **more: Any) -> Observed:
    apart: Levels = {}
    for each in (PODS, *levels):
        apart |= each
    return played({"compute": 0.032}, apart=apart, hosts={"a": "n1", "b": "n1", "c": "n2"}, **more)


def waiting(kind: StateKind, pool: str = "l4") -> State:
    return replace(says(kind), pool=pool)


def of_service(measure: str, since: float) -> Observed:
    return played(apart={measure: {"": (0.0, since)}})


FULL: Levels = {"group_full": {"eks-l4-a-1a2b3c-x": (1.0, 1.0), "eks-l4-b-1a2b3d-x": (1.0, 1.0), "eks-l4-b-a-1a2b3e-x": (0.2, 0.2)}}
"""Of pool l4 two groups, in zones a and b; the third is of another pool, l4-b."""

CASES = {
    "node-busy": one_slow(BUSY),
    "neighbour-takes-processors": one_slow(BUSY, LOADTEST),
    "node-memory-short": one_slow(SHORT, NO_MEMORY),
    "neighbour-takes-memory": one_slow(SHORT, NO_MEMORY, LOADTEST),
    "memory-near-limit": one_slow(SHORT, {"memory_by_pod": {"a": (0.5, 0.5), "c": (0.6, 0.98)}}),
    "node-disk-slow": one_slow({"disk_stall_by_pod": {"c": (0.0, 0.8)}, "disk_wait": {"n2": (0.001, 0.2)}}),
    "node-network-loses": played({"latency": 0.080}, apart={"resent": {"n1": (0.0005, 0.0005), "n2": (0.0005, 0.06)}}),
    "node-disk-full": played(states=(says(StateKind.DISK_FULL), says(StateKind.ARTIFACTS_MISSING))),
    "evicted": played(states=(says(StateKind.EVICTED),)),
    "own-storage-full": played(states=(says(StateKind.STORAGE_EXCEEDED),)),
    "driver-unfit": played(states=(says(StateKind.DRIVER_UNFIT), says(StateKind.LOAD_FAILED))),
    "gpus-scattered": played(states=(waiting(StateKind.GPUS_SCATTERED),)),
    "nodes-tainted": played(states=(waiting(StateKind.TAINTED),)),
    "tainted-by-hand": played(states=(waiting(StateKind.TAINTED),), changes=(hand(ChangeKind.TAINT, 60.0),)),
    "node-unfit": played(states=(waiting(StateKind.NODE_UNFIT),)),
    "node-pressure": played(states=(waiting(StateKind.NODE_PRESSURE),)),
    "pool-at-maximum": played(apart=FULL, states=(waiting(StateKind.GPUS_TAKEN),)),
    "nodes-not-added": played(apart={"group_failing": {"eks-l4-a-1a2b3c-x": (0.0, 1.0)}}, states=(waiting(StateKind.POOL_EMPTY),)),
    "node-on-its-way": played(states=(waiting(StateKind.GPUS_TAKEN), waiting(StateKind.NODE_ORDERED))),
    "replicas-unread": of_service("unread", 0.5),
    "gpu-telemetry-silent": of_service("gpus_silent", 1.0),
    "rules-failing": of_service("rules_failing", 0.05),
}


@pytest.mark.parametrize("cause", CASES)
def test_a_fault_is_found_as_the_one_cause_of_what_hurts(cause: str) -> None:
    (found,) = diagnoses(CASES[cause])
    assert (found.verdict, found.cause) == (DiagnosisVerdict.CAUSE, cause), found.links


@pytest.mark.parametrize("cause", CASES)
def test_a_release_at_the_same_time_is_not_blamed(cause: str) -> None:
    calm = CASES[cause]
    found = diagnoses(replace(calm, changes=(*calm.changes, release(30.0))))
    # A pod of the release is no name that a played pod has, so nothing but the fault tells them apart.
    assert [each.cause for each in found] == [cause]


def test_a_neighbour_is_named_with_what_it_takes() -> None:
    (found,) = diagnoses(CASES["neighbour-takes-processors"])
    assert [link.name for link in found.links[-2:]] == ["node-busy", "neighbour-takes-processors"]
    assert "pod 1 of default 0.1" in found.links[-1].evidence[0]
    assert place_of(found) == "n2"


def test_a_neighbour_that_was_not_there_before_is_named() -> None:
    fresh = one_slow(BUSY, LOADTEST)
    since = tuple(each for each in fresh.series["neighbours_cores"]["pod 1 of default"] if each[0] > ONSET)
    series = {**fresh.series, "neighbours_cores": {"pod 1 of default": since}}
    (found,) = diagnoses(replace(fresh, series=series))
    assert found.cause == "neighbour-takes-processors"


def test_a_busy_node_is_no_cause_where_the_server_hardly_waits_for_it() -> None:
    hardly: Levels = {**BUSY, "cpu_stall_by_pod": {"c": (0.02, 0.1)}}
    (found,) = diagnoses(one_slow(hardly, LOADTEST))
    assert found.cause == "one-replica-slow"
    doubts = {each.name: each.said for each in found.ruled_out}
    assert "at most 6" in doubts["node-busy"]


def test_waiting_counts_of_the_time_in_which_a_replica_works_however_idle_it_is() -> None:
    few: Levels = {"answered_by_pod": {"c": (2.0, 2.0)}, "cpu_stall_by_pod": {"c": (0.0, 0.1)}}
    (found,) = diagnoses(one_slow(few, {**BUSY, **few}))
    assert found.cause == "node-busy"


def test_a_node_that_its_own_service_keeps_busy_is_no_neighbours_fault() -> None:
    own: Levels = {**BUSY, "others_cores": {"n2": (2.0, 2.0)}}
    (found,) = diagnoses(one_slow(own))
    assert found.cause == "one-replica-slow"


def test_a_quota_that_is_used_up_is_no_busy_node() -> None:
    all_wait: Levels = {
        "served_by_pod": {"a": (0.025, 0.067)},
        "answered_by_pod": {"a": (33.0, 33.0)},
        "cpu_stall_by_pod": {"a": (0.0, 0.8)},
    }
    (found,) = diagnoses(played({"compute": 0.060, "throttled": 0.6}, apart={**BUSY, **all_wait}))
    assert found.cause == "cpu-quota-used-up"


def test_a_replica_that_waits_for_its_node_has_no_silently_slow_gpu() -> None:
    watched: Levels = {**GPUS, "throttled_by_pod": {"c": (0.0, 0.0)}}
    (silent,) = diagnoses(one_slow(watched))
    (busy,) = diagnoses(one_slow(watched, BUSY))
    assert (silent.cause, busy.cause) == ("gpu-slow-and-silent", "node-busy")


def test_a_lost_packet_now_and_then_is_no_cause_of_a_longer_way() -> None:
    (found,) = diagnoses(played({"latency": 0.080}, apart={"resent": {"n1": (0.0005, 0.0015)}, "packets_lost": {"n1": (0.1, 0.5)}}))
    assert found.cause == "way-longer"


def test_a_pool_is_not_full_because_another_one_is() -> None:
    other: Levels = {"group_full": {"eks-l4-a-1a2b3c-x": (0.5, 0.5), "eks-l4-b-a-1a2b3e-x": (1.0, 1.0)}}
    (found,) = diagnoses(played(apart=other, states=(waiting(StateKind.GPUS_TAKEN),)))
    assert found.cause == "gpus-taken"


def test_a_pool_of_which_one_zone_is_full_is_not_full() -> None:
    zones: Levels = {"group_full": {"eks-l4-a-1a2b3c-x": (1.0, 1.0), "eks-l4-b-1a2b3d-x": (0.5, 0.5)}}
    (found,) = diagnoses(played(apart=zones, states=(waiting(StateKind.GPUS_TAKEN),)))
    assert found.cause == "gpus-taken"


def test_what_one_pool_lacks_is_one_message_for_all_that_wait_for_it() -> None:
    first, second = (
        diagnoses(replace(played(states=(waiting(StateKind.GPUS_TAKEN),)), tenant=tenant))[0] for tenant in ("vision", "assist")
    )
    assert (first.layer, place_of(first), place_of(second)) == (CauseLayer.SCHEDULER, "pool l4", "pool l4")


def test_unmeasured_replicas_do_not_hide_what_hurts_users() -> None:
    found = diagnoses(played({"compute": 0.060}, apart={"unread": {"": (0.0, 0.5)}}))
    assert [(each.symptom, each.cause) for each in found] == [(Symptom.SLOW, "model-slower"), (Symptom.UNWATCHED, "replicas-unread")]


def test_what_is_not_measured_says_what_it_leaves_undecided() -> None:
    series = {"unread": {"": ((0.0, 0.0), (1.0, 0.5))}, "gpus_silent": {"": ((1.0, 0.0),)}, "rules_failing": {"": ((1.0, 0.1),)}}
    found = list(unseen(series))
    assert [each.what for each in found] == ["replicas", "promises"]
    assert found[0].why.startswith("Prometheus cannot read 50% of the pages") and "by the others alone" in found[0].why
