"""The KMS keys of an environment: one for each kind of data, each rotated, each open to nobody who has no use for it.

A key's policy lets the account's own IAM policies decide (without that no one could ever change the key) and adds
the AWS services that use it on their own behalf. The trap: EC2 Auto Scaling launches nodes with its service-linked
role, and a node group whose root volume is encrypted with a key that this role cannot use never gets a node, and
says so only in the group's activity history.

Another: "It might take up to five minutes for tag and alias changes to affect KMS key authorization" (AWS KMS developer guide, "ABAC for AWS
KMS"), and a deployer's rights hang on the key's tag. So the key's own policy names who makes it, for what making it asks: that counts at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.permissions import Statement, document

LONGEST_SAVED_DAYS, SHORTEST_SAVED_DAYS = 30, 7
"""What KMS offers between a key's deletion and its end."""

_USE = ("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")
_MAKING = (
    "kms:CreateAlias",
    "kms:DescribeKey",
    "kms:EnableKeyRotation",
    "kms:GetKeyPolicy",
    "kms:GetKeyRotationStatus",
    "kms:ListResourceTags",
    "kms:PutKeyPolicy",
)
_THIS_KEY = "In a key's own policy '*' is that key"


Conditions = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class KeysArgs:
    """`disposable`: whether what the keys encrypt may be lost with the environment. `deployer`: the ARN of the generated role that makes
    them, None where there is none, as a key's policy may name only who exists.
    """

    cluster_name: str
    account_id: str
    region: str
    disposable: bool
    deployer: str | None


class Keys(pulumi.ComponentResource):
    """Creates the KMS keys of a cluster: for Kubernetes secrets, node volumes, stored data and logs. Attributes are
    their ARNs.
    """

    secrets_arn: pulumi.Output[str]
    volumes_arn: pulumi.Output[str]
    data_arn: pulumi.Output[str]
    logs_arn: pulumi.Output[str]

    def __init__(self, name: str, args: KeysArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:keys:Keys", name, {}, opts)
        self._name, self._args = name, args
        self.secrets_arn = self._create("secrets", "Kubernetes secrets in etcd", (), grants={})
        self.volumes_arn = self._create("volumes", "Volumes of nodes and pods", volume_users(args.account_id))
        images = {"StringEquals": {"kms:ViaService": f"ecr.{args.region}.amazonaws.com"}}
        self.data_arn = self._create("data", "Artifacts, ledger, images, queues", alarm_senders(args.account_id), grants=images)
        self.logs_arn = self._create("logs", "CloudWatch log groups", log_writers(args.account_id, args.region))
        self.register_outputs({"secrets_arn": self.secrets_arn, "data_arn": self.data_arn})

    def _create(self, role: str, purpose: str, users: Sequence[Statement], grants: Conditions | None = None) -> pulumi.Output[str]:
        """`grants`: under which conditions a service is given the key by who makes what it encrypts; None where none is."""
        makes = key_makers(self._args.deployer, grants) if self._args.deployer else ()
        child, keep = pulumi.ResourceOptions(parent=self), not self._args.disposable
        key = aws.kms.Key(
            f"{self._name}-{role}",
            description=f"{self._args.cluster_name}: {purpose}",
            enable_key_rotation=True,
            deletion_window_in_days=LONGEST_SAVED_DAYS if keep else SHORTEST_SAVED_DAYS,
            policy=document(account_decides(self._args.account_id), *makes, *users),
            # What a key encrypts ends with it: a destroy, or a renamed component without an alias, must not take it along.
            opts=pulumi.ResourceOptions(parent=self, protect=keep),
        )
        aws.kms.Alias(f"{self._name}-{role}-alias", name=f"alias/{self._args.cluster_name}-{role}", target_key_id=key.key_id, opts=child)
        return key.arn


def account_decides(account_id: str) -> Statement:
    """The account's IAM policies say who may use and who may administer the key."""
    return Statement(
        sid="AccountDecides",
        principal={"AWS": f"arn:aws:iam::{account_id}:root"},
        actions=["kms:*"],
        resources=["*"],
        reason=f"{_THIS_KEY}; without the account's own policies no one could administer it",
    )


def key_makers(deployer: str, grants: Conditions | None) -> tuple[Statement, ...]:
    """Who makes the key: its rotation and alias, what the provider reads of it, and the grant for a service that uses it at once.

    And to change this policy: KMS makes no key whose policy would not let its maker do so (API reference, CreateKey, Policy), by the maker's
    own policies if this one leaves it to them (aws-samples/rds-snapshot-export-to-s3-pipeline#8), where the tag of a key to come says nothing.
    ECR's grant is asked for through ECR (its user guide, "Encryption at rest"). EKS's has no condition: "`kms:GrantIsForAWSResource` is not
    supported for the CreateCluster action, and should not be used" (EKS user guide, `enable-kms.adoc`).
    """
    makes = {"AWS": deployer}
    made = Statement(sid="DeployerMakes", principal=makes, actions=_MAKING, resources=["*"], reason=_THIS_KEY)
    if grants is None:
        return (made,)
    gives = Statement(
        sid="DeployerGrants", principal=makes, actions=["kms:CreateGrant"], resources=["*"], conditions=grants, reason=_THIS_KEY
    )
    return made, gives


def state_users(roles: Sequence[str]) -> tuple[Statement, ...]:
    """Whose state the key's secrets are in: their own policies name the key by its alias, which counts as late as a tag does."""
    return (
        Statement(
            sid="StateUses",
            principal={"AWS": sorted(roles)},
            actions=("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt"),
            resources=["*"],
            reason=_THIS_KEY,
        ),
    )


def volume_users(account_id: str) -> tuple[Statement, ...]:
    """EC2 Auto Scaling encrypts the volumes of the nodes that it launches."""
    scaling = {"AWS": f"arn:aws:iam::{account_id}:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"}
    return (
        Statement(sid="AutoScalingUses", principal=scaling, actions=_USE, resources=["*"], reason=_THIS_KEY),
        Statement(
            sid="AutoScalingGrants",
            principal=scaling,
            actions=["kms:CreateGrant"],
            resources=["*"],
            conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
            reason=_THIS_KEY,
        ),
    )


def alarm_senders(account_id: str) -> tuple[Statement, ...]:
    """CloudWatch publishes this account's alarms to encrypted topics."""
    return (
        Statement(
            sid="AlarmsUse",
            principal={"Service": "cloudwatch.amazonaws.com"},
            actions=("kms:Decrypt", "kms:GenerateDataKey*"),
            resources=["*"],
            conditions={"StringEquals": {"aws:SourceAccount": account_id}},
            reason=_THIS_KEY,
        ),
    )


def log_writers(account_id: str, region: str) -> tuple[Statement, ...]:
    """CloudWatch Logs encrypts the log groups of this account and region."""
    return (
        Statement(
            sid="LogsUse",
            principal={"Service": f"logs.{region}.amazonaws.com"},
            actions=_USE,
            resources=["*"],
            conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": f"arn:aws:logs:{region}:{account_id}:log-group:*"}},
            reason=_THIS_KEY,
        ),
    )
