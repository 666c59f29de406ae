"""A service's own history, divided into the arms of a release that never was.

Pods of one version are divided into pseudo-arms, anew for each rehearsal; the gate sees their real counts, thinned to the weights it asks
for. With a single pod the requests are divided instead, which hides how pods differ; `Backtest.pods` says which it was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from headway.release.gate import Counts, Decision, Tick
from headway.release.gate.tail import LatencyTail

Floats = NDArray[np.float64]

LEARNT_TICKS = 15
"""Before each rehearsal, as before a release."""


@dataclass(frozen=True)
class PodHistory:
    """One pod's counts by tick."""

    buckets: Mapping[str, Floats]
    """By histogram: (ticks, classes, buckets)."""
    errors: Floats
    """(ticks, classes)"""


@dataclass(frozen=True, kw_only=True)
class History:
    """A service's counts, tick by tick."""

    edges: Mapping[str, Sequence[float]]
    classes: tuple[str, ...]
    pods: Mapping[str, PodHistory]
    answered: NDArray[np.bool_]
    """(ticks,): whether everything was scraped."""
    tick_seconds: float

    @property
    def ticks(self) -> int:
        return len(self.answered)

    def rates(self) -> tuple[float, float, float]:
        """Requests a second in its scraped ticks: the tenth, the half and nine tenths of them had at most so many."""
        first = next(iter(self.edges))
        a_tick = sum(pod.buckets[first].sum(axis=(1, 2)) for pod in self.pods.values())
        low, middle, high = np.quantile(np.asarray(a_tick)[self.answered], (0.1, 0.5, 0.9)) / self.tick_seconds
        return float(low), float(middle), float(high)


@dataclass(frozen=True, kw_only=True)
class RehearsedChange:
    """What is done to the pseudo-canary's real counts. `slower`: all requests take that much longer; `failing`: this share of them fails."""

    name: str
    slower: float = 0.0
    failing: float = 0.0

    @property
    def healthy(self) -> bool:
        return not self.slower and not self.failing


CHANGES = (
    RehearsedChange(name="none"),
    RehearsedChange(name="p99 +20 %", slower=0.2),
    RehearsedChange(name="p99 +50 %", slower=0.5),
    RehearsedChange(name="p99 +100 %", slower=1.0),
    RehearsedChange(name="errors 1 %", failing=0.01),
    RehearsedChange(name="errors 5 %", failing=0.05),
)


