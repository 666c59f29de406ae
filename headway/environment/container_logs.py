"""What containers print: what is asked for, and who reads it. Production reads Loki (`loki.py`), a stand-in what it has."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol


@dataclass(frozen=True, kw_only=True)
class LogQuery:
    """Which lines. Empty texts mean all; `until` None means that lines still come."""

    tenant: str
    model: str = ""
    release: str = ""
    pod: str = ""
    """The beginning of a pod's name."""
    container: str = ""
    since: datetime
    until: datetime | None = None
    most: int
    """Lines at once: the newest."""


class LogLine(NamedTuple):
    """One line. `time` is None where nobody wrote it down."""

    time: datetime | None
    pod: str
    container: str
    text: str


class LogReader(Protocol):
    """Reads lines that a query asks for."""

    def read(self) -> Sequence[LogLine]:
        """At first the newest lines, then those that came since; the oldest first. Raises OutOfReachError."""
        ...
