"""What a hypothesis asks of nodes and of who shares them; tests as those of `asking`. Pure."""

import math
import re
from dataclasses import dataclass

from headway.diagnosis.asking import Answer, measured_words, unmeasured
from headway.diagnosis.facts import Facts, StateKind
from headway.diagnosis.figures import shown
from headway.diagnosis.measures import MEASURES

_GROUP = re.compile(r"eks-(?P<pool>.+)-[a-f]-[0-9a-f]{6}.*")
"""A node group's name (`priorities` of components/addons/cluster_autoscaler.py)."""


@dataclass(frozen=True)
class Stalls:
    """The replica whose answers slowed the most waits for it for long enough to explain at least `least` of that.

    A server only waits while it works, so what counts is the share of that time. A replica with n requests at once in the mean (Little's
    law: their rate times their time) works for 1 - e^-n of the time, where they come at random.
    """

    measure: str
    least: float = 0.4

    def __call__(self, facts: Facts, /) -> Answer:
        waits, times, rates = (facts.apart.get(each, {}) for each in (self.measure, _TIME, _RATE))
        known = waits.keys() & times.keys() & rates.keys()
        if not known:
            return unmeasured(next((name for name, found in ((self.measure, waits), (_TIME, times)) if not found), _RATE))
        pod = max(sorted(known), key=lambda each: times[each].change)
        waited, took, rate = waits[pod], times[pod], rates[pod]
        most = _waited(waited.since, took.since, rate.since) - _waited(waited.before, took.before, rate.before)
        added = shown(took.change, MEASURES[_TIME].unit)
        said = f"{pod}: {measured_words(self.measure, waited)}: at most {shown(max(most, 0.0), MEASURES[_TIME].unit)} of the added {added}"
        return Answer(holds=waited.low > 0 and took.low > 0 and most >= self.least * took.change, said=said, where=pod)


_TIME, _RATE = "served_by_pod", "answered_by_pod"


def _waited(share: float, seconds: float, rate: float) -> float:
    """Seconds of an answer that are waiting, of the `share` of all time in which its server waited."""
    works = -math.expm1(-rate * seconds)
    return seconds * min(share / works, 1.0) if works > 0 else 0.0


@dataclass(frozen=True)
class OneAt:
    """One of them is at least at `level`, or at most where it `falls`, however long before."""

    measure: str
    level: float
    falls: bool = False

    def __call__(self, facts: Facts, /) -> Answer:
        here = facts.present.get(self.measure, {})
        if not here:
            return unmeasured(self.measure)
        name, value = (min if self.falls else max)(sorted(here.items()), key=lambda each: each[1])
        holds = value <= self.level if self.falls else value >= self.level
        return Answer(holds=holds, said=f"{name}: {MEASURES[self.measure].says} {shown(value, MEASURES[self.measure].unit)}", where=name)


@dataclass(frozen=True)
class OneTakesMore:
    """One of the largest on the node takes at least `least` more than before, in the measure's unit. Who was not there before took nothing."""

    measure: str
    least: float

    def __call__(self, facts: Facts, /) -> Answer:
        here, moved = facts.present.get(self.measure, {}), facts.apart.get(self.measure, {})
        if not here:
            return unmeasured(self.measure)
        grown = {name: (moved[name].change if name in moved else value) for name, value in here.items()}
        name, more = max(sorted(grown.items()), key=lambda each: each[1])
        unit = MEASURES[self.measure].unit
        said = f"{MEASURES[self.measure].says}: {name} {shown(here[name] - more, unit)} before, {shown(here[name], unit)} since"
        return Answer(holds=more >= self.least and (name not in moved or moved[name].low > 0), said=said)


@dataclass(frozen=True)
class GroupsOfPool:
    """Every group of nodes of the pool that a replica waits for is at least at `level`; `some`: one of them."""

    measure: str
    level: float
    waiting: tuple[StateKind, ...]
    some: bool = False

    def __call__(self, facts: Facts, /) -> Answer:
        pools = {each.pool for each in facts.those(*self.waiting) if each.pool}
        here = facts.present.get(self.measure, {})
        mine = {name: value for name, value in here.items() if (found := _GROUP.fullmatch(name)) and found["pool"] in pools}
        if not mine:
            return unmeasured(self.measure)
        holds = (any if self.some else all)(value >= self.level for value in mine.values())
        unit = MEASURES[self.measure].unit
        figures = ", ".join(f"{name} {shown(value, unit)}" for name, value in sorted(mine.items()))
        return Answer(holds=holds, said=f"{MEASURES[self.measure].says}: {figures}")
