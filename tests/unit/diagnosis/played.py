"""A service on Triton or vLLM as its series would show it: each measure at a level before and another since, with noise of its own."""

from collections.abc import Mapping
from random import Random
from typing import Any

from headway.diagnosis.facts import Change, ChangeKind, State, StateKind, TouchedField
from headway.diagnosis.observed import Observed
from headway.release.evidence.samples import TimedValue

STEP, STEPS, BEGAN = 60.0, 60, 40
AT = 1_700_000_000.0
ONSET = AT - (STEPS - BEGAN) * STEP

CALM: dict[str, float] = {
    "requests": 100.0,
    "latency": 0.030,
    "burn": 0.2,
    "paged": 0.0,
    "held": 0.0,
    "errors": 0.0,
    "unreached": 0.0,
    "late": 0.0,
    "left": 0.0,
    "overflow": 0.0,
    "pool_overflow": 0.0,
    "refused_there": 0.0,
    "limited": 0.0,
    "unproven": 0.0,
    "forbidden": 0.0,
    "malformed": 0.0,
    "request_size": 4_000.0,
    "attempts": 1.0,
    "repeated": 0.0,
    "neighbours": 200.0,
    "gateway_throttled": 0.0,
    "gateway_closed": 0.0,
    "gateway_overloaded": 0.0,
    "limiter": 0.001,
    "limiter_ready": 2.0,
    "mesh_authority_left": 3e7,
    "at_replica": 0.026,
    "served": 0.025,
    "queue": 0.004,
    "input": 0.001,
    "compute": 0.018,
    "output": 0.001,
    "batch_size": 4.0,
    "busy": 0.45,
    "failures": 0.0,
    "throttled": 0.0,
    "cpu": 1.0,
    "memory": 0.5,
    "replicas": 3.0,
    "of_maximum": 0.5,
    "maximum": 6.0,
    "scaler_errors": 0.0,
}
_TRITON_ALONE = ("input", "compute", "output", "batch_size", "busy", "failures")
CALM_STREAMED = {name: level for name, level in CALM.items() if name not in _TRITON_ALONE} | {
    "latency": 0.405,
    "at_replica": 0.401,
    "served": 0.400,
    "queue": 0.010,
    "prefill": 0.060,
    "decode": 0.320,
    "running": 12.0,
    "kv_cache": 0.4,
    "preemptions": 0.0,
    "prefix_hits": 0.6,
    "prompt_tokens": 400.0,
    "answer_tokens": 100.0,
}
"""The same on vLLM."""
_EXACT = {"replicas", "maximum", "limiter_ready", "of_maximum", "group_full", "paged"}
_PARTS = ("queue", "input", "compute", "output", "prefill", "decode")


def played(
    since: Mapping[str, float] | None = None,
    *,
    apart: Mapping[str, Mapping[str, tuple[float, float]]] | None = None,
    seed: int = 1,
    noise: float = 0.03,
    calm: Mapping[str, float] = CALM,
    **more: Any,
) -> Observed:
    """`since`: measures that changed. The times of the whole, and how busy the instances are, follow those of the parts. `apart`: before and
    since, by measure and label."""
    changed = dict(since or {})
    added = sum(changed.get(part, calm[part]) - calm[part] for part in _PARTS if part in calm)
    for whole in ("served", "at_replica", "latency"):
        changed.setdefault(whole, calm[whole] + added)
    if "latency" not in (since or {}) and "at_replica" in (since or {}):
        changed["latency"] = changed["at_replica"] + calm["latency"] - calm["at_replica"]
    if "compute" in calm:
        level = {**calm, **changed}
        changed.setdefault("busy", level["requests"] / level["batch_size"] * level["compute"])

    def random(*of: str) -> Random:
        """Of one series, whatever others there are."""
        return Random(f"{seed} {' '.join(of)}")

    series: dict[str, dict[str, tuple[TimedValue, ...]]] = {}
    for name, level in calm.items():
        series[name] = {"": _line(random(name), level, changed.get(name, level), 0.0 if name in _EXACT else noise)}
    for name, labels in (apart or {}).items():
        series[name] = {label: _line(random(name, label), *levels, 0.0 if name in _EXACT else noise) for label, levels in labels.items()}
    return Observed(tenant="vision", model="defects", at=AT, step=STEP, series=series, **more)


def _line(random: Random, before: float, since: float, noise: float) -> tuple[TimedValue, ...]:
    return tuple(
        (AT - (STEPS - step) * STEP, max(0.0, (before if step <= BEGAN else since) * (1 + noise * random.gauss(0, 1))))
        for step in range(1, STEPS + 1)
    )


def says(kind: StateKind, words: str = "so it says", subject: str = "defects-r0123456789-5b6bb57495-tj4tz") -> State:
    return State(kind=kind, subject=subject, words=words, since=ONSET)


def release(seconds_before: float) -> Change:
    words = "release r0123456789 began to replace r9876543210"
    return Change(kind=ChangeKind.RELEASE, time=ONSET - seconds_before, who="ci", words=words, release="r0123456789")


def hand(kind: ChangeKind, seconds_before: float) -> Change:
    return Change(kind=kind, time=ONSET - seconds_before, who="kubectl-edit", words="it was written")


def wrote(path: str, old: str, new: str, *, kind: ChangeKind = ChangeKind.RELEASE, before: float = 60.0) -> Change:
    """A change of which it is known what it wrote."""
    named = "r0123456789" if kind in (ChangeKind.RELEASE, ChangeKind.CANDIDATE) else ""
    touched = (TouchedField(path=path, old=old, new=new),)
    return Change(kind=kind, time=ONSET - before, who="ci", words=f"a {kind.value}", release=named, touched=touched)
