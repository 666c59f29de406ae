"""How requests are joined into batches: Triton's dynamic batching, vLLM's continuous batching, or none.

The trap: a batch delay is latency that every request may pay; a change of it is a release like any other.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from headway.contract.part import Count, Part, between
from headway.contract.units import Duration
from headway.problem import Problem, problem


class DynamicBatching(Part):
    """Triton joins waiting requests, up to each model's `max_batch`."""

    kind: Literal["dynamic"]
    """`dynamic`: Triton only."""
    max_delay: Annotated[Duration, between(Duration(0), Duration.parse("1s"))]
    """Longest time a request waits for others to join its batch."""
    preferred: Annotated[tuple[Annotated[Count, Field(le=4096)], ...], Field(max_length=8)] = ()
    """Batch sizes to prefer, ascending; empty lets Triton take what is there."""
    max_queue: Annotated[Count, Field(le=100_000)]
    """Requests that may wait in a replica; the server answers 503 to further ones."""
    queue_timeout: Annotated[Duration, between(Duration.parse("1s"), Duration.parse("10m"))]
    """Longest time in the queue; then 503. At least 1 s: Triton's queue policy stalls about half a second now and then."""

    def violations(self) -> Iterator[Problem]:
        if list(self.preferred) != sorted(set(self.preferred)):
            yield problem(
                "preferred-batches-ascend",
                "preferred",
                value=list(self.preferred),
                fact="preferred batch sizes do not ascend",
                consequence="Triton takes the first that it can fill, so later ones would never be used",
                remedy=f"Write {sorted(set(self.preferred))}",
            )


class ContinuousBatching(Part):
    """vLLM adds and removes sequences at every step."""

    kind: Literal["continuous"]
    """`continuous`: vLLM only."""
    max_sequences: Annotated[Count, Field(le=4096)]
    """Sequences computed at the same time (`--max-num-seqs`)."""
    max_batched_tokens: Annotated[Count, Field(le=1_000_000)]
    """Tokens of one step (`--max-num-batched-tokens`): larger raises throughput, smaller steadies inter-token latency."""


class NoBatching(Part):
    """Each request is computed alone, or the container batches by itself."""

    kind: Literal["none"]
    """`none`."""
    max_concurrent: Annotated[Count, Field(le=10_000)]
    """Requests that a replica takes at the same time; the proxy answers 503 to further ones."""


Batching = Annotated[DynamicBatching | ContinuousBatching | NoBatching, Field(discriminator="kind")]
