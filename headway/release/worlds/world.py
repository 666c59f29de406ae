"""Simulated services: their requests, latencies, errors and noise, with published parameters. Nothing here knows how the gate judges."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.signals.buckets import latency_edges_milliseconds

Floats = NDArray[np.float64]

EDGES = (1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0, 30000.0)
"""Milliseconds: Istio's default edges of request durations in this range (14 buckets with the one above the last)."""
FINE_EDGES = tuple(map(float, latency_edges_milliseconds()))
"""Those of Headway's own proxies: each about a quarter above the one before."""
ARMS = ("stable", "baseline", "canary", "mirrored")


@dataclass(frozen=True, kw_only=True)
class SimulatedWorld:
    """A service: request classes, lognormal latencies, noise. Second class is the long one."""

    name: str
    medians: tuple[float, float]
    """Milliseconds, by class."""
    spread: float
    """Standard deviation of log latency."""
    long_share: float
    error_rate: float = 0.001
    common_noise: float = 0.05
    """Standard deviation of the log latency level that all arms share; changes slowly (correlation 0.9 a minute)."""
    small_arm_noise: float = 0.03
    large_arm_noise: float = 0.01
    """Of an arm's own log latency level, anew each minute."""
    error_variation: float = 0.5
    """Coefficient of variation of an arm's error rate from minute to minute."""
    stress: float = 1.0
    """Multiplies the independent noise."""
    edges: tuple[float, ...] = EDGES
    """Of the latency histogram, in milliseconds."""
    replicas: int = 1
    """Of the new version, equally good. Several are told apart."""


BASE = SimulatedWorld(name="base", medians=(60.0, 160.0), spread=0.45, long_share=0.30)
SECOND = SimulatedWorld(name="second", medians=(350.0, 1400.0), spread=0.60, long_share=0.45, stress=1.5)
"""Like a language model: several times slower, wider, more long requests, noise x1.5. No constant was fitted to it; it was looked at once
before the last two changes of the gate (what a catastrophe is, and which control a proof uses)."""
THIRD = SimulatedWorld(name="third", medians=(12.0, 70.0), spread=0.35, long_share=0.15, error_rate=0.0004, common_noise=0.08, stress=1.5)
"""Like a small classifier: fast, narrow, fewer long requests and errors. Not looked at before the gate was finished."""
WORLDS = {world.name: world for world in (BASE, SECOND, THIRD)}
