"""The queue of a model's batch variant, and the one beside it that keeps what could not be answered. One model, one queue.

Names, addresses and rights follow from the contract and the account, so that a plan knows them all. The trap: a message that is worked on
longer than the visibility timeout is handed out again, to be computed twice.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from components.naming import QUEUE_LIMIT, batch_queue_name, distinct
from components.tenant.surroundings import Surroundings
from headway.contract.labels import PREFIX
from headway.contract.model import Model

ARM = f"{PREFIX}/arm"
"""Label of pods: which part their release plays. In selectors too: the baseline is the stable release a second time."""
BATCH = "batch"
"""The part of batch workers."""
KEPT_SECONDS = 14 * 24 * 3600
"""SQS keeps no message longer: what failed for good waits that long for a person."""
POLL_SECONDS = 20
"""The longest poll, for readers that do not say how long they wait."""


def queue_name(environment: str, tenant: str, model: str) -> str:
    """Physical name of a model's queue; its dead-letter queue adds `-dead`."""
    return distinct(f"{batch_queue_name(environment)}-{tenant}", model, limit=QUEUE_LIMIT)


def queue_arn(tenant: str, model: str, surroundings: Surroundings) -> str:
    name = queue_name(surroundings.environment, tenant, model)
    return f"arn:aws:sqs:{surroundings.region}:{surroundings.account_id}:{name}"


def queue_url(tenant: str, model: str, surroundings: Surroundings) -> str:
    name = queue_name(surroundings.environment, tenant, model)
    return f"https://sqs.{surroundings.region}.amazonaws.com/{surroundings.account_id}/{name}"


def queues(tenant: str, model: Model, surroundings: Surroundings) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """(role, arguments of the resource, without its key): the dead-letter queue first. Empty without a batch variant."""
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


def rights(tenant: str, models: Sequence[Model], surroundings: Surroundings) -> tuple[tuple[str, Sequence[str], Sequence[str]], ...]:
    """(statement, actions, ARNs) that workers need: their queues' messages, requests and answers below their stores. Nothing else."""
    fed = [(model.name, model.batch) for model in models if model.batch]
    if not fed:
        return ()
    stores = sorted({batch.store.removeprefix("s3://") for _, batch in fed})
    return (
        (
            "TakeMessages",
            ("sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:ReceiveMessage"),
            sorted(queue_arn(tenant, name, surroundings) for name, _ in fed),
        ),
        ("ReadRequests", ("s3:GetObject",), [f"arn:aws:s3:::{store}requests/*" for store in stores]),
        ("WriteAnswers", ("s3:PutObject",), [f"arn:aws:s3:::{store}answers/*" for store in stores]),
    )
