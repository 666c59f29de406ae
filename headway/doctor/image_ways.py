"""Whether nodes will reach the registries: through NAT, or through the endpoints to the region's ECR. Pure.

This machine has other ways out than they have, so that it can pull an image says nothing. The trap: a gateway endpoint of S3
takes what goes to buckets of the region off NAT, and its policy admits those of registries that are known
(`components/network/image_layers.py`).
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
KNOWN = "us-east-1"
"""Where the bucket of Docker Hub is known, and admitted. It may have more: JFrog ("What should we whitelist ... behind firewalls") says
that nodes are sent to a bucket `docker-images-prod*` in their own region, whose name no source states."""


def judge_ways(images: Sequence[str], layer: Described, contracts: Mapping[str, str]) -> DoctorResult:
    """`images`: every address from which nodes will pull; `contracts`: who serves from an image, as tenant/model, by image."""
    problems = [*_stranded(images, layer, contracts), *(() if layer.nat == "none" else _through_nat(images, layer))]
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


def _through_nat(images: Sequence[str], layer: Described) -> Iterator[Problem]:
    hosts = [host_of(image) for image in images]
    if hub := hosts.count(DOCKER_HUB):
        yield _warning(
            f"Nodes pull {hub} of {len(images)} images from Docker Hub without a login",
            "It gives an address 100 of them in six hours, and all nodes behind one NAT gateway are one address: new nodes wait then "
            '(Docker documentation, "Docker Hub usage and limits")',
        )
    if hub and "s3" in layer.endpoints and layer.region != KNOWN:
        yield _warning(
            f"Docker Hub may send nodes to a bucket in {layer.region}, which the endpoint s3 takes off NAT and does not admit",
            "Then layers are answered by 403 and no pod of these images starts; nobody has tried it on AWS",
        )


def _warning(fact: str, consequence: str) -> Problem:
    remedy = "Fill a registry of your own and name it in headway:registry.mirror: `headway mirror --push REGISTRY/PREFIX`"
    return Problem(rule=WAYS, fact=fact, consequence=consequence, remedy=remedy, level=ProblemLevel.WARNING)
