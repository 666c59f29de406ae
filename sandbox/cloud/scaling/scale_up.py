"""Which group is to have more nodes, and how many. Pure.

kubernetes/autoscaler at cluster-autoscaler-1.35.2, below `cluster-autoscaler/`: `core/static_autoscaler.go` (young
pods), `core/podlistprocessor` (daemon sets' pods, expendable pods, pods that fit already),
`core/scaleup/orchestrator/orchestrator.go`, `estimator/binpacking_estimator.go` and `decreasing_pod_orderer.go`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from sandbox.cloud.autoscaler import WHOLE_GPUS, Body, amount, requests
from sandbox.cloud.scaling.expander import ExpansionOption, best
from sandbox.cloud.scaling.groups import GroupCount, next_node, when
from sandbox.cloud.scaling.model import AutoscalerArguments, AutoscalerWorld, CapacityChange, ScalingState
from sandbox.cloud.scaling.placement import SimulatedRoom, placed, unmodelled

_PODS_ARE_NEW, _GPU_PODS_ARE_NEW = timedelta(seconds=2), timedelta(seconds=30)
"""`core/static_autoscaler.go`, unschedulablePodTimeBuffer and unschedulablePodWithGpuTimeBuffer."""


@dataclass(frozen=True, kw_only=True)
class ScaleUp:
    """At most one group grows in a turn. `waits`: pods are so new that others may follow; nothing is removed either."""

    change: CapacityChange | None = None
    waits: bool = False
    said: tuple[str, ...] = ()


def pending(world: AutoscalerWorld, arguments: AutoscalerArguments) -> list[Body]:
    """Pods that the scheduler could not place and that a node may help, the most important first."""
    found = [pod for pod in world.pods if _is_unschedulable(pod) and not is_of_daemon_set(pod) and not is_expendable(pod, arguments)]
    return sorted(found, key=lambda pod: (-int(pod["spec"].get("priority") or 0), when(pod["metadata"]["creationTimestamp"])))


def without_place(pods: Sequence[Body], rooms: Mapping[str, SimulatedRoom], upcoming: Sequence[SimulatedRoom]) -> list[Body]:
    """Those that fit neither on a node that is there nor on one that comes; the others are put into the rooms."""
    left: list[Body] = []
    for pod in pods:
        nominated = str((pod.get("status") or {}).get("nominatedNodeName"))
        if nominated in rooms:
            rooms[nominated].put(pod)  # the scheduler evicts others for it there
        elif not placed(pod, (*rooms.values(), *upcoming)):
            left.append(pod)
    return left


def scale_up(
    pods: Sequence[Body], counts: Sequence[GroupCount], world: AutoscalerWorld, arguments: AutoscalerArguments, state: ScalingState
) -> ScaleUp:
    """For `pods`, which have no place."""
    old = [pod for pod in pods if world.now - _created(pod) > arguments.new_pod_scale_up_delay]
    if not old:
        return ScaleUp()
    if _are_new(old, world.now):
        return ScaleUp(waits=True)
    options = [option for count in counts if (option := _option(old, count, world, arguments, state))]
    helped = {_name(pod) for option in options for pod in option.pods}
    said = tuple(_helpless(pod) for pod in old if _name(pod) not in helped)
    if not options:
        return ScaleUp(said=said)
    chosen = best(options, arguments)
    group = next(count.group for count in counts if count.group.name == chosen.group)
    capacity = group.desired + chosen.count
    names = ", ".join(sorted(_name(pod) for pod in chosen.pods)[:3]) + (
        "" if len(chosen.pods) <= 3 else f" and {len(chosen.pods) - 3} more"
    )
    up = f"{group.name}: {group.desired} -> {capacity} nodes for {names}"
    return ScaleUp(change=CapacityChange(group=group.name, capacity=capacity), said=(up, *said))


def _option(
    pods: Sequence[Body], count: GroupCount, world: AutoscalerWorld, arguments: AutoscalerArguments, state: ScalingState
) -> ExpansionOption | None:
    """Nodes of the group for as many of the pods as it takes; first fit, the largest pods first."""
    group = count.group
    backoff = state.backoffs.get(group.name)
    if group.desired >= group.max or (backoff is not None and backoff.until > world.now):
        return None

    def fresh() -> SimulatedRoom:
        return next_node(group, state.seen.get(group.name), world.daemon_sets, arguments)

    template = fresh().node
    made: list[SimulatedRoom] = []
    taken: list[Body] = []
    for pod in sorted(pods, key=lambda pod: -_size(pod, template)):
        if not placed(pod, made):
            another = fresh()
            if len(made) == group.max - group.desired or not another.takes(pod):
                continue
            another.put(pod)
            made.append(another)
        taken.append(pod)
    return ExpansionOption(group=group.name, count=len(made), pods=taken, template=template) if made else None


def _size(pod: Body, template: Body) -> Decimal:
    asked, offered = requests(pod), template["status"]["allocatable"]
    shares = [asked.get(name, Decimal(0)) / amount(offered[name]) for name in ("cpu", "memory") if amount(offered.get(name, "0"))]
    return sum(shares, Decimal(0))


def _is_unschedulable(pod: Body) -> bool:
    if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        each["type"] == "PodScheduled" and each["status"] == "False" and each.get("reason") == "Unschedulable" for each in conditions
    )


def is_of_daemon_set(pod: Body) -> bool:
    """`utils/pod/pod.go`, IsDaemonSetPod."""
    if (pod["metadata"].get("annotations") or {}).get("cluster-autoscaler.kubernetes.io/daemonset-pod") == "true":
        return True
    return any(owner.get("controller") and owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or ())


def is_expendable(pod: Body, arguments: AutoscalerArguments) -> bool:
    """`core/utils/expendable.go`."""
    priority = pod["spec"].get("priority")
    return priority is not None and int(priority) < arguments.expendable_pods_priority_cutoff


def _are_new(pods: Sequence[Body], now: datetime) -> bool:
    """Whether others of their kind may come in the next seconds; of pods with GPUs, in the next half minute."""
    with_gpus = [_created(pod) for pod in pods if any(requests(pod).get(name) for name in WHOLE_GPUS)]
    return min(map(_created, pods)) + _PODS_ARE_NEW > now or bool(with_gpus and min(with_gpus) + _GPU_PODS_ARE_NEW > now)


def _helpless(pod: Body) -> str:
    missing = ", ".join(unmodelled(pod))
    return f"{_name(pod)}: " + (f"asks for {missing}, which is not modelled" if missing else "no group has a node for it")


def _created(pod: Body) -> datetime:
    return when(pod["metadata"]["creationTimestamp"])


def _name(pod: Body) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
