"""The walls of `make weaken`: each row of docs/security.md can be weakened, each weakening names its text once, and what tells noticed from broken."""

import ast
from xml.etree import ElementTree

import pytest

from tests.mutation.copying import CHECKOUT
from tests.mutation.walls import PAGE, WallRow, chosen, noticed, rows, weakened
from tests.mutation.weakenings import WEAKENINGS

ROWS = {row.attack: row for row in rows(PAGE.read_text(encoding="utf-8"))}


def test_every_wall_of_the_page_has_a_weakening_and_no_other_has() -> None:
    assert set(ROWS) == set(WEAKENINGS)
    assert all(WEAKENINGS.values())


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.attack[:50])
def test_each_weakening_says_once_what_it_opens_and_leaves_a_program(row: WallRow) -> None:
    for by in WEAKENINGS[row.attack]:
        text = (CHECKOUT / (by.file or row.wall)).read_text(encoding="utf-8")
        assert ast.dump(ast.parse(weakened(text, by))) != ast.dump(ast.parse(text)), by.says


def test_a_text_that_stands_twice_weakens_nothing() -> None:
    (by, *_) = WEAKENINGS["Keep others' pods away"]
    with pytest.raises(ValueError, match="stands 2 times"):
        weakened(by.old * 2, by)


def test_weakenings_are_chosen_by_words_of_their_wall_or_their_own() -> None:
    known = list(ROWS.values())
    assert [row.wall for row in chosen(known, ["QUOTAS.PY", "small values"])] == ["components/tenant/quotas.py", "headway/bounded_json.py"]
    assert sum(map(len, chosen(known, []).values())) == sum(map(len, WEAKENINGS.values()))


@pytest.mark.parametrize(
    ("kind", "message", "found"),
    [
        ("failure", "assert 1 == 2", True),
        ("failure", "AssertionError: still", True),
        ("failure", "Failed: DID NOT RAISE &lt;class&gt;", True),
        ("error", "failed on setup with &quot;AssertionError: still", True),
        ("failure", "NameError: name", False),
        ("failure", "Failed: Timeout (&gt;600.0s)", False),
        ("error", "collection failure", False),
        ("skipped", "assert nothing", False),
    ],
)
def test_only_what_a_test_asserts_counts_as_noticed(kind: str, message: str, found: bool) -> None:
    report = ElementTree.fromstring(f'<testsuite><testcase><{kind} message="{message}"/></testcase></testsuite>')
    assert noticed(report)[0] is found
