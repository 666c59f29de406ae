"""How often a healthy GPU is called slower than its siblings, and how soon a slow one is.

    python -m benchmarks.siblings [--node-years 300] [--delays 2000] [--seed 1] [--world NAME ...]

Each replica's time in a window is a healthy level of its own, times noise of first order, times heavy-tailed minutes that come by themselves,
times what its batches explain. A replica is a node, and its evidence counts by the part of a year that passes. The worlds named "broken" leave
what the proof assumes, one assumption each: they say how far it may be left.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headway.diagnosis.slow_sibling import LEAST_PROOF, WARM_UP_WINDOWS, WINDOW_SECONDS, YEAR, sibling_evidence, watched
from headway.release.backtest.interval import interval

Floats = NDArray[np.float64]
_REPLICAS_AT_ONCE = 4096
_MINUTE = 60 // WINDOW_SECONDS
_LEARNING = 240
"""Windows before a GPU becomes slow: an hour."""
_PATIENCE = 60 * _MINUTE
_BATCH_NOISE = 0.01
"""Deviation of a window's mean batch."""


@dataclass(frozen=True, kw_only=True)
class SiblingWorld:
    """`deviation`: of a window's time, as a logarithm; `correlation`: of neighbouring windows; `levels`: deviation of healthy replicas' own
    levels; `bad_minutes`: share of windows in which one begins, each 1 to `bad_windows` long and slower by `bad` at least (Pareto, index 1.5);
    `uneven`: load of the busiest by that of the idlest, of which noise is the root; `batches`: the same of batch sizes, to which time is in
    proportion."""

    name: str
    siblings: int = 4
    deviation: float = 0.02
    correlation: float = 0.3
    levels: float = 0.01
    bad_minutes: float = 0.002
    bad_windows: int = 8
    bad: float = 0.2
    uneven: float = 1.0
    batches: float = 1.0


WORLDS = (
    SiblingWorld(name="3 siblings", siblings=3),
    SiblingWorld(name="4 siblings"),
    SiblingWorld(name="32 siblings", siblings=32),
    SiblingWorld(name="4 siblings, noise 3 %, correlation 0.5", deviation=0.03, correlation=0.5),
    SiblingWorld(name="8 siblings, noise 6 %, correlation 0.5", siblings=8, deviation=0.06, correlation=0.5),
    SiblingWorld(name="8 siblings, one with a sixteenth of the load", siblings=8, uneven=16.0),
    SiblingWorld(name="8 siblings, batches up to twice as large", siblings=8, batches=2.0),
    SiblingWorld(name="broken: 5 episodes a day of up to 5 minutes", siblings=8, bad_minutes=5 / (1440 * _MINUTE), bad_windows=5 * _MINUTE),
    SiblingWorld(name="broken: noise 6 %, correlation 0.8", siblings=8, deviation=0.06, correlation=0.8),
    SiblingWorld(name="broken: 5 episodes a day of up to 8 minutes", siblings=8, bad_minutes=5 / (1440 * _MINUTE), bad_windows=8 * _MINUTE),
    SiblingWorld(name="broken: healthy levels differ by 4 %", siblings=8, levels=0.04),
)


class SiblingNoise:
    """Draws windows of many groups of siblings."""

    def __init__(self, world: SiblingWorld, groups: int, rng: np.random.Generator) -> None:
        self._world, self._rng, self._shape = world, rng, (groups, world.siblings)
        place = np.linspace(0.0, 1.0, world.siblings)
        self._level = world.levels * rng.standard_normal(self._shape)
        self._load = world.uneven ** (place / 2)
        """The busiest comes first."""
        self._batch = world.batches**place
        self._noise = rng.standard_normal(self._shape)
        self._left, self._bad = np.zeros(self._shape), np.zeros(self._shape)

    def window(self) -> tuple[Floats, Floats]:
        """Times, and batch sizes with the measure on the last axis."""
        world, rng = self._world, self._rng
        innovation = np.sqrt(1 - world.correlation**2)
        self._noise = world.correlation * self._noise + innovation * rng.standard_normal(self._shape)
        begins = rng.random(self._shape) < world.bad_minutes
        if begins.any():
            self._left[begins] = rng.integers(1, world.bad_windows + 1, begins.sum())
            self._bad[begins] = np.log1p(world.bad * (1 + rng.pareto(1.5, begins.sum())))
        slow = np.where(self._left > 0, self._bad, 0.0)
        self._left = np.maximum(self._left - 1, 0.0)
        batch = self._batch * np.exp(_BATCH_NOISE * rng.standard_normal(self._shape))
        times = batch * np.exp(self._level + world.deviation * self._load * self._noise + slow)
        return times, batch[..., None]


