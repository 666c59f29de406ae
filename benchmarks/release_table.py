"""The published table of release benchmarks: every scenario, at every rate, by the gate and by the rules of others.

    python -m benchmarks.release_table --rollouts 1000 [--world base] [--jobs 2] [--write docs/reference/gate-figures.md]

Each cell is kept under build/bench-release by all that it depends on, the gate's and the simulator's code included, so that a run which was
interrupted goes on, and none is shown that other code produced. With --write the section between the markers of the file is replaced.
"""

import argparse
import hashlib
import json
import math
import multiprocessing
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.incumbents import RULES
from benchmarks.release import ScenarioResult, judge, judge_by
from headway.release.gate import GatePolicy
from headway.release.worlds.scenarios import SCENARIOS
from headway.release.worlds.world import WORLDS

PROJECT = Path(__file__).resolve().parents[1]
KEPT = PROJECT / "build" / "bench-release"
GATE, UNMIRRORED = "gate", "gate, no mirror"
JUDGES = (GATE, UNMIRRORED, *RULES)
RATES = (1.0, 10.0, 200.0)
BEGIN, END = "<!-- releases: begin -->", "<!-- releases: end -->"

Key = tuple[str, str, str, float]
"""World, judge, scenario, rate."""


def digest(judge: str) -> str:
    """Of the code that a cell depends on."""
    folders = [PROJECT / "headway/release/gate"] if judge in (GATE, UNMIRRORED) else []
    files = [file for folder in folders for file in sorted(folder.glob("*.py"))]
    files += sorted((PROJECT / "headway/release/worlds").glob("*.py"))
    mine = ["release.py", *([] if folders else ["incumbents.py"])]
    found = hashlib.sha256()
    for file in (*files, *(PROJECT / "benchmarks" / name for name in mine)):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def place(key: Key, rollouts: int, seed: int) -> Path:
    world, judge, scenario, rate = key
    name = f"{scenario} {rate:g}".replace(" ", "-").replace("%", "pc").replace("+", "")
    return KEPT / f"{world}-{judge}-{digest(judge)}".replace(" ", "-").replace(",", "") / f"{name}-{rollouts}-{seed}.json"


def measure(job: tuple[Key, int, int]) -> tuple[Key, ScenarioResult]:
    """The cell, kept or run."""
    key, rollouts, seed = job
    world, name, scenario_name, rate = key
    file = place(key, rollouts, seed)
    if file.exists():
        return key, ScenarioResult(**json.loads(file.read_text()))
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == scenario_name)
    if name in RULES:
        cell = judge_by(name, WORLDS[world], scenario, rate, rollouts, seed)
    else:
        policy = GatePolicy() if name == GATE else GatePolicy(mirror=0.0)
        cell = judge(WORLDS[world], scenario, rate, rollouts, seed, policy)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(asdict(cell)))
    part.rename(file)
    return key, cell


def percent(part: int, whole: int) -> str:
    """A share in per cent, as short as it stays readable."""
    share = 100 * part / whole
    return "0" if part == 0 else f"{share:.1f}" if share < 10 else f"{share:.0f}"


def table(cells: dict[Key, ScenarioResult], world: str, kind: str, judges: Sequence[str]) -> Iterable[str]:
    """Wrong decisions in per cent at each rate."""
    yield f"| {'healthy: rolled back' if kind == 'healthy' else 'bad: promoted' if kind == 'bad' else 'grey: promoted'}, % | {' | '.join(judges)} |"
    yield "|---|" + "---|" * len(judges)
    names = [scenario.name for scenario in SCENARIOS if scenario.kind == kind]
    for name in names:
        shown = [
            "/".join(percent(cells[world, judge, name, rate].wrong, cells[world, judge, name, rate].rollouts) for rate in RATES)
            for judge in judges
        ]
        yield f"| {name} | {' | '.join(shown)} |"
    means = []
    for one in judges:
        shares = [[100 * cells[world, one, n, r].wrong / cells[world, one, n, r].rollouts for n in names] for r in RATES]
        means.append("/".join(f"{sum(s) / len(s):.1f}" for s in shares))
    yield f"| **mean** | {' | '.join(means)} |"


def measured_rates(cells: dict[Key, ScenarioResult], world: str, judge: str) -> tuple[float, ...]:
    """Rates at which every scenario was measured."""
    return tuple(rate for rate in RATES if all((world, judge, scenario.name, rate) in cells for scenario in SCENARIOS))


