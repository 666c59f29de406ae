"""How a serving version stands by its labelled answers, as its own chain of events says. Pure.

The chain lies beside that of the releases (`<tenant>/<model>/evaluation`), so that whoever plans need not read rounds. Evidence is no
part of the events: it is made again from the answers, so everybody who reads the chain comes to the same verdict. Another holdout set or
another accepted share begins anew; a version that serves again goes on where it was.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum, unique
from typing import Any

from headway.contract.evaluation import ALL
from headway.ledger.events import ACCEPTED, Event, unreadable
from headway.problem import ODD
from headway.release.evaluation.lifelong import FALSE_ALARM, LifelongEvidence, begun, observed_all, together
from headway.release.evaluation.loss import BETS, loss_factors


def evaluation_chain(chain: str) -> str:
    """The chain of the evaluations of a service whose releases are in `chain`."""
    return f"{chain}/evaluation"


KNOWN_AFTER = 100
"""Answers after which a version that was not accused, and had no more wrong than accepted, counts as sound."""
WRONG, RIGHT = "1", "0"
"""An answer, as events write it."""


@unique
class EvaluationEvent(StrEnum):
    """Kinds of events of the chain."""

    ROUND = "evaluated"
    """Means labelled requests were answered."""
    LOSS = "loss-proven"
    """Means more answers are wrong than accepted, and says what follows."""
    BACK = "taken-back"
    """Means what followed is over, and how it ended."""


@dataclass(frozen=True, kw_only=True)
class AnswerStream:
    """Answers of the whole set, or of a slice."""

    accepted: float
    evidence: LifelongEvidence = field(default_factory=lambda: begun(BETS))
    asked: int = 0
    wrong: int = 0

    def after(self, answers: str) -> "AnswerStream":
        """With one more round's answers, each `WRONG` or `RIGHT`."""
        lost = [int(answer) for answer in answers]
        evidence = observed_all(self.evidence, loss_factors(lost, self.accepted)) if lost else self.evidence
        return replace(self, evidence=evidence, asked=self.asked + len(answers), wrong=self.wrong + answers.count(WRONG))

    @property
    def value(self) -> float:
        """The e-value against it."""
        return float(self.evidence.value)


@dataclass(frozen=True, kw_only=True)
class ProvenLoss:
    """What was found against a version."""

    stream: str
    """The slice, or the whole set, that says most against it."""
    asked: int
    wrong: int
    accepted: float
    value: float
    """The e-value of all streams together; 1 / FALSE_ALARM proves."""


@dataclass(frozen=True, kw_only=True)
class LossAnswer:
    """What follows from a proven loss. `to`: the release, and its registered content, that is to serve instead; None: a person decides."""

    to: tuple[str, str] | None
    reason: str
    outcome: str = ""
    """How the way back ended; empty while it is due."""

    @property
    def due(self) -> bool:
        """Whether somebody has to carry it out yet."""
        return self.to is not None and not self.outcome


@dataclass(frozen=True, kw_only=True)
class VersionStanding:
    """One version, by one holdout set and the shares that are accepted of it."""

    release: str
    holdout: str
    streams: Mapping[str, AnswerStream]
    rounds: int = 0
    silent: int = 0
    """Requests that got no answer, which says nothing of the version's answers."""
    last: str = ""
    """Time of the last round; empty before the first."""
    answer: LossAnswer | None = None
    """What follows, once a loss was written down."""

    @classmethod
    def new(cls, release: str, holdout: str, accepted: Mapping[str, float]) -> "VersionStanding":
        return cls(release=release, holdout=holdout, streams={name: AnswerStream(accepted=share) for name, share in accepted.items()})

    @property
    def value(self) -> float:
        """The e-value of all streams at one budget."""
        return float(together(tuple(each.evidence for each in self.streams.values())))

    @property
    def loss(self) -> ProvenLoss | None:
        """What is proven by the answers so far."""
        if self.value < 1 / FALSE_ALARM:
            return None
        name, worst = max(self.streams.items(), key=lambda each: each[1].value)
        return ProvenLoss(stream=name, asked=worst.asked, wrong=worst.wrong, accepted=worst.accepted, value=self.value)

    @property
    def known_sound(self) -> bool:
        """Whether it was asked enough, never accused, and had no more wrong than accepted."""
        enough = self.streams[ALL].asked >= KNOWN_AFTER
        return enough and self.answer is None and all(each.wrong <= each.accepted * each.asked for each in self.streams.values())


@dataclass(frozen=True)
class EvaluationHistory:
    """Every version that was ever evaluated, by release, holdout set and accepted shares."""

    standings: Mapping[tuple[str, ...], VersionStanding] = field(default_factory=dict[tuple[str, ...], VersionStanding])

    def of(self, release: str, holdout: str, accepted: Mapping[str, float]) -> VersionStanding:
        """How it stands; as one that was never asked where it was not."""
        return self.standings.get(_key(release, holdout, accepted)) or VersionStanding.new(release, holdout, accepted)

    def newest(self, release: str | None) -> VersionStanding | None:
        """How a release stood when it was last asked, by whichever set and shares; None where it never was."""
        own = [each for each in self.standings.values() if each.release == release]
        return max(own, key=lambda each: each.last, default=None)


def evaluated(events: Iterable[Event], start: EvaluationHistory | None = None) -> EvaluationHistory:
    """Everything that the chain says, after `events`, which follow those that `start` has seen. Raises UserError for an event of a newer
    Headway."""
    standings = dict(start.standings) if start else {}
    for event in events:
        if event.kind == ACCEPTED:
            continue
        try:
            key = _key(event.body["release"], event.body["holdout"], event.body["accepted"])
            before = standings.get(key) or VersionStanding.new(event.body["release"], event.body["holdout"], event.body["accepted"])
            standings[key] = _after(before, event)
        except ODD:
            raise unreadable(event) from None
    return EvaluationHistory(standings)


def _after(before: VersionStanding, event: Event) -> VersionStanding:
    body: Mapping[str, Any] = event.body
    match event.kind:
        case EvaluationEvent.ROUND:
            answers: Mapping[str, str] = body["answers"]
            streams = {name: stream.after(answers.get(name, "")) for name, stream in before.streams.items()}
            return replace(before, streams=streams, rounds=before.rounds + 1, silent=before.silent + int(body["silent"]), last=event.time)
        case EvaluationEvent.LOSS:
            to = body["to"]
            return replace(before, answer=LossAnswer(to=(to["release"], to["digest"]) if to else None, reason=str(body["reason"])))
        case EvaluationEvent.BACK if before.answer:
            return replace(before, answer=replace(before.answer, outcome=str(body["outcome"])))
        case _:
            raise ValueError(event.kind)


def _key(release: str, holdout: str, accepted: Mapping[str, float]) -> tuple[str, ...]:
    return (release, holdout, *(f"{name}={share:.6f}" for name, share in sorted(accepted.items())))
