"""From what each of the mesh's counters rose by to counts by arm, class and bucket. Pure.

Copies and users' requests share every label but one, and requests that never reached a replica are counted elsewhere. Where enough answers
are streams of tokens, versions are compared by what their tokens take, and not by how long whole answers do, which depends on how much they
say.
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
LATENCY = "latency"
STREAMED_SHARE = 0.2
"""Of the stable version's answers, that must have a time of tokens before versions are compared by it: whatever else it answers, the same
engine does, at the same time."""
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
    replicas: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict[str, Mapping[str, Floats]])
    """The same by pod. Of the new version only, whose harm more than one of them must show."""


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


@dataclass(frozen=True)
class _Histogram:
    """One histogram of all parts: (classes, buckets, ticks)."""

    edges: tuple[float, ...]
    by_part: Mapping[str, Floats]
    by_pod: Mapping[str, Mapping[str, Floats]]
    """By part and pod."""


def mesh_counts(
    service: JudgedService,
    arms: ArmNames,
    requests: Risen,
    durations: Risen,
    lost: Risen,
    streams: Mapping[str, Risen] | None = None,
    broken: Risen = (),
) -> Counted:
    """`requests`, `durations`, by histogram `streams`, and `broken` ones as the replicas' proxies counted them, `lost` as the callers' did.
    Raises UnreadableError for histograms that cannot be compared."""
    parts = {"stable": arms.stable, "baseline": arms.baseline, "canary": arms.canary, "mirrored": arms.canary}
    names = {part: name for part, name in parts.items() if name}
    ticks = next((len(risen) for _, risen in (*requests, *durations, *lost)), 1)
    places = {name: place for place, name in enumerate(service.classes)}
    classes = max(len(places), 1)
    unclassified = np.zeros(ticks)

    def place_of(labels: Mapping[str, str]) -> int | None:
        return places.get(labels.get(queries.CLASS, "")) if places else 0

    counted = {part: (np.zeros((classes, ticks)), np.zeros((classes, ticks))) for part in names}
    for labels, risen in requests:
        part, place = _part(names, labels), place_of(labels)
        if part == "stable" and place is None:
            unclassified = unclassified + risen
        if part is None or place is None:
            continue
        counted[part][0][place] += risen
        if _failed(labels):
            counted[part][1][place] += risen
    for labels, risen in _of_arms(names, broken):
        part, place = _part(names, labels), place_of(labels)
        if part is not None and place is not None:
            # It is among the requests, with the status that came before.
            counted[part][1][place] += risen
    for labels, risen in lost:
        part = next((one for one, name in names.items() if name == labels.get(queries.SERVICE)), None)
        place = place_of(labels)
        if part is not None and place is not None:
            # It never got an answer, so the replica's proxy may not have counted it.
            counted[part][0][place] += risen
            counted[part][1][place] += risen

    def histogram(name: str, series: Risen, unit: float) -> _Histogram | None:
        """From cumulative counts; `unit`: what makes its edges those of the gate. None where nobody shows any."""
        edges = _edges(service, name, series, unit)
        cumulative: dict[tuple[str, str], list[dict[float, Floats]]] = {}
        for labels, risen in series:
            part, place = _part(names, labels), place_of(labels)
            if part is None or place is None:
                continue
            pods = [labels[queries.POD]] if part in _TOLD_APART and labels.get(queries.POD) else []
            for pod in ("", *pods):
                of = cumulative.setdefault((part, pod), [dict.fromkeys((*edges, math.inf), np.zeros(ticks)) for _ in range(classes)])
                edge = float(labels["le"]) * unit
                of[place][edge] = of[place].get(edge, np.zeros(ticks)) + risen
        if not edges:
            return None
        found = {key: np.stack([per_bucket(of_class, edges) for of_class in of]) for key, of in sorted(cumulative.items())}
        nothing = np.zeros((classes, len(edges) + 1, ticks))
        by_pod: dict[str, dict[str, Floats]] = {part: {} for part in names}
        for (part, pod), counts in found.items():
            if pod:
                by_pod[part][pod] = counts
        return _Histogram(edges, {part: found.get((part, ""), nothing) for part in names}, by_pod)

    shown = {LATENCY: histogram(LATENCY, durations, 1.0)}
    for name, series in (streams or {}).items():
        shown[name] = histogram(name, _of_arms(names, series), queries.STREAMS[name][1])
    known = {name: found for name, found in shown.items() if found is not None}
    judged = {name: known[name] for name in _judged(service, known, counted.get("stable")) if name in known}

    def of_replicas(part: str) -> dict[str, Mapping[str, Floats]]:
        pods = sorted({pod for each in judged.values() for pod in each.by_pod[part]})
        nothing = {name: np.zeros((classes, len(each.edges) + 1, ticks)) for name, each in judged.items()}
        return {pod: {name: each.by_pod[part].get(pod, nothing[name]) for name, each in judged.items()} for pod in pods}

    by_part = {part: _Arm(*counted[part], {name: each.by_part[part] for name, each in judged.items()}, of_replicas(part)) for part in names}
    told = any(queries.MIRRORED in labels for labels, _ in requests)
    absent = set() if judged else {queries.DURATIONS}
    return Counted({name: each.edges for name, each in judged.items()}, by_part, names, unclassified, told, absent)


def _judged(service: JudgedService, known: Mapping[str, _Histogram], stable: tuple[Floats, Floats] | None) -> tuple[str, ...]:
    """The histograms that versions are compared by: those that the release began with, which it needs all; else times of tokens where enough
    of the stable version's answers have them, and whole answers where not."""
    if service.edges:
        return tuple(sorted(service.edges)) if set(service.edges) <= set(known) else ()
    answered = float(stable[0].sum()) if stable else 0.0
    often = [name for name in queries.STREAMS if name in known and known[name].by_part["stable"].sum() >= STREAMED_SHARE * answered > 0]
    return tuple(often) if queries.FIRST in often else (LATENCY,)