def accused(world: SiblingWorld, node_years: float, rng: np.random.Generator) -> tuple[int, float]:
    """Healthy replicas that were accused, over how many node-years."""
    groups = max(1, _REPLICAS_AT_ONCE // world.siblings)
    noise = SiblingNoise(world, groups, rng)
    steps = int(np.ceil(node_years * YEAR / WINDOW_SECONDS / (groups * world.siblings)))
    evidence, said = sibling_evidence((groups, world.siblings), 1), 0
    for _ in range(WARM_UP_WINDOWS + steps):
        evidence = watched(evidence, *noise.window())
        over = evidence.value >= LEAST_PROOF
        if over.any():
            said += int(over.sum())
            kept = np.where(over[..., None], 0.0, evidence.wealth.wealth)
            evidence = replace(evidence, wealth=replace(evidence.wealth, wealth=kept), shown=np.where(over, 0.0, evidence.shown))
    return said, steps * groups * world.siblings * WINDOW_SECONDS / YEAR


def delays(world: SiblingWorld, slower: float, trials: int, rng: np.random.Generator) -> Floats:
    """Minutes until one replica of each group that becomes `slower` is accused; not-a-number: not within an hour."""
    noise = SiblingNoise(world, trials, rng)
    evidence, found = sibling_evidence((trials, world.siblings), 1), np.full(trials, np.nan)
    who = rng.integers(0, world.siblings, trials)
    rows = np.arange(trials)
    for number in range(_LEARNING + _PATIENCE):
        times, sizes = noise.window()
        if number >= _LEARNING:
            times[rows, who] *= slower
        evidence = watched(evidence, times, sizes)
        over = evidence.value[rows, who] >= LEAST_PROOF
        if number >= _LEARNING:
            found = np.where(np.isnan(found) & over, (number + 1 - _LEARNING) / _MINUTE, found)
    return found


def main(arguments: list[str] | None = None, say: Callable[[str], object] = sys.stdout.write) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--node-years", type=float, default=300.0)
    parser.add_argument("--delays", type=int, default=2000, help="trials for each slow-down")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--world", action="append", help="only worlds whose name begins so")
    asked = parser.parse_args(arguments)
    say(
        "| world | false alarms | node-years | a year at most | 15 % slower | within 10 min | 30 % | 2x |\n|---|---|---|---|---|---|---|---|\n"
    )
    for number, world in enumerate(WORLDS):
        if asked.world and not any(world.name.startswith(each) for each in asked.world):
            continue
        said, years = accused(world, asked.node_years, np.random.default_rng([asked.seed, number]))
        most = f"{interval(said, max(round(years), 1))[1]:.1%}" if said < years else f"{said / years:.1f} times"
        cells = [world.name, f"{said}", f"{years:.0f}", most]
        for place, slower in enumerate((1.15, 1.3, 2.0)):
            found = delays(world, slower, asked.delays, np.random.default_rng([asked.seed, number, place]))
            late = float(np.sort(np.nan_to_num(found, nan=np.inf))[len(found) // 2])
            cells.append(f"{late:.1f} min" if np.isfinite(late) else "not within an hour")
            if not place:
                cells.append(f"{(found <= 10).mean():.0%}")
        say(f"| {' | '.join(cells)} |\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
