"""Buckets that the S3 gateway endpoint of a region must let image layers come from. Pure.

A registry answers a request for a layer with the address of a bucket that it owns. A gateway endpoint carries what
goes to buckets of its own region and nothing else: those must stand in its policy, and all others leave through NAT.
Sources: ECR's bucket from the ECR user guide, "Create the Amazon S3 gateway endpoint"; registry.k8s.io's from
kubernetes/registry.k8s.io, `cmd/archeio/internal/app/buckets.go`, read 2026-08. quay.io sends clients inside AWS to its
bucket (quay/quay, `storage/cloud.py`, CloudFrontedS3Storage; its name: OpenShift documentation, "Configuring your
firewall"), and Docker Hub to one that machines in us-east-1 have seen: `docker-images-prod.s3.dualstack.us-east-1`. That
both have their only bucket there is assumed; where the layers of other registries come from, no source states.
"""

KUBERNETES_REGIONS = frozenset(
    (
        "af-south-1",
        "ap-east-1",
        "ap-northeast-1",
        "ap-northeast-2",
        "ap-northeast-3",
        "ap-south-1",
        "ap-south-2",
        "ap-southeast-1",
        "ap-southeast-2",
        "ap-southeast-3",
        "ap-southeast-4",
        "ap-southeast-5",
        "ap-southeast-6",
        "ap-southeast-7",
        "ca-central-1",
        "ca-west-1",
        "eu-central-1",
        "eu-central-2",
        "eu-north-1",
        "eu-south-1",
        "eu-south-2",
        "eu-west-1",
        "eu-west-2",
        "eu-west-3",
        "il-central-1",
        "me-central-1",
        "mx-central-1",
        "sa-east-1",
        "us-east-1",
        "us-east-2",
        "us-west-1",
        "us-west-2",
    )
)
"""Regions where registry.k8s.io has a bucket. It sends nodes of other regions to a bucket elsewhere (me-south-1 to
me-central-1) or to CloudFront.
"""

_ODD = {"eu-west-2": "767373bbdcb8270361b96548387bf2a9ad0d48758c35-eu-west-2"}
"""Somebody else has the name that the others' rule would give."""


_OTHERS = {"us-east-1": ("docker-images-prod", "quayio-production-s3")}
"""Of Docker Hub and quay.io, by region."""


def buckets(region: str) -> tuple[str, ...]:
    """Names of the buckets in `region` from which ECR and public registries serve its nodes."""
    registry = (_ODD.get(region, f"prod-registry-k8s-io-{region}"),) if region in KUBERNETES_REGIONS else ()
    return (f"prod-{region}-starport-layer-bucket", *registry, *_OTHERS.get(region, ()))
