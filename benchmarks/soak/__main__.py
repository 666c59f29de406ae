"""Soaks the sandbox: `python -m benchmarks.soak --seed 1 --hours 24`, or `--replay FILE`. `make soak SEED=1 HOURS=24`.

Prints a line an hour and a table at the end. At the first invariant that does not hold it stops, writes the script so
far, and tries to make it smaller (`--replays`).
"""

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.soak.run import Soaked, soak
from benchmarks.soak.schedule import SoakEvent, read_script, scheduled, script
from benchmarks.soak.shrinking import shrunk


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hours", type=float, default=24.0, help="simulated")
    parser.add_argument("--minutes", type=float, default=math.inf, help="real ones, after which it ends early")
    parser.add_argument("--replay", type=Path, help="a script that a soak has written")
    parser.add_argument("--replays", type=int, default=10, help="most replays for making a script that fails smaller; 0 leaves it")
    parser.add_argument("--out", type=Path, default=Path(".headway/soak"), help="where scripts are written")
    chosen = parser.parse_args()
    try:
        events = read_script(chosen.replay.read_text(encoding="utf-8")) if chosen.replay else scheduled(chosen.seed, chosen.hours)
    except (OSError, ValueError) as problem:
        sys.exit(f"error: {chosen.replay} cannot be replayed: {problem}\n  Nothing was run.\n  Give a script that a soak has written.")
    name = chosen.replay.stem if chosen.replay else f"seed-{chosen.seed}"
    print(f"Soak {name}: {len(events)} events; {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, load {os.getloadavg()[0]:.1f}.", flush=True)
    found = run(events, chosen.minutes)
    print(found.table(), flush=True)
    if not found.broken:
        return
    chosen.out.mkdir(parents=True, exist_ok=True)
    whole = chosen.out / f"{name}-{len(found.carried)}.jsonl"
    whole.write_text(script(found.carried), encoding="utf-8")
    print(f"Replay it: make soak REPLAY={whole}", flush=True)
    if chosen.replays:
        kind = found.broken[0].partition(":")[0]

        def fails(some: Sequence[SoakEvent]) -> bool:
            return any(each.startswith(kind) for each in run(some).broken)

        small = chosen.out / f"{name}-small.jsonl"
        small.write_text(script(shrunk(found.carried, fails, chosen.replays)), encoding="utf-8")
        print(f"Made smaller: make soak REPLAY={small}", flush=True)
    sys.exit(1)


def run(events: Sequence[SoakEvent], minutes: float = math.inf) -> Soaked:
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as folder:
        return soak(Path(folder), events, lambda line: print(line, flush=True), minutes)


main()
