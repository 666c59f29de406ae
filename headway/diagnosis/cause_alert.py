"""A diagnosis as an alert of its own, which says why another one fires. Pure.

Alertmanager has the secrets of every receiver, knows whose an alert is, groups, repeats and tries again; so a cause goes to people as an
alert, to the receiver of the contract and to the platform's, and who diagnoses needs no secret and no address of theirs. What has one cause
in one place has the same labels `cause` and `place`, by which its route groups (`components/observability/routes.py`): a storm is one
message, which lists what it explains, and a tenant's has its own services alone.

It ends with what it explains, or by itself where nobody is left to end it (`episode.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from headway.diagnosis.asking import UNSAID
from headway.diagnosis.episode import LASTS_SECONDS, PAGE, FoundCauses, KnownCause, moment
from headway.diagnosis.figures import clock
from headway.diagnosis.hypotheses.gateway import SHARED
from headway.diagnosis.hypothesis import CauseLayer
from headway.diagnosis.objects import long_ago
from headway.diagnosis.observed import BEFORE_SECONDS
from headway.diagnosis.reasoning import COMMITS, Diagnosis, DiagnosisVerdict, Doubt
from headway.diagnosis.wording import next_steps, summary
from headway.problem import printable
from headway.timestamp import rfc3339
from headway.wire import CAUSE_ALERT, CAUSE_SEVERITY, CAUSE_URGENCY, TRAIL

MOST_CHARACTERS = 3000
"""Of a description: a section of a Slack message takes as many (Slack, "Block Kit: section")."""
_MOST_DOUBTS = 6
_OF_NODES = (CauseLayer.GPU, CauseLayer.NODE)


@dataclass(frozen=True, kw_only=True)
class MessagePlaces:
    """What a message names and leads to. `runbooks` and `grafana` are addresses; without one its link is left out."""

    environment: str
    runbooks: str | None = None
    grafana: str | None = None


def alerts_of(found: Sequence[Diagnosis], receiver: str, places: MessagePlaces, urgency: str = PAGE) -> FoundCauses:
    """One service's diagnoses as alerts, in the form of Alertmanager's API. `receiver`: the contract's; `urgency`: of what they explain."""
    causes = [each for each in found if each.verdict is DiagnosisVerdict.CAUSE]
    stale = [each for each in causes if each.over or (urgency == PAGE and long_ago(each.onset, each.at))]
    new = [each for each in causes if each not in stale]
    undecided = [each for each in found[:1] if each not in causes]

    def alerts(those: Sequence[Diagnosis]) -> tuple[KnownCause, ...]:
        return tuple(_alert(each, receiver, places, urgency) for each in those)

    return FoundCauses(fresh=alerts(new or undecided), stale=alerts(stale))


def place_of(this: Diagnosis) -> str:
    """Where its cause is: the node for what is one's own, the pool for what its scheduling says, the gateway for what all share there, else the
    service. Of two services with the same cause in one place, one thing is broken."""
    if this.cause in SHARED:
        return "gateway"
    if this.verdict is DiagnosisVerdict.CAUSE and this.layer is CauseLayer.SCHEDULER:
        return next((f"pool {each.pool}" for each in reversed(this.links) if each.pool), this.chain)
    if this.verdict is not DiagnosisVerdict.CAUSE or this.layer not in _OF_NODES:
        return this.chain
    where, node = next(((each.where, each.node) for each in reversed(this.links) if each.node), ("", ""))
    # A pod that no node has taken stands for its own node.
    placed = node and (node != where or not where.startswith(f"{this.model}-"))
    return node if placed else this.chain


def _alert(this: Diagnosis, receiver: str, places: MessagePlaces, urgency: str) -> KnownCause:
    labels = {
        "alertname": CAUSE_ALERT,
        "severity": CAUSE_SEVERITY,
        "namespace": this.tenant,
        "model": this.model,
        "receiver": receiver,
        "cause": this.cause or this.verdict.value,
        "place": place_of(this),
        CAUSE_URGENCY: urgency,
        **({"layer": this.layer.value} if this.layer else {}),
    }
    links = {
        **({"runbook_url": f"{places.runbooks}/{this.runbook}.md"} if places.runbooks and this.runbook else {}),
        **({"dashboard_url": f"{places.grafana}/d/headway-overview", "logs_url": _trail(this, places.grafana)} if places.grafana else {}),
    }
    return {
        "labels": labels,
        "annotations": {"summary": summary(this), "description": description(this, places.environment), **links},
        "startsAt": moment(this.at),
        "endsAt": moment(this.at + LASTS_SECONDS[urgency]),
    }


def _trail(this: Diagnosis, grafana: str) -> str:
    """Its requests, logs and causes from before it began until now (Grafana, "Dashboard URL variables": times in milliseconds)."""
    began = this.onset if this.onset is not None else this.at - BEFORE_SECONDS
    times = {"from": round((began - BEFORE_SECONDS) * 1000), "to": round(this.at * 1000)}
    return f"{grafana}/d/{TRAIL}?{urlencode({'var-tenant': this.tenant, 'var-model': this.model, **times})}"


def description(this: Diagnosis, environment: str) -> str:
    """The figures that prove it, what was ruled out, what could be, what was not seen, how it is kept for the post-mortem, and what to run
    next; the last is always there."""
    steps = [f"Next: {step}" for step in next_steps(this, environment)] or [f"Next: headway diagnose {this.chain} -e {environment}"]
    hurts = this.verdict in (DiagnosisVerdict.CAUSE, DiagnosisVerdict.UNKNOWN)
    keeps = [f"Keep it: headway incident capture {this.chain} -e {environment} --at {rfc3339(this.at)} --out incident"] if hurts else []
    end = "\n".join(printable(step) for step in (*keeps, *steps[:3]))
    return "\n".join([*_within(map(printable, _proof(this)), MOST_CHARACTERS - len(end) - 1), end])[:MOST_CHARACTERS]


def _proof(this: Diagnosis) -> Iterator[str]:
    if this.onset is not None:
        yield f"Since {clock(this.onset, this.at)}."
    for link in this.links:
        share = f" ({link.share:.0%} of it)" if link.share is not None else ""
        yield f"{link.says}{share}: {'; '.join(link.evidence)}"
    yield from _doubts("Ruled out", this.ruled_out)
    yield from _doubts("Could also be", this.could_be)
    # Who sends messages has no checkout.
    yield from (f"Not seen: {each.what}, because {each.why}" for each in this.blind if each.what != COMMITS)


def _doubts(head: str, doubts: Sequence[Doubt]) -> Iterator[str]:
    """Those first that figures speak of."""
    measured = [each for each in doubts if not each.said.startswith(UNSAID)]
    shown = measured[:_MOST_DOUBTS]
    yield from (f"{head}: {each.says} ({each.said})" for each in shown)
    if more := len(doubts) - len(shown):
        yield f"{head}: {more} more" if shown else f"{head}: {more} that nothing speaks for"


def _within(lines: Iterator[str], characters: int) -> Iterator[str]:
    """As many whole lines as there is room for."""
    for line in lines:
        characters -= len(line) + 1
        if characters < 2:
            yield "…"
            return
        yield line
