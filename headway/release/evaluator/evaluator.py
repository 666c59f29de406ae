"""One look at a service: what serves, whether a round is due, what it answered, and what follows; each written down before the next.

Two loops harm nobody. An event has one writer, so of two rounds that were asked at once the second is dropped; and a way back is a
release, which one runner drives.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum, unique
from random import Random
from typing import Any

from headway.contract.evaluation import Evaluation
from headway.ledger.chain import Ledger, LostError
from headway.ledger.followed import FollowedLedger
from headway.problem import Exit, UserError
from headway.release.driver.event_kinds import ReleaseOutcome
from headway.release.driver.following import followed
from headway.release.driver.rollout_state import ServiceState
from headway.release.evaluation.decision import ServedVersion, answer_to, sound_version
from headway.release.evaluation.holdout import HoldoutSet, accepted_shares
from headway.release.evaluation.standing import RIGHT, WRONG, EvaluationEvent, EvaluationHistory, VersionStanding, evaluated
from headway.release.evaluator.asking import LabelledAnswers


@unique
class EvaluationLook(StrEnum):
    """What a look found or did."""

    UNDER_WAY = "a release is under way"
    """Means the gate judges; nothing was asked."""
    WAITING = "no round is due"
    ASKED = "asked"
    """Means a round was written down, and nothing is proven."""
    LOST = "loss proven"
    """Means a person decides."""
    BACK = "taken back"
    """Means the version that is known as sound serves again."""
    DUE = "to be taken back"
    """Means a version is known as sound, and whoever looked may not release it."""
    STAYED = "not taken back"
    """Means the way back was tried and did not end with the sound version."""


@dataclass(frozen=True, kw_only=True)
class LookResult:
    """What a look found. `wait`: seconds until the next one is worth while."""

    look: EvaluationLook
    release: str
    standing: VersionStanding | None = None
    wait: float = 0.0
    new: bool = False
    """Whether a loss was proven by this very look."""

    @property
    def code(self) -> Exit:
        """How a command ends that looked once."""
        match self.look:
            case EvaluationLook.UNDER_WAY:
                return Exit.UNDER_WAY
            case EvaluationLook.LOST | EvaluationLook.DUE | EvaluationLook.STAYED:
                return Exit.REFUSED
            case EvaluationLook.BACK:
                return Exit.ROLLED_BACK
            case _:
                return Exit.OK

    def document(self) -> dict[str, Any]:
        """For programs."""
        found: dict[str, Any] = {"look": self.look.value, "release": self.release, "next_seconds": self.wait}
        return {**found, **(described(self.standing) if self.standing else {})}


TakeBack = Callable[[ServedVersion, str], ReleaseOutcome]
"""Releases that version again, for that reason, and stays until the release is over."""
AskLines = Callable[[str, HoldoutSet, list[int]], LabelledAnswers]
"""Asks the release the drawn lines. Raises OutOfReachError."""


class Evaluator:
    """Of one service. `rounds`: its chain of evaluations; `releases`: that of its releases. `take_back`: None for who may not. `speed`: for
    the sandbox, where times pass faster."""

    def __init__(
        self,
        *,
        rounds: Ledger,
        releases: Ledger,
        evaluation: Evaluation,
        holdout: Callable[[], HoldoutSet],
        ask: AskLines,
        take_back: TakeBack | None,
        chance: Random,
        now: Callable[[], datetime],
        speed: float = 1.0,
    ) -> None:
        self._rounds, self._releases = FollowedLedger(rounds, evaluated, EvaluationHistory()), followed(releases)
        self._evaluation, self._holdout = evaluation, holdout
        self._ask, self._take_back, self._chance, self._now = ask, take_back, chance, now
        self._every = timedelta(seconds=evaluation.every.seconds / speed)
        self._accepted = accepted_shares(evaluation)

    def look(self) -> LookResult:
        """Once. Raises OutOfReachError, UserError, UnreachableError; what was written down stays."""
        service = self._releases.look()
        self._rounds.attest()  # also what was written by a loop that died then
        release = _serving(self._rounds.chain, service)
        self._settle(release)
        standing = self._standing(release)
        answer, running = standing.answer, service.running
        way = _way_back(standing, service)
        if self._take_back and way and (running is None or running.release == way.release):
            return self._back(standing, way, self._take_back)
        if running:
            return LookResult(look=EvaluationLook.UNDER_WAY, release=release, standing=standing, wait=self._every.total_seconds())
        if answer:
            tried = answer.outcome and answer.outcome != ReleaseOutcome.PROMOTED
            look = EvaluationLook.DUE if way else EvaluationLook.STAYED if tried else EvaluationLook.LOST
            return LookResult(look=look, release=release, standing=standing, wait=self._every.total_seconds())
        if (wait := self._until_due(standing)) > 0:
            return LookResult(look=EvaluationLook.WAITING, release=release, standing=standing, wait=wait)
        return self._round(service, standing)

    def _round(self, service: ServiceState, standing: VersionStanding) -> LookResult:
        holdout = self._holdout()
        drawn = [self._chance.randrange(len(holdout.lines)) for _ in range(self._evaluation.requests)]
        answers = self._ask(standing.release, holdout, drawn)
        counted: dict[str, str] = dict.fromkeys(self._accepted, "")
        for number, right in answers.right:
            for name in holdout.streams(number, self._accepted):
                counted[name] += RIGHT if right else WRONG
        wrong = sorted({number + 1 for number, right in answers.right if not right})
        self._write(EvaluationEvent.ROUND, standing, {"answers": counted, "silent": answers.silent, "wrong_lines": wrong})
        after = self._standing(standing.release)
        wait = max(0.0, self._until_due(after))
        if after.loss is None or after.answer:
            return LookResult(look=EvaluationLook.ASKED, release=after.release, standing=after, wait=wait)
        return self._proven(service, after)

    def _proven(self, service: ServiceState, standing: VersionStanding) -> LookResult:
        loss = standing.loss
        assert loss is not None  # noqa: S101  asked by the caller
        to = sound_version(self._rounds.read(), standing, served(service))
        answer = answer_to(loss, self._evaluation.on_loss, to)
        found = {"stream": loss.stream, "asked": loss.asked, "wrong": loss.wrong, "value": float(f"{loss.value:.6g}")}
        body = {**found, "to": {"release": to.release, "digest": to.digest} if to and answer.to else None, "reason": answer.reason}
        self._write(EvaluationEvent.LOSS, standing, body)
        return replace(self.look(), new=True)

    def _settle(self, serving: str) -> None:
        """Write down what became of a way back whose runner could not, or that a person's release made needless."""
        for standing in self._rounds.read().standings.values():
            answer = standing.answer
            if answer and answer.to and answer.due and standing.release != serving:
                outcome = ReleaseOutcome.PROMOTED.value if serving == answer.to[0] else "superseded"
                self._write(EvaluationEvent.BACK, standing, {"to": answer.to[0], "outcome": outcome, "serves": serving})

    def _back(self, standing: VersionStanding, way: ServedVersion, take_back: TakeBack) -> LookResult:
        """Carry out what a proven loss asks for; a runner that takes over finds it here again."""
        answer = standing.answer
        assert answer is not None  # noqa: S101  it has a way
        outcome = take_back(way, answer.reason)
        serving = _serving(self._rounds.chain, self._releases.read())
        back = serving == way.release
        self._write(EvaluationEvent.BACK, standing, {"to": way.release, "outcome": outcome.value, "serves": serving})
        look = EvaluationLook.BACK if back else EvaluationLook.STAYED
        after = replace(standing, answer=replace(answer, outcome=outcome.value))
        return LookResult(look=look, release=standing.release, standing=after, wait=self._every.total_seconds())

    def _standing(self, release: str) -> VersionStanding:
        return self._rounds.read().of(release, self._evaluation.holdout.sha256, self._accepted)

    def _until_due(self, standing: VersionStanding) -> float:
        if not standing.last:
            return 0.0
        return (datetime.fromisoformat(standing.last) + self._every - self._now()).total_seconds()

    def _write(self, kind: EvaluationEvent, standing: VersionStanding, body: dict[str, Any]) -> None:
        """Nothing where another loop has written meanwhile: whoever reads on finds what it wrote."""
        accepted = {name: stream.accepted for name, stream in standing.streams.items()}
        head = {"release": standing.release, "holdout": standing.holdout, "accepted": accepted}
        with suppress(LostError):
            self._rounds.append(kind, {**head, **body})
        self._rounds.attest()


