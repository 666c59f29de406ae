"""What hurts a service now, and since when: each symptom with the measures and states that show it. Pure."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf

from headway.diagnosis.asking import Above, Answer, AnyOf, Rose, Says, Test
from headway.diagnosis.comparison import LEAST_BLOCKS
from headway.diagnosis.facts import CLOCKS_SECONDS, PASSING, SHORTLY_SECONDS, Facts, State, StateKind
from headway.diagnosis.figures import clock
from headway.diagnosis.hypothesis import Symptom
from headway.diagnosis.observed import Observed, facts
from headway.diagnosis.onset import Onset, onset
from headway.release.evidence.samples import TimedValue

_MOST_TIMES = 4
"""At which one symptom began, of those that are told."""
_LEAST_SECONDS = 0.002
"""An answer that takes less more than that is no slower to anybody."""
_BURNS_SECONDS, _PAGES_SECONDS = 300.0, 1800.0
"""So long a budget is said to burn, and somebody is paged for it, after the last of what burnt it: `share5m`, and the longest short window of
a page (components/model_service/objectives.py)."""
_MAY_BURN = 1.0
"""Times as fast as it may."""


@dataclass(frozen=True, kw_only=True)
class SymptomSigns:
    """How a symptom is seen. `past`: what it says once all is well again, of one that is asked for as long as its alerts fire; empty of one that
    is no more as soon as it is over."""

    says: str
    past: str = ""


@dataclass(frozen=True, kw_only=True)
class MeasuredSigns(SymptomSigns):
    """By `test`, asked where one of `measures` changed."""

    measures: tuple[str, ...]
    test: Test


@dataclass(frozen=True, kw_only=True)
class SaidSigns(SymptomSigns):
    """By what objects say."""

    states: tuple[StateKind, ...]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A symptom that holds now. `onset` in Unix seconds; None where it was there before one looked. `calm`: from when on it was well before;
    `states`: those that may explain it; `over`: all is well again; `felt`: when users felt it last, of what they feel no more."""

    symptom: Symptom
    says: str
    said: str
    onset: float | None
    calm: float = 0.0
    states: tuple[State, ...] = ()
    over: bool = False
    felt: float = inf


_WAITING = (
    StateKind.QUOTA_FULL,
    StateKind.IMAGE_MISSING,
    StateKind.ARTIFACTS_MISSING,
    StateKind.GPUS_TAKEN,
    StateKind.CORDONED,
    StateKind.QUARANTINED,
    StateKind.NODE_UNREADY,
    StateKind.UNCUT,
    StateKind.POOL_EMPTY,
    StateKind.GPUS_SCATTERED,
    StateKind.TAINTED,
    StateKind.NODE_UNFIT,
    StateKind.NODE_PRESSURE,
    StateKind.UNPLACED,
    StateKind.UNREADY,
    StateKind.PROBE_FAILING,
    StateKind.HANGING,
    StateKind.LOAD_FAILED,
    StateKind.FETCH_SLOW,
)

_TURNED_AWAY = {
    "limited": 0.01,
    "unproven": 0.01,
    "forbidden": 0.01,
    "malformed": 0.01,
    "gateway_closed": 0.1,
    "gateway_overloaded": 0.05,
}
"""From which level on callers feel it, in the measure's unit. The last two are of connections and proxies, behind which no service is known."""

_FELT: Mapping[Symptom, MeasuredSigns] = {
    Symptom.FAILING: MeasuredSigns(
        says="requests fail",
        past="requests failed",
        measures=("errors", "unreached"),
        test=AnyOf((Above("errors", 0.005), Above("unreached", 0.005))),
    ),
    Symptom.SLOW: MeasuredSigns(
        says="answers take longer", past="answers took longer", measures=("latency",), test=Rose("latency", least=_LEAST_SECONDS)
    ),
}
"""What users feel, and a promise may be broken for."""
_BROKEN = MeasuredSigns(
    says="a promise is broken faster than it may be",
    past="a promise was broken faster than it may be",
    measures=("burn",),
    test=Above("burn", _MAY_BURN),
)

SYMPTOMS: Mapping[Symptom, MeasuredSigns | SaidSigns] = {
    **_FELT,
    Symptom.BROKEN: _BROKEN,
    Symptom.REFUSED: MeasuredSigns(
        says="callers are turned away",
        measures=tuple(_TURNED_AWAY),
        test=AnyOf(tuple(Above(name, level) for name, level in _TURNED_AWAY.items())),
    ),
    Symptom.UNTRUSTED: SaidSigns(says="callers cannot trust the gateway", states=(StateKind.CERTIFICATE_INVALID,)),
    Symptom.ASTRAY: SaidSigns(says="users are sent elsewhere than the ledger says", states=(StateKind.ROUTE_ASTRAY,)),
    Symptom.MISSING: SaidSigns(says="replicas are missing", states=_WAITING),
    Symptom.ENDING: SaidSigns(says="containers end and are started again", past="containers ended and were started again", states=PASSING),
    Symptom.HELD: SaidSigns(says="a release does not go on", states=(StateKind.HELD,)),
    Symptom.SET_APART: SaidSigns(says="a node under it is out of use", states=(StateKind.NODE_SET_APART, StateKind.NODE_NOT_READY)),
    Symptom.UNWATCHED: MeasuredSigns(
        says="what should be measured of it is not",
        measures=("unread", "gpus_silent", "rules_failing"),
        test=AnyOf((Above("unread", 0.01), Above("gpus_silent", 0.01), Above("rules_failing", 0.001))),
    ),
}
"""In the order in which people care."""


