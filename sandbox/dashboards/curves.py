"""Curves of one panel as inline SVG. Pure text, no library: the page needs no script, and the pictures of the guide are it."""

import math
from collections.abc import Sequence
from datetime import datetime, tzinfo
from html import escape

from sandbox.dashboards.answers import DrawnSeries, TimeSpan
from sandbox.dashboards.units import shown

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d3b", "#7f7f7f")
"""Of Okabe and Ito, told apart by those who do not see hues."""
WIDTH, HEIGHT = 460, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 10, 10, 22
_LINES = 4
_TIMES = 4
_LEAST_SPAN = 1e-12
"""Below it values are drawn as 0."""


def curves(series: Sequence[DrawnSeries], span: TimeSpan, unit: str, zone: tzinfo) -> str:
    """All series over the whole span. Between two points that lie more than two steps apart there is a gap."""
    finite = [value for each in series for _, value in each.points if math.isfinite(value)]
    low, high = bounds(finite)
    parts = [_level(low + (high - low) * n / _LINES, low, high, unit) for n in range(_LINES + 1)]
    for n in range(_TIMES + 1):
        at = span.start + (span.end - span.start) * n / _TIMES
        anchor = "start" if n == 0 else "end" if n == _TIMES else "middle"
        parts.append(
            f'<text x="{_x(at, span):.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{datetime.fromtimestamp(at, zone):%H:%M}</text>'
        )
    for number, each in reversed(list(enumerate(series))):
        for run in runs(each.points, span.step):
            # A point alone has no length; a round end makes it a dot.
            points = " ".join(f"{_x(at, span):.1f},{_y(value, low, high):.1f}" for at, value in (run if len(run) > 1 else run * 2))
            parts.append(f'<polyline stroke="{colour(number)}" points="{points}"><title>{escape(each.name)}</title></polyline>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>'


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def bounds(values: Sequence[float]) -> tuple[float, float]:
    """Of the axis: it holds 0, and its lines stand at round numbers."""
    low, high = min([*values, 0.0]), max([*values, 0.0])
    if high - low < _LEAST_SPAN:
        return 0.0, 1.0
    size = 10 ** (math.floor(math.log10(high - low)) - 1)
    for factor in (2, 2.5, 4, 5, 10, 20, 25, 40, 50):
        step = size * factor
        begin = math.floor(low / step) * step
        if begin + _LINES * step >= high:
            break
    return begin, begin + _LINES * step


def runs(points: Sequence[tuple[float, float]], step: float) -> list[list[tuple[float, float]]]:
    """Points that belong together: finite, and at most two steps apart."""
    found: list[list[tuple[float, float]]] = []
    before: float | None = None
    for at, value in points:
        if not math.isfinite(value):
            before = None
            continue
        if before is None or at - before > 2 * step:
            found.append([])
        found[-1].append((at, value))
        before = at
    return found


def _level(value: float, low: float, high: float, unit: str) -> str:
    y = _y(value, low, high)
    return (
        f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{y + 3:.1f}" text-anchor="end">{escape(shown(value, unit))}</text>'
    )


def _x(at: float, span: TimeSpan) -> float:
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * (at - span.start) / (span.end - span.start)


def _y(value: float, low: float, high: float) -> float:
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * (value - low) / (high - low)
