"""Whether a release was carried out here: the ledger's last one ended in a promotion, and its decisions follow from its
counts. The judgement is pure.

Driving one takes as long as its evidence, and `headway release start` does it; this asks what came of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.ledger.events import Event
from headway.problem import Problem
from headway.release.driver.event_kinds import EventKind
from headway.release.driver.judge import CounterReader
from headway.release.driver.verify import recomputed
from headway.verify.outcome import Sighting
from headway.verify.site import Site

RULE = "release"


@dataclass(frozen=True, kw_only=True)
class EndedRelease:
    """The last release of a service that ended, as its ledger has it."""

    service: str
    release: str
    status: str
    time: str
    decided: int
    flaws: tuple[str, ...] = ()
    undecided: int = 0


def ended_releases(project: Path, environment: str, only: str | None = None) -> tuple[EndedRelease, ...]:
    """Of each service of the environment, or of one. Raises UserError where the ledger cannot be read."""
    from headway.release.evidence import reading
    from headway.release.service_place import place, places

    here = (place(only, environment, project),) if only else places(project, environment)
    found = (last_ended(each.chain, each.ledger().read(), reading) for each in here)
    return tuple(each for each in found if each is not None)


def last_ended(service: str, events: Sequence[Event], reading: CounterReader) -> EndedRelease | None:
    """The last release of a chain that ended; None where none did."""
    started = ended = None
    for event in events:
        if event.kind == EventKind.STARTED:
            started = event
        elif event.kind == EventKind.ENDED:
            ended = (started, event)
    if ended is None:
        return None
    first, last = ended
    again = recomputed(events, reading)
    return EndedRelease(
        service=service,
        release=str(first.body["release"]) if first else "",
        status=str(last.body["outcome"]),
        time=last.time,
        decided=again.decided,
        flaws=again.flaws,
        undecided=again.undecided,
    )


def look(site: Site) -> Sighting:
    """Judge the last ended release of each service of the environment."""
    if site.ended_releases is None:
        return Sighting()
    return judge(site.ended_releases())


def judge(releases: tuple[EndedRelease, ...]) -> Sighting:
    """At least one service was released by evidence, and no decision of its chain is unsupported."""
    problems = [
        Problem(
            rule=RULE,
            subject=each.service,
            fact=f"{each.service}: {flaw}",
            consequence="The ledger does not prove why this release has its traffic",
            remedy=f"`headway release verify {each.service}` shows it; docs/runbooks/release-ledger.md",
        )
        for each in releases
        for flaw in each.flaws
    ]
    promoted = [each for each in releases if each.status == "promoted" and each.decided]
    evidence = tuple(
        f"{each.service}: release {each.release} was promoted at {each.time} by {each.decided} decisions, each made again from its counts."
        for each in promoted
        if not each.flaws
    )
    foreign = tuple(
        f"{each.undecided} decisions on {each.service} were made by another gate, and were not made again."
        for each in releases
        if each.undecided
    )
    if not evidence and not problems and not foreign:
        return Sighting(unanswered=("No release was promoted by evidence in this environment; start one: `headway release start`.",))
    return Sighting(evidence=evidence, problems=tuple(problems), unanswered=foreign if not evidence else ())
