"""Refusals are sentences: fact, consequence and remedy each begin with a capital letter, a name, an option or a command."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
HOUSE = ("headway", "sandbox", "stacks")
FRAGMENT = re.compile(r"(?!git )[a-z]+[ ,:;.]")
"""A lower-case word at the beginning; git is a name."""


def refusals(text: str) -> Iterator[tuple[int, str]]:
    """Each part of a refusal that is written out, with its line; `…` stands for what is filled in."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "UserError":
            for part in node.args[:3]:
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value
                elif isinstance(part, ast.JoinedStr):
                    yield part.lineno, "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in part.values)


def test_no_part_of_a_refusal_begins_as_a_fragment() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}: {said}"
        for house in HOUSE
        for file in sorted((ROOT / house).rglob("*.py"))
        for line, said in refusals(file.read_text(encoding="utf-8"))
        if not said or FRAGMENT.match(said)
    ]
    assert found == []


def test_a_fragment_is_found_and_a_sentence_is_not() -> None:
    fragment, sentence = 'UserError("nothing was done", f"{who} failed.", "Run it again.")', 'UserError("--reason is empty.", "", "")'
    assert [said for _, said in refusals(fragment) if FRAGMENT.match(said)] == ["nothing was done"]
    assert not any(FRAGMENT.match(said) for _, said in refusals(sentence))
