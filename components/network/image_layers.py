"""Buckets that the S3 gateway endpoint of a region must let image layers come from. Pure.

A registry answers a request for a layer with the address of a bucket that it owns. A gateway endpoint carries what
goes to buckets of its own region and nothing else: those must stand in its policy, and all others leave through NAT.
Sources: ECR's bucket from the ECR user guide, "Create the Amazon S3 gateway endpoint"; registry.k8s.io's from
kubernetes/registry.k8s.io, `cmd/archeio/internal/app/buckets.go`, read 2026-08. quay.io sends clients inside AWS to its
bucket (quay/quay, `storage/cloud.py`, CloudFrontedS3Storage; its name: OpenShift documentation, "Configuring your
firewall"), which is assumed to be its only one. Where the layers of other registries come from, no source states.
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


_QUAY = {"us-east-1": ("quayio-production-s3",)}

_DOCKER_HUB = ("docker-images-prod*",)
"""Docker Hub sends nodes to Cloudflare or to this bucket, and an endpoint that does not admit it answers 403 (moby/moby#34185,
docker/hub-feedback#1318, aws-samples/aws-blockchain-node-runners#3). Its region no source states; JFrog ("What should we whitelist ... behind
firewalls") tells of one in each, whose names begin so. Where NAT leads everywhere, the pattern opens nothing.
"""


def buckets(region: str, *, nat: bool) -> tuple[str, ...]:
    """Names of the buckets in `region`, or patterns of them, from which ECR and public registries serve its nodes. Docker Hub itself is reached
    through NAT only, so without it no bucket of its name is admitted."""
    registry = (_ODD.get(region, f"prod-registry-k8s-io-{region}"),) if region in KUBERNETES_REGIONS else ()
    return (f"prod-{region}-starport-layer-bucket", *registry, *_QUAY.get(region, ()), *(_DOCKER_HUB if nat else ()))
