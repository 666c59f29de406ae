"""What both versions did, in the units of people: rates and quantiles with their limit and the number of requests, added
up from the counts that the ledger's ticks hold. Pure, and judges nothing: a decision rests on the evidence beside it.

Figures are those of one step, because requests of another weight were other ones. Where the stable version answered
nothing in it, its figures are those of the step before, or of the time before the release.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from headway.ledger.events import Event
from headway.release.driver.event_kinds import EventKind, OperatorRequest
from headway.release.messages import reach
from headway.release.report.token_figures import TokenSums
from headway.release.report.units import share_in_words, time_in_words

_OF = {"first_token": " to the first token", "next_token": " for a further token"}
_MILLISECOND = 1e-3
"""Edges of the mesh's histogram of durations are in milliseconds, all others in seconds (`evidence/reading.py`)."""
_TAIL, _ROUGH_TAIL = 0.99, 0.90
_TAIL_REQUESTS = 500
"""Requests of each version from which on their 99th percentile says something; below, the 90th is shown."""
QUEUE_TOLERATED = 5.0
"""Multiple of the tolerated slow-down by which time in queue may grow, as the gate has it (`gate/comparison.py`)."""


@dataclass(frozen=True, kw_only=True)
class ArmSums:
    """What one arm did in some ticks. Buckets by histogram, over all request classes; seconds are None where unknown."""

    requests: float = 0.0
    errors: float = 0.0
    buckets: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    queued: float | None = None
    busy: float | None = None

    @classmethod
    def read(cls, arm: Mapping[str, Any] | None) -> "ArmSums":
        """Of one tick; nothing where the arm was not there, or its counts are not whole."""
        if not arm or "errors" not in arm:
            return cls()
        buckets = {name: tuple(float(sum(column)) for column in zip(*rows, strict=True)) for name, rows in arm["buckets"].items()}
        return cls(
            requests=float(sum(arm["requests"])),
            errors=float(sum(arm["errors"])),
            buckets=buckets,
            queued=arm.get("queued"),
            busy=arm.get("busy"),
        )

    def plus(self, other: "ArmSums") -> "ArmSums":
        names = [*self.buckets, *(name for name in other.buckets if name not in self.buckets)]
        return ArmSums(
            requests=self.requests + other.requests,
            errors=self.errors + other.errors,
            buckets={name: _added(self.buckets.get(name, ()), other.buckets.get(name, ())) for name in names},
            queued=_known_sum(self, other, self.queued, other.queued),
            busy=_known_sum(self, other, self.busy, other.busy),
        )


@dataclass(frozen=True, kw_only=True)
class ComparedAnswers:
    """Answers that were compared so far, and how many of them differed."""

    pairs: int = 0
    differ: int = 0

    def plus(self, counted: Mapping[str, Any] | None) -> "ComparedAnswers":
        if not counted:
            return self
        return ComparedAnswers(pairs=self.pairs + int(counted.get("pairs", 0)), differ=self.differ + int(counted.get("mismatches", 0)))


@dataclass(frozen=True, kw_only=True)
class ReleaseFigures:
    """All sums of one release so far. `at`: the decision that the next tick belongs to."""

    policy: Mapping[str, Any] = field(default_factory=dict[str, Any])
    at: Mapping[str, Any] = field(default_factory=dict[str, Any])
    where: str = ""
    """The step whose ticks were added up, in words; empty before the first tick that counts."""
    key: tuple[str, int] | None = None
    ticks: int = 0
    new: ArmSums = ArmSums()
    stable: ArmSums = ArmSums()
    baseline: ArmSums = ArmSums()
    before: ArmSums = ArmSums()
    """The stable version in the last step in which it answered, or before the release."""
    edges: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    golden: ComparedAnswers = ComparedAnswers()
    mirrored: ComparedAnswers = ComparedAnswers()
    memory: float | None = None
    share: tuple[float, float] | None = None
    """Share of requests that the new version answered in the newest tick, and the one that it should."""
    better: bool = False
    tokens: Mapping[str, TokenSums] = field(default_factory=dict[str, TokenSums])
    """Of a language model, in the same ticks: of `new`, `stable` and `baseline`."""

    @property
    def control(self) -> ArmSums:
        """What the new version is compared with: the baseline where it is an arm of that size, else the stable version."""
        if self.baseline.requests and 2 * self.baseline.requests >= self.new.requests:
            return self.baseline
        return self.stable

    @property
    def control_tokens(self) -> TokenSums:
        """The same arm's."""
        return self.tokens.get("baseline" if self.control is self.baseline else "stable", TokenSums())

    @property
    def remark(self) -> str:
        """Why the figures alone would mislead; empty where they do not."""
        held_back = self.key is not None and self.key[0] == "baking" and self.stable.requests > 0
        return "The stable version then had few requests and so less load, for which the gate allows." if held_back else ""


