"""A release as one picture for chat, which shows no HTML and no SVG: how it ended, its traffic, and what was measured. Pure, but for the
size of letters.

Drawn at twice its size and made smaller, which smooths the edges. Letters are Pillow's own (Aileron, ASCII alone), so that a picture looks
the same on a machine without fonts; what is no ASCII loses its accents or becomes a question mark.
"""

import io
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from headway.ledger.events import Event
from headway.release import messages
from headway.release.driver.event_kinds import EventKind
from headway.release.driver.rollout_state import RolloutState
from headway.release.report import measured, plots
from headway.release.report.page import TONES, ReportedRelease, about, spent, steps_of

WIDTH = 1200
"""Pixels; chats show about half of it unasked, and all on a click."""
_TWICE = 2
_INK, _SOFT, _LINE, _PAPER, _WASH = "#1b1f24", "#5b6570", "#dfe3e8", "#ffffff", "#f6f7f9"
_COLOURS = {"good": "#146c43", "bad": "#b3261e", "warn": "#8a5a00", "open": "#0b5394"}
_USERS, _COPIES = "#0b5394", "#b9cfe4"
_LEFT, _RIGHT = 48, WIDTH - 48
_CHART = 120
_ROW = 34
_COLUMNS = (_LEFT, 330, 500, 670, 820, 950)
"""Where the table's columns begin; the last one holds a bar."""


def png(chain: str, environment: str, rollout: RolloutState, events: Sequence[Event]) -> bytes:
    """The picture; `events` are the chain's."""
    reported = ReportedRelease(rollout=rollout, events=about(rollout, events))
    rows = list(_rows(reported))
    verdict = _wrapped(messages.why(rollout), 26, _RIGHT - _LEFT)
    height = 184 + 34 * len(verdict) + 60 + _CHART + 60 + _ROW * (len(rows) + 1) + 70
    canvas = _Canvas(height)
    tone = _COLOURS[TONES.get(rollout.outcome, "open") if rollout.outcome else "open"]
    canvas.box(0, 0, 12, height, tone)
    canvas.text(_LEFT, 34, f"{environment} - {chain}", 22, _SOFT)
    canvas.text(_LEFT, 64, rollout.status.capitalize(), 56, tone)
    canvas.text(_LEFT, 138, _about(reported), 21, _SOFT)
    y = 176
    for line in verdict:
        canvas.text(_LEFT, y, line, 26, _INK)
        y += 34
    y = _traffic(canvas, reported, y + 26)
    _table(canvas, rows, y + 40)
    canvas.text(_LEFT, height - 44, command(chain, environment, rollout, events), 19, _SOFT)
    return canvas.png()


def command(chain: str, environment: str, rollout: RolloutState, events: Sequence[Event]) -> str:
    """What shows this release, also once there are others."""
    number = sum(event.kind == EventKind.STARTED for event in events if event.number <= rollout.number)
    return f"headway release report {chain} -e {environment} --number {number}"


def letters(text: str) -> str:
    """The text in ASCII: `5 µs für 漢` is `5 us fur ?`."""
    plain = unicodedata.normalize(
        "NFKD", text.translate({0x2013: "-", 0x2014: "-", 0x2019: "'", 0xB7: "-", 0xB5: "u", 0x3BC: "u", 0xD7: "x"})
    )
    return "".join(each if each.isascii() else "?" for each in plain if not unicodedata.combining(each))


