"""What an environment's network lets nodes pull: without NAT, images of ECR in its own region and no others."""

from collections.abc import Iterator

from headway.contract.model import Model
from headway.problem import Problem, problem


def reached_without_nat(image: str, region: str) -> bool:
    """Whether the ECR endpoints of a network in `region` lead to the registry of `image`. They answer for every account's registry of
    that region (ECR user guide, "Interface VPC endpoints": `<account>.dkr.ecr.<region>.amazonaws.com`).
    """
    return image.partition("/")[0].endswith(f".dkr.ecr.{region}.amazonaws.com")


def without_nat(model: Model, region: str) -> Iterator[Problem]:
    image = model.runtime.image
    if not reached_without_nat(image, region):
        host, _, path = image.partition("/")
        yield problem(
            "image-reached-without-nat",
            "runtime",
            "image",
            value=image,
            fact=f"the environment has no NAT, and {host} is no ECR registry of {region}",
            consequence="No node could pull the image, and every replica would wait for it until the release fails",
            remedy=f"Copy it by its digest to <account>.dkr.ecr.{region}.amazonaws.com/{path.partition('@')[0].partition(':')[0]} and name it "
            "there, or choose another network.nat",
        )
