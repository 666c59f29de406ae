"""How many more replicas fit, and what they run into first."""

from decimal import Decimal
from typing import Any

import pytest

from headway.contract.rollout import Rollout
from headway.problem import UserError
from headway.release.driver.capacity import ReplicaNeeds, available_capacity, spare
from headway.release.plan import plan

GPU = "requests.nvidia.com/gpu"
NEEDS = ReplicaNeeds(resource="nvidia.com/gpu", devices=1, cpu=Decimal("3.1"), memory=Decimal(10 * 2**30))


def node(name: str, gpus: int, *, ready: str = "True", cordoned: bool = False) -> dict[str, Any]:
    status = {"allocatable": {"nvidia.com/gpu": str(gpus)}, "conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"name": name}, "spec": {"unschedulable": True} if cordoned else {}, "status": status}


def pod(on: str, gpus: int, priority: int = 0, phase: str = "Running") -> dict[str, Any]:
    container = {"resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
    return {"spec": {"nodeName": on, "priority": priority, "containers": [container]}, "status": {"phase": phase}}


def test_room_is_counted_node_by_node_because_a_replica_cannot_be_split() -> None:
    nodes = [node("a", 4), node("b", 4)]
    assert spare(nodes, [pod("a", 3), pod("b", 3)], "nvidia.com/gpu", 2) == (0, 0)
    assert spare(nodes, [pod("a", 2), pod("b", 3)], "nvidia.com/gpu", 2) == (1, 0)


def test_room_that_is_held_warm_is_counted_apart() -> None:
    assert spare([node("a", 4)], [pod("a", 1), pod("a", 2, priority=-10)], "nvidia.com/gpu", 1) == (1, 2)


@pytest.mark.parametrize("useless", [node("a", 4, ready="False"), node("a", 4, cordoned=True)])
def test_a_node_that_takes_no_pods_has_no_room(useless: dict[str, Any]) -> None:
    assert spare([useless], [], "nvidia.com/gpu", 1) == (0, 0)


def test_pods_that_have_ended_hold_nothing() -> None:
    assert spare([node("a", 4)], [pod("a", 4, phase="Succeeded")], "nvidia.com/gpu", 1) == (4, 0)


def quota(hard: dict[str, str], used: dict[str, str], *classes: str, operator: str = "In", name: str = "tenant") -> dict[str, Any]:
    scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": list(classes)}]}
    return {"metadata": {"name": name}, "spec": {"scopeSelector": scope} if classes else {}, "status": {"hard": hard, "used": used}}


def found(*quotas: dict[str, Any], nodes: tuple[dict[str, Any], ...] = (node("a", 8),), running: int = 1, to_come: int = 0) -> Any:
    return available_capacity(
        running=running, pool="l4", nodes=nodes, pods=[], to_come=to_come, quotas=quotas, priority="latency", needs=NEEDS
    )


def gpus(hard: int, used: int, *classes: str, operator: str = "In") -> dict[str, Any]:
    return quota({GPU: str(hard)}, {GPU: str(used)}, *classes, operator=operator)


def test_a_quota_bounds_room_only_for_the_priority_that_it_counts() -> None:
    assert found(gpus(10, 3), gpus(0, 0, "batch")).free == 7
    assert found(gpus(10, 3), gpus(4, 3, "latency")).free == 1
    assert found(gpus(10, 3), gpus(0, 0, "latency", operator="NotIn")).free == 7
    assert found(gpus(10, 3), gpus(0, 0, "batch", operator="NotIn")).free == 0


def test_a_service_that_is_scaled_to_zero_gets_a_replica_back_for_its_release() -> None:
    room = found(running=0)
    assert (room.replicas, room.free) == (1, 7)
    assert all(step.fleet.stable for step in plan(Rollout.model_validate({"strategy": "canary"}), room).traffic)
    full = found(running=0, nodes=())
    assert (full.replicas, full.free) == (0, 0)


@pytest.mark.parametrize(
    ("hard", "used", "free"),
    [
        ({"requests.cpu": "16"}, {"requests.cpu": "9700m"}, 2),
        ({"requests.memory": "64Gi"}, {"requests.memory": "45Gi"}, 1),
        ({"limits.memory": "64Gi"}, {"limits.memory": "63Gi"}, 0),
        ({"pods": "27"}, {"pods": "22"}, 5),
        ({"services": "18"}, {"services": "18"}, 8),
    ],
)
def test_every_key_of_a_quota_bounds_room_and_not_only_that_of_gpus(hard: dict[str, str], used: dict[str, str], free: int) -> None:
    assert found(quota(hard, used)).free == free


def test_the_number_of_objects_bounds_how_many_arms_there_can_be() -> None:
    assert found(quota({"count/deployments.apps": "12"}, {"count/deployments.apps": "11"})).arms == 1
    assert found(quota({"services": "18"}, {"services": "18"})).arms == 0


def test_a_release_that_fits_neither_quota_nor_pool_is_refused_with_the_numbers() -> None:
    policy = Rollout.model_validate({"strategy": "canary"})
    with pytest.raises(UserError) as refused:
        plan(policy, found(gpus(2, 2), nodes=(node("a", 3),)))
    assert "surge needs room for 2 replicas at once and has it for 1" in refused.value.fact
    assert "pool l4 has nvidia.com/gpu for 3 more replicas" in refused.value.fact
    assert "quota tenant has 2 of 2 requests.nvidia.com/gpu in use: room for 0 more" in refused.value.fact


def test_room_on_nodes_to_come_counts_and_is_told_apart() -> None:
    assert found(nodes=(), to_come=4).free == 4
    assert "and 4 on nodes to come" in found(nodes=(), to_come=4).limits[0]


def test_without_quota_for_a_baseline_arm_the_stable_version_is_the_control() -> None:
    policy = Rollout.model_validate({"strategy": "canary"})
    made = plan(policy, found(quota({"services": "18"}, {"services": "17"}), running=4))
    assert not made.baseline_arm


def test_without_room_for_any_object_there_is_no_plan() -> None:
    policy = Rollout.model_validate({"strategy": "rolling"})
    with pytest.raises(UserError, match="no object of a further version may be made"):
        plan(policy, found(quota({"services": "18"}, {"services": "18"}), running=4))
