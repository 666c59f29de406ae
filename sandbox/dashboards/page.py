"""A dashboard as one self-contained HTML page: no script, no font, no picture from anywhere else. Pure."""

from collections.abc import Mapping
from datetime import datetime, tzinfo
from html import escape

from sandbox.dashboards.answers import AnsweredPanel, DrawnSeries, TimeSpan
from sandbox.dashboards.curves import colour, curves
from sandbox.dashboards.grafana import COLUMNS, GrafanaDashboard, GrafanaPanel
from sandbox.dashboards.units import shown

_MOST_NAMED = 8
"""Series in a legend; the others are counted."""
_STYLE = """
:root{--ink:#1b1f24;--soft:#5b6570;--line:#dfe3e8;--paper:#f6f7f9;--card:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ec;--soft:#9aa4ae;--line:#343b43;--paper:#111417;--card:#1a1e22}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1440px;margin:0 auto;padding:24px}
h1{font-size:24px;margin:0}h2{font-size:15px;margin:26px 0 8px;color:var(--soft)}h3{font-size:14px;margin:0 0 2px}
p{margin:0 0 6px;color:var(--soft);font-size:12.5px}
.row{display:grid;grid-template-columns:repeat(24,1fr);gap:12px}
section{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 14px;min-width:0}
svg{display:block;width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
.grid{stroke:var(--line)}polyline{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
.number{font-size:40px;font-variant-numeric:tabular-nums;margin:22px 0}
.missing{color:var(--soft);padding:26px 0}
ul{list-style:none;margin:6px 0 0;padding:0;font-size:12px}li{display:flex;gap:6px;align-items:baseline}
li i{flex:none;width:10px;height:3px;align-self:center}li span{flex:1;overflow-wrap:anywhere}li b{font-weight:500;white-space:nowrap}
@media(max-width:900px){.row{display:block}section{margin-bottom:12px}}
"""


def page(
    dashboard: GrafanaDashboard,
    answers: Mapping[GrafanaPanel, AnsweredPanel],
    span: TimeSpan,
    variables: Mapping[str, str],
    zone: tzinfo,
) -> str:
    """The whole page; `variables` are those that somebody chose. Times are those of `zone`."""
    start, end = (datetime.fromtimestamp(at, zone) for at in (span.start, span.end))
    picked = "".join(f", {escape(name)} {escape(value)}" for name, value in sorted(variables.items()))
    rows = "".join(
        f'<h2>{escape(title)}</h2><div class="row">{"".join(_section(answers[panel], span, zone) for panel in panels)}</div>'
        for title, panels in dashboard.rows
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(dashboard.title)}</title><style>{_STYLE}</style><main><h1>{escape(dashboard.title)}</h1>"
        f"<p>{start:%Y-%m-%d %H:%M} to {end:%H:%M %Z}{picked}. Drawn from the sandbox's Prometheus.</p>{rows}</main></html>\n"
    )


def _section(answer: AnsweredPanel, span: TimeSpan, zone: tzinfo) -> str:
    panel = answer.panel
    meaning = f"<p>{escape(panel.meaning)}</p>" if panel.meaning else ""
    if not answer.series:
        body = f'<div class="missing">{escape(answer.missing)}</div>'
    elif panel.number:
        body = "".join(f'<div class="number">{escape(_newest(each, span, panel.unit))}</div>' for each in answer.series)
    else:
        body = curves(answer.series, span, panel.unit, zone) + _legend(answer, span)
    return f'<section style="grid-column:span {min(panel.width, COLUMNS)}"><h3>{escape(panel.title)}</h3>{meaning}{body}</section>'


def _legend(answer: AnsweredPanel, span: TimeSpan) -> str:
    named = answer.series[:_MOST_NAMED]
    lines = [
        f'<li><i style="background:{colour(number)}"></i><span>{escape(each.name)}</span><b>{escape(_newest(each, span, answer.panel.unit))}</b></li>'
        for number, each in enumerate(named)
    ]
    if more := len(answer.series) - len(named):
        lines.append(f"<li><span>and {more} more</span></li>")
    return f"<ul>{''.join(lines)}</ul>"


def _newest(series: DrawnSeries, span: TimeSpan, unit: str) -> str:
    value = series.newest(span)
    return "no value now" if value is None else shown(value, unit)