def at_rates(rates: Sequence[float]) -> str:
    return f"{'/'.join(f'{rate:g}' for rate in rates)} requests a second"


def gate_table(cells: dict[Key, ScenarioResult], world: str, judge: str) -> Iterable[str]:
    """All figures of the gate, with intervals, at each rate."""
    rates = measured_rates(cells, world, judge)
    yield "| scenario | wrong, % (95 % interval) | undecided after 240 min, % | median minutes (p90) | exposure, full-traffic minutes |"
    yield "|---|---|---|---|---|"
    for scenario in SCENARIOS:
        row = [cells[world, judge, scenario.name, rate] for rate in rates]
        wrong = " · ".join(f"{percent(c.wrong, c.rollouts)} ({c.interval()[0]:.2g}-{c.interval()[1]:.2g})" for c in row)
        open_ = " · ".join(percent(c.undecided, c.rollouts) for c in row)
        times = " · ".join("-" if math.isnan(c.minutes) else f"{c.minutes:.0f} ({c.minutes_p90:.0f})" for c in row)
        exposure = " · ".join(f"{c.exposure:.3g}" for c in row)
        yield f"| {scenario.name} ({scenario.kind}) | {wrong} | {open_} | {times} | {exposure} |"


def goals(cells: dict[Key, ScenarioResult], world: str) -> Iterable[str]:
    """The promised figures against the measured ones."""

    known = measured_rates(cells, world, GATE)

    def of(kind: str, names: Sequence[str] = (), rates: Sequence[float] = RATES) -> list[ScenarioResult]:
        chosen = [s.name for s in SCENARIOS if s.kind == kind and (not names or s.name in names)]
        return [cells[world, GATE, name, rate] for name in chosen for rate in rates if rate in known]

    def worst(found: Sequence[ScenarioResult]) -> float:
        return max(100 * c.wrong / c.rollouts for c in found)

    def total(found: Sequence[ScenarioResult]) -> str:
        return f"{sum(c.wrong for c in found)} of {sum(c.rollouts for c in found)}"

    healthy, busy = of("healthy"), of("healthy", rates=(10.0, 200.0))
    blind = of("healthy", ("Prometheus down", "scrape gap", "idle service"))
    gross = of(
        "bad", ("p99 +50 %", "p99 +100 %", "errors 5 %", "errors 50 %", "late +50 %", "saturates with weight", "masked by an easier mix")
    )
    small = of("bad", ("p99 +20 %", "errors 1 %"), (10.0, 200.0))
    exposed = of("bad", ("p99 +50 %", "errors 1 %"), (10.0, 200.0))
    mean = sum(100 * c.wrong / c.rollouts for c in healthy) / len(healthy)
    slowest = max(busy, key=lambda c: c.minutes)
    slowest_in_words = f"{slowest.minutes:.0f} ({slowest.scenario}, {slowest.rate:g}/s)"
    exposure = max(c.exposure for c in exposed)
    rows = [
        ("false rollback, worst healthy cell", f"{worst(healthy):.2g} %", "1 %", worst(healthy) <= 1),
        ("false rollback, mean", f"{mean:.2g} %", "0.1 %", mean <= 0.1),
        ("false rollback: Prometheus down, scrape gap, idle", total(blind), "0", worst(blind) == 0),
        ("missed: p99 +50 % and more, errors 5 % and more, late, saturating, masked", total(gross), "0", worst(gross) == 0),
        ("missed: p99 +20 %, errors 1 %, at 10/s and more, worst cell", f"{worst(small):.2g} %", "1 %", worst(small) <= 1),
        ("median minutes to promote at 10/s and more, slowest", slowest_in_words, "30", slowest.minutes <= 30),
        ("exposure, p99 +50 % and errors 1 %, at 10/s and more, worst", f"{exposure:.2g} min", "0.05 min", exposure <= 0.05),
    ]
    rollouts = healthy[0].rollouts
    yield f"| {world} world, {rollouts:,} rollouts a cell at {at_rates(known)} | measured | promised | |"
    yield "|---|---|---|---|"
    for what, measured, promised, met in rows:
        yield f"| {what} | {measured} | {promised} | {'met' if met else '**missed**'} |"


