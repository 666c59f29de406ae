"""What a change of a contract changes: field by field, with its effect and whether a new release is needed, and the sums that move.

Owns the list of sections that make a release. The trap: a section that enters a pod and is not in RELEASED would restart replicas of a
release that everyone believes immutable.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from headway.contract.arithmetic.cost import cost
from headway.contract.arithmetic.fit import fit
from headway.contract.arithmetic.quota import demand, pods_charged
from headway.contract.arithmetic.startup import startup
from headway.contract.model import Model
from headway.contract.tenant import Tenant
from headway.problem import FieldPath, dotted

RELEASED = ("artifact", "batching", "envelope", "health", "optimisation", "placement", "runtime", "workload_class")
"""Sections of a model contract that decide what runs: a change in one of them is a new release, which must prove itself."""

_EFFECTS: tuple[tuple[FieldPath, str], ...] = (
    # The longest path that matches says the effect.
    (("name",), "another model: the old one goes with everything that is its own, and callers ask for the new name"),
    (("contract",), "read by another version of the vocabulary"),
    (("description",), "labels and lists"),
    (("owner",), "labels, alerts and release records"),
    (("workload_class",), "priority, spreading or packing, and the pool"),
    (("runtime",), "the server and its configuration"),
    (("runtime", "image"), "another server image: start-up, memory and speed may all differ"),
    (
        ("runtime", "adapters"),
        "released with the service, whose gate does not tell adapters apart; by itself only in a contract of its own",
    ),
    (("runtime", "minimum_driver"), "the pools that can run it"),
    (("artifact",), "the files that are served"),
    (("artifact", "registry"), "the release record"),
    (("envelope",), "what each replica requests"),
    (("envelope", "gpu"), "the GPUs each replica holds, its pool, quota and cost"),
    (("envelope", "largest_request"), "the largest request: gateway limits, warmup, memory"),
    (("batching",), "latency against throughput: the tail may move either way"),
    (("optimisation",), "how it computes: speed, memory and answers"),
    (("health",), "probes, warmup, golden requests and draining"),
    (("slo",), "recording rules, burn-rate alerts and dashboards; the error budget is reckoned anew"),
    (("scaling",), "how many replicas run; the autoscaler takes it up within a minute"),
    (("scaling", "capacity"), "cost and capacity figures, no replica"),
    (("scaling", "token_capacity"), "cost and capacity figures, no replica"),
    (("scaling", "warm_replicas"), "places kept free on running nodes, which are paid for"),
    (("placement",), "where replicas run"),
    (("rollout",), "the plan and the tolerances of the next release"),
    (("routing",), "how the gateway chooses a replica, whichever release answers"),
    (("degradation",), "what the mesh does under overload, at once"),
    (("data",), "what logs keep, from now on"),
    (("observability",), "who is told and how much is traced"),
    (("evaluation",), "what the serving version is asked from now on, and what follows from wrong answers; evidence begins anew"),
    (("drift",), "which numbers of users' requests and answers are watched; what is usual is learned anew"),
    (("batch",), "the queue and its workers on spot"),
    (("pipeline",), "over how many nodes a replica would be divided, their memory, quota and cost; nothing is deployed from it"),
    (("prefill",), "which replicas would read prompts, their memory, quota and cost; nothing is deployed from it"),
    (("quota",), "the namespace's quota and the gateway's limits, at once"),
    (("quota", "monthly_budget"), "the budget alarm"),
    (("priority",), "which pods yield when GPUs are short"),
    (("runtimes",), "which runtimes are admitted"),
    (("issuers",), "whose callers are let in, at once"),
    (("people",), "who may release and who may look"),
)


@dataclass(frozen=True)
class FieldChange:
    """One field; `old` or `new` is None where it was added or removed."""

    path: FieldPath
    old: Any
    new: Any
    effect: str
    release: bool
    """Whether it takes effect only with a new release."""

    @property
    def dotted(self) -> str:
        return dotted(self.path)


@dataclass(frozen=True)
class Moved:
    """A sum that a change moves, as text."""

    what: str
    old: str
    new: str


@dataclass(frozen=True)
class Difference:
    """Changes sorted by path."""

    changes: tuple[FieldChange, ...]
    moved: tuple[Moved, ...]

    @property
    def release(self) -> bool:
        """Whether a new release is needed."""
        return any(change.release for change in self.changes)


def difference(old: Model | Tenant, new: Model | Tenant) -> Difference:
    """From `old` to `new`, both of one kind; raises TypeError otherwise."""
    if type(old) is not type(new):
        raise TypeError("a tenant and a model have nothing to compare")
    before, after = old.model_dump(mode="json", exclude_none=True), new.model_dump(mode="json", exclude_none=True)
    changes = tuple(
        FieldChange(path, was, now, effect(path), release=isinstance(new, Model) and path[0] in RELEASED)
        for path, was, now in sorted(_changed((), before, after), key=lambda change: [(isinstance(p, str), str(p)) for p in change[0]])
    )
    moved = tuple(_moved(old, new)) if isinstance(old, Model) and isinstance(new, Model) else ()
    return Difference(changes, moved)


def effect(path: FieldPath) -> str:
    """What a change at `path` changes, in words."""
    fitting = [(len(prefix), effect) for prefix, effect in _EFFECTS if path[: len(prefix)] == prefix]
    return max(fitting)[1]


def written_differently(old: Any, new: Any) -> Iterator[tuple[FieldPath, Any, Any]]:
    """Of two documents as they stand in files, whether they are contracts or not: path, old and new value of each field that differs."""
    return _changed((), old, new)


_NAMED_BY = ("name", "path", "signal", "issuer")
"""Fields by which entries of lists are recognised, so that an insertion does not change everything after it."""


def _changed(path: FieldPath, old: Any, new: Any) -> Iterator[tuple[FieldPath, Any, Any]]:
    if isinstance(old, list) and isinstance(new, list):
        before, after = _keyed(cast(list[Any], old)), _keyed(cast(list[Any], new))
        if before is not None and after is not None:
            old, new = before, after
    if isinstance(old, dict) and isinstance(new, dict):
        was, now = cast(dict[str, Any], old), cast(dict[str, Any], new)
        for key in sorted({*was, *now}, key=str):  # a file that is no contract has other keys than text, too
            if was.get(key) != now.get(key):
                yield from _changed((*path, str(key)), was.get(key), now.get(key))
    elif old != new:
        yield path, old, new


def _keyed(entries: list[Any]) -> dict[str, Any] | None:
    """The entries by name, where every one has a name of its own."""
    for field in _NAMED_BY:
        names = [cast(Mapping[str, Any], entry).get(field) if isinstance(entry, dict) else None for entry in entries]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return {str(name): entry for name, entry in zip(names, entries, strict=True)}
    return None


def _moved(old: Model, new: Model) -> Iterator[Moved]:
    """Sums before and after, where they differ."""
    sums = (_sums(old), _sums(new))
    for what in sums[0]:
        if sums[0][what] != sums[1].get(what):
            yield Moved(what, sums[0][what], sums[1].get(what, "none"))
    for what in sums[1]:
        if what not in sums[0]:
            yield Moved(what, "none", sums[1][what])


def _sums(model: Model) -> dict[str, str]:
    money, start, memory = cost(model), startup(model), fit(model)
    charged = {
        f"quota: {'.'.join(path)}": amount * pods_charged(model)
        for path, amount in demand(model).items()
        if path[0] in ("gpus", "mig", "shared")
    }
    return {
        "GPU memory needed": memory.needed.brief,
        **({"longest requests at once": str(memory.sequences)} if memory.sequences is not None else {}),
        "pod start to ready": start.pod.brief,
        "cost of 1,000 requests": money.thousand_requests.brief,
        **({"cost of 1,000,000 tokens": money.million_tokens.brief} if money.million_tokens is not None else {}),
        "cost a month, at most, on the cheapest instance type": money.month_at_most.brief,
        **{what: str(amount) for what, amount in sorted(charged.items())},
    }
