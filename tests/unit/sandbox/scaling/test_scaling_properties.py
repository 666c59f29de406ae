"""What the simulated Cluster Autoscaler does whatever the cluster looks like."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.cloud.scaling.model import NOTHING_REMEMBERED, AutoscalerWorld, CapacityChange, ScalingState, Termination
from sandbox.cloud.scaling.turn import turn
from tests.unit.sandbox.scaling.scaling_world import ARGUMENTS, BY_NAME, MINUTE, START, group, later, node, pod, world

POOLS = [BY_NAME[name] for name in ("l4", "a100-mig", "l4-mps", "h100")]
RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared", "example.com/none")
KEPT = "cluster-autoscaler.kubernetes.io/safe-to-evict"


@st.composite
def clusters(draw: st.DrawFn) -> AutoscalerWorld:
    """Pools with some nodes, and pods on them and without a place; on divided nodes pods say that they stay."""
    groups, nodes, pods = [], [], []
    for pool in draw(st.lists(st.sampled_from(POOLS), min_size=1, unique_by=lambda pool: pool.name)):
        low = draw(st.integers(0, 2))
        high = draw(st.integers(max(low, 1), 5))
        desired = draw(st.integers(low, high))
        joined = draw(st.integers(0, desired))
        groups.append(group(pool, desired, low=low, high=high, joined=joined))
        nodes += [node(pool, number) for number in range(joined)]
    names = [each["metadata"]["name"] for each in nodes]
    for number in range(draw(st.integers(0, 8))):
        asks = {draw(st.sampled_from(RESOURCES)): str(draw(st.integers(1, 9)))}
        where = draw(st.sampled_from([*names, "", ""]))
        body = pod(f"p{number}", asks, on=where, priority=draw(st.sampled_from([-20, -10, 0, 100])))
        body["metadata"]["annotations"] = {KEPT: "false"} if draw(st.booleans()) else {}
        pods.append(body)
    return world(groups, nodes, pods)


def applied(at: AutoscalerWorld, decisions: tuple[Any, ...]) -> AutoscalerWorld:
    """The world once AWS has done it; new instances have not joined yet."""
    sizes = {each.name: each.desired for each in at.groups}
    gone = {each.provider_id for each in decisions if isinstance(each, Termination)}
    for each in decisions:
        if isinstance(each, CapacityChange):
            sizes[each.group] = each.capacity
        else:
            sizes[each.group] -= 1
    groups = [
        replace(each, desired=sizes[each.name], instances={id: since for id, since in each.instances.items() if id not in gone})
        for each in at.groups
    ]
    nodes = [each for each in at.nodes if each["spec"]["providerID"] not in gone]
    left = {each["metadata"]["name"] for each in nodes}
    pods = [each for each in at.pods if each["spec"].get("nodeName", "") in {"", *left}]
    return replace(at, groups=groups, nodes=nodes, pods=pods)


@settings(max_examples=60, deadline=None)
@given(clusters(), st.lists(st.sampled_from([0.2, 6, 16, 31]), min_size=1, max_size=4))
def test_no_group_ever_leaves_its_bounds(at: AutoscalerWorld, waits: list[float]) -> None:
    state = NOTHING_REMEMBERED
    for minutes in waits:
        done = turn(at, ARGUMENTS, state)
        at, state = applied(at, done.decisions), done.state
        assert all(each.min <= each.desired <= each.max for each in at.groups)
        at = later(at, minutes * MINUTE)


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_a_pod_that_fits_nowhere_changes_nothing(at: AutoscalerWorld) -> None:
    huge = pod("huge", {"nvidia.com/gpu": "64"})
    with_it = turn(replace(at, pods=[*at.pods, huge]), ARGUMENTS, NOTHING_REMEMBERED)
    assert with_it.decisions == turn(at, ARGUMENTS, NOTHING_REMEMBERED).decisions


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_a_pod_that_must_stay_keeps_its_node(at: AutoscalerWorld) -> None:
    first = turn(at, ARGUMENTS, NOTHING_REMEMBERED)
    grown = applied(at, first.decisions)
    staying = {
        each["spec"].get("nodeName") for each in at.pods if each["metadata"]["annotations"] and each["spec"]["priority"] >= -10
    }  # fmt: skip
    quiet = replace(first.state, scaled_up=None)
    then = turn(later(grown, 31 * MINUTE), ARGUMENTS, quiet)
    assert not staying & {each.node for each in then.decisions if isinstance(each, Termination) and each.node}


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_a_turn_does_not_repeat_what_it_has_ordered(at: AutoscalerWorld) -> None:
    done = turn(at, ARGUMENTS, NOTHING_REMEMBERED)
    again = turn(later(applied(at, done.decisions), MINUTE / 6), ARGUMENTS, done.state)
    grown = {each.group for each in done.decisions if isinstance(each, CapacityChange)}
    assert not grown & {each.group for each in again.decisions if isinstance(each, CapacityChange)}


@settings(max_examples=40, deadline=None)
@given(clusters())
def test_a_turn_reads_its_world_and_changes_nothing_of_it(at: AutoscalerWorld) -> None:
    before = repr(at)
    once = turn(at, ARGUMENTS, ScalingState(scaled_up=START))
    assert turn(at, ARGUMENTS, ScalingState(scaled_up=START)) == once
    assert repr(at) == before
