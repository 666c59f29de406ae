"""What people are told of one service's alerts, from the first until the last has ended: a cause, at most one correction of it for each page that
began, what is true beside it, and its end. Pure.

People know what Alertmanager holds, which survives the loop; an alert with the same labels that is given again is no new message there, only
one that lasts longer, and one that has ended ends (Alertmanager v0.28.1: `types/types.go`, `Alert.Merge`; `provider/mem/mem.go`, `Put`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.diagnosis.objects import seconds
from headway.diagnosis.reasoning import DiagnosisVerdict
from headway.timestamp import rfc3339
from headway.wire import CAUSE_URGENCY

PAGE, TICKET = "page", "ticket"
LASTS_SECONDS: Mapping[str, float] = {PAGE: 600.0, TICKET: 7200.0}
"""How long a cause lasts that nobody ends: twice as long as until Alertmanager asks again for as long as the alert fires (`DIAGNOSIS_REPEAT` of
`components/observability/routes.py`)."""
CORRECTION, ALSO = "Correction: ", "Also: "
MOST_CAUSES = 4
"""Told of one service at once: who has more has another problem."""
_UNDECIDED = {each.value for each in DiagnosisVerdict} - {DiagnosisVerdict.CAUSE.value}

KnownCause = Mapping[str, Any]
"""An alert as Alertmanager's API has it: labels, annotations, startsAt."""


@dataclass(frozen=True, kw_only=True)
class FoundCauses:
    """What one look found. `fresh`: causes that may be new to people, or else that what hurts most has none that is known; `stale`: causes that
    are over, or began long before a page: they answer where nothing else does, keep what was told of them, and correct nothing."""

    fresh: tuple[KnownCause, ...] = ()
    stale: tuple[KnownCause, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CauseNews:
    """`given`: what Alertmanager is to be given; `told`: those of it that are new to people; `corrects`: whether they were told otherwise before."""

    given: tuple[KnownCause, ...] = ()
    told: tuple[KnownCause, ...] = ()
    corrects: bool = False


def news(found: FoundCauses, known: Sequence[KnownCause], *, urgency: str, at: float, first: bool = False, began: float = 0.0) -> CauseNews:
    """What to tell of what was `found` just now (`at` in Unix seconds) about alerts of this urgency, the newest of which `began` then, where
    people know `known`. What they know says itself that it was a correction, so that there is no second one before another alert begins,
    whichever replica of the loop is asked. What is found beside a cause that still holds corrects nothing. That nobody knows why is told
    neither by the `first` look at a page, which a second one follows, nor by a ticket; a ticket tells nothing that a page has told, and its
    cause is not corrected."""
    if urgency == PAGE:
        known = [each for each in known if _urgency(each) == PAGE]
    elif any(_urgency(each) == PAGE for each in known):
        return CauseNews()
    decided = [each for each in found.fresh if is_decided(each)]
    if not known:
        answers = tuple(decided) or found.stale
        if found.fresh and not decided and urgency == PAGE:
            answers = () if first else found.fresh
        return CauseNews(given=answers[:MOST_CAUSES], told=answers[:MOST_CAUSES])
    held = {_key(each) for each in known}
    same = tuple(_again(each, known) for each in (*decided, *found.stale) if _key(each) in held)
    new = [each for each in decided if _key(each) not in held]
    others = _lasting(_others(known, same), at)
    if new and same and urgency == PAGE:
        told = tuple(_called(ALSO, each) for each in new[: max(MOST_CAUSES - len(same), 0)])
        return CauseNews(given=(*told, *same, *others), told=told)
    if new and urgency == PAGE and not any(_is_correction(each) and _told_at(each) >= began for each in known):
        told = tuple(_called(CORRECTION, each) for each in new[:MOST_CAUSES])
        return CauseNews(given=(*told, *ended(known, at)), told=told, corrects=True)
    return CauseNews(given=(*same, *others) if new or not same else same)


def _others(known: Iterable[KnownCause], than: Iterable[KnownCause]) -> tuple[KnownCause, ...]:
    keys = {_key(each) for each in than}
    return tuple(each for each in known if _key(each) not in keys)


def ended(known: Iterable[KnownCause], at: float) -> tuple[KnownCause, ...]:
    """The same causes, which end now."""
    return tuple({**each, "endsAt": moment(at)} for each in known)


def over(known: Iterable[KnownCause], *, paged: bool, fires: bool) -> tuple[KnownCause, ...]:
    """Those that explain nothing any more. `paged`: whether a page about the service fires; `fires`: whether any alert does."""
    return tuple(each for each in known if not (paged if _urgency(each) == PAGE else fires))


def is_decided(this: KnownCause) -> bool:
    """Whether it says a cause, and not that nobody knows one."""
    return this["labels"].get("cause") not in _UNDECIDED


def moment(at: float) -> str:
    """Unix seconds as Alertmanager's API has them."""
    return rfc3339(at, "milliseconds")


def _lasting(known: Sequence[KnownCause], at: float) -> tuple[KnownCause, ...]:
    return tuple({**each, "endsAt": moment(at + LASTS_SECONDS[_urgency(each)])} for each in known)


def _again(this: KnownCause, known: Iterable[KnownCause]) -> KnownCause:
    """A cause that is known, called as it was."""
    before = next((_summary(each) for each in known if _key(each) == _key(this)), "")
    return next((_called(word, this) for word in (CORRECTION, ALSO) if before.startswith(word)), this)


def _is_correction(this: KnownCause) -> bool:
    return _summary(this).startswith(CORRECTION)


def _told_at(this: KnownCause) -> float:
    """In Unix seconds; 0 where Alertmanager does not say."""
    return seconds(this.get("startsAt")) or 0.0


def _summary(this: KnownCause) -> str:
    return str(this.get("annotations", {}).get("summary", ""))


def _called(word: str, this: KnownCause) -> KnownCause:
    notes = this["annotations"]
    return {**this, "annotations": {**notes, "summary": f"{word}{notes['summary']}"}}


def _urgency(this: KnownCause) -> str:
    return TICKET if this["labels"].get(CAUSE_URGENCY) == TICKET else PAGE


def _key(this: KnownCause) -> tuple[str | None, str | None]:
    return this["labels"].get("cause"), this["labels"].get("place")
