"""A finding: what is wrong where, what follows from it, what to do. The only form in which contract mistakes reach people and machines."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import cast

from headway.contract.part import Path


@unique
class Level(StrEnum):
    """error: the contract is refused. warning: accepted, and somebody should know."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """`line` and `column` count from 1; 0 where the finding concerns the whole file or folder."""

    rule: str
    file: str
    """Relative to the checked folder, with forward slashes."""
    line: int = 0
    column: int = 0
    path: Path = ()
    value: str = ""
    """The offending value as written, shortened; empty where none is."""
    fact: str
    consequence: str
    remedy: str
    level: Level = Level.ERROR

    @property
    def place(self) -> str:
        """`file:line:column`, as editors understand it."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    @property
    def dotted(self) -> str:
        """The path as `health.golden[0].file`."""
        return dotted(self.path)

    @property
    def order(self) -> tuple[object, ...]:
        """Sorts findings by place, then rule and text."""
        return (self.file, self.line, self.column, self.dotted, self.rule, self.fact)


def dotted(path: Path) -> str:
    """A path as people write it; keys that hold dots are put in quotes."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif "." in part or not part:
            text += f'["{part}"]'
        else:
            text += f".{part}" if text else part
    return text


def sentence(text: str) -> str:
    """`text` with a full stop, unless it is none or ends already."""
    return text if not text or text.endswith((".", "?", ":")) else f"{text}."


def _flow(value: object) -> str:
    """As YAML would have it on one line."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_flow, cast(list[object], value)))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_flow(each)}' for key, each in cast(Mapping[object, object], value).items())}}}"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def shown(value: object, limit: int = 60) -> str:
    """A value on one line, printable on any terminal, shortened."""
    text = _flow(value)
    text = "".join(c if c.isprintable() and not 0xD800 <= ord(c) <= 0xDFFF else repr(c)[1:-1] for c in text[: limit + 1])
    return text if len(text) <= limit else text[: limit - 3] + "..."
