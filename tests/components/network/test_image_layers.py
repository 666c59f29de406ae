"""Every image that the platform pulls gets its layers through the S3 endpoint where it must, and nothing else does."""

from fnmatch import fnmatchcase

import pytest

from components.mirror import listing
from components.network.endpoints import statements
from components.network.image_layers import KUBERNETES_REGIONS

ACCOUNT, REGISTRYS_ACCOUNT = "123456789012", "999999999999"
IMAGES = tuple(str(image["image"]) for image in listing()["images"])

KUBERNETES_BUCKETS = {
    "eu-west-1": "prod-registry-k8s-io-eu-west-1",
    "eu-west-2": "767373bbdcb8270361b96548387bf2a9ad0d48758c35-eu-west-2",
    "us-east-1": "prod-registry-k8s-io-us-east-1",
    "us-west-2": "prod-registry-k8s-io-us-west-2",
}
"""As kubernetes/registry.k8s.io says in `cmd/archeio/internal/app/buckets.go`."""
QUAYS_BUCKET = "quayio-production-s3"
"""To which quay.io sends clients inside AWS, as quay/quay says in `storage/cloud.py`; in us-east-1."""
NO_BUCKET_KNOWN = {"ghcr.io", "nvcr.io", "public.ecr.aws"}
"""Registries that no source places in a bucket of the node's region."""


def passes(region: str, action: str, bucket: str, owner: str, *, nat: bool = True) -> bool:
    """Whether the endpoint's policy lets an anonymous request through, as IAM would: any statement that fits in every part."""
    for statement in statements("s3", ACCOUNT, region, ("arn:aws:iam::123456789012:role/deploy",), nat=nat):
        asked = {"aws:ResourceAccount": owner}
        wanted = [(key, value) for test in statement.conditions.values() for key, value in test.items()]
        if (
            any(fnmatchcase(action, pattern) for pattern in statement.actions)
            and any(fnmatchcase(f"arn:aws:s3:::{bucket}/containers/images/sha256:0", str(pattern)) for pattern in statement.resources)
            and all(asked.get(key) == value for key, value in wanted)
        ):
            return True
    return False


@pytest.mark.parametrize("region", sorted(KUBERNETES_BUCKETS))
@pytest.mark.parametrize("image", [image for image in IMAGES if image.startswith("registry.k8s.io/")])
def test_layers_of_each_kubernetes_image_pass_the_endpoint(image: str, region: str) -> None:
    assert passes(region, "s3:GetObject", KUBERNETES_BUCKETS[region], REGISTRYS_ACCOUNT), f"{image} could not be pulled"


def test_each_registry_that_is_pulled_from_was_looked_up() -> None:
    assert {image.partition("/")[0] for image in IMAGES} <= NO_BUCKET_KNOWN | {"docker.io", "quay.io", "registry.k8s.io"}


def test_layers_from_quays_bucket_in_virginia_pass_the_endpoint_there_alone() -> None:
    assert passes("us-east-1", "s3:GetObject", QUAYS_BUCKET, REGISTRYS_ACCOUNT)
    assert not passes("us-east-1", "s3:PutObject", QUAYS_BUCKET, REGISTRYS_ACCOUNT)
    assert not passes("us-west-2", "s3:GetObject", QUAYS_BUCKET, REGISTRYS_ACCOUNT), "what is not of the region leaves through NAT"


@pytest.mark.parametrize("bucket", ["docker-images-prod", "docker-images-prod-us-west-2"])
@pytest.mark.parametrize("region", ["us-east-1", "us-west-2"])
def test_layers_of_docker_hub_pass_in_every_region_where_nat_leads_to_it(region: str, bucket: str) -> None:
    assert passes(region, "s3:GetObject", bucket, REGISTRYS_ACCOUNT)
    assert not passes(region, "s3:PutObject", bucket, REGISTRYS_ACCOUNT)
    assert not passes(region, "s3:GetObject", bucket, REGISTRYS_ACCOUNT, nat=False), "the endpoint would be a way out, for nothing"


@pytest.mark.parametrize("region", sorted(KUBERNETES_BUCKETS))
def test_layers_from_our_own_registry_pass_the_endpoint(region: str) -> None:
    assert passes(region, "s3:GetObject", f"prod-{region}-starport-layer-bucket", REGISTRYS_ACCOUNT)


@pytest.mark.parametrize("bucket", [*KUBERNETES_BUCKETS.values(), "prod-eu-west-1-starport-layer-bucket"])
def test_nothing_is_written_to_a_registrys_bucket(bucket: str) -> None:
    assert not passes("eu-west-1", "s3:PutObject", bucket, REGISTRYS_ACCOUNT)


@pytest.mark.parametrize("bucket", ["prod-registry-k8s-io-us-east-1", "prod-registry-k8s-io-eu-west-2", "somebody-elses"])
def test_no_other_bucket_passes_the_endpoint(bucket: str) -> None:
    assert not passes("eu-west-2", "s3:GetObject", bucket, REGISTRYS_ACCOUNT)
    assert passes("eu-west-2", "s3:GetObject", "ours", ACCOUNT)


@pytest.mark.parametrize("region", ["ap-east-2", "me-south-1"])
def test_a_region_served_from_elsewhere_has_no_bucket_to_admit(region: str) -> None:
    assert region not in KUBERNETES_REGIONS
    assert not passes(region, "s3:GetObject", f"prod-registry-k8s-io-{region}", REGISTRYS_ACCOUNT)