@dataclass(frozen=True, kw_only=True)
class MeasuredSignal:
    """One signal: both versions' figure, the limit of the new one's, and of how many requests or answers. Shares lie in
    0 to 1, times are seconds; infinite is what lies beyond `most`."""

    name: str
    figure: str
    """What is measured, such as `p99`."""
    unit: Literal["share", "seconds"]
    new: float
    stable: float | None = None
    """None where there is nothing to compare with."""
    limit: float | None = None
    n: int | None = None
    earlier: bool = False
    """Whether the stable version's figure is of an earlier step."""
    most: float | None = None
    """The longest time that the histogram can tell."""
    limit_is: str = "limit"

    def said(self, value: float | None) -> str:
        """A figure of this signal in words; empty for none."""
        if value is None:
            return ""
        if math.isinf(value):
            return f">{time_in_words(self.most or 0.0)}"
        return share_in_words(value) if self.unit == "share" else time_in_words(value)

    @property
    def text(self) -> str:
        """`0.98 % against 0.02 %, limit 0.20 %, n 1,240`."""
        compared = "" if self.stable is None else f" against {self.said(self.stable)}{' before' if self.earlier else ''}"
        parts = [f"{self.said(self.new)}{compared}"]
        parts += [] if self.limit is None else [f"{self.limit_is} {self.said(self.limit)}"]
        parts += [] if self.n is None else [f"n {self.n:,}"]
        return ", ".join(parts)

    def document(self) -> dict[str, Any]:
        """As JSON can hold it: null for what is infinite."""
        figures = {name: None if value is None or math.isinf(value) else value for name, value in self._figures().items()}
        return {"figure": self.figure, "unit": self.unit, **figures, "n": self.n, "earlier": self.earlier}

    def _figures(self) -> dict[str, float | None]:
        return {"new": self.new, "stable": self.stable, "limit": self.limit}


def after(figures: ReleaseFigures, event: Event) -> ReleaseFigures:
    """The figures with one more event of the ledger."""
    body = event.body
    match event.kind:
        case EventKind.STARTED:
            return ReleaseFigures(policy=body["policy"], at=body.get("first") or {})
        case EventKind.REGATED:
            return replace(figures, policy=body["policy"])
        case EventKind.LEARNED:
            raw = body["raw"]
            known = ArmSums.read((raw.get("arms") or {}).get("stable"))
            return replace(figures, before=known, edges=_edges(raw) or figures.edges)
        case EventKind.ASKED if body["wish"] == OperatorRequest.PROMOTE:
            return replace(figures, at={**figures.at, "phase": "baking", "where": "all traffic", "mirror": 0.0})
        case EventKind.OBSERVED:
            return _observed(figures, body)
        case _:
            return figures


def figures_of(events: Sequence[Event]) -> ReleaseFigures:
    """Of the newest release among the events."""
    found = ReleaseFigures()
    for event in events:
        found = after(found, event)
    return found


