"""Whether the decisions in a chain are what its raw counters give. Pure: every decision is made again, and compared bit for bit."""

from collections.abc import Iterator, Sequence

from headway.release.driver.judge import Judge, Reading
from headway.release.driver.kinds import Kind
from headway.release.ledger.events import Event, canonical


def recomputed(events: Sequence[Event], reading: Reading) -> tuple[str, ...]:
    """Every decision that its counts do not support, as a sentence; empty when all do."""
    return tuple(_contradictions(events, reading))


def _contradictions(events: Sequence[Event], reading: Reading) -> Iterator[str]:
    judge: Judge | None = None
    for event in events:
        if event.kind == Kind.STARTED:
            judge = Judge(event.body, reading)
            continue
        decision = judge.follow(event) if judge else None
        if decision is None or canonical(decision) == canonical(event.body["decision"]):
            continue
        recorded = event.body["decision"]
        differing = next((name for name in decision if decision[name] != recorded.get(name)), "signals")
        yield f"event {event.number} records {differing} {recorded.get(differing)}, and its counts give {decision[differing]}"
