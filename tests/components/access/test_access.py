"""Who may what: every policy is asked, as IAM would be, with what the duty needs and with what it must never do."""

import json
import re
from dataclasses import replace

import pytest

from components.access.actions import ACTIONS, OF_LAYER, actions_of
from components.access.boundaries import people_boundary, workloads_boundary
from components.access.duty import EKS_ROLE, WORKLOADS, Duty, Role
from components.access.permissions import POLICY_LIMIT, TRUST_LIMIT, documents
from components.access.trust import people_trust
from components.identity import Binding
from components.labels import tags
from components.permissions import Statement
from components.tenant.queues import queue_name
from headway.ledger.witness import named
from tests.components.program import LAYER_STACKS, layer
from tests.iam_evaluator import Request, allowed

ACCOUNT, STATE = "333333333333", "acme-state"
TAG = {"aws:ResourceTag/platform.io/environment": "prod", "aws:ResourceAccount": ACCOUNT}
OTHER = {"aws:ResourceTag/platform.io/environment": "staging", "aws:ResourceAccount": ACCOUNT}
UNMARKED = {"aws:ResourceAccount": ACCOUNT}
ROLES = f"arn:aws:iam::{ACCOUNT}:role/"
BOUNDARY = {"iam:PermissionsBoundary": f"arn:aws:iam::{ACCOUNT}:policy/headway-prod/access/headway-prod-{WORKLOADS}"}


def duty(of: str, role: Role = Role.DEPLOYER) -> Duty:
    return Duty(environment="prod", account_id=ACCOUNT, region="us-west-2", state_bucket=STATE, layer=of, role=role)


def asked(who: Duty, action: str, resource: str, context: dict[str, str | list[str]]) -> bool:
    given = [statement for found in documents(who).values() for statement in found]
    return allowed(Request(action, resource, context), given, people_boundary(who))


CLUSTER, PLATFORM, VISION = duty("cluster"), duty("platform"), duty("vision")
DISPOSABLE = replace(CLUSTER, disposable=True)
"""The cluster's deployer where a destroy also empties the buckets."""
RUNNER, VIEWER = duty("vision", Role.RUNNER), duty("vision", Role.VIEWER)
IRSA = replace(VISION, binding=Binding.IRSA)
"""The tenant's deployer where roles themselves say which namespace is theirs."""
CONTROL_PLANE = f"{ROLES}{EKS_ROLE}-0a1b2c3"
"""Of which environment only its tags say."""
OWN_ROLE = f"{ROLES}headway-prod-vision-models"
STATE_OF = f"arn:aws:s3:::{STATE}/prod/"
S3 = "arn:aws:s3:::headway-prod-"
OF_VISION, OF_ASSIST = ({"aws:RequestTag/kubernetes-namespace": name} for name in ("vision", "assist"))
REMAINING = "s3:object-lock-remaining-retention-days"
KEY = f"arn:aws:kms:us-west-2:{ACCOUNT}:key/k"
WITNESS = f"arn:aws:ssm:us-west-2:{ACCOUNT}:parameter/headway/prod/witness"
ASSOCIATION = f"arn:aws:eks:us-west-2:{ACCOUNT}:podidentityassociation/headway-prod/a-1"


def tagged(layer: str, **more: str) -> dict[str, str | list[str]]:
    """The context of a resource that a layer of the environment has made."""
    return {**TAG, **{f"aws:ResourceTag/{key}": value for key, value in tags("prod", layer, **more).items()}}


IS_VISIONS, IS_ASSISTS = tagged("tenant", tenant="vision"), tagged("tenant", tenant="assist")
TAKE = {"aws:RequestTag/platform.io/environment": "prod"}
TAKE_FOR_STAGING = {"aws:RequestTag/platform.io/environment": "staging"}
GROUP = f"arn:aws:ec2:us-west-2:{ACCOUNT}:security-group"
TAKE_AS_VISION = {"aws:RequestTag/platform.io/tenant": "vision", "aws:RequestTag/platform.io/layer": "tenant"}

