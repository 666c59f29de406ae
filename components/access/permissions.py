"""What each duty may do in AWS, as policy documents. Pure. The boundaries that nobody crosses are in `boundaries.py`.

Each action of `actions.py` is limited by its service's rule here: by ARN where names are ours, by the environment's tag
where AWS makes the names up. What is there already gets that tag from nobody, or it would be anybody's who asks. An
action that knows no resource type is allowed on `*`, and lists or is bound by a tag. Source of which it is: AWS Service
Authorization Reference. The trap: a policy has 6,144 characters, so a deployer of the cluster has several.
"""

from collections.abc import Iterator, Mapping, Sequence

from components.access.actions import actions_of, reads
from components.access.duty import ENVIRONMENT_TAG, LAYER_TAG, MANAGED, WORKLOADS, Duty, Role
from components.identity import NAMESPACE_TAG, Binding
from components.permissions import Statement, finds, finds_versions
from headway.contract.sampling import KEPT_DAYS, PREFIX
from headway.wire import LEDGER_LEASES, LEDGER_VERIFICATIONS, TENANT

POLICY_LIMIT, TRUST_LIMIT = 6144, 2048
"""Characters of a managed policy and of a trust policy, white space not counted (IAM user guide, "IAM and AWS STS quotas")."""
ATTACHED = (
    "AmazonEBSCSIDriverPolicyV2",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEKSClusterPolicy",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
)
"""AWS's own policies that the cluster layer attaches."""
PASSED_TO: Mapping[str, Sequence[str]] = {
    "cluster": ("ec2.amazonaws.com", "eks.amazonaws.com", "pods.eks.amazonaws.com", "vpc-flow-logs.amazonaws.com"),
    "platform": ("pods.eks.amazonaws.com",),
    "tenant": ("pods.eks.amazonaws.com",),
}
"""Services to which a layer hands roles."""
SERVICES = (
    "ec2-nat-gateway.amazonaws.com",
    "ecr.amazonaws.com",
    "eks-nodegroup.amazonaws.com",
    "eks.amazonaws.com",
    "pullthroughcache.ecr.amazonaws.com",
)
"""Services that make a role of their own when the cluster layer is the first in the account to use them, with the rights of whoever asks.

Source: "Using service-linked roles" in the user guides of Amazon EKS, Amazon ECR and Amazon VPC, where the first regional NAT gateway makes one.
"""
_NO_RESOURCE = frozenset(
    [
        "autoscaling:DescribeScheduledActions",
        "autoscaling:DescribeTags",
        "eks:ListClusters",
        "kms:ListAliases",
        "logs:DescribeLogGroups",
        "ssm:DescribeParameters",
        "sns:GetSubscriptionAttributes",
        "sns:Unsubscribe",
    ]
)
_CACHES = "PullThroughCacheRule", "RepositoryCreationTemplate"
PUSH = frozenset(
    f"ecr:{action}"
    for action in (
        "BatchCheckLayerAvailability",
        "BatchGetImage",
        "CompleteLayerUpload",
        "DescribeImages",
        "DescribeRepositories",
        "GetDownloadUrlForLayer",
        "InitiateLayerUpload",
        "PutImage",
        "UploadLayerPart",
    )
)
"""Calls by which an image is pushed."""
NOT_OURS: Mapping[str, Sequence[str]] = {
    "ec2:RunInstances": ["arn:aws:ec2:*::image/*"],
    "route53:AssociateVPCWithHostedZone": ["arn:aws:route53:::hostedzone/*"],
}
"""What deploying touches of other accounts: Amazon's node images, and the zones of AWS's services, by action."""
_OTHERS_TAGS = ("GuardDutyManaged", "Name", "aws:cloudformation:stack-id", "aws:eks:cluster-name", "elbv2.k8s.aws/cluster")
"""Of security groups that somebody has made: people, services and controllers. The group that comes with a network has none."""
PAST_LOCKS = "s3:BypassGovernanceRetention"
"""Whoever empties a disposable environment's ledger deletes what is locked."""
BOUND = frozenset({"iam:CreateRole", "iam:PutRolePolicy", "iam:PutRolePermissionsBoundary", "iam:DeleteRolePolicy"})
"""Of roles that bear the boundary of workloads, and no others."""
_TAGS = frozenset({"iam:CreateRole", "iam:TagRole", "iam:UntagRole"})
ATTACHES = frozenset({"iam:AttachRolePolicy", "iam:DetachRolePolicy"})
"""The same, and of AWS's own policies those in ATTACHED."""
Scope = tuple[str, Sequence[str], Mapping[str, Mapping[str, str | Sequence[str]]], str]
"""Id of a statement, its resources, its conditions, and why it may name everything."""


