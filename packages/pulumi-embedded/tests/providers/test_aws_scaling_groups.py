"""Auto Scaling groups behind node groups: what an autoscaler does to them, and what an update makes of it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aws_world import Made, Plane, Watch, World, plain_nodes

from pulumi_embedded.engine.provider import ProviderError
from pulumi_embedded.providers.aws.account import SimulatedAccount
from pulumi_embedded.providers.aws.clusters import NodeGroups
from pulumi_embedded.providers.aws.kind import ACCOUNT_ID
from pulumi_embedded.providers.aws.scaling_groups import AutoScalingGroup, ScalingGroups
from pulumi_embedded.providers.aws.schedules import Schedules

SIZE = {"minSize": 1, "desiredSize": 2, "maxSize": 4}
GROUP = "aws:eks/getNodeGroup:getNodeGroup"


@dataclass
class Scaler:
    """Who scales beside Pulumi: another process over the same account, with a clock of its own."""

    world: World
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        account = SimulatedAccount(self.world.folder / f"account-{ACCOUNT_ID}.sqlite")
        self.groups = ScalingGroups(
            account, self.world.plane, NodeGroups(account, self.world.plane, plain_nodes), timedelta(minutes=3), lambda: self.now
        )

    @property
    def seen(self) -> AutoScalingGroup:
        (found,) = self.groups.describe()
        return found

    def resize(self, count: int) -> None:
        self.groups.set_desired_capacity(self.seen.name, count)

    def terminate(self, node: str) -> None:
        self.groups.terminate_instance(self.world.plane.manifests[node]["spec"]["providerID"])

    def boot(self) -> list[str]:
        """All that was launched joins."""
        self.now += timedelta(minutes=4)
        return self.groups.settle()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def made(world: World) -> Made:
    return world.node_group(scalingConfig=SIZE)


@pytest.fixture
def scaler(world: World, made: Made) -> Scaler:
    return Scaler(world)


def names(plane: Plane) -> list[str]:
    return sorted(plane.manifests)


def told(world: World) -> Any:
    """The size as a plan reads it."""
    return world.provider.invoke(GROUP, {"clusterName": "dev", "nodeGroupName": "gpu"}, False)["scalingConfigs"][0]["desiredSize"]


def test_a_group_is_described_with_its_bounds_tags_and_instances(world: World, made: Made, scaler: Scaler) -> None:
    name = made.outputs["resources"][0]["autoscalingGroups"][0]["name"]
    world.make("autoscaling/tag", "hint", autoscalingGroupName=name, tag={"key": "k", "value": "v", "propagateAtLaunch": False})
    seen = scaler.seen
    assert (seen.name, seen.min, seen.desired, seen.max, seen.tags) == (name, 1, 2, 4, {"k": "v"})
    assert sorted(seen.launched) == sorted(m["spec"]["providerID"] for m in world.plane.manifests.values())
    assert seen.node_group.instance_type == "g6.xlarge"


def test_an_instance_joins_only_after_it_has_booted(world: World, scaler: Scaler) -> None:
    scaler.resize(3)
    assert (told(world), names(world.plane), len(scaler.seen.launched)) == (3, ["gpu-0", "gpu-1"], 3)
    scaler.now += timedelta(minutes=2)
    assert scaler.groups.settle() == []
    scaler.now += timedelta(minutes=2)
    assert scaler.groups.settle() == ["gpu-2"]
    assert names(world.plane) == ["gpu-0", "gpu-1", "gpu-2"] and scaler.groups.settle() == []


def test_a_certain_instance_goes_and_its_name_never_comes_back(world: World, scaler: Scaler) -> None:
    scaler.terminate("gpu-0")
    assert (told(world), names(world.plane)) == (1, ["gpu-1"])
    scaler.resize(3)
    assert scaler.boot() == ["gpu-2", "gpu-3"]
    assert names(world.plane) == ["gpu-1", "gpu-2", "gpu-3"]


def test_the_last_ordinal_is_not_given_again_either(world: World, scaler: Scaler) -> None:
    scaler.terminate("gpu-1")
    scaler.resize(2)
    assert scaler.boot() == ["gpu-2"]


def test_a_smaller_capacity_ends_instances_at_once(world: World, scaler: Scaler) -> None:
    scaler.resize(1)
    assert (told(world), names(world.plane)) == (1, ["gpu-0"])


@pytest.mark.parametrize(("capacity", "words"), [(5, "value 5 is above max value 4"), (0, "value 0 is below min value 1")])
def test_a_capacity_outside_the_bounds_is_refused(scaler: Scaler, capacity: int, words: str) -> None:
    with pytest.raises(ProviderError, match=words):
        scaler.resize(capacity)
    assert scaler.seen.desired == 2


def test_the_last_instance_of_the_minimum_may_not_go(world: World, scaler: Scaler) -> None:
    scaler.terminate("gpu-0")
    with pytest.raises(ProviderError, match=r"desiredSize equals minSize \(1\)"):
        scaler.terminate("gpu-1")
    assert names(world.plane) == ["gpu-1"]


def test_an_instance_or_a_group_that_is_not_there_is_named(scaler: Scaler) -> None:
    with pytest.raises(ProviderError, match="No managed instance found for instance ID: i-9"):
        scaler.groups.terminate_instance("aws:///us-west-2a/i-9")
    with pytest.raises(ProviderError, match="AutoScalingGroup name not found - eks-other"):
        scaler.groups.set_desired_capacity("eks-other", 1)


def test_an_update_with_the_same_bounds_leaves_the_number_alone(world: World, made: Made, scaler: Scaler) -> None:
    scaler.resize(4)
    scaler.boot()
    scaler.terminate("gpu-0")
    assert not made.diff().details, "nothing to repair"
    made.update(labels={"tier": "a"})
    assert (told(world), names(world.plane)) == (3, ["gpu-1", "gpu-2", "gpu-3"])
    assert world.plane.manifests["gpu-3"]["metadata"]["labels"]["tier"] == "a"


def test_an_update_of_a_template_that_names_no_release_says_what_eks_takes(world: World) -> None:
    template = world.make("ec2/launchTemplate", "t", description="one")
    template.update(description="two")
    group = world.node_group(releaseVersion="1.36.2-20260714", launchTemplate={"id": template.id, "version": "1"})
    told = Watch()
    group.update(told, launchTemplate={"id": template.id, "version": "2"})
    assert told.warnings == ["EKS takes the newest AMI release of 1.36: the update names a launch template and no release"]
    told = Watch()
    group.update(told, launchTemplate={"id": template.id, "version": "1"}, releaseVersion="1.36.3-20260801")
    assert not told.warnings


def test_an_update_of_the_bounds_sends_its_number(world: World, made: Made, scaler: Scaler) -> None:
    scaler.resize(4)
    scaler.boot()
    scaler.terminate("gpu-1")
    made.update(scalingConfig={"minSize": 1, "desiredSize": 3, "maxSize": 8})
    assert names(world.plane) == ["gpu-0", "gpu-2", "gpu-3"], "three it had, and three it keeps"
    made.update(scalingConfig={"minSize": 1, "desiredSize": 4, "maxSize": 8})
    assert names(world.plane) == ["gpu-0", "gpu-2", "gpu-3", "gpu-4"], "an update waits for what it adds"
    made.update(scalingConfig={"minSize": 1, "desiredSize": 1, "maxSize": 8})
    assert (told(world), names(world.plane)) == (1, ["gpu-0"])


def test_instances_that_boot_are_no_drift_and_no_work_for_an_update(world: World, made: Made, scaler: Scaler) -> None:
    scaler.resize(4)
    assert not made.diff().details
    live = made.read()
    assert live is not None and live.inputs["scalingConfig"]["desiredSize"] == 4
    made.update(labels={"tier": "a"})
    assert names(world.plane) == ["gpu-0", "gpu-1"], "the others join by themselves"


def test_a_node_that_somebody_deleted_is_repaired_by_an_update_alone(world: World, made: Made, scaler: Scaler) -> None:
    scaler.resize(3)
    scaler.boot()
    world.plane.delete_node("gpu-1")
    assert scaler.groups.settle() == [] and made.diff().details == {"resources": "update"}
    made.update()
    assert names(world.plane) == ["gpu-0", "gpu-1", "gpu-2"]


def test_a_node_without_an_instance_goes_by_itself(world: World, made: Made, scaler: Scaler) -> None:
    scaler.resize(3)
    scaler.boot()
    stray = world.plane.manifests["gpu-2"]
    scaler.terminate("gpu-2")
    world.plane.manifests["gpu-2"] = stray
    scaler.groups.settle()
    assert names(world.plane) == ["gpu-0", "gpu-1"]


def test_a_group_that_is_deleted_forgets_its_instances(world: World, made: Made, scaler: Scaler) -> None:
    scaler.terminate("gpu-0")
    made.delete()
    assert world.plane.manifests == {} and scaler.groups.describe() == ()


def test_a_scheduled_action_is_refused_for_a_time_that_is_past(world: World, made: Made) -> None:
    name = made.outputs["resources"][0]["autoscalingGroups"][0]["name"]
    empties = {"autoscalingGroupName": name, "scheduledActionName": "end", "desiredCapacity": 0, "minSize": 0, "maxSize": 0}
    with pytest.raises(ProviderError, match="Given start time is in the past"):
        world.make("autoscaling/schedule", "past", **empties, startTime="2026-01-01T00:00:00Z")
    world.make("autoscaling/schedule", "ahead", **empties, startTime="2099-01-01T00:00:00Z")


def test_a_scheduled_action_that_was_carried_out_is_gone(world: World, made: Made) -> None:
    inputs = {"startTime": "2026-12-01T00:00:00Z"}
    object = next(each for each in SimulatedAccount(world.folder / f"account-{ACCOUNT_ID}.sqlite").of("aws:eks/nodeGroup:NodeGroup"))
    then = datetime(2026, 12, 1, tzinfo=UTC)
    assert Schedules(lambda: then).live(object, inputs) is None
    assert Schedules(lambda: then - timedelta(seconds=1)).live(object, inputs) == inputs
    assert Schedules(lambda: then).live(object, {**inputs, "recurrence": "0 3 * * *"}) is not None
