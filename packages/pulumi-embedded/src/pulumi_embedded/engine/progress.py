"""Signs of life while an operation runs: a plain line now and then tells what is being waited for."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pulumi_embedded.engine.console import Console
from pulumi_embedded.engine.model import Op
from pulumi_embedded.engine.style import WORDS, duration

PLAIN_SECONDS: Final = 5.0
LONG_SECONDS: Final = 15.0
"""Between lines once a minute has passed."""
MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class RunningStep:
    op: Op
    type: str
    name: str
    message: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    seconds: float
    done: int
    running: tuple[RunningStep, ...]
    """Longest first."""


def describe(entry: RunningStep) -> str:
    """`creating TYPE NAME (what it waits for)`."""
    return f"{WORDS[entry.op][0]} {entry.type} {entry.name}{f' ({entry.message})' if entry.message else ''}"


class PlainProgress:
    """Tells from a thread of its own, until `stop`."""

    def __init__(self, console: Console, snapshot: Callable[[], Snapshot]) -> None:
        self._console, self._snapshot = console, snapshot
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="progress")
        self._told = False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if not self._ended.is_set():
            self._ended.set()
            if self._thread.is_alive():
                self._thread.join()
            if self._told:
                self._console.line("")

    def _run(self) -> None:
        while not self._ended.wait(LONG_SECONDS if self._snapshot().seconds > 60 else PLAIN_SECONDS):
            now = self._snapshot()
            more = [f"{len(now.running) - MOST_NAMED} more"] if len(now.running) > MOST_NAMED else []
            doing = "; ".join([*map(describe, now.running[:MOST_NAMED]), *more]) or "running the program"
            self._console.line(f"  {duration(now.seconds)}: {now.done} done; {doing}")
            self._told = True
