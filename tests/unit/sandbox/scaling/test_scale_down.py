"""When the simulated Cluster Autoscaler removes a node, and what keeps it from doing so."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sandbox.cloud.scaling.model import NOTHING_REMEMBERED, ScalingState, Termination
from sandbox.cloud.scaling.turn import turn
from tests.components.contracts import MODELS, bodies, pool_of, service
from tests.unit.sandbox.scaling.scaling_world import (
    ARGUMENTS,
    BY_NAME,
    MINUTE,
    START,
    annotated,
    group,
    later,
    node,
    pod,
    system_group,
    system_node,
    world,
)

EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
L4, MIG = BY_NAME["l4"], BY_NAME["a100-mig"]
EMPTY = world([group(L4, 2)], [node(L4, 0), node(L4, 1)], [pod("serves", {"nvidia.com/gpu": "1"}, on="l4-a-0")])


def after(at: Any, minutes: float, arguments: Any = ARGUMENTS, state: ScalingState = NOTHING_REMEMBERED) -> list[str | None]:
    """Nodes that go when it looks again that much later."""
    first = turn(at, arguments, state)
    then = turn(later(at, minutes * MINUTE), arguments, first.state)
    return [each.node for each in then.decisions if isinstance(each, Termination)]


def test_an_empty_node_goes_once_it_has_been_unneeded_for_15_minutes() -> None:
    assert turn(EMPTY, ARGUMENTS, NOTHING_REMEMBERED).decisions == ()
    assert after(EMPTY, 15) == []
    assert after(EMPTY, 15.1) == ["l4-a-1"]


def test_a_node_that_was_needed_in_between_waits_anew() -> None:
    first = turn(EMPTY, ARGUMENTS, NOTHING_REMEMBERED)
    used = later(EMPTY, 10 * MINUTE, pods=[*EMPTY.pods, pod("burst", {"nvidia.com/gpu": "1"}, on="l4-a-1")])
    second = turn(used, ARGUMENTS, first.state)
    third = turn(later(EMPTY, 12 * MINUTE), ARGUMENTS, second.state)
    assert turn(later(EMPTY, 20 * MINUTE), ARGUMENTS, third.state).decisions == ()
    assert turn(later(EMPTY, 28 * MINUTE), ARGUMENTS, third.state).decisions != ()


def test_nothing_goes_within_15_minutes_of_an_added_node() -> None:
    grown = replace(NOTHING_REMEMBERED, scaled_up=START + 5 * MINUTE)
    assert after(EMPTY, 16, state=grown) == []
    assert after(EMPTY, 20.1, state=grown) == ["l4-a-1"]


def test_a_group_never_shrinks_below_its_minimum() -> None:
    two = world([group(L4, 2, low=1)], [node(L4, 0), node(L4, 1)])
    assert after(two, 16) == ["l4-a-0"]
    assert after(replace(two, groups=[group(L4, 2, low=2)]), 16) == []


def test_empty_nodes_go_together_at_most_ten_in_a_turn() -> None:
    many = world([group(L4, 12, high=12)], [node(L4, number) for number in range(12)])
    assert len(after(many, 16)) == 10


@pytest.mark.parametrize("name", sorted(MODELS))
def test_no_node_goes_on_which_a_replica_serves(name: str) -> None:
    template = bodies(service(name), "Deployment")[0]["spec"]["template"]
    pool = pool_of(MODELS[name])
    replica = pod("replica", on=f"{pool.name}-a-0")
    metadata = {**replica["metadata"], **template["metadata"], "name": "replica", "namespace": "team"}
    serving = {**replica, "metadata": metadata, "spec": {**template["spec"], "nodeName": f"{pool.name}-a-0"}}
    # Another node is free, so that there is a place to move it to.
    at = world([group(pool, 2)], [node(pool, 0), node(pool, 1)], [serving])
    assert after(at, 16) == [f"{pool.name}-a-1"], "only the free one"


def test_a_divided_node_in_use_goes_when_nothing_on_it_says_otherwise() -> None:
    mine = pod("a", {"nvidia.com/mig-1g.10gb": "7"}, on="a100-mig-a-0")
    at = world([group(MIG, 2)], [node(MIG, 0), node(MIG, 1)], [mine, pod("b", {"nvidia.com/mig-1g.10gb": "7"}, on="a100-mig-a-1")])
    assert after(at, 16) == ["a100-mig-a-0"], "the autoscaler sees CPU and memory of it, and both are free"
    kept = [annotated(each, EVICT, "false") for each in at.pods]
    assert after(replace(at, pods=kept), 16) == []


def test_a_node_of_whole_gpus_stays_while_one_of_them_is_asked_for() -> None:
    at = world([group(L4, 2)], [node(L4, 0), node(L4, 1)], [pod("a", {"nvidia.com/gpu": "1"}, on="l4-a-0")])
    assert after(at, 16) == ["l4-a-1"], "its share of GPUs is a quarter, and the threshold 1 %"


def nodes_of_two(pods: Sequence[Any], budgets: Sequence[Any] = ()) -> Any:
    """Two nodes without GPUs: on the first one what is given, on the second nothing but room."""
    rest = pod("busy", {"cpu": "2500m"}, on="system-1")
    return replace(world([system_group(2)], [system_node(0), system_node(1)], [*pods, rest]), budgets=budgets)


def owned(body: dict[str, Any], *owners: Any, **metadata: Any) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "ownerReferences": list(owners), **metadata}}


HERE = pod("a", on="system-0")
KUBE_SYSTEM = {**HERE, "metadata": {**HERE["metadata"], "namespace": "kube-system"}}
STAYS = {
    "without controller": owned(HERE),
    "of a controller of its own": owned(HERE, {"kind": "Rollout", "controller": True}),
    "marked": annotated(HERE, EVICT, "false"),
    "of kube-system": KUBE_SYSTEM,
    "with a filter that is not modelled": pod("a", on="system-0", resourceClaims=[{"name": "gpu"}]),
    "too large for the others": pod("a", {"cpu": "1800m"}, on="system-0"),
}
GOES = {
    "of a ReplicaSet": HERE,
    "of a daemon set": owned(HERE, {"kind": "DaemonSet", "controller": True}),
    "of a daemon set and marked": owned(annotated(HERE, EVICT, "false"), {"kind": "DaemonSet", "controller": True}),
    "without controller but marked as safe": owned(annotated(HERE, EVICT, "true")),
    "over": {**owned(HERE), "status": {"phase": "Succeeded"}},
    "of kube-system for over an hour": owned(KUBE_SYSTEM, *HERE["metadata"]["ownerReferences"], creationTimestamp="2026-01-05T10:00:00Z"),
    "with an empty directory": pod("a", on="system-0", volumes=[{"name": "v", "emptyDir": {}}]),
    "expendable": owned(pod("a", on="system-0", priority=-11)),
}


@pytest.mark.parametrize("why", STAYS)
def test_a_node_stays_for_a_pod_that_cannot_move(why: str) -> None:
    assert after(nodes_of_two([STAYS[why]]), 16) == []


@pytest.mark.parametrize("why", GOES)
def test_a_node_goes_with_pods_that_can_move_or_do_not_count(why: str) -> None:
    assert after(nodes_of_two([GOES[why]]), 16) == ["system-0"]


def test_local_storage_keeps_a_node_where_the_arguments_say_so() -> None:
    careful = replace(ARGUMENTS, skip_nodes_with_local_storage=True)
    stored = pod("a", on="system-0", volumes=[{"name": "v", "emptyDir": {}}])
    assert after(nodes_of_two([stored]), 16, careful) == []
    assert after(nodes_of_two([annotated(stored, "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", "v")]), 16, careful) == [
        "system-0"
    ]
    in_memory = pod("a", on="system-0", volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}])
    assert after(nodes_of_two([in_memory]), 16, careful) == ["system-0"]


@pytest.mark.parametrize(("allowed", "gone"), [(0, []), (1, ["system-0"])])
def test_a_disruption_budget_that_allows_none_keeps_the_node(allowed: int, gone: list[str]) -> None:
    spec = {"selector": {"matchLabels": {"app": "a"}}}
    budget = {"metadata": {"namespace": "team"}, "spec": spec, "status": {"disruptionsAllowed": allowed}}
    assert after(nodes_of_two([HERE], [budget]), 16) == gone


def test_a_budget_that_allows_one_lets_one_of_two_pods_go() -> None:
    spec = {"selector": {"matchLabels": {"app": "a"}}}
    budget = {"metadata": {"namespace": "team"}, "spec": spec, "status": {"disruptionsAllowed": 1}}
    twin = {**pod("a", on="system-1"), "metadata": {**HERE["metadata"], "name": "a-2"}}
    at = world([system_group(3)], [system_node(n) for n in range(3)], [HERE, twin, pod("busy", {"cpu": "2500m"}, on="system-2")])
    assert after(replace(at, budgets=[budget]), 16) == ["system-0"]


def test_nodes_with_pods_go_one_in_a_turn_and_name_who_must_leave() -> None:
    at = world(
        [system_group(3)], [system_node(number) for number in range(3)], [pod(f"p{n}", {"cpu": "400m"}, on=f"system-{n}") for n in range(3)]
    )
    first = turn(at, ARGUMENTS, NOTHING_REMEMBERED)
    (going,) = turn(later(at, 16 * MINUTE), ARGUMENTS, first.state).decisions
    assert isinstance(going, Termination)
    assert (going.node, going.evict, going.provider_id) == ("system-0", (("team", "p0"),), "aws:///us-west-2a/i-system-0")


def test_a_node_that_could_not_be_emptied_is_left_alone_for_five_minutes() -> None:
    blocked = nodes_of_two([STAYS["marked"]])
    first = turn(blocked, ARGUMENTS, NOTHING_REMEMBERED)
    free = replace(blocked, pods=blocked.pods[1:])
    assert "system-0" not in turn(later(free, 4 * MINUTE), ARGUMENTS, first.state).state.unneeded
    assert "system-0" in turn(later(free, 5 * MINUTE), ARGUMENTS, first.state).state.unneeded


def test_a_node_that_says_so_is_never_removed() -> None:
    kept = node(L4, 1)
    kept["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
    assert after(replace(EMPTY, nodes=[node(L4, 0), kept]), 16) == []


def test_a_node_that_is_not_ready_goes_after_twenty_minutes() -> None:
    lost = replace(EMPTY, nodes=[node(L4, 0), node(L4, 1, ready=False)])
    assert after(lost, 19) == []
    assert after(lost, 20.1) == ["l4-a-1"]


def test_a_node_that_starts_is_not_removed_however_empty() -> None:
    young = replace(EMPTY, nodes=[node(L4, 0), node(L4, 1, ready=False, age=0 * MINUTE)])
    assert turn(young, replace(ARGUMENTS, scale_down_unready_time=0 * MINUTE), NOTHING_REMEMBERED).decisions == ()


def test_nothing_goes_while_new_pods_may_still_need_it() -> None:
    first = turn(EMPTY, ARGUMENTS, NOTHING_REMEMBERED)
    fresh = pod("new", {"nvidia.com/gpu": "9"}, age=-15.5 * MINUTE)
    at = later(EMPTY, 15.6 * MINUTE, pods=[*EMPTY.pods, fresh])
    assert turn(at, ARGUMENTS, first.state).decisions == (), "the pod is six seconds old"


def test_pods_that_a_removal_moves_find_the_room_taken_by_the_one_before() -> None:
    """Three nodes half full: the pod of one fits on another, and then both of that one on none."""
    fills = {"cpu": "1900m"}
    at = world([system_group(3, low=0)], [system_node(n) for n in range(3)], [pod(f"p{n}", fills, on=f"system-{n}") for n in range(3)])
    assert turn(at, replace(ARGUMENTS, scale_down_utilization_threshold=1), NOTHING_REMEMBERED).state.unneeded.keys() == {"system-0"}
