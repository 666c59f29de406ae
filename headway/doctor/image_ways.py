"""Whether nodes will reach the registries: through NAT, or through the endpoints to the region's ECR. Pure.

This machine has other ways out than they have, so that it can pull an image says nothing. Which buckets of registries the S3
endpoint admits says `components/network/image_layers.py`.
"""

from collections.abc import Iterator, Mapping, Sequence

from headway.capacity.described import Described
from headway.contract.crosscheck.image import reached_without_nat
from headway.doctor.check import DoctorResult, judged
from headway.problem import Problem, ProblemLevel

WAYS = "image-ways"
ECR_ENDPOINTS = frozenset({"ecr.api", "ecr.dkr", "s3"})
"""What a pull from ECR passes (ECR user guide, "Interface VPC endpoints"): API, registry, layers."""
DOCKER_HUB = "docker.io"


def judge_ways(images: Sequence[str], layer: Described, contracts: Mapping[str, str]) -> DoctorResult:
    """`images`: every address from which nodes will pull; `contracts`: who serves from an image, as tenant/model, by image."""
    problems = [*_stranded(images, layer, contracts), *(() if layer.nat == "none" else _through_nat(images))]
    way = "ECR's endpoints" if layer.nat == "none" else "NAT"
    return judged(WAYS, f"Nodes reach the registries of all {len(images)} images through {way}.", problems)


def host_of(image: str) -> str:
    """Its registry; one whose first part is no host's name is Docker Hub's (distribution/reference, "Normalization")."""
    first = image.partition("/")[0]
    host = first if "/" in image and ("." in first or ":" in first or first == "localhost") else DOCKER_HUB
    return DOCKER_HUB if host in ("index.docker.io", "registry-1.docker.io") else host


def _stranded(images: Sequence[str], layer: Described, contracts: Mapping[str, str]) -> Iterator[Problem]:
    lacking = sorted(ECR_ENDPOINTS - set(layer.endpoints))
    for image in images if layer.nat == "none" else ():
        near = reached_without_nat(image, layer.region)
        if near and not lacking:
            continue
        why = f"the network has no endpoint {', '.join(lacking)}" if near else f"{host_of(image)} is no ECR registry of {layer.region}"
        yield Problem(
            rule=WAYS,
            subject=contracts.get(image, image),
            path=("network", "nat"),
            value=layer.nat,
            fact=f"Nodes have no way to {image}: there is no NAT, and {why}",
            consequence="Its pods never start, although this machine may well pull it",
            remedy=f"Add {', '.join(lacking)} to network.endpoints"
            if near
            else f"Copy it to <account>.dkr.ecr.{layer.region}.amazonaws.com and name it there: headway:registry.mirror, or the contract",
        )


def _through_nat(images: Sequence[str]) -> Iterator[Problem]:
    if hub := [host_of(image) for image in images].count(DOCKER_HUB):
        yield Problem(
            rule=WAYS,
            fact=f"Nodes pull {hub} of {len(images)} images from Docker Hub without a login",
            consequence="It gives an address 100 of them in six hours, and all nodes behind one NAT gateway are one address: new nodes wait then "
            '(Docker documentation, "Docker Hub usage and limits")',
            remedy="Fill a registry of your own and name it in headway:registry.mirror: `headway mirror --push REGISTRY/PREFIX`",
            level=ProblemLevel.WARNING,
        )