def documents(duty: Duty) -> Mapping[str, tuple[Statement, ...]]:
    """The policies of a duty by name; each fits into one managed policy."""
    deploys = tuple(_grouped(duty, actions_of(duty.kind)))
    looks = (*_cluster_known(duty), _reads_handover(duty))
    match duty.role, duty.kind:
        case Role.DEPLOYER, "cluster":
            network = tuple(s for s in deploys if s.sid.startswith(("Ec2", "See", "Autoscaling")))
            rest = tuple(s for s in deploys if s not in network)
            access = tuple(s for s in rest if s.sid.startswith(("Iam", "Eks", "Kms")))
            return {
                "network": network,
                "cluster": access,
                "storage": (*(s for s in rest if s not in access), *_empties(duty)),
                "state": (*_state(duty), *looks),
            }
        case Role.DEPLOYER, "platform":
            return {"layer": (*deploys, *_pushes(duty)), "verify": _verifies(duty), "state": (*_state(duty), *looks)}
        case Role.DEPLOYER, _:
            return {"layer": deploys, "releases": (*_releases(duty), *_uploads(duty)), "state": (*_state(duty), *looks)}
        case Role.RUNNER, _:
            seen = tuple(_grouped(duty, frozenset(action for action in actions_of(duty.kind) if reads(action))))
            return {"layer": seen, "releases": _releases(duty), "state": (*_state(duty), *looks)}
        case _:
            return {"look": looks}


def _empties(duty: Duty) -> tuple[Statement, ...]:
    """A destroy of a disposable environment deletes every version that its buckets hold, also what the ledger has locked.

    Source: hashicorp/terraform-provider-aws, `internal/service/s3/delete.go` (`emptyBucket`): versions and markers by their ids, past the
    lock and any legal hold where the bucket has Object Lock.
    """
    if not duty.disposable:
        return ()
    buckets = [duty.bucket(role) for role in ("access-logs", "artifacts", "ledger", "telemetry")]
    return (
        Statement(sid="FindVersions", actions=["s3:ListBucketVersions"], resources=buckets),
        Statement(sid="DeleteVersions", actions=["s3:DeleteObjectVersion"], resources=[f"{bucket}/*" for bucket in buckets]),
        Statement(sid="EndLocks", actions=[PAST_LOCKS, "s3:PutObjectLegalHold"], resources=[f"{duty.bucket('ledger')}/*"]),
    )


def _pushes(duty: Duty) -> tuple[Statement, ...]:
    """The loops' image into the environment's own repositories (`headway loops push`)."""
    region = {"StringEquals": {"aws:RequestedRegion": duty.region}}
    login = Statement(sid="Login", actions=["ecr:GetAuthorizationToken"], resources=["*"], conditions=region, reason="It knows no resource")
    return login, Statement(sid="Push", actions=sorted(PUSH), resources=[duty.arn("ecr", f"repository/{duty.cluster}/*")])


