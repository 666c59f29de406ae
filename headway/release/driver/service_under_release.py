"""What the driver touches, as an interface: the stack, the live route, the replicas, the evidence, the clock.

The real one is `deployed_service.py`; tests have one in memory. Every method but the pure reads may be called twice for the
same thing, by a runner and by the one that took over from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from headway.contract.units import Share
from headway.ledger.traffic_split import NOTHING, TrafficSplit
from headway.release.driver.rollout_state import RolloutState
from headway.release.plan import StepKind

if TYPE_CHECKING:
    from headway.environment.stacks import StackResult

RawCounters = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class LiveRoute:
    """The live route of a service: weight by key of arm, and who gets copies."""

    weights: Mapping[str, Share]
    hosts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name of the Kubernetes Service of each arm."""
    mirrored: str | None = None
    """Name of the Kubernetes Service that gets copies."""
    copies: Share = NOTHING
    led: tuple[str, str] | None = None
    """An experiment, and the key of the arm that its users are led to."""
    watched_until: datetime | None = field(default=None, compare=False)
    """What the last runner promised."""
    version: str = field(default="", compare=False)
    """Which writing of it was read."""

    def carries(self, split: TrafficSplit) -> bool:
        """Whether it is what `split` asks for. An arm that gets nothing may still be there: it is on its way out."""
        copied = self.hosts.get(split.mirror.release) if split.mirror else None
        copies = split.mirror.share if split.mirror else NOTHING
        asked = all(self.weights.get(key) == weight for key, weight in split.weights.items())
        nothing_else = not any(weight for key, weight in self.weights.items() if key not in split.weights)
        return asked and nothing_else and self.mirrored == copied and self.copies == copies and self.led == split.led

    def document(self) -> dict[str, Any]:
        """As part of an event: in percent."""
        weights = {key: weight.whole_percent for key, weight in self.weights.items()}
        return {"weights": weights, "mirrored": self.mirrored, "copies": float(self.copies.whole_percent), "led": self.led}


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """What replicas of the new version answered. `by` says who asked; `passed` is None where nobody did, which is no
    pass."""

    passed: bool | None
    reason: str
    by: str


@dataclass(frozen=True, kw_only=True)
class DrainResult:
    """How many requests the new version still got, and in how long a window; None where it could not be measured."""

    requests: float | None
    reason: str = ""


class ServiceUnderRelease(Protocol):
    """One service, where it runs."""

    @property
    def settle_seconds(self) -> float:
        """How long after a tick's end it can be read."""
        ...

    def now(self) -> datetime:
        """The time, with its zone."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def clocks_apart(self) -> str:
        """By how much this machine's clock differs from the cluster's and from Prometheus', in words; empty where that
        can be tolerated. Raises OutOfReachError."""
        ...

    def preview(self, *, refresh: bool) -> "StackResult":
        """Plan the tenant's stack with the packs."""
        ...

    def up(self, *, refresh: bool) -> "StackResult":
        """Apply the tenant's stack."""
        ...

    def route(self) -> LiveRoute:
        """Read the live route. Raises OutOfReachError."""
        ...

    def patch(self, split: TrafficSplit) -> None:
        """Give the live route the weights and copies of `split`. Raises OutOfReachError."""
        ...

    def vouch(self, until: datetime | None, safe: str, seen: str) -> None:
        """Let the live route say until when somebody watches it, and which arm is safe; None ends that. Nothing is said
        on a route that is no longer the version `seen`. Raises OutOfReachError."""
        ...

    def unready(self, split: TrafficSplit) -> Sequence[str]:
        """What is not ready yet, in words; empty once every arm has its replicas. Raises OutOfReachError."""
        ...

    def given_up(self, split: TrafficSplit) -> Sequence[str]:
        """Arms whose replicas will not become ready however long one waits, in words. Raises OutOfReachError."""
        ...

    def probe(self, rollout: RolloutState, step: StepKind) -> ProbeResult:
        """Ask the new version's replicas."""
        ...

    def check(self, rollout: RolloutState) -> Sequence[str]:
        """Why there could be no evidence; empty when there can."""
        ...

    def history(self, rollout: RolloutState, seconds: float) -> RawCounters:
        """What the stable version did in the last `seconds`."""
        ...

    def read(self, rollout: RolloutState, start: float, end: float) -> RawCounters:
        """Raw counters of one tick, and answers to golden requests where the release is judged by them. Never raises
        for a source that is down."""
        ...

    def drained(self, rollout: RolloutState) -> DrainResult:
        """What the new version got since the last look."""
        ...
