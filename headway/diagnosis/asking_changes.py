"""What a hypothesis asks of changes by what they wrote, and of the contract by how much of it is in use. Pure.

A change is evidence where it wrote what explains the harm, in the way that does: a lower batch delay makes nobody wait.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase
from math import inf

from headway.contract.units import Bytes, Duration, MilliCpu, Rate, Share, UnitError
from headway.diagnosis.asking import UNSAID, Answer, Test, shortly_before, unmeasured, version_of, who_and_when
from headway.diagnosis.facts import SHORTLY_SECONDS, Change, ChangeKind, Facts, StateKind, TouchedField
from headway.diagnosis.figures import shown
from headway.diagnosis.measures import MEASURES

_UNITS = (MilliCpu, Bytes, Duration, Rate, Share)
_SHOWN_FIELDS = 3
"""Of a change, in a sentence."""


class Way(IntEnum):
    """In which direction a field must have moved to explain something."""

    DOWN = -1
    ANY = 0
    UP = 1


@dataclass(frozen=True)
class Wrote:
    """A change shortly before it began wrote one of these fields that way: at most `before` seconds. `fields`: paths, in which `*` stands
    for any part."""

    fields: tuple[tuple[str, Way], ...]
    kinds: tuple[ChangeKind, ...] = (ChangeKind.RELEASE,)
    before: float = SHORTLY_SECONDS

    def __call__(self, facts: Facts, /) -> Answer:
        if facts.onset is None:
            return Answer(holds=None, said="nobody knows when it began")
        near = shortly_before(facts, facts.onset, self.kinds, self.before)
        for each in near:
            if these := list(self._of(each)):
                return Answer(holds=True, said=f"{who_and_when(each, facts.onset)}: {written(these)}")
        if any(each.touched is None for each in near):
            return Answer(holds=None, said=f"{near[0].words}, and nobody says what it changed")
        paths = " or ".join(path for path, _ in self.fields)
        return Answer(holds=False, said=f"no change wrote {paths} within {self.before / 60:.0f} minutes before it began")

    def _of(self, change: Change) -> Iterator[TouchedField]:
        for each in change.touched or ():
            if any(fnmatchcase(each.path, path) and way in (Way.ANY, moved(each)) for path, way in self.fields):
                yield each


@dataclass(frozen=True)
class OfTheCandidate:
    """What has these states are replicas of the version that is being released, and none of an older one."""

    states: tuple[StateKind, ...]

    def __call__(self, facts: Facts, /) -> Answer:
        newest = next(iter(facts.changed(ChangeKind.CANDIDATE, after=inf)), None)
        those = facts.those(*self.states)
        if newest is None or not those:
            return Answer(holds=False, said="no version is being released" if newest is None else f"{UNSAID} so")
        older = next((each for each in those if version_of(each.subject) != newest.release), None)
        if older is not None:
            return Answer(holds=False, said=f"another version has it too: {older.subject}: {older.words}")
        return Answer(holds=True, said=f"{newest.words}, by {newest.who}, and only its replicas have it", where=those[0].subject)


@dataclass(frozen=True)
class ThereToo:
    """What a test finds in one place has one of these states as well."""

    test: Test
    states: tuple[StateKind, ...]

    def __call__(self, facts: Facts, /) -> Answer:
        found = self.test(facts)
        state = next((each for each in facts.those(*self.states) if each.subject == found.where), None)
        if not found.holds or state is None:
            return Answer(
                holds=None if found.holds is None else False, said=found.said if not found.holds else f"{UNSAID} so of {found.where}"
            )
        return Answer(holds=True, said=f"{found.said}; {state.words}", where=found.where)


@dataclass(frozen=True)
class InUse:
    """The fullest replica uses at least `least` of what its version's contract lets it compute at once (`setting` of ServedSettings)."""

    measure: str
    setting: str
    least: float

    def __call__(self, facts: Facts, /) -> Answer:
        here = facts.present.get(self.measure, {})
        if not here:
            return unmeasured(self.measure)
        found = [
            (now / most, now, most, pod)
            for pod, now in here.items()
            if (settings := facts.settings.get(version_of(pod))) and (most := getattr(settings, self.setting))
        ]
        if not found:
            return Answer(holds=None, said="the contract that serves cannot be read")
        share, now, most, pod = max(found)
        measure = MEASURES[self.measure]
        return Answer(holds=share >= self.least, said=f"{measure.says}: {shown(now, measure.unit)} of the {most} that {pod} has")


def written(fields: list[TouchedField]) -> str:
    """`batching.max_delay 2ms -> 50ms`; of many the first few."""
    said = ", ".join(f"{each.path} {each.old or 'none'} -> {each.new or 'none'}" for each in fields[:_SHOWN_FIELDS])
    return said if len(fields) <= _SHOWN_FIELDS else f"{said} and {len(fields) - _SHOWN_FIELDS} more"


def moved(field: TouchedField) -> Way:
    """Which way its amount went; ANY where it holds none, or was not there before."""
    for kind in _UNITS:
        try:
            old, new = int(kind.parse(field.old or "")), int(kind.parse(field.new or ""))
        except UnitError:
            continue
        return Way((new > old) - (new < old))
    return Way.ANY