MAY: list[tuple[Duty, str, str, dict[str, str | list[str]]]] = [
    (CLUSTER, "ec2:CreateVpc", f"arn:aws:ec2:us-west-2:{ACCOUNT}:vpc/v", {"aws:RequestTag/platform.io/environment": "prod"}),
    (CLUSTER, "ec2:CreateSubnet", f"arn:aws:ec2:us-west-2:{ACCOUNT}:vpc/v", dict(TAG)),
    (CLUSTER, "ec2:DeleteVpc", f"arn:aws:ec2:us-west-2:{ACCOUNT}:vpc/v", dict(TAG)),
    (CLUSTER, "ec2:AuthorizeSecurityGroupIngress", f"{GROUP}/sg-own", {**TAG, **TAKE}),
    (CLUSTER, "ec2:AuthorizeSecurityGroupIngress", f"{GROUP}-rule/*", dict(TAKE)),
    (CLUSTER, "ec2:DescribeVpcs", "*", {"aws:RequestedRegion": "us-west-2"}),
    (CLUSTER, "eks:CreateNodegroup", f"arn:aws:eks:us-west-2:{ACCOUNT}:cluster/headway-prod", {}),
    (CLUSTER, "iam:CreateRole", f"{ROLES}headway-prod-nodes", dict(BOUNDARY)),
    (CLUSTER, "iam:CreateRole", CONTROL_PLANE, {**BOUNDARY, **TAKE}),
    (CLUSTER, "iam:TagRole", CONTROL_PLANE, dict(TAKE)),
    (CLUSTER, "iam:GetRole", CONTROL_PLANE, {}),
    (CLUSTER, "iam:GetRole", f"{ROLES}aws-service-role/eks-nodegroup.amazonaws.com/AWSServiceRoleForAmazonEKSNodegroup", {}),
    (CLUSTER, "iam:GetRole", f"{ROLES}aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS", {}),
    *(
        # While it does not exist IAM knows it by its name alone; then EKS's look is refused to who is allowed the path only.
        (CLUSTER, "iam:GetRole", f"{ROLES}{name}", {})
        for name in ("AWSServiceRoleForAmazonEKSNodegroup", "AWSServiceRoleForAmazonEKS")
    ),
    (CLUSTER, "iam:DeleteRole", CONTROL_PLANE, dict(TAG)),
    (CLUSTER, "iam:PassRole", CONTROL_PLANE, {"iam:PassedToService": "eks.amazonaws.com"}),
    (CLUSTER, "iam:PassRole", f"{ROLES}headway-prod-nodes", {"iam:PassedToService": "eks.amazonaws.com"}),
    (
        CLUSTER,
        "iam:AttachRolePolicy",
        f"{ROLES}headway-prod-nodes",
        {**BOUNDARY, "iam:PolicyARN": "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"},
    ),
    *(
        (CLUSTER, "iam:CreateServiceLinkedRole", f"{ROLES}aws-service-role/{service}/{name}", {"iam:AWSServiceName": service})
        for service, name in (
            ("ec2-nat-gateway.amazonaws.com", "AWSServiceRoleForNATGateway"),
            ("ecr.amazonaws.com", "AWSServiceRoleForECRTemplate"),
            ("eks-nodegroup.amazonaws.com", "AWSServiceRoleForAmazonEKSNodegroup"),
            ("eks.amazonaws.com", "AWSServiceRoleForAmazonEKS"),
            ("pullthroughcache.ecr.amazonaws.com", "AWSServiceRoleForECRPullThroughCache"),
        )
    ),
    (
        CLUSTER,
        "ec2:CreateTags",
        f"arn:aws:ec2:us-west-2:{ACCOUNT}:vpc/v",
        {"aws:RequestTag/platform.io/environment": "prod", "ec2:CreateAction": "CreateVpc"},
    ),
    (CLUSTER, "ec2:CreateTags", f"arn:aws:ec2:us-west-2:{ACCOUNT}:vpc/v", {**TAG, "aws:RequestTag/team": "blue"}),
    (CLUSTER, "ec2:CreateTags", f"arn:aws:ec2:us-west-2:{ACCOUNT}:security-group/default", {**UNMARKED, **TAKE}),
    (CLUSTER, "ec2:RevokeSecurityGroupEgress", f"arn:aws:ec2:us-west-2:{ACCOUNT}:security-group/default", dict(TAG)),
    (CLUSTER, "ec2:RevokeSecurityGroupEgress", f"arn:aws:ec2:us-west-2:{ACCOUNT}:security-group-rule/sgr-of-default", dict(UNMARKED)),
    (CLUSTER, "kms:TagResource", "*", {"aws:RequestTag/platform.io/environment": "prod"}),
    (CLUSTER, "kms:TagResource", KEY, {**TAG, "aws:RequestTag/team": "blue", "kms:ResourceAliases": ["alias/headway-prod-data"]}),
    (CLUSTER, "kms:EnableKeyRotation", KEY, {**TAG, "aws:ResourceTag/platform.io/layer": "cluster"}),
    (CLUSTER, "kms:RetireGrant", KEY, {**TAG, "aws:ResourceTag/platform.io/layer": "cluster"}),
    (CLUSTER, "route53:AssociateVPCWithHostedZone", "arn:aws:route53:::hostedzone/Z1", {"aws:ResourceAccount": "aws"}),
    (
        CLUSTER,
        "ec2:RunInstances",
        "arn:aws:ec2:us-west-2::image/ami-1",
        {"aws:ResourceAccount": "amazon", "ec2:LaunchTemplate": f"arn:aws:ec2:us-west-2:{ACCOUNT}:launch-template/lt-1"},
    ),
    (
        CLUSTER,
        "autoscaling:PutScheduledUpdateGroupAction",
        f"arn:aws:autoscaling:us-west-2:{ACCOUNT}:autoScalingGroup:1:autoScalingGroupName/eks-h100-a",
        {"aws:ResourceTag/eks:cluster-name": "headway-prod"},
    ),
    (DISPOSABLE, "s3:ListBucketVersions", f"{S3}telemetry-{ACCOUNT}", {}),
    (DISPOSABLE, "s3:DeleteObjectVersion", f"{S3}artifacts-{ACCOUNT}/vision/defects/model.onnx", {}),
    (DISPOSABLE, "s3:BypassGovernanceRetention", f"{S3}ledger-{ACCOUNT}/vision/defects/events/00000001.json", {}),
    (DISPOSABLE, "s3:PutObjectLegalHold", f"{S3}ledger-{ACCOUNT}/vision/defects/events/00000001.json", {}),
    (PLATFORM, "ecr:GetAuthorizationToken", "*", {"aws:RequestedRegion": "us-west-2"}),
    (PLATFORM, "ecr:PutImage", f"arn:aws:ecr:us-west-2:{ACCOUNT}:repository/headway-prod/headway", {}),
    (PLATFORM, "iam:PutRolePolicy", f"{ROLES}headway-prod-keda-keda-operator", dict(BOUNDARY)),
    (PLATFORM, "ssm:PutParameter", f"arn:aws:ssm:us-west-2:{ACCOUNT}:parameter/headway/prod/layers/platform", {}),
    # `headway verify`, which an administrator of the cluster runs.
    (PLATFORM, "s3:PutObject", f"{S3}ledger-{ACCOUNT}/verifications/prod/2026-11-28.json", {}),
    (PLATFORM, "s3:GetObject", f"{S3}ledger-{ACCOUNT}/vision/defects/events/00000001.json", {}),
    (PLATFORM, "s3:ListBucket", f"{S3}ledger-{ACCOUNT}", {}),
    (PLATFORM, "ssm:GetParameter", f"{WITNESS}/{named('vision/defects', 's3://any')}", {}),
    (PLATFORM, "kms:GenerateDataKey", KEY, {**TAG, "kms:ViaService": "s3.us-west-2.amazonaws.com"}),
    (VISION, "iam:CreateRole", OWN_ROLE, dict(BOUNDARY)),
    (VISION, "iam:PassRole", OWN_ROLE, {"iam:PassedToService": "pods.eks.amazonaws.com"}),
    (VISION, "eks:CreatePodIdentityAssociation", f"arn:aws:eks:us-west-2:{ACCOUNT}:cluster/headway-prod", {}),
    (VISION, "eks:TagResource", ASSOCIATION, {"aws:RequestTag/platform.io/tenant": "vision", "aws:RequestTag/platform.io/layer": "tenant"}),
    (VISION, "eks:TagResource", ASSOCIATION, {**IS_VISIONS, "aws:RequestTag/team": "blue"}),
    (VISION, "eks:UpdatePodIdentityAssociation", ASSOCIATION, {**IS_VISIONS}),
    (VISION, "eks:DeletePodIdentityAssociation", ASSOCIATION, {**IS_VISIONS}),
    (RUNNER, "eks:DescribePodIdentityAssociation", ASSOCIATION, {**IS_VISIONS}),
    (IRSA, "iam:CreateRole", OWN_ROLE, {**BOUNDARY, **OF_VISION}),
    (IRSA, "iam:TagRole", OWN_ROLE, {**OF_VISION}),
    (IRSA, "iam:TagRole", OWN_ROLE, {"aws:RequestTag/team": "blue", "aws:TagKeys": ["team"]}),
    (IRSA, "iam:UntagRole", OWN_ROLE, {"aws:TagKeys": ["team"]}),
    (VISION, "sqs:CreateQueue", f"arn:aws:sqs:us-west-2:{ACCOUNT}:headway-prod-batch-vision_defects", {}),
    (VISION, "s3:PutObject", f"{STATE_OF}vision/.pulumi/stacks/headway/prod-vision.json", {}),
    (VISION, "s3:PutObject", f"{S3}artifacts-{ACCOUNT}/vision/defects/model.onnx", {}),
    (VISION, "kms:Decrypt", KEY, {"kms:ResourceAliases": ["alias/headway-prod-state-vision"]}),
    (VISION, "ssm:GetParametersByPath", f"arn:aws:ssm:us-west-2:{ACCOUNT}:parameter/headway/prod/layers", {}),
    (RUNNER, "s3:PutObject", f"{S3}ledger-{ACCOUNT}/vision/defects/events/00000001.json", {}),
    *(
        (who, f"ssm:{verb}Parameter", f"{WITNESS}/{named(chain, 's3://any')}", {})
        for who in (VISION, RUNNER)
        for verb in ("Get", "Put")
        for chain in ("vision/defects", "vision/defects/evaluation", "vision/defects/drift")
    ),
    (RUNNER, "s3:PutObjectRetention", f"{S3}ledger-{ACCOUNT}/leases/vision/defects.json", {REMAINING: "1"}),
    (RUNNER, "s3:GetObjectVersion", f"{S3}ledger-{ACCOUNT}/vision/defects/events/00000001.json", {}),
    (RUNNER, "s3:ListBucketVersions", f"{S3}ledger-{ACCOUNT}", {"s3:prefix": "vision/defects/events/"}),
    (RUNNER, "s3:GetObject", f"{S3}artifacts-{ACCOUNT}/vision/defects/model.onnx", {}),
    (RUNNER, "s3:GetObject", f"{S3}telemetry-{ACCOUNT}/samples/90d/vision/defects/2026/11/25/10/00/a.gz", {}),
    (RUNNER, "s3:ListBucket", f"{S3}telemetry-{ACCOUNT}", {"s3:prefix": "samples/90d/vision/defects/2026/11/25/10/00/"}),
    # A request for an object has no prefix. Who may not list is told 403 of one that is missing, and then no state, no lease and no
    # artifact could ever be begun (pulumi/pulumi, pkg/backend/diy/meta.go; `headway/ledger/store.py`, `artifact_upload/bucket.py`).
    *((who, "s3:ListBucket", f"arn:aws:s3:::{STATE}", {}) for who in (CLUSTER, PLATFORM, VISION, RUNNER)),
    *((who, "s3:ListBucket", f"{S3}ledger-{ACCOUNT}", {}) for who in (VISION, RUNNER)),
    (VISION, "s3:ListBucket", f"{S3}artifacts-{ACCOUNT}", {}),
    (VISION, "s3:ListBucketMultipartUploads", f"{S3}artifacts-{ACCOUNT}", {}),
    (RUNNER, "s3:PutObject", f"{STATE_OF}vision/.pulumi/stacks/headway/prod-vision.json", {}),
    (RUNNER, "iam:GetRole", OWN_ROLE, {}),
    (VIEWER, "eks:DescribeCluster", f"arn:aws:eks:us-west-2:{ACCOUNT}:cluster/headway-prod", {}),
]
"""What each needs."""

