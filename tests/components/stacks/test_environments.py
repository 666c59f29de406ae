"""Environments differ where they should, and production gives nothing away."""

import pytest

from tests.components.program import layer
from tests.components.recording import EKS_COMPONENT

KEPT = ("staging", "prod")
PASSING = ("sandbox", "dev")


def test_production_is_closed_and_cannot_be_deleted_by_accident() -> None:
    cluster = layer("prod-cluster").one(EKS_COMPONENT).inputs
    assert cluster["endpointPublicAccess"] is False
    assert cluster["deletionProtection"] is True
    assert all(r.protect for r in layer("prod-cluster").of_type("aws:s3/bucket:Bucket"))


def test_production_survives_the_loss_of_a_zone() -> None:
    found = layer("prod-cluster")
    assert len(found.of_type("aws:ec2/natGateway:NatGateway")) == 3
    latency = [r for r in found.of_type("aws:eks/nodeGroup:NodeGroup") if r.inputs["labels"].get("platform.io/class") == "latency"]
    assert len({r.inputs["subnetIds"][0] for r in latency}) == 3


@pytest.mark.parametrize("environment", KEPT)
def test_what_is_kept_is_kept_from_a_destroy(environment: str) -> None:
    found = layer(f"{environment}-cluster")
    assert not any(r.inputs["forceDestroy"] for r in found.of_type("aws:s3/bucket:Bucket"))
    assert not any(r.inputs["forceDelete"] for r in found.of_type("aws:ecr/repository:Repository"))
    assert all(r.inputs["deletionWindowInDays"] == 30 for r in found.of_type("aws:kms/key:Key"))


@pytest.mark.parametrize("environment", PASSING)
def test_what_is_for_trying_leaves_nothing_behind(environment: str) -> None:
    found = layer(f"{environment}-cluster")
    assert all(r.inputs["forceDestroy"] and not r.protect for r in found.of_type("aws:s3/bucket:Bucket"))


@pytest.mark.parametrize("environment", ("dev", "prod", "sandbox", "staging"))
def test_spot_serves_batch_only(environment: str) -> None:
    for r in layer(f"{environment}-cluster").of_type("aws:eks/nodeGroup:NodeGroup"):
        if r.inputs["capacityType"] == "SPOT":
            assert r.inputs["labels"]["platform.io/class"] == "batch"


def test_no_two_environments_share_an_address() -> None:
    ranges = [layer(f"{name}-cluster").one("aws:ec2/vpc:Vpc").inputs["cidrBlock"] for name in ("dev", "prod", "sandbox", "staging")]
    assert len(set(ranges)) == len(ranges), "they could never be connected"


def test_environments_of_one_kind_have_the_same_shape_of_platform() -> None:
    def kinds(environment: str) -> list[str]:
        return sorted({r.type for r in layer(f"{environment}-platform").registrations})

    assert kinds("staging") == kinds("prod")
