"""What the demonstration holds its releases to, and what it says of them."""

import ast
from pathlib import Path

import pytest

from sandbox.layout import Layout
from sandbox.traffic import stage
from sandbox.traffic.demo import STORY, WANTED, forget, main
from sandbox.traffic.stage import BEFORE_TRAFFIC, Ended

BUILD = Path(stage.__file__).parent / "models" / "build.py"


def ended(outcome: str, where: str) -> Ended:
    return Ended(release="errors", outcome=outcome, where=where, verdict="", seconds=1.0, users=0, number=1)


def test_every_release_that_is_built_has_an_end_that_it_should_have() -> None:
    (table,) = (
        node.value
        for node in ast.walk(ast.parse(BUILD.read_text()))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "RELEASES"
    )
    assert isinstance(table, ast.Dict)
    built = {key.value for key in table.keys if isinstance(key, ast.Constant)}
    assert built - {"stable"} == set(WANTED)
    assert set(STORY) <= set(WANTED)


@pytest.mark.parametrize(
    ("name", "found", "met"),
    [
        ("errors", ended("rolled back", "mirror 100%"), True),
        ("errors", ended("rolled back", "10%"), False),
        ("errors", ended("promoted", "all traffic"), False),
        ("wrong", ended("rolled back", BEFORE_TRAFFIC), True),
        ("wrong", ended("rolled back", "mirror 100%"), False),
        ("better", ended("promoted", "all traffic"), True),
        ("better", ended("not over", "50%"), False),
    ],
)
def test_a_release_that_is_caught_later_than_it_should_be_has_not_ended_as_it_should(name: str, found: Ended, met: bool) -> None:
    assert WANTED[name].met(found) is met


def test_a_release_that_does_not_exist_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["perfect"])
    assert ended.value.code == 2
    assert "no release perfect; choose from identical" in capsys.readouterr().err


def test_a_demonstration_begins_from_nothing_and_keeps_earlier_reports(tmp_path: Path) -> None:
    layout = Layout(project=tmp_path / "demo" / "checkout", state=tmp_path / "demo" / "state", cache=tmp_path / "cache")
    ledger, report = layout.ledger / "quality" / "1.json", tmp_path / "demo" / "reports" / "01-better.html"
    for path in (ledger, report):
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    forget(layout)
    forget(layout)
    assert not layout.state.exists()
    assert report.exists()
