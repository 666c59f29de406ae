"""One self-contained page about an incident: the chain, the measures with the onset marked, where the time went, changes, logs. No script and
nothing from elsewhere; every text of somebody else is escaped. Pure.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from math import isfinite

from headway.contract.secret_names import masked
from headway.diagnosis.figures import shown
from headway.diagnosis.measure import FigureUnit
from headway.diagnosis.measures import MEASURES
from headway.diagnosis.observed import Observed
from headway.diagnosis.reasoning import Diagnosis, DiagnosisVerdict, LatencyPhase
from headway.diagnosis.wording import BLIND, NOTHING, cause_named, cause_words, why_unknown
from headway.release.evidence.samples import TimedValue
from headway.release.report.style import STYLE

_PLOTTED = ("latency", "errors", "requests", "at_replica", "served", "queue", "compute", "prefill", "decode", "limited", "burn", "memory")
_WIDTH, _TALL, _LEFT = 680, 120, 70
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_MORE = (
    ".bar{display:flex;height:22px;background:var(--wash)}.bar i{border-right:1px solid var(--paper);background:var(--users)}"
    ".bar i:nth-child(even){background:var(--copies)}pre{overflow-x:auto;background:var(--wash);padding:8px;font-size:12px}"
)


def html(observed: Observed, found: Sequence[Diagnosis], environment: str, lines: Sequence[str]) -> str:
    service = f"{observed.tenant}/{observed.model}"
    onsets = [each.onset for each in found if each.onset is not None]
    hurt = any(each.verdict in (DiagnosisVerdict.CAUSE, DiagnosisVerdict.UNKNOWN) for each in found)
    head = (
        f'<header class="{"bad" if hurt else "open"}"><p class="place">{_text(environment)} · {_text(service)}</p>'
        f"<h1>Incident</h1><p>Looked at {_clock(observed.at)}.</p></header>"
    )
    body = [
        head,
        *(part for each in found for part in _diagnosis(each)),
        "<h2>Measures</h2>",
        *(_plot(name, observed.of(name), onsets) for name in _PLOTTED if len(observed.of(name)) > 1),
        "<h2>Changes and states</h2>",
        _rows(
            (_clock(moment) if moment is not None else "", who, words)
            for moment, who, words in sorted(
                [(each.time, each.who, each.words) for each in observed.changes]
                + [(each.since, each.subject, each.words) for each in observed.states],
                key=lambda each: each[0] or 0.0,
            )
        ),
        "<h2>Logs</h2>",
        f"<pre>{_text(chr(10).join(lines))}</pre>" if lines else "<p>None were captured.</p>",
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><title>{_text(service)}: incident</title>'
        f"<style>{STYLE}{_MORE}</style></head><body><main>{''.join(body)}</main></body></html>\n"
    )


def _diagnosis(this: Diagnosis) -> Iterator[str]:
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


def _phases(parts: Sequence[LatencyPhase]) -> str:
    """Two bars on one scale, and the figures; a part below zero, by noise, has no width."""
    before, since = sum(each.before for each in parts), sum(each.since for each in parts)
    most = max(before, since, 1e-9)
    bars = (
        f'<p class="quiet">{name}</p><div class="bar">'
        + "".join(f'<i style="width:{100 * max(value, 0) / most:.2f}%" title="{_text(part)}"></i>' for part, value in values)
        + "</div>"
        for name, values in (("before", [(e.name, e.before) for e in parts]), ("since", [(e.name, e.since) for e in parts]))
    )
    rows = [(e.name, shown(e.before, FigureUnit.SECONDS), shown(e.since, FigureUnit.SECONDS)) for e in parts]
    rows.append(("in all", shown(before, FigureUnit.SECONDS), shown(since, FigureUnit.SECONDS)))
    return f"<h3>Where an answer's time goes, before and since</h3>{''.join(bars)}{_rows(rows)}"


def _plot(name: str, samples: Sequence[TimedValue], onsets: Sequence[float]) -> str:
    known = [(moment, value) for moment, value in samples if isfinite(value)]
    if len(known) < 2:
        return ""
    first, last, top = known[0][0], known[-1][0], max(0.0, *(value for _, value in known))
    measure = MEASURES[name]

    def x(moment: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - 10) * (moment - first) / max(last - first, 1e-9)

    points = " ".join(f"{x(moment):.1f},{_TALL - 22 - (_TALL - 36) * max(value, 0) / (top or 1):.1f}" for moment, value in known)
    marks = "".join(
        f'<line class="bound" x1="{x(each):.1f}" x2="{x(each):.1f}" y1="10" y2="{_TALL - 22}"/>' for each in onsets if first <= each <= last
    )
    return (
        f'<h3>{_text(_sentence(measure.says))}</h3><svg viewBox="0 0 {_WIDTH} {_TALL}" role="img" aria-label="{_text(measure.says)}">'
        f'<text x="{_LEFT - 6}" y="18" text-anchor="end">{_text(shown(top, measure.unit))}</text>'
        f'<text x="{_LEFT}" y="{_TALL - 6}">{_clock(first)}</text><text x="{_WIDTH - 10}" y="{_TALL - 6}" text-anchor="end">{_clock(last)}</text>'
        f'{marks}<polyline class="against" points="{points}"/></svg>'
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
