"""IAM policies as typed statements, and the trust documents of workload identities.

A statement that names a wildcard must say why. An ARN that a plan does not know yet makes the whole document
unknown, and a policy pack cannot judge it; so statements with such ARNs belong in a document of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pulumi

VERSION = "2012-10-17"


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One permission. `reason` says why a bare `*`, or an action with one, is needed; without it such a statement is an
    error.

    Names `resources`, or for a denial `all_resources_but`. Raises ValueError for neither, both, or an unexplained
    wildcard.
    """

    sid: str
    actions: Sequence[str]
    resources: Sequence[pulumi.Input[str]] = ()
    all_resources_but: Sequence[pulumi.Input[str]] = ()
    effect: Literal["Allow", "Deny"] = "Allow"
    conditions: Mapping[str, Mapping[str, pulumi.Input[str] | Sequence[pulumi.Input[str]]]] = field(default_factory=dict)
    principal: Mapping[str, pulumi.Input[str] | Sequence[pulumi.Input[str]]] | Literal["*"] | None = None
    """Who, in the policy of a resource; None in the policy of a role."""
    reason: str = ""

    def __post_init__(self) -> None:
        if bool(self.resources) == bool(self.all_resources_but) or (self.all_resources_but and self.effect == "Allow"):
            raise ValueError(f"statement {self.sid} must name its resources, or for a denial all resources but those that it spares")
        wide = [action for action in self.actions if "*" in action] + [r for r in self.resources if r == "*"]
        if wide and self.effect == "Allow" and not self.reason:
            raise ValueError(
                f"statement {self.sid} allows {', '.join(map(str, wide))} without a reason: name what it needs, or say why not"
            )

    def wire(self) -> dict[str, Any]:
        found: dict[str, Any] = {"Sid": self.sid, "Effect": self.effect}
        if self.principal is not None:
            found["Principal"] = self.principal
        found["Action"] = sorted(self.actions)
        found |= {"Resource": list(self.resources)} if self.resources else {"NotResource": list(self.all_resources_but)}
        if self.conditions:
            found["Condition"] = {operator: dict(keys) for operator, keys in sorted(self.conditions.items())}
        return found


def finds(sid: str, bucket_arn: pulumi.Input[str], *patterns: str) -> Statement:
    """List what `patterns` name, and be told of a missing object that it is missing.

    S3 answers 404 only to who may list; with 403, Loki does not start on an empty bucket, nor `pulumi login` on an empty state. A
    request for an object has no `s3:prefix`, so the condition holds where there is none; names of other objects can then be listed
    too, by who asks without a prefix. Source: Amazon S3 API Reference, GetObject, "Permissions"; pulumi/pulumi,
    pkg/backend/diy/meta.go, readPulumiMeta.
    """
    condition = {"StringLikeIfExists": {"s3:prefix": list(patterns)}}
    return Statement(sid=sid, actions=["s3:ListBucket"], resources=[bucket_arn], conditions=condition)


def finds_versions(bucket_arn: pulumi.Input[str], *patterns: str) -> Statement:
    """List the versions of what `patterns` name: what was deleted or overwritten there."""
    condition = {"StringLike": {"s3:prefix": list(patterns)}}
    return Statement(sid="FindVersions", actions=["s3:ListBucketVersions"], resources=[bucket_arn], conditions=condition)


def lists(bucket_arn: pulumi.Input[str], prefix: str) -> Statement:
    """List what lies below `prefix` of a bucket."""
    return finds("List", bucket_arn, prefix, f"{prefix}/*")


def document(*statements: Statement) -> pulumi.Output[str]:
    """The policy document of `statements`, in their order."""
    return pulumi.Output.json_dumps({"Version": VERSION, "Statement": [statement.wire() for statement in statements]})


def _trust(principal: Mapping[str, Any], actions: Sequence[str], condition: Mapping[str, Any]) -> pulumi.Output[str]:
    statement: dict[str, Any] = {"Effect": "Allow", "Principal": principal, "Action": list(actions)}
    if condition:
        statement["Condition"] = condition
    return pulumi.Output.json_dumps({"Version": VERSION, "Statement": [statement]})


def service_trust(service: str, account: str | None = None) -> pulumi.Output[str]:
    """Who may assume a role: an AWS service, for resources of `account` only where the service says on whose behalf
    it asks.
    """
    condition = {"StringEquals": {"aws:SourceAccount": account}} if account else {}
    return _trust({"Service": service}, ["sts:AssumeRole"], condition)


def pod_identity_trust(cluster_arn: str, namespace: str, service_account: str) -> pulumi.Output[str]:
    """Who may assume a role: one service account of one cluster, by the session tags that EKS Pod Identity sets."""
    tags = {
        "aws:RequestTag/eks-cluster-arn": cluster_arn,
        "aws:RequestTag/kubernetes-namespace": namespace,
        "aws:RequestTag/kubernetes-service-account": service_account,
    }
    return _trust({"Service": "pods.eks.amazonaws.com"}, ["sts:AssumeRole", "sts:TagSession"], {"StringEquals": tags})


def irsa_trust(provider_arn: pulumi.Input[str], issuer: pulumi.Input[str], namespace: str, service_account: str) -> pulumi.Output[str]:
    """Who may assume a role: one service account, by its token from the cluster's OIDC `issuer` (with or without the
    scheme).
    """
    host = pulumi.Output.from_input(issuer).apply(lambda url: url.removeprefix("https://"))
    return pulumi.Output.all(provider_arn, host).apply(
        lambda found: _statement_of_irsa(str(found[0]), str(found[1]), f"system:serviceaccount:{namespace}:{service_account}")
    )


def _statement_of_irsa(provider_arn: str, host: str, subject: str) -> pulumi.Output[str]:
    return _trust(
        {"Federated": provider_arn},
        ["sts:AssumeRoleWithWebIdentity"],
        {"StringEquals": {f"{host}:aud": "sts.amazonaws.com", f"{host}:sub": subject}},
    )
