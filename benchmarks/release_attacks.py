"""Every path by which the gate takes a version back, its share of the budget, its proof, and the simulations built to break it.

    python -m benchmarks.release_attacks --rollouts 300 [--attack NAME] [--write docs/reference/gate-paths.md]

Each attack is a healthy version in a world that the path's proof could be wrong about. A rollback is false; a hold is counted."""

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.release.backtest.interval import interval
from headway.release.backtest.simulated import arms_shown
from headway.release.gate import Counts, Gate, GatePolicy, Phase, Reason, Tick
from headway.release.worlds.scenarios import CANARY, Minute, Scenario, ServiceChange
from headway.release.worlds.service import SimulatedService
from headway.release.worlds.world import BASE, Floats, SimulatedWorld

MINUTES = 240
RATES = (10.0, 100.0)
PAGE = Path("docs/reference/gate-paths.md")

Generator = np.random.Generator
Told = Callable[[int], dict[str, Any]]
"""What a tick says besides counts, by minute; `queued` of it by arm, in seconds a request."""

CALM = replace(BASE, name="calm", common_noise=0.01, small_arm_noise=0.005, large_arm_noise=0.005)
"""Hardly any noise, so that nothing hides a peak."""
TENTHS = replace(BASE, name="tenths", edges=tuple(20.0 * 1.1**number for number in range(44)))
"""Edges as far apart as is tolerated: what is slower by that lies above each as often as what it is compared with above the one before."""


@dataclass(frozen=True)
class Attack:
    """A healthy version, and what a proof could be wrong about."""

    name: str
    told: Callable[[Generator, int], Told] = lambda _rng, _rollouts: lambda _minute: {}
    change: ServiceChange = lambda _minute, _draw: None
    shape: ServiceChange | None = None
    world: SimulatedWorld = BASE
    cluster: int = 1
    """Requests that come together, take the same time and fail together."""
    late: int = 0
    rates: tuple[float, ...] = RATES


class PathRow(NamedTuple):
    """A path that takes traffic back."""

    reason: Reason
    share: tuple[str, ...]
    """Names in `GatePolicy.alpha`; none where it takes nothing of the budget."""
    proof: str
    attacks: tuple[str, ...]
    """Names of `ATTACKS`; or tests, as file and name."""


def _noisy(rng: Generator, level: float, rollouts: int, sigma: float = 0.01) -> Floats:
    return np.clip(level + sigma * rng.standard_normal(rollouts), 0.0, 1.0)


def _memory_with_the_day(rng: Generator, rollouts: int) -> Told:
    begun = rng.random(rollouts)

    def told(minute: int) -> dict[str, Any]:
        level = 0.68 + 0.24 * np.sin(2 * math.pi * (minute / 480 + begun))
        return {"memory": _noisy(rng, 0.02, rollouts) + level, "control_memory": _noisy(rng, 0.0, rollouts) + level}

    return told


def _slow_plateau(rng: Generator, rollouts: int) -> Told:
    slowness = 20 + 160 * rng.random(rollouts)

    def told(minute: int) -> dict[str, Any]:
        level = 0.5 + 0.4 * (1 - np.exp(-minute / slowness))
        return {"memory": _noisy(rng, 0.0, rollouts, 0.003) + level, "control_memory": _noisy(rng, 0.9, rollouts, 0.003)}

    return told


def _queues(correlation: float, spread: float) -> Callable[[Generator, int], Told]:
    def begun(rng: Generator, rollouts: int) -> Told:
        level = {arm: spread * rng.standard_normal(rollouts) for arm in ("stable", "baseline", "canary", "mirrored")}

        def told(_: int) -> dict[str, Any]:
            for arm, each in level.items():
                level[arm] = correlation * each + math.sqrt(1 - correlation**2) * spread * rng.standard_normal(rollouts)
            return {"queued": {arm: 0.02 * np.exp(each) for arm, each in level.items()}}

        return told

    return begun


def _malformed(rng: Generator, rollouts: int) -> Told:
    return lambda _: {"pairs": 25.0, "invalid_answers": rng.binomial(25, 1e-4, rollouts)}


