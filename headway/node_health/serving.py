"""What the loop shows of itself while it runs: whether it still looks, and counters of what it did.

`/healthz` answers 503 once no round has ended well for a while, so that a kubelet starts the loop anew; `/metrics` is
in Prometheus' text format. A loop that waits for its turn is well, though it does nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from headway.node_health.cluster import Done
from headway.node_health.facts import SlowReplica

SILENT_ROUNDS = 8
"""Rounds without an answer of the API server after which the loop calls itself stuck: two minutes."""


@dataclass
class Pulse:
    """What happened so far. `clock` in seconds that only grow."""

    clock: Callable[[], float]
    patience_seconds: float
    slow: Mapping[str, SlowReplica] = field(default_factory=dict[str, SlowReplica], init=False)
    """By node, as last found while this loop acts."""
    _last: float = field(default=0.0, init=False)
    _leads: bool = field(default=False, init=False)
    _done: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]], init=False)
    _failed: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._last = self.clock()

    def looked(self, *, leads: bool) -> None:
        """A round ended: the API server answered."""
        self._last, self._leads = self.clock(), leads
        if not leads:
            self.slow = {}

    def acted(self, done: Done) -> None:
        self._done[type(done.action).__name__.lower(), "refused" if done.refused else "done"] += 1

    def failed(self) -> None:
        """A round ended without an answer."""
        self._failed, self._leads = self._failed + 1, False

    @property
    def well(self) -> bool:
        return self.clock() - self._last < self.patience_seconds

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("headway_node_health_leads", "Whether this loop is the one that acts.", int(self._leads))
        yield GaugeMetricFamily(
            "headway_node_health_seconds_since_round",
            "Since the last round that the API server answered.",
            round(self.clock() - self._last, 3),
        )
        yield CounterMetricFamily("headway_node_health_failed_rounds", "Rounds that the API server did not answer.", self._failed)
        actions = CounterMetricFamily(
            "headway_node_health_actions", "What was done to nodes, and what was refused.", labels=("action", "outcome")
        )
        for labels, count in sorted(self._done.items()):
            actions.add_metric(labels, count)
        yield actions
        slow = GaugeMetricFamily(
            "headway_node_health_slower",
            "Times as long as its siblings that a replica takes, where that is proven.",
            labels=("node", "replica"),
        )
        for node, found in sorted(self.slow.items()):
            if found.proven:
                slow.add_metric((node, found.pod), found.slower)
        yield slow

    def text(self) -> str:
        """In Prometheus' text format, sorted."""
        return generate_latest(self).decode()
