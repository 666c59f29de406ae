"""Where prompts go in a pool of engines, and when their first tokens come: Headway's endpoint picker beside what others do, in simulation.

    python -m benchmarks.engine_pools [--traces FOLDER] [--loads 0.4,0.7] [--engines 4] [--seed 1] [--only TEXT]

FOLDER holds azure_code.csv and azure_conv.csv of AzureLLMInferenceTrace 2023 (Microsoft, CC-BY 4.0). Bursts are replayed without it too.
"""

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.engine_pools.engine import Pace
from benchmarks.engine_pools.prompts import BURSTS, SHARINGS, Prompt, arrivals, at_load, burst, shared
from benchmarks.engine_pools.replay import Answered, replay
from benchmarks.engine_pools.routers import ROUTERS

H100 = Pace(weights=6.2e-3, sequence=13e-6, launch=1.2e-3, token=20.4e-6, attended=0.9e-9, context=39e-9, capacity=400_000)
"""Llama 3.1 8B in bfloat16 on one H100 under vLLM: fitted to sixteen points that AIConfigurator 0.12 gives (`cli estimate`, NVIDIA's
measurements of kernels): prefill of 128 to 8,192 tokens, 1 to 128 answers of 512 and 2,048. Not measured by us."""
OTHERS = ("round robin", "sglang-router", "vllm-router")
"""Of which the best is the goal: round robin, and cache-aware as two programs have it."""
OURS = "Headway"
QUARTERS = 4
FEWEST = 500
"""Prompts of a slice, so that five are above its p99."""


def p99(answers: Sequence[Answered]) -> float:
    """Of the times to the first token, in seconds."""
    times = sorted(each.first for each in answers)
    return times[min(len(times) - 1, int(len(times) * 0.99))]


def slices(answers: Sequence[Answered]) -> Iterator[Sequence[Answered]]:
    """All; and of each quarter of the time, and the shorter and the longer half of the prompts, those with enough prompts."""
    end = answers[-1].arrived
    middle = sorted(each.tokens for each in answers)[len(answers) // 2]
    quarters = ([each for each in answers if quarter <= each.arrived * QUARTERS / end < quarter + 1] for quarter in range(QUARTERS))
    found = [answers, *quarters, [each for each in answers if each.tokens < middle], [each for each in answers if each.tokens >= middle]]
    return (each for place, each in enumerate(found) if not place or len(each) >= FEWEST)


def above(measured: Mapping[str, Sequence[Answered]]) -> list[float]:
    """By how much ours is above the best of the others, for each slice."""
    found: list[float] = []
    for pieces in zip(*(slices(measured[name]) for name in (OURS, *OTHERS)), strict=True):
        ours, *others = (p99(each) for each in pieces)
        found.append(ours / min(others) - 1)
    return found


def workloads(traces: Path | None, loads: Sequence[float], engines: int, seed: int) -> Iterator[tuple[str, list[Prompt]]]:
    for name in ("code", "conv") if traces else ():
        assert traces
        rows = arrivals(traces / f"azure_{name}.csv")
        for sharing in SHARINGS:
            for load in loads:
                yield f"{name}, share {sharing.name}, load {load:.0%}", shared(at_load(rows, H100, engines, load), sharing, seed)
    for kind in BURSTS:
        for rate in (4, 10) if kind != "mixed" else (1, 3):
            yield f"bursts: {kind}, {rate} to {10 * rate}/s", burst(kind, 300.0, rate, seed)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine_pools", description=__doc__)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--loads", type=lambda text: [float(each) for each in text.split(",")], default=[0.4, 0.7])
    parser.add_argument("--engines", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="rows whose name has this")
    chosen = parser.parse_args()
    print(f"{datetime.now(UTC):%Y-%m-%d}, {chosen.engines} engines, seed {chosen.seed}, load {os.getloadavg()[0]:.0f} before.\n")
    print(f"| prompts | {' | '.join(ROUTERS)} | {OURS} to the best; worst slice |\n|---|{'---|' * len(ROUTERS)}---|")
    every: list[float] = []
    for name, prompts in workloads(chosen.traces, chosen.loads, chosen.engines, chosen.seed):
        if chosen.only not in name:
            continue
        measured = {router: replay(prompts, H100, chosen.engines, made).answers for router, made in ROUTERS.items()}
        there = above(measured)
        every += there
        times = " | ".join(f"{p99(answers) * 1000:,.0f}" for answers in measured.values())
        print(f"| {name} | {times} | {there[0]:+.1%}; {max(there):+.1%} |", flush=True)
    missed = sum(each > 0.02 for each in every)
    print(
        f"\np99 of the time to the first token, ms. {missed} of {len(every)} slices are more than 2 % above; the worst {max(every):+.1%}."
    )


if __name__ == "__main__":
    main()