MAY_NOT: list[tuple[str, Duty, str, str, dict[str, str | list[str]]]] = [
    ("another environment's network", CLUSTER, "ec2:DeleteVpc", f"arn:aws:ec2:us-west-2:{ACCOUNT}:vpc/v", dict(OTHER)),
    ("another environment's group by tagging the rule", CLUSTER, "ec2:AuthorizeSecurityGroupIngress", f"{GROUP}/sg-o", {**OTHER, **TAKE}),
    ("another environment's network by tagging it", CLUSTER, "ec2:CreateTags", f"arn:aws:ec2:us-west-2:{ACCOUNT}:vpc/v", {**OTHER, **TAKE}),
    *(
        (
            f"a group with the tag {tag}: {action}",
            CLUSTER,
            f"ec2:{action}",
            f"{GROUP}/sg-1",
            {**UNMARKED, **TAKE, f"aws:ResourceTag/{tag}": "x"},
        )
        for tag in ("GuardDutyManaged", "Name", "aws:cloudformation:stack-id", "aws:eks:cluster-name", "elbv2.k8s.aws/cluster")
        for action in ("CreateTags", "RevokeSecurityGroupEgress", "RevokeSecurityGroupIngress")
    ),
    *(
        (
            f"GuardDuty's endpoint: {action}",
            CLUSTER,
            f"ec2:{action}",
            f"arn:aws:ec2:us-west-2:{ACCOUNT}:vpc-endpoint/vpce-1",
            {**UNMARKED, "aws:ResourceTag/GuardDutyManaged": "true"},
        )
        for action in ("DeleteVpcEndpoints", "ModifyVpcEndpoint")
    ),
    ("a group without tags for another environment", CLUSTER, "ec2:CreateTags", f"{GROUP}/sg-1", {**UNMARKED, **TAKE_FOR_STAGING}),
    ("a group without tags by another tag", CLUSTER, "ec2:CreateTags", f"{GROUP}/sg-1", dict(UNMARKED)),
    ("anybody's instance by tagging it", CLUSTER, "ec2:CreateTags", f"arn:aws:ec2:us-west-2:{ACCOUNT}:instance/i", {**TAKE}),
    (
        "a rule of another environment",
        CLUSTER,
        "ec2:RevokeSecurityGroupEgress",
        f"arn:aws:ec2:us-west-2:{ACCOUNT}:security-group-rule/sgr-1",
        dict(OTHER),
    ),
    ("another environment's key by tagging it", CLUSTER, "kms:TagResource", KEY, {**OTHER, **TAKE}),
    ("anybody's key by tagging it", CLUSTER, "kms:TagResource", KEY, {**TAKE, "kms:ResourceAliases": ["alias/payroll"]}),
    ("the key of a state", CLUSTER, "kms:PutKeyPolicy", KEY, tagged("access")),
    ("the end of a state's key", CLUSTER, "kms:ScheduleKeyDeletion", KEY, tagged("access")),
    ("another environment's cluster", CLUSTER, "eks:DeleteCluster", f"arn:aws:eks:us-west-2:{ACCOUNT}:cluster/headway-staging", {}),
    ("a role without the boundary", CLUSTER, "iam:CreateRole", f"{ROLES}headway-prod-nodes", {}),
    (
        "a role with another boundary",
        CLUSTER,
        "iam:CreateRole",
        f"{ROLES}headway-prod-x",
        {"iam:PermissionsBoundary": "arn:aws:iam::1:policy/x"},
    ),
    ("taking the boundary off", CLUSTER, "iam:DeleteRolePermissionsBoundary", f"{ROLES}headway-prod-nodes", dict(BOUNDARY)),
    (
        "an administrator's policy",
        CLUSTER,
        "iam:AttachRolePolicy",
        f"{ROLES}headway-prod-nodes",
        {**BOUNDARY, "iam:PolicyARN": "arn:aws:iam::aws:policy/AdministratorAccess"},
    ),
    (
        "its own boundary's text",
        CLUSTER,
        "iam:CreatePolicyVersion",
        f"arn:aws:iam::{ACCOUNT}:policy/headway-prod/access/headway-prod-people",
        {},
    ),
    ("its own trust", CLUSTER, "iam:UpdateAssumeRolePolicy", CLUSTER.role_arn, {}),
    ("its own policies", CLUSTER, "iam:PutRolePolicy", CLUSTER.role_arn, dict(BOUNDARY)),
    ("a role outside the environment", CLUSTER, "iam:CreateRole", f"{ROLES}admin", dict(BOUNDARY)),
    ("a role of another environment", CLUSTER, "iam:UpdateAssumeRolePolicy", f"{ROLES}headway-staging-nodes", {}),
    ("the trust of another's control plane", CLUSTER, "iam:UpdateAssumeRolePolicy", CONTROL_PLANE, dict(OTHER)),
    ("the end of another's control plane", CLUSTER, "iam:DeleteRole", CONTROL_PLANE, dict(OTHER)),
    ("another's control plane by tagging it", CLUSTER, "iam:TagRole", CONTROL_PLANE, {**OTHER, **TAKE}),
    (
        "passing a role to a service of its choice",
        CLUSTER,
        "iam:PassRole",
        f"{ROLES}headway-prod-nodes",
        {"iam:PassedToService": "lambda.amazonaws.com"},
    ),
    ("passing a role outside the environment", CLUSTER, "iam:PassRole", f"{ROLES}admin", {"iam:PassedToService": "eks.amazonaws.com"}),
    ("a user", CLUSTER, "iam:CreateUser", f"arn:aws:iam::{ACCOUNT}:user/x", {}),
    ("an access key", CLUSTER, "iam:CreateAccessKey", f"arn:aws:iam::{ACCOUNT}:user/x", {}),
    ("becoming somebody else", CLUSTER, "sts:AssumeRole", f"{ROLES}admin", {}),
    ("another issuer", CLUSTER, "iam:CreateOpenIDConnectProvider", f"arn:aws:iam::{ACCOUNT}:oidc-provider/evil.example", {}),
    ("a version where data is kept", CLUSTER, "s3:DeleteObjectVersion", f"{S3}artifacts-{ACCOUNT}/vision/defects/model.onnx", {}),
    ("an end of the lock", CLUSTER, "s3:BypassGovernanceRetention", f"{S3}ledger-{ACCOUNT}/vision/defects/events/00000001.json", {}),
    ("what others keep under the prefix", DISPOSABLE, "s3:DeleteObjectVersion", f"{S3}state/prod/cluster/.pulumi/stacks/a.json", {}),
    ("a version in its own state", DISPOSABLE, "s3:DeleteObjectVersion", f"{STATE_OF}cluster/.pulumi/stacks/headway/prod-cluster.json", {}),
    ("a tenant's state", PLATFORM, "s3:GetObject", f"{STATE_OF}vision/.pulumi/stacks/headway/prod-vision.json", {}),
    ("a network", PLATFORM, "ec2:CreateVpc", f"arn:aws:ec2:us-west-2:{ACCOUNT}:vpc/v", {"aws:RequestTag/platform.io/environment": "prod"}),
    (
        "what the cluster handed over",
        PLATFORM,
        "ssm:PutParameter",
        f"arn:aws:ssm:us-west-2:{ACCOUNT}:parameter/headway/prod/layers/cluster",
        {},
    ),
    ("the cluster's state", VISION, "s3:GetObject", f"{STATE_OF}cluster/.pulumi/stacks/headway/prod-cluster.json", {}),
    ("the platform's state", VISION, "s3:GetObject", f"{STATE_OF}platform/.pulumi/stacks/headway/prod-platform.json", {}),
    (
        "a tenant's state whose name begins alike",
        VISION,
        "s3:GetObject",
        f"{STATE_OF}vision-x/.pulumi/stacks/headway/prod-vision-x.json",
        {},
    ),
    ("the list of another's artifacts", VISION, "s3:ListBucket", f"{S3}artifacts-{ACCOUNT}", {"s3:prefix": "assist/"}),
    ("a tenant's ledger", PLATFORM, "s3:PutObject", f"{S3}ledger-{ACCOUNT}/vision/defects/events/00000001.json", {}),
    ("a tenant's witness", PLATFORM, "ssm:PutParameter", f"{WITNESS}/{named('vision/defects', 's3://any')}", {}),
    ("another's samples", RUNNER, "s3:ListBucket", f"{S3}telemetry-{ACCOUNT}", {"s3:prefix": "samples/90d/assist/chat/2026/"}),
    (
        "samples of another's model that has the tenant's name",
        RUNNER,
        "s3:GetObject",
        f"{S3}telemetry-{ACCOUNT}/samples/90d/assist/vision/2026/11/25/10/00/a.gz",
        {},
    ),
    ("every sample's name", RUNNER, "s3:ListBucket", f"{S3}telemetry-{ACCOUNT}", {}),
    ("every artifact's name", RUNNER, "s3:ListBucket", f"{S3}artifacts-{ACCOUNT}", {}),
    ("the list of all states", VISION, "s3:ListBucket", f"arn:aws:s3:::{STATE}", {"s3:prefix": "prod/"}),
    ("secrets in another state", VISION, "kms:Decrypt", KEY, {"kms:ResourceAliases": ["alias/headway-prod-state-cluster"]}),
    ("another tenant's artifacts", VISION, "s3:PutObject", f"{S3}artifacts-{ACCOUNT}/assist/chat/model", {}),
    ("another tenant's ledger", VISION, "s3:PutObject", f"{S3}ledger-{ACCOUNT}/assist/chat/events/00000001.json", {}),
    (
        "the ledger of a tenant whose name begins alike",
        RUNNER,
        "s3:PutObject",
        f"{S3}ledger-{ACCOUNT}/vision-x/chat/events/00000001.json",
        {},
    ),
    ("another tenant's lease", VISION, "s3:PutObject", f"{S3}ledger-{ACCOUNT}/leases/assist/chat.json", {}),
    ("another tenant's role", VISION, "iam:PutRolePolicy", f"{ROLES}headway-prod-assist-models", dict(BOUNDARY)),
    ("a role of a tenant whose name begins alike", VISION, "iam:CreateRole", f"{ROLES}headway-prod-vision-x-models", dict(BOUNDARY)),
    ("the nodes' role", VISION, "iam:PassRole", f"{ROLES}headway-prod-nodes", {"iam:PassedToService": "pods.eks.amazonaws.com"}),
    ("a role without a namespace", IRSA, "iam:CreateRole", OWN_ROLE, dict(BOUNDARY)),
    ("a role of another's namespace", IRSA, "iam:CreateRole", OWN_ROLE, {**BOUNDARY, **OF_ASSIST}),
    ("another's namespace on its own role", IRSA, "iam:TagRole", OWN_ROLE, {**OF_ASSIST}),
    ("no namespace on its own role", IRSA, "iam:UntagRole", OWN_ROLE, {"aws:TagKeys": ["team", "kubernetes-namespace"]}),
    ("another tenant's queue", VISION, "sqs:DeleteQueue", f"arn:aws:sqs:us-west-2:{ACCOUNT}:headway-prod-batch-assist_chat", {}),
    (
        "a queue of a tenant whose name begins alike",
        VISION,
        "sqs:DeleteQueue",
        f"arn:aws:sqs:us-west-2:{ACCOUNT}:headway-prod-batch-vision-x_a",
        {},
    ),
    ("another tenant's identity", VISION, "eks:UpdatePodIdentityAssociation", ASSOCIATION, {**IS_ASSISTS}),
    ("the end of another tenant's identity", VISION, "eks:DeletePodIdentityAssociation", ASSOCIATION, {**IS_ASSISTS}),
    ("the end of the platform's identity", VISION, "eks:DeletePodIdentityAssociation", ASSOCIATION, tagged("platform")),
    ("another tenant's identity by tagging it", VISION, "eks:TagResource", ASSOCIATION, {**IS_ASSISTS, **TAKE_AS_VISION}),
    ("the platform's identity by tagging it", VISION, "eks:TagResource", ASSOCIATION, {**tagged("platform"), **TAKE_AS_VISION}),
    ("the cluster's tags", VISION, "eks:UntagResource", f"arn:aws:eks:us-west-2:{ACCOUNT}:cluster/headway-prod", {}),
    ("the end of the cluster", VISION, "eks:DeleteCluster", f"arn:aws:eks:us-west-2:{ACCOUNT}:cluster/headway-prod", {}),
    ("an access entry", VISION, "eks:CreateAccessEntry", f"arn:aws:eks:us-west-2:{ACCOUNT}:cluster/headway-prod", {}),
    ("a version of an event", RUNNER, "s3:DeleteObjectVersion", f"{S3}ledger-{ACCOUNT}/vision/defects/events/00000001.json", {}),
    ("an end of the lock", RUNNER, "s3:BypassGovernanceRetention", f"{S3}ledger-{ACCOUNT}/vision/defects/events/00000001.json", {}),
    (
        "how long an event is kept",
        RUNNER,
        "s3:PutObjectRetention",
        f"{S3}ledger-{ACCOUNT}/vision/defects/events/00000001.json",
        {REMAINING: "1"},
    ),
    (
        "a lease that is kept for years",
        RUNNER,
        "s3:PutObjectRetention",
        f"{S3}ledger-{ACCOUNT}/leases/vision/defects.json",
        {REMAINING: "900"},
    ),
    *(
        (f"the witness of another: {who.layer} {who.role} {verb}", who, f"ssm:{verb}", f"{WITNESS}/{named(chain, 's3://any')}", {})
        for who, of in (
            (VISION, "assist"),
            (RUNNER, "assist"),
            (RUNNER, "vision-x"),
            (VIEWER, "vision"),
            (PLATFORM, "vision"),
            (CLUSTER, "vision"),
        )
        for verb in ("PutParameter", "DeleteParameter")
        for chain in (f"{of}/chat", f"{of}/chat/evaluation")
    ),
    ("the end of its own witness", RUNNER, "ssm:DeleteParameter", f"{WITNESS}/vision/defects", {}),
    ("what a layer handed over", RUNNER, "ssm:PutParameter", f"arn:aws:ssm:us-west-2:{ACCOUNT}:parameter/headway/prod/layers/vision", {}),
    ("another's events", RUNNER, "s3:ListBucketVersions", f"{S3}ledger-{ACCOUNT}", {"s3:prefix": "assist/chat/events/"}),
    ("a changed event", RUNNER, "s3:DeleteObject", f"{S3}ledger-{ACCOUNT}/vision/defects/events/00000001.json", {}),
    ("a new role", RUNNER, "iam:CreateRole", OWN_ROLE, dict(BOUNDARY)),
    ("other artifacts than the tenant's", RUNNER, "s3:GetObject", f"{S3}artifacts-{ACCOUNT}/assist/chat/model", {}),
    ("an upload", RUNNER, "s3:PutObject", f"{S3}artifacts-{ACCOUNT}/vision/defects/model.onnx", {}),
    ("any state", VIEWER, "s3:GetObject", f"{STATE_OF}vision/.pulumi/stacks/headway/prod-vision.json", {}),
    ("any change", VIEWER, "eks:UpdateClusterConfig", f"arn:aws:eks:us-west-2:{ACCOUNT}:cluster/headway-prod", {}),
]
"""What none of them may, each with its attempt."""


