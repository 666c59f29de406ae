"""The rules of others, ported from their source, over many rollouts at once: Flagger, Argo Rollouts, SageMaker's guardrails, Kayenta.

Sources: fluxcd/flagger 15bd6ad pkg/controller/scheduler.go and scheduler_metrics.go, pkg/metrics/observers/istio.go; argoproj/argo-rollouts
9f8d111 utils/evaluate, analysis/analysis.go; spinnaker/kayenta a69573b MannWhitneyClassifier.scala, NetflixACAJudge.scala; AWS developer
guide, deployment guardrails. Each sees what a dashboard would show: quantiles that Prometheus interpolates from buckets, error shares.

They are idealised in their favour: clean windows of whole minutes, no delay of a weight change, thresholds set from the service's
own history.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from headway.release.worlds.service import Shown
from headway.release.worlds.world import EDGES, Floats

Bools = NDArray[np.bool_]
RUNNING, BACK, PROMOTED = 0, 1, 2

SLOWER = 1.15
"""Ratio of p99 to the usual one that thresholds tolerate."""
FAILING = 0.005
"""Error share, or difference of shares, that thresholds tolerate."""


def quantile(buckets: Floats, at: float) -> Floats:
    """`histogram_quantile` over (rollouts, buckets): linear inside a bucket, the last finite edge above it, NaN without requests."""
    total = buckets.sum(axis=1)
    cumulative = np.cumsum(buckets, axis=1)
    place = (cumulative < (at * total)[:, None]).sum(axis=1)
    place = np.minimum(place, len(EDGES))
    edges = np.asarray(EDGES)
    upper = edges[np.minimum(place, len(EDGES) - 1)]
    lower = np.where(place > 0, edges[np.maximum(place, 1) - 1], 0.0)
    rows = np.arange(len(total))
    before = np.where(place > 0, cumulative[rows, np.maximum(place, 1) - 1], 0.0)
    inside = buckets[rows, np.minimum(place, buckets.shape[1] - 1)]
    found = lower + (upper - lower) * np.divide(at * total - before, inside, out=np.zeros_like(total), where=inside > 0)
    found = np.where(place >= len(EDGES), edges[-1], found)
    return np.where(total > 0, found, np.nan)


def pooled(shown: Shown, *arms: str) -> tuple[Floats, Floats]:
    """Buckets and errors of arms, all classes together."""
    buckets, errors = (np.stack([by_arm[arm] for arm in arms]).sum(axis=(0, 2)) for by_arm in (shown.buckets, shown.errors))
    return buckets, errors


def _share(errors: Floats, requests: Floats) -> Floats:
    return np.divide(errors, requests, out=np.full_like(errors, np.nan), where=requests > 0)


class IncumbentRule(Protocol):
    """A rule under test. `outcome` holds RUNNING, BACK or PROMOTED by rollout."""

    outcome: NDArray[np.int64]

    def learn(self, buckets: Floats, errors: Floats) -> None:
        """What the stable version did before, summed."""
        ...

    def weights(self) -> tuple[Floats, Floats]:
        """Shares of canary and baseline now."""
        ...

    def observe(self, minute: int, shown: Shown) -> None: ...


class _Base:
    def __init__(self, rollouts: int) -> None:
        self.outcome = np.zeros(rollouts, dtype=np.int64)
        self.weight = np.zeros(rollouts)
        self.usual = np.full(rollouts, np.nan)

    def learn(self, buckets: Floats, errors: Floats) -> None:
        del errors
        self.usual = quantile(buckets.sum(axis=1), 0.99)

    def weights(self) -> tuple[Floats, Floats]:
        running = np.where(self.outcome == RUNNING, self.weight, 0.0)
        return np.where(self.outcome == PROMOTED, 1.0, running), np.zeros_like(running)

    @property
    def running(self) -> Bools:
        return self.outcome == RUNNING


class Flagger(_Base):
    """interval 1m, threshold 5, stepWeight 5, maxWeight 50. A failed or unanswered check holds the weight and is counted, for ever; the count
    is looked at before the next analysis. `against_primary`: custom metrics that compare with the primary instead of fixed ranges."""

    THRESHOLD, STEP, LARGEST = 5, 0.05, 0.50

    def __init__(self, rollouts: int, *, against_primary: bool = False) -> None:
        super().__init__(rollouts)
        self._against_primary = against_primary
        self.weight[:] = self.STEP
        self.failed = np.zeros(rollouts, dtype=np.int64)

    def observe(self, minute: int, shown: Shown) -> None:
        del minute
        back = self.running & (self.failed >= self.THRESHOLD)
        self.outcome[back] = BACK
        buckets, errors = pooled(shown, "canary")
        p99, share = quantile(buckets, 0.99), _share(errors, buckets.sum(axis=1))
        if self._against_primary:
            other, other_errors = pooled(shown, "stable")
            healthy = (p99 <= SLOWER * quantile(other, 0.99)) & (share - _share(other_errors, other.sum(axis=1)) <= FAILING)
        else:
            healthy = (p99 <= SLOWER * self.usual) & (share <= FAILING)
        healthy &= shown.answered
        self.failed += self.running & ~healthy
        forward = self.running & healthy
        self.outcome[forward & (self.weight >= self.LARGEST - 1e-9)] = PROMOTED
        self.weight = np.where(forward, np.minimum(self.weight + self.STEP, self.LARGEST), self.weight)


class Argo(_Base):
    """Weights 20, 40, 60, 80 for 5 minutes each; background analysis of [5m] windows each minute, success conditions only, failureLimit 3,
    consecutiveErrorLimit 4; an unanswered query is an error and asked again after 10 s, an empty answer too; not-a-number is a failure."""

    FAILURES, ERRORS, PAUSE, STEPS, WINDOW = 3, 4, 5, (0.2, 0.4, 0.6, 0.8), 5
    ASKED_AGAIN_A_MINUTE = 6

    def __init__(self, rollouts: int) -> None:
        super().__init__(rollouts)
        self.weight[:] = self.STEPS[0]
        self.failed, self.unanswered = np.zeros(rollouts, dtype=np.int64), np.zeros(rollouts, dtype=np.int64)
        self._window: list[tuple[Floats, Floats]] = []

    def observe(self, minute: int, shown: Shown) -> None:
        self._window = [*self._window, pooled(shown, "canary")][-self.WINDOW :]
        buckets, errors = (np.sum([pair[part] for pair in self._window], axis=0) for part in (0, 1))
        requests = buckets.sum(axis=1)
        p99, share = quantile(buckets, 0.99), _share(errors, requests)
        erroneous = ~shown.answered
        self.unanswered = np.where(erroneous, self.unanswered + self.ASKED_AGAIN_A_MINUTE, 0)
        # Without requests rate() is zero over zero: not-a-number, which is no success.
        success = (p99 <= SLOWER * self.usual) & (share <= FAILING)
        self.failed += self.running & ~erroneous & ~success
        self.outcome[self.running & ((self.failed > self.FAILURES) | (self.unanswered > self.ERRORS))] = BACK
        step = (minute + 1) // self.PAUSE
        if step >= len(self.STEPS):
            self.outcome[self.running] = PROMOTED
        else:
            self.weight[:] = self.STEPS[step]


class SageMakerRule(_Base):
    """10 % for 300 s, then all for 300 s; any alarm rolls back. Alarms watch the endpoint, whose metrics do not tell its fleets apart: mean
    latency above 1.15x the usual one or error share above 0.5 %, over the last five whole minutes; missing data is no alarm."""

    BAKING, CANARY = 5, 0.10

    def __init__(self, rollouts: int) -> None:
        super().__init__(rollouts)
        self.weight[:] = self.CANARY
        edges = np.asarray(EDGES)
        self._window: list[tuple[Floats, Floats]] = []
        self._middles = np.concatenate([[edges[0] / 2], np.sqrt(edges[1:] * edges[:-1]), [edges[-1]]])

    def learn(self, buckets: Floats, errors: Floats) -> None:
        del errors
        self.usual = self._mean(buckets.sum(axis=1))

    def _mean(self, buckets: Floats) -> Floats:
        return _share((buckets * self._middles).sum(axis=1), buckets.sum(axis=1))

    def observe(self, minute: int, shown: Shown) -> None:
        self._window = [*self._window, pooled(shown, "stable", "canary")][-self.BAKING :]
        buckets, errors = (np.sum([pair[part] for pair in self._window], axis=0) for part in (0, 1))
        whole = len(self._window) == self.BAKING
        alarm = (self._mean(buckets) > SLOWER * self.usual) | (_share(errors, buckets.sum(axis=1)) > FAILING)
        self.outcome[self.running & alarm & shown.answered & whole] = BACK
        if minute + 1 >= 2 * self.BAKING:
            self.outcome[self.running] = PROMOTED
        elif minute + 1 == self.BAKING:
            self.weight[:] = 1.0


class Kayenta(_Base):
    """Canary and baseline of 10 % each; the points of each minute of p99 and of the error share are compared by Mann-Whitney's test (98 %
    interval of the Hodges-Lehmann shift) after 20, 40 and 60 minutes, each metric half of the score; below 75 it is rolled back, else
    promoted at the end. Minutes without data are left out. `allowed`: smallest ratio of means that counts as an increase."""

    SHARE, LOOKS, CONFIDENCE, TOLERANCE, PASS = 0.10, (20, 40, 60), 0.98, 0.25, 75.0

    def __init__(self, rollouts: int, *, allowed: float = 1.0) -> None:
        super().__init__(rollouts)
        self.weight[:] = self.SHARE
        self._allowed = allowed
        self._points: list[dict[str, tuple[Floats, Floats]]] = []

    def weights(self) -> tuple[Floats, Floats]:
        canary, _ = super().weights()
        return canary, np.where(self.running, self.SHARE, 0.0)

    def observe(self, minute: int, shown: Shown) -> None:
        point: dict[str, tuple[Floats, Floats]] = {}
        for arm in ("canary", "baseline"):
            buckets, errors = pooled(shown, arm)
            point[arm] = quantile(buckets, 0.99), 100 * _share(errors, buckets.sum(axis=1))
        self._points.append(point)
        if minute + 1 not in self.LOOKS:
            return
        series = {(arm, metric): np.stack([p[arm][metric] for p in self._points]) for arm in ("canary", "baseline") for metric in (0, 1)}
        for rollout in np.flatnonzero(self.running):
            high = sum(self._increased(series["canary", metric][:, rollout], series["baseline", metric][:, rollout]) for metric in (0, 1))
            if 100.0 * (2 - high) / 2 < self.PASS:
                self.outcome[rollout] = BACK
        if minute + 1 == self.LOOKS[-1]:
            self.outcome[self.running] = PROMOTED

    def _increased(self, canary: Floats, baseline: Floats) -> bool:
        canary, baseline = canary[np.isfinite(canary)], baseline[np.isfinite(baseline)]
        if not len(canary) or not len(baseline) or np.ptp(np.concatenate([canary, baseline])) == 0:
            return False
        lowest, shift = hodges_lehmann(canary, baseline, self.CONFIDENCE)
        mean = baseline.mean()
        ratio = canary.mean() / mean if mean > 0 else math.inf
        return lowest > self.TOLERANCE * abs(shift) and ratio >= self._allowed


def hodges_lehmann(canary: Floats, baseline: Floats, confidence: float) -> tuple[float, float]:
    """Lower end of the interval of the shift of `canary` against `baseline`, and the shift: order statistics of all differences, whose
    place is that of the normal approximation of Mann and Whitney's statistic."""
    differences = np.subtract.outer(canary, baseline).ravel()
    m, n = len(canary), len(baseline)
    place = m * n / 2 - _deviations(confidence) * math.sqrt(m * n * (m + n + 1) / 12)
    lowest, middle = max(round(place) - 1, 0), (m * n) // 2
    ordered = np.partition(differences, sorted({lowest, middle - 1 + m * n % 2, middle}))
    shift = (ordered[middle] + ordered[middle - 1 + m * n % 2]) / 2
    return float(ordered[lowest]) if place >= 1 else -math.inf, float(shift)


@cache
def _deviations(confidence: float) -> float:
    """Standard deviations of a normal variable within which it lies with this probability."""
    return float(norm.ppf((1 + confidence) / 2))


RULES: dict[str, Callable[[int], IncumbentRule]] = {
    "Flagger": Flagger,
    "Flagger, ratios": lambda rollouts: Flagger(rollouts, against_primary=True),
    "Argo Rollouts": Argo,
    "SageMaker": SageMakerRule,
    "Kayenta": Kayenta,
    "Kayenta, 1.2": lambda rollouts: Kayenta(rollouts, allowed=1.2),
}
