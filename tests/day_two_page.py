"""`docs/guide/day-two.md` as its tests read it: the lines that a person types, below each heading."""

import re
from collections.abc import Mapping
from pathlib import Path

TEXT = (Path(__file__).parents[1] / "docs" / "guide" / "day-two.md").read_text(encoding="utf-8")


def sections() -> Mapping[str, tuple[str, ...]]:
    """Lines of the blocks without a language, by heading, without what a `#` says behind them."""
    found: dict[str, tuple[str, ...]] = {}
    for section in TEXT.split("\n## ")[1:]:
        heading, _, body = section.partition("\n")
        blocks = re.findall(r"^```(\w*)\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
        lines = (line.partition(" #")[0].strip() for language, block in blocks if not language for line in block.splitlines())
        found[heading] = tuple(line for line in lines if line)
    return found


def commands(heading: str, stack: str) -> list[str]:
    """The `pulumi` commands for `stack` below a heading; fails where there is none."""
    found = [line for line in sections()[heading] if re.search(rf"(^|[ |])pulumi .*{stack}( |$)", line)]
    assert found, f"the page has no command for {stack} below {heading}"
    return found
