"""The boundaries of the environment's roles: the most that one can do, whatever is attached to it one day. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from components.access.actions import actions_of
from components.access.duty import EKS_ROLE, ENVIRONMENT_TAG, WORKLOADS, Duty
from components.access.permissions import ATTACHES, BOUND, NOT_OURS, PASSED_TO, PAST_LOCKS, PUSH
from components.permissions import Statement


def workloads_boundary(duty: Duty) -> tuple[Statement, ...]:
    """The most that a role which a deployer makes can do, whatever is attached to it: no identities, no state."""
    here = {"StringEquals": {"aws:RequestedRegion": duty.region}}
    used = [
        "autoscaling:*",
        "cloudwatch:*",
        "ec2:*",
        "ecr:*",
        "eks:Describe*",
        "eks:List*",
        "eks-auth:AssumeRoleForPodIdentity",
        "elasticloadbalancing:*",
        "kms:*",
        "logs:*",
        "s3:*",
        "sqs:*",
        "ssm:GetParameter*",
        "tag:GetResources",
    ]
    verbs = ("Complete", "Create", "Describe", "Get", "List", "Put", "Set", "Terminate", "Update")
    return (
        Statement(
            sid="Work",
            actions=[each for use in used for each in _spelt(use, verbs)],
            resources=["*"],
            conditions=here,
            reason="A boundary gives nothing; the role's own policies name resources",
        ),
        Statement(
            sid="Witness", actions=["ssm:PutParameter"], resources=[f"{duty.witness}/*/{beside}.*" for beside in ("drift", "evaluation")]
        ),
        # Services without regions: who asks them asks us-east-1.
        Statement(
            sid="Names",
            actions=[
                "route53:ChangeResourceRecordSets",
                "route53:GetChange",
                "route53:ListHostedZonesByName",
                "route53:ListResourceRecordSets",
            ],
            resources=["arn:aws:route53:::change/*", "arn:aws:route53:::hostedzone/*"],
        ),
        Statement(sid="Balancers", actions=["iam:CreateServiceLinkedRole"], resources=[_balancers(duty)]),
        Statement(sid="NoIdentities", effect="Deny", actions=["organizations:*", "sts:AssumeRole"], resources=["*"]),
        Statement(
            sid="NoState",
            effect="Deny",
            actions=["s3:*"],
            resources=[f"arn:aws:s3:::{duty.state_bucket}", f"arn:aws:s3:::{duty.state_bucket}/*"],
        ),
    )


def _balancers(duty: Duty) -> str:
    return f"arn:aws:iam::{duty.account_id}:role/aws-service-role/elasticloadbalancing.amazonaws.com/*"


_MORE: Mapping[str, tuple[str, ...]] = {
    "ec2": ("Assign", "Attach", "Authorize", "Delete", "Detach", "Modify", "Revoke", "Unassign"),
    "ecr": ("Batch",),
    "elasticloadbalancing": ("Add", "Delete", "Deregister", "Modify", "Register", "Remove"),
    "kms": ("Decrypt", "Encrypt", "Generate", "ReEncrypt", "Revoke"),
    "s3": ("Abort", "Delete"),
    "sqs": ("Change", "Delete", "Receive", "Send"),
}


def _spelt(use: str, verbs: Sequence[str]) -> list[str]:
    """`s3:*` by the verbs of the service: no policy names everything of one."""
    service, _, name = use.partition(":")
    return [use] if name != "*" else [f"{service}:{verb}*" for verb in (*verbs, *_MORE.get(service, ()))]


def people_boundary(duty: Duty, kinds: Sequence[str] = ("cluster", "platform", "tenant")) -> tuple[Statement, ...]:
    """The most that a deployer, a runner or a viewer can do, whatever is attached to it one day.

    Roles that it makes or changes are the environment's workloads', bear their boundary and keep it; it makes no users,
    no keys, no policies and no other identity provider, and becomes nobody else.
    """
    verbs: dict[str, set[str]] = defaultdict(set)
    for action in sorted({each for kind in kinds for each in actions_of(kind)} | _BESIDE):
        service, _, name = action.partition(":")
        if action not in (*BOUND, *ATTACHES, "iam:PassRole"):
            verbs[service].add(name if action.startswith("iam:Create") else f"{_verb(name)}*")
    if duty.disposable:
        verbs["s3"].add(PAST_LOCKS.removeprefix("s3:"))
    roles = [
        f"arn:aws:iam::{duty.account_id}:role/{duty.cluster}-*",
        f"arn:aws:iam::{duty.account_id}:role/{EKS_ROLE}-*",
    ]
    linked, tag = f"arn:aws:iam::{duty.account_id}:role/aws-service-role/*", f"aws:ResourceTag/{ENVIRONMENT_TAG}"
    oidc = f"arn:aws:iam::{duty.account_id}:oidc-provider/oidc.eks.{duty.region}.amazonaws.com/*"
    return (
        Statement(
            sid="Deploy",
            actions=[f"{service}:{verb}" for service, found in sorted(verbs.items()) for verb in sorted(found)],
            resources=["*"],
            conditions={"StringEqualsIfExists": {"aws:ResourceAccount": duty.account_id}},
            reason="A boundary gives nothing; the role's own policies name resources",
        ),
        *(
            Statement(sid=f"NotOurs{number}", actions=[action], resources=resources)
            for number, (action, resources) in enumerate(sorted(NOT_OURS.items()), start=1)
        ),
        Statement(
            sid="MakeRoles",
            actions=[*sorted(BOUND), *sorted(ATTACHES)],
            resources=roles,
            conditions={"StringEquals": {"iam:PermissionsBoundary": duty.policy_arn(WORKLOADS)}},
        ),
        Statement(
            sid="PassRoles",
            actions=["iam:PassRole"],
            resources=roles,
            conditions={"StringEquals": {"iam:PassedToService": list(PASSED_TO["cluster"])}},
        ),
        Statement(sid="OwnRolesOnly", effect="Deny", actions=_ROLE_WRITES, all_resources_but=[*roles, linked]),
        # Its name, which `pulumi_eks` makes up, does not say which environment's it is; a role that is being made has no tag yet.
        Statement(
            sid="OwnControlPlaneOnly",
            effect="Deny",
            actions=_ROLE_WRITES,
            resources=roles[1:],
            conditions={"StringNotEquals": {tag: duty.environment}, "Null": {tag: "false"}},
        ),
        Statement(
            sid="BoundedRolesOnly",
            effect="Deny",
            actions=[*sorted(BOUND), *sorted(ATTACHES)],
            resources=["*"],
            conditions={"StringNotEquals": {"iam:PermissionsBoundary": duty.policy_arn(WORKLOADS)}},
        ),
        Statement(sid="NoOtherIssuer", effect="Deny", actions=["iam:*OpenIDConnectProvider*"], all_resources_but=[oidc]),
        Statement(sid="NoIdentities", effect="Deny", actions=_NEVER, resources=["*"]),
    )


_BESIDE = PUSH | frozenset(
    {"ecr:GetAuthorizationToken", "kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey", "s3:AbortMultipartUpload", "ssm:GetParametersByPath"}
)
_ROLE_WRITES = [
    "iam:AttachRolePolicy",
    "iam:CreateRole",
    "iam:DeleteRole",
    "iam:DeleteRolePolicy",
    "iam:DetachRolePolicy",
    "iam:PassRole",
    "iam:PutRole*",
    "iam:TagRole",
    "iam:UntagRole",
    "iam:UpdateAssumeRolePolicy",
    "iam:UpdateRole*",
]
_NEVER = [
    "iam:*AccessKey*",
    "iam:*Group*",
    "iam:*LoginProfile*",
    "iam:*SAML*",
    "iam:*User*",
    "iam:CreatePolicy*",
    "iam:DeletePolicy*",
    "iam:DeleteRolePermissionsBoundary",
    "iam:SetDefaultPolicyVersion",
    "organizations:*",
    "sts:AssumeRole",
]


def _verb(name: str) -> str:
    """`Create` of `CreateVpc`: the first word."""
    end = next((n for n, letter in enumerate(name) if n and letter.isupper()), len(name))
    return name[:end]