def _malformed_together(rng: Generator, rollouts: int) -> Told:
    return lambda _: {"pairs": 25.0, "invalid_answers": np.where(rng.random(rollouts) < 1e-3, 25, 0)}


def _restarts(rng: Generator, rollouts: int) -> Told:
    return lambda _: {"restarts": np.where(rng.random(rollouts) < 1 / 1440, 1 + rng.poisson(4, rollouts), 0)}


def _peak(share: float, milliseconds: float) -> ServiceChange:
    def shape(minute: Minute, draw: Floats) -> None:
        del draw
        minute.peak = share, milliseconds

    return shape


def _slower(factor: float) -> ServiceChange:
    def change(minute: Minute, draw: Floats) -> None:
        del draw
        for arm in CANARY:
            minute.slow[arm] = minute.slow[arm] * factor

    return change


def _lasting_noise(spread: float, correlation: float) -> ServiceChange:
    """The canary's latency level strays by itself, and stays astray for a while. The same for the same draws."""

    def change(minute: Minute, draw: Floats) -> None:
        level = _astray(spread, correlation, minute, draw)
        for arm in CANARY:
            minute.slow[arm] = minute.slow[arm] * np.exp(level)

    return change


def _astray(spread: float, correlation: float, minute: Minute, draw: Floats, number: int = 0) -> Floats:
    """The logarithm of a level that follows an AR(1), of the replica of that number."""
    level, seed = np.zeros(draw.shape[1]), int(draw[3, 0] * 2**32)
    for back in range(min(minute.minute + 1, 60)):
        new = np.random.default_rng([seed, minute.minute - back, *([number] if number else [])]).standard_normal(draw.shape[1])
        level += correlation**back * math.sqrt(1 - correlation**2) * spread * new
    return level


def _hit(minute: Minute, draw: Floats, minutes: int, later: int = 0) -> NDArray[np.bool_]:
    onset = np.floor(2 + 20 * draw[0]) + later
    return (minute.minute >= onset) & (minute.minute < onset + minutes)


def _slow_node(factor: float, minutes: int) -> ServiceChange:
    def change(minute: Minute, draw: Floats) -> None:
        for arm in CANARY:
            minute.slow[arm] = minute.slow[arm] * np.where(_hit(minute, draw, minutes), factor, 1.0)

    return change


def _slow_replica(factor: float, minutes: int, replicas: int, arms: tuple[str, ...] = CANARY, nodes: int = 1) -> ServiceChange:
    """One replica of several, or all of an arm's where it has one, whose node is slow for a while; then those of as many `nodes`."""

    def change(minute: Minute, draw: Floats) -> None:
        for arm in arms:
            factors = np.ones((replicas, draw.shape[1]))
            for node in range(nodes):
                factors[node] = np.where(_hit(minute, draw, minutes, node * minutes), factor, 1.0)
            minute.by_replica[arm] = factors

    return change


def _noisy_replicas(spread: float, correlation: float, replicas: int) -> ServiceChange:
    """Each replica of the canary strays by itself, and stays astray for a while."""

    def change(minute: Minute, draw: Floats) -> None:
        factors = np.exp([_astray(spread, correlation, minute, draw, replica) for replica in range(replicas)])
        minute.by_replica = dict.fromkeys(CANARY, factors)

    return change


def _failing(rate: float, minutes: int) -> ServiceChange:
    def change(minute: Minute, draw: Floats) -> None:
        for arm in CANARY:
            minute.error_rate[arm] = np.where(_hit(minute, draw, minutes), rate, minute.error_rate[arm])

    return change


