"""Service-level objectives: one signal, one objective, one window each. There is no platform-wide latency number.

A latency objective is its quantile: `quantile: 99%, threshold: 50ms` promises that 99 % of requests are faster than 50 ms.
"""

from enum import StrEnum, unique
from typing import Annotated, Literal

from pydantic import Field

from headway.contract.part import Count, Part, between
from headway.contract.units import Duration, Share

_OBJECTIVE = between(Share.parse("50%"), Share.parse("99.999%"))


@unique
class SloSignal(StrEnum):
    """What is promised. Not what scales a service (`ScalingSignal`), though queue time is both."""

    AVAILABILITY = "availability"
    LATENCY = "latency"
    TTFT = "ttft"
    INTER_TOKEN = "inter_token"  # noqa: S105  tokens of text
    QUEUE_TIME = "queue_time"

    @property
    def of_tokens(self) -> bool:
        """Whether only runtimes that stream tokens have it."""
        return self in (SloSignal.TTFT, SloSignal.INTER_TOKEN)


class _Window(Part):
    window: Annotated[Duration, between(Duration.parse("1d"), Duration.parse("90d"))] = Duration.parse("28d")
    """The time over which the objective holds; the error budget is renewed with it."""
    minimum_requests: Annotated[Count, Field(le=1_000_000)] = 100
    """Alerts stay silent while a burn-rate window has fewer requests: one failure of three is no incident."""


class Availability(_Window):
    """A share of requests is answered without error."""

    signal: Literal[SloSignal.AVAILABILITY]
    """`availability`: answers that are no 5xx, as the mesh counts them."""
    objective: Annotated[Share, _OBJECTIVE]
    """Share of requests without error."""


class LatencyObjective(_Window):
    """A share of requests is faster than a threshold."""

    signal: Literal[SloSignal.LATENCY, SloSignal.TTFT, SloSignal.INTER_TOKEN, SloSignal.QUEUE_TIME]
    """Which time: of the whole request, to the first token, between tokens, or in the queue."""
    quantile: Annotated[Share, _OBJECTIVE]
    """Share of requests that must be faster than the threshold."""
    threshold: Annotated[Duration, between(Duration.parse("1ms"), Duration.parse("1h"))]
    """The time that a request must stay below to count as fast enough."""

    @property
    def objective(self) -> Share:
        return self.quantile


Slo = Annotated[Availability | LatencyObjective, Field(discriminator="signal")]
