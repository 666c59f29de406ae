"""One self-contained page about an incident or a diagnosis: the chain, the measures with the onset marked, where the time went, changes, logs.
No script and nothing from elsewhere; every text of somebody else is escaped. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from math import isfinite

from headway.contract.secret_names import masked
from headway.diagnosis.figures import shown
from headway.diagnosis.measure import FigureUnit
from headway.diagnosis.measures import MEASURES
from headway.diagnosis.observed import Observed, facts
from headway.diagnosis.reasoning import Diagnosis, DiagnosisVerdict, LatencyPhase
from headway.diagnosis.wording import BLIND, NOTHING, cause_named, cause_words, next_steps, why_unknown
from headway.release.evidence.samples import TimedValue
from headway.release.report.style import STYLE

_PLOTTED = ("latency", "errors", "requests", "at_replica", "served", "queue", "compute", "prefill", "decode", "limited", "burn", "memory")
_OTHER = 1.2
"""How many times as much is another level."""
_WIDTH, _TALL, _LEFT = 680, 120, 104
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_MORE = (
    ".bar{display:flex;height:22px;background:var(--wash)}.bar i{border-right:1px solid var(--paper);background:var(--users)}"
    ".bar i:nth-child(even){background:var(--copies)}pre{overflow-x:auto;background:var(--wash);padding:8px;font-size:12px}"
    ".bar i.most{background:var(--against)}polyline.copies{stroke:var(--copies)}main>h1{margin-top:56px}"
    "@media(max-width:600px){svg text{font-size:18px}}"
)


def html(observed: Observed, found: Sequence[Diagnosis], environment: str, lines: Sequence[str]) -> str:
    """Of an incident, with what containers printed."""
    service = f"{observed.tenant}/{observed.model}"
    logs = f"<pre>{_text(chr(10).join(lines))}</pre>" if lines else "<p>None were captured.</p>"
    body = [
        _head("Incident", f"{environment} · {service}", found, observed.at),
        *_service(observed, found, environment),
        "<h2>Logs</h2>",
        logs,
    ]
    return _page(f"{service}: incident", body)


def diagnosis_html(looked: Sequence[tuple[Observed, Sequence[Diagnosis]]], environment: str, at: float) -> str:
    """Of every service that was looked at, at a moment in Unix seconds; one that is alone is shown although nothing is wrong with it."""
    found = [each for _, diagnoses in looked for each in diagnoses]
    body = [_head("Diagnosis", environment, found, at)]
    calm = list[str]()
    for observed, diagnoses in looked:
        service = f"{observed.tenant}/{observed.model}"
        if len(looked) > 1 and all(each.verdict is DiagnosisVerdict.NOTHING for each in diagnoses):
            calm.append(service)
            continue
        body += [f"<h1>{_text(service)}</h1>", *_service(observed, diagnoses, environment)]
    if calm:
        body.append(f"<h2>{_sentence(NOTHING)}</h2><p>{_text(', '.join(calm))}</p>")
    return _page(f"{environment}: diagnosis", body if looked else [*body, "<p>The environment has no model service.</p>"])


def _changed(observed: Observed, name: str, onsets: Sequence[float]) -> bool:
    """Whether it is another since one of the onsets, so that it is drawn before those that are as they were."""
    found = [facts(observed, onset).of(name) for onset in onsets]
    return any(each.rose(_OTHER) or each.fell(_OTHER) for each in found if each is not None)


def _page(title: str, body: Sequence[str]) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><title>{_text(title)}</title>'
        f"<style>{STYLE}{_MORE}</style></head><body><main>{''.join(body)}</main></body></html>\n"
    )


def _head(title: str, where: str, found: Sequence[Diagnosis], at: float) -> str:
    hurt = any(each.verdict in (DiagnosisVerdict.CAUSE, DiagnosisVerdict.UNKNOWN) for each in found)
    return f'<header class="{"bad" if hurt else "open"}"><p class="place">{_text(where)}</p><h1>{title}</h1><p>Looked at {_clock(at)}.</p></header>'


def _service(observed: Observed, found: Sequence[Diagnosis], environment: str) -> Iterator[str]:
    onsets = [each.onset for each in found if each.onset is not None]
    for each in found:
        yield from _diagnosis(each, environment)
    yield "<h2>Measures</h2>"
    for where in dict.fromkeys(link.where for each in found for link in each.links if link.where):
        yield from (_plot(name, apart, where, onsets) for name, apart in observed.series.items() if where in apart)
    yield from (
        _plot(name, {"": observed.of(name)}, "", onsets) for name in sorted(_PLOTTED, key=lambda each: not _changed(observed, each, onsets))
    )
    yield "<h2>Changes and states</h2>"
    yield _rows(
        (_clock(moment) if moment is not None else "", who, words)
        for moment, who, words in sorted(
            [(each.time, each.who, each.words) for each in observed.changes]
            + [(each.since, each.subject, each.words) for each in observed.states],
            key=lambda each: each[0] or 0.0,
        )
    )


def _diagnosis(this: Diagnosis, environment: str) -> Iterator[str]:
    if this.links:
        yield f"<h2>{_text(_sentence(this.links[0].says))}</h2>"
    match this.verdict:
        case DiagnosisVerdict.CAUSE:
            verdict = cause_named(cause_words(this), this.cause, this.layer)
        case DiagnosisVerdict.UNKNOWN:
            verdict = f"The cause is unknown: {why_unknown(this)}"
        case DiagnosisVerdict.NOTHING:
            verdict = _sentence(NOTHING)
        case DiagnosisVerdict.BLIND:
            verdict = _sentence(BLIND)
    began = f" It began at {_clock(this.onset)}." if this.onset is not None else ""
    yield f"<p>{_text(verdict)}.{began}</p>"
    if this.links:
        items = (f"<li><b>{_text(e.says)}</b>{''.join(f'<br><small>{_text(s)}</small>' for s in e.evidence)}</li>" for e in this.links)
        yield f"<ol>{''.join(items)}</ol>"
    if this.phases:
        yield _phases(this.phases)
    for title, doubts in (("Ruled out", this.ruled_out), ("Could also be", this.could_be)):
        if doubts:
            yield f"<h3>{title}</h3>{_rows((each.says, each.said) for each in doubts)}"
    if this.blind:
        yield f"<h3>Not seen</h3>{_rows((each.what, each.why) for each in this.blind)}"
    if steps := [*next_steps(this, environment), *([f"docs/runbooks/{this.runbook}.md"] if this.runbook else [])]:
        yield f"<h3>Next</h3><pre>{_text(chr(10).join(steps))}</pre>"


def _phases(parts: Sequence[LatencyPhase]) -> str:
    """Two bars on one scale, and the figures; a part below zero, by noise, has no width."""
    before, since = sum(each.before for each in parts), sum(each.since for each in parts)
    whole, most = max(before, since, 1e-9), max(parts, key=lambda each: each.since - each.before).name

    def bar(name: str, values: Iterable[tuple[str, float]]) -> str:
        pieces = "".join(
            f'<i class="{"most" if part == most else ""}" style="width:{100 * max(value, 0) / whole:.2f}%" title="{_text(part)}"></i>'
            for part, value in values
        )
        return f'<p class="quiet">{name}</p><div class="bar">{pieces}</div>'

    bars = bar("before", ((e.name, e.before) for e in parts)) + bar("since", ((e.name, e.since) for e in parts))
    rows = [("", "before", "since"), *((e.name, shown(e.before, FigureUnit.SECONDS), shown(e.since, FigureUnit.SECONDS)) for e in parts)]
    rows.append(("in all", shown(before, FigureUnit.SECONDS), shown(since, FigureUnit.SECONDS)))
    return f"<h3>Where an answer's time goes, before and since</h3>{bars}{_rows(rows)}"


def _plot(name: str, apart: Mapping[str, Sequence[TimedValue]], of: str, onsets: Sequence[float]) -> str:
    """The line of `of`, a pod or GPU, above those of its siblings; empty where it has no two values."""
    known = {label: [each for each in samples if isfinite(each[1])] for label, samples in apart.items()}
    ours = known.pop(of)
    if len(ours) < 2:
        return ""
    lines = [(ours, "against")] if not known else [*((each, "copies") for each in known.values()), (ours, "against")]
    times = [moment for samples, _ in lines for moment, _ in samples]
    first, last, top = min(times), max(times), max(0.0, *(value for samples, _ in lines for _, value in samples))
    measure = MEASURES[name]
    title = f"{_sentence(measure.says)}{f' of {of}' if of else ''}{f' and {len(known)} others' if known else ''}"

    def x(moment: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - 10) * (moment - first) / max(last - first, 1e-9)

    def line(samples: Sequence[TimedValue], kind: str) -> str:
        points = " ".join(f"{x(moment):.1f},{_TALL - 22 - (_TALL - 36) * max(value, 0) / (top or 1):.1f}" for moment, value in samples)
        return f'<polyline class="{kind}" points="{points}"/>'

    marks = "".join(
        f'<line class="bound" x1="{x(each):.1f}" x2="{x(each):.1f}" y1="10" y2="{_TALL - 22}"/>' for each in onsets if first <= each <= last
    )
    return (
        f'<h3>{_text(title)}</h3><svg viewBox="0 0 {_WIDTH} {_TALL}" role="img" aria-label="{_text(title)}">'
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{_TALL - 22}" y2="{_TALL - 22}"/>'
        f'<text x="{_LEFT - 6}" y="18" text-anchor="end">{_text(shown(top, measure.unit))}</text>'
        f'<text x="{_LEFT - 6}" y="{_TALL - 20}" text-anchor="end">0</text>'
        f'<text x="{_LEFT}" y="{_TALL - 6}">{_clock(first)}</text><text x="{_WIDTH - 10}" y="{_TALL - 6}" text-anchor="end">{_clock(last)}</text>'
        f"{marks}{''.join(line(*each) for each in lines)}</svg>"
    )


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _rows(rows: "Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]") -> str:
    told = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tbody>{told}</tbody></table>" if told else "<p>None are known.</p>"


def _text(text: str) -> str:
    return escape(masked(text))


def _clock(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S} UTC"
