"""What gives way when a model is overloaded: low priority is rejected, middle goes to a lighter model, high keeps its SLO.

Emitted as configuration of the mesh. The trap: the overloaded model must answer 503 or 429 itself before a proxy can send a retry to the
fallback; an overflow of the proxy's own circuit breaker is never retried elsewhere.
"""

from collections.abc import Iterator
from enum import StrEnum, unique
from typing import Annotated

from pydantic import Field

from headway.contract.part import Count, Name, Part, between
from headway.contract.units import Duration
from headway.problem import Problem, problem


@unique
class RequestPriority(StrEnum):
    """How much a single request matters; the gateway derives it from the caller. Not a pod's priority."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class Fallback(Part):
    """A lighter model that takes over."""

    model: Name
    """Another model of the same tenant that takes the same requests."""
    priorities: Annotated[tuple[RequestPriority, ...], Field(min_length=1, max_length=3)]
    """The priorities whose requests go there when this model is overloaded."""


class Degradation(Part):
    """What the service does under overload, step by step."""

    overload_at: Annotated[Count, Field(le=100_000)]
    """The number of requests in flight from which on a replica counts as overloaded."""
    reject: Annotated[tuple[RequestPriority, ...], Field(max_length=2)] = (RequestPriority.LOW,)
    """The priorities whose requests get 429 under overload."""
    retry_after: Annotated[Duration, between(Duration.parse("1s"), Duration.parse("10m"))] = Duration.parse("2s")
    """How long the 429 tells callers to wait; whole seconds."""
    fallback: Fallback | None = None
    """The model that takes requests of some priorities under overload."""

    def violations(self) -> Iterator[Problem]:
        both = sorted(set(self.reject) & set(self.fallback.priorities if self.fallback else ()))
        if both:
            yield problem(
                "one-rung-a-priority",
                "fallback",
                "priorities",
                value=both[0],
                fact=f"priority {', '.join(both)} is both rejected and sent to the fallback",
                consequence="Only one of them can happen",
                remedy="Keep each priority in one list",
            )
        if RequestPriority.HIGH in self.reject:
            yield problem(
                "high-priority-is-kept",
                "reject",
                value="high",
                fact="high priority is rejected under overload",
                consequence="No requests would be left whose objective is kept",
                remedy="Reject low, or low and normal",
            )
        if int(self.retry_after) % 1_000_000:
            yield problem(
                "retry-after-in-seconds",
                "retry_after",
                value=self.retry_after,
                fact=f"{self.retry_after} is not a whole number of seconds",
                consequence="The Retry-After header can hold whole seconds only",
                remedy=f"Use {Duration(self.retry_after.whole_seconds * 1_000_000)}",
            )
