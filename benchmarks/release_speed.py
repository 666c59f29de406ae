"""How much CPU the gate takes: `python -m benchmarks.release_speed`; prints a Markdown table.

CPU of all threads, so that other work on the machine counts little.
"""

import time

import numpy as np

from benchmarks.reference import reference_line, times_reference
from headway.release.gate import Counts, Gate, GatePolicy, Phase, Tick

ROLLOUTS, TICKS, BUCKETS = 1000, 240, 14
HISTOGRAMS, CLASSES, HISTORY_TICKS = 14, 3, 120
"""With errors, time in queue, cost, answers, memory and the share of traffic: 20 signals."""


def batch() -> float:
    """CPU seconds of a batch of identical versions, whose first step takes longer than the batch."""
    rng = np.random.default_rng(1)
    policy = GatePolicy(step_ticks_at_least=TICKS, step_ticks_at_most=2 * TICKS, mirror=0.0)
    gate = Gate(policy, np.geomspace(5, 10_000, BUCKETS - 1).tolist(), ("short", "long"), shape=(ROLLOUTS,))

    def arm(mean: float) -> Counts:
        return Counts(buckets=rng.poisson(mean, (ROLLOUTS, 2, BUCKETS)), errors=rng.poisson(mean * 0.01, (ROLLOUTS, 2)))

    gate.learn(arm(500))
    spent, decision = 0.0, gate.start()
    for _ in range(TICKS):
        tick = Tick(stable=arm(500), baseline=arm(30), canary=arm(30))
        begun = time.process_time()
        decision = gate.observe(tick)
        spent += time.process_time() - begun
    assert (decision.phase == Phase.RELEASING).mean() > 0.9, "what is over costs less"
    return spent


def evaluation() -> float:
    """CPU seconds of a tick of a service with many signals and a long history: the median of twenty."""
    rng = np.random.default_rng(2)
    names = [f"h{number}" for number in range(HISTOGRAMS)]
    edges = {name: np.geomspace(5, 10_000, BUCKETS - 1).tolist() for name in names}
    gate = Gate(GatePolicy(step_ticks_at_least=9999, step_ticks_at_most=9999, mirror=0.0), edges, ("a", "b", "c"))

    def arm(mean: float) -> Counts:
        buckets = {name: rng.poisson(mean, (CLASSES, BUCKETS)) for name in names}
        return Counts(buckets=buckets, errors=np.zeros(CLASSES), requests=np.full(CLASSES, mean * BUCKETS), queued=mean, busy=mean)

    gate.learn(arm(500))
    spent: list[float] = []
    for _ in range(HISTORY_TICKS + 20):
        tick = Tick(stable=arm(500), baseline=arm(30), canary=arm(30), memory=0.5, pairs=3, capacity=1e9)
        begun = time.process_time()
        gate.observe(tick)
        spent.append(time.process_time() - begun)
    return float(np.median(spent[HISTORY_TICKS:]))


if __name__ == "__main__":
    print(f"{reference_line()}\n")
    of_batch, of_tick = batch(), evaluation()
    print("| what | CPU | of the reference work | promised |\n|---|---|---|---|")
    print(
        f"| {ROLLOUTS:,} rollouts of {TICKS} ticks, 2 classes, {BUCKETS} buckets | {of_batch:.1f} s | {times_reference(of_batch)} | 30 s |"
    )
    what = f"a tick of one rollout, 20 signals, {CLASSES} classes, after {HISTORY_TICKS} ticks"
    print(f"| {what} | {1000 * of_tick:.0f} ms | {times_reference(of_tick)} | 25 ms |")