def _verifies(duty: Duty) -> tuple[Statement, ...]:
    """`headway verify`, which needs an administrator of the cluster: it reads what releases left and keeps what it saw."""
    ledger = duty.bucket("ledger")
    return (
        Statement(sid="ReadLedger", actions=["s3:GetObject", "s3:GetObjectVersion"], resources=[f"{ledger}/*"]),
        Statement(sid="FindLedger", actions=["s3:ListBucket", "s3:ListBucketVersions"], resources=[ledger]),
        Statement(sid="AskWitness", actions=["ssm:GetParameter"], resources=[f"{duty.witness}/*"]),
        Statement(sid="KeepSeen", actions=["s3:PutObject"], resources=[f"{ledger}/{LEDGER_VERIFICATIONS}{duty.environment}/*"]),
        _uses_key(duty),
    )


def _uses_key(duty: Duty) -> Statement:
    """Of what the environment's buckets hold."""
    stores = {"StringEquals": {"kms:ViaService": f"s3.{duty.region}.amazonaws.com", f"aws:ResourceTag/{ENVIRONMENT_TAG}": duty.environment}}
    return Statement(sid="UseKey", actions=["kms:Decrypt", "kms:GenerateDataKey"], resources=[duty.arn("kms", "key/*")], conditions=stores)


def _grouped(duty: Duty, actions: frozenset[str]) -> Iterator[Statement]:
    """One statement for each scope."""
    found: dict[str, tuple[Scope, list[str]]] = {}
    for action in sorted(actions):
        for scope in _scopes(action, duty):
            found.setdefault(scope[0], (scope, []))[1].append(action)
    for (sid, resources, conditions, reason), these in found.values():
        yield Statement(sid=sid, actions=these, resources=resources, conditions=conditions, reason=reason)


def _scopes(action: str, duty: Duty) -> Iterator[Scope]:
    """Where `action` is allowed; more than one where AWS asks for it on several resources."""
    service, _, name = action.partition(":")
    environment, tenant = duty.environment, duty.kind == "tenant"
    own = {"StringEquals": {f"aws:ResourceTag/{ENVIRONMENT_TAG}": environment}}
    new = {"StringEquals": {f"aws:RequestTag/{ENVIRONMENT_TAG}": environment}}
    match service:
        case _ if action in _NO_RESOURCE or (service == "ec2" and name.startswith("Describe") and name != "DescribeVpcAttribute"):
            yield "See", ["*"], {"StringEquals": {"aws:RequestedRegion": duty.region}}, "They know no resource"
        case "ec2":
            yield from _ec2(name, duty, own, new)
        case "autoscaling":
            groups = duty.arn("autoscaling", "autoScalingGroup:*:autoScalingGroupName/eks-*")
            yield "Autoscaling", [groups], {"StringEquals": {"aws:ResourceTag/eks:cluster-name": duty.cluster}}, ""
        case "eks" if name == "CreateCluster":
            yield "EksCreate", ["*"], new, "It knows no resource; the tag binds it"
        case "eks" if tenant:
            yield from _eks_of_tenant(name, duty)
        case "eks":
            yield "Eks", duty.eks, {}, ""
        case "iam":
            yield from _iam(action, duty)
        case "kms" if name == "CreateKey":
            yield "KmsCreate", ["*"], new, "It knows no resource; the tag binds it"
        case "route53":
            # The zone that makes the public name private is AWS's own.
            yield "Names", NOT_OURS["route53:AssociateVPCWithHostedZone"], {}, ""
        case "kms":
            if name == "TagResource":
                # CreateKey with tags asks for it, and a key that is there would become the environment's by it: none of
                # another environment, nor any that bears a name.
                unborn = {"StringEqualsIfExists": own["StringEquals"], "Null": {"kms:ResourceAliases": "true"}}
                yield "KmsTagNew", ["*"], {**new, **unborn}, "A new key has no ARN yet; the tag binds it"
            # The keys of states are the access layer's.
            yield "Kms", [duty.arn("kms", "key/*")], {**own, "StringNotEquals": {f"aws:ResourceTag/{LAYER_TAG}": "access"}}, ""
            if name.endswith("Alias"):
                yield "KmsAlias", [duty.arn("kms", f"alias/{duty.cluster}-*")], {}, ""
        case "ecr" if name.endswith(_CACHES) or name.endswith(tuple(f"{cache}s" for cache in _CACHES)):
            yield "EcrCaches", ["*"], {"StringEquals": {"aws:RequestedRegion": duty.region}}, "They know no resource"
        case "ecr":
            yield "Ecr", [duty.arn("ecr", f"repository/{duty.cluster}/*"), duty.arn("ecr", f"repository/{duty.cluster}-*")], {}, ""
        case "s3":
            yield "S3", [f"arn:aws:s3:::{duty.cluster}-*"], {}, ""
        case "sqs":
            yield "Sqs", duty.queues, {}, ""
        case "sns":
            yield "Sns", [duty.arn("sns", f"{duty.cluster}-{duty.layer}-batch")], {}, ""
        case "cloudwatch":
            yield "Alarms", [duty.arn("cloudwatch", f"alarm:{queue.rpartition(':')[2]}") for queue in duty.queues], {}, ""
        case "logs":
            groups = [duty.arn("logs", f"log-group:/aws/{of}/{duty.cluster}/*") for of in ("eks", "vpc")]
            yield "Logs", groups, {}, ""
        case "ssm":
            yield "Ssm", [f"{duty.handover}/{duty.layer}"], {}, ""
        case _:
            raise ValueError(f"no rule limits {action}: write where a deployer may do it")


