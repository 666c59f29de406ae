"""An image that no rendered way leads nodes to is found, whatever this machine can pull."""

from pathlib import Path
from typing import Any

import pytest

from components.mirror import listing
from headway.capacity.described import Described, described
from headway.doctor.check import CheckState, DoctorResult
from headway.doctor.image_ways import host_of, judge_ways
from headway.problem import ProblemLevel

ROOT = Path(__file__).parents[3]
OWN = "123456789012.dkr.ecr.us-west-2.amazonaws.com/headway/images/grafana:13.2.0"
ABROAD = OWN.replace("us-west-2", "eu-west-1")
NVIDIA, KUBERNETES = "nvcr.io/nvidia/k8s-device-plugin:v1", "registry.k8s.io/pause:3.10"
ENDPOINTS = ("ecr.api", "ecr.dkr", "s3", "sts")


def layer(**changes: Any) -> Described:
    return described(ROOT, "prod-cluster")[1].model_copy(update={"nat": "none", "endpoints": ENDPOINTS, **changes})


def found(*images: str, **changes: Any) -> DoctorResult:
    return judge_ways(images, layer(**changes), {})


def test_without_nat_only_the_regions_ecr_is_reached() -> None:
    assert found(OWN).state is CheckState.OK
    facts = {problem.subject: problem.fact for problem in found(OWN, ABROAD, NVIDIA, KUBERNETES).problems}
    assert facts.keys() == {ABROAD, NVIDIA, KUBERNETES}
    assert facts[NVIDIA] == f"Nodes have no way to {NVIDIA}: there is no NAT, and nvcr.io is no ECR registry of us-west-2"


@pytest.mark.parametrize("endpoint", ["ecr.api", "ecr.dkr", "s3"])
def test_without_nat_and_one_of_ecrs_endpoints_nothing_is_reached(endpoint: str) -> None:
    (problem,) = found(OWN, endpoints=tuple(name for name in ENDPOINTS if name != endpoint)).problems
    assert problem.blocking and problem.remedy == f"Add {endpoint} to network.endpoints"


def test_whose_model_it_is_stands_beside_an_image_that_is_not_reached() -> None:
    (problem,) = judge_ways([NVIDIA], layer(), {NVIDIA: "vision/defects"}).problems
    assert problem.subject == "vision/defects" and problem.blocking


@pytest.mark.parametrize("nat", ["single", "per-zone", "regional"])
def test_through_nat_every_registry_is_reached(nat: str) -> None:
    assert found(OWN, ABROAD, NVIDIA, KUBERNETES, nat=nat).state is CheckState.OK


def test_pulls_from_docker_hub_without_a_login_are_warned_of() -> None:
    problems = found("docker.io/grafana/grafana:13.2.0", "busybox", NVIDIA, nat="per-zone", endpoints=()).problems
    assert [problem.fact for problem in problems] == ["Nodes pull 2 of 3 images from Docker Hub without a login"]
    assert problems[0].level is ProblemLevel.WARNING and "headway mirror --push" in problems[0].remedy


def test_what_the_platform_installs_from_its_sources_is_not_reached_without_nat() -> None:
    images = [str(image["image"]) for image in listing()["images"]]
    assert {problem.subject for problem in found(*images).problems} == set(images)


@pytest.mark.parametrize(
    ("image", "host"),
    [
        ("busybox", "docker.io"),
        ("library/busybox:1", "docker.io"),
        ("registry-1.docker.io/istio/pilot:1", "docker.io"),
        ("localhost/it", "localhost"),
        ("registry.test:5000/it@sha256:0", "registry.test:5000"),
        (OWN, "123456789012.dkr.ecr.us-west-2.amazonaws.com"),
    ],
)
def test_an_image_without_a_host_is_docker_hubs(image: str, host: str) -> None:
    assert host_of(image) == host
