"""What the cluster's objects say of a service, and who changed them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from headway.diagnosis.changes import by_hand, of_deployments
from headway.diagnosis.facts import ChangeKind, StateKind
from headway.diagnosis.states import states
from headway.diagnosis.triage import placed
from headway.node_health.facts import Quarantine, QuarantineState
from headway.wire import ACCELERATOR_READY, POOL, QUARANTINE
from tests.unit.service_status.test_pending import container, node, pod

NOW = datetime(2026, 11, 29, 1, 0, tzinfo=UTC)
AT = NOW.timestamp()


def clock(minute: int) -> str:
    return f"2026-11-29T00:{minute:02d}:00Z"


def _deployment(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "defects-r1"}, "spec": {"template": {"spec": {"nodeSelector": {POOL: "l4"}}}}, "status": status}


def kinds(*pods: dict[str, Any], **more: Any) -> list[StateKind]:
    given = {"deployments": [], "nodes": [], "others": [], "events": [], **more}
    return [each.kind for each in states(given["deployments"], pods, given["nodes"], given["others"], given["events"], at=AT)]


def _ended(reason: str, minute: int = 55) -> dict[str, Any]:
    last = {"terminated": {"reason": reason, "exitCode": 137, "startedAt": clock(minute - 20), "finishedAt": clock(minute)}}
    return pod(
        "p",
        on="n",
        conditions=[{"type": "Ready", "status": "True"}],
        containerStatuses=[container(state={"running": {}}, ready=True, restartCount=1, lastState=last)],
    )


def test_a_container_that_the_kernel_ended_for_its_memory_says_so() -> None:
    assert kinds(_ended("OOMKilled")) == [StateKind.MEMORY_KILLED]


@pytest.mark.parametrize(
    ("times", "began", "repeats"),
    [(1, clock(35), False), (2, clock(35), True), (2, "2026-11-21T23:00:00Z", False), (2, "1970-01-01T00:00:00Z", True)],
    ids=["once", "twice within the hour", "the first a week ago", "a run that never began"],
)
def test_what_ended_again_had_ended_before_within_the_hour(times: int, began: str, repeats: bool) -> None:
    again = _ended("OOMKilled")
    again["status"]["containerStatuses"][0]["restartCount"] = times
    again["status"]["containerStatuses"][0]["lastState"]["terminated"]["startedAt"] = began
    (found,) = states([], [again], [], [], [], at=AT)
    assert found.repeats is repeats


@pytest.mark.parametrize(("times", "repeats"), [(2, False), (3, True)])
def test_what_may_have_ended_before_a_moment_that_is_past_is_kept(times: int, repeats: bool) -> None:
    again = _ended("OOMKilled")
    again["status"]["containerStatuses"][0]["restartCount"] = times
    (found,) = states([], [again], [], [], [], at=AT - 3000)
    assert found.repeats is repeats


def test_no_other_namespaces_pod_makes_a_service_look_ill() -> None:
    theirs = _ended("OOMKilled")
    theirs["metadata"]["namespace"] = "warehouse"
    assert placed([], [theirs], [], at=AT) == set()
    assert placed([], [_ended("OOMKilled")], [], at=AT) == {"vision/defects"}


@pytest.mark.parametrize("probe", ["liveness", "startup"])
def test_a_container_that_its_probe_ended_is_told_by_the_event(probe: str) -> None:
    event = {
        "involvedObject": {"name": "p"},
        "reason": "Killing",
        "message": f"Container server failed {probe} probe, will be restarted",
        "lastTimestamp": clock(55),
    }
    assert kinds(_ended("Error"), events=[event]) == [StateKind.PROBE_KILLED]


def test_a_probe_that_ended_the_container_before_ended_not_this_one() -> None:
    event = {
        "involvedObject": {"name": "p"},
        "message": "Container server failed liveness probe, will be restarted",
        "lastTimestamp": clock(10),
    }
    assert kinds(_ended("Error"), events=[event]) == [StateKind.ENDED]


def test_what_ended_more_than_an_hour_ago_is_over() -> None:
    gone = _ended("OOMKilled")
    gone["status"]["containerStatuses"][0]["lastState"]["terminated"]["finishedAt"] = "2026-11-28T23:00:00Z"
    assert kinds(gone) == []


def test_a_replica_that_has_just_been_made_is_on_its_way() -> None:
    young = pod("p", on="n", containerStatuses=[container(state={"running": {}}, ready=False)])
    young["metadata"]["creationTimestamp"] = clock(58)
    assert kinds(young) == []
    young["metadata"]["creationTimestamp"] = clock(30)
    assert kinds(young) == [StateKind.UNREADY]


def test_a_replica_whose_startup_probe_still_waits_is_on_its_way() -> None:
    loading = pod("p", on="n", containerStatuses=[container(state={"running": {}}, ready=False, started=False)])
    loading["metadata"]["creationTimestamp"] = clock(30)
    unhealthy = {"involvedObject": {"name": "p"}, "reason": "Unhealthy", "message": "Startup probe failed", "lastTimestamp": clock(55)}
    assert kinds(loading, events=[unhealthy]) == []


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_is_over_and_not_yet_collected_is_no_missing_replica(phase: str) -> None:
    over = pod("p", on="n", phase=phase, reason="UnexpectedAdmissionError", containerStatuses=[])
    over["metadata"]["creationTimestamp"] = clock(30)
    assert kinds(over) == []


def conditions(ready: str, changed: int, set_up: int = 5) -> list[dict[str, Any]]:
    """Of a pod, by the minutes at which it was set up and last became ready, or ceased to."""
    return [
        {"type": "Initialized", "status": "True", "lastTransitionTime": clock(set_up)},
        {"type": "Ready", "status": ready, "lastTransitionTime": clock(changed)},
    ]


@pytest.mark.parametrize(("changed", "since"), [(50, 50), (3, 2)])
def test_a_replica_is_missing_since_it_ceased_to_be_ready_or_was_made(changed: int, since: int) -> None:
    gone = pod("p", on="n", conditions=conditions("False", changed), containerStatuses=[container(state={"running": {}}, ready=False)])
    gone["metadata"]["creationTimestamp"] = clock(2)
    (found,) = states([], [gone], [], [], [], at=AT)
    assert found.since == datetime(2026, 11, 29, 0, since, tzinfo=UTC).timestamp()


def test_what_ended_is_past_once_every_replica_is_ready() -> None:
    ended, beside = _ended("OOMKilled"), pod("q", on="n", conditions=conditions("False", 59))
    (past,) = states([], [ended], [], [], [], at=AT)
    present = states([], [ended, beside], [], [], [], at=AT)
    assert past.over
    assert [each.over for each in present if each.kind is StateKind.MEMORY_KILLED] == [False]


@pytest.mark.parametrize(("state", "since"), [("draining", 100.0), ("waiting", 900.0), ("testing", 100.0)])
def test_a_node_harms_from_its_quarantine_on_or_from_when_it_was_drained(state: str, since: float) -> None:
    quarantine = Quarantine(state=QuarantineState(state), reason="GpuXid", by="headway", since=100.0, changed=900.0)
    apart: dict[str, Any] = node("a", taints=(QUARANTINE,))
    apart["metadata"]["annotations"] = {QUARANTINE: quarantine.text()}
    (found,) = states([_deployment()], [], [apart], [], [], at=AT)
    assert found.since == since


def test_a_node_that_was_tainted_alone_says_what_its_monitoring_says() -> None:
    apart: dict[str, Any] = node("a", taints=(QUARANTINE,))
    said = {"type": ACCELERATOR_READY, "status": "False", "reason": "NvidiaXID79Error", "lastTransitionTime": clock(50)}
    apart["status"]["conditions"].append(said)
    (found,) = states([_deployment()], [], [apart], [], [], at=AT)
    assert (found.words, found.since) == (
        "in quarantine; the node says NvidiaXID79Error",
        datetime(2026, 11, 29, 0, 50, tzinfo=UTC).timestamp(),
    )


def test_a_quota_that_refuses_pods_is_told_by_the_deployment() -> None:
    message = "pods is forbidden: exceeded quota: gpus, requested: pods=1, used: pods=3, limited: pods=3"
    failure = {"type": "ReplicaFailure", "status": "True", "message": message, "lastTransitionTime": clock(50)}
    (found,) = states([_deployment(conditions=[failure])], [], [], [], [], at=AT)
    assert (found.kind, found.since) == (StateKind.QUOTA_FULL, datetime(2026, 11, 29, 0, 50, tzinfo=UTC).timestamp())


def test_a_node_of_another_pool_is_not_the_services() -> None:
    apart = [node("a", taints=(QUARANTINE,)), node("h", "h100", taints=(QUARANTINE,))]
    found = states([_deployment()], [], apart, [], [], at=AT)
    assert [(each.kind, each.subject) for each in found] == [(StateKind.NODE_SET_APART, "a")]


def _written(manager: str, *fields: str, subresource: str = "") -> dict[str, Any]:
    entry = {"manager": manager, "time": clock(50), "fieldsV1": {"f:spec": {f"f:{each}": {} for each in fields}}}
    return {"metadata": {"name": "x", "managedFields": [entry | ({"subresource": subresource} if subresource else {})]}}


def test_a_node_set_apart_as_slow_says_so_with_its_numbers() -> None:
    reason = "SlowerThanSiblings: vision/defects-1 takes 1.31 times as long as its 3 siblings"
    quarantine = Quarantine(state=QuarantineState.DRAINING, reason=reason, by="headway", since=0.0, changed=0.0)
    apart: dict[str, Any] = node("a", taints=(QUARANTINE,))
    apart["metadata"]["annotations"] = {QUARANTINE: quarantine.text()}
    mine = _deployment()
    mine["metadata"]["namespace"] = "vision"
    assert [each.words for each in states([mine], [], [apart], [], [], at=AT)] == [f"in quarantine: {reason}"]
    mine["metadata"]["namespace"] = "search"
    (other,) = states([mine], [], [apart], [], [], at=AT)
    assert other.words == "in quarantine: SlowerThanSiblings: a pod of vision takes 1.31 times as long as its 3 siblings"


@pytest.mark.parametrize("reason", ["GPU 3/8 failed", "see runbooks/xid-79"])
def test_a_persons_reason_for_a_quarantine_is_told_as_it_stands(reason: str) -> None:
    quarantine = Quarantine(state=QuarantineState.DRAINING, reason=reason, by="ada", since=0.0, changed=0.0)
    apart: dict[str, Any] = node("a", taints=(QUARANTINE,))
    apart["metadata"]["annotations"] = {QUARANTINE: quarantine.text()}
    (found,) = states([_deployment()], [], [apart], [], [], at=AT)
    assert found.words == f"in quarantine: {reason}"


def test_what_a_person_wrote_is_a_change_with_its_author_and_time() -> None:
    (found,) = by_hand(ChangeKind.QUOTA, [_written("kubectl-edit", "hard")])
    assert (found.who, found.time) == ("kubectl-edit", datetime(2026, 11, 29, 0, 50, tzinfo=UTC).timestamp())


@pytest.mark.parametrize("manager", ["pulumi-kubernetes-93bcaa01", "kube-controller-manager", "headway-release", "keda"])
def test_what_the_platform_wrote_is_no_change_by_hand(manager: str) -> None:
    assert not list(of_deployments([_written(manager, "template")], (), ()))


def test_a_change_of_another_field_or_of_the_status_does_not_count() -> None:
    others = [_written("kubectl", "replicas"), _written("kubectl", "template", subresource="status")]
    assert not list(of_deployments(others, (), ()))


def test_an_entry_without_a_time_stops_no_other() -> None:
    broken = _written("kubectl", "hard")
    broken["metadata"]["managedFields"][0]["time"] = "yesterday"
    assert len(list(by_hand(ChangeKind.QUOTA, [broken, _written("kubectl", "hard")]))) == 1
