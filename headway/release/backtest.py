"""What a release policy would have done on a service's own history: how often it had rolled back the version that was running, and how
soon it had found that version slowed down or failing.

Pods of one version are divided into pseudo-arms, anew for each rehearsal; the gate sees their real counts, thinned to the weights it asks
for. With a single pod the requests are divided instead, which hides how pods differ; `Backtest.pods` says which it was.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import beta

from headway.release.gate import Counts, Decision, Gate, GatePolicy, Phase, Reason, Tick
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


@dataclass(frozen=True, kw_only=True)
class RehearsalOutcome:
    """What became of the rehearsals of one change."""

    change: str
    rehearsals: int
    rolled_back: int
    promoted: int
    undecided: int
    minutes: float | None
    """Median to the decision; None where there was none."""
    exposure: float
    """Mean, in minutes of full traffic that the changed arm answered before the decision."""
    reasons: Mapping[str, int]

    def interval(self) -> tuple[float, float]:
        """95 % interval of the share that was rolled back (Clopper and Pearson)."""
        low = beta.ppf(0.025, self.rolled_back, self.rehearsals - self.rolled_back + 1) if self.rolled_back else 0.0
        high = beta.ppf(0.975, self.rolled_back + 1, self.rehearsals - self.rolled_back) if self.rolled_back < self.rehearsals else 1.0
        return float(low), float(high)


@dataclass(frozen=True, kw_only=True)
class Backtest:
    """All outcomes, in the order of the changes."""

    outcomes: tuple[RehearsalOutcome, ...]
    pods: int
    """How many there were to divide; 1: requests were divided instead."""
    ticks: int
    unanswered: int

    def calibrated(self, promised: float) -> bool:
        """Whether the unchanged version was not rolled back more often than `promised`, as far as so many rehearsals can tell."""
        return all(outcome.interval()[0] <= promised for outcome in self.outcomes if outcome.change == CHANGES[0].name)


def backtest(
    history: History,
    policy: GatePolicy,
    *,
    rehearsals: int,
    longest_ticks: int,
    rng: Generator,
    changes: Sequence[RehearsedChange] = CHANGES,
) -> Backtest:
    """Rehearse a release `rehearsals` times for each change, from moments spread over the history, each for `longest_ticks` at most.

    Raises ValueError where the history is shorter than one rehearsal.
    """
    last = history.ticks - longest_ticks
    if last < LEARNT_TICKS:
        raise ValueError(
            f"{history.ticks} ticks of history. A rehearsal takes {LEARNT_TICKS + longest_ticks}. Take a longer history or shorter rehearsals"
        )
    quick = replace(policy, bake_ticks=1)
    starts = np.linspace(LEARNT_TICKS, last, rehearsals).astype(int)
    outcomes = tuple(_rehearse(history, quick, change, starts, longest_ticks, rng) for change in changes)
    return Backtest(outcomes=outcomes, pods=len(history.pods), ticks=history.ticks, unanswered=int((~history.answered).sum()))


def _rehearse(
    history: History, policy: GatePolicy, change: RehearsedChange, starts: NDArray[np.int_], longest: int, rng: Generator
) -> RehearsalOutcome:
    n = len(starts)
    arms = _Arms(history, n, rng)
    gate = Gate(policy, history.edges, history.classes, shape=(n,), tick_seconds=history.tick_seconds)
    gate.learn(arms.learnt(starts))
    decision = gate.start()
    decided, exposure = np.full(n, np.nan), np.zeros(n)
    reasons: dict[str, int] = {}
    for tick in range(longest):
        before = decision.phase == Phase.RELEASING
        seen, share = arms.tick(starts + tick, decision, change)
        decision = gate.observe(seen)
        exposure += np.where(before, share, 0.0) * history.tick_seconds / 60
        now = before & (decision.phase != Phase.RELEASING)
        decided[now] = tick + 1
        for code in decision.reason[now & (decision.phase == Phase.ROLLED_BACK)]:
            name = Reason(int(code)).name.lower()
            reasons[name] = reasons.get(name, 0) + 1
        if (decision.phase != Phase.RELEASING).all():
            break
    back = decision.phase == Phase.ROLLED_BACK
    still = decision.phase == Phase.RELEASING
    known = decided[~np.isnan(decided)]
    return RehearsalOutcome(
        change=change.name,
        rehearsals=n,
        rolled_back=int(back.sum()),
        promoted=int((~back & ~still).sum()),
        undecided=int(still.sum()),
        minutes=float(np.median(known)) * history.tick_seconds / 60 if len(known) else None,
        exposure=float(exposure.mean()),
        reasons=dict(sorted(reasons.items())),
    )


class _Arms:
    """Divides pods into the pseudo-canary's and the rest, once a rehearsal, and thins their counts to the weights asked for."""

    def __init__(self, history: History, rehearsals: int, rng: Generator) -> None:
        self._history, self._rng = history, rng
        self._tails = {name: LatencyTail(ends) for name, ends in history.edges.items()}
        names = sorted(history.pods)
        self._alone = len(names) == 1
        self._buckets = {key: np.stack([history.pods[name].buckets[key] for name in names]) for key in history.edges}
        self._errors = np.stack([history.pods[name].errors for name in names])
        chosen = np.zeros((rehearsals, len(names)), dtype=bool)
        for row in chosen:
            row[rng.permutation(len(names))[: len(names) // 2]] = True
        self._chosen = chosen.astype(np.float64)

    def learnt(self, starts: NDArray[np.int_]) -> Counts:
        """The rest's counts before each rehearsal."""
        windows = starts[:, None] + np.arange(-LEARNT_TICKS, 0)
        rest = 1.0 - self._chosen
        buckets = {key: np.einsum("rp,prtcb->rcb", rest, values[:, windows]) for key, values in self._buckets.items()}
        return Counts(buckets=buckets, errors=np.einsum("rp,prtc->rc", rest, self._errors[:, windows]))

    def tick(self, at: NDArray[np.int_], decision: Decision, change: RehearsedChange) -> tuple[Tick, Floats]:
        """What the gate would have seen, and the share of users' requests that the pseudo-canary answered."""
        weight, baseline, mirror = decision.weight, decision.baseline_weight, decision.mirror
        mine, rest = self._sum(self._chosen, at), self._sum(1.0 - self._chosen, at)
        first = next(iter(self._buckets))
        total = rest[0][first].sum(axis=(1, 2))
        if self._alone:
            mine, rest = self._thin(rest, np.full(len(at), 0.5)), self._thin(rest, np.full(len(at), 0.5))
            total = rest[0][first].sum(axis=(1, 2))
        available = mine[0][first].sum(axis=(1, 2))
        # As many users' requests as both parts have enough for, so that the weights are those asked for.
        users = np.minimum(total / np.maximum(1.0 - weight, 1e-9), np.where(weight > 0, available / np.maximum(weight, 1e-9), np.inf))
        rest = self._thin(rest, np.clip(_ratio((1.0 - weight) * users, total), 0.0, 1.0))
        total = rest[0][first].sum(axis=(1, 2))
        wanted = np.where(weight > 0, weight * users, mirror * total)
        given = np.minimum(_ratio(wanted, available), 1.0)
        changed = self._change(self._thin(mine, given), change)
        of_rest = np.clip(_ratio(baseline * users, total), 0.0, 1.0)
        twin = self._thin(rest, of_rest)
        stable = {key: rest[0][key] - twin[0][key] for key in rest[0]}, np.maximum(rest[1] - twin[1], 0.0)
        mirroring = (mirror > 0) & (weight == 0)
        answered = self._history.answered[at]
        tick = Tick(
            stable=_counts(*stable),
            baseline=_counts(*twin),
            canary=_counts(*_where(~mirroring, changed)),
            mirrored=_counts(*_where(mirroring, changed)),
            answered=answered,
        )
        served = np.where(mirroring, 0.0, changed[0][first].sum(axis=(1, 2)))
        return tick, _ratio(served, users)

    def _sum(self, pods: Floats, at: NDArray[np.int_]) -> tuple[dict[str, Floats], Floats]:
        buckets = {key: np.einsum("rp,prcb->rcb", pods, values[:, at]) for key, values in self._buckets.items()}
        return buckets, np.einsum("rp,prc->rc", pods, self._errors[:, at])

    def _thin(self, counts: tuple[dict[str, Floats], Floats], share: Floats) -> tuple[dict[str, Floats], Floats]:
        """Each request stays with this probability."""
        rng = self._rng
        buckets = {key: rng.binomial(values.astype(int), share[:, None, None]).astype(float) for key, values in counts[0].items()}
        errors = rng.binomial(counts[1].astype(int), share[:, None]).astype(float)
        return buckets, errors

    def _change(self, counts: tuple[dict[str, Floats], Floats], change: RehearsedChange) -> tuple[dict[str, Floats], Floats]:
        buckets, errors = counts
        if change.slower:
            buckets = {key: self._slower(key, values, change.slower) for key, values in buckets.items()}
        if change.failing:
            requests = next(iter(buckets.values())).sum(axis=2)
            errors = errors + self._rng.binomial(np.maximum(requests - errors, 0).astype(int), change.failing)
        return buckets, errors

    def _slower(self, key: str, values: Floats, slower: float) -> Floats:
        """The same requests, each taking longer: some cross the next edge, as many as the histogram's own shape says."""
        turned = np.ascontiguousarray(np.moveaxis(values, 0, -1))
        tail = self._tails[key]
        masses = tail.masses(turned)
        above = np.minimum(masses * tail.ratio(tail.quantiles(masses), masses, slower), 1.0)
        above = np.maximum.accumulate(above[:, ::-1], axis=1)[:, ::-1]
        shares = np.moveaxis(-np.diff(above, axis=1, prepend=1.0, append=0.0), -1, 0)
        shares = np.maximum(shares, 0.0)
        totals = values.sum(axis=2)
        shares = np.where(totals[..., None] > 0, shares / np.maximum(shares.sum(axis=2, keepdims=True), 1e-12), 1.0 / shares.shape[2])
        return self._rng.multinomial(totals.astype(int), shares).astype(float)


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Zero where there is nothing to divide by."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _counts(buckets: Mapping[str, Floats], errors: Floats) -> Counts:
    return Counts(buckets=buckets, errors=errors)


def _where(here: NDArray[np.bool_], counts: tuple[dict[str, Floats], Floats]) -> tuple[dict[str, Floats], Floats]:
    return {key: np.where(here[:, None, None], values, 0.0) for key, values in counts[0].items()}, np.where(here[:, None], counts[1], 0.0)


def ticks_of(seconds: float, tick_seconds: float) -> int:
    """Whole ticks, one at least."""
    return max(1, math.ceil(seconds / tick_seconds))