def _ec2(name: str, duty: Duty, own: Mapping[str, Mapping[str, str]], new: Mapping[str, Mapping[str, str]]) -> Iterator[Scope]:
    anything = [duty.arn("ec2", "*/*")]
    groups = [duty.arn("ec2", "security-group/*"), duty.arn("ec2", "security-group-rule/*")]
    if name == "RunInstances":
        templates = {"ArnLike": {"ec2:LaunchTemplate": duty.arn("ec2", "launch-template/*")}}
        yield "Ec2Nodes", [*anything, f"arn:aws:ec2:{duty.region}::image/*"], templates, ""
        return
    yield "Ec2Own", anything, own, ""
    if name == "CreateTags":
        # While something is made, and never what is there: with the tag it would become the environment's.
        yield "Ec2TagNew", anything, {**new, "Null": {"ec2:CreateAction": "false"}}, ""
    elif name.startswith(("Create", "Allocate")):
        yield "Ec2New", anything, new, ""
    elif name.startswith("Authorize"):
        # The rule alone is new: the tag that it gets says nothing of its group.
        yield "Ec2NewRules", groups[1:], new, ""
    if name.startswith(("Authorize", "Modify", "Revoke")) and "SecurityGroup" in name:
        # EKS makes the group of control plane and nodes, with its own tags alone.
        yield "Ec2ClusterGroup", groups, {"StringEquals": {"aws:ResourceTag/aws:eks:cluster-name": duty.cluster}}, ""
    if name in ("CreateTags", "RevokeSecurityGroupIngress", "RevokeSecurityGroupEgress"):
        # The group that comes with the network is first tagged, then emptied, its rules by their ids; none of them bears a tag
        # (`internal/service/ec2/vpc_default_security_group.go`). No key of IAM says that a group is such a one.
        bare = {"Null": {f"aws:ResourceTag/{tag}": "true" for tag in (ENVIRONMENT_TAG, *_OTHERS_TAGS)}}
        yield f"Ec2DefaultGroup{'Tags' if name == 'CreateTags' else ''}", groups[:1], {**bare, **(new if name == "CreateTags" else {})}, ""
        if name != "CreateTags":
            yield "Ec2DefaultRules", groups[1:], {"Null": {f"aws:ResourceTag/{ENVIRONMENT_TAG}": "true"}}, ""