@pytest.mark.parametrize(("who", "action", "resource", "context"), MAY, ids=lambda value: getattr(value, "name", None))
def test_a_duty_may_do_what_it_needs(who: Duty, action: str, resource: str, context: dict[str, str | list[str]]) -> None:
    assert asked(who, action, resource, context)


@pytest.mark.parametrize(("attempt", "who", "action", "resource", "context"), MAY_NOT, ids=[f"{row[1].name}: {row[0]}" for row in MAY_NOT])
def test_no_duty_goes_beyond_itself(attempt: str, who: Duty, action: str, resource: str, context: dict[str, str | list[str]]) -> None:
    assert not asked(who, action, resource, context), f"{who.name} may reach {attempt}"


EVERYTHING = Statement(sid="All", actions=["*"], resources=["*"], reason="an administrator's policy, attached by mistake")
BOUNDED = "an administrator's policy"  # which stays within the boundary, so that it escalates nothing
CROSSED = [row for row in MAY_NOT if row[2].startswith(("iam:", "sts:")) and row[1] is CLUSTER and row[0] != BOUNDED]


@pytest.mark.parametrize("row", CROSSED, ids=[row[0] for row in CROSSED])
def test_the_boundary_alone_stops_an_escalation(row: tuple[str, Duty, str, str, dict[str, str | list[str]]]) -> None:
    _, who, action, resource, context = row
    assert not allowed(Request(action, resource, context), [EVERYTHING], people_boundary(who))


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("iam:CreateUser", "*"),
        ("sts:AssumeRole", f"{ROLES}admin"),
        ("s3:GetObject", f"{STATE_OF}cluster/.pulumi/stacks/headway/prod-cluster.json"),
        ("secretsmanager:GetSecretValue", "*"),
    ],
)
def test_a_workload_with_every_policy_is_still_bounded(action: str, resource: str) -> None:
    assert not allowed(Request(action, resource, {"aws:RequestedRegion": "us-west-2"}), [EVERYTHING], workloads_boundary(VISION))


