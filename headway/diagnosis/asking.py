"""What a hypothesis asks of the facts: each test is data that answers whether it holds, in words with their figures, or that nobody can
tell. Pure.
"""

import math
import re
from dataclasses import dataclass
from typing import Protocol

from headway.diagnosis.comparison import BeforeAfter
from headway.diagnosis.facts import CLOCKS_SECONDS, SHORTLY_SECONDS, Change, ChangeKind, Facts, StateKind
from headway.diagnosis.figures import both, shown, signed
from headway.diagnosis.measures import MEASURES

_RELEASE = re.compile("-(r[0-9a-f]{10})-")

UNSAID = "nothing says"
"""How it begins that no object of the cluster says something."""
RISE = 1.25
"""What rises by less explains no breach that wakes somebody."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """`holds`: None where what it would need was not measured. `share`: of the harm, 0 to 1, that it accounts for; None where that is no
    number. `where`: the one pod, GPU or node that it is about."""

    holds: bool | None
    said: str
    share: float | None = None
    where: str = ""
    pool: str = ""
    """Of nodes, that `where` waits for."""


class Test(Protocol):
    def __call__(self, facts: Facts, /) -> Answer: ...


@dataclass(frozen=True)
class _OfMeasure:
    """A test of one measure, before and since."""

    measure: str

    def __call__(self, facts: Facts, /) -> Answer:
        found = facts.of(self.measure)
        if found is None:
            return unmeasured(self.measure)
        looks = self._looks(found)
        return Answer(holds=None if looks and not self._proven(found) else looks, said=measured_words(self.measure, found))

    def _looks(self, found: BeforeAfter) -> bool:
        """Whether the means have it so."""
        raise NotImplementedError

    def _proven(self, found: BeforeAfter) -> bool:
        """Whether the interval has it so too; where it need not, nothing is left to prove."""
        return True


@dataclass(frozen=True)
class Rose(_OfMeasure):
    """Proven to be `by` times as much as before, and `least` more in its unit."""

    by: float = RISE
    least: float = 0.0

    def _looks(self, found: BeforeAfter) -> bool:
        return found.more(self.by, self.least)

    def _proven(self, found: BeforeAfter) -> bool:
        return found.low > 0


@dataclass(frozen=True)
class Fell(_OfMeasure):
    """Proven to be at most 1/`by` of what it was, and `least` less in its unit."""

    by: float = RISE
    least: float = 0.0

    def _looks(self, found: BeforeAfter) -> bool:
        return found.less(self.by, self.least)

    def _proven(self, found: BeforeAfter) -> bool:
        return found.high < 0


@dataclass(frozen=True)
class Above(_OfMeasure):
    """At least `level` since, in its unit, and not as much before."""

    level: float

    def _looks(self, found: BeforeAfter) -> bool:
        return found.since >= self.level and (found.low > 0 or found.before < self.level)

    def _proven(self, found: BeforeAfter) -> bool:
        return found.low > 0


@dataclass(frozen=True)
class Reached(_OfMeasure):
    """At least `level` since, in its unit, however long before."""

    level: float

    def _looks(self, found: BeforeAfter) -> bool:
        return found.since >= self.level


@dataclass(frozen=True)
class AtMost(_OfMeasure):
    """At most `level` since, in its unit, however long before."""

    level: float

    def _looks(self, found: BeforeAfter) -> bool:
        return found.since <= self.level


@dataclass(frozen=True)
class _OfTwo:
    """A test of two measures of one unit, before and since."""

    measure: str
    other: str

    def __call__(self, facts: Facts, /) -> Answer:
        found, other = facts.of(self.measure), facts.of(self.other)
        if found is None or other is None:
            return unmeasured(self.measure if found is None else self.other)
        return self._of(found, other)

    def _of(self, found: BeforeAfter, other: BeforeAfter) -> Answer:
        raise NotImplementedError


@dataclass(frozen=True)
class AddsMore(_OfTwo):
    """Proven to have risen `by` times, and by more than the other measure."""

    by: float = RISE

    def _of(self, found: BeforeAfter, other: BeforeAfter) -> Answer:
        said = f"{measured_words(self.measure, found)}; {measured_words(self.other, other)}"
        return Answer(holds=found.rose(self.by) and found.change > other.change, said=said)


@dataclass(frozen=True)
class PartOf(_OfTwo):
    """A part of the other measure, a whole that rose: it holds where the part accounts for at least `least` of the rise."""

    least: float = 0.4

    def _of(self, found: BeforeAfter, other: BeforeAfter) -> Answer:
        share = found.change / other.change if other.change > 0 else 0.0
        unit = MEASURES[self.measure].unit
        said = f"{measured_words(self.measure, found)}: {signed(found.change, unit)} of the added {shown(other.change, unit)}"
        return Answer(holds=found.low > 0 and share >= self.least, said=said, share=min(max(share, 0.0), 1.0))


@dataclass(frozen=True)
class Rest(_OfTwo):
    """What of the measure, a whole, lies outside of the other accounts for at least `least` of the rise."""

    says: str
    least: float = 0.4

    def _of(self, found: BeforeAfter, other: BeforeAfter) -> Answer:
        change = found.change - other.change
        share = change / found.change if found.change > 0 else 0.0
        unit = MEASURES[self.measure].unit
        said = f"{self.says} {shown(found.before - other.before, unit)} before, {shown(found.since - other.since, unit)} since"
        said += f": {signed(change, unit)} of the added {shown(found.change, unit)}"
        proven = found.low > other.high or (found.low > 0 and share >= 0.8)
        return Answer(holds=proven and share >= self.least, said=said, share=min(max(share, 0.0), 1.0))


@dataclass(frozen=True)
class OneOfThem:
    """One replica takes `by` times as much as each of its siblings, and did not before."""

    measure: str
    by: float = RISE

    def __call__(self, facts: Facts, /) -> Answer:
        here = facts.present.get(self.measure, {})
        says, unit = MEASURES[self.measure].says, MEASURES[self.measure].unit
        if not here:
            return unmeasured(self.measure)
        if len(here) == 1:
            return Answer(holds=False, said=f"{says}: there is only one replica")
        (name, worst), (_, next_worst) = sorted(here.items(), key=lambda each: (-each[1], each[0]))[:2]
        before = facts.apart.get(self.measure, {}).get(name)
        holds = worst >= next_worst * self.by > 0 and (before is None or before.rose(1.1))
        said = f"{says}: {name} {shown(worst, unit)}, the next of {len(here)} {shown(next_worst, unit)}"
        return Answer(holds=holds, said=said, where=name)


@dataclass(frozen=True)
class OneMoved:
    """A replica or GPU of its own is proven to have risen (or fallen) `by` times and by `least`, siblings or not; the one that moved most."""

    measure: str
    by: float = RISE
    least: float = 0.0
    falls: bool = False

    def __call__(self, facts: Facts, /) -> Answer:
        here = facts.apart.get(self.measure, {})
        if not here:
            return unmeasured(self.measure)
        name, found = max(here.items(), key=lambda each: (-each[1].change if self.falls else each[1].change, each[0]))
        holds = found.fell(self.by, self.least) if self.falls else found.rose(self.by, self.least)
        return Answer(holds=holds, said=f"{name}: {measured_words(self.measure, found)}", where=name)


@dataclass(frozen=True)
class Says:
    """An object of the cluster says so, of the first kind that one does."""

    kinds: tuple[StateKind, ...]

    def __call__(self, facts: Facts, /) -> Answer:
        found = sorted(facts.those(*self.kinds), key=lambda each: self.kinds.index(each.kind))
        if not found:
            return Answer(holds=False, said=f"{UNSAID} {' or '.join(each.value.replace('-', ' ') for each in self.kinds)}")
        first, more = found[0], f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return Answer(holds=True, said=f"{first.subject}: {first.words}{more}", where=first.subject, pool=first.pool)


@dataclass(frozen=True)
class WasChanged:
    """Somebody changed something of these kinds shortly before it began: at most `before` seconds."""

    kinds: tuple[ChangeKind, ...]
    before: float = SHORTLY_SECONDS
    wrote: tuple[str, ...] = ()
    """How paths begin of which it wrote one, as far as anybody says what it wrote; empty: whatever it wrote."""

    def __call__(self, facts: Facts, /) -> Answer:
        if facts.onset is None:
            return Answer(holds=None, said="nobody knows when it began")
        recent = shortly_before(facts, facts.onset, self.kinds, self.before)
        near = [each for each in recent if self._counts(each)]
        if recent and not near:
            return Answer(holds=False, said=f"{recent[0].words}, which did not write {' or '.join(self.wrote)}")
        if not near:
            named = " or ".join(each.value for each in self.kinds)
            return Answer(holds=False, said=f"no change of a {named} within {self.before / 60:.0f} minutes before it began")
        return Answer(holds=True, said=who_and_when(near[0], facts.onset))

    def _counts(self, change: Change) -> bool:
        return not self.wrote or change.touched is None or any(each.path.startswith(self.wrote) for each in change.touched)


@dataclass(frozen=True)
class OldToo:
    """A pod of another version than the newest release brought shows the same: it rose there, or ended. Pods are told apart by the release in
    their names."""

    measures: tuple[str, ...]
    kinds: tuple[StateKind, ...]
    by: float = RISE

    def __call__(self, facts: Facts, /) -> Answer:
        newest = next((each.release for each in facts.changed(ChangeKind.RELEASE, after=math.inf) if each.release), "")
        if not newest:
            return Answer(holds=None, said="there was no release")
        for measure in self.measures:
            for pod, found in facts.apart.get(measure, {}).items():
                if version_of(pod) != newest and found.rose(self.by):
                    return Answer(holds=True, said=f"the version before has it too: {pod}: {measured_words(measure, found)}", where=pod)
        old = [each for each in facts.those(*self.kinds) if version_of(each.subject) not in ("", newest)]
        if old:
            return Answer(holds=True, said=f"the version before has it too: {old[0].subject}: {old[0].words}", where=old[0].subject)
        return Answer(holds=False, said=f"only pods of {newest} have it")


@dataclass(frozen=True)
class Measured:
    """Somebody measures all of these, of each replica or GPU: what they do not say is then not so."""

    measures: tuple[str, ...]

    def __call__(self, facts: Facts, /) -> Answer:
        missing = [each for each in self.measures if not facts.present.get(each)]
        if missing:
            return unmeasured(missing[0])
        said = ", ".join(MEASURES[each].says for each in self.measures)
        return Answer(holds=True, said=f"measured and as before: {said}")


@dataclass(frozen=True)
class AnyOf:
    """The first that holds; else that nobody can tell where one of them cannot."""

    tests: tuple[Test, ...]

    def __call__(self, facts: Facts, /) -> Answer:
        found = [test(facts) for test in self.tests]
        held = next((each for each in found if each.holds), None)
        return held or next((each for each in found if each.holds is None), found[0])


ONE_REPLICA = AnyOf((OneOfThem("compute_by_pod"), OneOfThem("prefill_by_pod"), OneOfThem("decode_by_pod")))
"""One replica is slower than its siblings, whatever engine it is."""


@dataclass(frozen=True)
class Unproven:
    """It did not rise, or nobody measures it: what would speak against a hypothesis is not there."""

    measure: str
    by: float = RISE

    def __call__(self, facts: Facts, /) -> Answer:
        found = facts.of(self.measure)
        if found is None:
            return Answer(holds=True, said=f"{MEASURES[self.measure].says}: not measured")
        return Answer(holds=not found.rose(self.by), said=measured_words(self.measure, found))


def shortly_before(facts: Facts, onset: float, kinds: tuple[ChangeKind, ...], before: float) -> list[Change]:
    """Changes of these kinds, the newest first, at most `before` seconds before it began, or later by the clocks."""
    return [each for each in facts.changed(*kinds, after=CLOCKS_SECONDS) if each.time >= onset - before]


def who_and_when(change: Change, onset: float) -> str:
    """What was done, by whom, and how long before it began."""
    seconds = onset - change.time
    return f"{change.words}, by {change.who}, {abs(seconds):.0f} s {'before' if seconds >= 0 else 'after'} it began"


def version_of(pod: str) -> str:
    """The release of a pod, by its name; empty where it has none."""
    found = _RELEASE.search(pod)
    return found[1] if found else ""


def unmeasured(measure: str) -> Answer:
    """Nobody can tell, for nobody measures it."""
    return Answer(holds=None, said=f"{MEASURES[measure].says}: not measured")


def measured_words(measure: str, found: BeforeAfter) -> str:
    """A measure's name with its figures."""
    return f"{MEASURES[measure].says} {both(found, MEASURES[measure].unit)}"
