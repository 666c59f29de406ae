"""What the gate is told each tick: counts by arm, class and histogram bucket, and how far they can be trusted.

The trap: buckets are counts of this tick and of this bucket alone, neither cumulative over time nor over edges as Prometheus has them.
Every array may have a leading axis of rollouts. Not-a-number means "no such sample", which is not zero.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What one arm answered in one tick."""

    buckets: ArrayLike | Mapping[str, ArrayLike]
    """Requests by class and bucket, shape (..., classes, edges + 1); the last bucket is above the last edge. A mapping where the gate
    was given several histograms."""
    errors: ArrayLike
    """Failed requests by class, shape (..., classes)."""
    requests: ArrayLike | None = None
    """All requests by class; left out, the sum of the (first) histogram's buckets."""
    queued: ArrayLike = float("nan")
    """Seconds that all requests together waited in the server's queue, shape (...); not-a-number: nobody measures it."""
    busy: ArrayLike = float("nan")
    """GPU seconds that the arm's GPUs were busy, shape (...); not-a-number: nobody measures it."""
    by_replica: ArrayLike | Mapping[str, ArrayLike] | None = None
    """The same buckets of each replica, shape (..., replicas, classes, edges + 1), zeros for one that answered nothing; as many in a tick
    as there are. None: nobody tells replicas apart, which proves no more than one replica does."""
    replicas: Sequence[str] = ()
    """Their names, in that order, of all rollouts. Without names a place is the same replica in every tick."""


@dataclass(frozen=True, kw_only=True)
class Tick:
    """One tick of a rollout, or of each of many. Arms that do not exist are None; flags are one for all, or one a rollout."""

    stable: Counts | None = None
    baseline: Counts | None = None
    canary: Counts | None = None
    """Users' requests that the canary answered."""
    mirrored: Counts | None = None
    """Copies that the canary answered."""
    answered: ArrayLike = True
    """Whether every query succeeded, without warnings and in full."""
    canary_up: ArrayLike = True
    """Whether the canary's pods were scraped (`up == 1`, samples fresh)."""
    control_up: ArrayLike = True
    """Whether the stable version's pods were scraped."""
    ready: ArrayLike = True
    """Whether the canary's pods are Ready; the grace ticks begin with the first that is."""
    freeze: ArrayLike = False
    """Whether a person holds the weight. Evidence goes on and a failure still rolls back."""
    restarts: ArrayLike = 0
    """Container restarts of the canary in this tick."""
    out_of_memory: ArrayLike = False
    """Whether a container of the canary was killed for memory."""
    fatal_gpu_error: ArrayLike = False
    """Whether a GPU of the canary reported an error after which it must be reset."""
    memory: ArrayLike = float("nan")
    """Largest share of GPU memory in use over the canary's GPUs; not-a-number where unknown."""
    control_memory: ArrayLike = float("nan")
    """The same of the control's: the baseline where there is one, else the stable version."""
    capacity: ArrayLike = float("nan")
    """GPU seconds of a tick that the canary will have at the next weight; not-a-number where unknown."""
    pairs: ArrayLike = 0
    """Golden answers of the canary that were compared with the expected ones."""
    mismatches: ArrayLike = 0
    """Of those, how many differed."""
    invalid_answers: ArrayLike = 0
    """Of those, how many were empty, not numbers or against the schema; `Malformed` says how many fail."""
    mirrored_pairs: ArrayLike = 0
    """Answers to copies that were compared with what the user got for the same request; for a policy with `mirrored`."""
    mirrored_mismatches: ArrayLike = 0
    """Of those, how many differed."""
    labelled: ArrayLike = 0
    """Labelled requests that both versions answered in this tick, each asked once in a rollout; for a policy with a trade."""
    only_canary_right: ArrayLike = 0
    only_stable_right: ArrayLike = 0
    """Of those, how many only one of the two answered right."""


