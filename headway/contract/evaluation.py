"""Continuous evaluation: labelled requests that the serving version is asked for as long as it serves, and what follows from wrong answers.

No part of the release: a new holdout set, or another share, applies at once and to the version that serves. The trap: what is accepted is a
share, not an alarm line; a version that stays below it is accused with a probability of 1 % at most over its whole life.
"""

import re
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum, unique
from typing import Annotated

from pydantic import Field

from headway.contract.artifact import located, without_dots
from headway.contract.part import Count, Digest, Name, Part, between
from headway.contract.units import Bytes, Duration, Share
from headway.problem import Problem, problem

LARGEST_HOLDOUT = Bytes(64 * 2**20)
FEWEST_REQUESTS = 50
AcceptedShare = Annotated[Share, between(Share.parse("0.1%"), Share.parse("50%"))]


@unique
class OnLoss(StrEnum):
    """What follows when it is proven that more answers are wrong than accepted. `roll_back`: the version that served before and is known as
    sound is released again, without steps. `ask`: a person is told."""

    ROLL_BACK = "roll_back"
    ASK = "ask"


class Holdout(Part):
    """Requests with known right answers that nothing was trained on: one file, written once, as an artifact is."""

    uri: Annotated[
        str,
        Field(
            pattern=r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/|artifacts://)([A-Za-z0-9_.=-]+/)+$",
            max_length=512,
            examples=["artifacts://vision/defects-holdout/2026.11/"],
        ),
    ]
    """Prefix in object storage, ending in `/`, as the artifact's; the tenant's name comes first."""
    path: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*\.jsonl$", max_length=255, examples=["holdout.jsonl"])]
    """The file below it: one JSON object a line with `request`, `expect` and, where it belongs to some, `slices`."""
    sha256: Digest
    """SHA-256 of the file; one with another content is not asked."""
    size: Annotated[Bytes, between(Bytes(1), LARGEST_HOLDOUT)]
    """Its size."""
    requests: Annotated[Count, Field(ge=FEWEST_REQUESTS, le=100_000)]
    """How many lines it has."""

    def located(self, bucket: str) -> str:
        """The file's absolute URI in an environment whose artifact bucket is `bucket`."""
        return located(self.uri, bucket) + self.path

    def violations(self) -> Iterator[Problem]:
        yield from without_dots("uri", uri=self.uri)
        if re.search(r"(^|/)latest/", self.uri):
            yield problem(
                "holdout-immutable",
                "uri",
                value=self.uri,
                fact="the prefix contains a part named `latest`",
                consequence="Its content may change, and the set would then be refused for its digest",
                remedy="Point to a prefix that is written once, such as .../<version>/",
            )


class HoldoutSlice(Part):
    """Requests of one kind, which must not get worse even where all together do not."""

    name: Name
    """Its name, as lines of the holdout set have it in `slices`."""
    wrong: AcceptedShare
    """Share of its answers that may be wrong."""


class Evaluation(Part):
    """What the serving version is asked after its promotion, and what follows when it answers worse."""

    holdout: Holdout
    """The labelled requests."""
    like: Name
    """The golden request that they are like: which model they ask."""
    answer: Annotated[str, Field(pattern=r"^(/([^/~]|~[01])*)*$", max_length=255, examples=["/outputs/0/data"])] | None = None
    """Where in the response the labelled answer is, a JSON Pointer; as in that golden request when left out."""
    wrong: AcceptedShare
    """Share of all answers that may be wrong: what the version had wrong when it was promoted, and what you tolerate above it."""
    slices: Annotated[tuple[HoldoutSlice, ...], Field(max_length=16)] = ()
    """Kinds of requests with shares of their own."""
    every: Annotated[Duration, between(Duration.parse("1m"), Duration.parse("1d"))] = Duration.parse("15m")
    """Time between two rounds."""
    requests: Annotated[Count, Field(le=500)] = 40
    """Labelled requests of a round, drawn at random."""
    on_loss: OnLoss
    """What follows from a proven loss."""

    @property
    def per_second(self) -> float:
        """Labelled requests a second, on average."""
        return self.requests / self.every.seconds

    def violations(self) -> Iterator[Problem]:
        for name, times in Counter(each.name for each in self.slices).items():
            if times > 1:
                yield problem(
                    "slice-named-once",
                    "slices",
                    value=name,
                    fact=f"slice {name} is named {times} times",
                    consequence="Two shares would hold for the same answers",
                    remedy="Keep one of them",
                )
        if any(each.name == ALL for each in self.slices):
            yield problem(
                "slice-is-a-part",
                "slices",
                value=ALL,
                fact=f"a slice is named {ALL}",
                consequence=f"Reports call the whole set {ALL}, and nobody could tell the two apart",
                remedy="Give it another name; `wrong` holds for the whole set",
            )


ALL = "all"
"""What the whole set is called beside its slices."""
