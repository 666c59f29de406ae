"""The evidence of a release: who gathers it (`Evidence`), and how saved raw counters become what the gate takes in. The latter is pure,
so that a saved `Raw` gives the same decision for ever, bit for bit.

A source that is down is not an error but an observation (`answered` is false); only wrong arguments raise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from headway.problem import Problem
from headway.release.gate.tick import Counts, Tick

RawReading = Mapping[str, Any]
"""What was counted in one window, as JSON can hold it. `SHAPE` names its keys."""

SHAPE: Mapping[str, str] = {
    "window": "[start, end] in Unix seconds; start excluded",
    "answered": "whether every query succeeded, in full and without warnings",
    "reason": "why not, in words; else empty",
    "classes": "request classes, in the order of all lists by class",
    "edges": "by histogram: upper edges, ascending, without infinity; milliseconds for latency, else seconds",
    "arms": "by arm (stable, baseline, canary, mirrored): requests and errors by class, buckets by histogram, class and bucket (not "
    "cumulative), queued seconds, busy and available GPU seconds (null: unknown); of canary and mirrored also replicas: buckets by pod that "
    "answered, then as before; absent in ledgers of before, and where nobody names pods",
    "up": "by canary and control: whether all pods were scraped throughout",
    "ready": "whether a pod of the canary was ready; null: nobody says",
    "restarts": "of the canary's containers in this window",
    "out_of_memory": "whether one of them was killed for memory",
    "fatal_gpu_error": "whether a GPU of the canary must be reset",
    "memory": "largest share of GPU memory in use over the canary's GPUs; null: unknown",
    "control_memory": "the same of the baseline's, or else the stable version's; null, or absent in ledgers of before: unknown",
    "answers": "optional, from whoever asks golden requests: pairs, mismatches, invalid; and where both versions were asked labelled ones, "
    "each once in a release: labelled, only_canary_right, only_stable_right",
    "compared": "optional, where answers to copies are compared: pairs, mismatches; the times they are of; or why there are none",
    "room": "capacity, optional: GPU seconds that the canary would have in this window with the replicas of the next weight; null: unknown",
    "absent": "metrics that no source had",
    "queries": "what was asked, word for word",
    "endpoints": "who was asked, without credentials",
}


@dataclass(frozen=True)
class TickWindow:
    """One tick, in Unix seconds: later than `start`, up to and including `end`."""

    start: float
    end: float

    def __post_init__(self) -> None:
        if not self.start < self.end:
            raise ValueError(f"window {self.start} to {self.end} is empty. Nothing can be counted in it. Give a start before the end")

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, kw_only=True)
class JudgedService:
    """A model of a tenant, and what of it is judged."""

    tenant: str
    model: str
    classes: tuple[str, ...] = ()
    """Names of the contract's request classes; empty compares all requests together."""
    edges: Mapping[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]])
    """Those that must be found; of a histogram that is not here, any that all arms share."""


@dataclass(frozen=True, kw_only=True)
class ArmNames:
    """Name of the Kubernetes Service (and Deployment) of each arm; an arm that does not exist is None."""

    stable: str
    baseline: str | None = None
    canary: str | None = None

    @property
    def present(self) -> tuple[str, ...]:
        return tuple(name for name in (self.stable, self.baseline, self.canary) if name)


class Evidence(Protocol):
    """Who gathers evidence."""

    @property
    def settle_seconds(self) -> float:
        """How long after a window's end it can be read: until then its last scrape may not be there."""
        ...

    def preflight(self, service: JudgedService, arms: ArmNames, *, now: float) -> Sequence[Problem]:
        """Why there could be no evidence, before anything is deployed; empty when there can. A warning lets a release be judged, by less."""
        ...

    def history(self, service: JudgedService, arms: ArmNames, before: float, seconds: float) -> RawReading:
        """What the stable version did in the `seconds` before, for `Gate.learn`."""
        ...

    def read(self, service: JudgedService, arms: ArmNames, window: TickWindow) -> RawReading:
        """Raw counters of one tick. Never raises for a source that is down: `answered` is false, with the reason."""
        ...


def unanswered(
    service: JudgedService, window: TickWindow, reason: str, queries: Sequence[str] = (), endpoints: Sequence[str] = ()
) -> RawReading:
    """The reading of a source that did not answer."""
    return {
        "window": [window.start, window.end],
        "answered": False,
        "reason": reason,
        "classes": list(service.classes) or ["all"],
        "edges": {},
        "arms": {},
        "up": {"canary": False, "control": False},
        "ready": None,
        "restarts": 0,
        "out_of_memory": False,
        "fatal_gpu_error": False,
        "memory": None,
        "control_memory": None,
        "absent": [],
        "queries": list(queries),
        "endpoints": list(endpoints),
    }


