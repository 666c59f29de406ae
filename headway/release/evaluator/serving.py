"""What the loops show of themselves while they run: whether they still look, and how each version stands. No label has a value of a request."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from headway.release.evaluator.drift_watch import DriftResult
from headway.release.evaluator.evaluator import LookResult

_WHOSE = ("tenant", "model")
Result = TypeVar("Result")


@dataclass
class LookPulse(ABC, Generic[Result]):
    """What happened so far. `clock` in seconds that only grow; `now` in seconds of the epoch."""

    clock: Callable[[], float]
    patience_seconds: float
    now: Callable[[], float]
    _last: float = field(default=0.0, init=False)
    _newest: dict[str, Result] = field(default_factory=dict[str, Result], init=False)
    _well: dict[str, float] = field(default_factory=dict[str, float], init=False)
    """When each service was last looked at well; 0 for one that never was."""
    _failed: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._last = self.clock()

    def watches(self, chains: Sequence[str]) -> None:
        """These services, and no others."""
        self._well = {chain: self._well.get(chain, 0.0) for chain in chains}
        self._newest = {chain: result for chain, result in self._newest.items() if chain in self._well}

    def turned(self) -> None:
        """The loop came round, whether anything was due or not."""
        self._last = self.clock()

    def looked(self, chain: str, result: Result, *, well: bool = True) -> None:
        """A look ended. `well`: whether it found out what it is for."""
        self._last, self._newest[chain] = self.clock(), result
        if well:
            self._well[chain] = self.now()

    def failed(self) -> None:
        """A look ended without an answer. The loop is well all the same: to start it anew would mend nothing."""
        self.turned()
        self._failed += 1

    @property
    def well(self) -> bool:
        return self.clock() - self._last < self.patience_seconds

    @abstractmethod
    def collect(self) -> Iterator[Metric]:
        """As prometheus_client asks a collector."""

    def signs(self, loop: str) -> Iterator[Metric]:
        """That it looks, and at what in vain."""
        looked = GaugeMetricFamily(f"{loop}_last_look_timestamp_seconds", "When a look last ended well.", labels=_WHOSE)
        for chain, moment in sorted(self._well.items()):
            looked.add_metric(chain.split("/"), moment)
        yield looked
        yield CounterMetricFamily(f"{loop}_failed_looks", "Looks that nobody answered, or that were refused.", self._failed)

    def text(self) -> str:
        """In Prometheus' text format."""
        return generate_latest(self).decode()


class EvaluationPulse(LookPulse[LookResult]):
    """How each version stands by its labelled answers."""

    def collect(self) -> Iterator[Metric]:
        evidence = GaugeMetricFamily("headway_evaluation_evidence", "Against the serving version; 100 proves a loss.", labels=_WHOSE)
        loss = GaugeMetricFamily("headway_evaluation_loss", "Whether a loss of the serving version is proven.", labels=_WHOSE)
        last = GaugeMetricFamily("headway_evaluation_last_round_timestamp_seconds", "When it was last asked.", labels=_WHOSE)
        wrong = GaugeMetricFamily("headway_evaluation_wrong", "Share of its labelled answers that were wrong.", labels=(*_WHOSE, "slice"))
        for chain, result in sorted(self._newest.items()):
            labels, standing = chain.split("/"), result.standing
            if standing is None:
                continue
            evidence.add_metric(labels, standing.value)
            loss.add_metric(labels, int(standing.answer is not None))
            if standing.last:
                last.add_metric(labels, datetime.fromisoformat(standing.last).timestamp())
            for name, stream in sorted(standing.streams.items()):
                if stream.asked:
                    wrong.add_metric([*labels, name], stream.wrong / stream.asked)
        yield from (evidence, loss, last, wrong, *self.signs("headway_evaluation"))


class DriftPulse(LookPulse[DriftResult]):
    """Whether what each version's users send and get drifted."""

    def collect(self) -> Iterator[Metric]:
        evidence = GaugeMetricFamily("headway_drift_evidence", "That watched numbers drifted; 100 proves it.", labels=_WHOSE)
        proven = GaugeMetricFamily("headway_drift_proven", "Whether drift is proven, and a person has to decide.", labels=_WHOSE)
        for chain, result in sorted(self._newest.items()):
            evidence.add_metric(chain.split("/"), result.standing.value)
            proven.add_metric(chain.split("/"), int(bool(result.standing.found)))
        yield from (evidence, proven, *self.signs("headway_drift"))
