"""Prompts read by replicas of their own (prefill), so that the others only write answers (decode): a form that `check` judges.

A role is its model with the fields of the role in their place, so that every sum about a model holds for it too. The trap: no environment
serves the roles apart yet (ADR 27), so whatever knows an environment's pools refuses the section.
"""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from headway.contract.batching import ContinuousBatching
from headway.contract.envelope import WholeGpu
from headway.contract.part import Count, Name, Part, between
from headway.contract.scaling import replicas_in_order
from headway.contract.units import Bytes, MilliCpu, Rate
from headway.problem import Problem

_MI, _GI = 2**20, 2**30


class Prefill(Part):
    """Replicas that read prompts. The rest of the contract describes those that write answers, and what both have in common."""

    gpu: WholeGpu
    """The GPUs of one replica; of the same generation as those of `envelope.gpu`, for both must compute attention alike."""
    cpu: Annotated[MilliCpu, between(MilliCpu(100), MilliCpu(192_000))]
    """CPU of the server container."""
    memory: Annotated[Bytes, between(Bytes(128 * _MI), Bytes(2 * 2**40))]
    """RAM of the server container, including `shared_memory`."""
    shared_memory: Annotated[Bytes, between(Bytes(0), Bytes(2**40))] = Bytes(0)
    """Size of `/dev/shm`; counts as RAM."""
    batching: ContinuousBatching
    """How prompts are joined into steps."""
    min_replicas: Annotated[Count, Field(le=1000)]
    """Replicas that always run."""
    max_replicas: Annotated[Count, Field(le=1000)]
    """Largest number of replicas; charged to the tenant's quota beside `scaling.max_replicas`."""
    prompt_tokens: Annotated[Count, Field(le=2_000_000)]
    """Tokens of a mean prompt, from traffic: by it prompts and their KV cache are counted."""
    token_capacity: Annotated[Rate, between(Rate(1), Rate.parse("1000000/s"))]
    """Prompt tokens that one replica reads within the objectives, measured under load."""
    pool: Name | None = None
    """The GPU pool to use; left out, the cheapest one that offers `gpu` to the workload class."""

    def violations(self) -> Iterator[Problem]:
        yield from replicas_in_order(self.min_replicas, self.max_replicas)
