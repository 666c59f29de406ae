"""The batch variant: the same release fed from a queue, on spot capacity, below every online service. Nothing of it exists unless asked for.

The trap: it is no part of the release, so that a change of it restarts workers and never a replica that people wait for.
"""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from headway.contract.part import Count, Name, Part, between
from headway.contract.units import Duration
from headway.problem import Problem, problem


class Batch(Part):
    """Workers that take requests from a queue and write answers to object storage."""

    max_replicas: Annotated[Count, Field(le=1000)]
    """Largest number of workers; there are none while the queue is empty. Charged to the tenant's quota."""
    messages_per_replica: Annotated[Count, Field(le=100_000)]
    """Waiting messages that one worker should have."""
    deadline: Annotated[Duration, between(Duration.parse("1m"), Duration.parse("14d"))]
    """Longest time from message to answer; also how long the queue keeps a message."""
    attempts: Annotated[Count, Field(le=20)] = 5
    """Tries before a message goes to the dead-letter queue; a spot interruption counts as one."""
    message_timeout: Annotated[Duration, between(Duration.parse("10s"), Duration.parse("12h"))]
    """Longest time that one message may take; then another worker gets it."""
    store: Annotated[
        str,
        Field(
            pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/([A-Za-z0-9_.=-]+/)+$",
            max_length=512,
            examples=["s3://example-batch/vision/defects/"],
        ),
    ]
    """Prefix in object storage, ending in `/`: answers are written to `answers/` below it, large requests read from `requests/`. Its
    first part is the tenant's name; a bucket of the platform is refused."""
    pool: Name | None = None
    """The spot pool to use; left out, the cheapest one that offers the envelope."""

    def violations(self) -> Iterator[Problem]:
        if self.message_timeout > self.deadline:
            yield problem(
                "message-timeout-within-deadline",
                "message_timeout",
                value=self.message_timeout,
                fact=f"one message may take {self.message_timeout}, and its answer is due after {self.deadline}",
                consequence="A message could be forgotten by the queue while it is worked on",
                remedy=f"Use at most {self.deadline}, or a longer deadline",
            )
