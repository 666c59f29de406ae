"""What a region of AWS does not offer, the double does not make there."""

from pathlib import Path

import pytest
from aws_world import ZONES, World

from pulumi_embedded.engine.provider import ProviderError
from pulumi_embedded.providers.aws.instance_regions import is_offered, regions_of
from pulumi_embedded.providers.aws.offerings import instance_types, regions

ELSEWHERE = "p5e.48xlarge"
"""Offered in us-east-2, and not in the region of the tests."""
RESERVATION = {"instanceCount": 1, "instancePlatform": "Linux/UNIX", "availabilityZone": ZONES[0]}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_node_group_of_a_type_that_its_region_lacks_is_refused_when_made(world: World) -> None:
    with pytest.raises(
        ProviderError, match=f"Ec2LaunchTemplateInvalidConfiguration: .* type {ELSEWHERE} is not valid .*offered in us-east-2"
    ):
        world.node_group(instanceTypes=["m7i.large", ELSEWHERE])


def test_a_node_group_that_was_refused_leaves_nothing_behind(world: World) -> None:
    with pytest.raises(ProviderError):
        world.node_group(instanceTypes=[ELSEWHERE])
    assert world.plane.manifests == {}


def test_a_preview_does_not_show_what_a_region_lacks(world: World) -> None:
    group = {"clusterName": "dev", "nodeRoleArn": "arn:aws:iam::000000000000:role/nodes", "subnetIds": ["subnet-1"]}
    size = {"minSize": 0, "desiredSize": 1, "maxSize": 2}
    assert world.preview("eks/nodeGroup", "gpu", **group, scalingConfig=size, instanceTypes=[ELSEWHERE])


def test_a_reservation_of_a_type_that_its_region_lacks_is_refused_when_made(world: World) -> None:
    with pytest.raises(ProviderError, match=f"Unsupported: .* has no {ELSEWHERE}"):
        world.make("ec2/capacityReservation", "reserved", **RESERVATION, instanceType=ELSEWHERE)


def test_a_reservation_of_a_type_that_its_region_offers_is_made(world: World) -> None:
    assert world.make("ec2/capacityReservation", "reserved", **RESERVATION, instanceType="p5.48xlarge").id


@pytest.mark.parametrize(
    ("instance_type", "there", "not_there"),
    [("g6.xlarge", "us-east-1", "eu-west-1"), ("p4de.24xlarge", "eu-central-1", "eu-west-1"), ("p5.4xlarge", "us-east-2", "us-west-1")],
)
def test_the_regions_of_a_type_are_known(instance_type: str, there: str, not_there: str) -> None:
    assert is_offered(instance_type, there)
    assert not is_offered(instance_type, not_there)


def test_every_region_of_the_double_has_instance_types() -> None:
    assert all(any(region in regions_of(name) for name in instance_types()) for region in regions())


def test_what_nobody_knows_is_taken_for_offered() -> None:
    assert is_offered("g6.xlarge", "eu-north-9")
    assert is_offered("g99.xlarge", "eu-west-1")
