"""From raw samples of counters to how much was counted in each tick. Pure.

A counter's rise between two samples belongs to the tick of the later one, so that no rise is lost or counted twice whatever the ticks. A
series without a sample before is born at zero: its first value is its first rise (`rate` would lose it). The trap: after a restart a
counter may have overtaken its old value before the next scrape; all counters of one target start anew together, so one that fell tells of
all.
"""

import bisect
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SeriesLabels = frozenset[tuple[str, str]]
TimedValue = tuple[float, float]
"""Unix seconds, value."""

_TARGET = ("job", "instance", "namespace", "pod")


@dataclass(frozen=True)
class Series:
    """Samples of one series, in order of time."""

    labels: Mapping[str, str]
    samples: Sequence[TimedValue]

    @property
    def key(self) -> SeriesLabels:
        """All labels and the name."""
        return frozenset(self.labels.items())

    @property
    def target(self) -> tuple[str, ...]:
        """Whose counters start anew together."""
        return tuple(self.labels.get(name, "") for name in _TARGET)


class UnreadableError(ValueError):
    """A sample that is no count: the answer cannot be used."""


def rises(series: Iterable[Series], before: Iterable[Series], ends: Sequence[float]) -> list[tuple[Mapping[str, str], Floats]]:
    """What each counter rose by in each tick; tick k is later than `ends[k]`, up to and including `ends[k + 1]`.

    `before`: the last sample of each series up to `ends[0]`, where there is one. Raises UnreadableError for a value that is no number of
    things.
    """
    known = {one.key: one.samples[-1] for one in before if one.samples}
    whole = [(one, _within(one, known.get(one.key), ends)) for one in series]
    anew: dict[tuple[str, ...], list[float]] = {}
    for one, samples in whole:
        falls = [late[0] for early, late in itertools.pairwise(samples) if late[1] < early[1]]
        if falls:
            anew.setdefault(one.target, []).extend(falls)
    moments = {target: sorted(set(times)) for target, times in anew.items()}
    found: list[tuple[Mapping[str, str], Floats]] = []
    for one, samples in whole:
        risen = np.zeros(len(ends) - 1)
        restarts = moments.get(one.target, [])
        last: TimedValue | None = known.get(one.key)
        for moment, value in samples[1:] if last is not None else samples:
            started_anew = last is None or bisect.bisect_right(restarts, moment) > bisect.bisect_right(restarts, last[0])
            rise = value if started_anew or last is None else value - last[1]
            risen[bisect.bisect_left(ends, moment) - 1] += rise
            last = (moment, value)
        found.append((one.labels, risen))
    return found


def appeared(series: Iterable[Series], before: Iterable[Series], start: float, end: float) -> set[int]:
    """Values that a gauge of last events newly shows later than `start` up to `end`.

    A series tells what happened last, however long ago: what it shows when it begins belongs to whoever had the device before.
    """
    known = {one.key: one.samples[-1] for one in before if one.samples}
    values: set[int] = set()
    for one in series:
        earlier = [known[one.key]] if one.key in known else []
        samples = [*earlier, *(sample for sample in one.samples if sample[0] <= end and math.isfinite(sample[1]))]
        values |= {int(late[1]) for early, late in itertools.pairwise(samples) if late[0] > start and late[1] != early[1]}
    return values


def _within(one: Series, before: TimedValue | None, ends: Sequence[float]) -> list[TimedValue]:
    """Samples later than the first end up to the last, after the last one before them."""
    inside = [(moment, value) for moment, value in one.samples if ends[0] < moment <= ends[-1]]
    samples = inside if before is None else [(min(before[0], ends[0]), before[1]), *inside]
    for moment, value in samples:
        if not math.isfinite(value) or value < 0:
            raise UnreadableError(f"{dict(one.labels)} was {value} at {moment:.3f}, which is no count")
    return samples


def scraped(up: Sequence[TimedValue], start: float, end: float, patience: float) -> bool:
    """Whether a target was scraped throughout: no failed scrape, no gap longer than `patience` seconds. One that came or went in between
    counts from its first to its last scrape."""
    inside = [(moment, value) for moment, value in up if start - patience < moment <= end]
    if any(value != 1 for moment, value in inside if moment > start) or not inside:
        return False
    times = [moment for moment, _ in inside]
    return all(late - early <= patience for early, late in itertools.pairwise(times))


def per_bucket(cumulative: Mapping[float, Floats], edges: Sequence[float]) -> Floats:
    """Counts of each bucket, last above the last edge, on the first axis, from counts up to each edge (infinity included).

    Raises UnreadableError when the edges are not those; below zero cannot be, since one scrape shows all buckets.
    """
    if set(cumulative) != {*edges, math.inf}:
        missing = sorted({*edges, math.inf} ^ set(cumulative))
        raise UnreadableError(f"edges differ at {', '.join(f'{edge:g}' for edge in missing[:5])}: these histograms cannot be compared")
    stacked = np.stack([cumulative[edge] for edge in (*edges, math.inf)])
    return np.maximum(np.diff(stacked, axis=0, prepend=0.0), 0.0)
