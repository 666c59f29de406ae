"""What of users' requests and answers is watched for drift, as long as a version serves.

No part of the release: it applies at once, to the samples that `data.sample` keeps. A number is all that is taken of a request or an answer, and
the ledger keeps only between which of 32 values of the reference it lay. The trap: traffic has a rhythm; a night is no drift.
"""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum, unique
from typing import Annotated, Literal

from pydantic import Field

from headway.contract.part import Name, Part, between
from headway.contract.units import Duration
from headway.problem import Problem, problem

MOST_NUMBERS = 8
"""That one service watches."""


@unique
class NumberOf(StrEnum):
    """How a part of a body becomes one number. `number`: it is one. `length`: characters of a text, or numbers in a list. `mean`, `largest`: of
    the numbers in a list. `place`: where the largest stands, which is a classifier's label."""

    NUMBER = "number"
    LENGTH = "length"
    MEAN = "mean"
    LARGEST = "largest"
    PLACE = "place"


@unique
class Rhythm(StrEnum):
    """What a value is compared with: all earlier ones, those of the same hour of the day, or of the same hour of the week."""

    NONE = "none"
    DAY = "day"
    WEEK = "week"

    @property
    def whole(self) -> Duration:
        """The shortest reference that holds every hour of it."""
        return Duration.parse({Rhythm.NONE: "1h", Rhythm.DAY: "1d", Rhythm.WEEK: "7d"}[self])


class WatchedNumber(Part):
    """One number of each sampled request or answer."""

    name: Name
    """Its name in reports."""
    of: Literal["request", "response"]
    """`request`: what users send. `response`: what they get."""
    at: Annotated[str, Field(pattern=r"^(/([^/~]|~[01])+)+$", max_length=255, examples=["/outputs/0/data"])]
    """Where in that body it is, a JSON Pointer. `data.log_fields` must keep it."""
    take: NumberOf
    """How it becomes one number."""

    @property
    def way(self) -> tuple[str, ...]:
        """The field as `data.log_fields` writes it, without places in lists."""
        return (self.of, *(step for step in self.at.split("/")[1:] if not step.isdigit()))


class Drift(Part):
    """Numbers that are compared with those of the time after the promotion."""

    numbers: Annotated[tuple[WatchedNumber, ...], Field(min_length=1, max_length=MOST_NUMBERS)]
    """What is watched. All share one probability of a false alarm, so name few."""
    reference: Annotated[Duration, between(Duration.parse("1h"), Duration.parse("14d"))] = Duration.parse("1d")
    """For how long after the promotion it is learned what is usual."""
    rhythm: Rhythm = Rhythm.DAY
    """With which earlier values a value is compared."""

    def violations(self) -> Iterator[Problem]:
        for name, times in Counter(each.name for each in self.numbers).items():
            if times > 1:
                yield problem(
                    "watched-number-named-once",
                    "numbers",
                    value=name,
                    fact=f"number {name} is named {times} times",
                    consequence="Nobody could tell which of them drifted",
                    remedy="Give each a name of its own",
                )
        if self.reference < self.rhythm.whole:
            yield problem(
                "reference-holds-the-rhythm",
                "reference",
                value=self.reference,
                fact=f"the reference of {self.reference} does not hold every hour of a {self.rhythm.value}",
                consequence="Hours that it does not hold have nothing to be compared with",
                remedy=f"Use at least {self.rhythm.whole}, or rhythm: none where traffic has none",
            )


class WatchedTraffic(Part):
    """What a loop must know of a contract to watch its service."""

    drift: Drift
    """What is watched."""
    retention: Duration
    """For how long samples of requests are kept, which says where they are."""
