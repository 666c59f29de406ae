"""The queue of each model with a batch variant: its name, its address, and what the tenant's workers may do with it.
Pure.

Names, addresses and rights follow from the contracts and the account, so that a plan knows them all. The queues
themselves are made with their models (`components/model_service/queues.py`).
"""

from collections.abc import Sequence

from components.naming import QUEUE_LIMIT, batch_queue_name, distinct
from components.tenant.surroundings import Surroundings
from headway.contract.batch import ANSWERS, REQUESTS
from headway.contract.model import Model

BATCH = "batch"
"""The arm of batch workers, as the label of their pods says it."""


def queue_name(environment: str, tenant: str, model: str) -> str:
    """Physical name of a model's queue; its dead-letter queue adds `-dead`."""
    return distinct(f"{batch_queue_name(environment)}-{tenant}", model, limit=QUEUE_LIMIT)


def queue_arn(tenant: str, model: str, surroundings: Surroundings) -> str:
    name = queue_name(surroundings.environment, tenant, model)
    return f"arn:aws:sqs:{surroundings.region}:{surroundings.account_id}:{name}"


def queue_url(tenant: str, model: str, surroundings: Surroundings) -> str:
    name = queue_name(surroundings.environment, tenant, model)
    return f"https://sqs.{surroundings.region}.amazonaws.com/{surroundings.account_id}/{name}"


def rights(tenant: str, models: Sequence[Model], surroundings: Surroundings) -> tuple[tuple[str, Sequence[str], Sequence[str]], ...]:
    """(statement, actions, ARNs) that workers need: their queues' messages, requests and answers below their stores.
    Nothing else.
    """
    fed = [(model.name, model.batch) for model in models if model.batch]
    if not fed:
        return ()
    stores = sorted({surroundings.store(batch).removeprefix("s3://") for _, batch in fed})
    return (
        (
            "TakeMessages",
            ("sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:ReceiveMessage"),
            sorted(queue_arn(tenant, name, surroundings) for name, _ in fed),
        ),
        ("ReadRequests", ("s3:GetObject",), [f"arn:aws:s3:::{store}{REQUESTS}*" for store in stores]),
        ("WriteAnswers", ("s3:PutObject",), [f"arn:aws:s3:::{store}{ANSWERS}*" for store in stores]),
    )