NAMED = {
    "iam": f"{ROLES}aws-service-role/elasticloadbalancing.amazonaws.com/AWSServiceRoleForElasticLoadBalancing",
    "route53": "arn:aws:route53:::hostedzone/Z1",
    "ssm": f"{WITNESS}/{named('vision/defects/evaluation', 's3://any')}",
}
"""What workloads reach where their boundary names resources: in services without regions, and witnesses of evaluations."""


def test_what_workloads_are_given_is_within_their_boundary() -> None:
    here = {"aws:RequestedRegion": "us-west-2"}
    for stack in LAYER_STACKS:
        for r in layer(stack).of_type("aws:iam/rolePolicy:RolePolicy"):
            for statement in json.loads(r.inputs["policy"])["Statement"]:
                beyond = [
                    action
                    for action in statement["Action"]
                    if not allowed(
                        Request(action, NAMED.get(action.partition(":")[0], "arn:aws:any:::thing"), here),
                        [EVERYTHING],
                        workloads_boundary(CLUSTER),
                    )
                ]
                assert not beyond, f"{r.name} needs {beyond}"


@pytest.mark.parametrize("kind", sorted(OF_LAYER))
def test_a_deployer_may_call_whatever_its_layers_types_need(kind: str) -> None:
    who = {"cluster": CLUSTER, "platform": PLATFORM}.get(kind, VISION)
    given = {action for found in documents(who).values() for statement in found for action in statement.actions}
    assert actions_of(kind) <= given