@dataclass(frozen=True)
class ArmCounts:
    """An arm's counts with rollouts on the last axis, where numpy walks fastest."""

    requests: Floats
    """(classes, rollouts)"""
    errors: Floats
    """(classes, rollouts)"""
    buckets: dict[str, Floats]
    """By histogram: (classes, buckets, rollouts)"""
    missing: Bools
    """(rollouts,): some sample is not a number; its counts read as zero."""
    queued: Floats
    """(rollouts,), seconds; not-a-number where unknown."""
    busy: Floats
    """(rollouts,), GPU seconds; not-a-number where unknown."""
    by_replica: Mapping[str, Floats] = field(default_factory=dict[str, Floats])
    """By histogram: (replicas, classes, buckets, rollouts); empty where nobody tells replicas apart."""
    named: tuple[int, ...] = ()
    """A number for the name of each, in that order; empty where they have none."""

    def total(self) -> Floats:
        return over_classes(self.requests)

    def total_errors(self) -> Floats:
        return over_classes(self.errors)

    def where(self, chosen: Bools, other: "ArmCounts") -> "ArmCounts":
        """This arm for the chosen rollouts, and `other` for the rest."""
        return ArmCounts(
            np.where(chosen, self.requests, other.requests),
            np.where(chosen, self.errors, other.errors),
            {name: np.where(chosen, self.buckets[name], other.buckets[name]) for name in self.buckets},
            np.where(chosen, self.missing, other.missing),
            np.where(chosen, self.queued, other.queued),
            np.where(chosen, self.busy, other.busy),
            {
                name: _either(chosen, self.by_replica.get(name), other.by_replica.get(name))
                for name in {**self.by_replica, **other.by_replica}
            },
            self.named if chosen.all() else other.named if not chosen.any() else (),
        )

    def replicas(self) -> Ints:
        """How many answered; none where nobody tells them apart."""
        for buckets in self.by_replica.values():
            return np.logical_or.reduce(buckets > 0, axis=(1, 2)).sum(axis=0)
        return np.zeros(len(self.missing), dtype=np.int64)

    def plus(self, other: "ArmCounts") -> "ArmCounts":
        """What both arms counted together, replicas not told apart."""
        return ArmCounts(
            self.requests + other.requests,
            self.errors + other.errors,
            {name: self.buckets[name] + other.buckets[name] for name in self.buckets},
            self.missing | other.missing,
            self.queued + other.queued,
            self.busy + other.busy,
        )

    def only(self, chosen: Bools) -> "ArmCounts":
        """The counts of the chosen rollouts, and zero for the rest; replicas not told apart."""
        return ArmCounts(
            np.where(chosen, self.requests, 0.0),
            np.where(chosen, self.errors, 0.0),
            {name: np.where(chosen, buckets, 0.0) for name, buckets in self.buckets.items()},
            self.missing,
            self.queued,
            self.busy,
        )


def over_classes(values: Floats) -> Floats:
    """Sum over the first axis, in its order, so that a rollout in a batch has the very bits it has alone."""
    total = values[0].copy()
    for row in values[1:]:
        total += row
    return total


def within(values: Floats, low: Floats | float, high: Floats | float) -> Floats:
    """`np.clip`, which takes several times as long for the few numbers of one rollout."""
    return np.minimum(np.maximum(values, low), high)


def read_arm(counts: Counts | None, histograms: Mapping[str, int], classes: int, rollouts: int, where: str) -> ArmCounts:
    """`counts` with rollouts on the last axis; an arm that is None is all zero. Raises ValueError naming `where` for a wrong shape or a negative number."""
    if counts is None:
        empty = {name: np.zeros((classes, buckets, rollouts)) for name, buckets in histograms.items()}
        nothing = np.zeros((classes, rollouts))
        return ArmCounts(nothing, nothing.copy(), empty, np.zeros(rollouts, dtype=bool), np.zeros(rollouts), np.zeros(rollouts))
    given: Mapping[str, Any] = counts.buckets if isinstance(counts.buckets, Mapping) else {next(iter(histograms)): counts.buckets}
    if set(given) != set(histograms):
        raise ValueError(f"{where}.buckets has {sorted(given)}. The gate compares {sorted(histograms)}. Give each histogram once")
    missing = np.zeros(rollouts, dtype=bool)
    buckets: dict[str, Floats] = {}
    for name, size in histograms.items():
        buckets[name], gap = _read(given[name], (classes, size), rollouts, f"{where}.buckets[{name}]")
        missing |= gap
    errors, gap = _read(counts.errors, (classes,), rollouts, f"{where}.errors")
    missing |= gap
    if counts.requests is None:
        first = next(iter(buckets.values()))
        requests = np.stack([over_classes(first[kind]) for kind in range(classes)])
    else:
        requests, gap = _read(counts.requests, (classes,), rollouts, f"{where}.requests")
        missing |= gap
    for values in (requests, errors, *buckets.values()):
        values[..., missing] = 0.0
    queued, busy = read_number(counts.queued, rollouts), read_number(counts.busy, rollouts)
    by_replica, gap = _read_replicas(counts, histograms, classes, rollouts, f"{where}.by_replica")
    missing |= gap
    for values in by_replica.values():
        values[..., missing] = 0.0
    named = tuple(zlib.crc32(name.encode()) for name in counts.replicas)
    return ArmCounts(requests, np.minimum(errors, requests), buckets, missing, queued, busy, by_replica, named)