def _eks_of_tenant(name: str, duty: Duty) -> Iterator[Scope]:
    """Associations have made-up ids: a tenant's are those with its tags, which it gives to new ones only."""
    cluster, associations = duty.eks[:1], [arn for arn in duty.eks if ":podidentityassociation/" in arn]
    marks = {LAYER_TAG: "tenant", TENANT: duty.layer}
    mine = {f"aws:ResourceTag/{key}": value for key, value in marks.items()}
    if name.startswith(("Create", "List")):
        yield "EksAsk", cluster, {}, ""
        return
    yield "Eks", associations, {"StringEquals": mine}, ""
    if name == "TagResource":
        new = {f"aws:RequestTag/{key}": value for key, value in marks.items()}
        yield "EksTagNew", associations, {"StringEquals": new, "StringEqualsIfExists": mine}, ""


def _iam(action: str, duty: Duty) -> Iterator[Scope]:
    bounded = {"StringEquals": {"iam:PermissionsBoundary": duty.policy_arn(WORKLOADS)}}
    if action == "iam:PassRole":
        yield "IamPass", duty.roles, {"StringEquals": {"iam:PassedToService": list(PASSED_TO[duty.kind])}}, ""
    elif action == "iam:CreateServiceLinkedRole":
        roles = [f"arn:aws:iam::{duty.account_id}:role/aws-service-role/{service}/*" for service in SERVICES]
        yield "IamServiceLinked", roles, {"StringEquals": {"iam:AWSServiceName": list(SERVICES)}}, ""
    elif "OpenIDConnectProvider" in action:
        yield "IamOidc", [f"arn:aws:iam::{duty.account_id}:oidc-provider/oidc.eks.{duty.region}.amazonaws.com/*"], {}, ""
    elif action in ATTACHES:
        policies = [f"{MANAGED}*{name}" for name in ATTACHED]
        yield "IamAttach", duty.roles, {**bounded, "ArnLike": {"iam:PolicyARN": policies}}, ""
    elif duty.kind == "tenant" and duty.binding is Binding.IRSA and action in _TAGS:
        yield _tagged(action, duty, bounded)
    elif action in BOUND:
        yield "IamBounded", duty.roles, bounded, ""
    else:
        yield "Iam", duty.roles, {}, ""
        if action == "iam:GetRole" and duty.kind == "cluster":
            # EKS looks with the caller's rights whether its own roles are there (terraform-aws-modules/terraform-aws-eks#823: "Failed to validate
            # if SLR ... already exists due to missing permissions for 'iam:GetRole'"). Of one that is not there IAM knows no path, and judges by
            # the name alone (told of a run in which the paths were allowed, by IAM's access troubleshooter; two such runs are on record).
            role = f"arn:aws:iam::{duty.account_id}:role"
            paths = [f"{role}/aws-service-role/{service}/*" for service in SERVICES if service.startswith("eks")]
            linked = [*paths, f"{role}/AWSServiceRoleForAmazonEKS*"]
            yield "IamLinked", linked, {}, ""


def _tagged(action: str, duty: Duty, bounded: Mapping[str, Mapping[str, str]]) -> Scope:
    """Under IRSA the role itself says which namespace's it is, and buckets believe it: a tenant's says no other's, and
    never nothing. With Pod Identity EKS says so, of each session.
    """
    own = {f"aws:RequestTag/{NAMESPACE_TAG}": duty.layer}
    match action:
        case "iam:CreateRole":
            return "IamCreate", duty.roles, {"StringEquals": {**bounded["StringEquals"], **own}}, ""
        case "iam:TagRole":
            return "IamTag", duty.roles, {"StringEqualsIfExists": own}, ""
        case _:
            return "IamUntag", duty.roles, {"ForAllValues:StringNotEquals": {"aws:TagKeys": [NAMESPACE_TAG]}}, ""


def _cluster_known(duty: Duty) -> Iterator[Statement]:
    """What `aws eks update-kubeconfig` asks; a token needs no permission, and Kubernetes decides about the rest."""
    yield Statement(sid="FindCluster", actions=["eks:DescribeCluster"], resources=duty.eks[:1])


