"""A fixed piece of work, so that figures of time from different machines can be compared.

    python -m benchmarks.reference

Machines differ twofold, and a busy one differs from itself. So every benchmark of time also measures this work in the same run, and gives
each of its figures as a multiple of it. The work is deterministic: JSON, hashes, dictionaries and sorting in Python, and arrays of numpy,
all in one thread. Its result is checked, so that the same work was done everywhere.
"""

import hashlib
import json
import time
from functools import cache
from statistics import median

import numpy as np

RUNS = 3
ROUNDS = 160
EXPECTED = "0b1a814a42bb2788"
"""Digest of what the work gives."""


def work() -> str:
    """Do the work once; answers a digest of what it gave."""
    digest = hashlib.sha256()
    rng = np.random.default_rng(20261122)
    document = {
        f"service-{number:03}": {"weights": [number, number * 7 % 13], "labels": {"tenant": str(number % 9)}} for number in range(400)
    }
    for turn in range(ROUNDS):
        text = json.dumps({**document, "turn": turn}, sort_keys=True)
        read = json.loads(text)
        counted: dict[str, int] = {}
        for name, body in read.items():
            if name != "turn":
                tenant = body["labels"]["tenant"]
                counted[tenant] = counted.get(tenant, 0) + sum(body["weights"]) * (turn + 1)
        ranked = sorted(read, key=lambda name: hashlib.sha256(name.encode()).digest())
        drawn = rng.integers(0, 2**31, 200_000)
        drawn.sort()
        spread = np.cumsum(drawn % 1009) % 65_521
        digest.update(text.encode())
        digest.update(json.dumps([counted, ranked[:5], int(spread.sum())], sort_keys=True).encode())
    return digest.hexdigest()[:16]


@cache
def reference_seconds() -> float:
    """CPU seconds of the work on this machine, now: the median of some runs, measured once in a process."""
    taken: list[float] = []
    for _ in range(RUNS):
        begun = time.process_time()
        found = work()
        taken.append(time.process_time() - begun)
        if found != EXPECTED:
            raise RuntimeError(
                f"the reference work gave {found} instead of {EXPECTED}. Figures could not be compared. Check numpy and Python"
            )
    return median(taken)


def times_reference(seconds: float) -> str:
    """`seconds` as a multiple of the reference work, with three digits."""
    return f"{seconds / reference_seconds():.3g}"


def reference_line() -> str:
    """What a benchmark prints above its figures."""
    return (
        f"Reference work (benchmarks/reference.py): {reference_seconds():.2f} s of CPU; figures of time are also given as multiples of it."
    )


if __name__ == "__main__":
    print(reference_line())
