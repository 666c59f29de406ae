"""What is known of a version since its promotion, for people and programs: its labelled answers, and what its users send and get. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headway.ledger.events import Event
from headway.release.evaluation.standing import VersionStanding, evaluated
from headway.release.evaluation.watched import DriftTold, drift_told
from headway.release.evaluator.evaluator import described


@dataclass(frozen=True, kw_only=True)
class AfterPromotion:
    """`answers`: None for one that was never asked; `drift`: None for one of which nothing was watched."""

    answers: VersionStanding | None = None
    drift: DriftTold | None = None

    @classmethod
    def of(cls, release: str | None, *, evaluations: Iterable[Event], drift: Iterable[Event]) -> "AfterPromotion":
        """Of a release, by the two chains. Raises UserError for an event of a newer Headway."""
        return cls(answers=evaluated(evaluations).newest(release), drift=drift_told(drift, release))

    @property
    def known(self) -> bool:
        """Whether there is anything to say."""
        return bool(self.answers or self.drift)

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "evaluation": described(self.answers) if self.answers else None,
            "drift": self.drift.document() if self.drift else None,
        }
