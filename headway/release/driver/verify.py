"""Whether the decisions in a chain are what its raw counters give. Pure: every decision is made again, and compared bit
for bit.

Only the gate that decided can decide again, and those of earlier versions are kept. What a gate decided that Headway has
not is counted and named, and never called proven.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from headway.ledger.events import Event, canonical
from headway.problem import ODD
from headway.release.driver.event_kinds import EventKind
from headway.release.driver.judge import CounterReader, RolloutJudge, gate_version
from headway.release.earlier_gates import KEPT


@dataclass(frozen=True)
class Recomputed:
    """What came of deciding a whole chain again."""

    decided: int
    """Decisions made again."""
    flaws: tuple[str, ...]
    """Those that their counts do not support, a sentence each."""
    foreign: tuple[str, ...]
    """What another gate decided, a sentence for each release: neither proven nor refuted."""
    undecided: int
    """How many decisions that are."""


def recomputed(events: Sequence[Event], reading: CounterReader) -> Recomputed:
    """Make every decision of a sound chain again."""
    judge: RolloutJudge | None = None
    decided, flaws, others, begun, gate = 0, list[str](), dict[tuple[int, str], int](), 0, ""
    for place, event in enumerate(events):
        if event.kind == EventKind.STARTED:
            begun = place
        if event.kind in (EventKind.STARTED, EventKind.REGATED):
            gate = event.body["gate"]
            judge = RolloutJudge.of(events[begun : place + 1], reading)
            continue
        try:
            decision = judge.follow(event) if judge else None
        except ODD:
            flaws.append(
                f"event {event.number} ({event.kind}) holds no counts that its gate could have read; what follows was not made again"
            )
            judge = None
            continue
        if event.kind != EventKind.OBSERVED:
            continue
        if decision is None:
            others[(begun, gate)] = others.get((begun, gate), 0) + 1
            continue
        decided += 1
        recorded, again = event.body["decision"], decision
        if gate not in (gate_version(), *KEPT):
            # An earlier gate with the same figures may have said the same in other words.
            recorded, again = _without_sentence(recorded), _without_sentence(again)
        if canonical(again) != canonical(recorded):
            what, recorded, found = _first_difference(recorded, again)
            flaws.append(f"event {event.number} records {what} {recorded}, and its counts give {found}")
    foreign = tuple(
        f"{count} decisions on release {events[at].body['release']} (event {events[at].number}) were made by gate {by}, which this "
        "Headway does not have, so they were read and not made again"
        for (at, by), count in others.items()
    )
    return Recomputed(decided, tuple(flaws), foreign, sum(others.values()))


def _without_sentence(decision: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in decision.items() if name != "sentence"}


def _first_difference(recorded: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[str, Any, Any]:
    """The path to the first value that differs, and both."""
    name = next((name for name in found if found[name] != recorded.get(name)), next(iter(found)))
    inner, other = found[name], recorded.get(name)
    if isinstance(inner, dict) and isinstance(other, dict):
        path, was, now = _first_difference(cast(dict[str, Any], other), cast(dict[str, Any], inner))
        return f"{name}.{path}", was, now
    return name, other, inner
