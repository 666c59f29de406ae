"""The queue of a model's batch variant, and the dead-letter queue beside it. One model, one queue. Pure.

The trap: a message that is worked on longer than the visibility timeout is handed out again, to be computed twice.
"""

import json
from collections.abc import Mapping
from typing import Any

from components.tenant.queues import queue_arn, queue_name
from components.tenant.surroundings import Surroundings
from headway.contract.model import Model

KEPT_SECONDS = 14 * 24 * 3600
"""SQS keeps no message longer: what failed for good waits that long for a person."""
POLL_SECONDS = 20
"""The longest poll, for readers that do not say how long they wait."""


def queues(tenant: str, model: Model, surroundings: Surroundings) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """(role, arguments of the resource, without its key): the dead-letter queue first. Empty without a batch
    variant.
    """
    batch = model.batch
    if batch is None:
        return ()
    name, arn = queue_name(surroundings.environment, tenant, model.name), queue_arn(tenant, model.name, surroundings)
    redrive = {"deadLetterTargetArn": f"{arn}-dead", "maxReceiveCount": batch.attempts}
    dead = {"name": f"{name}-dead", "message_retention_seconds": KEPT_SECONDS, "policy": _tls_only(f"{arn}-dead")}
    live = {
        "name": name,
        "message_retention_seconds": batch.deadline.whole_seconds,
        "visibility_timeout_seconds": batch.message_timeout.whole_seconds,
        "receive_wait_time_seconds": POLL_SECONDS,
        "policy": _tls_only(arn),
        "redrive_policy": json.dumps(redrive, sort_keys=True),
    }
    return (("batch-dead", dead), ("batch-queue", live))


def _tls_only(arn: str) -> str:
    statement = {
        "Sid": "TlsOnly",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:*",
        "Resource": arn,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, sort_keys=True)
