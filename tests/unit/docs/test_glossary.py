"""The glossary against the code: every name is where the page says, and no public class has its name in two packages without a reason."""

import ast
import re
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
ONE_HOUSE = ("headway", "components", "stacks", "policies", "sandbox")
"""Packages that share one vocabulary. The distributions in `packages/` have one of their own."""
APART = ("components/model_service/scripts/", "headway/release/earlier_gates/gate_")
"""Programs that run inside containers, each by itself; and gates of earlier versions, which have today's names."""
TERM = re.compile(r"^\| ([^|`]+) \| [^|]+ \| `([^`]+)` \| `([^`]+)` \|$", re.MULTILINE)
SHARED = re.compile(r"^\| `(\w+)` \| ((?:`[\w/]+`(?:, )?)+) \| [^|]{10,} \|$", re.MULTILINE)
TERMS = TERM.findall(TEXT)


@cache
def names(file: Path) -> frozenset[str]:
    """What the module defines at its top level."""
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return frozenset(found)


def package(file: str) -> str:
    """`headway/release/gate/gate.py` is of the package `headway/release/gate`."""
    return str(Path(file).parent)


def classes() -> dict[str, set[str]]:
    """Name of each public class of the house -> packages that define one."""
    listed = subprocess.run(
        ["git", "ls-files", *(f"{each}/*.py" for each in ONE_HOUSE)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found: dict[str, set[str]] = defaultdict(set)
    for file in listed.stdout.split():
        if file.startswith(APART) or not (ROOT / file).exists():
            continue
        for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(package(file))
    return found


def test_the_page_is_read() -> None:
    assert len(TERMS) > 60
    assert len(TERMS) == len(re.findall(r"^\| (?!term|-)[^`|]+ \|.*\|$", TEXT, re.MULTILINE)) - TEXT.count("| name | rooms | why |")


def test_no_term_is_explained_twice() -> None:
    words = [term for term, _, _ in TERMS]
    assert sorted({word for word in words if words.count(word) > 1}) == []


@pytest.mark.parametrize(("term", "name", "room"), TERMS, ids=[term for term, _, _ in TERMS])
def test_the_name_of_a_term_is_in_its_room(term: str, name: str, room: str) -> None:
    place = ROOT / room
    files = [place] if place.suffix == ".py" else sorted(place.rglob("*.py"))
    assert files, f"{term}: there is no {room}"
    assert any(name in names(file) for file in files), f"{term}: {room} defines no {name}"


def test_no_public_class_has_its_name_in_two_packages() -> None:
    excused = {name: set(re.findall(r"`([\w/]+)`", rooms)) for name, rooms in SHARED.findall(TEXT)}
    twice = {name: sorted(rooms) for name, rooms in classes().items() if len(rooms) > 1 and not rooms <= excused.get(name, set())}
    assert twice == {}, "give one of them a qualifier, or say in docs/glossary.md why they share the name"


def test_no_excuse_outlives_its_reason() -> None:
    found = classes()
    assert [name for name, _ in SHARED.findall(TEXT) if len(found.get(name, ())) < 2] == []
