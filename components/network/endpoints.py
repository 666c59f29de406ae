"""VPC endpoints: which AWS services are reached without leaving the VPC, and for whom. Pure.

Every policy admits this account's principals and resources only, so that an endpoint is no way to carry data out to
someone else's bucket, and of each service no more than the platform asks of it. The traps: image layers come from
buckets that registries own, a web-identity token is presented by a caller who is no principal yet, and whoever
deploys from inside the VPC passes the same endpoints.
"""

from collections.abc import Mapping, Sequence

from components.identity import Binding
from components.network.image_layers import buckets
from components.permissions import Statement

_REGISTRY = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:BatchImportUpstreamImage",
    "ecr:CompleteLayerUpload",
    "ecr:CreateRepository",
    "ecr:DescribeImages",
    "ecr:DescribeRepositories",
    "ecr:GetAuthorizationToken",
    "ecr:GetDownloadUrlForLayer",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
)
ACTIONS: Mapping[str, tuple[str, ...]] = {
    "autoscaling": ("autoscaling:Describe*", "autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"),
    "ec2": (
        "ec2:AssignPrivateIpAddresses",
        "ec2:AttachNetworkInterface",
        "ec2:AttachVolume",
        "ec2:AuthorizeSecurityGroupIngress",
        "ec2:CopyVolumes",
        "ec2:CreateNetworkInterface",
        "ec2:CreateSecurityGroup",
        "ec2:CreateSnapshot",
        "ec2:CreateTags",
        "ec2:CreateVolume",
        "ec2:DeleteNetworkInterface",
        "ec2:DeleteSecurityGroup",
        "ec2:DeleteSnapshot",
        "ec2:DeleteTags",
        "ec2:DeleteVolume",
        "ec2:Describe*",
        "ec2:DetachNetworkInterface",
        "ec2:DetachVolume",
        "ec2:EnableFastSnapshotRestores",
        "ec2:GetInstanceTypesFromInstanceRequirements",
        "ec2:GetSecurityGroupsForVpc",
        "ec2:LockSnapshot",
        "ec2:ModifyNetworkInterfaceAttribute",
        "ec2:ModifyVolume",
        "ec2:RevokeSecurityGroupIngress",
        "ec2:UnassignPrivateIpAddresses",
    ),
    "ecr.api": _REGISTRY,
    "ecr.dkr": _REGISTRY,
    "eks": ("eks:DescribeCluster", "eks:DescribeNodegroup"),
    "eks-auth": ("eks-auth:AssumeRoleForPodIdentity",),
    "elasticloadbalancing": (
        "elasticloadbalancing:Add*",
        "elasticloadbalancing:Create*",
        "elasticloadbalancing:Delete*",
        "elasticloadbalancing:Deregister*",
        "elasticloadbalancing:Describe*",
        "elasticloadbalancing:Modify*",
        "elasticloadbalancing:Register*",
        "elasticloadbalancing:Remove*",
        "elasticloadbalancing:Set*",
    ),
    "kms": (
        "kms:CreateGrant",
        "kms:Decrypt",
        "kms:DescribeKey",
        "kms:Encrypt",
        "kms:GenerateDataKey*",
        "kms:ListGrants",
        "kms:ReEncrypt*",
        "kms:RevokeGrant",
    ),
    "logs": ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:Describe*", "logs:PutLogEvents"),
    "s3": (
        "s3:AbortMultipartUpload",
        "s3:DeleteObject",
        "s3:GetBucketLocation",
        "s3:GetObject",
        "s3:GetObjectTagging",
        "s3:GetObjectVersion",
        "s3:ListBucket",
        "s3:ListBucketMultipartUploads",
        "s3:ListBucketVersions",
        "s3:ListMultipartUploadParts",
        "s3:PutObject",
        "s3:PutObjectRetention",
        "s3:PutObjectTagging",
    ),
    "secretsmanager": ("secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue"),
    "ssm": ("ssm:GetParameter", "ssm:GetParametersByPath", "ssm:PutParameter"),
    "sqs": (
        "sqs:ChangeMessageVisibility",
        "sqs:DeleteMessage",
        "sqs:GetQueueAttributes",
        "sqs:GetQueueUrl",
        "sqs:ReceiveMessage",
        "sqs:SendMessage",
    ),
    "sts": ("sts:AssumeRole", "sts:GetCallerIdentity", "sts:TagSession"),
}
"""Services by endpoint name, with what nodes, controllers and workloads ask of them."""

_WITHOUT_NAT = frozenset({"autoscaling", "ec2", "ecr.api", "ecr.dkr", "eks", "elasticloadbalancing", "kms", "logs", "s3", "sts"})

_NARROWED = "An endpoint policy narrows whose credentials pass; what they may do with which resource is said by their own policies"
_DEPLOYING = "Whoever deploys these layers may do so from inside the VPC; what they may do is said by their own policies"


def without_nat(binding: Binding) -> frozenset[str]:
    """What nodes and controllers need when there is no other way out of the VPC: pods' credentials come from STS, or
    by the node's agent from EKS.
    """
    return _WITHOUT_NAT | ({"eks-auth"} if binding is Binding.POD_IDENTITY else frozenset())


def statements(service: str, account_id: str, region: str, deployers: Sequence[str], *, nat: bool) -> tuple[Statement, ...]:
    """The endpoint policy of `service`; `deployers` are ARNs of who deploys the layers, or patterns of them; `nat`: whether there is a way to
    the internet beside the endpoints. Raises KeyError for a service that is not in ACTIONS.
    """
    found = [_own(service, account_id), *([_deploying(service, deployers)] if deployers else [])]
    if service == "s3":
        layers = [f"arn:aws:s3:::{bucket}/*" for bucket in buckets(region, nat=nat)]
        found.append(Statement(sid="ImageLayers", principal="*", actions=["s3:GetObject"], resources=layers))
    if service == "sts":
        roles = f"arn:aws:iam::{account_id}:role/*"
        found.append(Statement(sid="WebIdentity", principal="*", actions=["sts:AssumeRoleWithWebIdentity"], resources=[roles]))
    return tuple(found)


def _own(service: str, account_id: str) -> Statement:
    if service == "s3":
        return Statement(
            sid="OwnBuckets",
            principal="*",
            actions=ACTIONS["s3"],
            resources=["*"],
            conditions={"StringEquals": {"aws:ResourceAccount": account_id}},
            reason="Bound to the buckets of this account by the condition",
        )
    return Statement(
        sid="OwnPrincipals",
        principal="*",
        actions=ACTIONS[service],
        resources=["*"],
        conditions={"StringEquals": {"aws:PrincipalAccount": account_id}},
        reason=_NARROWED,
    )


def _deploying(service: str, deployers: Sequence[str]) -> Statement:
    (prefix,) = {action.partition(":")[0] for action in ACTIONS[service]}
    return Statement(
        sid="Deployers",
        principal="*",
        actions=[f"{prefix}:*"],
        resources=["*"],
        conditions={"ArnLike": {"aws:PrincipalArn": sorted(deployers)}},
        reason=_DEPLOYING,
    )
