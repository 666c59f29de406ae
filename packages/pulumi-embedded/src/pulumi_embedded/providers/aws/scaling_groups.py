"""Auto Scaling groups behind node groups, for whoever scales them beside Pulumi, as the Cluster Autoscaler does.

Two operations of the API, refused as AWS refuses them, and `settle`, which is what happens in AWS by itself: an
instance that has booted becomes a node. The record of instances is written first and in one transaction, so that an
update in another process and this one never disagree for longer than a turn.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from pulumi_embedded.engine.provider import Properties, ProviderError
from pulumi_embedded.providers.aws.account import AccountObject, SimulatedAccount
from pulumi_embedded.providers.aws.clusters import NODE_GROUP, NodeGroups
from pulumi_embedded.providers.aws.instances import GroupInstances
from pulumi_embedded.providers.aws.nodes import NodeGroup, SimulatedNode
from pulumi_embedded.providers.control_plane import EksControlPlane

_TAG = "aws:autoscaling/tag:Tag"


@dataclass(frozen=True, kw_only=True)
class AutoScalingGroup:
    """What DescribeAutoScalingGroups and DescribeNodegroup say of one."""

    name: str
    min: int
    max: int
    desired: int
    node_group: NodeGroup
    tags: Mapping[str, str]
    launched: Mapping[str, datetime]
    """Of each instance, by the provider ID of its node."""


@dataclass(frozen=True)
class ScalingGroups:
    """`boot` is how long an instance takes from its launch until its node joins."""

    account: SimulatedAccount
    plane: EksControlPlane
    backend: NodeGroups
    boot: timedelta
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def describe(self) -> tuple[AutoScalingGroup, ...]:
        return tuple(self._described(object) for object in self.account.of(NODE_GROUP))

    def set_desired_capacity(self, name: str, capacity: int) -> None:
        """SetDesiredCapacity. ProviderError outside the group's bounds."""
        object = self._object(name)
        low, high = _bounds(object)
        if capacity > high:
            raise ProviderError(
                f"ValidationError: New SetDesiredCapacity value {capacity} is above max value {high} for the AutoScalingGroup."
            )
        if capacity < low:
            raise ProviderError(
                f"ValidationError: New SetDesiredCapacity value {capacity} is below min value {low} for the AutoScalingGroup."
            )
        self._change(object, lambda found: found.resized(capacity, self.clock(), self.boot))
        self._remove_strays(self._object(name))

    def terminate_instance(self, provider_id: str) -> None:
        """TerminateInstanceInAutoScalingGroup with ShouldDecrementDesiredCapacity: this one goes, and none comes for it.
        ProviderError where the group may not shrink, or for an instance that is none of any group."""
        for object in self.account.of(NODE_GROUP):
            ordinal = next((n for n, node in self._nodes(object).items() if node.provider_id == provider_id), None)
            if ordinal is not None:
                self._change(object, partial(_shrunk, object, ordinal))
                self._remove_strays(self._object(_name(object)))
                return
        id = provider_id.rpartition("/")[2]
        raise ProviderError(f"ValidationError: Instance Id not found - No managed instance found for instance ID: {id}")

    def settle(self) -> list[str]:
        """Make the nodes whose instances have booted, and remove those without an instance; answers the new names."""
        made: list[str] = []
        for object in self.account.of(NODE_GROUP):
            waiting = [each.ordinal for each in GroupInstances.of(object).instances if each.joins and each.due(self.clock())]
            nodes = self._nodes(object)
            for ordinal in waiting:
                self.plane.create_node(nodes[ordinal], object.outputs["arn"])
                made.append(nodes[ordinal].name)
            if waiting:
                self._change(object, lambda found, done=waiting: found.joined(done))
            self._remove_strays(object)
        return made

    def _remove_strays(self, object: AccountObject) -> None:
        names = {node.name for node in self._nodes(object).values()}
        for node in self.plane.nodes(object.outputs["arn"]):
            if node.name not in names:
                self.plane.delete_node(node.name)

    def _nodes(self, object: AccountObject) -> dict[int, SimulatedNode]:
        """Node of each instance, by ordinal, whether it has joined or not."""
        return self.backend.of_ordinals(object, object.inputs, [each.ordinal for each in GroupInstances.of(object).instances])

    def _change(self, object: AccountObject, change: Callable[[GroupInstances], GroupInstances]) -> None:
        def rewritten(record: Properties | None) -> Properties:
            return change(GroupInstances.read(object, record)).record()

        self.account.keep_beside(object.key, rewritten)

    def _object(self, name: str) -> AccountObject:
        found = next((object for object in self.account.of(NODE_GROUP) if _name(object) == name), None)
        if found is None:
            raise ProviderError(f"ValidationError: AutoScalingGroup name not found - {name}")
        return found

    def _described(self, object: AccountObject) -> AutoScalingGroup:
        name = _name(object)
        low, high = _bounds(object)
        found = GroupInstances.of(object)
        nodes = self._nodes(object)
        tags = [tag.inputs["tag"] for tag in self.account.of(_TAG) if tag.inputs["autoscalingGroupName"] == name]
        return AutoScalingGroup(
            name=name,
            min=low,
            max=high,
            desired=found.desired,
            node_group=self.backend.resolved(object, object.inputs),
            tags={str(tag["key"]): str(tag["value"]) for tag in tags},
            launched={nodes[each.ordinal].provider_id: each.launched for each in found.instances},
        )


def _shrunk(object: AccountObject, ordinal: int, found: GroupInstances) -> GroupInstances:
    low, _ = _bounds(object)
    if found.desired <= low:
        raise ProviderError(
            f"ValidationError: Currently, desiredSize equals minSize ({low}). Terminating instance without replacement will violate group's "
            "min size constraint. Either set shouldDecrementDesiredCapacity flag to false or lower group's min size."
        )
    return found.without(ordinal)


def _bounds(object: AccountObject) -> tuple[int, int]:
    size = object.inputs["scalingConfig"]
    return int(size["minSize"]), int(size["maxSize"])


def _name(object: AccountObject) -> str:
    return str(object.outputs["resources"][0]["autoscalingGroups"][0]["name"])
