"""Which nodes are not needed, and which of them go now. Pure.

kubernetes/autoscaler at cluster-autoscaler-1.35.2, below `cluster-autoscaler/`: `core/scaledown/planner/planner.go`,
`eligibility/eligibility.go`, `unneeded/nodes.go`, `budgets/budgets.go`; `simulator/cluster.go` (SimulateNodeRemoval),
`simulator/drainability/rules/rules.go`, `processors/nodes/pre_filtering_processor.go`.

Not here: limits of cores and memory, options of single groups by tag, node group health, atomic scale-down, and that
a controller must still exist.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import DivisionByZero, InvalidOperation

from sandbox.cloud.autoscaler import SAFE_TO_EVICT, Body, is_underused
from sandbox.cloud.scaling.groups import TO_BE_DELETED, GroupCount, ready, when
from sandbox.cloud.scaling.model import AutoscalerArguments, AutoscalerWorld, ScalingState, Termination
from sandbox.cloud.scaling.placement import SimulatedRoom, placed
from sandbox.cloud.scaling.scale_up import is_of_daemon_set

DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
LOCAL_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
_REPLICATED = ("ReplicationController", "Job", "ReplicaSet", "StatefulSet")
_LONG_TERMINATING = timedelta(seconds=30)


@dataclass
class _Budgets:
    """How many more pods each budget lets go, as the simulation uses them up: `core/scaledown/pdb/basic.go`."""

    bodies: Sequence[Body]

    def __post_init__(self) -> None:
        self.left = [int((each.get("status") or {}).get("disruptionsAllowed") or 0) for each in self.bodies]

    def of(self, pod: Body) -> list[int]:
        return [number for number, each in enumerate(self.bodies) if _selects(each, pod)]

    def use(self, pods: Sequence[Body]) -> None:
        for pod in pods:
            for number in self.of(pod):
                self.left[number] -= 1


def unneeded(
    counts: Sequence[GroupCount],
    rooms: Mapping[str, SimulatedRoom],
    world: AutoscalerWorld,
    arguments: AutoscalerArguments,
    state: ScalingState,
) -> tuple[dict[str, list[Body]], ScalingState]:
    """Nodes that all pods could leave, with those pods, and since when each has been one in the new state."""
    budgets = _Budgets(world.budgets)
    left = dict(rooms)
    skipped = {name: until for name, until in state.unremovable.items() if until > world.now}
    found: dict[str, list[Body]] = {}
    candidates = [node for count in counts if count.group.desired > count.group.min for node in count.settled]
    for node in sorted(
        candidates, key=lambda node: (len(_movable(rooms[_name(node)].pods)), _name(node) not in state.unneeded, _name(node))
    ):
        name = _name(node)
        if name in skipped or not _is_candidate(node, rooms[name].pods, arguments):
            continue
        moving = _to_move(left[name].pods, world, arguments, budgets)
        after = None if moving is None else _without(name, moving, left)
        if moving is None or after is None:
            skipped[name] = world.now + arguments.unremovable_node_recheck_timeout
            continue
        left, found[name] = after, moving
        budgets.use(moving)
    since = {name: state.unneeded.get(name, world.now) for name in found}
    return found, replace(state, unneeded=since, unremovable=skipped)


def terminations(
    found: Mapping[str, Sequence[Body]],
    counts: Sequence[GroupCount],
    world: AutoscalerWorld,
    arguments: AutoscalerArguments,
    state: ScalingState,
) -> tuple[Termination, ...]:
    """Of the nodes that are unneeded those that have been so for long enough: empty ones at once, others one by one."""
    sizes = {count.group.name: count.group.desired for count in counts}
    chosen: list[Termination] = []
    drained = 0
    for name in sorted(found, key=lambda name: (bool(found[name]), state.unneeded[name], name)):
        count, node = next((count, node) for count in counts for node in count.settled if _name(node) == name)
        group = count.group
        threshold = arguments.scale_down_unneeded_time if ready(node, arguments) else arguments.scale_down_unready_time
        if threshold and state.unneeded[name] + threshold >= world.now:
            continue
        if sizes[group.name] <= group.min or len(chosen) == arguments.max_scale_down_parallelism:
            continue
        if found[name]:
            if drained == arguments.max_drain_parallelism:
                continue
            drained += 1
        sizes[group.name] -= 1
        evict = tuple((pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in found[name])
        chosen.append(Termination(group=group.name, provider_id=node["spec"]["providerID"], node=name, evict=evict))
    return tuple(chosen)


def blocks(pod: Body, world: AutoscalerWorld, arguments: AutoscalerArguments, budgets: _Budgets) -> str | None:
    """Why the pod keeps its node, in the order of the rules; None where it does not."""
    metadata, annotations = pod["metadata"], pod["metadata"].get("annotations") or {}
    if "kubernetes.io/config.mirror" in annotations or _long_terminating(pod, world) or is_of_daemon_set(pod):
        return None
    if annotations.get(SAFE_TO_EVICT) == "true" or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return None
    owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
    if owner is None or (arguments.skip_nodes_with_custom_controller_pods and owner["kind"] not in _REPLICATED):
        return "not replicated"
    own = budgets.of(pod)
    if arguments.skip_nodes_with_system_pods and metadata["namespace"] == "kube-system" and not own:
        if world.now <= when(metadata["creationTimestamp"]) + arguments.blocking_system_pod_distruption_timeout:
            return "kube-system without a budget"
        return None
    if annotations.get(SAFE_TO_EVICT) == "false":
        return "not safe to evict"
    if arguments.skip_nodes_with_local_storage and _has_local_storage(pod):
        return "local storage"
    return "disruption budget" if any(budgets.left[number] < 1 for number in own) else None


def _is_candidate(node: Body, pods: Sequence[Body], arguments: AutoscalerArguments) -> bool:
    if (node["metadata"].get("annotations") or {}).get(DISABLED) == "true":
        return False
    if any(taint["key"] == TO_BE_DELETED for taint in (node.get("spec") or {}).get("taints") or ()):
        return False
    try:
        return is_underused(node, pods, arguments.thresholds)
    except (KeyError, DivisionByZero, InvalidOperation):  # a node that offers no CPU or memory is left alone
        return False


def _to_move(pods: Sequence[Body], world: AutoscalerWorld, arguments: AutoscalerArguments, budgets: _Budgets) -> list[Body] | None:
    """Pods that need another place; None where one of all stays."""
    if any(blocks(pod, world, arguments, budgets) for pod in pods):
        return None
    return [pod for pod in _movable(pods) if not _long_terminating(pod, world)]


def _movable(pods: Sequence[Body]) -> list[Body]:
    mirror = "kubernetes.io/config.mirror"
    return [pod for pod in pods if not is_of_daemon_set(pod) and mirror not in (pod["metadata"].get("annotations") or {})]


def _without(name: str, moving: Sequence[Body], rooms: Mapping[str, SimulatedRoom]) -> dict[str, SimulatedRoom] | None:
    """The rooms once the pods have gone from the node to others; None where one finds no place."""
    left = {
        other: SimulatedRoom(room.node, list(room.pods), dict(room.free)) if moving else room
        for other, room in rooms.items()
        if other != name
    }
    return left if all(placed(pod, left.values()) for pod in moving) else None


def _long_terminating(pod: Body, world: AutoscalerWorld) -> bool:
    """`utils/drain/drain.go`, IsPodLongTerminating."""
    deleted = pod["metadata"].get("deletionTimestamp")
    if not deleted:
        return False
    grace = pod["spec"].get("terminationGracePeriodSeconds")
    return when(deleted) + timedelta(seconds=30 if grace is None else int(grace)) + _LONG_TERMINATING < world.now


def _has_local_storage(pod: Body) -> bool:
    """`utils/drain/drain.go`, HasBlockingLocalStorage."""
    free = ((pod["metadata"].get("annotations") or {}).get(LOCAL_VOLUMES) or "").split(",")
    return any(_is_local(volume) and volume["name"] not in free for volume in pod["spec"].get("volumes") or ())


def _is_local(volume: Body) -> bool:
    return "hostPath" in volume or ("emptyDir" in volume and (volume["emptyDir"] or {}).get("medium") != "Memory")


def _selects(budget: Body, pod: Body) -> bool:
    selector = budget["spec"].get("selector")
    if selector is None or budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    labels = pod["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_matches(each, labels) for each in selector.get("matchExpressions") or ())


def _matches(expression: Body, labels: Mapping[str, str]) -> bool:
    found, operator = labels.get(expression["key"]), expression["operator"]
    if operator in ("In", "NotIn"):
        return (found in (expression.get("values") or ())) == (operator == "In")
    return (found is not None) == (operator == "Exists")


def _name(node: Body) -> str:
    return str(node["metadata"]["name"])
