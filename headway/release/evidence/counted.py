"""From what each of the mesh's counters rose by to counts by arm, class and bucket. Pure.

Copies and users' requests share every label but one, and requests that never reached a replica are counted elsewhere.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headway.release.evidence import queries
from headway.release.evidence.reading import ArmNames, JudgedService
from headway.release.evidence.samples import Floats, UnreadableError, per_bucket

Risen = Sequence[tuple[Mapping[str, str], Floats]]
"""Labels of each series, and its rise by tick."""

_SERVER_ERRORS = "5"
_TOLD_APART = ("canary", "mirrored")
"""Parts whose pods are kept one by one."""
_NOT_THE_SERVERS = ("", "0", "1")
"""gRPC statuses that are no failure: none, OK, cancelled by the client."""


@dataclass(frozen=True)
class _Arm:
    """Of one arm, all with ticks on the last axis."""

    requests: Floats
    """(classes, ticks)"""
    errors: Floats
    buckets: dict[str, Floats]
    """By histogram: (classes, buckets, ticks)"""
    replicas: Mapping[str, Floats] = field(default_factory=dict[str, Floats])
    """Latency by pod: (classes, buckets, ticks). Of the new version only, whose harm more than one of them must show."""


@dataclass(frozen=True)
class Counted:
    """The mesh's part of some readings."""

    edges: Mapping[str, tuple[float, ...]]
    by_part: Mapping[str, _Arm]
    """By stable, baseline, canary, mirrored."""
    names: Mapping[str, str]
    """Name of the arm's Service by part."""
    unclassified: Floats
    """Requests of the stable arm of no class, by tick."""
    tells_copies: bool
    absent: set[str] = field(default_factory=set[str])

    def total(self, name: str, place: int) -> float:
        """Requests of all classes that the arm of that name answered in a tick, copies included."""
        return float(sum(arm.requests[:, place].sum() for part, arm in self.by_part.items() if self.names[part] == name))

    def arms(self, place: int, of_servers: Mapping[str, Mapping[str, float | None]]) -> dict[str, Any]:
        """The arms of one tick, as `Raw` has them. Of what servers know, each part has its share by number of requests."""
        by_part: dict[str, Any] = {}
        for part, arm in self.by_part.items():
            mine, total = arm.requests[:, place].sum(), self.total(self.names[part], place)
            share = float(mine / total) if total > 0 else 0.0
            known = of_servers.get(self.names[part], {})
            by_part[part] = {
                "requests": _plain(arm.requests[:, place]),
                "errors": _plain(np.minimum(arm.errors[:, place], arm.requests[:, place])),
                "buckets": {name: [_plain(row[:, place]) for row in rows] for name, rows in sorted(arm.buckets.items())},
                **_of_replicas(arm.replicas, place),
                **{key: None if (value := known.get(key)) is None else value * share for key in ("queued", "busy", "available")},
            }
        if "stable" in by_part:
            by_part["stable"]["unclassified"] = float(self.unclassified[place])
            by_part["stable"]["tells_copies"] = self.tells_copies
        return by_part


