"""The page of what is defended: each wall is there, and so is the test that shows it."""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip().strip("`") for cell in line.strip("|").split("|")]
    for line in PAGE.partition("## Which wall stops what")[2].partition("\n## ")[0].splitlines()
    if line.startswith("|")
][2:]


def test_the_page_has_its_table() -> None:
    assert len(ROWS) >= 20
    assert all(len(row) == 4 for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:50])
def test_each_attack_has_a_wall_and_a_test_that_exist(row: list[str]) -> None:
    _, _, wall, shown = row
    file, _, name = shown.partition("::")
    assert (ROOT / wall).is_file(), wall
    assert fnmatchcase(file, "*/test_*.py"), shown
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), shown
