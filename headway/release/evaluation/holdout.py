"""The labelled requests of a holdout set: one JSON object a line. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue, ValidationError

from headway.bounded_json import bounded_json
from headway.contract.evaluation import ALL, Evaluation
from headway.contract.health import Expectation
from headway.contract.part import Name, Part
from headway.problem import Problem, UserError, problem

CHARACTERS_AT_MOST = 16_384
"""Of a labelled request, as JSON: it travels in the address of the API server's `exec`."""
SLICE_AT_LEAST = 20
"""Requests of a slice: of fewer the same ones would be drawn again and again."""
_PROBLEMS_SHOWN = 20


class LabelledRequest(Part):
    """One line."""

    request: dict[str, JsonValue]
    """The request's body, in the protocol of the runtime."""
    expect: Expectation
    """What the answer must be, as a golden request says it."""
    slices: tuple[Name, ...] = ()
    """The slices to which it belongs."""

    def sent(self) -> Mapping[str, Any]:
        """As it is handed to a replica's own script."""
        return self.model_dump(mode="json", include={"request", "expect"})


@dataclass(frozen=True, kw_only=True)
class HoldoutSet:
    """The lines in their order, of the file with this SHA-256."""

    sha256: str
    lines: Sequence[LabelledRequest]

    def streams(self, number: int, accepted: Mapping[str, float]) -> tuple[str, ...]:
        """Names of what a line is counted for: the whole set, and slices that have a share of their own."""
        return (ALL, *(name for name in self.lines[number].slices if name in accepted))


def accepted_shares(evaluation: Evaluation) -> Mapping[str, float]:
    """Share of wrong answers that is accepted, 0 to 1, of the whole set and of each slice."""
    return {ALL: evaluation.wrong.fraction, **{each.name: each.wrong.fraction for each in evaluation.slices}}


def labelled_requests(content: bytes, evaluation: Evaluation) -> HoldoutSet:
    """The set that the contract names. Raises UserError with everything that is wrong with it, the first twenty problems."""
    lines: list[LabelledRequest] = []
    found: list[Problem] = []
    for number, text in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        try:
            line = LabelledRequest.model_validate(bounded_json(text))
            found += _too_long(number, line)
            lines.append(line)
        except ValidationError as failure:
            said = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in failure.errors()[:3])
            found.append(_unreadable(number, said))
        except ValueError as failure:
            found.append(_unreadable(number, str(failure)))
    if not found:
        found += _disagreements(lines, evaluation)
    if found:
        raise UserError.of(found[:_PROBLEMS_SHOWN])
    return HoldoutSet(sha256=evaluation.holdout.sha256, lines=lines)


def _unreadable(number: int, said: str) -> Problem:
    return problem(
        "holdout-line-is-a-labelled-request",
        number,
        fact=f"line {number} of the holdout set is no labelled request: {said}",
        consequence="The version would be judged by a part of the set only",
        remedy='Write {"request": {...}, "expect": {"compare": ...}} on one line, with "slices" where it belongs to some',
    )


def _too_long(number: int, line: LabelledRequest) -> Iterator[Problem]:
    length = len(json.dumps(line.sent()))
    if length > CHARACTERS_AT_MOST:
        yield problem(
            "labelled-request-is-short",
            number,
            fact=f"line {number} of the holdout set has {length:,} characters, and {CHARACTERS_AT_MOST:,} can be sent",
            consequence="Replicas are asked through the API server, whose addresses hold no more; it would never be asked",
            remedy="Leave it out, or make its input smaller",
        )


def _disagreements(lines: Sequence[LabelledRequest], evaluation: Evaluation) -> Iterator[Problem]:
    holdout = evaluation.holdout
    if len(lines) != holdout.requests:
        yield problem(
            "holdout-is-whole",
            "evaluation",
            "holdout",
            "requests",
            value=holdout.requests,
            fact=f"the holdout set has {len(lines)} lines, and the contract says {holdout.requests}",
            consequence="Nobody could tell whether a part of it is missing",
            remedy=f"Write {len(lines)}, or the digest of the whole file",
        )
    for each in evaluation.slices:
        count = sum(each.name in line.slices for line in lines)
        if count < SLICE_AT_LEAST:
            yield problem(
                "slice-has-requests",
                "evaluation",
                "slices",
                value=each.name,
                fact=f"{count} lines of the holdout set belong to slice {each.name}, and {SLICE_AT_LEAST} are needed",
                consequence="The same few answers would be asked again and again, and the slice be judged by them",
                remedy="Label more requests of it, or leave the slice out",
            )