def signals(figures: ReleaseFigures) -> dict[str, MeasuredSignal]:
    """What was measured, by the gate's name of the signal; those of which nothing is known are left out."""
    return {each.name: each for each in (*_of_requests(figures), *_of_answers(figures))}


def nearest(figures: ReleaseFigures, decision: Mapping[str, Any]) -> str:
    """The figures of the signal that is nearest to failing, of several the one furthest from its proof, such as
    `(errors: 0.98 % against 0.02 %, ...)`; empty where none has any."""
    known = signals(figures)

    def rank(name: str) -> tuple[float, float]:
        signal = decision["signals"][name]
        proven = 1.0 if signal["proof"] is None else reach(signal["proof"], signal["proof_bound"])
        return -reach(signal["evidence"], signal["bound"]), proven

    near = sorted((name for name in decision["signals"] if name in known and name != "share"), key=rank)
    return f"({known[near[0]].name}: {known[near[0]].text})" if near else ""


def _observed(figures: ReleaseFigures, body: Mapping[str, Any]) -> ReleaseFigures:
    raw, decision = body["raw"], body["decision"]
    at, arms = figures.at, raw.get("arms") or {}
    seen = body.get("seen") or {}
    share = (float(seen["share"]), float(seen["asked"])) if seen.get("share") is not None and seen.get("asked") else None
    found = replace(
        figures,
        at=decision,
        golden=figures.golden.plus(raw.get("answers")),
        mirrored=figures.mirrored.plus(raw.get("compared")),
        memory=figures.memory if raw.get("memory") is None else float(raw["memory"]),
        share=share,
        edges=_edges(raw) or figures.edges,
        better=bool(decision.get("better")),
    )
    if not decision["counted"]:
        return found
    key = (str(at.get("phase")), int(at.get("stage", 0)))
    if key != figures.key:
        control = figures.control
        kept = control if control.requests else figures.before
        found = replace(
            found,
            key=key,
            where=str(at.get("where", "")),
            ticks=0,
            new=ArmSums(),
            stable=ArmSums(),
            baseline=ArmSums(),
            before=kept,
            tokens={},
        )
    judged = "mirrored" if at.get("mirror") else "canary"
    return replace(
        found,
        ticks=found.ticks + 1,
        new=found.new.plus(ArmSums.read(arms.get(judged))),
        stable=found.stable.plus(ArmSums.read(arms.get("stable"))),
        baseline=found.baseline.plus(ArmSums.read(arms.get("baseline"))),
        tokens=_tokens(found.tokens, raw, judged),
    )


def _tokens(before: Mapping[str, TokenSums], raw: Mapping[str, Any], judged: str) -> dict[str, TokenSums]:
    said, arms = raw.get("tokens") or {}, raw.get("arms") or {}
    parts = {"new": judged, "stable": "stable", "baseline": "baseline"}
    return {name: before.get(name, TokenSums()).plus(said.get(part), arms.get(part)) for name, part in parts.items()}


def _of_requests(figures: ReleaseFigures) -> Iterator[MeasuredSignal]:
    policy, new, control = figures.policy, figures.new, figures.control
    if not new.requests:
        return
    earlier = not control.requests
    old = figures.before if earlier else control
    usual = old.errors / old.requests if old.requests else None
    yield MeasuredSignal(
        name="errors",
        figure="failed",
        unit="share",
        new=new.errors / new.requests,
        stable=usual,
        limit=max(policy["error_ratio"] * (usual or 0.0), policy["error_floor"]),
        n=round(new.requests),
        earlier=earlier and usual is not None,
    )
    for name, edges in figures.edges.items():
        yield from _latency(figures, name, edges, old, earlier=earlier)
    if new.queued is not None:
        waited = None if old.queued is None or not old.requests else old.queued / old.requests
        limit = None if waited is None else waited * (1 + QUEUE_TOLERATED * policy["latency"]) + policy["queue_floor"]
        yield _mean("queue", "mean", new.queued / new.requests, waited, limit, figures, earlier=earlier)
    beside = figures.baseline if figures.control is figures.baseline else ArmSums()  # another size batches otherwise
    if new.busy is not None and beside.busy is not None:
        usual_cost = beside.busy / beside.requests
        yield _mean("cost", "GPU time", new.busy / new.requests, usual_cost, usual_cost * (1 + policy["cost"]), figures, earlier=False)