def _either(chosen: Bools, one: Floats | None, other: Floats | None) -> Floats:
    """By replica, of one arm for the chosen rollouts, and of the other for the rest; an arm whose replicas nobody tells apart has none."""
    known = [each for each in (one, other) if each is not None]
    replicas = max(len(each) for each in known)
    wide = [np.zeros((replicas, *known[0].shape[1:])) for _ in range(2)]
    for filled, each in zip(wide, (one, other), strict=True):
        if each is not None:
            filled[: len(each)] = each
    return np.where(chosen, *wide)


def _read_replicas(
    counts: Counts, histograms: Mapping[str, int], classes: int, rollouts: int, where: str
) -> tuple[dict[str, Floats], Bools]:
    """By histogram, (replicas, classes, buckets, rollouts)."""
    missing, value = np.zeros(rollouts, dtype=bool), counts.by_replica
    if value is None:
        return {}, missing
    given: Mapping[str, Any] = value if isinstance(value, Mapping) else {next(iter(histograms)): value}
    if set(given) != set(histograms):
        raise ValueError(f"{where} has {sorted(given)}. The gate compares {sorted(histograms)}. Give each histogram once")
    read: dict[str, Floats] = {}
    for name, size in histograms.items():
        array = np.asarray(given[name], dtype=np.float64)
        replicas = array.shape[-3] if array.ndim >= 3 else 0
        read[name], gap = _read(array, (replicas, classes, size), rollouts, f"{where}[{name}]")
        missing |= gap
        if counts.replicas and replicas != len(counts.replicas):
            raise ValueError(f"{where}[{name}] has {replicas} replicas, and {len(counts.replicas)} names. Give each its name, or none")
    return read, missing


def read_flag(value: ArrayLike, rollouts: int) -> Bools:
    """One flag a rollout. Raises ValueError for not-a-number, which is neither true nor false."""
    numbers = read_number(value, rollouts)
    if np.isnan(numbers).any():
        raise ValueError("a flag of the tick is not-a-number. It is neither true nor false. Say answered=False where nothing is known")
    return numbers != 0


def read_number(value: ArrayLike, rollouts: int) -> Floats:
    """One number a rollout. Raises ValueError for another shape."""
    array = np.asarray(value, dtype=np.float64)
    if array.shape not in ((), (rollouts,)):
        raise ValueError(f"a flag of the tick has shape {array.shape}. Rollouts cannot be told apart. Give one value, or {rollouts}")
    return np.ascontiguousarray(np.broadcast_to(array, (rollouts,)))


def read_count(value: ArrayLike, rollouts: int) -> Floats:
    """How many of something; not-a-number is none that is known. Raises ValueError for fewer than none."""
    number = read_number(value, rollouts)
    if (number < 0).any():
        raise ValueError("a count of the tick is negative. Nothing can happen less than never. Give what happened in this tick")
    return np.where(np.isnan(number), 0.0, number)


def _read(value: ArrayLike, shape: tuple[int, ...], rollouts: int, where: str) -> tuple[Floats, Bools]:
    array = np.asarray(value, dtype=np.float64)
    if array.shape not in (shape, (rollouts, *shape)) or (array.shape == shape and rollouts != 1):
        wanted = shape if rollouts == 1 else (rollouts, *shape)
        raise ValueError(f"{where} has shape {array.shape}. Counts of one arm cannot be told apart. Give {wanted}")
    turned = np.ascontiguousarray(np.moveaxis(array.reshape((rollouts, *shape)), 0, -1))
    if turned is array or np.shares_memory(turned, array):
        turned = turned.copy()
    if np.isinf(turned).any():
        raise ValueError(f"{where} has infinite counts. They cannot be compared. Give not-a-number where there is no sample")
    if (turned < 0).any():
        raise ValueError(f"{where} has negative counts. Nothing can happen less than never. Read counter resets as increases from zero")
    gap: Bools = np.logical_or.reduce(np.isnan(turned).reshape(-1, rollouts), axis=0)
    return turned, gap
