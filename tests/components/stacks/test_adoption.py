"""The file of objects that are taken over after a lost state: what it may say, and what is refused before anything is planned."""

import json
from pathlib import Path
from typing import Any

import pytest

from stacks.adoption import AdoptedObject, adopt, adopted
from stacks.settings_error import SettingsError

ROLE = {"type": "aws:iam/role:Role", "name": "models-role", "id": "headway-dev-hello-models"}


def written(folder: Path, rows: Any) -> Path:
    file = folder / "dev-hello.json"
    file.write_text(json.dumps({"resources": rows}))
    return file


def test_a_row_names_an_object_by_type_and_name(tmp_path: Path) -> None:
    found = adopted(written(tmp_path, [ROLE, {**ROLE, "name": "other", "inputs": {"name": "other-1a2b3c4"}}]))
    assert found == {
        ("aws:iam/role:Role", "models-role"): AdoptedObject("headway-dev-hello-models"),
        ("aws:iam/role:Role", "other"): AdoptedObject("headway-dev-hello-models", {"name": "other-1a2b3c4"}),
    }


def test_a_stack_without_a_file_takes_nothing_over(tmp_path: Path) -> None:
    adopt("dev-hello", tmp_path)


@pytest.mark.parametrize("row", [{**ROLE, "id": ""}, {**ROLE, "id": "<PLACEHOLDER>"}, {"id": "x"}, "x", {**ROLE, "id": 7}])
def test_a_row_without_an_id_is_refused_by_its_place(tmp_path: Path, row: Any) -> None:
    with pytest.raises(SettingsError, match=r"resources\[1\]: Type, name or id is missing|resources\[1\]: type, name or id is missing"):
        adopted(written(tmp_path, [ROLE, row]))


def test_two_rows_of_one_object_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="has a row already"):
        adopted(written(tmp_path, [ROLE, {**ROLE, "id": "another"}]))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"resource": []}'])
def test_a_file_without_rows_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "dev-hello.json").write_text(text)
    with pytest.raises(SettingsError, match="it holds no rows"):
        adopted(tmp_path / "dev-hello.json")
