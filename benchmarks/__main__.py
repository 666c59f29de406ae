"""Measures what docs/benchmarks.md publishes: `python -m benchmarks [--journey] [--engine] [--packs] [--runs N]`; prints Markdown tables.

Whole-process figures, medians of repeated runs. Without a choice all parts run (about half an hour on two cores).
"""

import argparse
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.reference import reference_line, times_reference


def machine() -> str:
    """The class of this machine: cores, processor, memory, interpreter. No host name."""
    model = next(
        (line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), ""
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, CPython {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    for part in ("journey", "engine", "packs"):
        parser.add_argument(f"--{part}", action="store_true")
    parser.add_argument("--runs", type=int, default=3, help="runs of each repeated part; medians are shown")
    chosen = parser.parse_args()
    every = not (chosen.journey or chosen.engine or chosen.packs)
    print(f"Measured {datetime.now(UTC):%Y-%m-%d} on {machine()}; load before {os.getloadavg()[0]:.1f}.", flush=True)
    print(f"{reference_line()}\n", flush=True)
    if chosen.journey or every:
        from benchmarks.journey import journey

        print("| what | measured | of the reference work |\n|---|---|---|")
        for what, figure, unit in journey(chosen.runs):
            multiple = times_reference(figure) if unit == "s" else ""
            print(f"| {what} | {figure:.0f} {unit} | {multiple} |", flush=True)
        print()
    if chosen.packs or every:
        from benchmarks.packs import cost

        print("| resource | packs' CPU a resource | a thousand of them, of the reference work |\n|---|---|---|")
        for type, milliseconds in cost(chosen.runs):
            print(f"| {type} | {milliseconds:.2f} ms | {times_reference(milliseconds)} |", flush=True)
        print()
    if chosen.engine or every:
        subprocess.run(
            [sys.executable, str(Path(__file__).with_name("engine_preview.py")), "--services", "50,200,600", "--runs", str(chosen.runs)],
            check=True,
        )


main()