def section(cells: dict[Key, ScenarioResult], worlds: Sequence[str], rollouts: int, others: int, elsewhere: int, seed: int) -> str:
    judges = [judge for judge in JUDGES if measured_rates(cells, worlds[0], judge) == RATES]
    lines = [
        f"`make bench-release`, {datetime.now(UTC):%Y-%m-%d}: {rollouts:,} rollouts a cell of the gate in the {worlds[0]} world, {elsewhere:,} in",
        f"others, {others:,} of the rules of others; seed {seed}; figures at 1/10/200 requests a second unless said otherwise.",
        "Mirror stage and baseline arm unless said otherwise; undecided steps hold. The worlds, scenarios and ports of the others' rules are in",
        "`headway/release/worlds` and `benchmarks/incumbents.py`; `docs/reference/gate.md` says which world which constant was fitted to.",
        "0 of 1,000 has a 95 % upper bound of 0.37 %, 0 of 200 of 1.8 %, 0 of 100 of 3.6 %.",
        "",
    ]
    shown = [world for world in worlds if measured_rates(cells, world, GATE)]
    if missing := [f"the gate in the {world} world" for world in worlds if measured_rates(cells, world, GATE) != RATES] + [
        f"{judge} in the {worlds[0]} world" for judge in JUDGES if judge not in judges
    ]:
        lines += [f"**Not measured at every rate yet**: {', '.join(missing)}. `make bench-release` goes on with them.", ""]
    for world in shown:
        lines += [*goals(cells, world), ""]
    for kind in ("healthy", "bad", "grey"):
        lines += [*table(cells, worlds[0], kind, judges), ""]
    lines += ["Median minutes to the decision and exposure of each rule, mean over the rates at 10/s and 200/s:", ""]
    lines += [
        "| rule | promote a healthy version | roll back p99 +50 % | exposure, p99 +50 % | exposure, errors 1 % |",
        "|---|---|---|---|---|",
    ]
    for judge_name in judges:

        def at(name: str, field: str, judge_name: str = judge_name) -> float:
            return sum(getattr(cells[worlds[0], judge_name, name, rate], field) for rate in (10.0, 200.0)) / 2

        lines.append(
            f"| {judge_name} | {at('identical versions', 'minutes'):.0f} | {at('p99 +50 %', 'minutes'):.0f} | "
            f"{at('p99 +50 %', 'exposure'):.2g} | {at('errors 1 %', 'exposure'):.2g} |"
        )
    lines += ["", "A rule that promotes stops counting exposure, which flatters it.", ""]
    for world in shown:
        where = at_rates(measured_rates(cells, world, GATE))
        lines += [f"The gate in the {world} world, at {where}:", "", *gate_table(cells, world, GATE), ""]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=1000)
    parser.add_argument("--others", type=int, help="rollouts of a cell of what is not the gate with copies; default: the same")
    parser.add_argument("--elsewhere", type=int, help="rollouts of a cell of the gate in other worlds than the first; default: the same")
    parser.add_argument("--kept", action="store_true", help="show what was measured; run nothing")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--world", action="append", choices=sorted(WORLDS), help="the first is shown for all rules, others for the gate")
    parser.add_argument("--judge", action="append", choices=JUDGES, help="only these; all by default. The gate is always there")
    parser.add_argument("--write", type=Path, help="replace the section between the markers of this file")
    asked = parser.parse_args()
    worlds: list[str] = asked.world or ["base"]
    keys: list[Key] = [
        (world, judge, scenario.name, rate)
        for place, world in enumerate(worlds)
        for judge in (JUDGES if place == 0 else (GATE,))
        if not asked.judge or judge in (GATE, *asked.judge)
        for scenario in SCENARIOS
        for rate in RATES
    ]

    def rollouts(key: Key) -> int:
        if key[1] != GATE:
            return asked.others or asked.rollouts
        return asked.rollouts if key[0] == worlds[0] else asked.elsewhere or asked.rollouts

    if asked.kept:
        keys = [key for key in keys if place(key, rollouts(key), asked.seed).exists()]
    cells: dict[Key, ScenarioResult] = {}
    with multiprocessing.get_context("spawn").Pool(asked.jobs) as pool:
        for key, cell in pool.imap(measure, [(key, rollouts(key), asked.seed) for key in keys]):
            cells[key] = cell
            if len(cells) % 25 == 0:
                sys.stderr.write(f"{len(cells)} of {len(keys)} cells\n")
    text = section(cells, worlds, asked.rollouts, asked.others or asked.rollouts, asked.elsewhere or asked.rollouts, asked.seed)
    if asked.write is None:
        print(text)
        return 0
    before, _, rest = asked.write.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        parser.error(f"{asked.write} has no lines {BEGIN} and {END}; nothing was written; put them where the section belongs")
    asked.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