class _Canvas:
    """Draws in pixels of the finished picture."""

    def __init__(self, height: int) -> None:
        self._image = Image.new("RGB", (WIDTH * _TWICE, height * _TWICE), _PAPER)
        self._draw = ImageDraw.Draw(self._image)

    def text(self, x: float, y: float, text: str, size: int, colour: str, anchor: str = "la") -> None:
        self._draw.text((x * _TWICE, y * _TWICE), letters(text), font=_font(size), fill=colour, anchor=anchor)

    def box(self, left: float, top: float, right: float, bottom: float, colour: str) -> None:
        if right > left and bottom > top:
            self._draw.rectangle((left * _TWICE, top * _TWICE, right * _TWICE - 1, bottom * _TWICE - 1), fill=colour)

    def png(self) -> bytes:
        small = self._image.resize((WIDTH, self._image.height // _TWICE), Image.Resampling.LANCZOS)
        out = io.BytesIO()
        small.save(out, "PNG", optimize=True)
        return out.getvalue()


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size * _TWICE)


def _about(reported: ReportedRelease) -> str:
    rollout, first, last = reported.rollout, reported.events[0], reported.events[-1]
    begin, end = (datetime.fromisoformat(event.time) for event in (first, last))
    speed = rollout.body["speed"]
    return (
        f"Release {rollout.release} against {rollout.stable}; {begin:%Y-%m-%d %H:%M} to {end:%H:%M} UTC ({spent(reported.end)}"
        f"{f', at {speed:g} times the speed of its contract' if speed != 1 else ''})"
    )


def _wrapped(text: str, size: int, width: float) -> list[str]:
    def fits(line: str) -> bool:
        return _font(size).getlength(line) <= width * _TWICE

    lines = [""]
    for word in letters(text).split():
        longer = f"{lines[-1]} {word}".strip()
        if not lines[-1] or fits(longer):
            lines[-1] = longer
        else:
            lines.append(word)
        while not fits(lines[-1]):  # a path is one word
            end = next((n for n in range(len(lines[-1]) - 1, 1, -1) if fits(lines[-1][:n])), 1)
            lines[-1:] = [lines[-1][:end], lines[-1][end:]]
    return lines


def _traffic(canvas: _Canvas, reported: ReportedRelease, y: float) -> float:
    """Shares of users' requests and of copies over time; where it ends."""
    left, bottom = _LEFT + 64, y + 38 + _CHART
    canvas.text(_LEFT, y, "Requests of users", 19, _USERS)
    canvas.text(_LEFT + 180, y, "copies, whose answers are thrown away", 19, "#5b7f9f")
    canvas.box(left, bottom - _CHART, _RIGHT, bottom, _WASH)
    for share in (0.0, 0.5, 1.0):
        level = bottom - _CHART * share
        canvas.box(left, level - 0.5, _RIGHT, level + 0.5, _LINE)
        canvas.text(left - 10, level, f"{share:.0%}", 17, _SOFT, "rm")
    steps = list(steps_of(reported))
    for place, colour in ((2, _COPIES), (1, _USERS)):
        for number, step in enumerate(steps):
            until = steps[number + 1][0] if number + 1 < len(steps) else reported.end
            canvas.box(_x(step[0], reported.end, left), bottom - _CHART * step[place], _x(until, reported.end, left), bottom, colour)
    for minute in plots.ticks(reported.end):
        canvas.text(_x(minute, reported.end, left), bottom + 8, f"{minute:g} min", 17, _SOFT, "ma")
    return bottom + 30


def _x(minutes: float, end: float, left: float) -> float:
    return left + (_RIGHT - left) * minutes / end


def _rows(reported: ReportedRelease) -> Iterator[tuple[measured.MeasuredSignal, Mapping[str, Any] | None]]:
    """What was measured, each with its last judgement."""
    judged = (reported.rollout.decision or {}).get("signals", {})
    for name, signal in measured.signals(measured.figures_of(reported.events)).items():
        yield signal, judged.get(name)


def _table(canvas: _Canvas, rows: Sequence[tuple[measured.MeasuredSignal, Mapping[str, Any] | None]], y: float) -> None:
    if not rows:
        canvas.text(_LEFT, y, "No tick counted as evidence.", 20, _SOFT)
        return
    for x, name in zip(_COLUMNS, ("signal", "new version", "stable version", "limit", "n", "evidence against it"), strict=True):
        canvas.text(x, y, name, 19, _SOFT)
    for number, (signal, judged) in enumerate(rows, 1):
        top = y + _ROW * number
        canvas.box(_LEFT, top - 5, _RIGHT, top - 4, _LINE)
        n = "" if signal.n is None else f"{signal.n:,}"
        cells = (f"{signal.name} {signal.figure}", signal.said(signal.new), signal.said(signal.stable), signal.said(signal.limit), n)
        for x, cell in zip(_COLUMNS, cells, strict=False):
            canvas.text(x, top + 2, cell, 20, _INK)
        if judged:
            _bar(canvas, judged, top)


def _bar(canvas: _Canvas, judged: Mapping[str, Any], top: float) -> None:
    """From saying nothing to the line at which it decides, by its logarithm."""
    left, right = _COLUMNS[-1], _RIGHT
    level = plots.height(float(judged["evidence"] or 0), float(judged["bound"])) or 0.0
    canvas.box(left, top + 6, right, top + 20, _WASH)
    canvas.box(left, top + 6, left + (right - left) * level, top + 20, _COLOURS["bad" if level >= 1 else "warn"])
    canvas.box(right - 2, top + 2, right, top + 24, _INK)
