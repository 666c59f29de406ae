"""When the simulated Cluster Autoscaler adds nodes, of which group, and how many."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from components.addons import cluster_autoscaler
from components.nodes import gpu_node
from headway.contract.pool_parts import OnDemand, Reservation, Spot
from headway.node_health.decision import NodeHealthPolicy
from headway.problem import UserError
from sandbox.cloud.scaling.groups import next_node
from sandbox.cloud.scaling.model import NOTHING_REMEMBERED, AutoscalerArguments, CapacityChange, Termination
from sandbox.cloud.scaling.turn import turn
from tests.components.contracts import MODELS, POOLS, bodies, pool_of, service
from tests.unit.sandbox.scaling.scaling_world import (
    ARGUMENTS,
    BY_NAME,
    MINUTE,
    annotated,
    group,
    instance,
    later,
    node,
    pod,
    system_group,
    system_node,
    world,
)

L4, H100, MIG = BY_NAME["l4"], BY_NAME["h100"], BY_NAME["a100-mig"]
GPU = {"nvidia.com/gpu": "1"}


def orders(at: Any, arguments: AutoscalerArguments = ARGUMENTS) -> tuple[Any, ...]:
    return turn(at, arguments, NOTHING_REMEMBERED).decisions


def grown(name: str, capacity: int) -> tuple[CapacityChange, ...]:
    return (CapacityChange(group=f"eks-{name}-a-0a1b2c", capacity=capacity),)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_replica_of_any_model_brings_the_first_node_of_its_pool(name: str) -> None:
    template = bodies(service(name), "Deployment")[0]["spec"]["template"]
    pending = pod("replica")
    waiting = {
        **pending,
        "spec": template["spec"],
        "metadata": {**pending["metadata"], **template["metadata"], "name": "r", "namespace": "t"},
    }
    wanted = pool_of(MODELS[name])
    assert orders(world([group(pool) for pool in {**BY_NAME, wanted.name: wanted}.values()], pods=[waiting])) == grown(wanted.name, 1)


@pytest.mark.parametrize("pool", POOLS, ids=lambda pool: pool.name)
def test_the_tags_of_an_empty_group_say_what_a_node_of_it_offers(pool: Any) -> None:
    planned, real = next_node(group(pool), None, (), ARGUMENTS).node, node(pool)
    offered = {key: value for key, value in real["status"]["allocatable"].items() if key.startswith("nvidia.com/")}
    assert {key: planned["status"]["allocatable"][key] for key in offered} == offered
    assert {taint["key"] for taint in planned["spec"]["taints"]} == {taint.key for taint in gpu_node.taints(pool)}, "not of its start"


def test_a_group_without_tags_never_gets_a_node_for_a_gpu() -> None:
    untagged = replace(group(MIG), tags={})
    assert orders(world([untagged], pods=[pod("a", {"nvidia.com/mig-1g.10gb": "1"})])) == ()


def test_the_labels_that_eks_knows_of_a_group_help_where_tags_are_missing() -> None:
    asks = pod("a", nodeSelector={"eks.amazonaws.com/nodegroup": "system"})
    assert orders(world([system_group(0)], pods=[asks])) == (CapacityChange(group="eks-system-0a1b2c", capacity=1),)


def test_a_pod_that_fits_on_no_node_of_any_group_is_named_and_moves_nothing() -> None:
    done = turn(world([group(L4), group(H100)], pods=[pod("huge", {"nvidia.com/gpu": "9"})]), ARGUMENTS, NOTHING_REMEMBERED)
    assert done.decisions == () and done.said == ("team/huge: no group has a node for it",)


NOT_HELPED = {
    "running": pod("a", GPU, on="elsewhere"),
    "not yet looked at by the scheduler": {**pod("a", GPU), "status": {"phase": "Pending"}},
    "of a daemon set": {
        **(p := pod("a", GPU)),
        "metadata": {**p["metadata"], "ownerReferences": [{"kind": "DaemonSet", "controller": True}]},
    },
    "expendable": pod("a", GPU, priority=-11),
    "being deleted": {**p, "metadata": {**p["metadata"], "deletionTimestamp": "2026-01-05T11:59:00Z"}},
    "for another kind of node": pod("a", GPU, nodeSelector={"kubernetes.io/arch": "arm64"}),
    "without toleration": pod("a", GPU, tolerations=[]),
}


@pytest.mark.parametrize("why", NOT_HELPED)
def test_these_pods_bring_no_node(why: str) -> None:
    assert orders(world([group(L4)], pods=[NOT_HELPED[why]])) == ()


def test_a_placeholder_at_the_cutoff_brings_a_node() -> None:
    assert orders(world([group(L4)], pods=[pod("room", GPU, priority=-10)])) == grown("l4", 1)


def test_a_pod_with_a_filter_that_is_not_modelled_says_so_and_gets_nothing() -> None:
    spread = [{"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}]
    done = turn(world([group(L4)], pods=[pod("a", GPU, topologySpreadConstraints=spread)]), ARGUMENTS, NOTHING_REMEMBERED)
    assert done.decisions == () and done.said == ("team/a: asks for hard topology spread, which is not modelled",)


@pytest.mark.parametrize(("age", "asks", "expected"), [(1, {}, 0), (3, {}, 1), (29, GPU, 0), (31, GPU, 1)])
def test_pods_of_the_last_seconds_wait_for_others_of_their_kind(age: int, asks: dict[str, str], expected: int) -> None:
    waiting = pod("a", {"nvidia.com/gpu": "0", **asks}, age=timedelta(seconds=age))
    assert len(orders(world([group(L4)], pods=[waiting]))) == expected


def test_a_delay_for_new_pods_is_waited_for() -> None:
    patient = replace(ARGUMENTS, new_pod_scale_up_delay=10 * MINUTE)
    waiting = world([group(L4)], pods=[pod("a", GPU)])
    assert orders(waiting, patient) == ()
    assert orders(later(waiting, 6 * MINUTE), patient) == grown("l4", 1)


def test_as_many_nodes_come_as_the_pods_fill() -> None:
    waiting = [pod(f"p{n}", {"nvidia.com/gpu": "3"}) for n in range(3)] + [pod("small", GPU)]
    assert orders(world([group(L4)], pods=waiting)) == grown("l4", 3), "a g6.12xlarge has four GPUs"


def test_what_daemon_sets_take_of_each_node_is_counted() -> None:
    agent = {"spec": {"template": {"metadata": {}, "spec": pod("agent", {"cpu": "30"})["spec"]}}}
    waiting = [pod("a", {"cpu": "12"}), pod("b", {"cpu": "12"})]
    assert orders(world([group(L4)], pods=waiting)) == grown("l4", 1)
    assert orders(replace(world([group(L4)], pods=waiting), daemon_sets=[agent])) == grown("l4", 2)


def test_a_group_grows_to_its_maximum_and_no_further() -> None:
    waiting = [pod(f"p{n}", {"nvidia.com/gpu": "4"}) for n in range(9)]
    assert orders(world([group(L4, high=2)], pods=waiting)) == grown("l4", 2)
    full = world([group(L4, 2, high=2)], [node(L4, 0), node(L4, 1)], [pod("x", on="l4-a-0"), *waiting])
    assert not [each for each in orders(full) if isinstance(each, CapacityChange)]


def test_a_node_that_comes_is_not_ordered_twice() -> None:
    waiting = [pod("a", {"nvidia.com/gpu": "4"})]
    assert orders(world([group(L4, 1, joined=0)], pods=waiting)) == ()
    assert orders(world([group(L4, 1, joined=0)], pods=[*waiting, pod("b", GPU)])) == grown("l4", 2)


def test_a_young_node_without_its_gpus_counts_as_one_that_comes() -> None:
    young = node(L4, age=2 * MINUTE)
    del young["status"]["allocatable"]["nvidia.com/gpu"]
    assert orders(world([group(L4, 1)], [young], [pod("a", GPU)])) == ()


def test_a_young_node_that_is_ready_but_still_tainted_counts_as_one_that_comes() -> None:
    young = node(L4, age=MINUTE)
    young["spec"]["taints"].append({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
    assert orders(world([group(L4, 1)], [young], [pod("a", GPU)])) == ()


def uncut(age: float, *, tainted: bool = True) -> dict[str, Any]:
    """A node of the MIG pool before it is cut."""
    found = node(MIG, age=age * MINUTE)
    del found["status"]["allocatable"]["nvidia.com/mig-1g.10gb"]
    found["spec"]["taints"] += [gpu_node.UNCUT_TAINT.model_dump()] if tainted else []
    return found


SLICE = {"nvidia.com/mig-1g.10gb": "1"}


@pytest.mark.parametrize(("age", "tainted", "more"), [(1, False, 1), (1, True, 0), (29, True, 0), (31, True, 1)])
def test_a_node_that_mig_cuts_counts_as_one_that_comes_by_its_taint_alone(age: float, tainted: bool, more: int) -> None:
    waiting = [pod("a", SLICE)]
    found = orders(world([group(MIG, 1)], [uncut(age, tainted=tainted)], waiting))
    assert found == (grown(MIG.name, 2) if more else ()), "a second one would be paid for, for a pod that fits on the first"


def test_a_node_that_mig_cuts_is_not_removed_however_empty() -> None:
    at = world([group(MIG, 1)], [uncut(29)])
    assert orders(at, replace(ARGUMENTS, scale_down_unneeded_time=0 * MINUTE, scale_down_unready_time=0 * MINUTE)) == ()


def test_the_autoscaler_waits_for_a_node_as_long_as_node_health() -> None:
    assert ARGUMENTS.max_node_startup_time.total_seconds() == NodeHealthPolicy().cut_seconds
    whole = cluster_autoscaler.values("c", "us-west-2", [L4])
    assert AutoscalerArguments.of_chart(whole).max_node_startup_time == 15 * MINUTE, "its own, where no pool is cut"


def test_of_a_taint_that_it_is_not_told_of_the_autoscaler_expects_that_it_stays() -> None:
    at = world([group(MIG)], pods=[pod("a", SLICE)])
    assert orders(at) == grown(MIG.name, 1)
    assert orders(at, replace(ARGUMENTS, startup_taint="")) == ()


def test_an_old_node_without_its_gpus_does_not_count_at_all() -> None:
    broken = node(L4, age=31 * MINUTE)
    del broken["status"]["allocatable"]["nvidia.com/gpu"]
    assert orders(world([group(L4, 1)], [broken], [pod("a", GPU)])) == grown("l4", 2)


def test_room_on_a_node_that_is_there_is_used_first() -> None:
    running = pod("x", {"nvidia.com/gpu": "3"}, on="l4-a-0")
    assert orders(world([group(L4, 1)], [node(L4)], [running, pod("a", GPU)])) == ()
    assert orders(world([group(L4, 1)], [node(L4)], [running, pod("a", GPU), pod("b", GPU)])) == grown("l4", 2)


def test_a_pod_for_which_others_are_evicted_waits_for_that_node() -> None:
    full = pod("x", {"nvidia.com/gpu": "4"}, on="l4-a-0")
    waiting = pod("a", GPU)
    nominated = {**waiting, "status": {**waiting["status"], "nominatedNodeName": "l4-a-0"}}
    assert orders(world([group(L4, 1)], [node(L4)], [full, nominated])) == ()


CAPACITIES = {
    "reserved": Reservation(kind="reservation", id="cr-0123456789abcdef0"),
    "on-demand": OnDemand(kind="on_demand"),
    "spot": Spot(kind="spot"),
}


def test_reserved_nodes_come_before_on_demand_ones_and_those_before_spot() -> None:
    pools = [L4.model_copy(update={"name": f"l4-{name}", "capacity": capacity}) for name, capacity in sorted(CAPACITIES.items())]
    arguments = AutoscalerArguments.of_chart(cluster_autoscaler.values("c", "us-west-2", pools))
    order: list[str] = []
    groups = [group(pool) for pool in pools]
    while groups:
        (change,) = orders(world([*groups, system_group(0)], pods=[pod("a", GPU)]), arguments)
        order.append(change.group)
        groups = [each for each in groups if each.name != change.group]
    assert order == [f"eks-l4-{name}-a-0a1b2c" for name in ("reserved", "on-demand", "spot")]


def test_of_two_groups_of_one_priority_the_one_that_wastes_less_grows() -> None:
    assert orders(world([group(H100), group(L4)], pods=[pod("a", GPU)])) == grown("l4", 1)
    assert orders(world([group(H100), group(L4)], pods=[pod("a", {"nvidia.com/gpu": "8"})])) == grown("h100", 1)


def test_a_group_that_gave_no_node_in_time_is_left_out_until_its_backoff_ends() -> None:
    start = world([group(L4), group(H100)], pods=[pod("a", GPU)])
    first = turn(start, ARGUMENTS, NOTHING_REMEMBERED)
    asked = [group(L4, 1, joined=0), group(H100)]
    waits = turn(later(start, 19 * MINUTE, groups=asked), ARGUMENTS, first.state)
    assert waits.decisions == (), "max-node-provision-time is 20 minutes"
    missing = replace(asked[0], instances={instance(L4, 0): start.now})
    gave_up = turn(later(start, 21 * MINUTE, groups=[missing, group(H100)]), ARGUMENTS, waits.state)
    assert gave_up.decisions == (
        Termination(group="eks-l4-a-0a1b2c", provider_id=instance(L4, 0), node=None),
        CapacityChange(group="eks-h100-a-0a1b2c", capacity=1),
    )
    full = replace(group(H100), max=0)
    assert turn(later(start, 25 * MINUTE, groups=[group(L4), full]), ARGUMENTS, gave_up.state).decisions == ()
    assert turn(later(start, 27 * MINUTE, groups=[group(L4), full]), ARGUMENTS, gave_up.state).decisions == grown("l4", 1)


def test_a_second_failure_doubles_the_backoff() -> None:
    state = NOTHING_REMEMBERED
    at = world([group(L4, 1, joined=0)])
    for span in (5, 10, 20, 30, 30):
        state = turn(at, ARGUMENTS, replace(state, requested={"eks-l4-a-0a1b2c": at.now - MINUTE})).state
        assert state.backoffs["eks-l4-a-0a1b2c"].until == at.now + span * MINUTE
        at = later(at, (span + 1) * MINUTE)


def test_a_pool_at_zero_is_planned_like_the_node_that_it_once_had() -> None:
    seen = node(MIG)
    after = turn(world([group(MIG, 1)], [seen], [pod("x", on="a100-mig-a-0")]), ARGUMENTS, NOTHING_REMEMBERED)
    emptied = replace(group(MIG), tags={})
    asks = [pod("a", {"nvidia.com/mig-1g.10gb": "1"})]
    assert turn(world([emptied], pods=asks), ARGUMENTS, after.state).decisions == grown("a100-mig", 1)
    assert turn(world([emptied], pods=asks), ARGUMENTS, NOTHING_REMEMBERED).decisions == (), "a new process has seen none"


def test_nothing_is_done_while_most_nodes_are_not_ready() -> None:
    groups = [system_group(8)]
    broken = [
        {**(n := system_node(number)), "status": {**n["status"], "conditions": [{"type": "Ready", "status": "False"}]}}
        for number in range(5)
    ]
    done = turn(world(groups, [*broken, *map(system_node, (5, 6, 7))], [pod("a")]), ARGUMENTS, NOTHING_REMEMBERED)
    assert done.decisions == () and done.said == ("5 of 8 nodes are not ready: it does nothing",)


def test_an_argument_that_is_not_modelled_is_refused_by_name() -> None:
    values = cluster_autoscaler.values("c", "us-west-2", POOLS)
    values["extraArgs"] |= {"enforce-node-group-min-size": True, "balance-similar-node-groups": True}
    with pytest.raises(UserError, match="balance-similar-node-groups, enforce-node-group-min-size"):
        AutoscalerArguments.of_chart(values)
    values = cluster_autoscaler.values("c", "us-west-2", POOLS)
    values["extraArgs"] |= {"expander": "price"}
    with pytest.raises(UserError, match="price"):
        AutoscalerArguments.of_chart(values)


def test_the_arguments_of_our_chart_are_read_whole() -> None:
    assert ARGUMENTS.expander == ("priority", "least-waste")
    assert ARGUMENTS.scale_down_unneeded_time == ARGUMENTS.scale_down_delay_after_add == 15 * MINUTE
    assert ARGUMENTS.max_node_provision_time == 20 * MINUTE and not ARGUMENTS.skip_nodes_with_local_storage
    fast = ARGUMENTS.faster(15)
    assert fast.scale_down_unneeded_time == MINUTE and fast.scan_interval == ARGUMENTS.scan_interval


def test_a_pod_may_say_that_it_is_of_a_daemon_set() -> None:
    marked = annotated(pod("a", GPU), "cluster-autoscaler.kubernetes.io/daemonset-pod", "true")
    assert orders(world([group(L4)], pods=[marked])) == ()
