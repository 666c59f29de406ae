"""Signs of life while an operation runs: lines redrawn in place on a terminal, a plain line now and then elsewhere."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pulumi_embedded.engine.console import Console
from pulumi_embedded.engine.model import Op
from pulumi_embedded.engine.style import SYMBOLS, WORDS, Style, duration, shortened

FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_SECONDS: Final = 0.12
PLAIN_SECONDS: Final = 5.0
LONG_SECONDS: Final = 15.0
"""Between plain lines once a minute has passed."""
MOST_NAMED: Final = 3
HIDE_CURSOR: Final = "\x1b[?25l"
SHOW_CURSOR: Final = "\x1b[?25h"


@dataclass(frozen=True, slots=True)
class Running:
    op: Op
    type: str
    name: str
    message: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    seconds: float
    done: int
    errors: int
    running: tuple[Running, ...]
    """Longest first."""


class Progress(ABC):
    """Tells from a thread of its own, until `stop`."""

    def __init__(self, console: Console, snapshot: Callable[[], Snapshot]) -> None:
        self._console, self._snapshot = console, snapshot
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="progress")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if not self._ended.is_set():
            self._ended.set()
            if self._thread.is_alive():
                self._thread.join()
            self.clear()

    def say(self, line: str) -> None:
        """A line that stays."""
        self._console.line(line)

    def clear(self) -> None:
        """Leave nothing behind."""

    @abstractmethod
    def _run(self) -> None: ...


def describe(entry: Running) -> str:
    """`creating TYPE NAME (what it waits for)`."""
    return f"{WORDS[entry.op][0]} {entry.type} {entry.name}{f' ({entry.message})' if entry.message else ''}"


class PlainProgress(Progress):
    def __init__(self, console: Console, snapshot: Callable[[], Snapshot]) -> None:
        super().__init__(console, snapshot)
        self._told = False

    def clear(self) -> None:
        if self._told:
            self._console.line("")

    def _run(self) -> None:
        while not self._ended.wait(LONG_SECONDS if self._snapshot().seconds > 60 else PLAIN_SECONDS):
            now = self._snapshot()
            more = [f"{len(now.running) - MOST_NAMED} more"] if len(now.running) > MOST_NAMED else []
            doing = "; ".join([*map(describe, now.running[:MOST_NAMED]), *more]) or "running the program"
            self._console.line(f"  {duration(now.seconds)}: {now.done} done; {doing}")
            self._told = True


class LiveRegion(Progress):
    def __init__(self, console: Console, style: Style, snapshot: Callable[[], Snapshot]) -> None:
        super().__init__(console, snapshot)
        self._style = style
        self._drawn = 0
        self._drawing = threading.Lock()

    def say(self, line: str) -> None:
        with self._drawing:
            self._erase()
            self._console.line(line)

    def _run(self) -> None:
        frame = 0
        while not self._ended.wait(FRAME_SECONDS):
            self._draw(FRAMES[frame % len(FRAMES)])
            frame += 1

    def clear(self) -> None:
        with self._drawing:
            self._erase()
            self._console.raw(SHOW_CURSOR)

    def _erase(self) -> None:
        if self._drawn:
            self._console.raw(f"\x1b[{self._drawn}A\r\x1b[J")
            self._drawn = 0

    def _draw(self, spinner: str) -> None:
        columns, rows = self._console.size
        lines = self._lines(self._snapshot(), spinner, columns - 1, max(1, rows - 4))
        with self._drawing:
            # One write for erasing and drawing, or the lines would flicker.
            up = f"\x1b[{self._drawn}A\r" if self._drawn else HIDE_CURSOR
            self._console.raw(up + "\x1b[J" + "".join(line + "\n" for line in lines))
            self._drawn = len(lines)

    def _lines(self, now: Snapshot, spinner: str, width: int, most: int) -> list[str]:
        errors = f", {now.errors} error{'s' if now.errors > 1 else ''}" if now.errors else ""
        head = f"{spinner} {duration(now.seconds)}  {now.done} done, {len(now.running)} running{errors}"
        lines = [self._style.paint(shortened(head, width), "bold")]
        for entry in now.running[:most]:
            text = f"{entry.type} {entry.name}: {WORDS[entry.op][0]}{f', {entry.message}' if entry.message else ''} ({duration(entry.seconds)})"
            lines.append(f"  {self._style.op(f'{SYMBOLS[entry.op]:<3}', entry.op)}{shortened(text, width - 5)}")
        if len(now.running) > most:
            lines.append(self._style.paint(f"  … {len(now.running) - most} more", "dim"))
        return lines
