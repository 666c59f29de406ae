"""Configuration: what the program is given, and that editing a file changes what was asked and nothing else."""

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulumi_embedded.engine.config import full_key, read_settings, resolve, split_path
from pulumi_embedded.engine.config_file import ConfigFile, Sealed
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.workspace import Project, find_project, read_project

PROJECT = Project(file=Path("/nowhere/Pulumi.yaml"), name="proj", runtime="python")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "stacks" / "Pulumi.dev.yaml"


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(text))
    return file


def texts(file: Path, project: Project = PROJECT) -> dict[str, str]:
    return {key: value.text for key, value in resolve(project, read_settings(file), "dev", lambda sealed: f"opened {sealed}").items()}


# ---- what the program sees -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("text", "text"),
        ("'3'", "3"),
        ("3", "3"),
        ("010", "10"),
        ("0x1F", "31"),
        ("1.5", "1.5"),
        ("true", "true"),
        ("False", "false"),
        ("yes", "yes"),
        ("off", "off"),
        ("12:30", "12:30"),
        ("2024-01-31", "2024-01-31"),
        ("1_000", "1_000"),
        ("", ""),
        ("[a, 1, true]", '["a",1,true]'),
        ("{b: 1, a: {c: [2]}}", '{"a":{"c":[2]},"b":1}'),
    ],
)
def test_every_value_reaches_the_program_as_pulumi_writes_it(file: Path, written: str, seen: str) -> None:
    assert texts(write(file, f"config:\n  proj:key: {written}\n")) == {"proj:key": seen}


def test_a_key_without_a_namespace_belongs_to_the_project(file: Path) -> None:
    assert texts(write(file, "config:\n  key: 1\n  aws:region: eu-west-1\n")) == {"proj:key": "1", "aws:region": "eu-west-1"}


def test_a_structure_with_a_secret_inside_is_secret_as_a_whole(file: Path) -> None:
    settings = read_settings(write(file, "config:\n  db: {user: u, password: {secure: v1:x:y}}\n  open: {a: 1}\n"))
    values = resolve(PROJECT, settings, "dev", lambda sealed: "opened")
    assert (values["proj:db"].text, values["proj:db"].secret) == ('{"password":"opened","user":"u"}', True)
    assert not values["proj:open"].secret


def test_without_the_passphrase_secrets_stay_masked(file: Path) -> None:
    settings = read_settings(write(file, "config:\n  a: {secure: v1:x:y}\n  db: {user: u, password: {secure: v1:x:y}}\n"))
    assert {value.text for value in resolve(PROJECT, settings, "dev", None).values()} == {"[secret]"}


