"""What is to be done for a serving version after each round: ask on, take it back, or tell a person. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.contract.evaluation import ALL, OnLoss
from headway.release.evaluation.accusation import accusation
from headway.release.evaluation.standing import EvaluationHistory, LossAnswer, ProvenLoss, VersionStanding


@dataclass(frozen=True)
class ServedVersion:
    """A release that served, with the digest of its registered content."""

    release: str
    digest: str


def sound_version(history: EvaluationHistory, standing: VersionStanding, served: Sequence[ServedVersion]) -> ServedVersion | None:
    """The newest of those that `served`, oldest first, that is known as sound by the same set and the same shares and was not accused by
    later ones; None where none is."""
    accepted = {name: stream.accepted for name, stream in standing.streams.items()}
    for version in reversed(served):
        sound = history.of(version.release, standing.holdout, accepted).known_sound and not accusation(history, version.release)
        if version.release != standing.release and sound:
            return version
    return None


def answer_to(loss: ProvenLoss, on_loss: OnLoss, to: ServedVersion | None) -> LossAnswer:
    """What follows from a proven loss."""
    if on_loss is OnLoss.ASK:
        return LossAnswer(to=None, reason=f"{found(loss)}; its contract has a person decide")
    if to is None:
        return LossAnswer(to=None, reason=f"{found(loss)}; no version that served before is known as sound, so a person decides")
    return LossAnswer(to=(to.release, to.digest), reason=f"{found(loss)}; {to.release} served before and is known as sound")


def found(loss: ProvenLoss) -> str:
    """What was found, in words."""
    where = "labelled answers" if loss.stream == ALL else f"labelled answers of slice {loss.stream}"
    return f"{loss.wrong} of {loss.asked} {where} were wrong, and {loss.accepted * 100:.3g} % may be"
