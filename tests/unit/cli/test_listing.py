"""Tables in which names are never broken."""

import io

import pytest
from rich.console import Console

from headway.cli.listing import print_listing

NODE = "ip-10-20-133-201.us-west-2.compute.internal"
SENTENCE = "a fatal fault of the GPU (XID 79), reported by the agent on the node"


def printed(width: int) -> str:
    console = Console(width=width, file=io.StringIO())
    print_listing(console, ("node", "pool", "why"), [(NODE, "h100-reserved", SENTENCE)], sentences=("why",))
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_a_name_stands_in_one_line_however_narrow_the_terminal(width: int) -> None:
    said = printed(width)
    assert NODE in said and "h100-reserved" in said
    assert all(word in said for word in SENTENCE.split())


def test_sentences_wrap_so_that_lines_fit_where_names_do() -> None:
    assert max(map(len, printed(80).splitlines())) <= 80
