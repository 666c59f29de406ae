"""What the requests contain and what may be kept of them: class, retention, the fields that logs may show, the legal record.

Redaction is an allow-list: a field that is not named here never reaches a log, a trace or a stored shadow answer. What is kept, where, and in
which form: `headway.contract.sampling`.
"""

from collections.abc import Iterator
from enum import StrEnum, unique
from typing import Annotated

from pydantic import Field

from headway.contract.part import Part, Text, between
from headway.contract.units import Duration, Share
from headway.problem import Problem, problem


@unique
class DataClass(StrEnum):
    """How much harm the data can do in wrong hands. `personal` is data about identifiable people, whatever its secrecy."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    PERSONAL = "personal"


@unique
class Risk(StrEnum):
    """Risk class under the EU AI Act, as the owner assesses it."""

    MINIMAL = "minimal"
    LIMITED = "limited"
    HIGH = "high"


class Data(Part):
    """What requests may contain, and what is kept of them."""

    classification: DataClass
    """The most sensitive data that a request or an answer may contain."""
    purpose: Text
    """What the model is used for, in a sentence; part of every release record."""
    risk: Risk
    """Risk class under the EU AI Act; part of every release record."""
    retention: Annotated[Duration, between(Duration.parse("1d"), Duration.parse("3650d"))]
    """How long samples of requests are kept at most; they end after 1, 3, 7, 14, 30, 60, 90, 180 or 365 days, the last that is no longer."""
    log_fields: Annotated[
        tuple[Annotated[str, Field(pattern=r"^(request|response)(\.[A-Za-z0-9_-]{1,64}){1,8}$")], ...], Field(max_length=64)
    ] = ()
    """Fields of JSON bodies that samples keep (`request.inputs`, `response.outputs`): each with all it holds, and of every element where a list
    is on the way. All others are dropped. Without one nothing is sampled."""
    sample: Annotated[Share, between(Share(0), Share.parse("100%"))] = Share.parse("1%")
    """Share of requests whose allowed fields are kept, chosen by the request's id. Compared with mirrored copies' answers in a release."""

    @property
    def sampled(self) -> bool:
        """Whether anything that callers wrote is kept at all."""
        return bool(self.log_fields) and int(self.sample) > 0

    def violations(self) -> Iterator[Problem]:
        if self.classification is DataClass.PERSONAL and self.log_fields:
            yield problem(
                "personal-data-is-not-logged",
                "log_fields",
                value=list(self.log_fields),
                fact=f"requests hold personal data and {len(self.log_fields)} of their fields are to be logged",
                consequence="Personal data would be in logs that many people can read and that no deletion request reaches",
                remedy="Leave log_fields empty, or remove personal data before the request and classify it as confidential",
            )
        if self.classification is DataClass.PERSONAL and self.retention > Duration.parse("30d"):
            yield problem(
                "personal-data-is-short-lived",
                "retention",
                value=self.retention,
                fact=f"logs about personal data are kept for {self.retention}",
                consequence="They would be kept longer than the 30 days in which a deletion must take effect",
                remedy="Use at most 30d",
            )
