"""One release, rehearsed many times at once: the gate sees what some traffic shows, and it is noted how each rehearsal ends and when."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headway.release.backtest.interval import interval
from headway.release.backtest.waiting import WaitedTicks, WaitingFor
from headway.release.gate import Counts, Decision, Gate, GatePolicy, Phase, Reason, Tick

Floats = NDArray[np.float64]


class RehearsedTraffic(Protocol):
    """What the gate would see of many releases at once."""

    @property
    def edges(self) -> Mapping[str, Sequence[float]]: ...

    @property
    def classes(self) -> tuple[str, ...]: ...

    @property
    def tick_seconds(self) -> float: ...

    @property
    def rehearsals(self) -> int: ...

    def learnt(self) -> Counts:
        """What the stable version did before."""
        ...

    def tick(self, number: int, decision: Decision) -> tuple[Tick, Floats]:
        """Tick `number` under the weights of `decision`, and the share of users' requests that the new version answered."""
        ...


@dataclass(frozen=True, kw_only=True)
class RehearsalOutcome:
    """What became of the rehearsals of one change."""

    change: str
    healthy: bool
    """Whether the new version is as good as the old one: then a rollback is false, and otherwise a promotion is a miss."""
    rehearsals: int
    rolled_back: int
    promoted: int
    undecided: int
    minutes: float | None
    """Within which half were decided; None where fewer were."""
    minutes_p90: float | None
    """Within which nine of ten were."""
    minutes_spent: float
    """Mean, with rehearsals that ended undecided counted in full."""
    exposure: float
    """Mean, in minutes of full traffic that the changed arm answered before the decision."""
    reasons: Mapping[str, int]
    """Why rehearsals were rolled back."""
    waited: Mapping[str, float]
    """Mean minutes by what was missing (names of `WaitingFor`), over all rehearsals."""

    @property
    def wrong(self) -> int:
        """False rollbacks of a healthy version, misses of another."""
        return self.rolled_back if self.healthy else self.promoted

    def interval(self) -> tuple[float, float]:
        """95 % interval of the share that is wrong (Clopper and Pearson)."""
        return interval(self.wrong, self.rehearsals)


def rehearse(
    traffic: RehearsedTraffic, policy: GatePolicy, change: str, *, healthy: bool, longest_ticks: int, enough: float = 1.0
) -> RehearsalOutcome:
    """Rehearse until this share is decided (`enough`), for `longest_ticks` at most."""
    n, minutes_a_tick = traffic.rehearsals, traffic.tick_seconds / 60
    gate = Gate(policy, traffic.edges, traffic.classes, shape=(n,), tick_seconds=traffic.tick_seconds)
    gate.learn(traffic.learnt())
    decision, waited = gate.start(), WaitedTicks(policy, n)
    decided, exposure = np.full(n, np.nan), np.zeros(n)
    reasons: dict[str, int] = {}
    for number in range(longest_ticks):
        before = decision.phase == Phase.RELEASING
        seen, share = traffic.tick(number, decision)
        decision = gate.observe(seen)
        waited.observe(decision, before)
        exposure += np.where(before, share, 0.0) * minutes_a_tick
        now = before & (decision.phase != Phase.RELEASING)
        decided[now] = number + 1
        for code in decision.reason[now & (decision.phase == Phase.ROLLED_BACK)]:
            name = Reason(int(code)).name.lower()
            reasons[name] = reasons.get(name, 0) + 1
        if (decision.phase != Phase.RELEASING).mean() >= enough:
            break
    back, still = decision.phase == Phase.ROLLED_BACK, decision.phase == Phase.RELEASING
    spent = waited.ticks.mean(axis=0) * minutes_a_tick
    return RehearsalOutcome(
        change=change,
        healthy=healthy,
        rehearsals=n,
        rolled_back=int(back.sum()),
        promoted=int((~back & ~still).sum()),
        undecided=int(still.sum()),
        minutes=_within(decided * minutes_a_tick, 0.5),
        minutes_p90=_within(decided * minutes_a_tick, 0.9),
        minutes_spent=float(np.nan_to_num(decided, nan=longest_ticks).mean()) * minutes_a_tick,
        exposure=float(exposure.mean()),
        reasons=dict(sorted(reasons.items())),
        waited={what.name.lower(): float(spent[what]) for what in WaitingFor if spent[what]},
    )


def _within(decided: Floats, share: float) -> float | None:
    """`decided`: not-a-number where it was not."""
    minutes = float(np.quantile(np.nan_to_num(decided, nan=np.inf), share, method="higher"))
    return minutes if np.isfinite(minutes) else None
