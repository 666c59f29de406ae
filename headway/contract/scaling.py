"""How many replicas, and which signals move them. KEDA owns the number; the contract owns the bounds and the targets.

The trap: a target is per replica, so `in_flight: 8` means that eight requests at a time are one replica's work.
"""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum, unique
from typing import Annotated, Literal

from pydantic import Field

from headway.contract.part import Count, CountOrNone, Number, Part, between
from headway.contract.units import Duration, Rate, Share
from headway.problem import Problem, problem


@unique
class ScalingSignal(StrEnum):
    """What a replica's load is read from. GPU utilisation is missing on purpose: it reads 100 % whenever any kernel runs."""

    IN_FLIGHT = "in_flight"
    WAITING = "waiting"
    REQUEST_RATE = "request_rate"
    QUEUE_TIME = "queue_time"
    KV_CACHE_USE = "kv_cache_use"
    GPU_ACTIVITY = "gpu_activity"


class CountTrigger(Part):
    """Scale on a number of requests."""

    signal: Literal[ScalingSignal.IN_FLIGHT, ScalingSignal.WAITING]
    """`in_flight`: requests in the server, running or waiting. `waiting`: only those in its queue."""
    target: Annotated[Count, Field(le=100_000)]
    """Requests that one replica should have."""


class RateTrigger(Part):
    """Scale on requests per second."""

    signal: Literal[ScalingSignal.REQUEST_RATE]
    """`request_rate`."""
    target: Annotated[Rate, between(Rate(1), Rate.parse("1000000/s"))]
    """Requests per second that one replica should take."""


class TimeTrigger(Part):
    """Scale on time in the queue."""

    signal: Literal[ScalingSignal.QUEUE_TIME]
    """`queue_time`: mean time between arrival and computation."""
    target: Annotated[Duration, between(Duration.parse("1ms"), Duration.parse("10m"))]
    """The mean queue time to stay below."""


class UseTrigger(Part):
    """Scale on how full a replica is."""

    signal: Literal[ScalingSignal.KV_CACHE_USE, ScalingSignal.GPU_ACTIVITY]
    """`kv_cache_use`: vLLM's cache. `gpu_activity`: share of time with busy multiprocessors; only beside other triggers."""
    target: Annotated[Share, between(Share.parse("10%"), Share.parse("95%"))]
    """The use to stay below."""


Trigger = Annotated[CountTrigger | RateTrigger | TimeTrigger | UseTrigger, Field(discriminator="signal")]


@unique
class ScalingPolicy(StrEnum):
    """How targets become replicas."""

    TARGET = "target"
    SQUARE_ROOT = "square_root"


def replicas_in_order(least: int, most: int) -> Iterator[Problem]:
    """What is wrong with the bounds of an autoscaler."""
    if least > most:
        yield problem(
            "replicas-in-order",
            "max_replicas",
            value=most,
            fact=f"at most {most} replicas is less than at least {least}",
            consequence="The autoscaler refuses such bounds",
            remedy=f"Raise max_replicas to {least} or more, or lower min_replicas",
        )


class Scaling(Part):
    """How many replicas."""

    min_replicas: Annotated[CountOrNone, Field(le=1000)]
    """Replicas that always run. 0 for throughput, and in a development environment: the first request waits until a replica serves."""
    max_replicas: Annotated[Count, Field(le=1000)]
    """Largest number of replicas; the tenant's quota is charged for all of them."""
    capacity: Annotated[Rate, between(Rate(1), Rate.parse("1000000/s"))]
    """Requests that one replica serves within its objectives, measured under load. Cost and quota are calculated with it."""
    token_capacity: Annotated[Rate, between(Rate(1), Rate.parse("1000000/s"))] | None = None
    """Language models: tokens that one replica generates within its objectives, measured under load."""
    triggers: Annotated[tuple[Trigger, ...], Field(min_length=1, max_length=6)]
    """The signals that move the number of replicas; the largest result counts."""
    policy: ScalingPolicy = ScalingPolicy.TARGET
    """`target`: load over target. `square_root`: load plus a headroom that grows with its root; for bursty services."""
    headroom: Annotated[Number, Field(ge=0.5, le=5)] = 2.0
    """Factor of the square root; a higher one costs more and lets requests wait less. Used by `square_root` only."""
    polling: Annotated[Duration, between(Duration.parse("5s"), Duration.parse("5m"))] = Duration.parse("15s")
    """Time between two readings of the signals."""
    scale_down_after: Annotated[Duration, between(Duration.parse("1m"), Duration.parse("1h"))] = Duration.parse("10m")
    """How long load must stay low before replicas go: a GPU replica is slow to come back."""
    warm_replicas: Annotated[CountOrNone, Field(le=100)] = 0
    """Places kept free on running nodes for the next replicas, with images and artifact already there; they cost money."""

    def violations(self) -> Iterator[Problem]:
        yield from replicas_in_order(self.min_replicas, self.max_replicas)
        for signal, times in Counter(trigger.signal for trigger in self.triggers).items():
            if times > 1:
                yield problem(
                    "one-trigger-a-signal",
                    "triggers",
                    value=signal,
                    fact=f"{signal} has {times} triggers",
                    consequence="Only the lower of the targets would have an effect",
                    remedy="Keep one of them",
                )
        if {trigger.signal for trigger in self.triggers} == {ScalingSignal.GPU_ACTIVITY}:
            yield problem(
                "activity-is-no-demand",
                "triggers",
                value="gpu_activity",
                fact="gpu_activity is the only trigger",
                consequence="A busy GPU looks the same whether one request waits or a thousand, so the service would scale too late",
                remedy="Add a trigger of demand: in_flight, waiting, request_rate or queue_time",
            )
        for number, trigger in enumerate(self.triggers):
            if isinstance(trigger, RateTrigger) and trigger.target > self.capacity:
                yield problem(
                    "target-within-capacity",
                    "triggers",
                    number,
                    "target",
                    value=trigger.target,
                    fact=f"a replica is to take {trigger.target}, and it serves {self.capacity} within its objectives",
                    consequence="The service would scale only after its objectives are broken",
                    remedy=f"Use at most {self.capacity}, and about 70 % of it to leave room for bursts",
                )
        if self.departs("headroom") and self.policy is not ScalingPolicy.SQUARE_ROOT:
            yield problem(
                "headroom-is-used",
                "headroom",
                value=self.headroom,
                fact=f"policy {self.policy} does not use headroom",
                consequence="The value would be ignored",
                remedy="Leave it out, or choose policy: square_root",
            )
