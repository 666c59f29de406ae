"""Ticks of an imaginary service for tests of the gate."""

from statistics import NormalDist
from typing import Any

import numpy as np

from headway.release.gate import Counts, Decision, Gate, GatePolicy, Tick

EDGES = (50.0, 100.0, 250.0, 500.0)
CLASSES = ("short", "long")
SHARES = np.asarray([[0.34, 0.53, 0.128, 0.0018, 0.0002], [0.005, 0.145, 0.69, 0.154, 0.006]])
"""By class and bucket, of a healthy version."""
SLOW = np.asarray([[0.13, 0.44, 0.41, 0.018, 0.002], [0.0005, 0.0445, 0.5, 0.37, 0.085]])
"""About half as slow again."""


def slowed(factor: float) -> np.ndarray:
    """A healthy version's shares when each request takes `factor` times as long: log-normal between the edges."""
    normal, logs = NormalDist(), np.log(EDGES)
    below = np.cumsum(SHARES, axis=1)[:, :-1]
    scores = np.vectorize(normal.inv_cdf)(below)
    there = np.stack([np.interp(logs - np.log(factor), logs, row, left=np.nan) for row in scores])
    first = scores[:, 0] - np.log(factor) * (scores[:, 1] - scores[:, 0]) / (logs[1] - logs[0])
    cut = np.vectorize(normal.cdf)(np.where(np.isnan(there), first[:, None], there))
    return np.diff(cut, axis=1, prepend=0.0, append=1.0)


def counts(requests: float, shares: np.ndarray = SHARES, errors: float = 0.0, rng: np.random.Generator | None = None) -> Counts:
    """An arm with `requests`, three tenths of them long; exact expectations, or drawn."""
    parts = np.asarray([0.7, 0.3]) * requests
    buckets = parts[:, None] * shares if rng is None else rng.poisson(parts[:, None] * shares).astype(float)
    failed = parts * errors if rng is None else rng.binomial(buckets.sum(axis=1).astype(int), errors).astype(float)
    return Counts(buckets=buckets, errors=failed)


def gate(policy: GatePolicy | None = None, shape: tuple[int, ...] = ()) -> Gate:
    """A gate that knows a healthy quarter of an hour."""
    made = Gate(policy or GatePolicy(), EDGES, CLASSES, shape=shape)
    past = counts(9000.0)
    if shape:
        past = Counts(buckets=np.stack([np.asarray(past.buckets)] * shape[0]), errors=np.stack([np.asarray(past.errors)] * shape[0]))
    made.learn(past)
    return made


def tick(
    decision: Decision,
    requests: float = 6000.0,
    shares: np.ndarray = SHARES,
    errors: float = 0.0,
    rng: np.random.Generator | None = None,
    **flags: Any,
) -> Tick:
    """A minute with the weights of `decision`; `shares` and `errors` are the canary's."""
    weight, baseline, mirror = (float(x) for x in (decision.weight, decision.baseline_weight, decision.mirror))
    stable = requests * (1 - weight - baseline)
    return Tick(
        stable=counts(stable, errors=0.001, rng=rng),
        baseline=counts(requests * baseline, errors=0.001, rng=rng),
        canary=counts(requests * weight, shares, errors, rng),
        mirrored=counts(stable * mirror, shares, errors, rng),
        **flags,
    )
