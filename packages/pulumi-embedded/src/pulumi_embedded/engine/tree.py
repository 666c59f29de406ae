"""The resources of an operation as an aligned tree: who contains whom, what happens to each, and what changes in it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pulumi_embedded.engine.model import Op
from pulumi_embedded.engine.style import SYMBOLS, WORDS, Style, duration, shortened, shown_type

STATUS_WIDTH = 28
"""Columns kept for the symbol and the status."""


@dataclass
class Row:
    """What is known of one URN while an operation runs."""

    urn: str
    type: str
    parent: str = ""
    custom: bool = True
    op: Op = Op.SAME
    running: bool = False
    failed: bool = False
    begun: float = 0.0
    seconds: float = 0.0
    message: str = ""
    """What it waits for."""
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.urn.rsplit("::", 1)[-1]


@dataclass(frozen=True)
class _Placed:
    row: Row
    stem: str
    """The branches left of the type."""
    stem_below: str
    """The branches left of lines that belong to this row."""


def render(
    rows: Mapping[str, Row],
    shown: Iterable[str],
    details: Callable[[Row], list[str]],
    style: Style,
    *,
    planning: bool,
    width: int,
) -> list[str]:
    """The tree of the URNs in `shown` and of all that contains them, in about `width` columns; `details` gives the lines below a row."""
    placed = _place(rows, shown)
    if not placed:
        return []
    room = max(40, width - STATUS_WIDTH)
    types = [entry.stem + shortened(shown_type(entry.row.type), max(12, room * 3 // 5 - len(entry.stem))) for entry in placed]
    names = [shortened(entry.row.name, room * 2 // 5) for entry in placed]
    type_width = max(len("Type"), *map(len, types)) + 2
    name_width = max(len("Name"), *map(len, names)) + 2
    head = f"     {'Type':<{type_width}}{'Name':<{name_width}}{'Plan' if planning else 'Status'}"
    lines = [style.paint(head.rstrip(), "bold")]
    for entry, type, name in zip(placed, types, names, strict=True):
        row = entry.row
        symbol = f" {SYMBOLS[row.op]:<4}"
        words = _status(row, planning=planning)
        text = f"{type:<{type_width}}{name:<{name_width}}"
        if row.failed:
            lines.append(f"{style.paint(symbol, 'alarm')}{text}{style.paint(words, 'alarm')}".rstrip())
        elif row.op is Op.SAME:
            lines.append(style.paint(f"{symbol}{text}{words}".rstrip(), "dim"))
        else:
            lines.append(f"{style.op(symbol, row.op)}{text}{style.op(words, row.op)}".rstrip())
        lines += [f"     {style.paint(entry.stem_below, 'dim')}    {line}" for line in details(row)]
    return lines


def _status(row: Row, *, planning: bool) -> str:
    running, planned, done, _ = WORDS[row.op]
    words = f"{running} failed" if row.failed else planned if planning else running if row.running else done
    if not planning and row.seconds >= 1 and row.op is not Op.SAME:
        words = f"{words} ({duration(row.seconds)})"
    return "; ".join(part for part in (words, *row.notes) if part)


def _place(rows: Mapping[str, Row], shown: Iterable[str]) -> list[_Placed]:
    wanted: set[str] = set()
    for urn in shown:
        at = urn
        while at in rows and at not in wanted:
            wanted.add(at)
            at = rows[at].parent
    children: dict[str, list[Row]] = {}
    for urn in wanted:
        row = rows[urn]
        children.setdefault(row.parent if row.parent in wanted else "", []).append(row)
    for siblings in children.values():
        siblings.sort(key=lambda row: (row.type != "pulumi:pulumi:Stack", row.type, row.name, row.urn))
    placed: list[_Placed] = []
    stack = [(row, "", "") for row in reversed(children.get("", []))]
    while stack:
        row, stem, below = stack.pop()
        inside = children.get(row.urn, [])
        placed.append(_Placed(row, stem, below + ("│  " if inside else "")))
        for index, child in reversed(list(enumerate(inside))):
            last = index == len(inside) - 1
            stack.append((child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")))
    return placed
