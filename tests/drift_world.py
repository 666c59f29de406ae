"""Users of a service in memory, whose requests and answers have a number that can drift."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import numpy as np

from headway.contract.drift import Drift, WatchedTraffic
from headway.contract.sampling import Sample
from headway.ledger.chain import Ledger
from headway.release.evaluation.watched import drift_chain
from headway.release.evaluator.drift_watch import DriftLook, DriftResult, DriftWatch
from tests.unit.release_world import CHAIN, Scene

LATE = 120.0


def drift(**changed: Any) -> Drift:
    numbers = [
        {"name": "words", "of": "request", "at": "/text", "take": "length"},
        {"name": "score", "of": "response", "at": "/scores", "take": "largest"},
    ]
    return Drift.model_validate({"numbers": numbers, "reference": "1h", "rhythm": "none", **changed})


def traffic(**changed: Any) -> WatchedTraffic:
    return WatchedTraffic.model_validate({"drift": drift(**changed).model_dump(mode="json"), "retention": "90d"})


def usual(_: float) -> float:
    return 100.0


@dataclass
class Users:
    """Whose requests have as many characters as `words` says of a time, more or less; `each`: samples in a quarter of an hour."""

    scene: Scene
    contract: Drift = field(default_factory=drift)
    words: Callable[[float], float] = usual
    spread: float = 20.0
    """Standard deviation of those characters."""
    score: Callable[[float], float] = lambda _: 0.9
    each: int = 40
    copies: int = 1
    """Requests in a cluster, which are one another's copies."""
    read: list[tuple[str, float, float]] = field(default_factory=list[tuple[str, float, float]])
    meanwhile: Callable[[], object] | None = None
    """What happens once while samples are read."""
    speed: float = 1.0
    text: str = ""
    """What each request says among its characters."""
    _watch: DriftWatch | None = None

    def rounds(self) -> Ledger:
        return Ledger(self.scene.store, drift_chain(CHAIN), "sandbox", "ci", self.scene.world.now, self.scene.witness)

    def samples(self, release: str, start: float, end: float) -> list[Sample]:
        self.read.append((release, start, end))
        if happens := self.meanwhile:
            self.meanwhile = None
            happens()
        rng = np.random.default_rng(int(start))
        found: list[Sample] = []
        for number in range(self.each // self.copies):
            moment = start + (number + 0.5) * (end - start) * self.copies / self.each
            characters = max(1, round(float(rng.normal(self.words(moment), self.spread))))
            score = float(np.clip(rng.normal(self.score(moment), 0.02), 0, 1))
            for copy in range(self.copies):
                time = datetime.fromtimestamp(moment + copy * 0.01, UTC).isoformat()
                one = f"{rng.integers(2**32):08x}-{number}-{copy}"
                bodies: dict[str, Any] = {"request": {"text": self.text.ljust(characters, "x")}, "response": {"scores": [score, 1 - score]}}
                found.append(Sample(request_id=one, workload="w", time=time, mirrored=False, status=200, **bodies))
        return found

    def watch(self) -> DriftWatch:
        return DriftWatch(
            rounds=self.rounds(),
            releases=self.scene.ledger(),
            drift=self.contract,
            read=self.samples,
            late_seconds=LATE,
            chance=Random(1),
            now=self.scene.world.now,
            speed=self.speed,
        )

    def looks(self, hours: float, every: float = 0.25) -> DriftResult:
        """Looks for so long, or until drift is proven."""
        watch = self._watch = self._watch or self.watch()
        found = watch.look()
        for _ in range(round(hours / every)):
            if found.look is DriftLook.DRIFTED:
                break
            self.scene.world.clock += timedelta(hours=every)
            found = watch.look()
        return found