def _reads_handover(duty: Duty) -> Statement:
    return Statement(sid="ReadHandover", actions=["ssm:GetParametersByPath"], resources=[duty.handover])


def _state(duty: Duty) -> tuple[Statement, ...]:
    """Pulumi's state below the layer's own prefix, and the key of its secrets.

    Source: pulumi/pulumi, pkg/backend/diy/backend.go: everything lies below the prefix of the backend's URL.
    """
    bucket, prefix = f"arn:aws:s3:::{duty.state_bucket}", f"{duty.environment}/{duty.layer}/"
    key = {"ForAnyValue:StringEquals": {"kms:ResourceAliases": duty.state_key_alias}}
    return (
        Statement(sid="State", actions=["s3:DeleteObject", "s3:GetObject", "s3:PutObject"], resources=[f"{bucket}/{prefix}*"]),
        finds("FindState", bucket, f"{prefix}*"),
        Statement(
            sid="StateSecrets",
            actions=["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt"],
            resources=[duty.arn("kms", "key/*")],
            conditions=key,
        ),
    )


def _releases(duty: Duty) -> tuple[Statement, ...]:
    """The tenant's part of the ledger, its artifacts, and the samples of its requests."""
    ledger, tenant = duty.bucket("ledger"), duty.layer
    mine = [f"{ledger}/{tenant}/*", f"{ledger}/{LEDGER_LEASES}{tenant}/*", f"{ledger}/{LEDGER_LEASES}probe/*"]
    listed = [f"{tenant}/*", f"{LEDGER_LEASES}{tenant}/*"]
    # Written out: a star would also stand for another tenant, one of whose models has this tenant's name.
    samples = [f"{PREFIX}/{days}d/{tenant}/*" for days in KEPT_DAYS]
    return (
        # Versions: what was first written under a number is the event, whatever was deleted or written there since.
        Statement(sid="Ledger", actions=["s3:GetObject", "s3:GetObjectVersion", "s3:PutObject"], resources=mine),
        # A lease that is renewed is a version each time. Who may say for how long it is kept could also say so of events, if it might
        # do so there; the bound is the most that is asked (service authorization reference, Amazon S3, condition keys).
        Statement(
            sid="KeepLeasesBriefly",
            actions=["s3:PutObjectRetention"],
            resources=[each for each in mine if LEDGER_LEASES in each],
            conditions={"NumericLessThanEquals": {"s3:object-lock-remaining-retention-days": "1"}},
        ),
        finds("FindEvents", ledger, *listed),
        finds_versions(ledger, *listed),
        # Who may write the ledger's bucket is not by that allowed to say what was in it.
        Statement(sid="Witness", actions=["ssm:GetParameter", "ssm:PutParameter"], resources=[f"{duty.witness}/{tenant}/*"]),
        Statement(
            sid="ReadModels",
            actions=["s3:GetObject"],
            resources=[f"{duty.bucket('artifacts')}/{tenant}/*", *(f"{duty.bucket('telemetry')}/{each}" for each in samples)],
        ),
        # By the minute in which they were stored (`headway/environment/request_samples.py`).
        Statement(
            sid="FindSamples",
            actions=["s3:ListBucket"],
            resources=[duty.bucket("telemetry")],
            conditions={"StringLike": {"s3:prefix": samples}},
        ),
        _uses_key(duty),
    )


def _uploads(duty: Duty) -> tuple[Statement, ...]:
    """`headway artifact push`, which asks what is there and resumes what was interrupted."""
    actions = ["s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:PutObject"]
    artifacts = duty.bucket("artifacts")
    return (
        Statement(sid="PushModels", actions=actions, resources=[f"{artifacts}/{duty.layer}/*"]),
        finds("FindModels", artifacts, f"{duty.layer}/*"),
        # No key of its context names a prefix (service authorization reference, Amazon S3).
        Statement(sid="FindUploads", actions=["s3:ListBucketMultipartUploads"], resources=[artifacts]),
    )