ATTACKS = (
    Attack("memory with the day's load", _memory_with_the_day),
    Attack("an allocator's slow plateau", _slow_plateau),
    Attack("queues that stay long for minutes", _queues(0.9, 0.5)),
    Attack("queues that stay long for an hour", _queues(0.98, 0.8)),
    Attack("one malformed answer in 10,000", _malformed),
    Attack("a bad moment in 1,000 spoils all answers", _malformed_together),
    Attack("nodes that fail once a day", _restarts),
    Attack("a peak of 30 % just under an edge, +5 %", change=_slower(1.05), shape=_peak(0.3, 97.0)),
    Attack("a peak of 10 % just under an edge, +5 %", change=_slower(1.05), shape=_peak(0.1, 243.0)),
    Attack("the same without noise", change=_slower(1.05), shape=_peak(0.1, 243.0), world=CALM),
    Attack("as slow as is tolerated, by edges as far apart", change=_slower(1.1), world=TENTHS),
    Attack(
        "one request in 1,000 just under a late edge, +5 %, in clusters of 30", change=_slower(1.05), shape=_peak(0.001, 2430.0), cluster=30
    ),
    Attack("one request in 100 twenty times slower, in clusters of 30", shape=_peak(0.01, 1500.0), cluster=30),
    Attack("clusters of 10", cluster=10),
    Attack("clusters of 30", cluster=30),
    Attack("a minute of 15 % errors, in clusters of 30", change=_failing(0.15, 1), cluster=30),
    Attack("noise of one arm that lasts, 6 %", change=_lasting_noise(0.06, 0.9)),
    Attack("one node half as slow again for ten minutes", change=_slow_node(1.5, 10)),
    Attack("one node four times slower for ten minutes", change=_slow_node(4.0, 10)),
    Attack("the baseline's node half as slow again for ten minutes", change=_slow_replica(1.5, 10, 1, ("baseline",))),
    Attack("one replica of two half as slow again for ten minutes", change=_slow_replica(1.5, 10, 2)),
    Attack("one replica of three half as slow again for good", change=_slow_replica(1.5, MINUTES, 3)),
    Attack("noise of each of two replicas that lasts, 6 %", change=_noisy_replicas(0.06, 0.9, 2)),
    Attack("two replicas of three half as slow again, ten minutes each", change=_slow_replica(1.5, 10, 3, nodes=2)),
    Attack("weights late by two minutes, 5/s and 15/s", late=2, rates=(5.0, 15.0)),
)