def mesh_counts(service: JudgedService, arms: ArmNames, requests: Risen, durations: Risen, lost: Risen) -> Counted:
    """`requests` and `durations` as the replicas' proxies counted them, `lost` as the callers' did. Raises UnreadableError for histograms
    that cannot be compared."""
    parts = {"stable": arms.stable, "baseline": arms.baseline, "canary": arms.canary, "mirrored": arms.canary}
    names = {part: name for part, name in parts.items() if name}
    ticks = next((len(risen) for _, risen in (*requests, *durations, *lost)), 1)
    edges = _edges(service, durations)
    places = {name: place for place, name in enumerate(service.classes)}
    classes = max(len(places), 1)
    unclassified = np.zeros(ticks)

    def place_of(labels: Mapping[str, str]) -> int | None:
        return places.get(labels.get(queries.CLASS, "")) if places else 0

    counted = {part: (np.zeros((classes, ticks)), np.zeros((classes, ticks))) for part in names}

    def nothing() -> list[dict[float, Floats]]:
        return [{edge: np.zeros(ticks) for edge in (*edges, math.inf)} for _ in range(classes)]

    cumulative = {part: nothing() for part in names}
    by_pod: dict[str, dict[str, list[dict[float, Floats]]]] = {part: {} for part in names}
    for labels, risen in requests:
        part, place = _part(names, labels), place_of(labels)
        if part == "stable" and place is None:
            unclassified = unclassified + risen
        if part is None or place is None:
            continue
        counted[part][0][place] += risen
        if _failed(labels):
            counted[part][1][place] += risen
    for labels, risen in lost:
        part = next((one for one, name in names.items() if name == labels.get(queries.SERVICE)), None)
        place = place_of(labels)
        if part is not None and place is not None:
            # It never got an answer, so the replica's proxy may not have counted it.
            counted[part][0][place] += risen
            counted[part][1][place] += risen
    for labels, risen in durations:
        part, place = _part(names, labels), place_of(labels)
        if part is not None and place is not None:
            cumulative[part][place][float(labels["le"])] += risen
            if part in _TOLD_APART and labels.get(queries.POD):
                by_pod[part].setdefault(labels[queries.POD], nothing())[place][float(labels["le"])] += risen

    def latency(of: Sequence[Mapping[float, Floats]]) -> Floats:
        return np.stack([per_bucket(of_class, edges) for of_class in of])

    by_part = {
        part: _Arm(
            *counted[part],
            {"latency": latency(cumulative[part])} if edges else {},
            {pod: latency(of) for pod, of in sorted(by_pod[part].items())},
        )
        for part in names
    }
    told = any(queries.MIRRORED in labels for labels, _ in requests)
    absent = set() if edges else {queries.DURATIONS}
    return Counted({"latency": edges} if edges else {}, by_part, names, unclassified, told, absent)


def _part(names: Mapping[str, str], labels: Mapping[str, str]) -> str | None:
    """Which arm a series belongs to; None for copies to an arm that should get none."""
    workload, copied = labels.get(queries.WORKLOAD), labels.get(queries.MIRRORED) == "true"
    if copied:
        return "mirrored" if workload == names.get("canary") else None
    return next((part for part, name in names.items() if name == workload), None)


def _failed(labels: Mapping[str, str]) -> bool:
    code, status = labels.get(queries.CODE, ""), labels.get(queries.GRPC_CODE, "")
    return code.startswith(_SERVER_ERRORS) or status not in _NOT_THE_SERVERS


def _edges(service: JudgedService, durations: Risen) -> tuple[float, ...]:
    """Edges that every class of every pod of every arm shows; empty where nobody shows any. Raises UnreadableError where they differ."""
    sets: dict[tuple[str, ...], set[float]] = {}
    for labels, _ in durations:
        try:
            edge = float(labels["le"])
        except (KeyError, ValueError):
            raise UnreadableError(f"{queries.DURATIONS} has no number in le: {dict(labels)}") from None
        whose = tuple(labels.get(name, "") for name in (queries.WORKLOAD, queries.POD, "instance"))
        sets.setdefault(whose, set()).add(edge)
    wanted = {*map(float, service.edges.get("latency", ()))}
    shapes = sorted(
        {tuple(sorted(found - {math.inf})) for found in sets.values()} | ({tuple(sorted(wanted))} if wanted and sets else set())
    )
    if len(shapes) > 1:
        differing = sorted(set(shapes[0]) ^ set(shapes[-1]))
        where = ", ".join(f"{edge:g}" for edge in differing[:5])
        raise UnreadableError(f"arms have histograms with different edges (at {where} ms, for instance): they cannot be compared")
    return shapes[0] if shapes else ()


def _of_replicas(replicas: Mapping[str, Floats], place: int) -> dict[str, Any]:
    """Buckets of one tick by pod that answered in it, as `Raw` has them; nothing where nobody names pods."""
    answered = {pod: counts[..., place] for pod, counts in replicas.items() if counts[..., place].any()}
    return {"replicas": {pod: {"latency": [_plain(row) for row in rows]} for pod, rows in answered.items()}} if answered else {}


def _plain(values: Floats) -> list[float | int]:
    """Whole numbers as such: shorter in the ledger, and the same."""
    return [int(value) if float(value).is_integer() else float(value) for value in values]