@pytest.mark.parametrize("environment", ["prod", "environment"], ids=["usual", "longest"])
def test_a_deployer_may_make_the_queue_of_the_longest_names(environment: str) -> None:
    who = replace(duty("t" * 40), environment=environment)
    name = queue_name(environment, "t" * 40, "m" * 40)
    queue = f"arn:aws:sqs:us-west-2:{ACCOUNT}:{name}-dead"
    assert len(f"{name}-dead") <= 80
    assert asked(who, "sqs:CreateQueue", queue, {}), "the tenant's first update would be denied"
    assert not asked(replace(who, layer="t" * 39), "sqs:DeleteQueue", queue, {})


@pytest.mark.parametrize("stack", LAYER_STACKS)
def test_every_type_that_a_layer_registers_has_its_actions(stack: str) -> None:
    kind = stack.partition("-")[2]
    registered = {r.type for r in layer(stack).registrations if r.type.startswith("aws:")}
    assert registered <= OF_LAYER[kind], "the deployer could not make these: add them to components/access/actions.py"
    assert registered <= set(ACTIONS)


def compact(document: object) -> int:
    return len(re.sub(r"\s", "", json.dumps(document)))


@pytest.mark.parametrize(
    "who", [CLUSTER, DISPOSABLE, PLATFORM, VISION, IRSA, RUNNER, VIEWER], ids=lambda each: f"{each.name}-{each.binding}-{each.disposable}"
)
def test_each_policy_fits_into_one_managed_policy(who: Duty) -> None:
    longest = replace(who, layer="x" * 60) if who.kind == "tenant" else who
    for name, statements in documents(longest).items():
        assert compact([statement.wire() for statement in statements]) + 40 <= POLICY_LIMIT, name
    assert len(documents(who)) <= 10, "AWS attaches ten managed policies to a role"
    for boundary in (people_boundary(longest), workloads_boundary(longest)):
        assert compact([statement.wire() for statement in boundary]) + 40 <= POLICY_LIMIT


