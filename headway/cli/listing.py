"""Tables on a terminal, in which a name is one word that can be copied: it is never broken, however narrow the terminal."""

from collections.abc import Collection, Iterable, Sequence

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table

_UNBOUNDED = 10_000


def print_listing(
    console: Console,
    columns: Sequence[str],
    rows: Iterable[Sequence[RenderableType]],
    *,
    sentences: Collection[str] = (),
    style: str = "dim",
) -> None:
    """Columns in `sentences` wrap between words; all others hold names. Where even names do not fit, lines are longer than the terminal."""
    table = Table(box=None, pad_edge=False, header_style=style)
    for column in columns:
        table.add_column(column, no_wrap=column not in sentences, overflow="fold")
    for row in rows:
        table.add_row(*row)
    needed = Measurement.get(console, console.options.update(max_width=_UNBOUNDED), table).minimum
    wide = Console(file=console.file, width=max(console.width, needed), highlight=False, color_system=console.color_system)  # type: ignore[arg-type]
    wide.print(table)
