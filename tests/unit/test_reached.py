"""`make check` runs every test that a change can reach, and says so."""

from collections.abc import Mapping
from functools import cache

import pytest

from tests import reached, watched
from tests.reached import Checkout, Choice

TEST = "tests/unit/test_it.py"
OTHER = "tests/unit/test_other.py"


def checkout(files: Mapping[str, str]) -> Checkout:
    """A checkout with another test, which names nothing, and a page that nobody names."""
    there = {OTHER: "", "page.md": "", **files}
    return Checkout(frozenset(there), lambda path: there[path])


@pytest.mark.parametrize(
    "line",
    [
        "import house.room",
        "from house import room",
        "from house.room import thing",
        "def late():\n    import house.room",
        "if TYPE_CHECKING:\n    from house.room import Thing",
        "import_module('house.room')",
        "import_module(f'house.{name}')",
        "monkeypatch.setattr('house.room.thing', 1)",
        "run(['python', '-m', 'house.room'])",
        "runpy.run_path(ROOT / 'house' / 'room.py')",
        "runpy.run_path(Path(__file__).with_name('room.py'))",
        "PROJECT.rglob('*.py')",
    ],
)
def test_what_a_test_names_as_code_chooses_it(line: str) -> None:
    here = checkout({TEST: line, "house/__init__.py": "", "house/room.py": ""})
    assert here.choice(frozenset({"house/room.py"})).tests == (TEST,)


@pytest.mark.parametrize(
    "line",
    [
        "(ROOT / 'pages' / 'guide' / name).read_text()",
        "(ROOT / 'pages/guide' / f'{name}.md').read_text()",
        "open('pages/guide/first.md')",
        "page('first.md')",
        "FOLDER.glob('*.md')",
        "read(f'{name}.md')",
        "git('ls-files', 'pages/*')",
        "CASES = ['guide/first.md']",
        "for each in ('pages', 'rest'): copytree(ROOT / each, folder)",
    ],
)
def test_what_a_test_names_as_a_path_chooses_it(line: str) -> None:
    here = checkout({TEST: line, "pages/guide/first.md": ""})
    assert here.choice(frozenset({"pages/guide/first.md"})).tests == (TEST,)


def test_what_is_named_by_what_a_test_imports_chooses_it() -> None:
    files = {
        TEST: "from house import room",
        "house/__init__.py": "",
        "house/room.py": "from . import data",
        "house/data.py": "read('a.yaml')",
    }
    here = checkout({**files, "house/a.yaml": ""})
    for changed in ("house/__init__.py", "house/data.py", "house/a.yaml"):
        assert here.choice(frozenset({changed})).tests == (TEST,)


def test_what_loads_entry_points_reaches_their_modules() -> None:
    points = "[project.entry-points.'house.guests']\none = 'guest.room:make'\n"
    here = checkout({TEST: "import house", "house.py": "entry_points(group='house.guests')", "pyproject.toml": points, "guest/room.py": ""})
    assert here.choice(frozenset({"guest/room.py"})).tests == (TEST,)


def test_a_program_in_a_folder_is_followed() -> None:
    here = checkout({TEST: "serve(ROOT / 'pack')", "pack/__main__.py": "import rules", "pack/rules.py": ""})
    assert here.choice(frozenset({"pack/rules.py"})).tests == (TEST,)


def test_a_conftest_concerns_the_tests_below_it() -> None:
    here = checkout({TEST: "", "tests/unit/conftest.py": "import house", "tests/policies/test_far.py": "", "house.py": ""})
    assert here.choice(frozenset({"house.py"})).tests == (TEST, OTHER)


def test_what_only_reads_code_as_text_does_not_run_what_that_imports() -> None:
    here = checkout({TEST: "PROJECT.rglob('*.py')", "house.py": "read('a.yaml')", "a.yaml": "", OTHER: "import house"})
    assert here.choice(frozenset({"a.yaml"})).tests == (OTHER,)


