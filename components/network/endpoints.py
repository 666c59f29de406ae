"""VPC endpoints: which AWS services are reached without leaving the VPC, and for whom. Pure.

Every policy admits this account's principals and resources only, so that an endpoint is no way to carry data out to someone else's bucket.
The traps: image layers come from a bucket that AWS owns, and a web-identity token is presented by a caller who is no principal yet.
"""

from collections.abc import Mapping

from components.permissions import Statement

GATEWAY = frozenset({"s3"})
"""Endpoints that are routes, free of charge; all others are network interfaces, paid per zone and hour."""

ACTIONS: Mapping[str, tuple[str, ...]] = {
    "autoscaling": ("autoscaling:*",),
    "ec2": ("ec2:*",),
    "ecr.api": ("ecr:*",),
    "ecr.dkr": ("ecr:*",),
    "eks": ("eks:*",),
    "eks-auth": ("eks-auth:*",),
    "elasticloadbalancing": ("elasticloadbalancing:*",),
    "kms": ("kms:*",),
    "logs": ("logs:*",),
    "s3": (
        "s3:AbortMultipartUpload",
        "s3:DeleteObject",
        "s3:GetBucketLocation",
        "s3:GetObject",
        "s3:GetObjectVersion",
        "s3:ListBucket",
        "s3:ListMultipartUploadParts",
        "s3:PutObject",
    ),
    "secretsmanager": ("secretsmanager:*",),
    "sqs": ("sqs:*",),
    "sts": ("sts:*",),
}
"""Services by endpoint name, with what may be asked of them through it."""

WITHOUT_NAT = frozenset({"autoscaling", "ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "elasticloadbalancing", "kms", "logs", "s3", "sts"})
"""What nodes and controllers need when there is no other way out of the VPC."""

_WIDE = "An endpoint policy narrows whose credentials pass, not what they may do: their own policies say that"


def statements(service: str, account_id: str, region: str) -> tuple[Statement, ...]:
    """The endpoint policy of `service`. Raises KeyError for one that is not in ACTIONS."""
    if service == "s3":
        return (
            Statement(
                sid="OwnBuckets",
                principal="*",
                actions=ACTIONS["s3"],
                resources=["*"],
                conditions={"StringEquals": {"aws:ResourceAccount": account_id}},
                reason="Bound to the buckets of this account by the condition",
            ),
            Statement(
                sid="ImageLayers",
                principal="*",
                actions=["s3:GetObject"],
                resources=[f"arn:aws:s3:::prod-{region}-starport-layer-bucket/*"],
            ),
        )
    own = Statement(
        sid="OwnPrincipals",
        principal="*",
        actions=ACTIONS[service],
        resources=["*"],
        conditions={"StringEquals": {"aws:PrincipalAccount": account_id}},
        reason=_WIDE,
    )
    if service != "sts":
        return (own,)
    web_identity = Statement(
        sid="WebIdentity",
        principal="*",
        actions=["sts:AssumeRoleWithWebIdentity"],
        resources=[f"arn:aws:iam::{account_id}:role/*"],
    )
    return (own, web_identity)
