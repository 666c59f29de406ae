"""The batch variant: the same release fed from a queue, on spot capacity, below every online service. Nothing of it exists unless asked for.

A store `batches://...` lies in the bucket that each environment's stack file of the tenant names, so that one contract moves from staging to
production. The trap: a batch variant is no part of the release, so that a change of it restarts workers and never a replica that people wait for.
"""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from headway.contract.artifact import without_dots
from headway.contract.part import Count, Name, Part, between
from headway.contract.units import Duration
from headway.problem import Problem, problem

RELATIVE = "batches://"
"""How a store begins that is below the bucket which an environment gives the tenant."""

ANSWERS, REQUESTS = "answers/", "requests/"
"""What workers write and read, below a store."""


def located(store: str, bucket: str) -> str:
    """Where `store` lies in an environment that gives the tenant `bucket`: an absolute prefix."""
    return f"s3://{bucket}/{store.removeprefix(RELATIVE)}" if store.startswith(RELATIVE) else store


def beside(store: str, artifact: str) -> bool:
    """Whether answers would be written below the prefix `artifact`, or around it."""
    answers = store + ANSWERS
    return answers.startswith(artifact) or artifact.startswith(answers)


PLATFORMS_BUCKETS = "headway-"
"""How the name of every bucket of the cluster layer begins (`components/naming.py`)."""


def outside_the_platform(*path: str, value: str) -> Problem:
    """A store, or the bucket of stores, is the platform's."""
    return problem(
        "batch-store-outside-the-platform",
        *path,
        value=value,
        fact="this is a bucket of the platform, or could become one",
        consequence="Ledgers and artifacts lie there, and a model's pods would be given the right to write beside them",
        remedy="Use a bucket of the tenant's own",
    )


def beside_the_artifact(store: str) -> Problem:
    """See `beside`."""
    return problem(
        "batch-writes-beside-the-artifact",
        "batch",
        "store",
        value=store,
        fact="answers would be written below the artifact's own prefix, or around it",
        consequence="Artifacts are immutable, and workers would need the right to change them",
        remedy="Use another prefix, if possible in a bucket of its own",
    )


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
            pattern=r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/|batches://)([A-Za-z0-9_.=-]+/)+$",
            max_length=512,
            examples=["batches://vision/defects/", "s3://example-batch/vision/defects/"],
        ),
    ]
    """Prefix in object storage, ending in `/`: answers are written to `answers/` below it, large requests read from `requests/`.
    `batches://<tenant>/...` lies in the bucket that the tenant's stack file of each environment names; `s3://bucket/...` names one bucket for
    all of them, as an artifact's does. Its first part is the tenant's name; a bucket of the platform is refused."""
    pool: Name | None = None
    """The spot pool to use; left out, the cheapest one that offers the envelope."""

    def violations(self) -> Iterator[Problem]:
        yield from without_dots("store", uri=self.store)
        if self.message_timeout > self.deadline:
            yield problem(
                "message-timeout-within-deadline",
                "message_timeout",
                value=self.message_timeout,
                fact=f"one message may take {self.message_timeout}, and its answer is due after {self.deadline}",
                consequence="A message could be forgotten by the queue while it is worked on",
                remedy=f"Use at most {self.deadline}, or a longer deadline",
            )
