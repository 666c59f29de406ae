"""Seeded scenarios for the gate, and what it decides in them, as plain data. Run as a program it prints them.

    python -m tests.unit.release.gate.seeded_world

Scenarios only; the figures that they are held against are in `recorded`.
"""

import itertools
import json
import sys
from dataclasses import asdict, dataclass, fields, replace
from types import ModuleType
from typing import Any

import numpy as np

from headway.contract.rollout import OnInconclusive
from headway.release import gate as gate_of_today
from headway.release.gate import Counts, Decision, GatePolicy, Reason, Tick

EDGES = (50.0, 100.0, 250.0, 500.0)
HEALTHY = np.asarray([[0.34, 0.53, 0.128, 0.0018, 0.0002], [0.005, 0.145, 0.69, 0.154, 0.006]])
SLOW = np.asarray([[0.13, 0.44, 0.41, 0.018, 0.002], [0.0005, 0.0445, 0.5, 0.37, 0.085]])
TICKS = 45

_QUICK = GatePolicy(weights=(0.1, 0.5), counted_ticks_at_least=6, bake_ticks=5)
_SHORT_STEPS = replace(_QUICK, mirror=0.0, step_ticks_at_most=6)


@dataclass(frozen=True, kw_only=True)
class SeededScenario:
    """One imaginary rollout. Each change begins at the tick `at`."""

    policy: GatePolicy = _QUICK
    requests: float = 3000.0
    slow: bool = False
    errors: float = 0.001
    at: int = 0
    faults: float = 0.0
    """Probability of each kind of blind tick, and of a restart, in a tick."""
    mismatch: float = 0.001
    control_grows: float = 0.004
    """Share of its GPU memory a minute."""
    only_canary_right: float = 2.0
    promote: int = -1
    freeze: tuple[int, int] = (0, 0)


SCENARIOS = {
    "healthy": SeededScenario(),
    "healthy, default policy": SeededScenario(policy=GatePolicy(bake_ticks=8)),
    "slow copies": SeededScenario(slow=True),
    "slow after a while": SeededScenario(policy=replace(_QUICK, mirror=0.0), slow=True, at=9),
    "failing": SeededScenario(errors=0.02),
    "broken": SeededScenario(errors=0.6, at=6),
    "quiet and held": SeededScenario(policy=_SHORT_STEPS, requests=25.0),
    "quiet and advanced": SeededScenario(policy=replace(_SHORT_STEPS, on_inconclusive=OnInconclusive.ADVANCE), requests=25.0),
    "quiet and rolled back": SeededScenario(policy=replace(_SHORT_STEPS, on_inconclusive=OnInconclusive.ROLLBACK), requests=25.0),
    "blind ticks": SeededScenario(policy=replace(_QUICK, blind_ticks_at_most=1), faults=0.15),
    "better and slower": SeededScenario(policy=replace(_QUICK, trade_gain=0.02, trade_latency=0.8), slow=True, only_canary_right=9.0),
    "divided users": SeededScenario(policy=replace(_QUICK, by_user=True, mirror=0.0, weights=(0.2,)), freeze=(10, 30)),
    "golden answers that differ": SeededScenario(policy=replace(_QUICK, golden=True, mirrored=0.01), mismatch=0.05, at=12),
    "no baseline": SeededScenario(policy=replace(_QUICK, baseline=False, mirror=0.0), faults=0.03),
    "promoted by a person": SeededScenario(promote=7),
    "blue and green": SeededScenario(policy=GatePolicy(weights=(), bake_ticks=6), control_grows=0.0),
}


def decisions(name: str, made_by: ModuleType = gate_of_today) -> list[dict[str, Any]]:
    """What the gate, or a kept one, says to each tick of a scenario."""
    world = SCENARIOS[name]
    rng = np.random.default_rng(sorted(SCENARIOS).index(name))
    known = {field.name for field in fields(made_by.GatePolicy)}
    policy = {name: value for name, value in asdict(world.policy).items() if name in known}
    gate = made_by.Gate(made_by.GatePolicy(**policy), EDGES, ("short", "long"))
    gate.learn(_arm(rng, 9000.0, slow=False, errors=0.001))
    decision = gate.start()
    said: list[dict[str, Any]] = []
    for minute in range(TICKS):
        if minute == world.promote:
            gate.promote()
            said.append(_plain(gate.start()))
        decision = gate.observe(_tick(rng, world, decision, minute))
        said.append(_plain(decision))
    return said


def _tick(rng: np.random.Generator, world: SeededScenario, decision: Decision, minute: int) -> Tick:
    changed = minute >= world.at
    slow, errors = world.slow and changed, world.errors if changed else 0.001
    weight, baseline, mirror = (float(share) for share in (decision.weight, decision.baseline_weight, decision.mirror))
    stable = world.requests * (1 - weight - baseline)
    faults = rng.random(5) < world.faults
    return Tick(
        stable=_arm(rng, stable, slow=False, errors=0.001),
        baseline=_arm(rng, world.requests * baseline, slow=False, errors=0.001),
        canary=_arm(rng, world.requests * weight, slow=slow, errors=errors),
        mirrored=_arm(rng, stable * mirror, slow=slow, errors=errors),
        answered=not faults[0],
        canary_up=not faults[1],
        control_up=not faults[2],
        ready=minute > 0,
        freeze=world.freeze[0] <= minute < world.freeze[1],
        restarts=int(faults[3] and faults[4]),
        memory=0.5 + 0.004 * minute,
        control_memory=0.5 + world.control_grows * minute,
        pairs=30,
        mismatches=int(rng.binomial(30, world.mismatch if changed else 0.001)),
        mirrored_pairs=40,
        mirrored_mismatches=int(rng.binomial(40, 0.002)),
        labelled=100,
        only_canary_right=int(rng.poisson(world.only_canary_right)),
        only_stable_right=int(rng.poisson(2.0)),
    )


def _arm(rng: np.random.Generator, requests: float, *, slow: bool, errors: float) -> Counts:
    parts = np.asarray([0.7, 0.3]) * requests
    buckets = rng.poisson(parts[:, None] * (SLOW if slow else HEALTHY)).astype(float)
    failed = rng.binomial(buckets.sum(axis=1).astype(int), errors).astype(float)
    return Counts(buckets=buckets, errors=failed, queued=0.01 * requests, busy=(0.013 if slow else 0.01) * requests)


def _plain(decision: Decision) -> dict[str, Any]:
    signals = {name: [_number(signal.evidence), _number(signal.proof)] for name, signal in decision.signals.items()}
    return {"reason": Reason(int(decision.reason)).name, "weight": float(decision.weight), "signals": signals}


def _number(value: Any) -> float | None:
    number = float(np.asarray(value))
    return None if np.isnan(number) else number


def compact(said: list[dict[str, Any]]) -> dict[str, Any]:
    """Reasons and weights of all ticks, in runs; signals of every fifteenth, to ten digits."""
    runs = [
        [reason, weight, len(list(run))] for (reason, weight), run in itertools.groupby(said, lambda each: (each["reason"], each["weight"]))
    ]
    figures = [
        {name: [None if value is None else float(f"{value:.10g}") for value in pair] for name, pair in each["signals"].items()}
        for each in said[14::15]
    ]
    return {"runs": runs, "signals": figures}


if __name__ == "__main__":
    json.dump({name: compact(decisions(name)) for name in SCENARIOS}, sys.stdout, sort_keys=True, separators=(",", ":"))
