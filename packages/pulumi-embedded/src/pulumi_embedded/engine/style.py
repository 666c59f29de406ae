"""Symbols and words of operations, and how durations, long texts and types are written."""

from typing import Final

from pulumi_embedded.engine.model import Op

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
