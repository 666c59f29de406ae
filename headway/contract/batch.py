"""The batch variant: the same release fed from a queue, on spot capacity, below every online service. Nothing of it exists unless asked for."""

from typing import Annotated

from pydantic import Field

from headway.contract.part import Count, Name, Part, between
from headway.contract.units import Duration


class Batch(Part):
    """Workers that take requests from a queue and write answers to object storage."""

    max_replicas: Annotated[Count, Field(le=1000)]
    """Most workers; they go to zero when the queue is empty. Charged to the tenant's quota."""
    messages_per_replica: Annotated[Count, Field(le=100_000)]
    """Waiting messages that one worker should have."""
    deadline: Annotated[Duration, between(Duration.parse("1m"), Duration.parse("14d"))]
    """Longest from message to answer; also how long the queue keeps a message."""
    attempts: Annotated[Count, Field(le=20)] = 5
    """Tries before a message goes to the dead-letter queue; a spot interruption counts as one."""
    message_timeout: Annotated[Duration, between(Duration.parse("10s"), Duration.parse("12h"))]
    """Longest that one message may take; then another worker gets it."""
    pool: Name | None = None
    """The spot pool to use; left out, the cheapest one that offers the envelope."""
