"""What one check of the doctor answers: all is well, something is wrong, or it could not be looked at and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from headway.problem import Problem


class CheckState(StrEnum):
    OK = "ok"
    PROBLEM = "problem"
    UNKNOWN = "unknown"
    """Nothing was seen, so nothing is concluded."""


@dataclass(frozen=True, kw_only=True)
class DoctorResult:
    """`name` is stable, for programs; `seen` is a sentence for people, of what was found or why nothing was."""

    name: str
    state: CheckState
    seen: str
    problems: tuple[Problem, ...] = ()

    @property
    def blocking(self) -> bool:
        """Whether the apply would fail."""
        return any(problem.blocking for problem in self.problems)


@dataclass(frozen=True)
class Unanswered:
    """Why a question has no answer: the end of a sentence that begins with who was asked."""

    why: str


def judged(name: str, seen: str, problems: Sequence[Problem] = ()) -> DoctorResult:
    return DoctorResult(name=name, state=CheckState.PROBLEM if problems else CheckState.OK, seen=seen, problems=tuple(problems))


def wrong(problem: Problem) -> DoctorResult:
    """Of the check that the problem's rule names."""
    return judged(problem.rule, "", [problem])


def unknown(name: str, answer: Unanswered) -> DoctorResult:
    return DoctorResult(name=name, state=CheckState.UNKNOWN, seen=f"Not checked: {answer.why}.")
