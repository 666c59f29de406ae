"""From what is known to one causal chain: symptom, mechanism, cause; what was ruled out and by what, and what else could be. Pure.

From a symptom one goes down the graph of hypotheses: of those that explain where one stands and hold, the one that accounts for the most of
it, an earlier one of the table where several do. It ends at the deepest that holds. What is not a root is no cause: nobody knows why then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from headway.contract.runtime import Engine
from headway.diagnosis.asking import Answer
from headway.diagnosis.facts import Blindness, Facts
from headway.diagnosis.hypotheses import HYPOTHESES
from headway.diagnosis.hypothesis import CauseLayer, Hypothesis, Symptom
from headway.diagnosis.measures import PHASES, STREAMED_PHASES
from headway.diagnosis.observed import Observed, facts
from headway.diagnosis.repeating import beginnings
from headway.diagnosis.symptoms import Seen, seen


class DiagnosisVerdict(StrEnum):
    CAUSE = "cause"
    UNKNOWN = "unknown"
    """Something hurts, and no cause of the table holds."""
    NOTHING = "nothing-is-wrong"
    BLIND = "blind"
    """Too little was seen to say that nothing is wrong."""


@dataclass(frozen=True, kw_only=True)
class ChainLink:
    """One step of the chain. `share`: of the harm, 0 to 1, that it accounts for; None where that is no number."""

    name: str
    says: str
    evidence: tuple[str, ...]
    share: float | None = None
    where: str = ""
    node: str = ""
    """Under `where`, which is a pod or a GPU; or that itself."""
    pool: str = ""
    """Of nodes, that `where` waits for."""


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """A hypothesis that was looked at and is not in the chain, and the figures by which."""

    name: str
    says: str
    said: str


@dataclass(frozen=True, kw_only=True)
class LatencyPhase:
    """A part of an answer's mean time, in seconds; all of them add up to the whole."""

    name: str
    before: float
    since: float


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What one symptom of a service comes from. Times in Unix seconds."""

    tenant: str
    model: str
    at: float
    verdict: DiagnosisVerdict
    symptom: Symptom | None = None
    also: tuple[Symptom, ...] = ()
    """Other symptoms of the same cause."""
    onset: float | None = None
    over: bool = False
    """Whether what hurt is well again."""
    links: tuple[ChainLink, ...] = ()
    """From the symptom to the deepest that holds."""
    cause: str = ""
    layer: CauseLayer | None = None
    phases: tuple[LatencyPhase, ...] = ()
    ruled_out: tuple[Doubt, ...] = ()
    could_be: tuple[Doubt, ...] = ()
    blind: tuple[Blindness, ...] = ()
    runbook: str = ""
    commands: tuple[str, ...] = ()

    @property
    def chain(self) -> str:
        return f"{self.tenant}/{self.model}"


@dataclass(frozen=True)
class _Tried:
    """How a hypothesis fared: the answers of what it predicts, and of what would exclude it."""

    hypothesis: Hypothesis
    answers: tuple[Answer, ...]
    against: tuple[Answer, ...]

    @property
    def holds(self) -> bool | None:
        if any(each.holds is False for each in self.answers) or any(each.holds for each in self.against):
            return False
        return None if any(each.holds is None for each in self.answers) else True

    @property
    def share(self) -> float | None:
        return next((each.share for each in self.answers if each.share is not None), None)

    @property
    def where(self) -> str:
        return next((each.where for each in self.answers if each.where), "")

    @property
    def doubt(self) -> Doubt:
        decisive = next((each for each in self.against if each.holds), None) or next(
            (each for each in self.answers if not each.holds), self.answers[0]
        )
        return Doubt(name=self.hypothesis.name, says=self.hypothesis.says, said=decisive.said)

    def link(self, hosts: Mapping[str, str]) -> ChainLink:
        held = tuple(each.said for each in self.answers if each.holds)
        node = hosts.get(self.where, self.where)
        pool = next((each.pool for each in self.answers if each.pool), "")
        return ChainLink(
            name=self.hypothesis.name, says=self.hypothesis.says, evidence=held, share=self.share, where=self.where, node=node, pool=pool
        )


def diagnoses(observed: Observed, hypotheses: Sequence[Hypothesis] = HYPOTHESES) -> tuple[Diagnosis, ...]:
    """One for each cause, the symptom first that people care for most, of those that are not over where there are any; exactly one where nothing
    is wrong, or nobody could see."""
    found: dict[str, Diagnosis] = {}
    hurts = tuple(seen(observed))
    began = beginnings(observed) if hurts else {}
    for each in hurts:
        this = _of_symptom(observed, each, hypotheses, began)
        key = this.cause or f"?{each.symptom}"
        known = found.get(key)
        if known is None:
            found[key] = this
        elif known.over and not this.over:
            found[key] = replace(this, also=tuple(s for s in (known.symptom, *known.also) if s not in (None, this.symptom)))
        elif each.symptom not in (known.symptom, *known.also):
            found[key] = replace(known, also=(*known.also, each.symptom))
    return tuple(sorted(found.values(), key=lambda each: (each.over, not each.cause and each.symptom is Symptom.BROKEN))) or (
        _of_none(observed),
    )


def _of_symptom(observed: Observed, this: Seen, hypotheses: Sequence[Hypothesis], began: Mapping[str, float]) -> Diagnosis:
    known = replace(facts(observed.measured_until(this.felt), this.onset, this.calm), began=began, states=this.states)
    engine = _engine(known)
    tried = {each.name: _try(each, known) for each in hypotheses if engine is None or each.engine in (None, engine)}
    path = _path(str(this.symptom), tried, frozenset({str(this.symptom)}))
    steps = [str(this.symptom), *(each.hypothesis.name for each in path)]
    beside = [
        each for each in tried.values() if each.hypothesis.name not in steps and any(step in each.hypothesis.explains for step in steps)
    ]
    links = [ChainLink(name=this.symptom, says=this.says, evidence=(this.said,)), *(each.link(known.hosts) for each in path)]
    deepest = path[-1].hypothesis if path else None
    named = deepest is not None and deepest.root
    return Diagnosis(
        tenant=observed.tenant,
        model=observed.model,
        at=observed.at,
        verdict=DiagnosisVerdict.CAUSE if named else DiagnosisVerdict.UNKNOWN,
        symptom=this.symptom,
        onset=this.onset,
        over=this.over,
        links=tuple(links),
        cause=deepest.name if deepest is not None and named else "",
        layer=deepest.layer if deepest is not None else None,
        phases=phases(known) if this.symptom is Symptom.SLOW else (),
        ruled_out=tuple(each.doubt for each in beside if each.holds is False),
        could_be=tuple(each.doubt for each in beside if each.holds is not False),
        blind=observed.blind,
        runbook=next((each.hypothesis.runbook for each in reversed(path) if each.hypothesis.runbook), ""),
        commands=tuple(deepest.commands) if deepest is not None else (),
    )


def _engine(known: Facts) -> Engine | None:
    """By whose series there are; None where neither is measured."""
    return Engine.VLLM if known.of("prefill") else Engine.TRITON if known.of("compute") else None


def _path(here: str, tried: Mapping[str, _Tried], been: frozenset[str]) -> tuple[_Tried, ...]:
    """From `here` down to the deepest that holds. Of several: what accounts for the most, then what ends in a root, then the earlier one."""
    best: tuple[_Tried, ...] = ()
    rank = (-1.0, False)
    for name, each in tried.items():
        if here not in each.hypothesis.explains or name in been or not each.holds:
            continue
        path = (each, *_path(name, tried, been | {name}))
        this = (each.share or 0.0, path[-1].hypothesis.root)
        if this > rank:
            best, rank = path, this
    return best


def _of_none(observed: Observed) -> Diagnosis:
    """Nothing hurts, as far as one can see: whether anybody was heard, and the API server answered."""
    sees = not any(each.what in _NEEDED for each in observed.blind)
    return Diagnosis(
        tenant=observed.tenant,
        model=observed.model,
        at=observed.at,
        verdict=DiagnosisVerdict.NOTHING if sees else DiagnosisVerdict.BLIND,
        blind=observed.blind,
    )


METRICS, CLUSTER, REQUESTS, COMMITS = "metrics", "the cluster", "requests", "commits"
_NEEDED = (METRICS, CLUSTER, REQUESTS)
"""Without these nobody can say that nothing is wrong."""


def phases(known: Facts) -> tuple[LatencyPhase, ...]:
    """Where the mean time of an answer went, before and since; empty where the gateway or the servers were not measured. The phases add up
    to the whole: what no part accounts for is a part of its own."""
    whole, proxy, served = known.of("latency"), known.of("at_replica"), known.of("served")
    if whole is None or served is None:
        return ()
    inner = proxy or served
    parts = STREAMED_PHASES if _engine(known) is Engine.VLLM else PHASES
    inside = {name: found for name in parts if (found := known.of(name)) is not None}
    found = [LatencyPhase(name="way", before=whole.before - inner.before, since=whole.since - inner.since)]
    if proxy is not None:
        found.append(LatencyPhase(name="proxy", before=proxy.before - served.before, since=proxy.since - served.since))
    found += [LatencyPhase(name=name, before=each.before, since=each.since) for name, each in inside.items()]
    rest = served.before - sum(each.before for each in inside.values()), served.since - sum(each.since for each in inside.values())
    return (*found, LatencyPhase(name="server besides", before=rest[0], since=rest[1]))


def _try(hypothesis: Hypothesis, known: Facts) -> _Tried:
    return _Tried(hypothesis, tuple(test(known) for test in hypothesis.predicts), tuple(test(known) for test in hypothesis.excludes))
