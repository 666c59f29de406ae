"""Where the lines of a verb go: to a caller of the Automation API, or to a terminal. Decides nothing about what is said."""

import getpass
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TextIO


class Console(ABC):
    """Safe to use from several threads; a line is never torn."""

    interactive: bool = False
    """A person can be asked."""

    @abstractmethod
    def line(self, text: str) -> None: ...

    @abstractmethod
    def error(self, text: str) -> None: ...

    def ask(self, question: str) -> str:
        """A line from the person; empty at the end of input."""
        del question
        return ""

    def hidden(self, question: str) -> str:
        """As `ask`, for what must not be seen while it is typed."""
        return self.ask(question)


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
        self.interactive = self._output.isatty() and self._source.isatty()

    def line(self, text: str) -> None:
        self._write(self._output, text + "\n")

    def error(self, text: str) -> None:
        self._write(self._errors, text + "\n")

    def ask(self, question: str) -> str:
        self._write(self._output, question)
        return self._source.readline().strip()

    def hidden(self, question: str) -> str:
        return getpass.getpass(question).strip() if self.interactive else self._source.readline().strip()

    def _write(self, stream: TextIO, text: str) -> None:
        with self._lock:
            try:
                stream.write(text)
                stream.flush()
            except BrokenPipeError:
                # `pulumi ... | head` has read enough; the operation goes on and its result is in the state.
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
