"""The queue of batch requests, and the one that keeps what could not be served.

A message that is worked on longer than the visibility timeout is handed out again, to be computed twice.
"""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.permissions import Statement, document

VISIBILITY_SECONDS = 900
"""Longest time that one batch request may take, start of a worker's pod excluded."""

TRIES = 5
"""A poison message stops a worker five times, then waits for a person."""

KEPT_SECONDS = 14 * 24 * 3600
"""SQS keeps no message longer."""


@dataclass(frozen=True, kw_only=True)
class QueueArgs:
    """`name` is the physical name; the dead-letter queue adds `-dead`."""

    name: str
    account_id: str
    region: str
    key_arn: pulumi.Input[str]


class Queue(pulumi.ComponentResource):
    """Creates an SQS queue and its dead-letter queue. `arn` follows from the physical name."""

    arn: str
    url: pulumi.Output[str]

    def __init__(self, name: str, args: QueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:storage:Queue", name, {}, opts)
        self._name, self._args = name, args
        dead = self._create("dead", f"{args.name}-dead", None)
        live = self._create("live", args.name, dead.arn)
        self.arn, self.url = self._arn(args.name), live.url
        self.register_outputs({"arn": self.arn, "url": self.url})

    def _arn(self, physical_name: str) -> str:
        return f"arn:aws:sqs:{self._args.region}:{self._args.account_id}:{physical_name}"

    def _create(self, role: str, physical_name: str, dead_letter_arn: pulumi.Output[str] | None) -> aws.sqs.Queue:
        child = pulumi.ResourceOptions(parent=self)
        queue = aws.sqs.Queue(
            f"{self._name}-{role}",
            name=physical_name,
            kms_master_key_id=self._args.key_arn,
            message_retention_seconds=KEPT_SECONDS,
            visibility_timeout_seconds=VISIBILITY_SECONDS,
            receive_wait_time_seconds=20,
            redrive_policy=None
            if dead_letter_arn is None
            else pulumi.Output.json_dumps({"deadLetterTargetArn": dead_letter_arn, "maxReceiveCount": TRIES}),
            opts=child,
        )
        tls_only = Statement(
            sid="TlsOnly",
            effect="Deny",
            principal="*",
            actions=["sqs:*"],
            resources=[self._arn(physical_name)],
            conditions={"Bool": {"aws:SecureTransport": "false"}},
        )
        aws.sqs.QueuePolicy(f"{self._name}-{role}-policy", queue_url=queue.url, policy=document(tls_only), opts=child)
        return queue
