"""Where the lines of a verb go: to a caller of the Automation API, or to a terminal. Decides nothing about what is said."""

import os
import shutil
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TextIO


class Console(ABC):
    """Safe to use from several threads; a line is never torn."""

    interactive: bool = False
    """A person can be asked, and lines can be redrawn."""
    colour: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return 120, 40

    @abstractmethod
    def line(self, text: str) -> None: ...

    @abstractmethod
    def error(self, text: str) -> None: ...

    def raw(self, text: str) -> None:
        """Write control sequences to a terminal; elsewhere nothing."""
        del text

    def ask(self, question: str) -> str:
        """A line from the person; empty at the end of input."""
        del question
        return ""

    def wants_colour(self, choice: str, environment: Mapping[str, str]) -> bool:
        """Whether to colour, given `--color` and the environment (NO_COLOR, https://no-color.org)."""
        if choice in ("always", "never", "raw"):
            return choice == "always"
        return self.colour and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


class Captured(Console):
    """For callers in this process: keeps the lines and hands each on as it comes."""

    def __init__(self, on_output: Callable[[str], object] | None = None, on_error: Callable[[str], object] | None = None) -> None:
        self._on_output, self._on_error = on_output, on_error
        self._lock = threading.Lock()
        self._output: list[str] = []
        self._errors: list[str] = []

    def line(self, text: str) -> None:
        self._add(text, self._output, self._on_output)

    def error(self, text: str) -> None:
        self._add(text, self._errors, self._on_error)

    @property
    def stdout(self) -> str:
        return "\n".join(self._output)

    @property
    def stderr(self) -> str:
        return "\n".join(self._errors)

    def _add(self, text: str, kept: list[str], callback: Callable[[str], object] | None) -> None:
        with self._lock:
            for line in text.split("\n"):
                kept.append(line)
                if callback:
                    callback(line)


class Terminal(Console):
    """Standard output and error of this process."""

    def __init__(self, output: TextIO | None = None, errors: TextIO | None = None, source: TextIO | None = None) -> None:
        self._output, self._errors, self._source = output or sys.stdout, errors or sys.stderr, source or sys.stdin
        self._lock = threading.Lock()
        self.colour = self._output.isatty()
        self.interactive = self.colour and self._source.isatty()

    @property
    def size(self) -> tuple[int, int]:
        size = shutil.get_terminal_size((120, 40))
        return size.columns, size.lines

    def line(self, text: str) -> None:
        self._write(self._output, text + "\n")

    def error(self, text: str) -> None:
        self._write(self._errors, text + "\n")

    def raw(self, text: str) -> None:
        if self.interactive:
            self._write(self._output, text)

    def ask(self, question: str) -> str:
        self._write(self._output, question)
        return self._source.readline().strip()

    def _write(self, stream: TextIO, text: str) -> None:
        with self._lock:
            try:
                stream.write(text)
                stream.flush()
            except BrokenPipeError:
                # `pulumi ... | head` has read enough; the operation goes on and its result is in the state.
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
