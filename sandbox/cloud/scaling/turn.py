"""One turn of the Cluster Autoscaler: what it orders, and what it remembers. Pure.

`RunOnce` in `cluster-autoscaler/core/static_autoscaler.go` of kubernetes/autoscaler at cluster-autoscaler-1.35.2, in
its order. Not modelled, beside what `placement.py` and `scale_down.py` name: balancing of similar groups, instances
that AWS cannot give at once (every order of the simulated account is filled), and its limits of time and of size.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sandbox.cloud.autoscaler import Body
from sandbox.cloud.scaling.groups import GroupCount, counted, next_node, remembered
from sandbox.cloud.scaling.model import (
    AutoscalerArguments,
    AutoscalerTurn,
    AutoscalerWorld,
    CapacityChange,
    ScalingState,
    Termination,
)
from sandbox.cloud.scaling.placement import SimulatedRoom
from sandbox.cloud.scaling.scale_down import terminations, unneeded
from sandbox.cloud.scaling.scale_up import is_expendable, pending, scale_up, without_place

_OK_UNREADY, _OK_UNREADY_PERCENT = 3, 45
"""`config/flags/flags.go`, ok-total-unready-count and max-total-unready-percentage."""


def turn(world: AutoscalerWorld, arguments: AutoscalerArguments, state: ScalingState) -> AutoscalerTurn:
    """What it does now. It never looks at the clock."""
    counts = counted(world, arguments)
    state = remembered(counts, world, arguments, state)
    given_up = tuple(_given_up(counts))
    counts = tuple(_less(count, given_up) for count in counts)
    nodes = sum(len(count.settled) + len(count.starting) for count in counts)
    unready = sum(len(count.unready) for count in counts)
    if unready > _OK_UNREADY and unready * 100 > _OK_UNREADY_PERCENT * nodes:
        return AutoscalerTurn(
            decisions=given_up, state=replace(state, unneeded={}), said=(f"{unready} of {nodes} nodes are not ready: it does nothing",)
        )
    rooms = _rooms(world, counts, arguments)
    upcoming = [
        next_node(count.group, state.seen.get(count.group.name), world.daemon_sets, arguments)
        for count in counts
        for _ in range(count.upcoming)
    ]
    homeless = without_place(pending(world, arguments), rooms, upcoming)
    up = scale_up(homeless, counts, world, arguments, state)
    if up.change is not None:
        requested = {**state.requested, up.change.group: world.now + arguments.max_node_provision_time}
        state = replace(state, requested=requested, scaled_up=world.now)
        counts = tuple(_resized(count, up.change) for count in counts)
    found, state = unneeded(counts, rooms, world, arguments, state)
    going: tuple[Termination, ...] = ()
    if not up.waits and not _cools_down(world, arguments, state):
        going = terminations(found, counts, world, arguments, state)
    if going:
        state = replace(state, deleted=world.now)
    orders = (*given_up, *((up.change,) if up.change else ()), *going)
    return AutoscalerTurn(decisions=orders, state=state, said=(*up.said, *(_told(each) for each in (*given_up, *going))))


def _given_up(counts: Sequence[GroupCount]) -> Iterator[Termination]:
    """`core/static_autoscaler.go`, removeOldUnregisteredNodes: as many as the minimum lets go."""
    for count in counts:
        for instance in list(count.late)[: max(0, count.group.desired - count.group.min)]:
            yield Termination(group=count.group.name, provider_id=instance, node=None)


def _less(count: GroupCount, given_up: Sequence[Termination]) -> GroupCount:
    gone = {each.provider_id for each in given_up if each.group == count.group.name}
    group = replace(count.group, desired=count.group.desired - len(gone))
    return replace(count, group=group, late=[each for each in count.late if each not in gone])


def _resized(count: GroupCount, change: CapacityChange) -> GroupCount:
    return replace(count, group=replace(count.group, desired=change.capacity)) if count.group.name == change.group else count


def _rooms(world: AutoscalerWorld, counts: Sequence[GroupCount], arguments: AutoscalerArguments) -> dict[str, SimulatedRoom]:
    """Every node but those that start, with its pods; expendable ones do not count."""
    starting = {node["metadata"]["name"] for count in counts for node in count.starting}
    rooms = {node["metadata"]["name"]: SimulatedRoom.of(node) for node in world.nodes if node["metadata"]["name"] not in starting}
    for pod in world.pods:
        room = rooms.get(pod["spec"].get("nodeName") or "")
        if room is not None and not _is_over(pod) and not is_expendable(pod, arguments):
            room.put(pod)
    return rooms


def _is_over(pod: Body) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _cools_down(world: AutoscalerWorld, arguments: AutoscalerArguments, state: ScalingState) -> bool:
    """`core/static_autoscaler.go`, isScaleDownInCooldown."""
    delays = (
        (state.scaled_up, arguments.scale_down_delay_after_add),
        (state.failed, arguments.scale_down_delay_after_failure),
        (state.deleted, arguments.scale_down_delay_after_delete),
    )
    return any(last is not None and last + delay > world.now for last, delay in delays)


def _told(order: Termination) -> str:
    if order.node is None:
        return f"{order.group}: {order.provider_id} never joined and goes"
    moved = f", {len(order.evict)} pods move" if order.evict else ", it is empty"
    return f"{order.group}: {order.node} goes{moved}"