_FAULTS = "tests/unit/release/gate/test_release_gate.py::test_some_faults_roll_back_in_the_first_tick"
_E_PROCESS = "[e-process on counts](gate.md#how-it-decides)"
PATHS = (
    PathRow(
        Reason.CATASTROPHIC,
        ("catastrophe",),
        "likelihood ratio to the power 1/30, valid for callers of 30 requests that fail together; at most 15 % may fail in a minute",
        ("a minute of 15 % errors, in clusters of 30", "clusters of 30"),
    ),
    PathRow(
        Reason.NOT_ROUTABLE,
        ("reach",),
        "bet on which of canary and baseline a cluster of 30 requests reaches, in a tick in which one of them has none; "
        "a day of minutes adds a seventh to its share",
        ("weights late by two minutes, 5/s and 15/s",),
    ),
    PathRow(
        Reason.GPU,
        (),
        "outside: a GPU that must be reset serves nobody. It is the hardware's fault as often as the version's; try the release again",
        (_FAULTS,),
    ),
    PathRow(Reason.OUT_OF_MEMORY, (), "outside: the kernel's own report, no estimate", (_FAULTS,)),
    PathRow(
        Reason.RESTARTS, ("restarts",), "bet against one minute with restarts a day, however many it has", ("nodes that fail once a day",)
    ),
    PathRow(
        Reason.INVALID_ANSWER,
        ("malformed",),
        "bet against a mean share of 0.1 % of a tick's answers, alone or all together",
        ("one malformed answer in 10,000", "a bad moment in 1,000 spoils all answers"),
    ),
    PathRow(
        Reason.FAILED_MEMORY,
        (),
        "outside: measured beyond the contract's limit in two ticks while the control is 5 points below it. A ramp only holds",
        ("memory with the day's load", "an allocator's slow plateau"),
    ),
    PathRow(
        Reason.FAILED_CORRECTNESS,
        ("correctness", "mirrored"),
        "Bernoulli e-process; valid for answers that differ independently of each other",
        ("tests/unit/release/gate/test_release_gate_signals.py::test_wrong_answers_within_the_tolerance_are_hardly_ever_a_failure",),
    ),
    PathRow(
        Reason.FAILED_ERRORS,
        ("errors",),
        f"{_E_PROCESS}; valid for requests that fail in clusters of up to K, as `exp(l / K)` is by Hölder's inequality; K is ten at first, then what the "
        "failed requests of all arms showed in past ticks; discounted by measured noise",
        ("clusters of 10", "clusters of 30", "a minute of 15 % errors, in clusters of 30"),
    ),
    PathRow(
        Reason.FAILED_LATENCY,
        ("latency",),
        f"{_E_PROCESS}, for any peak below one edge; approximate, since the tolerated ratio is read from the control's past, but for a "
        "quarter that compares the tail above an edge with the control's above an earlier one. Raised to 1/K for up to K requests that are slow "
        "together, as for errors, K by what the stable version's arms showed. Valid for one node in trouble: where several "
        "replicas answered, R is the least over every choice of one replica to leave out in each 11 minutes, and one choice leaves out those "
        "that are not well; where one answered, or nobody tells them apart, R is the least over all runs of 11 minutes of R with "
        "`R = R + w` in the run, and one of them holds the whole episode",
        (
            "a peak of 30 % just under an edge, +5 %",
            "a peak of 10 % just under an edge, +5 %",
            "the same without noise",
            "as slow as is tolerated, by edges as far apart",
            "one request in 1,000 just under a late edge, +5 %, in clusters of 30",
            "one request in 100 twenty times slower, in clusters of 30",
            "clusters of 10",
            "clusters of 30",
            "noise of one arm that lasts, 6 %",
            "noise of each of two replicas that lasts, 6 %",
            "one node four times slower for ten minutes",
            "the baseline's node half as slow again for ten minutes",
            "one replica of two half as slow again for ten minutes",
            "one replica of three half as slow again for good",
            "two replicas of three half as slow again, ten minutes each",
            "one node half as slow again for ten minutes",
        ),
    ),
    PathRow(
        Reason.FAILED_QUEUE,
        ("queue",),
        "bet on who is next beyond the tolerance after the arms have exchanged places; what is always high only holds",
        ("queues that stay long for minutes", "queues that stay long for an hour"),
    ),
    PathRow(
        Reason.FAILED_COST,
        ("cost",),
        "the same bet as for the queue",
        ("queues that stay long for minutes", "queues that stay long for an hour"),
    ),
    PathRow(
        Reason.OUT_OF_TIME,
        (),
        "outside: nothing is shown against the version, and the release ends as `out of time`. Below 0.3 requests a second expect it",
        ("tests/unit/release/driver/test_release_driver.py::test_a_release_whose_time_is_over_is_out_of_time_and_not_rolled_back",),
    ),
    PathRow(
        Reason.ROLLED_BACK_INCONCLUSIVE,
        (),
        "outside: as before, where the contract says `on_inconclusive: rollback`",
        ("tests/unit/release/gate/test_release_gate.py::test_a_step_without_proof_holds_or_gives_up_as_the_policy_says",),
    ),
)


class ClusteredService(SimulatedService):
    """Requests of one arm and class come in clusters that take the same time and fail together."""

    def __init__(self, attack: Attack, rate: float, rollouts: int, seed: int) -> None:
        self._cluster = attack.cluster
        scenario = Scenario(attack.name, "healthy", attack.change, shape=attack.shape, late=attack.late)
        super().__init__(attack.world, scenario, rate / attack.cluster, rollouts, seed)

    def _arm(self, arm: str, minute: Minute, share: Floats) -> tuple[Floats, Floats]:
        buckets, errors = super()._arm(arm, minute, share)
        return buckets * self._cluster, errors * self._cluster


@dataclass(frozen=True)
class AttackResult:
    """An attack at a rate."""

    attack: str
    rate: float
    rollouts: int
    back: int
    held: int
    """Neither promoted nor rolled back after MINUTES."""
    minutes: float
    """Median to the promotion."""
    reasons: Mapping[str, int]

    def shown(self) -> str:
        """False rollbacks with the upper end of their 95 % interval, what is held, and how long a promotion takes."""
        _, high = interval(self.back, self.rollouts)
        took = "-" if math.isnan(self.minutes) else f"{self.minutes:.0f} min"
        back = f"{100 * self.back / self.rollouts:.1f} % (at most {100 * high:.1f} %)"
        return f"{' '.join([back, *self.reasons])} · {100 * self.held / self.rollouts:.0f} % · {took}"