def _serving(chain: str, service: ServiceState) -> str:
    if service.stable is None:
        raise UserError(
            f"The ledger does not know what serves {chain}.",
            "There is nothing to evaluate.",
            "Deploy the tenant's stack first; what it deploys becomes the first release.",
            Exit.REFUSED,
        )
    return service.stable


def _way_back(standing: VersionStanding, service: ServiceState) -> ServedVersion | None:
    """Where a loss that is not answered yet leads. Who may write evaluations need not be one who may release, so the releases' own chain
    must say that it served, and what it is."""
    answer = standing.answer
    if answer is None or answer.to is None or not answer.due:
        return None
    return next((version for version in served(service) if version.release == answer.to[0]), None)


def served(service: ServiceState) -> tuple[ServedVersion, ...]:
    """Every version that served all users, oldest first; one that served twice stands where it last did."""
    names: list[str] = []
    for rollout in service.past:
        names += [rollout.stable, *([rollout.release] if rollout.outcome is ReleaseOutcome.PROMOTED else [])]
    last = {name: place for place, name in enumerate(names)}
    return tuple(ServedVersion(name, service.known[name]) for name in sorted(last, key=lambda name: last[name]))


def described(standing: VersionStanding) -> dict[str, Any]:
    """How a version stands, for programs and for the report."""
    streams = {
        name: {"asked": each.asked, "wrong": each.wrong, "accepted": each.accepted, "evidence": float(f"{each.value:.4g}")}
        for name, each in standing.streams.items()
    }
    answer = standing.answer
    follows = {"to": answer.to[0] if answer.to else None, "reason": answer.reason, "outcome": answer.outcome} if answer else None
    whole = {"holdout": standing.holdout, "rounds": standing.rounds, "silent": standing.silent, "last": standing.last or None}
    return {**whole, "evidence": float(f"{standing.value:.4g}"), "answers": streams, "loss": follows}
