"""What a hypothesis asks of nodes and of who shares them; tests as those of `asking`. Pure."""

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
    """The replica whose answers slowed the most waits for it for long enough to explain at least `least` of that. No answer waits longer
    than it takes, so it is at most the share of time in which somebody in the container waited, of an answer's time."""

    measure: str
    whole: str = "served_by_pod"
    least: float = 0.4

    def __call__(self, facts: Facts, /) -> Answer:
        waits, times = facts.apart.get(self.measure, {}), facts.apart.get(self.whole, {})
        both = waits.keys() & times.keys()
        if not both:
            return unmeasured(self.measure if not waits else self.whole)
        pod = max(sorted(both), key=lambda each: times[each].change)
        waited, took = waits[pod], times[pod]
        most = waited.since * took.since - waited.before * took.before
        unit = MEASURES[self.whole].unit
        said = (
            f"{pod}: {measured_words(self.measure, waited)}: at most {shown(max(most, 0.0), unit)} of the added {shown(took.change, unit)}"
        )
        return Answer(holds=waited.low > 0 and took.low > 0 and most >= self.least * took.change, said=said, where=pod)


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