def test_fifty_tenants_stay_within_the_quotas_of_an_account() -> None:
    found = [duty(f"tenant-{number}", role) for number in range(50) for role in Role] + [CLUSTER, PLATFORM]
    names = [each.name for each in found]
    assert len(set(names)) == len(names)
    # Default quotas (IAM user guide, "IAM and AWS STS quotas"): a tenant's workload has a role of its own beside these.
    assert len(found) + 50 <= 1000 * 0.5, "half of the roles of an account is for others"
    assert sum(len(documents(each)) for each in found) + 2 <= 1500 * 0.5
    trust = people_trust(ACCOUNT, "https://gitlab.example.com", "sts.amazonaws.com", ["x" * 250] * 3, [f"{ROLES}{'y' * 64}"] * 3)
    assert compact(trust) <= TRUST_LIMIT


def test_a_pipeline_is_trusted_by_its_audience_and_one_subject() -> None:
    found = people_trust(ACCOUNT, "https://token.actions.githubusercontent.com", "sts.amazonaws.com", ["repo:a/b:environment:prod"], [])
    (statement,) = found["Statement"]
    assert statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert statement["Condition"] == {
        "StringEquals": {
            "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
            "token.actions.githubusercontent.com:sub": ["repo:a/b:environment:prod"],
        }
    }


@pytest.mark.parametrize("subject", ["repo:a/b:*", "*", "repo:a/?:ref:refs/heads/main"])
def test_a_subject_is_never_a_pattern(subject: str) -> None:
    with pytest.raises(ValueError, match="write each out"):
        people_trust(ACCOUNT, "https://gitlab.com", "sts.amazonaws.com", [subject], [])
