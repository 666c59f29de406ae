"""How often the gate is wrong, and what it costs: every scenario of `headway.release.worlds` against the gate.

    python -m benchmarks.release --rollouts 1000 --rates 1,10,200 [--world second] [--no-mirror] [--inconclusive advance]

Prints, by scenario and rate: wrong decisions in per cent with their 95 % interval (Clopper and Pearson), rollouts without a decision after
240 minutes, median minutes to the decision, and exposure: canary-served users' requests until the decision, in minutes of full traffic.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.incumbents import BACK, PROMOTED, RULES, RUNNING
from headway.contract.rollout import OnInconclusive
from headway.release.backtest.interval import interval
from headway.release.backtest.simulated import arms_shown
from headway.release.gate import Counts, Decision, Gate, GatePolicy, Phase, Reason, Tick
from headway.release.worlds.scenarios import BAKE_SCENARIOS, SCENARIOS, Scenario
from headway.release.worlds.service import SimulatedService
from headway.release.worlds.world import FINE_EDGES, WORLDS, SimulatedWorld

MINUTES, MINUTES_WITH_BAKE = 240, 360
CLASSES = ("short", "long")


@dataclass(frozen=True)
class ScenarioResult:
    """A scenario at a rate."""

    scenario: str
    kind: str
    rate: float
    rollouts: int
    wrong: int
    """Healthy: rolled back. Bad and grey: promoted."""
    undecided: int
    unproven: int
    """Promoted with a step that was passed without proof."""
    minutes: float
    """Median to the decision; not-a-number where there was none."""
    minutes_p90: float
    exposure: float
    """Mean, in minutes of full traffic."""
    reasons: dict[str, int]
    """Why rollouts were rolled back."""
    seconds: float

    def interval(self) -> tuple[float, float]:
        """95 % interval of the share that is wrong, in per cent."""
        low, high = interval(self.wrong, self.rollouts)
        return 100 * low, 100 * high


def judge(
    world: SimulatedWorld, scenario: Scenario, rate: float, rollouts: int, seed: int, policy: GatePolicy, *, bake: bool = False
) -> ScenarioResult:
    """Run one cell; with `bake` until the old version is gone."""
    begun = time.perf_counter()
    service = SimulatedService(world, scenario, rate, rollouts, seed)
    gate = Gate(policy, world.edges, CLASSES, shape=(rollouts,))
    buckets, errors = service.history()
    gate.learn(Counts(buckets=buckets, errors=errors))
    decision = gate.start()
    decided = np.full(rollouts, np.nan)
    exposure, since = np.zeros(rollouts), np.zeros(rollouts)
    reasons: dict[str, int] = {}
    baking = np.full(rollouts, -1.0)
    for number in range(MINUTES_WITH_BAKE if bake else MINUTES):
        weight = decision.weight
        baking = np.where(decision.phase == Phase.BAKING, baking + 1, baking)
        shown = service.minute(number, weight, decision.baseline_weight, decision.mirror, since, baking)
        arms: Any = arms_shown(shown)
        before, exposed = _open(decision, bake), shown.buckets["canary"].sum(axis=(1, 2))
        decision = gate.observe(Tick(**arms, answered=shown.answered, canary_up=shown.canary_up))
        exposure += np.where(before, exposed, 0.0) / (60 * rate)
        now = before & ~_open(decision, bake)
        decided[now] = number + 1
        for code in decision.reason[now & (decision.phase == Phase.ROLLED_BACK)]:
            name = Reason(int(code)).name.lower()
            reasons[name] = reasons.get(name, 0) + 1
        since = np.where(decision.weight != weight, 0.0, since + 1)
        if not _open(decision, bake).any():
            break
    back, promoted = decision.phase == Phase.ROLLED_BACK, ~_open(decision, bake) & (decision.phase != Phase.ROLLED_BACK)
    wrong = back if scenario.kind == "healthy" else promoted
    known = decided[~np.isnan(decided)]
    return ScenarioResult(
        scenario=scenario.name,
        kind=scenario.kind,
        rate=rate,
        rollouts=rollouts,
        wrong=int(wrong.sum()),
        undecided=int((~back & ~promoted).sum()),
        unproven=int((promoted & (decision.unproven > 0)).sum()),
        minutes=float(np.median(known)) if len(known) else float("nan"),
        minutes_p90=float(np.quantile(known, 0.9)) if len(known) else float("nan"),
        exposure=float(exposure.mean()),
        reasons=dict(sorted(reasons.items())),
        seconds=time.perf_counter() - begun,
    )


def _open(decision: Decision, bake: bool) -> NDArray[np.bool_]:
    """Where a rollout is not decided yet."""
    return (decision.phase == Phase.RELEASING) | ((decision.phase == Phase.BAKING) & bake)


def judge_by(name: str, world: SimulatedWorld, scenario: Scenario, rate: float, rollouts: int, seed: int) -> ScenarioResult:
    """Run one cell by another's rule (`incumbents.RULES`). It sees the same arms, and no copies."""
    begun = time.perf_counter()
    service, rule = SimulatedService(world, scenario, rate, rollouts, seed), RULES[name](rollouts)
    rule.learn(*service.history())
    decided, exposure = np.full(rollouts, np.nan), np.zeros(rollouts)
    since, nothing = np.zeros(rollouts), np.zeros(rollouts)
    for number in range(MINUTES):
        weight, baseline = rule.weights()
        before = rule.outcome == RUNNING
        shown = service.minute(number, weight, baseline, nothing, since)
        rule.observe(number, shown)
        exposure += np.where(before, shown.buckets["canary"].sum(axis=(1, 2)), 0.0) / (60 * rate)
        decided[before & (rule.outcome != RUNNING)] = number + 1
        since = np.where(rule.weights()[0] != weight, 0.0, since + 1)
        if (rule.outcome != RUNNING).all():
            break
    back, promoted = rule.outcome == BACK, rule.outcome == PROMOTED
    known = decided[~np.isnan(decided)]
    return ScenarioResult(
        scenario=scenario.name,
        kind=scenario.kind,
        rate=rate,
        rollouts=rollouts,
        wrong=int((back if scenario.kind == "healthy" else promoted).sum()),
        undecided=int((~back & ~promoted).sum()),
        unproven=0,
        minutes=float(np.median(known)) if len(known) else float("nan"),
        minutes_p90=float(np.quantile(known, 0.9)) if len(known) else float("nan"),
        exposure=float(exposure.mean()),
        reasons={},
        seconds=time.perf_counter() - begun,
    )


