"""Colours and symbols of operations, as Pulumi's own command line uses them; without colour, the plain text."""

from dataclasses import dataclass
from typing import Final

from pulumi_embedded.engine.model import Op

_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "alarm": "1;31",
    "title": "1;35",
}

SYMBOLS: Final = {
    Op.SAME: " ",
    Op.CREATE: "+",
    Op.UPDATE: "~",
    Op.DELETE: "-",
    Op.REPLACE: "+-",
    Op.CREATE_REPLACEMENT: "++",
    Op.DELETE_REPLACED: "--",
    Op.READ: ">",
    Op.REFRESH: "~",
    Op.DISCARD: "<",
    Op.IMPORT: "=",
}
COLOURS: Final = {
    Op.SAME: "dim",
    Op.CREATE: "green",
    Op.UPDATE: "yellow",
    Op.DELETE: "red",
    Op.REPLACE: "magenta",
    Op.CREATE_REPLACEMENT: "green",
    Op.DELETE_REPLACED: "red",
    Op.READ: "cyan",
    Op.REFRESH: "yellow",
    Op.DISCARD: "red",
    Op.IMPORT: "cyan",
}
WORDS: Final = {
    # While it runs; when it is planned; when it is done; in counts of what is done
    Op.SAME: ("checking", "", "", "unchanged"),
    Op.CREATE: ("creating", "create", "created", "created"),
    Op.UPDATE: ("updating", "update", "updated", "updated"),
    Op.DELETE: ("deleting", "delete", "deleted", "deleted"),
    Op.REPLACE: ("replacing", "replace", "replaced", "replaced"),
    Op.CREATE_REPLACEMENT: ("creating replacement", "create replacement", "created replacement", "created as replacement"),
    Op.DELETE_REPLACED: ("deleting original", "delete original", "deleted original", "deleted after replacement"),
    Op.READ: ("reading", "read", "read", "read"),
    Op.REFRESH: ("refreshing", "refresh", "refreshed", "refreshed"),
    Op.DISCARD: ("discarding", "discard", "discarded", "discarded"),
    Op.IMPORT: ("importing", "import", "imported", "imported"),
}


@dataclass(frozen=True)
class Style:
    colour: bool

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self.colour and text else text

    def op(self, text: str, op: Op) -> str:
        return self.paint(text, COLOURS[op])


def duration(seconds: float) -> str:
    """`0.4s`, `12s`, `3m04s`."""
    if seconds < 1:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    return f"{whole}s" if whole < 60 else f"{whole // 60}m{whole % 60:02d}s"


def shortened(text: str, width: int) -> str:
    """`text` in at most `width` characters, the middle left out."""
    if len(text) <= width:
        return text
    left = (width - 1) // 2
    return text[:left] + "…" + text[len(text) - (width - 1 - left) :]


def shown_type(type: str) -> str:
    """`aws:s3/bucket:Bucket` as `aws:s3:Bucket`: the middle only repeats the name."""
    package, _, rest = type.partition(":")
    module, colon, name = rest.rpartition(":")
    folder, slash, leaf = module.partition("/")
    repeats = slash and colon and leaf.lower() == name.lower()
    return f"{package}:{folder}:{name}" if repeats else type
