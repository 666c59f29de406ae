"""What one check of a verification saw, and what follows from it. Pure.

The trap: a check that saw nothing has not passed. What an environment cannot show, what nobody answered and what there
is none of are three more states, and none of them is `passed`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from headway.problem import Problem


class VerifyState(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_SHOWN = "not shown here"
    """The environment has no such thing, or has it only in part: what could be looked at was right."""
    UNANSWERED = "unanswered"
    """Somebody did not answer, or something was missing to ask with."""
    NOTHING = "nothing to check"


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """What was seen, sentence by sentence, in the order in which it was looked at."""

    evidence: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    not_shown: tuple[str, ...] = ()
    """What the environment cannot show, each with its reason."""
    unanswered: tuple[str, ...] = ()

    @property
    def state(self) -> VerifyState:
        if any(problem.blocking for problem in self.problems):
            return VerifyState.FAILED
        if self.unanswered:
            return VerifyState.UNANSWERED
        if self.not_shown:
            return VerifyState.NOT_SHOWN
        return VerifyState.PASSED if self.evidence else VerifyState.NOTHING


def failed(*problems: Problem) -> Sighting:
    """These problems, and nothing else."""
    return Sighting(problems=problems)


def together(sightings: Iterable[Sighting]) -> Sighting:
    """All of them as one."""
    every = tuple(sightings)
    return Sighting(
        evidence=tuple(each for seen in every for each in seen.evidence),
        problems=tuple(each for seen in every for each in seen.problems),
        not_shown=tuple(dict.fromkeys(each for seen in every for each in seen.not_shown)),
        unanswered=tuple(dict.fromkeys(each for seen in every for each in seen.unanswered)),
    )


@dataclass(frozen=True, kw_only=True)
class VerifyResult:
    """One check of a verification. `began` is UTC in ISO 8601."""

    check: str
    state: VerifyState
    sighting: Sighting
    began: str
    seconds: float