def edges(raw: RawReading) -> dict[str, tuple[float, ...]]:
    """Upper edges by histogram, for `Gate`. Raises ValueError where nothing was counted."""
    if not raw["edges"]:
        raise ValueError(f"no histogram was found ({raw['reason'] or 'no series'}). Nothing can be compared. Check the sources, then start")
    return {name: tuple(map(float, ends)) for name, ends in sorted(raw["edges"].items())}


def classes(raw: RawReading) -> tuple[str, ...]:
    """Request classes, for `Gate`."""
    return tuple(raw["classes"])


def learnt(raw: RawReading) -> Counts:
    """What the stable version did, for `Gate.learn`."""
    found = _counts(raw, "stable")
    if found is None:
        raise ValueError(f"nothing is known of the stable version ({raw['reason'] or 'no series'}). Check the sources, then start")
    return found


def tick(raw: RawReading, *, frozen: bool = False) -> Tick:
    """What the gate takes in. Bit for bit the same for the same `raw`."""
    answers: Mapping[str, int] = raw.get("answers") or {}
    copies: Mapping[str, int] = raw.get("compared") or {}
    ready = raw["ready"]
    return Tick(
        stable=_counts(raw, "stable"),
        baseline=_counts(raw, "baseline"),
        canary=_counts(raw, "canary"),
        mirrored=_counts(raw, "mirrored"),
        answered=bool(raw["answered"]),
        canary_up=bool(raw["up"]["canary"]),
        control_up=bool(raw["up"]["control"]),
        ready=bool(raw["up"]["canary"] if ready is None else ready),
        freeze=frozen,
        restarts=raw["restarts"],
        out_of_memory=bool(raw["out_of_memory"]),
        fatal_gpu_error=bool(raw["fatal_gpu_error"]),
        memory=_known(raw["memory"]),
        control_memory=_known(raw.get("control_memory")),
        capacity=_known(raw.get("room")),
        pairs=answers.get("pairs", 0),
        mismatches=answers.get("mismatches", 0),
        invalid_answers=answers.get("invalid", 0),
        mirrored_pairs=copies.get("pairs", 0),
        mirrored_mismatches=copies.get("mismatches", 0),
        labelled=answers.get("labelled", 0),
        only_canary_right=answers.get("only_canary_right", 0),
        only_stable_right=answers.get("only_stable_right", 0),
    )


def _counts(raw: RawReading, name: str) -> Counts | None:
    arm = raw["arms"].get(name)
    if arm is None or not raw["edges"]:
        return None
    buckets = {key: np.asarray(rows, dtype=np.float64) for key, rows in sorted(arm["buckets"].items())}
    return Counts(
        buckets=buckets,
        errors=np.asarray(arm["errors"], dtype=np.float64),
        requests=np.asarray(arm["requests"], dtype=np.float64),
        queued=_known(arm.get("queued")),
        busy=_known(arm.get("busy")),
        by_replica=_by_replica(arm.get("replicas") or {}, sorted(buckets)),
        replicas=sorted(arm.get("replicas") or {}),
    )


def _by_replica(replicas: Mapping[str, Any], histograms: Sequence[str]) -> dict[str, Any] | None:
    """By histogram, pods in the order of their names; None where nobody names them."""
    if not replicas:
        return None
    return {name: np.asarray([replicas[pod][name] for pod in sorted(replicas)], dtype=np.float64) for name in histograms}


def slowest_replica(raw: RawReading) -> str:
    """Which replica of the new version has the largest share of slow requests in a tick, in words; empty where there are not several.
    Slow is beyond the first edge that at most a tenth of all requests are beyond."""
    arms: Mapping[str, Any] = raw.get("arms", {})
    found: Mapping[str, Any] = next((arms[part]["replicas"] for part in ("canary", "mirrored") if arms.get(part, {}).get("replicas")), {})
    if len(found) < 2 or not raw["edges"].get("latency"):
        return ""
    counts = {pod: np.asarray(each["latency"], dtype=np.float64).sum(axis=0) for pod, each in sorted(found.items())}
    above = {pod: np.cumsum(each[::-1])[::-1][1:] for pod, each in counts.items()}
    total, beyond = sum(each.sum() for each in counts.values()), np.sum(list(above.values()), axis=0)
    edge = int(np.argmax(np.append(beyond[:-1] <= total / 10, True)))
    share = {pod: float(above[pod][edge] / counts[pod].sum()) for pod in counts if counts[pod].sum() > 0}
    worst = max(share, key=lambda pod: share[pod])
    others = sum(counts[pod].sum() for pod in counts if pod != worst)
    rest = (beyond[edge] - above[worst][edge]) / others if others > 0 else 0.0
    at = raw["edges"]["latency"][edge]
    return f"In this tick {100 * share[worst]:.3g} % of the requests of {worst} took longer than {at:g} ms, and {100 * rest:.3g} % of its siblings'."


def _known(value: float | None) -> float:
    return float("nan") if value is None else float(value)
