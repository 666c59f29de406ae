"""Alarms of batch queues, told to the tenant's owner: answers that will be late, and messages that nothing could
answer.

CloudWatch's, because only SQS knows how old its oldest message is, and because they speak when no worker and no
Prometheus runs. SQS forgets a message at its deadline without a word; the first alarm comes at half of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from components.naming import cluster_name
from components.tenant.queues import queue_name
from components.tenant.surroundings import Surroundings
from headway.contract.model import Model

PERIOD_SECONDS = 300
"""How often SQS reports the age of its oldest message to CloudWatch: no alarm can know more."""


def topic_name(tenant: str, surroundings: Surroundings) -> str:
    return f"{cluster_name(surroundings.environment)}-{tenant}-batch"


def alarms(tenant: str, models: Sequence[Model], surroundings: Surroundings) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """(role, arguments of the alarm, without whom it tells), two for each model with a batch variant."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for model in models:
        if model.batch is None:
            continue
        queue = queue_name(surroundings.environment, tenant, model.name)
        late = model.batch.deadline.whole_seconds // 2
        found += [
            (
                f"{model.name}-batch-late",
                {
                    **_of(queue, "ApproximateAgeOfOldestMessage", late),
                    "name": f"{queue}-late",
                    "alarm_description": f"{tenant}/{model.name}: the oldest batch message has waited for half of its deadline of "
                    f"{model.batch.deadline}, when SQS deletes it. {surroundings.runbooks}/batch-late.md",
                },
            ),
            (
                f"{model.name}-batch-unanswered",
                {
                    **_of(f"{queue}-dead", "ApproximateNumberOfMessagesVisible", 0),
                    "name": f"{queue}-unanswered",
                    "alarm_description": f"{tenant}/{model.name}: batch messages failed {model.batch.attempts} times and were moved to {queue}-dead. "
                    f"{surroundings.runbooks}/batch-unanswered.md",
                },
            ),
        ]
    return tuple(found)


def _of(queue: str, metric: str, threshold: int) -> dict[str, Any]:
    return {
        "namespace": "AWS/SQS",
        "metric_name": metric,
        "dimensions": {"QueueName": queue},
        "statistic": "Maximum",
        "period": PERIOD_SECONDS,
        "evaluation_periods": 1,
        "comparison_operator": "GreaterThanThreshold",
        "threshold": threshold,
        # SQS stops reporting of a queue that nobody has touched for six hours: then nothing waits in it.
        "treat_missing_data": "notBreaching",
    }
