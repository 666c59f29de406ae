"""The resources of an operation, indented: who contains whom, what happens to each, and what changes in it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pulumi_embedded.engine.model import Op
from pulumi_embedded.engine.style import SYMBOLS, WORDS, duration, shown_type


@dataclass
class TreeRow:
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


def render(rows: Mapping[str, TreeRow], shown: Iterable[str], details: Callable[[TreeRow], list[str]], *, planning: bool) -> list[str]:
    """The URNs in `shown` and all that contains them, indented by depth; `details` gives the lines below a row."""
    placed = _place(rows, shown)
    if not placed:
        return []
    types = ["  " * depth + shown_type(row.type) for depth, row in placed]
    type_width = max(len("Type"), *map(len, types)) + 2
    name_width = max(len("Name"), *(len(row.name) for _, row in placed)) + 2
    lines = [f"     {'Type':<{type_width}}{'Name':<{name_width}}{'Plan' if planning else 'Status'}"]
    for (depth, row), type in zip(placed, types, strict=True):
        lines.append(f" {SYMBOLS[row.op]:<4}{type:<{type_width}}{row.name:<{name_width}}{_status(row, planning=planning)}".rstrip())
        lines += [f"     {'  ' * (depth + 2)}{line}" for line in details(row)]
    return lines


def _status(row: TreeRow, *, planning: bool) -> str:
    running, planned, done, _ = WORDS[row.op]
    words = f"{running} failed" if row.failed else planned if planning else running if row.running else done
    if not planning and row.seconds >= 1 and row.op is not Op.SAME:
        words = f"{words} ({duration(row.seconds)})"
    return "; ".join(part for part in (words, *row.notes) if part)


def _place(rows: Mapping[str, TreeRow], shown: Iterable[str]) -> list[tuple[int, TreeRow]]:
    """Rows with their depth, in the order of the tree."""
    wanted: set[str] = set()
    for urn in shown:
        at = urn
        while at in rows and at not in wanted:
            wanted.add(at)
            at = rows[at].parent
    children: dict[str, list[TreeRow]] = {}
    for urn in wanted:
        row = rows[urn]
        children.setdefault(row.parent if row.parent in wanted else "", []).append(row)
    for siblings in children.values():
        siblings.sort(key=lambda row: (row.type != "pulumi:pulumi:Stack", row.type, row.name, row.urn), reverse=True)
    placed: list[tuple[int, TreeRow]] = []
    stack = [(0, row) for row in children.get("", [])]
    while stack:
        depth, row = stack.pop()
        placed.append((depth, row))
        stack += [(depth + 1, child) for child in children.get(row.urn, [])]
    return placed
