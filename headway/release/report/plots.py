"""Plots of a release as inline SVG: evidence against its boundary, and the new version's share of traffic. Pure text, no library.

E-values are drawn by their logarithm, which adds up tick by tick as evidence does. Below 1 an e-value says nothing, however far
below; so the axis ends there, and a quiet signal is a line along the bottom and not an abyss.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite, log10

WIDTH, HEIGHT = 680, 150
LEFT, RIGHT, TOP, BOTTOM = 60, 16, 14, 24
_STRIP = 96


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Something that happened, drawn as a thin line: minutes since the beginning, and what it was."""

    at: float
    text: str


@dataclass(frozen=True, kw_only=True)
class PlottedSeries:
    """Values by time in minutes; None where nothing was known. It is drawn towards `bound`, at which it decides."""

    times: Sequence[float]
    values: Sequence[float | None]
    bound: float


def evidence(against: PlottedSeries, proofs: Sequence[PlottedSeries], end: float, moments: Sequence[Moment] = ()) -> str:
    """Evidence against the new version, and at each step the proof for it, each relative to its own bound: at the top line it decides."""
    lines = [_frame(end, HEIGHT, (("decides", 1.0), ("", 0.5), ("nothing", 0.0))), _moments(moments, end, HEIGHT)]
    y = _y(1.0, HEIGHT)
    lines.append(f'<line class="bound" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
    lines += [_curve(proof, end, HEIGHT, "proof") for proof in proofs]
    lines.append(_curve(against, end, HEIGHT, "against"))
    return _svg(HEIGHT, "evidence by time", lines)


def traffic(steps: Sequence[tuple[float, float, float]], end: float, moments: Sequence[Moment] = ()) -> str:
    """Steps of (minutes, share of users' requests, share of copies), each holding until the next."""
    lines = [_frame(end, _STRIP, (("100 %", 1.0), ("50 %", 0.5), ("0", 0.0))), _moments(moments, end, _STRIP)]
    lines += [_stairs(steps, end, 2, "copies"), _stairs(steps, end, 1, "users")]
    return _svg(_STRIP, "share of traffic by time", lines)


def height(value: float | None, bound: float) -> float | None:
    """Where a value lies between saying nothing (0) and deciding (1)."""
    if value is None:
        return None
    if not isfinite(value):
        return 1.0
    if value <= 1.0 or bound <= 1.0:
        return 0.0
    return min(1.0, log10(value) / log10(bound))


def _curve(series: PlottedSeries, end: float, tall: int, name: str) -> str:
    runs: list[list[str]] = [[]]
    for time, value in zip(series.times, series.values, strict=True):
        level = height(value, series.bound)
        if level is None:
            runs.append([])
        else:
            runs[-1].append(f"{_x(time, end):.1f},{_y(level, tall):.1f}")
    return "".join(f'<polyline class="{name}" points="{" ".join(run)}"/>' for run in runs if run)


def _stairs(steps: Sequence[tuple[float, float, float]], end: float, place: int, name: str) -> str:
    points: list[str] = []
    base = _y(0.0, _STRIP)
    for number, step in enumerate(steps):
        until = steps[number + 1][0] if number + 1 < len(steps) else end
        level = _y(step[place], _STRIP)
        points += [f"{_x(step[0], end):.1f},{level:.1f}", f"{_x(until, end):.1f},{level:.1f}"]
    if not points:
        return ""
    first, last = _x(steps[0][0], end), _x(end, end)
    return f'<polygon class="{name}" points="{first:.1f},{base:.1f} {" ".join(points)} {last:.1f},{base:.1f}"/>'


def _moments(moments: Sequence[Moment], end: float, tall: int) -> str:
    return "".join(
        f'<line class="moment" x1="{_x(m.at, end):.1f}" x2="{_x(m.at, end):.1f}" y1="{TOP}" y2="{tall - BOTTOM}">'
        f"<title>{escape(m.text)}</title></line>"
        for m in moments
    )


def _frame(end: float, tall: int, levels: Sequence[tuple[str, float]]) -> str:
    parts: list[str] = []
    for text, level in levels:
        y = _y(level, tall)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 3:.1f}" text-anchor="end">{escape(text)}</text>')
    for minute in ticks(end):
        x = _x(minute, end)
        parts.append(f'<text x="{x:.1f}" y="{tall - 8}" text-anchor="middle">{minute:g} min</text>')
    return "".join(parts)


def ticks(end: float) -> tuple[float, ...]:
    """Round minutes for the axis, at most seven."""
    step = next((s for s in (0.1, 0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440) if end / s <= 7), 10_080)
    return tuple(step * n for n in range(int(end / step) + 1))


def _x(time: float, end: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (time / end if end else 0.0)


def _y(level: float, tall: int) -> float:
    return tall - BOTTOM - (tall - TOP - BOTTOM) * level


def _svg(tall: int, what: str, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {tall}" role="img" aria-label="{escape(what)}">{"".join(parts)}</svg>'
