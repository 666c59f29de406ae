"""What pods say of the node under them, and of the one that is ordered for them."""

from typing import Any

import pytest

from headway.diagnosis.facts import StateKind
from tests.unit.diagnosis.test_cluster_facts import clock, kinds
from tests.unit.service_status.test_pending import container, node, pod

SAID = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def evicted(message: str, minute: int = 55) -> dict[str, Any]:
    chosen = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "lastTransitionTime": clock(minute)}
    return pod("p", on="n", phase="Failed", reason="Evicted", message=message, conditions=[chosen])


def waits() -> dict[str, Any]:
    return pod("p", conditions=[{"type": "PodScheduled", "status": "False", "message": SAID}])


def event(reason: str, minute: int, message: str = "pod triggered scale-up: [{eks-l4-a-1a2b3c-x 1->2 (max: 3)}]") -> dict[str, Any]:
    return {"involvedObject": {"name": "p"}, "reason": reason, "message": message, "lastTimestamp": clock(minute)}


LOW = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 17348Ki. Container server was using 9Gi"


def test_a_pod_that_was_evicted_is_no_replica_that_is_not_ready() -> None:
    assert kinds(evicted(LOW)) == [StateKind.EVICTED]


def test_what_was_evicted_more_than_an_hour_ago_is_over() -> None:
    gone = evicted(LOW)
    gone["status"]["conditions"][0]["lastTransitionTime"] = "2026-11-28T23:00:00Z"
    assert kinds(gone) == []


@pytest.mark.parametrize(
    "message",
    [
        'Container server exceeded its local ephemeral storage limit "1Gi". ',
        "Pod ephemeral local storage usage exceeds the total limit of containers 2Gi. ",
        'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". ',
    ],
)
def test_a_pod_that_wrote_more_than_it_may_is_not_its_nodes_fault(message: str) -> None:
    assert kinds(evicted(message)) == [StateKind.STORAGE_EXCEEDED]


@pytest.mark.parametrize(
    "message",
    [
        "OSError: [Errno 28] No space left on device: '/models/weights.bin'",
        'failed to pull image "x": failed to extract layer sha256:1: write /var/lib/containerd/x: no space left on device',
    ],
)
def test_a_disk_that_has_no_room_is_told_by_the_container_that_waits(message: str) -> None:
    waiting = container(state={"waiting": {"reason": "ErrImagePull", "message": message}})
    assert StateKind.DISK_FULL in kinds(pod("p", on="n", initContainerStatuses=[waiting]))


@pytest.mark.parametrize(
    "message",
    [
        "OCI runtime create failed: nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.6, please update your driver",
        "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown",
        "RuntimeError: CUDA error 35: CUDA driver version is insufficient for CUDA runtime version",
    ],
)
def test_a_driver_that_does_not_fit_is_told_by_the_container_that_ended(message: str) -> None:
    last = {"terminated": {"reason": "StartError", "exitCode": 128, "message": message, "finishedAt": clock(55), "startedAt": clock(55)}}
    again = container(state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}, restartCount=3, lastState=last)
    assert StateKind.DRIVER_UNFIT in kinds(pod("p", on="n", containerStatuses=[again]))


def test_a_server_that_fails_for_another_reason_says_nothing_of_its_driver() -> None:
    last = {"terminated": {"reason": "Error", "exitCode": 1, "message": "ValueError: CUDA graph too large", "finishedAt": clock(55)}}
    again = container(state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}, restartCount=3, lastState=last)
    assert not {StateKind.DRIVER_UNFIT, StateKind.DISK_FULL} & set(kinds(pod("p", on="n", containerStatuses=[again])))


def test_a_node_that_was_ordered_is_on_its_way() -> None:
    found = kinds(waits(), nodes=[node("a", gpus=0)], events=[event("TriggeredScaleUp", 57)])
    assert found == [StateKind.GPUS_TAKEN, StateKind.NODE_ORDERED]


def test_a_node_that_did_not_come_in_its_time_is_no_longer_on_its_way() -> None:
    assert kinds(waits(), nodes=[node("a", gpus=0)], events=[event("TriggeredScaleUp", 30)]) == [StateKind.GPUS_TAKEN]


def test_an_autoscaler_that_has_given_up_since_orders_nothing() -> None:
    gave_up = event("NotTriggerScaleUp", 58, "pod didn't trigger scale-up: 1 in backoff after failed scale-up")
    assert kinds(waits(), nodes=[node("a", gpus=0)], events=[event("TriggeredScaleUp", 57), gave_up]) == [StateKind.GPUS_TAKEN]
