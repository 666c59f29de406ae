"""What a state holds: one entry for each object, in order, with no secret readable, as Pulumi publishes its format."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import ValidationError

from engine.published_schema import validator
from engine.states import MARKER, PASSPHRASE, PREFIX, PROVIDER, edit, names, read, resource
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.model import PendingKind
from pulumi_embedded.engine.state import StackState, journal_of
from pulumi_embedded.engine.values import ASSET, REFERENCE, SIGNATURE, secret

# ---- identity and order --------------------------------------------------------------------------------------------------------------


def test_what_others_need_comes_before_them_in_the_checkpoint(path: Path) -> None:
    state = edit(path)
    child = resource(
        "child", parent=f"{PREFIX}k8s:core:Thing::parent", provider=f"{PROVIDER}::p1", dependencies=(f"{PREFIX}k8s:core:Thing::dep",)
    )
    for entry in (child, resource("parent"), resource("dep"), resource("default", type="pulumi:providers:k8s", id="p1")):
        state.put(entry)
    state.save()
    order = [entry["urn"].rsplit("::", 1)[-1] for entry in json.loads(path.read_text())["checkpoint"]["latest"]["resources"]]
    assert order.index("child") == 3


def test_twins_of_one_urn_are_kept_apart_until_each_is_removed(path: Path) -> None:
    state = edit(path)
    old = resource("a", id="old")
    state.put(old)
    doomed = replace(old, delete=True)
    state.put(doomed, was=old)
    state.put(resource("a", id="new"))
    assert {(entry.id, entry.delete) for entry in read(path).resources} == {("old", True), ("new", False)}
    state.remove(doomed)
    assert [(entry.id, entry.delete) for entry in read(path).resources] == [("new", False)]


def test_two_doomed_twins_with_different_ids_are_kept_apart(path: Path) -> None:
    state = edit(path)
    for id in ("one", "two"):
        state.put(resource("a", id=id, delete=True))
    state.remove(resource("a", id="one", delete=True))
    assert [entry.id for entry in read(path).resources] == ["two"]


def test_a_rename_leaves_no_entry_under_the_old_name(path: Path) -> None:
    state = edit(path)
    state.put(resource("old"))
    state.put(resource("new"), was=resource("old"))
    assert names(read(path)) == ["new"]


# ---- secrets -------------------------------------------------------------------------------------------------------------------------


def test_secrets_are_in_no_file_in_plain_text_and_come_back_whole(path: Path) -> None:
    state = edit(path)
    entry = resource("a", inputs={"deep": [{"key": secret({"user": "u", "token": MARKER})}]}, outputs={"token": secret(MARKER)})
    state.begin("creating", entry)
    state.put(entry)
    assert MARKER not in journal_of(path).read_text()
    assert read(path).resources == (entry,)
    state.save()
    assert all(MARKER not in file.read_text() for file in path.parent.iterdir())
    assert read(path).resources == (entry,)


def test_an_unchanged_secret_keeps_its_ciphertext_when_its_resource_changes(path: Path) -> None:
    state = edit(path)
    state.put(resource("a", inputs={"token": secret(MARKER), "n": 1}))
    state.save()

    def ciphertext() -> str:
        return json.loads(path.read_text())["checkpoint"]["latest"]["resources"][0]["inputs"]["token"]["ciphertext"]

    before = ciphertext()
    again = edit(path)
    again.put(resource("a", inputs={"token": secret(MARKER), "n": 2}))
    again.save()
    assert ciphertext() == before


def test_the_same_secret_in_two_resources_does_not_look_the_same(path: Path) -> None:
    state = edit(path)
    for name in ("a", "b"):
        state.put(resource(name, inputs={"token": secret(MARKER)}))
    state.save()
    entries = json.loads(path.read_text())["checkpoint"]["latest"]["resources"]
    assert len({entry["inputs"]["token"]["ciphertext"] for entry in entries}) == 2


def test_an_operation_that_changes_nothing_leaves_the_file_untouched(path: Path) -> None:
    state = edit(path)
    state.put(resource("a", inputs={"token": secret({"b": 1, "a": MARKER})}))
    state.save()
    before, inode = path.read_bytes(), path.stat().st_ino
    again = edit(path)
    again.put(resource("a", inputs={"token": secret({"a": MARKER, "b": 1})}, modified="2030-01-01T00:00:00Z"))
    again.save()
    assert path.read_bytes() == before
    assert path.stat().st_ino == inode


def test_looking_without_a_passphrase_keeps_secrets_closed(path: Path) -> None:
    state = edit(path)
    state.put(resource("a", outputs={"token": secret(MARKER), "plain": 1}))
    closed = StackState.read(path).resources[0].outputs
    assert closed["plain"] == 1
    assert MARKER not in json.dumps(closed)


# ---- format --------------------------------------------------------------------------------------------------------------------------

PLAIN_USE = (
    resource("default", type="pulumi:providers:k8s", id="p1", inputs={"version": "4.34.2"}),
    resource("group", custom=False, id="", type="my:mod:Group"),
    resource(
        "full",
        provider=f"{PROVIDER}::p1",
        parent=f"{PREFIX}my:mod:Group::group",
        inputs={"a": [1, 2.5, None, True, {"b": "x"}], "token": secret("s"), "file": {SIGNATURE: ASSET, "path": "./x", "hash": "00"}},
        outputs={"ref": {SIGNATURE: REFERENCE, "urn": "u", "id": "i"}},
        dependencies=(f"{PREFIX}my:mod:Group::group",),
        property_dependencies={"a": (f"{PREFIX}my:mod:Group::group",)},
        protect=True,
        external=True,
        aliases=("urn:old",),
        custom_timeouts={"create": 300.0},
        import_id="x",
        init_errors=("never ready",),
        additional_secret_outputs=("token",),
        pending_replacement=True,
        created="2026-01-01T00:00:00Z",
    ),
    resource("doomed", delete=True),
)
UNLISTED_USE = resource(
    "unlisted",
    retain_on_delete=True,
    deleted_with=f"{PREFIX}k8s:core:Thing::full",
    ignore_changes=("a",),
    replace_on_changes=("b",),
    replacement_trigger={"n": secret(1)},
    resource_hooks={"beforeCreate": ("h",)},
)


def exported(state: StackState, *, show_secrets: bool = False) -> dict[str, Any]:
    return {"version": 3, "deployment": state.deployment(show_secrets=show_secrets)}


def test_a_deployment_is_valid_by_the_published_schema(path: Path) -> None:
    state = edit(path)
    for entry in PLAIN_USE:
        state.put(entry)
    state.begin("creating", resource("under way", id=""))
    validator().validate(exported(state))
    validator().validate(exported(state, show_secrets=True))
    state.save()
    validator().validate({"version": 3, "deployment": json.loads(path.read_text())["checkpoint"]["latest"]})


def test_options_outside_the_published_schema_are_written_only_when_used(path: Path) -> None:
    state = edit(path)
    state.put(UNLISTED_USE)
    validator(extended=True).validate(exported(state))
    with pytest.raises(ValidationError):
        validator().validate(exported(state))


def test_every_field_of_a_resource_survives_the_file(path: Path) -> None:
    state = edit(path)
    for entry in (*PLAIN_USE, UNLISTED_USE):
        state.put(entry)
    state.save()
    survived = {entry.urn: entry for entry in read(path).resources}
    for entry in (*PLAIN_USE, UNLISTED_USE):
        assert survived[entry.urn] == replace(entry, created="", modified="")


def test_the_file_is_pulumis_file_backend_checkpoint(path: Path) -> None:
    document = json.loads(path.read_text())
    assert document["version"] == 3
    assert document["checkpoint"]["stack"] == "organization/proj/dev"
    assert document["checkpoint"]["latest"]["secrets_providers"] == {"type": "passphrase", "state": {"salt": PASSPHRASE.salt}}


def test_an_unknown_checkpoint_version_is_refused(path: Path) -> None:
    path.write_text(path.read_text().replace('"version":3', '"version":4', 1))
    with pytest.raises(EngineError, match="version 4 is not supported"):
        read(path)


def test_three_thousand_resources_load_and_save_within_a_second_and_stay_small(path: Path) -> None:
    state = edit(path)
    spec = {
        "metadata": {"name": "x", "labels": {f"k{n}": "v" for n in range(10)}},
        "spec": {"containers": [{"image": "i", "args": ["a"] * 10}]},
    }
    state.replace_all(resource(f"r{number}", inputs=spec, outputs=spec) for number in range(3_000))
    start = time.process_time()
    loaded = edit(path)
    for entry in loaded.resources:
        loaded.put(entry)
    loaded.put(resource("one more"))
    loaded.save()
    assert time.process_time() - start < 1.5
    assert path.stat().st_size < 3_000 * 1_200


# ---- every history, cut anywhere -----------------------------------------------------------------------------------------------------

KINDS: list[PendingKind] = ["creating", "updating", "deleting", "reading"]
step = st.tuples(st.sampled_from(["begin", "put", "remove", "abandon", "save", "clear"]), st.sampled_from("abc"), st.integers(0, 2))


@settings(max_examples=60)
@given(st.lists(step, max_size=20))
def test_after_any_history_a_new_process_sees_what_the_old_one_saw(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, str, int]]
) -> None:
    path = tmp_path_factory.mktemp("state") / "dev.json"
    StackState.create(path, "organization/proj/dev", PASSPHRASE)
    state = edit(path)
    for action, name, number in history:
        entry = resource(name, inputs={"n": number, "s": secret(str(number))})
        match action:
            case "begin":
                state.begin(KINDS[number], entry)
            case "clear":
                state.clear_pending([KINDS[number]])
            case "save":
                state.save()
            case _:
                getattr(state, action)(entry)
        seen = read(path)
        assert sorted(seen.resources, key=lambda entry: entry.urn) == sorted(state.resources, key=lambda entry: entry.urn)
        assert sorted((pending.kind, pending.resource.urn) for pending in seen.pending) == sorted(
            (pending.kind, pending.resource.urn) for pending in state.pending
        )
    state.close()
