"""Whether an arm still gets requests: two scrapes of everything that counts them, both newer than the first look. Pure.

Nobody's clock is compared with another's: what the first look finds is old, what comes later is new, and a window lies between two new scrapes
of one target. So it needs two scrapes after the traffic moved, however long they are apart. The trap: a target that is not scraped counts
nothing, and that is no zero.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headway.release.evidence import queries
from headway.release.evidence.reading import Evidence, JudgedService
from headway.release.evidence.samples import Series, TimedValue

NOT_YET = "no two scrapes since the traffic moved yet"
Target = tuple[str, str]
"""Job and instance."""


@dataclass(frozen=True, kw_only=True)
class EarlierScrapes:
    """What the first look found: the newest scrape of each target, as one endpoint knew it."""

    endpoint: str
    scrapes: Mapping[Target, float] = field(default_factory=dict[Target, float])


@dataclass(frozen=True, kw_only=True)
class DrainMeasurement:
    """Requests of all kinds between the two newest scrapes; None where that is not known, with the reason."""

    requests: float | None
    seconds: float = 0.0
    """From the earliest of the scrapes that were compared to the latest."""
    reason: str = ""


class DrainEvidence(Evidence, Protocol):
    """Evidence that can also tell whether an arm still gets requests, and the time."""

    def drained(self, service: JudgedService, arm: str, seen: EarlierScrapes | None) -> tuple[DrainMeasurement, EarlierScrapes | None]:
        """What `arm` got since `seen`, which is None at the first look; and what to look against next time. Never raises for a source
        that is down."""
        ...

    def time(self) -> float | None:
        """What time it is there, in Unix seconds; None where nobody answers."""
        ...


def newest(up: Sequence[Series]) -> dict[Target, float]:
    """When each target was last scraped."""
    return {_target(one): one.samples[-1][0] for one in up if one.samples}


def waiting(up: Sequence[Series], seen: EarlierScrapes) -> bool:
    """Whether no target has been scraped twice since `seen`, so that there is nothing to compare yet."""
    return all(len(_after(one.samples, seen.scrapes.get(_target(one)))) < 2 for one in up)


def requests_since(
    arm: str, counters: Sequence[Series], up: Sequence[Series], alive: Sequence[Series], seen: EarlierScrapes
) -> DrainMeasurement:
    """What `arm` got after `seen`. `counters`: its requests, wherever they are counted; `up`: how its targets were scraped; `alive`: `up` as
    it is now, without targets that are gone."""
    pods = queries.compiled_pods_of(arm)
    counting = {_target(one) for one in counters}
    concerned = [one for one in alive if _target(one) in counting or pods.fullmatch(one.labels.get(queries.POD, ""))]
    if not concerned:
        return DrainMeasurement(requests=None, reason=f"nobody who is scraped counts requests to {arm}")
    scrapes = {_target(one): one.samples for one in up}
    total, begins, ends = 0.0, list[float](), list[float]()
    for one in concerned:
        target = _target(one)
        after = _after(scrapes.get(target, ()), seen.scrapes.get(target))
        if one.samples[-1][1] != 1 or any(value != 1 for _, value in after[-2:]):
            return DrainMeasurement(requests=None, reason=f"{one.labels.get(queries.POD) or target[1]} cannot be scraped")
        if len(after) < 2:
            return DrainMeasurement(requests=None, reason=NOT_YET)
        begin, end = after[-2][0], after[-1][0]
        begins.append(begin)
        ends.append(end)
        total += sum(_rise(each, begin, end) for each in counters if _target(each) == target)
    seconds = max(ends) - min(begins)
    return DrainMeasurement(requests=total, seconds=seconds, reason=f"between two scrapes, {seconds:.1f} s")


def _after(samples: Sequence[TimedValue], seen: float | None) -> Sequence[TimedValue]:
    return samples if seen is None else [each for each in samples if each[0] > seen]


def _rise(one: Series, begin: float, end: float) -> float:
    """From the last sample up to `begin`, or zero for a series that is born since, to the one at `end`."""
    samples = [sample for sample in one.samples if sample[0] <= end]
    if not samples or samples[-1][0] <= begin:
        return 0.0
    before = next((value for moment, value in reversed(samples) if moment <= begin), 0.0)
    values = [before, *(value for moment, value in samples if moment > begin)]
    return sum(late if late < early else late - early for early, late in itertools.pairwise(values))


def _target(one: Series) -> Target:
    return one.labels.get("job", ""), one.labels.get("instance", "")