def _mean(
    name: str, figure: str, new: float, stable: float | None, limit: float | None, figures: ReleaseFigures, *, earlier: bool
) -> MeasuredSignal:
    return MeasuredSignal(
        name=name,
        figure=figure,
        unit="seconds",
        new=new,
        stable=stable,
        limit=limit,
        n=round(figures.new.requests),
        earlier=earlier and stable is not None,
    )


def _latency(figures: ReleaseFigures, name: str, edges: Sequence[float], old: ArmSums, *, earlier: bool) -> Iterator[MeasuredSignal]:
    policy = figures.policy
    ours, theirs = figures.new.buckets.get(name, ()), old.buckets.get(name, ())
    if not sum(ours):
        return
    enough = sum(ours) >= _TAIL_REQUESTS and (not sum(theirs) or sum(theirs) >= _TAIL_REQUESTS)
    tail = _TAIL if enough else _ROUGH_TAIL
    slower = policy["trade_latency"] if figures.better and policy.get("trade_gain") is not None else policy["latency"]
    in_seconds = tuple(edge * (_MILLISECOND if name == "latency" else 1.0) for edge in edges)
    new, usual = _quantile(in_seconds, ours, tail), _quantile(in_seconds, theirs, tail)
    assert new is not None  # noqa: S101  there are requests
    yield MeasuredSignal(
        name="latency" if len(figures.edges) == 1 else f"latency.{name}",
        figure=f"p{tail * 100:.0f}{_OF.get(name, '')}",
        unit="seconds",
        new=new,
        stable=usual,
        limit=usual * (1 + slower) if usual is not None and math.isfinite(usual) else None,
        n=round(sum(ours)),
        earlier=earlier and usual is not None,
        most=in_seconds[-1],
    )


def _of_answers(figures: ReleaseFigures) -> Iterator[MeasuredSignal]:
    policy = figures.policy
    for name, answers, limit in (
        ("correctness", figures.golden, policy.get("mismatch")),
        ("mirrored", figures.mirrored, policy.get("mirrored")),
    ):
        if answers.pairs:
            differ = answers.differ / answers.pairs
            yield MeasuredSignal(name=name, figure="differ", unit="share", new=differ, limit=limit, n=answers.pairs)
    if figures.memory is not None:
        yield MeasuredSignal(name="memory", figure="in use", unit="share", new=figures.memory, limit=policy["memory"])
    if figures.share is not None:
        seen, asked = figures.share
        yield MeasuredSignal(name="share", figure="of requests", unit="share", new=seen, limit=asked, limit_is="wanted")


def _quantile(edges: Sequence[float], buckets: Sequence[float], share: float) -> float | None:
    """Linear between edges, as PromQL's `histogram_quantile` has it; infinite beyond the last edge, None for nothing."""
    total, below, low = sum(buckets), 0.0, 0.0
    if not total:
        return None
    for edge, count in zip(edges, buckets, strict=False):
        if below + count >= share * total and count:
            return low + (edge - low) * (share * total - below) / count
        below, low = below + count, edge
    return math.inf


def _edges(raw: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    return {name: tuple(map(float, ends)) for name, ends in sorted((raw.get("edges") or {}).items())}


def _added(one: Sequence[float], other: Sequence[float]) -> tuple[float, ...]:
    if not one or not other:
        return tuple(one or other)
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _known_sum(one: ArmSums, other: ArmSums, mine: float | None, theirs: float | None) -> float | None:
    """Known only where it is known of all requests."""
    if not one.requests:
        return theirs
    if not other.requests:
        return mine
    return None if mine is None or theirs is None else mine + theirs
