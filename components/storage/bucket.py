"""One private bucket: versioned, encrypted, TLS only, closed to the public, its old versions cleaned up.

The trap: Object Lock can be switched on only when a bucket is made, and a bucket with locked objects cannot be
destroyed before the lock ends; in governance mode whoever holds `s3:BypassGovernanceRetention` still can.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from components.naming import bucket_arn
from components.permissions import Statement, document

MULTIPART_DAYS = 7
"""Parts of an upload that was never completed are invisible, and paid for."""


@dataclass(frozen=True, kw_only=True)
class BucketArgs:
    """`name` is the physical name. Encrypted with `key_arn`, or with S3's own key where that is None (access logs
    allow no other).
    """

    name: str
    key_arn: pulumi.Input[str] | None
    superseded_days: int
    disposable: bool
    write_once: bool = False
    """Whether an object, once written, is refused any further write under its name."""
    replaced_below: str = ""
    """Prefix of what may be replaced all the same, by whoever saw its newest version."""
    lock_days: int | None = None
    """Days for which no one may delete an object version (Object Lock, governance mode)."""
    expire_days: int | None = None
    """Days after which current objects are deleted too; None keeps them."""
    expire_prefixes: tuple[str, ...] = ("",)
    """Below which they are: an object that two rules match goes by the shorter one."""
    expire_below: Mapping[str, int] = field(default_factory=dict[str, int])
    """Days after which objects below a prefix are deleted, their former versions a day later."""
    access_logs: "Bucket | None" = None
    """The bucket that receives the access log, once its policy lets S3 deliver there."""
    more: tuple[Statement, ...] = ()
    """Further statements of the bucket's policy."""


class Bucket(pulumi.ComponentResource):
    """Creates a private, versioned and encrypted S3 bucket. `name` waits until it exists; `arn` follows from the
    physical name.
    """

    name: pulumi.Output[str]
    arn: str
    policy: aws.s3.BucketPolicy

    def __init__(self, name: str, args: BucketArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:storage:Bucket", name, {}, opts)
        self._name, self._args, self._child = name, args, pulumi.ResourceOptions(parent=self)
        bucket = aws.s3.Bucket(
            f"{name}-bucket",
            bucket=args.name,
            force_destroy=args.disposable,
            object_lock_enabled=args.lock_days is not None,
            opts=pulumi.ResourceOptions(parent=self, protect=not args.disposable),
        )
        self.name, self.arn = bucket.bucket, bucket_arn(args.name)
        versioning = aws.s3.BucketVersioning(
            f"{name}-versioning", bucket=bucket.bucket, versioning_configuration={"status": "Enabled"}, opts=self._child
        )
        self._encrypt()
        self._close()
        self._keep(pulumi.ResourceOptions(parent=self, depends_on=[versioning]))
        if args.access_logs is not None:
            # S3 has answered InvalidTargetBucketForLogging where the target's access list did not let it in; of policies no source says.
            aws.s3.BucketLogging(
                f"{name}-access-log",
                bucket=self.name,
                target_bucket=args.access_logs.name,
                target_prefix=f"{args.name}/",
                opts=pulumi.ResourceOptions(parent=self, depends_on=[args.access_logs.policy]),
            )
        self.register_outputs({"name": self.name})

    def _encrypt(self) -> None:
        key = self._args.key_arn
        aws.s3.BucketServerSideEncryptionConfiguration(
            f"{self._name}-encryption",
            bucket=self.name,
            rules=[
                {
                    "apply_server_side_encryption_by_default": (
                        {"sse_algorithm": "AES256"} if key is None else {"sse_algorithm": "aws:kms", "kms_master_key_id": key}
                    ),
                    "bucket_key_enabled": key is not None,
                }
            ],
            opts=self._child,
        )

    def _close(self) -> None:
        """No public access, no access lists, and the bucket's own policy."""
        closed = aws.s3.BucketPublicAccessBlock(
            f"{self._name}-closed",
            bucket=self.name,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=self._child,
        )
        aws.s3.BucketOwnershipControls(
            f"{self._name}-ownership", bucket=self.name, rule={"object_ownership": "BucketOwnerEnforced"}, opts=self._child
        )
        # S3 answers two changes of a bucket at once with "conflicting conditional operation"; these two conflict in practice.
        self.policy = aws.s3.BucketPolicy(
            f"{self._name}-policy",
            bucket=self.name,
            policy=document(*policy(self._args)),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[closed]),
        )

    def _keep(self, versioned: pulumi.ResourceOptions) -> None:
        """How long versions are kept, and for how long nobody may delete them."""
        aws.s3.BucketLifecycleConfiguration(f"{self._name}-lifecycle", bucket=self.name, rules=_lifecycle(self._args), opts=versioned)
        if self._args.lock_days is not None:
            aws.s3.BucketObjectLockConfiguration(
                f"{self._name}-lock",
                bucket=self.name,
                rule={"default_retention": {"mode": "GOVERNANCE", "days": self._args.lock_days}},
                opts=versioned,
            )


