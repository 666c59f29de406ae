"""How the watched numbers of a serving version stand, as its own chain of events says. Pure.

The chain lies beside that of the releases (`<tenant>/<model>/drift`). Events hold no values: the reference cuts what is usual into at most 32
cells, smaller ones at both ends, and of each later value only its cell is kept, one letter. What cuts is not compared: every fourth value of
the reference cuts, the others are its first values, so that all that are compared are exchangeable. Evidence is made again from the cells, and a
version that serves again goes on where it was.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum, unique
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.contract.drift import MOST_NUMBERS, Drift, NumberOf, Rhythm, WatchedNumber
from headway.contract.sampling import Sample, flat_numbers, part_at
from headway.ledger.events import ACCEPTED, Event, unreadable
from headway.problem import ODD
from headway.release.evaluation.drift import DriftEvidence, conformal_ranks, drift_begun, drift_observed
from headway.release.evaluation.lifelong import FALSE_ALARM

Counted = NDArray[np.int64]

LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUV"
"""Cells, from the smallest values to the largest."""
_DIGITS = 4
_BEYOND = (0.3, 1.0)
"""How far beyond the smallest and the largest value edges lie, in distances from these to where the middle begins. A value out there outranks
all, and that weighs most."""
_ENDS = (2**-10, 2**-8, 2**-7, 2**-6, 2**-5)
_SHARES = (*_ENDS, *np.linspace(1 / 16, 15 / 16, len(LETTERS) - 1 - 2 * len(_ENDS + _BEYOND)), *(1 - end for end in reversed(_ENDS)))
"""Below each other edge."""
CUTS = 4
"""Each such value of the reference cuts."""
FEWEST = 100
"""Values of the reference with which a number is compared."""
_COMPARED_FROM = 20
"""Earlier values of the same hour; before, a value only joins them."""
_LATEST = 200
"""Values that say what a number is now."""


def drift_chain(chain: str) -> str:
    """The chain of the watched numbers of a service whose releases are in `chain`."""
    return f"{chain}/drift"


@unique
class DriftEvent(StrEnum):
    """Kinds of events of the chain."""

    REFERENCE = "reference-taken"
    COUNTED = "values-counted"
    DRIFTED = "drift-proven"
    """Means a person is told; nothing is read any more."""
    ANEW = "watched-anew"
    """Means a person calls usual what comes from then on."""


def number_of(sample: Sample, watched: WatchedNumber) -> float | None:
    """The watched number of a sample; None where it has none."""
    body = sample.request if watched.of == "request" else sample.response
    try:
        found = part_at(body, watched.at)
    except LookupError:
        return None
    if watched.take is NumberOf.LENGTH and isinstance(found, str):
        return float(len(found))
    numbers = [float(found)] if isinstance(found, bool) else flat_numbers(found)
    if not numbers or not all(map(math.isfinite, numbers)):
        return None
    match watched.take:
        case NumberOf.NUMBER:
            return numbers[0] if len(numbers) == 1 else None
        case NumberOf.LENGTH:
            return float(len(numbers))
        case NumberOf.MEAN:
            return _mean(numbers)
        case NumberOf.LARGEST:
            return max(numbers)
        case NumberOf.PLACE:
            return float(numbers.index(max(numbers)))


def _mean(numbers: Sequence[float]) -> float | None:
    """None where their sum is larger than a number may be: callers write them."""
    try:
        return math.fsum(numbers) / len(numbers)
    except OverflowError:
        return None


def cut(values: Sequence[float]) -> tuple[float, ...]:
    """Edges between cells of these values, rounded to four digits; a value on an edge lies above it. What is larger than a number may be, or
    becomes so by rounding, is no edge."""
    found = np.quantile(values, _SHARES, method="inverted_cdf")
    smallest, largest, low, high = min(values), max(values), float(found[len(_ENDS)]), float(found[-1 - len(_ENDS)])
    beyond = [edge for far in _BEYOND for edge in (smallest - far * (low - smallest), largest + far * (largest - high))]
    # Else what is beyond a value that many have would lie with it.
    beyond += [end + side * _unit(end) for end, middle, side in ((smallest, low, -1), (largest, high, 1)) if end == middle]
    rounded = {float(f"{edge:.{_DIGITS}g}") for edge in (*found, *beyond)}
    return tuple(sorted(filter(math.isfinite, rounded)))


def _unit(value: float) -> float:
    """What the last digit of an edge near it counts."""
    return 10.0 ** (math.floor(math.log10(abs(value) or 1.0)) - _DIGITS + 1)


def counted(cells: str) -> Counted:
    """How many values lie in each cell."""
    return np.bincount([LETTERS.index(cell) for cell in cells], minlength=len(LETTERS))


def celled(values: Iterable[float], edges: Sequence[float]) -> str:
    """The letter of each value's cell."""
    return "".join(LETTERS[int(np.searchsorted(edges, value, side="right"))] for value in values)


