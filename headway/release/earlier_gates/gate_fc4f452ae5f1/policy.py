"""What the gate tolerates, proves and waits for: the contract's rollout policy, in numbers and ticks.

Tolerances are null hypotheses and margins. They are not thresholds on a dashboard.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

from headway.contract.rollout import LONGEST_BAKES, OnInconclusive, Rollout, Strategy

FULL_WEIGHT = 1.0
_TICK_SECONDS = 60.0
"""What the defaults that count ticks are meant for."""
_FOR_EVER = 2**40
"""Ticks; a person ends an experiment."""

_AT = (0.0, 0.05, 0.10, 0.25, 0.50)
"""Weights from which on the margin of the same place holds; the first is for steps below 5 %, which risk little."""
_LATENCY_MARGINS = (4.0, 2.0, 1.6, 1.2, 1.0)
_LATENCY_MARGINS_AFTER_MIRROR = (8.0, 4.0, 2.4, 2.0, 1.6)
"""Multiples of the unacceptable slow-down that a step must rule out. The mirror stage has already ruled out 1x; what is left to find is
what only users' load brings out."""
_ERROR_MARGINS = (12.0, 6.0, 4.0, 2.0, 1.0)
_ERROR_MARGINS_AFTER_MIRROR = (40.0, 20.0, 12.0, 6.0, 2.0)
"""Multiples of the unacceptable error rate that a step must rule out."""
_LARGEST_ERROR_MARGIN = 0.5
_PROOF, _PROOF_AFTER_MIRROR = 10.0, 7.0
"""E-value at which a step is proven: how unlikely its margin has become."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A rung of the ladder: how much traffic, and what must be ruled out before the next one."""

    weight: float
    """Share of users' requests that the canary answers, 0 to 1."""
    mirror: float
    """Share of users' requests that is copied to the canary; its answers to copies are thrown away."""
    latency_margin: float
    """Slow-down (0.25 is a quarter) that must be ruled out."""
    error_margin: float
    """Error rate that must be ruled out."""
    proof_bound: float
    """E-value at which both count as ruled out."""
    ticks_at_least: int
    """Ticks at this stage, counted or not, before the next."""
    ticks_at_most: int
    """Counted ticks after which the stage is inconclusive."""
    last: bool

    @property
    def name(self) -> str:
        return (
            f"mirror {self.mirror:.0%}" if not self.weight else f"weight {self.weight:.3g}" if self.weight < 0.01 else f"{self.weight:.0%}"
        )


