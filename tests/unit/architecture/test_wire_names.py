"""A name that two programs must agree on is spelled once, in `headway/wire.py`; scripts inside containers repeat it exactly."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway import wire

ROOT = Path(__file__).parents[3]
HOUSE = ("headway", "components", "stacks", "policies", "sandbox")
SCRIPTS = "components/model_service/scripts/"
"""Programs that run inside containers by themselves and cannot import; tests below hold the names in them."""
ALL_NAMES = {name: value for name, value in vars(wire).items() if name.isupper() and isinstance(value, str)}
NAMES = {name: value for name, value in ALL_NAMES.items() if not (value.isalpha() and value.islower())}
"""Without plain words such as `split`: a text that is only a word says nothing about who means it."""


def repeated(text: str) -> Iterator[tuple[int, str]]:
    """Lines of a program that spell a name again, docstrings aside, with the constant that has it."""
    tree = ast.parse(text)
    bodies = [body for node in ast.walk(tree) if isinstance(body := getattr(node, "body", None), list)]
    docstrings = {id(line.value) for body in bodies for line in body if isinstance(line, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            for name, value in NAMES.items():
                if node.value == value or (name == "PREFIX" and value in node.value):
                    yield node.lineno, name


def files() -> list[str]:
    found = (file.relative_to(ROOT).as_posix() for house in HOUSE for file in (ROOT / house).rglob("*.py"))
    return sorted(file for file in found if file != "headway/wire.py" and not file.startswith(SCRIPTS))


def test_no_name_on_the_wire_is_spelled_a_second_time() -> None:
    again = [f"{file}:{line} {name}" for file in files() for line, name in repeated((ROOT / file).read_text(encoding="utf-8"))]
    assert again == [], "import the name from headway.wire"


@pytest.mark.parametrize(
    "planted", ['HEADER = "x-model-release"\n', 'LABEL = f"sandbox.platform.io/{name}"\n', 'x = {"a": ["fetch.json"]}\n']
)
def test_a_name_that_is_spelled_again_is_found(planted: str) -> None:
    assert list(repeated(planted))
    assert not list(repeated('"""Says x-model-release."""\nHEADER = "x-other"\n'))


@pytest.mark.parametrize(("script", "name"), [("worker.py", "SCRIPTS_FOLDER"), ("fetch.py", "ARTIFACTS_PATH")])
def test_a_script_that_cannot_import_repeats_the_very_name(script: str, name: str) -> None:
    assert ALL_NAMES[name] in (ROOT / SCRIPTS / script).read_text(encoding="utf-8")
