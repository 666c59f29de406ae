"""One look at the numbers of users' requests and answers: what is usual is learned once, then what came since is counted, each written down.

Samples are read in windows of a quarter of an hour, when the last of them must have arrived, so none is read twice. Of each window few enough are
taken that the ledger stays small, by their ids and not by their time; and of those that came within a second one, for requests in clusters are
no exchangeable ones. While a release is under way nothing is read: what serves then is no single version.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum, unique
from random import Random
from typing import Any, NamedTuple

from headway.contract.drift import Drift
from headway.contract.sampling import Sample
from headway.ledger.chain import Ledger, LostError
from headway.ledger.followed import FollowedLedger
from headway.problem import Exit, UserError
from headway.release.driver.following import followed
from headway.release.driver.rollout_state import ServiceState
from headway.release.evaluation.watched import (
    CUTS,
    FEWEST,
    DriftEvent,
    DriftStanding,
    celled,
    counted,
    cut,
    number_of,
    watched,
    watched_key,
)

WINDOW_SECONDS = 900.0
VALUES_AT_MOST = 40
"""Of a number in a window."""
APART_SECONDS = 1.0
_CATCHES_UP = timedelta(days=1)
"""How far back a look reads that comes late; what was before is not counted."""
_OK = 200


@unique
class DriftLook(StrEnum):
    """What a look found or did."""

    UNDER_WAY = "a release is under way"
    LEARNING = "what is usual is being learned"
    FEW = "too few samples"
    WAITING = "no window is over"
    COUNTED = "counted"
    DRIFTED = "drift proven"
    """Means a person decides."""


@dataclass(frozen=True, kw_only=True)
class DriftResult:
    """What a look found. `wait`: seconds until the next one is worth while."""

    look: DriftLook
    standing: DriftStanding
    wait: float = 0.0
    new: bool = False
    """Whether drift was proven by this very look."""
    fewest: tuple[str, int] = ("", 0)
    """The number with the fewest values, where these are too few, and how many."""

    @property
    def code(self) -> Exit:
        """How a command ends that looked once."""
        return {DriftLook.UNDER_WAY: Exit.UNDER_WAY, DriftLook.DRIFTED: Exit.REFUSED}.get(self.look, Exit.OK)

    def document(self) -> dict[str, Any]:
        """For programs."""
        numbers = {
            name: {"values": each.seen, "evidence": float(f"{each.evidence.value:.4g}")} for name, each in self.standing.numbers.items()
        }
        found = {"look": self.look.value, "release": self.standing.release, "next_seconds": self.wait, "numbers": numbers}
        return {**found, "evidence": float(f"{self.standing.value:.4g}"), "drift": self.standing.found or None}


class SampleWindow(NamedTuple):
    """Values of each number in a quarter of an hour from `start` (Unix seconds) on, in order of time."""

    start: float
    values: Mapping[str, Sequence[float]]


ReadSamples = Callable[[str, float, float], Sequence[Sample]]
"""What the release answered to users later than the first and up to the second time. Raises OutOfReachError, UnreadableSamplesError."""


class DriftWatch:
    """Of one service. `rounds`: its chain of watched numbers; `releases`: that of its releases. `late_seconds`: how long a sample may take.
    `speed`: for the sandbox, where times pass faster."""

    def __init__(
        self,
        *,
        rounds: Ledger,
        releases: Ledger,
        drift: Drift,
        read: ReadSamples,
        late_seconds: float,
        chance: Random,
        now: Callable[[], datetime],
        speed: float = 1.0,
    ) -> None:
        self._releases, self._drift, self.read = followed(releases), drift, read
        self._late, self._chance, self._now = late_seconds, chance, now
        self._window, self._apart, self._reference = WINDOW_SECONDS / speed, APART_SECONDS / speed, drift.reference.seconds / speed
        self._catches_up = _CATCHES_UP.total_seconds() / speed
        self._watched, self._release = watched_key(drift), ""
        self._rounds = FollowedLedger(rounds, watched, self._unread(""))

    def look(self) -> DriftResult:
        """Once. Raises OutOfReachError, UnreadableSamplesError, UserError, UnreachableError; what was written down stays."""
        service = self._releases.look()
        release = self._serving(service)
        self._turn_to(release)
        self._rounds.attest()  # also what was written by a loop that died then
        standing = self._standing(release)
        if standing.found:
            return DriftResult(look=DriftLook.DRIFTED, standing=standing, wait=self._window)
        if service.running:
            return DriftResult(look=DriftLook.UNDER_WAY, standing=standing, wait=self._window)
        complete = self._now().timestamp() - self._late
        if not standing.numbers:
            return self._learn(service, standing, complete)
        end = standing.until + (complete - standing.until) // self._window * self._window
        if end <= standing.until:
            return DriftResult(look=DriftLook.WAITING, standing=standing, wait=standing.until + self._window - complete)
        return self._count(standing, max(standing.until, end - self._catches_up), end)

    def anew(self, reason: str) -> None:
        """Learn from now on what is usual. Raises UserError where nothing serves, UnreachableError."""
        standing = self._standing(self._serving(self._releases.read()))
        self._write(DriftEvent.ANEW, standing, {"since": self._now().timestamp(), "reason": reason})

    def _learn(self, service: ServiceState, standing: DriftStanding, complete: float) -> DriftResult:
        length = self._reference
        begun = max(standing.since, datetime.fromisoformat(service.past[-1].last).timestamp() if service.past else 0.0)
        start = math.ceil(max(begun, complete - length - self._window) / self._window) * self._window
        if complete < start + length:
            return DriftResult(look=DriftLook.LEARNING, standing=standing, wait=start + length - complete)
        windows = self._windows(standing.release, start, start + length)
        pooled = {each.name: [value for window in windows for value in window.values[each.name]] for each in self._drift.numbers}
        fewest = min(pooled, key=lambda name: len(pooled[name]))
        if len(pooled[fewest]) * (CUTS - 1) / CUTS < FEWEST:
            few = (fewest, len(pooled[fewest]))
            return DriftResult(look=DriftLook.FEW, standing=standing, wait=self._window, fewest=few)
        edges = {name: cut(values[::CUTS]) for name, values in pooled.items()}
        cutting = {name: counted(celled(pooled[name][::CUTS], edges[name])).tolist()[: len(edges[name]) + 1] for name in edges}
        compared = _without_what_cuts(windows)
        self._write(DriftEvent.REFERENCE, standing, {"edges": edges, "cutting": cutting, **self._body(compared, edges, start + length)})
        return DriftResult(look=DriftLook.COUNTED, standing=self._standing(standing.release), wait=self._window)

    def _count(self, standing: DriftStanding, start: float, end: float) -> DriftResult:
        windows = self._windows(standing.release, start, end)
        edges = {name: each.edges for name, each in standing.numbers.items()}
        self._write(DriftEvent.COUNTED, standing, self._body(windows, edges, end))
        after = self._standing(standing.release)
        if not (proven := after.proven):
            return DriftResult(look=DriftLook.COUNTED, standing=after, wait=self._window)
        if not after.found:
            self._write(DriftEvent.DRIFTED, after, {"value": float(f"{after.value:.6g}"), "reason": proven})
        return DriftResult(look=DriftLook.DRIFTED, standing=self._standing(standing.release), wait=self._window, new=not after.found)

    def _body(self, windows: Sequence[SampleWindow], edges: Mapping[str, Sequence[float]], until: float) -> dict[str, Any]:
        counted = [
            {"start": window.start, "cells": {name: celled(values, edges[name]) for name, values in window.values.items()}}
            for window in windows
            if any(window.values.values())
        ]
        return {"rhythm": self._drift.rhythm.value, "seed": self._chance.getrandbits(32), "windows": counted, "until": until}

    def _windows(self, release: str, start: float, end: float) -> list[SampleWindow]:
        starts = [start + self._window * number for number in range(round((end - start) / self._window))]
        return [SampleWindow(each, self._values(release, each)) for each in starts]

    def _values(self, release: str, start: float) -> dict[str, list[float]]:
        once = {each.request_id: each for each in self.read(release, start, start + self._window)}
        apart: list[Sample] = []
        for sample in sorted(once.values(), key=lambda each: (_moment(each), each.request_id)):
            if sample.status == _OK and (not apart or _moment(sample) - _moment(apart[-1]) >= self._apart):
                apart.append(sample)
        chosen = sorted(sorted(apart, key=lambda each: each.request_id)[:VALUES_AT_MOST], key=_moment)
        numbers = {each.name: [number_of(sample, each) for sample in chosen] for each in self._drift.numbers}
        return {name: [value for value in values if value is not None] for name, values in numbers.items()}

    def _serving(self, service: ServiceState) -> str:
        if service.stable is None:
            raise UserError(
                f"The ledger does not know what serves {self._releases.chain}.",
                "There is nothing to watch.",
                "Deploy the tenant's stack first; what it deploys becomes the first release.",
                Exit.REFUSED,
            )
        return service.stable

    def _standing(self, release: str) -> DriftStanding:
        self._turn_to(release)
        return self._rounds.read()

    def _turn_to(self, release: str) -> None:
        """What was read before of the same version is not reckoned again."""
        if self._release != release:
            self._release, self._rounds = release, self._rounds.anew(self._unread(release))

    def _unread(self, release: str) -> DriftStanding:
        return DriftStanding(release=release, watched=self._watched)

    def _write(self, kind: DriftEvent, standing: DriftStanding, body: dict[str, Any]) -> None:
        """Nothing where another loop has written meanwhile: whoever reads on finds what it wrote."""
        with suppress(LostError):
            self._rounds.append(kind, {"release": standing.release, "watched": standing.watched, **body})
        self._rounds.attest()


def _without_what_cuts(windows: Sequence[SampleWindow]) -> list[SampleWindow]:
    """Values of the reference that are compared; `cut` has seen the others."""
    seen: dict[str, int] = {}
    kept: list[SampleWindow] = []
    for window in windows:
        values: dict[str, list[float]] = {}
        for name, all_values in window.values.items():
            first = seen.get(name, 0)
            values[name] = [value for place, value in enumerate(all_values, first) if place % CUTS]
            seen[name] = first + len(all_values)
        kept.append(SampleWindow(window.start, values))
    return kept


def _moment(sample: Sample) -> float:
    time = datetime.fromisoformat(sample.time)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