def attacked(attack: Attack, rate: float, rollouts: int, seed: int, policy: GatePolicy | None = None) -> AttackResult:
    """Run one cell."""
    service = ClusteredService(attack, rate, rollouts, seed)
    told = attack.told(np.random.default_rng([seed, 1]), rollouts)
    gate = Gate(policy or GatePolicy(), attack.world.edges, ("short", "long"), shape=(rollouts,))
    buckets, errors = service.history()
    gate.learn(Counts(buckets=buckets, errors=errors))
    decision, since = gate.start(), np.zeros(rollouts)
    promoted, reasons = np.full(rollouts, np.nan), dict[str, int]()
    for number in range(MINUTES):
        weight, before = decision.weight, decision.phase
        shown = service.minute(number, weight, decision.baseline_weight, decision.mirror, since)
        flags = told(number)
        queued: Mapping[str, Floats] = flags.pop("queued", {})
        arms: dict[str, Any] = {
            arm: replace(each, queued=queued.get(arm, math.nan) * shown.buckets[arm].sum(axis=(1, 2)))
            for arm, each in arms_shown(shown).items()
        }
        decision = gate.observe(Tick(**arms, answered=shown.answered, canary_up=shown.canary_up, **flags))
        promoted[(before == Phase.RELEASING) & (decision.phase == Phase.BAKING)] = number + 1
        for code in decision.reason[(before != Phase.ROLLED_BACK) & (decision.phase == Phase.ROLLED_BACK)]:
            name = Reason(int(code)).name
            reasons[name] = reasons.get(name, 0) + 1
        since = np.where(decision.weight != weight, 0.0, since + 1)
    known = promoted[~np.isnan(promoted)]
    return AttackResult(
        attack=attack.name,
        rate=rate,
        rollouts=rollouts,
        back=int((decision.phase == Phase.ROLLED_BACK).sum()),
        held=int((decision.phase == Phase.RELEASING).sum()),
        minutes=float(np.median(known)) if len(known) else math.nan,
        reasons=dict(sorted(reasons.items())),
    )


def path_table(policy: GatePolicy | None = None) -> Iterable[str]:
    """A row for each path."""
    judged = policy or GatePolicy(mirrored=0.01)
    yield "| path | share of the budget | proof, or why it needs none | attacked by |"
    yield "|---|---|---|---|"
    for row in PATHS:
        share = sum(judged.alpha[name] for name in row.share) / judged.false_rollback
        attacks = ", ".join(f"`{name.partition('::')[2]}`" if "::" in name else name for name in row.attacks)
        yield f"| `{row.reason.name}` | {f'{100 * share:.3g} %' if row.share else 'none'} | {row.proof} | {attacks} |"


def page(cells: Sequence[AttackResult], rollouts: int, seed: int) -> str:
    """The whole page."""
    found = {(cell.attack, cell.rate): cell for cell in cells}
    rows = [f"| {a.name} | {' | '.join(found[a.name, rate].shown() for rate in a.rates)} |" for a in ATTACKS]
    return "\n".join(
        [
            "# What the gate takes a version back for",
            "",
            "Generated by `python -m benchmarks.release_attacks`. The budget is the contract's `false_rollback`.",
            "",
            *path_table(),
            "",
            f"The attacks: a healthy version, {rollouts} rollouts a cell, seed {seed}, {MINUTES} minutes with the bake; tests are named as such.",
            "Each cell: rolled back, and why · still held at the end · median time to the promotion.",
            "",
            "| attack | 10 requests a second | 100 requests a second |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--attack", action="append", help="the start of a name; all by default")
    parser.add_argument("--write", type=Path, help="the page; needs all attacks")
    asked = parser.parse_args(arguments)
    cells: list[AttackResult] = []
    for attack in ATTACKS:
        if asked.attack and not any(attack.name.startswith(name) for name in asked.attack):
            continue
        for rate in attack.rates:
            cells.append(attacked(attack, rate, asked.rollouts, asked.seed))
            sys.stdout.write(f"{attack.name:45} {rate:5g}/s  {cells[-1].shown()}  {dict(cells[-1].reasons)}\n")
            sys.stdout.flush()
    if asked.write:
        asked.write.write_text(page(cells, asked.rollouts, asked.seed), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