class HistoryTraffic:
    """Implements `RehearsedTraffic`: divides pods into the pseudo-canary's and the rest, once a rehearsal, and thins their counts to the
    weights asked for."""

    def __init__(self, history: History, change: RehearsedChange, starts: NDArray[np.int_], rng: Generator) -> None:
        """`starts`: the tick of the history in which each rehearsal begins."""
        self._history, self._change_to, self._starts, self._rng = history, change, starts, rng
        rehearsals = self.rehearsals = len(starts)
        self._tails = {name: LatencyTail(ends) for name, ends in history.edges.items()}
        names = sorted(history.pods)
        self._alone = len(names) == 1
        self._buckets = {key: np.stack([history.pods[name].buckets[key] for name in names]) for key in history.edges}
        self._errors = np.stack([history.pods[name].errors for name in names])
        self._chosen = np.stack([rng.permutation(len(names))[: len(names) // 2] for _ in range(rehearsals)])
        self._rest = np.ones((rehearsals, len(names)))
        np.put_along_axis(self._rest, self._chosen, 0.0, axis=1)

    @property
    def edges(self) -> Mapping[str, Sequence[float]]:
        return self._history.edges

    @property
    def classes(self) -> tuple[str, ...]:
        return self._history.classes

    @property
    def tick_seconds(self) -> float:
        return self._history.tick_seconds

    def learnt(self) -> Counts:
        """The rest's counts before each rehearsal."""
        windows = self._starts[:, None] + np.arange(-LEARNT_TICKS, 0)
        buckets = {key: np.einsum("rp,prtcb->rcb", self._rest, values[:, windows]) for key, values in self._buckets.items()}
        return Counts(buckets=buckets, errors=np.einsum("rp,prtc->rc", self._rest, self._errors[:, windows]))

    def tick(self, number: int, decision: Decision) -> tuple[Tick, Floats]:
        """What the gate would have seen, and the share of users' requests that the pseudo-canary answered."""
        at = self._starts + number
        weight, baseline, mirror = decision.weight, decision.baseline_weight, decision.mirror
        rest = (
            {key: np.einsum("rp,prcb->rcb", self._rest, values[:, at]) for key, values in self._buckets.items()},
            np.einsum("rp,prc->rc", self._rest, self._errors[:, at]),
        )
        first = next(iter(self._buckets))
        if self._alone:
            half = np.full(len(at), 0.5)
            of_one, rest = self._thin(rest, half), self._thin(rest, half)
            mine = {key: values[:, None] for key, values in of_one[0].items()}, of_one[1][:, None]
        else:
            when = at[:, None]
            mine = {key: values[self._chosen, when] for key, values in self._buckets.items()}, self._errors[self._chosen, when]
        total = rest[0][first].sum(axis=(1, 2))
        available = mine[0][first].sum(axis=(1, 2, 3))
        # As many users' requests as both parts have enough for, so that the weights are those asked for.
        users = np.minimum(total / np.maximum(1.0 - weight, 1e-9), np.where(weight > 0, available / np.maximum(weight, 1e-9), np.inf))
        rest = self._thin(rest, np.clip(_ratio((1.0 - weight) * users, total), 0.0, 1.0))
        total = rest[0][first].sum(axis=(1, 2))
        wanted = np.where(weight > 0, weight * users, mirror * total)
        given = np.minimum(_ratio(wanted, available), 1.0)
        changed = self._change(self._thin(mine, given), self._change_to)
        of_rest = np.clip(_ratio(baseline * users, total), 0.0, 1.0)
        twin = self._thin(rest, of_rest)
        stable = {key: rest[0][key] - twin[0][key] for key in rest[0]}, np.maximum(rest[1] - twin[1], 0.0)
        mirroring = (mirror > 0) & (weight == 0)
        answered = self._history.answered[at]
        tick = Tick(
            stable=_counts(*stable),
            baseline=_counts(*twin),
            canary=self._of_pods(~mirroring, changed),
            mirrored=self._of_pods(mirroring, changed),
            answered=answered,
        )
        served = np.where(mirroring, 0.0, changed[0][first].sum(axis=(1, 2, 3)))
        return tick, _ratio(served, users)

    def _of_pods(self, here: NDArray[np.bool_], counts: tuple[dict[str, Floats], Floats]) -> Counts:
        """Of an arm that is there in some rehearsals; its pods are told apart as a release's are, unless there is one to divide."""
        buckets = {key: np.where(here[:, None, None, None], values, 0.0) for key, values in counts[0].items()}
        errors = np.where(here[:, None, None], counts[1], 0.0)
        together = {key: values.sum(axis=1) for key, values in buckets.items()}
        return Counts(buckets=together, errors=errors.sum(axis=1), by_replica=None if self._alone else buckets)

    def _thin(self, counts: tuple[dict[str, Floats], Floats], share: Floats) -> tuple[dict[str, Floats], Floats]:
        """Each request stays with this probability, one a rehearsal."""

        def kept(values: Floats) -> Floats:
            return self._rng.binomial(values.astype(int), share.reshape(-1, *(1,) * (values.ndim - 1))).astype(float)

        return {key: kept(values) for key, values in counts[0].items()}, kept(counts[1])

    def _change(self, counts: tuple[dict[str, Floats], Floats], change: RehearsedChange) -> tuple[dict[str, Floats], Floats]:
        buckets, errors = counts
        if change.slower:
            buckets = {key: self._slower(key, values, change.slower) for key, values in buckets.items()}
        if change.failing:
            requests = next(iter(buckets.values())).sum(axis=-1)
            errors = errors + self._rng.binomial(np.maximum(requests - errors, 0).astype(int), change.failing)
        return buckets, errors

    def _slower(self, key: str, values: Floats, slower: float) -> Floats:
        """The same requests, each taking longer: some cross the next edge, as many as the histogram's own shape says."""
        counts = values.reshape(-1, *values.shape[-2:])
        turned = np.ascontiguousarray(np.moveaxis(counts, 0, -1))
        tail = self._tails[key]
        masses = tail.masses(turned)
        above = np.minimum(masses * tail.ratio(tail.quantiles(masses), masses, slower), 1.0)
        above = np.maximum.accumulate(above[:, ::-1], axis=1)[:, ::-1]
        shares = np.moveaxis(-np.diff(above, axis=1, prepend=1.0, append=0.0), -1, 0)
        shares = np.maximum(shares, 0.0)
        totals = counts.sum(axis=2)
        shares = np.where(totals[..., None] > 0, shares / np.maximum(shares.sum(axis=2, keepdims=True), 1e-12), 1.0 / shares.shape[2])
        return self._rng.multinomial(totals.astype(int), shares).astype(float).reshape(values.shape)


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Zero where there is nothing to divide by."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _counts(buckets: Mapping[str, Floats], errors: Floats) -> Counts:
    return Counts(buckets=buckets, errors=errors)
