"""What an environment stores: artifacts, the release ledger, telemetry, access logs, images, batch requests.

A model's files are found by their digest and a release event by its number, so neither bucket ever needs to
overwrite; both refuse to.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from components import identity
from components.addons import loki, tempo
from components.naming import batch_queue_name, bucket_arn, bucket_name, cluster_name
from components.permissions import Statement
from components.storage.bucket import Bucket, BucketArgs
from components.storage.queue import Queue, QueueArgs
from components.storage.registry import ImageRegistry, ImageRegistryArgs
from headway.contract.sampling import KEPT_DAYS, PREFIX
from headway.wire import ARTIFACT_CACHE_NAMESPACE, DIAGNOSIS_NAMESPACE, EVALUATION_NAMESPACE, LEDGER_LEASES

NAMESPACE_TAG = f"aws:PrincipalTag/{identity.NAMESPACE_TAG}"
"""Of a pod's credentials; the pod cannot change it."""

ACCESS_LOG_DAYS = 365
"""Who read which artifact: a year answers most questions of an audit."""


@dataclass(frozen=True, kw_only=True)
class StorageArgs:
    """`telemetry_days` is how long the oldest log or trace is kept."""

    environment: str
    account_id: str
    region: str
    key_arn: pulumi.Input[str]
    ledger_lock_days: int
    superseded_days: int
    telemetry_days: int
    repositories: tuple[str, ...]
    disposable: bool


class Storage(pulumi.ComponentResource):
    """Creates an environment's buckets, image repositories and batch queue."""

    artifacts: Bucket
    ledger: Bucket
    telemetry: Bucket
    registry: ImageRegistry
    batch: Queue

    def __init__(self, name: str, args: StorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:storage:Storage", name, {}, opts)
        self._name, self._args, self._child = name, args, pulumi.ResourceOptions(parent=self)
        self._access_logs = self._create_access_logs()
        self.artifacts = self._create_bucket("artifacts", write_once=True, more=(namespaces_apart(self._name_of("artifacts")),))
        self.ledger = self._create_bucket("ledger", write_once=True, replaced_below=LEDGER_LEASES, lock_days=args.ledger_lock_days)
        samples = {f"{PREFIX}/{days}d/": days for days in KEPT_DAYS}
        self.telemetry = self._create_bucket(
            "telemetry", expire_days=args.telemetry_days, expire_prefixes=(f"{loki.PREFIX}/", f"{tempo.PREFIX}/"), expire_below=samples
        )
        self.registry = ImageRegistry(
            f"{name}-images",
            ImageRegistryArgs(
                cluster_name=cluster_name(args.environment),
                key_arn=args.key_arn,
                repositories=args.repositories,
                disposable=args.disposable,
            ),
            self._child,
        )
        self.batch = Queue(
            f"{name}-batch",
            QueueArgs(
                name=batch_queue_name(args.environment),
                account_id=args.account_id,
                region=args.region,
                key_arn=args.key_arn,
            ),
            self._child,
        )
        self.register_outputs({"artifacts": self.artifacts.name, "ledger": self.ledger.name})

    def _create_access_logs(self) -> Bucket:
        args = self._args
        name = self._name_of("access-logs")
        deliver = Statement(
            sid="DeliverAccessLogs",
            principal={"Service": "logging.s3.amazonaws.com"},
            actions=["s3:PutObject"],
            resources=[f"{bucket_arn(name)}/*"],
            conditions={"StringEquals": {"aws:SourceAccount": args.account_id}},
        )
        return Bucket(
            f"{self._name}-access-logs",
            BucketArgs(
                name=name,
                key_arn=None,
                superseded_days=args.superseded_days,
                disposable=args.disposable,
                expire_days=ACCESS_LOG_DAYS,
                more=(deliver,),
            ),
            self._child,
        )

    def _name_of(self, role: str) -> str:
        return bucket_name(self._args.environment, role, self._args.account_id)

    def _create_bucket(
        self,
        role: str,
        *,
        write_once: bool = False,
        replaced_below: str = "",
        lock_days: int | None = None,
        expire_days: int | None = None,
        expire_prefixes: tuple[str, ...] = ("",),
        expire_below: Mapping[str, int] | None = None,
        more: tuple[Statement, ...] = (),
    ) -> Bucket:
        args = self._args
        return Bucket(
            f"{self._name}-{role}",
            BucketArgs(
                name=self._name_of(role),
                key_arn=args.key_arn,
                superseded_days=args.superseded_days,
                disposable=args.disposable,
                write_once=write_once,
                replaced_below=replaced_below,
                lock_days=lock_days,
                expire_days=expire_days,
                expire_prefixes=expire_prefixes,
                expire_below=expire_below or {},
                access_logs=self._access_logs,
                more=more,
            ),
            self._child,
        )


def namespaces_apart(name: str) -> Statement:
    """A pod reaches objects below its own namespace's name only, whatever its role allows; who carries no such tag is
    not a pod.

    Spared are the stores of artifacts on nodes, which hand to each namespace what is its own, and the loops of evaluation and diagnosis, whose
    roles read holdout sets by their names, and the ledger.
    """
    spared = [ARTIFACT_CACHE_NAMESPACE, DIAGNOSIS_NAMESPACE, EVALUATION_NAMESPACE]
    return Statement(
        sid="NamespacesApart",
        effect="Deny",
        principal="*",
        actions=["s3:*"],
        all_resources_but=[f"{bucket_arn(name)}/${{{NAMESPACE_TAG}}}/*"],
        conditions={"Null": {NAMESPACE_TAG: "false"}, "StringNotEquals": {NAMESPACE_TAG: spared}},
    )