def policy(args: BucketArgs) -> tuple[Statement, ...]:
    """Who is refused whatever IAM allows, then `args.more`."""
    bucket = bucket_arn(args.name)
    tls_only = Statement(
        sid="TlsOnly",
        effect="Deny",
        principal="*",
        actions=["s3:*"],
        resources=[bucket, f"{bucket}/*"],
        conditions={"Bool": {"aws:SecureTransport": "false"}},
    )
    # https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html
    write_once = Statement(
        sid="WriteOnce",
        effect="Deny",
        principal="*",
        actions=["s3:PutObject"],
        resources=[] if args.replaced_below else [f"{bucket}/*"],
        all_resources_but=[f"{bucket}/{args.replaced_below}*"] if args.replaced_below else [],
        conditions={"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}},
    )
    replaced_knowingly = Statement(
        sid="ReplacedKnowingly",
        effect="Deny",
        principal="*",
        actions=["s3:PutObject"],
        resources=[f"{bucket}/{args.replaced_below}*"],
        conditions={"Null": {"s3:if-none-match": "true", "s3:if-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}},
    )
    conditional = [write_once, *([replaced_knowingly] if args.replaced_below else [])]
    return (tls_only, *(conditional if args.write_once else []), *args.more)


def _lifecycle(args: BucketArgs) -> list[aws.s3.BucketLifecycleConfigurationRuleArgsDict]:
    superseded: aws.s3.BucketLifecycleConfigurationRuleArgsDict = {
        "id": "superseded",
        "status": "Enabled",
        "filter": {"prefix": ""},
        "noncurrent_version_expiration": {"noncurrent_days": args.superseded_days},
        "abort_incomplete_multipart_upload": {"days_after_initiation": MULTIPART_DAYS},
    }
    replaced: list[aws.s3.BucketLifecycleConfigurationRuleArgsDict] = (
        [
            {
                "id": "replaced",
                "status": "Enabled",
                "filter": {"prefix": args.replaced_below},
                "noncurrent_version_expiration": {"noncurrent_days": 1},
            }
        ]
        if args.replaced_below
        else []
    )
    below: list[aws.s3.BucketLifecycleConfigurationRuleArgsDict] = [
        {
            "id": prefix.strip("/").replace("/", "-"),
            "status": "Enabled",
            "filter": {"prefix": prefix},
            "expiration": {"days": days},
            "noncurrent_version_expiration": {"noncurrent_days": 1},
        }
        for prefix, days in sorted(args.expire_below.items())
    ]
    if args.expire_days is None:
        return [superseded, *replaced, *below]
    expired: list[aws.s3.BucketLifecycleConfigurationRuleArgsDict] = [
        {
            "id": f"expired-{prefix.strip('/')}".rstrip("-"),
            "status": "Enabled",
            "filter": {"prefix": prefix},
            "expiration": {"days": args.expire_days},
        }
        for prefix in sorted(args.expire_prefixes)
    ]
    return [superseded, *replaced, *below, *expired]