def test_a_missing_file_is_an_empty_configuration(file: Path) -> None:
    assert texts(file) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("config:\n  a: [1\n", "Pulumi.dev.yaml: line 3, column 1"),
        ("- a\n", "expected a mapping with `config`"),
        ("config: [1]\n", "`config` must be a mapping"),
        ("config:\n  a: 1\n  a: 2\n", "the key a appears twice"),
        ("secretsprovider: awskms://x\n", "secretsprovider 'awskms://x' is not supported"),
        ("environment: [prod]\n", "`environment` .* is not supported"),
        ("config:\n  a:b:c: 1\n", "configuration key 'a:b:c'"),
    ],
)
def test_a_broken_file_is_refused_with_the_place_and_the_reason(file: Path, text: str, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        texts(write(file, text))


def test_defaults_of_the_project_apply_where_the_stack_is_silent(file: Path) -> None:
    project = Project(
        file=PROJECT.file,
        name="proj",
        runtime="python",
        config={"size": {"type": "integer", "default": 3}, "zone": "a", "aws:region": "eu"},
    )
    assert texts(write(file, "config:\n  zone: b\n"), project) == {"proj:size": "3", "proj:zone": "b", "aws:region": "eu"}


def test_declared_values_that_are_missing_or_mistyped_are_named_all_at_once(file: Path) -> None:
    project = Project(file=PROJECT.file, name="proj", runtime="python", config={"size": {"type": "integer"}, "on": {"type": "boolean"}})
    with pytest.raises(EngineError, match=r"missing configuration value 'size'.*'on' must be of type 'boolean'"):
        texts(write(file, "config:\n  on: maybe\n"), project)


# ---- keys and paths ------------------------------------------------------------------------------------------------------------------


def test_the_older_three_part_key_means_the_two_part_one() -> None:
    assert full_key("aws:config:region", "proj") == "aws:region"


@pytest.mark.parametrize(
    ("text", "key", "path"),
    [
        ("a", "proj:a", ()),
        ("ns:a", "ns:a", ()),
        ("a.b[0].c", "proj:a", ("b", 0, "c")),
        ('ns:a["x.y"].z', "ns:a", ("x.y", "z")),
        ('a["b:c"]', "proj:a", ("b:c",)),
    ],
)
def test_a_path_is_read_as_pulumi_reads_it(text: str, key: str, path: tuple[Any, ...]) -> None:
    assert split_path(text, "proj") == (key, path)


@pytest.mark.parametrize("text", ["a[", "a[x]", "[0].a", 'a["b', "a..b", ""])
def test_a_malformed_path_is_refused(text: str) -> None:
    with pytest.raises(EngineError, match="configuration key"):
        split_path(text, "proj")


# ---- editing -------------------------------------------------------------------------------------------------------------------------

COMMENTED = """\
# Who may change this: the platform team.
config:
  # Regions are fixed at birth.
  aws:region: "eu-west-1"   # Ireland
  proj:pools:
    - name: l4      # small models
      max: 4
  proj:flag: yes
"""


def test_setting_a_value_keeps_comments_order_and_quotes(file: Path) -> None:
    edited = ConfigFile(write(file, COMMENTED), "proj")
    edited.set("proj:pools", (0, "max"), "8")
    edited.set("proj:new", (), "text")
    edited.save()
    assert file.read_text() == COMMENTED.replace("max: 4", "max: 8") + "  proj:new: text\n"


def test_lists_keep_the_indentation_that_the_file_has(file: Path) -> None:
    text = "config:\n  proj:pools:\n  - name: l4\n  - name: a100\n"
    edited = ConfigFile(write(file, text), "proj")
    edited.set("proj:new", (), "x")
    edited.save()
    assert file.read_text() == text + "  proj:new: x\n"


def test_removing_a_value_leaves_the_rest_alone(file: Path) -> None:
    edited = ConfigFile(write(file, COMMENTED), "proj")
    edited.remove("proj:flag", ())
    edited.save()
    assert file.read_text() == COMMENTED.replace("  proj:flag: yes\n", "")


def test_a_key_is_edited_under_the_spelling_that_the_file_has(file: Path) -> None:
    edited = ConfigFile(write(file, "config:\n  size: 1\n"), "proj")
    edited.set("proj:size", (), "2")
    edited.save()
    assert file.read_text() == 'config:\n  size: "2"\n'


@pytest.mark.parametrize(
    ("value", "stored"), [("true", True), ("12", 12), ("-3", -3), ("012", "012"), ("1.5", "1.5"), ("x", "x"), ("", "")]
)
def test_a_value_at_a_path_is_typed_by_its_looks(file: Path, value: str, stored: Any) -> None:
    edited = ConfigFile(file, "proj")
    edited.set("proj:a", ("b", 0), value)
    edited.save()
    assert read_settings(file).values == {"proj:a": {"b": [stored]}}


@given(value=st.text(st.characters(blacklist_categories=["Cs", "Cc"])))
def test_a_value_without_a_path_is_a_string_whatever_it_looks_like(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    file = tmp_path_factory.mktemp("config") / "Pulumi.dev.yaml"
    edited = ConfigFile(file, "proj")
    edited.set("proj:a", (), value)
    edited.save()
    assert read_settings(file).values == {"proj:a": value}


def test_a_secret_is_stored_as_ciphertext_with_its_salt(file: Path) -> None:
    edited = ConfigFile(write(file, COMMENTED), "proj")
    edited.set_salt("v1:salt")
    edited.set("proj:db", ("password",), Sealed("v1:nonce:sealed"))
    edited.save()
    assert read_settings(file).salt == "v1:salt"
    assert read_settings(file).values["proj:db"] == {"password": {"secure": "v1:nonce:sealed"}}


def test_a_list_grows_only_at_its_end(file: Path) -> None:
    edited = ConfigFile(write(file, COMMENTED), "proj")
    edited.set("proj:pools", (1, "name"), "a100")
    with pytest.raises(EngineError, match="index 5 is past the end of a list of 2"):
        edited.set("proj:pools", (5,), "x")


def test_the_word_secure_is_reserved(file: Path) -> None:
    with pytest.raises(EngineError, match="`secure` is reserved"):
        ConfigFile(file, "proj").set("proj:a", ("secure",), "x")


def test_removing_from_a_list_closes_the_gap(file: Path) -> None:
    edited = ConfigFile(write(file, "config:\n  proj:a: [x, y, z]\n"), "proj")
    edited.remove("proj:a", (1,))
    edited.save()
    assert read_settings(file).values == {"proj:a": ["x", "z"]}


def test_removing_what_is_not_there_changes_nothing(file: Path) -> None:
    edited = ConfigFile(write(file, COMMENTED), "proj")
    edited.remove("proj:nothing", ("a", 1))
    edited.save()
    assert file.read_text() == COMMENTED


# ---- the project ---------------------------------------------------------------------------------------------------------------------


def test_the_project_is_found_from_a_folder_below_it(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: proj\nruntime: python\n")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    project = find_project(below)
    assert project is not None
    assert project.folder == tmp_path


def test_the_stack_file_lies_in_the_folder_that_the_project_names(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: proj\nruntime: {name: python, options: {virtualenv: .venv}}\nstackConfigDir: stacks\n")
    project = read_project(tmp_path / "Pulumi.yaml")
    assert project.stack_file("dev") == tmp_path / "stacks" / "Pulumi.dev.yaml"
    assert project.runtime_options == {"virtualenv": ".venv"}


def test_every_fault_of_a_project_file_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text(json.dumps({"runtime": 3, "main": 1, "plugins": {"providers": [1]}}))
    with pytest.raises(EngineError, match="is not a valid project") as caught:
        read_project(tmp_path / "Pulumi.yaml")
    for key in ("name:", "runtime:", "main:", "plugins:"):
        assert key in str(caught.value)
