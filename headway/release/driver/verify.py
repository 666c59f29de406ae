"""Whether the decisions in a chain are what its raw counters give. Pure: every decision is made again, and compared bit for bit."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from headway.release.driver.judge import Judge, Reading, gate_version
from headway.release.driver.kinds import Kind
from headway.release.ledger.events import Event, canonical


def recomputed(events: Sequence[Event], reading: Reading) -> tuple[str, ...]:
    """Every decision that its counts do not support, as a sentence; empty when all do. Releases of another gate are left out."""
    return tuple(_contradictions(events, reading))


def foreign(events: Sequence[Event]) -> tuple[str, ...]:
    """Releases that another gate decided than the one that is here, which therefore cannot be decided again."""
    return tuple(
        f"release {event.body['release']} (event {event.number}) was decided by gate {event.body['gate']}, and this one is {gate_version()}"
        for event in events
        if event.kind == Kind.STARTED and event.body["gate"] != gate_version()
    )


def _contradictions(events: Sequence[Event], reading: Reading) -> Iterator[str]:
    judge: Judge | None = None
    for event in events:
        if event.kind == Kind.STARTED:
            judge = Judge(event.body, reading) if event.body["gate"] == gate_version() else None
            continue
        decision = judge.follow(event) if judge else None
        if decision is None or canonical(decision) == canonical(event.body["decision"]):
            continue
        what, recorded, found = _first_difference(event.body["decision"], decision)
        yield f"event {event.number} records {what} {recorded}, and its counts give {found}"


def _first_difference(recorded: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[str, Any, Any]:
    """The path to the first value that differs, and both."""
    name = next((name for name in found if found[name] != recorded.get(name)), next(iter(found)))
    inner, other = found[name], recorded.get(name)
    if isinstance(inner, dict) and isinstance(other, dict):
        path, was, now = _first_difference(cast(dict[str, Any], other), cast(dict[str, Any], inner))
        return f"{name}.{path}", was, now
    return name, other, inner