def line(cell: ScenarioResult) -> str:
    """A cell as a row of text."""
    low, high = cell.interval()
    share = 100 * cell.wrong / cell.rollouts
    why = " ".join(f"{name}:{count}" for name, count in cell.reasons.items())
    return (
        f"{cell.scenario:26} {cell.kind:8} {cell.rate:5g}/s  wrong {share:5.1f} % [{low:4.1f}, {high:5.1f}]  "
        f"open {100 * cell.undecided / cell.rollouts:5.1f} %  minutes {cell.minutes:5.0f} (p90 {cell.minutes_p90:4.0f})  "
        f"exposure {cell.exposure:7.3f}  {cell.seconds:5.1f} s  {why}"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=100)
    parser.add_argument("--rates", default="1,10,200")
    parser.add_argument("--world", choices=sorted(WORLDS), default="base")
    parser.add_argument(
        "--fine-edges", action="store_true", help="histograms with the edges of Headway's proxies, not Istio's default ones"
    )
    parser.add_argument("--replicas", type=int, default=1, help="of the new version; several are told apart")
    parser.add_argument("--scenario", action="append", help="name, or the start of one; all by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-mirror", action="store_true")
    parser.add_argument("--no-baseline", action="store_true")
    parser.add_argument("--bake", action="store_true", help="the scenarios of the bake, until the old version is gone")
    parser.add_argument("--held-back", type=float, default=GatePolicy.held_back)
    parser.add_argument("--untempered", action="store_true")
    parser.add_argument("--inconclusive", choices=[str(choice) for choice in OnInconclusive], default="hold")
    parser.add_argument("--weights", help="for instance 0.01,0.05,0.1,0.25,0.5")
    parser.add_argument("--json", type=Path, help="also write the cells here")
    asked = parser.parse_args(arguments)
    policy = replace(
        GatePolicy(),
        mirror=0.0 if asked.no_mirror else 1.0,
        baseline=not asked.no_baseline,
        held_back=asked.held_back,
        tempered=not asked.untempered,
        on_inconclusive=OnInconclusive(asked.inconclusive),
    )
    if asked.weights:
        policy = replace(policy, weights=tuple(map(float, asked.weights.split(","))))
    scenarios = BAKE_SCENARIOS if asked.bake else SCENARIOS
    wanted = [s for s in scenarios if not asked.scenario or any(s.name.startswith(name) for name in asked.scenario)]
    if not wanted:
        parser.error(f"no scenario starts so; there are: {', '.join(s.name for s in scenarios)}")
    world = replace(WORLDS[asked.world], replicas=asked.replicas)
    if asked.fine_edges:
        world = replace(world, edges=FINE_EDGES)
    cells: list[ScenarioResult] = []
    for scenario in wanted:
        for rate in map(float, asked.rates.split(",")):
            cells.append(judge(world, scenario, rate, asked.rollouts, asked.seed, policy, bake=asked.bake))
            sys.stdout.write(f"{line(cells[-1])}\n")
            sys.stdout.flush()
    for kind in ("healthy", "bad"):
        for rate in map(float, asked.rates.split(",")):
            shares = [100 * c.wrong / c.rollouts for c in cells if c.kind == kind and c.rate == rate]
            if shares:
                sys.stdout.write(f"mean of {len(shares)} {kind} at {rate:g}/s: {sum(shares) / len(shares):.2f} % wrong\n")
    if asked.json:
        asked.json.write_text(json.dumps([asdict(cell) for cell in cells], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
