"""A service's own history, pod by pod, for `backtest`.

A day of raw samples would be too large for one answer, so it is asked for an hour at a time; counters go on across the joints.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headway.problem import UserError
from headway.release.backtest.history import History, PodHistory
from headway.release.evidence.reader import PrometheusEvidence
from headway.release.evidence.reading import JudgedService

CHUNK_SECONDS = 3600.0


def history_of(evidence: PrometheusEvidence, service: JudgedService, arm: str, start: float, end: float, tick_seconds: float) -> History:
    """Counts of each pod of `arm` by tick, from `start` on. Raises UserError where there are none, UnansweredError where nobody says."""
    ticks = int((end - start) // tick_seconds)
    per_chunk = max(1, int(CHUNK_SECONDS // tick_seconds))
    chunks: list[tuple[int, dict[str, list[Any]], Any]] = []
    edges: dict[str, Sequence[float]] = {}
    for first in range(0, ticks, per_chunk):
        ends = [start + place * tick_seconds for place in range(first, min(first + per_chunk, ticks) + 1)]
        # Edges may have changed with an older release; then the histories cannot be joined, and the reader says so.
        pods, whole = evidence.by_pod(replace(service, edges=edges), arm, ends)
        edges = edges or whole["edges"]
        chunks.append((first, pods, whole))
    if not edges:
        raise UserError(
            f"No request of {service.tenant}/{arm} was counted between the two times.",
            "There is no history to rehearse on.",
            "Name another arm or another time; `kubectl get deploy` shows the arms there are.",
        )
    unclassified = sum(reading["unclassified"] for _, pods, _ in chunks for readings in pods.values() for reading in readings)
    counted = sum(sum(reading["requests"]) for _, pods, _ in chunks for readings in pods.values() for reading in readings)
    if unclassified > counted:
        raise UserError(
            f"{unclassified:.0f} of {unclassified + counted:.0f} requests carry none of the classes {', '.join(service.classes)}.",
            "Most of the history would be left out.",
            "Let the gateway label requests first, or rehearse a contract without rollout.classes.",
        )
    names = sorted({name for _, pods, _ in chunks for name in pods})
    classes = len(service.classes) or 1
    shapes = {histogram: (ticks, classes, len(ends) + 1) for histogram, ends in edges.items()}
    pods_counted = {
        name: PodHistory({each: np.zeros(shape) for each, shape in shapes.items()}, np.zeros((ticks, classes))) for name in names
    }
    answered = np.zeros(ticks, dtype=bool)
    for first, pods, whole in chunks:
        length = len(whole["up"])
        answered[first : first + length] = whole["up"]
        for name, readings in pods.items():
            for place, reading in enumerate(readings):
                if reading["buckets"]:
                    for histogram, buckets in pods_counted[name].buckets.items():
                        buckets[first + place] = np.asarray(reading["buckets"][histogram])
                    pods_counted[name].errors[first + place] = np.asarray(reading["errors"])
    return History(
        edges=edges,
        classes=service.classes or ("all",),
        pods=pods_counted,
        answered=answered,
        tick_seconds=tick_seconds,
    )
