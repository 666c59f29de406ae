"""Progress on a terminal and in a log: each task one line, with what it is doing and for how long. Never a silent
minute.

On a terminal the running tasks are redrawn in place; elsewhere a line is printed when a task changes, not more often
than every few seconds, and a heartbeat when it does not.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table

HEARTBEAT_SECONDS = 15.0
QUIET_SECONDS = 5.0
"""Away from a terminal a task that changes faster than this is told less often; its last text is in the next heartbeat."""


def elapsed(seconds: float) -> str:
    """`7.2 s`, `1 min 05 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


def _said(key: str, text: str) -> str:
    """Who says it and what: the last part of the key, then the text, ready to print."""
    return escape(f"{key.rsplit('/', 1)[-1]}: {text}")


@dataclass
class _Task:
    began: float
    text: str
    said: float


class ConsoleProgress:
    """Implements `sandbox.progress.Progress` on a rich console. A context manager: the live part exists between
    enter and exit."""

    def __init__(self, console: Console, clock: Callable[[], float] = monotonic) -> None:
        self._console, self._clock = console, clock
        self._tasks: dict[str, _Task] = {}
        self._lock = threading.RLock()
        self._live = (
            Live(console=console, refresh_per_second=8, transient=True, get_renderable=self._render) if console.is_terminal else None
        )
        self._stop = threading.Event()
        self._beat = threading.Thread(target=self._heartbeat, daemon=True)

    def __enter__(self) -> "ConsoleProgress":
        if self._live:
            self._live.start()
        else:
            self._beat.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        if self._live:
            self._live.stop()

    def step(self, key: str, text: str) -> None:
        now = self._clock()
        with self._lock:
            task = self._tasks.get(key)
            due = task is None or (task.text != text and now - task.said >= QUIET_SECONDS)
            self._tasks[key] = _Task(task.began if task else now, text, now if due or task is None else task.said)
        if due and not self._live:
            self._console.print(f"[dim]  … {_said(key, text)}[/dim]", highlight=False)

    def done(self, key: str, text: str) -> None:
        self._end(key, "[green]✓[/green]", text)

    def failed(self, key: str, text: str) -> None:
        self._end(key, "[red]✗[/red]", text)

    def say(self, renderable: RenderableType = "") -> None:
        """Print above the running tasks."""
        self._console.print(renderable, highlight=False)

    def _end(self, key: str, mark: str, text: str) -> None:
        with self._lock:
            task = self._tasks.pop(key, None)
        if not text:  # whoever gets the result shows it
            return
        spent = f" [dim]{elapsed(self._clock() - task.began)}[/dim]" if task else ""
        self._console.print(f"  {mark} {_said(key, text)}{spent}", highlight=False)

    def _render(self) -> RenderableType:
        now = self._clock()
        with self._lock:
            rows = [(_said(key, t.text), now - t.began) for key, t in self._tasks.items()]
        table = Table.grid(padding=(0, 1))
        for text, seconds in rows:
            table.add_row(" ", Spinner("dots"), f"{text} [dim]{elapsed(seconds)}[/dim]")
        return Group(table)

    def _heartbeat(self) -> None:
        while not self._stop.wait(1.0):
            now = self._clock()
            with self._lock:
                quiet = [(key, t) for key, t in self._tasks.items() if now - t.said >= HEARTBEAT_SECONDS]
                for _, task in quiet:
                    task.said = now
            for key, task in quiet:
                self._console.print(f"[dim]  … {_said(key, task.text)}, {elapsed(now - task.began)}[/dim]", highlight=False)
