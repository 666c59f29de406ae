"""A diagnosis as data: what `headway diagnose --output json` prints, an incident keeps and a release's report shows, and its JSON Schema
(`headway schema diagnosis`). Pure.

Descriptions of the schema are the docstrings of the fields.
"""

from collections.abc import Sequence
from typing import Any

from headway.contract.part import Part
from headway.diagnosis.hypothesis import CauseLayer, Symptom
from headway.diagnosis.reasoning import Diagnosis, DiagnosisVerdict, Doubt
from headway.diagnosis.wording import next_steps, summary
from headway.timestamp import rfc3339

RUNBOOKS = "docs/runbooks"


class LinkRecord(Part):
    """One step of the chain from what users feel to the cause."""

    name: str
    """Of the symptom or the hypothesis."""
    says: str
    """What it says, for people."""
    evidence: tuple[str, ...]
    """The comparisons that show it, for people."""
    share: float | None
    """Of the harm, 0 to 1, that it accounts for; null where that is no number."""
    where: str | None
    """The pod or GPU that it is about; null for the whole service."""
    node: str | None
    """Under that pod or GPU."""


class PhaseRecord(Part):
    """A part of the mean time of an answer; all of them add up to the whole."""

    name: str
    """Of the part, for people."""
    before_seconds: float
    """Before it began. Below zero by noise alone."""
    since_seconds: float
    """Since it began."""


class DoubtRecord(Part):
    """A hypothesis that was looked at and is not in the chain."""

    name: str
    """Of the hypothesis."""
    says: str
    """What it would say, for people."""
    evidence: str
    """The figures by which it was ruled out, or could also be."""


class UnseenRecord(Part):
    """Something that could not be read."""

    what: str
    """Which source."""
    why: str
    """What went wrong, for people."""


class DiagnosisRecord(Part):
    """What one symptom of a service comes from."""

    service: str
    """As `tenant/model`."""
    at: str
    """The moment that was looked at (RFC 3339, UTC)."""
    verdict: DiagnosisVerdict
    """Whether a cause was found, is unknown, nothing is wrong, or too little was seen to say so."""
    summary: str
    """In one line what hurts, and why."""
    symptom: Symptom | None
    """What hurts; null where nothing does, or nobody can say."""
    also: tuple[Symptom, ...]
    """Other symptoms of the same cause."""
    since: str | None
    """When it began (RFC 3339, UTC); null where that was before the time looked at."""
    over: bool
    """Whether what hurt is well again."""
    cause: str | None
    """The hypothesis at the end of the chain; null where the verdict is no cause."""
    layer: CauseLayer | None
    """The failure layer of the deepest link."""
    chain: tuple[LinkRecord, ...]
    """From the symptom to the deepest that holds."""
    phases: tuple[PhaseRecord, ...]
    """Where the mean time of an answer goes; empty unless answers take longer."""
    ruled_out: tuple[DoubtRecord, ...]
    """What does not explain it, and by which figures."""
    could_be: tuple[DoubtRecord, ...]
    """What nobody could rule out."""
    unseen: tuple[UnseenRecord, ...]
    """What could not be read, so that it is left undecided."""
    runbook: str | None
    """The page to go on with, as a path of the repository."""
    commands: tuple[str, ...]
    """What to run next, the first one first."""


class DiagnosesRecord(Part):
    """What `headway diagnose --output json` prints."""

    environment: str
    """In which the services are."""
    diagnoses: tuple[DiagnosisRecord, ...]
    """Of each service at least one, by the services' names; of one service the symptom first that people care for most."""


def of_one(this: Diagnosis, environment: str) -> dict[str, Any]:
    """One diagnosis as `DiagnosisRecord` has it, in plain JSON types."""
    record = DiagnosisRecord(
        service=this.chain,
        at=rfc3339(this.at),
        verdict=this.verdict,
        summary=summary(this),
        symptom=this.symptom,
        also=this.also,
        since=rfc3339(this.onset) if this.onset is not None else None,
        over=this.over,
        cause=this.cause or None,
        layer=this.layer,
        chain=tuple(
            LinkRecord(name=e.name, says=e.says, evidence=e.evidence, share=e.share, where=e.where or None, node=e.node or None)
            for e in this.links
        ),
        phases=tuple(PhaseRecord(name=e.name, before_seconds=e.before, since_seconds=e.since) for e in this.phases),
        ruled_out=tuple(map(_doubt, this.ruled_out)),
        could_be=tuple(map(_doubt, this.could_be)),
        unseen=tuple(UnseenRecord(what=e.what, why=e.why) for e in this.blind),
        runbook=f"{RUNBOOKS}/{this.runbook}.md" if this.runbook else None,
        commands=tuple(next_steps(this, environment)),
    )
    return record.model_dump(mode="json")


def document(found: Sequence[Diagnosis], environment: str) -> dict[str, Any]:
    """All of them as `DiagnosesRecord` has it, in plain JSON types."""
    return {"environment": environment, "diagnoses": [of_one(each, environment) for each in found]}


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of `document`."""
    made = DiagnosesRecord.model_json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": "Headway diagnosis"}


def _doubt(this: Doubt) -> DoubtRecord:
    return DoubtRecord(name=this.name, says=this.says, evidence=this.said)
