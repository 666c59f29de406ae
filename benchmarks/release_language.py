"""How often the gate is wrong about versions of a language model: by what proxies see, and by what servers say of tokens.

    python -m benchmarks.release_language --rollouts 60 [--rates 10] [--write docs/reference/gate-figures.md]

The gate is the same for all; only the histograms that it is given differ. By whole answers: the durations at the proxies, by class of
prompt. By tokens: time to the first token and time for each further one, of vLLM's own histograms, all classes together; or as replicas'
proxies measure them of streams, by class, with edges a quarter apart, which is what releases are judged by: first tokens only where prefix
caches are about as warm. Errors are the proxies' in all. With --write the table between the markers of the file is replaced.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.language_worlds import (
    EACH,
    EDGES,
    FINE_EACH,
    FINE_FIRST,
    FIRST,
    LATENCY,
    SCENARIOS,
    LanguageScenario,
    LanguageService,
    LanguageShown,
    LanguageWorld,
)
from benchmarks.release_table import percent
from headway.release.backtest.interval import interval
from headway.release.evidence import prefix_cache
from headway.release.gate import Counts, Gate, GatePolicy, Phase, Tick

MINUTES = 240
VIEWS: Mapping[str, tuple[str, ...]] = {
    "whole answers": (LATENCY,),
    "tokens, at vLLM": (FIRST, EACH),
    "tokens, at the proxies": (FINE_FIRST, FINE_EACH),
}
BEGIN, END = "<!-- language releases: begin -->", "<!-- language releases: end -->"


@dataclass(frozen=True)
class LanguageResult:
    """One scenario at one rate, by one view."""

    wrong: int
    """Healthy: rolled back. Bad: promoted."""
    undecided: int
    minutes: float
    """Median to the decision; not-a-number where there was none."""
    rollouts: int


def judge(scenario: LanguageScenario, view: Sequence[str], rate: float, rollouts: int, seed: int) -> LanguageResult:
    """Run one cell until the new version is promoted or taken back."""
    service = LanguageService(LanguageWorld(), scenario, rate, rollouts, seed)
    gate = Gate(GatePolicy(), {name: EDGES[name] for name in view}, ("short", "long"), shape=(rollouts,))
    buckets, errors = service.history()
    gate.learn(Counts(buckets={name: buckets[name] for name in view}, errors=errors, requests=buckets[LATENCY].sum(axis=2)))
    decision, decided = gate.start(), np.full(rollouts, np.nan)
    for number in range(MINUTES):
        shown = service.minute(number, decision.weight, decision.baseline_weight, decision.mirror)
        before = decision.phase == Phase.RELEASING
        control = np.where(np.isnan(shown.computed["baseline"]), shown.computed["stable"], shown.computed["baseline"])
        like = {arm: prefix_cache.alike(shown.computed[arm], control) for arm in ("canary", "mirrored")}
        arms: Any = {arm: _counts(shown, arm, view, like.get(arm)) for arm in shown.buckets}
        decision = gate.observe(Tick(**arms))
        decided[before & (decision.phase != Phase.RELEASING)] = number + 1
        if not (decision.phase == Phase.RELEASING).any():
            break
    back, running = decision.phase == Phase.ROLLED_BACK, decision.phase == Phase.RELEASING
    wrong = back if scenario.kind == "healthy" else ~back & ~running
    known = decided[~np.isnan(decided)]
    return LanguageResult(int(wrong.sum()), int(running.sum()), float(np.median(known)) if len(known) else float("nan"), rollouts)


def _counts(shown: LanguageShown, arm: str, view: Sequence[str], like: Any = None) -> Counts:
    """`like`: where the arm's first tokens can be compared, as releases ask."""
    of = dict(shown.buckets[arm])
    if like is not None:
        of[FINE_FIRST] = np.where(like[:, None, None], of[FINE_FIRST], 0.0)
    return Counts(buckets={name: of[name] for name in view}, errors=shown.errors[arm], requests=of[LATENCY].sum(axis=2))


def table(cells: Mapping[tuple[str, str, float], LanguageResult], rates: Sequence[float]) -> Iterable[str]:
    """Wrong, undecided and minutes of each view, at each rate."""
    at = "/".join(f"{rate:g}" for rate in rates)
    yield f"| at {at} requests a second | {' | '.join(f'{view}: wrong, % | open, % | minutes' for view in VIEWS)} |"
    yield "|---|" + "---|---|---|" * len(VIEWS)
    for kind, says in (("healthy", "wrong is rolled back"), ("bad", "wrong is promoted")):
        yield f"| **{kind}** ({says}) |" + " | | |" * len(VIEWS)
        for scenario in (each for each in SCENARIOS if each.kind == kind):
            shown: list[str] = []
            for view in VIEWS:
                found = [cells[scenario.name, view, rate] for rate in rates]
                shown.append("/".join(percent(each.wrong, each.rollouts) for each in found))
                shown.append("/".join(percent(each.undecided, each.rollouts) for each in found))
                shown.append("/".join("-" if np.isnan(each.minutes) else f"{each.minutes:.0f}" for each in found))
            yield f"| {scenario.name} | {' | '.join(shown)} |"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.release_language", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rollouts", type=int, default=60)
    parser.add_argument("--rates", default="10")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scenario", action="append", help="name, or the start of one; all by default")
    parser.add_argument("--write", type=Path, help="replace the table between the markers of this file")
    asked = parser.parse_args(arguments)
    rates = [float(rate) for rate in asked.rates.split(",")]
    wanted = [each for each in SCENARIOS if not asked.scenario or any(each.name.startswith(name) for name in asked.scenario)]
    if not wanted or (asked.write and len(wanted) < len(SCENARIOS)):
        parser.error(f"a table has all scenarios; there are: {', '.join(each.name for each in SCENARIOS)}")
    cells: dict[tuple[str, str, float], LanguageResult] = {}
    for scenario in wanted:
        for view, names in VIEWS.items():
            for rate in rates:
                begun = time.process_time()
                cells[scenario.name, view, rate] = found = judge(scenario, names, rate, asked.rollouts, asked.seed)
                took = time.process_time() - begun
                sys.stdout.write(f"{scenario.name}, by {view}, {rate:g}/s: {found}, {took:.1f} s of CPU\n")
                sys.stdout.flush()
    if asked.write is None:
        return 0
    before, _, rest = asked.write.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        parser.error(f"{asked.write} has no lines {BEGIN} and {END}; nothing was written; put them where the table belongs")
    most = 100 * interval(0, asked.rollouts)[1]
    said = (
        f"`python -m benchmarks.release_language --rollouts {asked.rollouts} --rates {asked.rates}`, {datetime.now(UTC):%Y-%m-%d}, seed "
        f"{asked.seed}. None of {asked.rollouts} has a 95 % upper bound of {most:.0f} %."
    )
    text = "\n".join((said, "", *table(cells, rates)))
    asked.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
