"""The page of what is defended: each wall is there, and so are the tests that show it."""

from fnmatch import fnmatchcase

import pytest

from tests.mutation.copying import CHECKOUT
from tests.mutation.walls import PAGE, WallRow, rows

ROWS = list(rows(PAGE.read_text(encoding="utf-8")))


def test_the_page_has_its_table() -> None:
    assert len(ROWS) >= 20


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.attack[:50])
def test_each_attack_has_a_wall_and_tests_that_exist(row: WallRow) -> None:
    assert (CHECKOUT / row.wall).is_file(), row.wall
    for shown in row.tests:
        file, _, name = shown.partition("::")
        assert fnmatchcase(file, "*/test_*.py"), shown
        assert f"def {name}(" in (CHECKOUT / file).read_text(encoding="utf-8"), shown