def test_types_concern_what_changed_and_whoever_imports_it_however_far() -> None:
    here = checkout({"house/a.py": "x = 1", "house/b.py": "from house import a", "house/c.py": "import house.b", TEST: "import house.c"})
    assert here.typed(frozenset({"house/a.py"})) == {"house/a.py", "house/b.py", "house/c.py", TEST}
    assert here.typed(frozenset({"house/c.py"})) == {"house/c.py", TEST}


def test_types_concern_who_imports_what_is_gone() -> None:
    here = Checkout(frozenset({"house/a.py", TEST}), {"house/a.py": "", TEST: "import house.a"}.__getitem__)
    assert here.typed(frozenset({"house/a.py"})) == {TEST}


@pytest.mark.parametrize("changed", [set[str](), {"pyproject.toml"}, {"requirements/dev.txt"}, {"tests/pyrightconfig.json"}])
def test_types_concern_every_file_where_nothing_or_the_checker_changed(changed: set[str]) -> None:
    assert checkout({TEST: "import house.a", "house/a.py": "x = 1"}).typed(frozenset(changed)) is None


def test_what_is_gone_chooses_whoever_names_it() -> None:
    here = Checkout(frozenset({TEST, OTHER, "house.py"}), {TEST: "import house", OTHER: "", "house.py": ""}.__getitem__)
    assert here.choice(frozenset({"house.py"})).tests == (TEST,)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (set[str](), "nothing differs"),
        ({"page.md", TEST}, "no test names page.md"),
        ({"Makefile", TEST}, "Makefile concerns every test"),
        ({"requirements/dev.txt"}, "requirements/dev.txt concerns every test"),
        ({"tests/conftest.py"}, "tests/conftest.py concerns every test"),
    ],
)
def test_where_nothing_can_be_concluded_every_test_is_chosen(changed: set[str], why: str) -> None:
    assert checkout({TEST: ""}).choice(frozenset(changed)) == Choice((TEST, OTHER), why)


def test_without_the_commit_every_test_is_chosen_and_the_line_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    reached.main("no-such-commit")
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == len(reached.checkout().tests)
    assert "(there is no commit no-such-commit); all: make unit" in said.err


@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ("tenants/vision/defects.yaml", "tests/components/test_golden_manifests.py"),
        ("stacks/Pulumi.dev-platform.yaml", "tests/components/stacks/test_program.py"),
        ("stacks/platform.py", "tests/components/stacks/test_program.py"),
        ("docs/guide/releases.md", "tests/unit/docs/test_pages.py"),
        ("policies/guardrails/rights.py", "tests/policies/test_packs.py"),
        ("headway/cli/doctor.py", "tests/unit/doctor/test_doctor.py"),
        ("components/model_service/scripts/probe.py", "tests/components/model_service/test_probe.py"),
        ("tests/unit/ledger/stored_events.jsonl", "tests/unit/ledger/test_stored_events.py"),
    ],
)
def test_a_change_of_this_checkout_chooses_the_test_that_fails_for_it(changed: str, test: str) -> None:
    assert test in here().choice(frozenset({changed})).tests


def test_a_change_of_one_room_leaves_most_tests_out() -> None:
    assert len(here().choice(frozenset({"components/addons/loki.py"})).tests) < len(here().tests) / 2


def test_a_file_that_was_opened_and_would_not_choose_its_test_is_named() -> None:
    there = checkout({TEST: "import house", "house.py": "", "hidden.yaml": "", "hidden.py": ""})
    opened = {"house.py", "hidden.yaml", "__pycache__/hidden.cpython-311.pyc", "elsewhere.txt"}
    assert watched.overlooked(TEST, {f"{watched.TOP}{each}" for each in opened}, there) == ["hidden.py", "hidden.yaml"]


@cache
def here() -> Checkout:
    """This checkout, read once."""
    return reached.checkout()
