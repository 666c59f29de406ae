"""How the nodes of a group are counted, and what its next node would be. Pure.

kubernetes/autoscaler at cluster-autoscaler-1.35.2, below `cluster-autoscaler/`: `clusterstate/clusterstate.go`
(readiness, upcoming nodes, requests, back-off), `processors/nodeinfosprovider/mixed_nodeinfos_processor.go` and
`cloudprovider/aws/aws_manager.go` (templates).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sandbox.cloud.autoscaler import STARTUP_TAINTS, Body, is_ready, node_to_come
from sandbox.cloud.scaling.model import AutoscalerArguments, AutoscalerWorld, GroupBackoff, ScalableGroup, ScalingState
from sandbox.cloud.scaling.placement import SimulatedRoom, fits

STABLE_FOR = timedelta(minutes=1)
"""`mixed_nodeinfos_processor.go`, stabilizationDelay."""
_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/disk-pressure", "node.kubernetes.io/network-unavailable")
TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
_PASSING_TAINTS = (TO_BE_DELETED, "DeletionCandidateOfClusterAutoscaler", "node.kubernetes.io/", *STARTUP_TAINTS)
"""`utils/taints/taints.go`, SanitizeTaints: of a node and of tags alike (`simulator/node_info_utils.go`, createSanitizedNode)."""


@dataclass(frozen=True, kw_only=True)
class GroupCount:
    """The nodes of one group, sorted as the autoscaler does."""

    group: ScalableGroup
    ready: Sequence[Body] = ()
    starting: Sequence[Body] = ()
    """Registered, not ready yet, and young: an upcoming node stands for each, and none is removed."""
    unready: Sequence[Body] = ()
    late: Sequence[str] = ()
    """Instances that have not become nodes for longer than max-node-provision-time."""

    @property
    def upcoming(self) -> int:
        """Nodes that were asked for and are not ready yet."""
        return max(0, self.group.desired - len(self.ready) - len(self.unready) - len(self.late))

    @property
    def settled(self) -> Sequence[Body]:
        return (*self.ready, *self.unready)


def counted(world: AutoscalerWorld, arguments: AutoscalerArguments) -> tuple[GroupCount, ...]:
    """A node belongs to the group that has its instance."""
    by_instance = {str((node.get("spec") or {}).get("providerID")): node for node in world.nodes}
    found: list[GroupCount] = []
    for group in world.groups:
        sorts: dict[str, list[Body]] = {"ready": [], "starting": [], "unready": []}
        for instance in group.instances:
            if instance in by_instance:
                sorts[_sort(by_instance[instance], world.now, arguments)].append(by_instance[instance])
        deadline = world.now - arguments.max_node_provision_time
        late = [each for each, launched in group.instances.items() if each not in by_instance and launched < deadline]
        found.append(GroupCount(group=group, late=late, **sorts))
    return tuple(found)


def ready(node: Body, arguments: AutoscalerArguments) -> bool:
    """Conditions and taints (`utils/kubernetes/ready.go`, GetNodeReadiness), and its GPUs where it is to have some. The
    taint goes a moment after the condition comes: until then the node is one that starts."""
    conditions = {each["type"]: each["status"] for each in (node.get("status") or {}).get("conditions") or ()}
    if conditions.get("Ready") != "True" or "True" in (conditions.get("DiskPressure"), conditions.get("NetworkUnavailable")):
        return False
    if any(taint["key"] in _NOT_READY for taint in (node.get("spec") or {}).get("taints") or ()):
        return False
    return is_ready(node, arguments.startup_taint)


def _sort(node: Body, now: datetime, arguments: AutoscalerArguments) -> str:
    """`clusterstate/clusterstate.go`, updateReadinessStats: a young node that is not ready is one that starts."""
    if ready(node, arguments):
        return "ready"
    return "starting" if when(node["metadata"]["creationTimestamp"]) + arguments.max_node_startup_time > now else "unready"


def _condition(node: Body) -> Mapping[str, Any]:
    return next((each for each in (node.get("status") or {}).get("conditions") or () if each["type"] == "Ready"), {})


def when(written: str | datetime) -> datetime:
    """A time as objects write it."""
    return written if isinstance(written, datetime) else datetime.fromisoformat(written)


def remembered(counts: Sequence[GroupCount], world: AutoscalerWorld, arguments: AutoscalerArguments, state: ScalingState) -> ScalingState:
    """Requests that came true or timed out, back-offs that are forgotten, and a node of each group as a pattern."""
    waiting = {count.group.name for count in counts if count.group.desired > len(count.settled)}
    requested = {name: until for name, until in state.requested.items() if name in waiting}
    backoffs = {name: each for name, each in state.backoffs.items() if each.failed + arguments.node_group_backoff_reset_timeout > world.now}
    for name in [name for name, until in requested.items() if until < world.now]:
        del requested[name]
        backoffs[name] = _backed_off(backoffs.get(name), world.now, arguments)
    seen = dict(state.seen)
    for count in counts:
        for node in count.ready:
            stable = when(_condition(node).get("lastTransitionTime") or world.now) + STABLE_FOR < world.now
            if stable and not (node.get("spec") or {}).get("unschedulable"):
                seen[count.group.name] = node
                break
    there = {count.group.name for count in counts}
    return replace(state, requested=requested, backoffs=backoffs, seen={name: node for name, node in seen.items() if name in there})


def _backed_off(before: GroupBackoff | None, now: datetime, arguments: AutoscalerArguments) -> GroupBackoff:
    lasts = arguments.initial_node_group_backoff_duration
    if before is not None:
        lasts = before.lasts if before.until >= now else min(before.lasts * 2, arguments.max_node_group_backoff_duration)
    return GroupBackoff(until=now + lasts, lasts=lasts, failed=now)


def next_node(group: ScalableGroup, seen: Body | None, daemon_sets: Sequence[Body], arguments: AutoscalerArguments) -> SimulatedRoom:
    """The node that the group would give, with what daemon sets take of it: like one that it gave, else by its tags
    and what EKS says of it (`aws_manager.go`, buildNodeFromTemplate; `simulator/node_info_utils.go`)."""
    node = _like(seen) if seen else _by_tags(group)
    taints = [
        each for each in node["spec"]["taints"] if not each["key"].startswith(_PASSING_TAINTS) and each["key"] != arguments.startup_taint
    ]
    node = {**node, "spec": {"taints": taints}}
    return SimulatedRoom.of(node, [pod for each in daemon_sets if fits(pod := each["spec"]["template"], node)])


def _like(seen: Body) -> Body:
    labels = {key: value for key, value in seen["metadata"]["labels"].items() if key != "kubernetes.io/hostname"}
    taints, status = (seen.get("spec") or {}).get("taints") or (), seen["status"]
    offered = {"allocatable": status["allocatable"], "capacity": status.get("capacity") or status["allocatable"]}
    return {"metadata": {"labels": labels}, "spec": {"taints": taints}, "status": offered}


def _by_tags(group: ScalableGroup) -> Body:
    facts = group.instance_type
    found = node_to_come(facts.gpus, facts.vcpus, str(int(facts.memory)), group.tags)
    generic = {
        "kubernetes.io/arch": group.architecture,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": facts.name,
        "topology.kubernetes.io/region": group.region,
        "topology.kubernetes.io/zone": group.zone,
        "topology.ebs.csi.aws.com/zone": group.zone,
    }
    labels = {**generic, **found["metadata"]["labels"], **group.labels}
    return {**found, "metadata": {"labels": labels}, "spec": {"taints": [*found["spec"]["taints"], *group.taints]}}