def seen(observed: Observed) -> Iterator[Seen]:
    """Every symptom that holds, in that order. A broken promise only where nothing else says how users are hurt, or were a moment ago."""
    felt = False
    for symptom, shown in SYMPTOMS.items():
        if isinstance(shown, SaidSigns):
            yield from _said(observed, symptom, shown)
        elif symptom is Symptom.BROKEN:
            yield from () if felt else _broken(observed)
        elif found := _measured(observed, symptom, shown):
            felt = felt or symptom in _FELT
            yield found


def _broken(observed: Observed) -> Sequence[Seen]:
    found = _measured(observed, Symptom.BROKEN, _BROKEN) or _standing(observed)
    if found is None:
        return ()
    return tuple(_past(observed, _PAGES_SECONDS if found.over else _BURNS_SECONDS)) or (found,)


def _past(observed: Observed, within: float) -> Iterator[Seen]:
    """What users feel no more, as it was when they felt it last, so many seconds ago at most."""
    for symptom, shown in _FELT.items():
        ends = {end for measure in shown.measures if (end := _last_felt(observed.of(measure), observed.at - within)) is not None}
        for end in sorted(ends, reverse=True):
            if found := _measured(observed.measured_until(end), symptom, shown):
                yield replace(found, says=f"{shown.past} until {clock(end, observed.at)}", over=True, felt=end)
                break


def _last_felt(samples: Sequence[TimedValue], after: float) -> float | None:
    """When a measure was last nearer to its worst since that moment than to what it was before it."""
    recent = [each for each in samples if each[0] > after]
    before = [value for moment, value in samples if moment <= after]
    if not recent or len(before) < LEAST_BLOCKS:
        return None
    usual, worst = statistics.median(before), max(value for _, value in recent)
    return next((moment for moment, value in reversed(recent) if value > (usual + worst) / 2), None)


def _standing(observed: Observed) -> Seen | None:
    """A budget for which somebody is paged, though its burning did not begin in what was looked at, or is over."""
    paged, burn = observed.of("paged"), observed.of("burn")
    if not paged or paged[-1][1] < 1 or not burn:
        return None
    over = burn[-1][1] <= _MAY_BURN
    why = "only its page still fires" if over else "there is no time before it to compare with"
    return Seen(
        symptom=Symptom.BROKEN,
        says=_BROKEN.past if over else _BROKEN.says,
        said=f"{burn[-1][1]:.1f} times as fast as it may, and {why}",
        onset=None,
        states=observed.states,
        over=over,
    )


def _measured(observed: Observed, symptom: Symptom, shown: MeasuredSigns) -> Seen | None:
    best: tuple[Onset, Answer] | None = None
    for measure in shown.measures:
        began = onset(observed.of(measure))
        if began is None:
            continue
        answer = shown.test(facts(observed, began.time, began.calm))
        if answer.holds and (best is None or began.time < best[0].time):
            best = began, answer
    if best is None:
        return None
    began, answer = best
    last = began.time + SHORTLY_SECONDS
    states = tuple(each for each in _since(observed.states, began.time) if each.since is None or each.repeats or each.since <= last)
    return Seen(symptom=symptom, says=shown.says, said=answer.said, onset=began.time, calm=began.calm, states=states)


def _said(observed: Observed, symptom: Symptom, shown: SaidSigns) -> Iterator[Seen]:
    """One of what began together, the newest first, for what has long been so is not the cause of what is new. What has happened again since the
    moment that is looked at may explain what hurt then, and did not hurt by itself."""
    then = [each for each in observed.states if each.since is None or each.since <= observed.at + CLOCKS_SECONDS]
    if not shown.past:
        then = [each for each in then if not each.over]
    times = sorted(each.since for each in then if each.kind in shown.states and each.since is not None)
    began = [time for before, time in pairwise([-inf, *times]) if time - before > SHORTLY_SECONDS]
    until = inf
    for time in began[: -_MOST_TIMES - 1 : -1] or [None]:
        states = tuple(each for each in _since(then, time) if each.since is None or each.since < until)
        these = tuple(each for each in states if each.kind in shown.states)
        if these:
            over = all(each.over for each in these)
            dated = [each.since for each in these if each.since is not None]
            last = f", the last one at {clock(max(dated), observed.at)}" if dated else ""
            said = Says(shown.states)(Facts(at=observed.at, states=these)).said
            says = f"{shown.past}{last}" if over else shown.says
            yield Seen(symptom=symptom, says=says, said=said, onset=time, states=states, over=over)
        until = inf if time is None else time


def _since(states: Iterable[State], onset: float | None) -> Iterator[State]:
    """Those that began shortly before that or later: what has long been so harmed nobody until then."""
    for each in states:
        if onset is None or each.since is None or each.since >= onset - SHORTLY_SECONDS:
            yield each