@dataclass(frozen=True, kw_only=True)
class NumberStanding:
    """One number. `earlier`: how many values lay in each cell, by hour; `latest`: cells of the newest values, oldest first."""

    edges: tuple[float, ...]
    evidence: DriftEvidence
    earlier: Mapping[int, Counted] = field(default_factory=dict[int, Counted])
    usual: Counted = field(default_factory=lambda: np.zeros(len(LETTERS), dtype=np.int64))
    """Of the reference."""
    latest: str = ""
    seen: int = 0
    """Values after the reference."""

    @classmethod
    def cut_by(cls, edges: Sequence[Any], cutting: Sequence[Any]) -> "NumberStanding":
        """Before the first value is compared. `cutting`: how many of the values that cut lie in each cell. Raises ValueError."""
        found, counts = tuple(float(edge) for edge in edges), [int(count) for count in cutting]
        if not 0 < len(found) < len(LETTERS) or list(found) != sorted(found):
            raise ValueError("edges")
        if len(counts) != len(found) + 1 or min(counts) < 0 or not sum(counts):
            raise ValueError("cutting")
        return cls(edges=found, evidence=drift_begun(counts))

    def learned(self, hour: int, cells: str) -> "NumberStanding":
        """With values of the reference."""
        counts = counted(cells)
        if counts[len(self.edges) + 1 :].any():
            raise ValueError("cells")
        return replace(self, earlier={**self.earlier, hour: self._of(hour) + counts}, usual=self.usual + counts)

    def after(self, hour: int, cells: str, chance: Random) -> "NumberStanding":
        """With later values, each compared with those of its hour before it; `chance` decides among equal ones."""
        counts, evidence, there = self._of(hour).copy(), self.evidence, len(self.edges) + 1
        for letter in cells:
            cell, tie = LETTERS.index(letter), chance.random()
            if cell >= there:
                raise ValueError("cells")
            if counts.sum() >= _COMPARED_FROM:
                evidence = drift_observed(evidence, conformal_ranks(counts[:there], cell, tie))
            counts[cell] += 1
        latest = (self.latest + cells)[-_LATEST:]
        return replace(self, earlier={**self.earlier, hour: counts}, evidence=evidence, latest=latest, seen=self.seen + len(cells))

    @property
    def parted(self) -> tuple[float, float, float]:
        """The edge at which the newest values part most from the reference, and the share of each that lies below it."""
        usual, latest = (np.cumsum(counts)[: len(self.edges)] / counts.sum() for counts in (self.usual, counted(self.latest)))
        most = int(np.argmax(abs(usual - latest)))
        return self.edges[most], float(usual[most]), float(latest[most])

    def _of(self, hour: int) -> Counted:
        return self.earlier.get(hour, np.zeros(len(LETTERS), dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class DriftStanding:
    """One version, by what is watched of it."""

    release: str
    watched: str
    numbers: Mapping[str, NumberStanding] = field(default_factory=dict[str, NumberStanding])
    """Empty before the reference was taken."""
    until: float = 0.0
    """Up to when samples were read, in Unix seconds."""
    since: float = 0.0
    """From when on a person called values usual; 0 where nobody did."""
    found: str = ""
    """What drifted, once it was written down."""

    @property
    def value(self) -> float:
        """The largest, each number having an equal part of the budget: that holds however they depend on one another."""
        return max(float(each.evidence.value) for each in self.numbers.values()) / len(self.numbers) if self.numbers else 1.0

    @property
    def proven(self) -> str:
        """What is proven by the values so far, in words; empty where nothing is."""
        if self.value < 1 / FALSE_ALARM:
            return ""
        name, most = max(self.numbers.items(), key=lambda each: float(each[1].evidence.value))
        edge, usual, now = most.parted
        return f"{name} drifted: {usual:.0%} of its usual values lie below {edge:g}, and {now:.0%} of the last {len(most.latest)}"


@dataclass(frozen=True, kw_only=True)
class DriftTold:
    """What the chain says of a version without a reckoning: to make evidence again takes a second for some days of it."""

    release: str
    learned: bool = False
    """Whether it is known what is usual."""
    seen: int = 0
    """Numbers after the reference."""
    found: str = ""
    last: str = ""
    """Time of the newest event."""

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {"learned": self.learned, "numbers": self.seen, "last": self.last or None, "drift": self.found or None}


def drift_told(events: Iterable[Event], release: str | None) -> DriftTold | None:
    """How a release stands by what was last watched of it; None where nothing was. Raises UserError for an event of a newer Headway."""
    told: dict[str, DriftTold] = {}
    for event in events:
        if event.kind == ACCEPTED:
            continue
        try:
            if event.body["release"] == release:
                key = str(event.body["watched"])
                told[key] = _told_after(told.pop(key, DriftTold(release=str(release))), event)
        except ODD:
            raise unreadable(event) from None
    return next(reversed(told.values()), None)


def _told_after(before: DriftTold, event: Event) -> DriftTold:
    now = replace(before, last=event.time)
    match event.kind:
        case DriftEvent.REFERENCE:
            return replace(now, learned=True, seen=0)
        case DriftEvent.COUNTED:
            cells = (cells for window in event.body["windows"] for cells in window["cells"].values())
            return replace(now, seen=before.seen + sum(map(len, cells)))
        case DriftEvent.DRIFTED:
            return replace(now, found=str(event.body["reason"]))
        case DriftEvent.ANEW:
            return DriftTold(release=before.release, last=event.time)
        case _:
            raise ValueError(event.kind)


def watched_key(drift: Drift) -> str:
    """What is watched, as a digest: another number or reference begins anew."""
    return hashlib.sha256(json.dumps(drift.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()[:16]


def watched(events: Iterable[Event], before: DriftStanding) -> DriftStanding:
    """How the version of `before` stands after `events`, which follow those that it has seen; those of other versions, or of what else was
    watched, are passed over. Raises UserError for an event of a newer Headway."""
    standing = before
    for event in events:
        if event.kind == ACCEPTED:
            continue
        try:
            if (event.body["release"], event.body["watched"]) == (before.release, before.watched):
                standing = _after(standing, event)
        except (*ODD, OSError):
            raise unreadable(event) from None
    return standing


def _after(before: DriftStanding, event: Event) -> DriftStanding:
    body: Mapping[str, Any] = event.body
    match event.kind:
        case DriftEvent.REFERENCE | DriftEvent.COUNTED:
            rhythm, chance = Rhythm(body["rhythm"]), Random(int(body["seed"]))  # noqa: S311  decides among equal values
            numbers = dict(before.numbers)
            if event.kind == DriftEvent.REFERENCE:
                if len(body["edges"]) > MOST_NUMBERS:
                    raise ValueError("edges")
                numbers = {name: NumberStanding.cut_by(edges, body["cutting"][name]) for name, edges in body["edges"].items()}
            for window in body["windows"]:
                hour = hour_of(float(window["start"]), rhythm)
                for name, cells in window["cells"].items():
                    one = numbers[name]
                    numbers[name] = one.learned(hour, cells) if event.kind == DriftEvent.REFERENCE else one.after(hour, cells, chance)
            return replace(before, numbers=numbers, until=float(body["until"]))
        case DriftEvent.DRIFTED:
            return replace(before, found=str(body["reason"]))
        case DriftEvent.ANEW:
            return DriftStanding(release=before.release, watched=before.watched, since=float(body["since"]))
        case _:
            raise ValueError(event.kind)


def hour_of(moment: float, rhythm: Rhythm) -> int:
    """Which hour of its rhythm a time (Unix seconds) belongs to, in UTC."""
    time = datetime.fromtimestamp(moment, tz=UTC)
    return {Rhythm.NONE: 0, Rhythm.DAY: time.hour, Rhythm.WEEK: time.weekday() * 24 + time.hour}[rhythm]
