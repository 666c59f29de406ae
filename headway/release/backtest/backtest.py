"""What a rollout policy would have done: how often it had rolled back a version as good as the old one, how soon it had found a worse one,
and which part of the contract its time goes to."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from headway.release.backtest.history import CHANGES, LEARNT_TICKS, History, HistoryTraffic, RehearsedChange
from headway.release.backtest.rehearsal import RehearsalOutcome, RehearsedTraffic, rehearse
from headway.release.backtest.simulated import SimulatedTraffic
from headway.release.gate import GatePolicy
from headway.release.worlds.scenarios import SCENARIOS, Scenario
from headway.release.worlds.world import SimulatedWorld

_LARGE_WEIGHT = 0.25
_HIGHEST_ERROR_RATE = 0.5

W = TypeVar("W")

Repeat = Callable[[GatePolicy], RehearsalOutcome]
"""Rehearses a version as good as the old one, on the same traffic, by another policy."""


@dataclass(frozen=True, kw_only=True)
class RelaxedPart:
    """What a healthy release would take if one part of the contract asked for less."""

    field: str
    """Path in the contract."""
    value: str
    outcome: RehearsalOutcome


@dataclass(frozen=True, kw_only=True)
class Backtest:
    """All outcomes, in the order of the changes."""

    outcomes: tuple[RehearsalOutcome, ...]
    relaxed: tuple[RelaxedPart, ...]
    """By the time that they save, the most first."""
    pods: int
    """How many there were to divide; 1: requests were divided instead. 0: simulated."""
    ticks: int
    unanswered: int

    def calibrated(self, promised: float) -> bool:
        """Whether healthy versions were not rolled back more often than `promised`, as far as so many rehearsals can tell."""
        return all(outcome.interval()[0] <= promised for outcome in self.outcomes if outcome.healthy)


def backtest(
    history: History,
    policy: GatePolicy,
    *,
    rehearsals: int,
    longest_ticks: int,
    seed: int,
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
    starts = np.linspace(LEARNT_TICKS, last, rehearsals).astype(int)

    def of(change: RehearsedChange, number: int, asked: GatePolicy) -> RehearsalOutcome:
        traffic = HistoryTraffic(history, change, starts, np.random.default_rng([seed, number]))
        return _rehearsed(traffic, asked, change.name, change.healthy, longest_ticks)

    outcomes = tuple(of(change, number, policy) for number, change in enumerate(changes))
    healthy = next((number for number, change in enumerate(changes) if change.healthy), None)
    relaxed = () if healthy is None else _relaxed(policy, history.tick_seconds, lambda asked: of(changes[healthy], healthy, asked))
    return Backtest(
        outcomes=outcomes, relaxed=relaxed, pods=len(history.pods), ticks=history.ticks, unanswered=int((~history.answered).sum())
    )


def simulated(
    world: SimulatedWorld,
    policy: GatePolicy,
    *,
    rate: float,
    rehearsals: int,
    longest_ticks: int,
    seed: int,
    scenarios: Sequence[Scenario] = SCENARIOS,
) -> Backtest:
    """Rehearse a release of each scenario in a simulated world, at `rate` requests a second, in ticks of a minute."""

    def of(scenario: Scenario, asked: GatePolicy) -> RehearsalOutcome:
        traffic = SimulatedTraffic(world, scenario, rate, rehearsals, seed)
        return _rehearsed(traffic, asked, scenario.name, scenario.kind == "healthy", longest_ticks)

    scored = [scenario for scenario in scenarios if scenario.kind != "grey"]
    outcomes = tuple(of(scenario, policy) for scenario in scored)
    healthy = next((scenario for scenario in scored if scenario.kind == "healthy"), None)
    relaxed = () if healthy is None else _relaxed(policy, 60.0, lambda asked: of(healthy, asked))
    return Backtest(outcomes=outcomes, relaxed=relaxed, pods=0, ticks=longest_ticks, unanswered=0)


def _rehearsed(traffic: RehearsedTraffic, policy: GatePolicy, name: str, healthy: bool, longest: int) -> RehearsalOutcome:
    return rehearse(traffic, replace(policy, bake_ticks=1), name, healthy=healthy, longest_ticks=longest)


def _relaxed(policy: GatePolicy, tick_seconds: float, repeat: Repeat) -> tuple[RelaxedPart, ...]:
    parts = (RelaxedPart(field=field, value=value, outcome=repeat(asked)) for field, value, asked in relaxations(policy, tick_seconds))
    return tuple(sorted(parts, key=lambda part: part.outcome.minutes_spent))


def relaxations(policy: GatePolicy, tick_seconds: float) -> Iterator[tuple[str, str, GatePolicy]]:
    """Field, value in words and policy for each part of a contract that may cost time, where it can ask for less."""
    minute = max(1, math.ceil(60 / tick_seconds))
    large = large_weights(policy.weights, float)
    if policy.step_ticks_at_least > minute:
        yield "rollout.step_at_least", "1m", replace(policy, step_ticks_at_least=minute)
    if large != policy.weights:
        yield "rollout.weights", f"[{', '.join(f'{weight:.0%}' for weight in large)}]", replace(policy, weights=large)
    if policy.mirror:
        yield "rollout.mirror", "left out", replace(policy, mirror=0.0, mirrored=None)
    else:
        yield "rollout.mirror", "{share: 100%}", replace(policy, mirror=1.0)
    slower = 2 * policy.latency_unacceptable
    yield "rollout.tolerances.latency_unacceptable", f"{slower:.0%}", replace(policy, latency_unacceptable=slower)
    failing = min(2 * policy.error_unacceptable, _HIGHEST_ERROR_RATE)
    yield "rollout.tolerances.error_unacceptable", f"{failing:.2%}", replace(policy, error_unacceptable=failing)


def large_weights(weights: Sequence[W], fraction: Callable[[W], float]) -> tuple[W, ...]:
    """Those under which requests prove most in a minute, else the last one; `fraction`: of one, 0 to 1."""
    return tuple(weight for weight in weights if fraction(weight) >= _LARGE_WEIGHT) or tuple(weights[-1:])


def ticks_of(seconds: float, tick_seconds: float) -> int:
    """Whole ticks, one at least."""
    return max(1, math.ceil(seconds / tick_seconds))