def _of_arms(names: Mapping[str, str], series: Risen) -> Risen:
    """The same with the workload among the labels, which the proxy of a pod does not tell of itself."""
    arms = {name: queries.compiled_pods_of(name) for name in names.values()}
    found = (
        (next((arm for arm, pods in arms.items() if pods.fullmatch(labels.get(queries.POD, ""))), None), labels, risen)
        for labels, risen in series
    )
    return [({**labels, queries.WORKLOAD: arm}, risen) for arm, labels, risen in found if arm is not None]


def _part(names: Mapping[str, str], labels: Mapping[str, str]) -> str | None:
    """Which arm a series belongs to; None for copies to an arm that should get none."""
    workload, copied = labels.get(queries.WORKLOAD), labels.get(queries.MIRRORED) == "true"
    if copied:
        return "mirrored" if workload == names.get("canary") else None
    return next((part for part, name in names.items() if name == workload), None)


def _failed(labels: Mapping[str, str]) -> bool:
    code, status = labels.get(queries.CODE, ""), labels.get(queries.GRPC_CODE, "")
    cut = set(labels.get(queries.FLAGS, "").split(",")) & set(queries.CUT)
    return code.startswith(_SERVER_ERRORS) or status not in _NOT_THE_SERVERS or bool(cut)


def _edges(service: JudgedService, name: str, series: Risen, unit: float) -> tuple[float, ...]:
    """Edges that every class of every pod of every arm shows; empty where nobody shows any. Raises UnreadableError where they differ."""
    sets: dict[tuple[str, ...], set[float]] = {}
    for labels, _ in series:
        try:
            edge = float(labels["le"]) * unit
        except (KeyError, ValueError):
            raise UnreadableError(f"{labels.get('__name__', name)} has no number in le: {dict(labels)}") from None
        whose = tuple(labels.get(label, "") for label in (queries.WORKLOAD, queries.POD, "instance"))
        sets.setdefault(whose, set()).add(edge)
    wanted = {*map(float, service.edges.get(name, ()))}
    shapes = sorted(
        {tuple(sorted(found - {math.inf})) for found in sets.values()} | ({tuple(sorted(wanted))} if wanted and sets else set())
    )
    if len(shapes) > 1:
        differing = sorted(set(shapes[0]) ^ set(shapes[-1]))
        where = ", ".join(f"{edge:g}" for edge in differing[:5])
        of = "ms" if name == LATENCY else "s"
        raise UnreadableError(f"arms have histograms with different edges (at {where} {of}, for instance): they cannot be compared")
    return shapes[0] if shapes else ()


def _of_replicas(replicas: Mapping[str, Mapping[str, Floats]], place: int) -> dict[str, Any]:
    """Buckets of one tick by pod that answered in it, as `Raw` has them; nothing where nobody names pods."""
    answered = {pod: of for pod, of in replicas.items() if any(counts[..., place].any() for counts in of.values())}
    shown = {pod: {name: [_plain(row[:, place]) for row in counts] for name, counts in sorted(of.items())} for pod, of in answered.items()}
    return {"replicas": shown} if shown else {}


def _plain(values: Floats) -> list[float | int]:
    """Whole numbers as such: shorter in the ledger, and the same."""
    return [int(value) if float(value).is_integer() else float(value) for value in values]
