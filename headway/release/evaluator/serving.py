"""What the loop shows of itself while it runs: whether it still looks, and how each version stands by its labelled answers."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from headway.listening import listening, pages
from headway.release.evaluator.evaluator import LookResult


@dataclass
class EvaluationPulse:
    """What happened so far. `clock` in seconds that only grow; `now` in seconds of the epoch."""

    clock: Callable[[], float]
    patience_seconds: float
    now: Callable[[], float]
    _last: float = field(default=0.0, init=False)
    _newest: dict[str, LookResult] = field(default_factory=dict[str, LookResult], init=False)
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

    def looked(self, chain: str, result: LookResult) -> None:
        self._last, self._newest[chain], self._well[chain] = self.clock(), result, self.now()

    def failed(self) -> None:
        """A look ended without an answer. The loop is well all the same: to start it anew would mend nothing."""
        self.turned()
        self._failed += 1

    @property
    def well(self) -> bool:
        return self.clock() - self._last < self.patience_seconds

    def collect(self) -> Iterator[Metric]:
        whose = ("tenant", "model")
        evidence = GaugeMetricFamily("headway_evaluation_evidence", "Against the serving version; 100 proves a loss.", labels=whose)
        loss = GaugeMetricFamily("headway_evaluation_loss", "Whether a loss of the serving version is proven.", labels=whose)
        last = GaugeMetricFamily("headway_evaluation_last_round_timestamp_seconds", "When it was last asked.", labels=whose)
        looked = GaugeMetricFamily("headway_evaluation_last_look_timestamp_seconds", "When a look last ended well.", labels=whose)
        wrong = GaugeMetricFamily("headway_evaluation_wrong", "Share of its labelled answers that were wrong.", labels=(*whose, "slice"))
        for chain, moment in sorted(self._well.items()):
            looked.add_metric(chain.split("/"), moment)
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
        yield from (evidence, loss, last, looked, wrong)
        yield CounterMetricFamily("headway_evaluation_failed_looks", "Looks that nobody answered, or that were refused.", self._failed)

    def text(self) -> str:
        """In Prometheus' text format."""
        return generate_latest(self).decode()


@contextmanager
def shown_at(pulse: EvaluationPulse, address: str, port: int) -> Generator[int]:
    """Show `pulse` until the end of the block; the port, which is a free one for 0. Raises UserError when it cannot be had."""
    found = pages({"/healthz": lambda: (200, "well\n") if pulse.well else (503, "stuck\n"), "/metrics": lambda: (200, pulse.text())})
    with listening(
        address, port, found, consequence="The loop was not started.", remedy="Choose another address or port for --serve."
    ) as listened:
        yield listened