@dataclass(frozen=True, kw_only=True)
class GatePolicy:
    """All numbers of the gate. The defaults are those whose figures docs/benchmarks.md shows.

    What is counted in ticks is meant for ticks of a minute; `in_ticks_of` gives the same times in others.
    """

    weights: tuple[float, ...] = (0.05, 0.10, 0.25, 0.50)
    """Shares of traffic on the way to 1, ascending."""
    mirror: float = 1.0
    """Share of requests copied before any user sees the canary; 0 leaves the stage out."""
    baseline: bool = True
    """Whether an arm of the stable version, of the canary's size and age, takes as much traffic as the canary."""
    latency: float = 0.10
    latency_unacceptable: float = 0.25
    error_ratio: float = 1.5
    error_floor: float = 0.002
    error_unacceptable: float = 0.005
    mismatch: float = 0.005
    golden: bool = False
    """Whether answers are compared; then no traffic grows before they have passed."""
    mirrored: float | None = None
    """Share of answers to copies that may differ from those that users got; None where they are not compared. With it, no traffic grows
    before some were compared."""
    queue_floor: float = 0.005
    """Seconds by which the mean time in queue may grow, whatever it was."""
    cost: float = 0.25
    """Rise of a request's GPU time that is tolerated."""
    memory: float = 0.95
    false_rollback: float = 0.01
    """Probability, over the whole rollout, that a version within the tolerances is rolled back."""
    on_inconclusive: OnInconclusive = OnInconclusive.HOLD
    grace_ticks: int = 2
    """Ticks after the first one with a ready canary that are no evidence."""
    step_ticks_at_least: int = 3
    step_ticks_at_most: int = 30
    mirror_ticks_at_most: int = 45
    counted_ticks_at_least: int = 15
    """Counted ticks of the whole rollout before full traffic."""
    blind_ticks_at_most: int = 15
    bake_ticks: int = 60
    """Ticks that the new version bakes at least."""
    bake_ticks_at_most: int = 180
    """Ticks after which the old version is let go without proof, unless recent evidence is against the new one."""
    held_back: float = 0.05
    """Share of users' requests that the old version keeps while the new one bakes: what that is compared with. 0: nobody."""
    ticks_at_most: int = 1440
    """Ticks from start to full traffic, after which it is rolled back whatever the evidence."""
    planned_ticks: int = 240
    """Ticks over which the evidence against a late regression is spread. Longer rollouts stay valid and lose a little power."""
    tempered: bool = True
    """Whether evidence is discounted by the noise between arms that ran the same version."""
    by_user: bool = False
    """Whether weights are shares of users, each of whom keeps a version; shares of requests are then others, and say nothing of the route."""
    trade_gain: float | None = None
    """Rise of the share of right answers (0.02 is two points) from which on `trade_latency` holds instead of `latency`."""
    trade_latency: float = 0.0
    """Slow-down of a better version that is tolerated."""

    def __post_init__(self) -> None:
        if not all(0 < low < high for low, high in itertools.pairwise((*self.weights, FULL_WEIGHT))):
            raise ValueError(
                f"weights {self.weights} do not ascend between 0 and 1. There is no such ladder. Give shares, such as 0.05, 0.5"
            )
        if not 0 <= self.mirror <= 1 or not 0 < self.false_rollback < 1:
            raise ValueError(f"mirror {self.mirror}, false_rollback {self.false_rollback}. They are no shares. Give 0 to 1")
        if not 0 <= self.held_back < 1:
            raise ValueError(f"held_back {self.held_back}. The new version would get nothing. Give a share of 0 or more, below 1")
        if self.trade_gain is not None and self.trade_latency <= self.latency:
            raise ValueError(
                f"trade_latency {self.trade_latency} is not above latency {self.latency}. The trade would decide nothing. Give more"
            )

    @classmethod
    def from_contract(
        cls,
        rollout: Rollout,
        *,
        weights: Sequence[float] | None = None,
        tick_seconds: float = _TICK_SECONDS,
        golden: bool = False,
        held_back: float | None = None,
    ) -> Self:
        """The numbers of `rollout`, for ticks of `tick_seconds`.

        `weights`: those of the plan (`headway.release.plan`), which knows how many replicas a rolling update replaces; left out, those
        of the contract. A split of users is a weight that the driver freezes, for as long as people want.
        `held_back`: that of the plan, which knows whether the old version stays; left out, that of the contract.
        `golden`: the contract has golden requests, so answers must pass before traffic grows.
        """

        def ticks(seconds: float) -> int:
            return max(1, math.ceil(seconds / tick_seconds))

        tolerances, split = rollout.tolerances, rollout.split
        if weights is None and rollout.strategy is Strategy.ROLLING:
            raise ValueError("A rolling update has as many weights as replicas. The contract does not know them. Give those of the plan")
        if weights is None:
            shares = rollout.weights if rollout.strategy is Strategy.CANARY else (rollout.split.share,) if rollout.split else ()
            weights = [share.fraction for share in shares]
        return cls(
            weights=tuple(weights),
            mirror=rollout.mirror.share.fraction if rollout.mirror else 0.0,
            baseline=rollout.baseline_arm and rollout.strategy is Strategy.CANARY,
            latency=tolerances.latency.fraction,
            latency_unacceptable=tolerances.latency_unacceptable.fraction,
            error_ratio=tolerances.error_ratio,
            error_floor=tolerances.error_floor.fraction,
            error_unacceptable=tolerances.error_unacceptable.fraction,
            mismatch=tolerances.mismatch.fraction,
            golden=golden,
            mirrored=rollout.mirror.differ.fraction if rollout.mirror and rollout.mirror.differ else None,
            cost=tolerances.cost.fraction,
            memory=tolerances.memory.fraction,
            false_rollback=rollout.false_rollback.fraction,
            on_inconclusive=rollout.on_inconclusive,
            by_user=split is not None,
            trade_gain=rollout.trade.gain.fraction if rollout.trade else None,
            trade_latency=rollout.trade.latency.fraction if rollout.trade else 0.0,
            grace_ticks=ticks(cls.grace_ticks * _TICK_SECONDS),
            counted_ticks_at_least=ticks(cls.counted_ticks_at_least * _TICK_SECONDS),
            planned_ticks=ticks(max(cls.planned_ticks * _TICK_SECONDS, split.duration.seconds if split else 0.0)),
            step_ticks_at_least=ticks(rollout.step_at_least.seconds),
            step_ticks_at_most=ticks(rollout.step_at_most.seconds),
            mirror_ticks_at_most=ticks(rollout.mirror.timeout.seconds)
            if rollout.mirror
            else ticks(cls.mirror_ticks_at_most * _TICK_SECONDS),
            blind_ticks_at_most=ticks(rollout.blind_at_most.seconds),
            bake_ticks=ticks(rollout.bake.seconds),
            bake_ticks_at_most=LONGEST_BAKES * ticks(rollout.bake.seconds),
            held_back=rollout.held_back.fraction if held_back is None else held_back,
            ticks_at_most=_FOR_EVER if split else ticks(rollout.at_most.seconds),
        )

    def in_ticks_of(self, seconds: float) -> Self:
        """The same times, given in ticks of a minute, in ticks of so many seconds."""
        named = [field.name for field in fields(self) if "ticks" in field.name]
        return replace(self, **{name: max(1, math.ceil(getattr(self, name) * _TICK_SECONDS / seconds)) for name in named})

    def traded(self) -> Self:
        """The same for a version that was shown to be better: the trade's tolerance, and what is unacceptable as far above it."""
        return replace(
            self,
            latency=self.trade_latency,
            latency_unacceptable=self.latency_unacceptable + self.trade_latency - self.latency,
            trade_gain=None,
        )

    @property
    def alpha(self) -> dict[str, float]:
        """The budget of false rollbacks by kind of signal; adds up to `false_rollback`."""
        answers = 0.125 * self.false_rollback
        shared = {"correctness": answers} if self.mirrored is None else {"correctness": answers / 2, "mirrored": answers / 2}
        return {
            "latency": 0.4 * self.false_rollback,
            "queue": 0.1 * self.false_rollback,
            "errors": 0.25 * self.false_rollback,
            **shared,
            "cost": 0.0625 * self.false_rollback,
            "reach": 0.02 * self.false_rollback,
            "catastrophe": 0.02 * self.false_rollback,
            "malformed": 0.0125 * self.false_rollback,
            "restarts": 0.01 * self.false_rollback,
        }

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The ladder, mirror first where there is one; a single stage of all traffic where there is nothing before it."""
        latency = _LATENCY_MARGINS_AFTER_MIRROR if self.mirror else _LATENCY_MARGINS
        errors = _ERROR_MARGINS_AFTER_MIRROR if self.mirror else _ERROR_MARGINS
        steps = [
            Stage(
                weight=weight,
                mirror=0.0,
                latency_margin=self.latency_unacceptable * latency[_place(weight)],
                error_margin=min(_LARGEST_ERROR_MARGIN, self.error_unacceptable * errors[_place(weight)]),
                proof_bound=_PROOF_AFTER_MIRROR if self.mirror else _PROOF,
                ticks_at_least=self.step_ticks_at_least,
                ticks_at_most=self.step_ticks_at_most,
                last=weight == self.weights[-1],
            )
            for weight in self.weights
        ]
        copies = Stage(
            weight=0.0,
            mirror=self.mirror,
            latency_margin=self.latency_unacceptable,
            error_margin=self.error_unacceptable,
            proof_bound=_PROOF,
            ticks_at_least=1,
            ticks_at_most=self.mirror_ticks_at_most,
            last=False,
        )
        at_once = replace(copies, weight=FULL_WEIGHT, mirror=0.0, last=True)
        return (copies, *steps) if self.mirror else tuple(steps) or (at_once,)


def _place(weight: float) -> int:
    return max(place for place, start in enumerate(_AT) if weight >= start)
