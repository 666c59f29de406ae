"""Verbs that make, list, move, rename, tag and remove stacks, driven as any client of the Automation API drives them."""

import json
from pathlib import Path
from typing import Any

import pytest
from pulumi import automation as auto
from pulumi.automation.errors import CommandError, ConcurrentUpdateError, StackAlreadyExistsError, StackNotFoundError

from engine.place import Place
from pulumi_embedded.engine.lock import held
from pulumi_embedded.engine.secrets import Passphrase

MARKER = "marker-7Qx2-in-the-clear"
COMMITTED = "# reviewed\nconfig:\n  proj:size: 3\n"


# ---- stacks --------------------------------------------------------------------------------------------------------------------------


def test_the_sdk_tells_a_missing_stack_and_an_existing_one_apart(place: Place) -> None:
    with pytest.raises(StackNotFoundError):
        auto.Stack.select("dev", place.workspace)
    auto.Stack.create("dev", place.workspace)
    with pytest.raises(StackAlreadyExistsError):
        auto.Stack.create("dev", place.workspace)
    assert auto.Stack.create_or_select("dev", place.workspace).name == "dev"


def test_making_a_stack_leaves_its_committed_configuration_file_alone(place: Place) -> None:
    place.config_file.write_text(COMMITTED)
    place.run("stack", "init", "dev")
    assert place.config_file.read_text() == COMMITTED


def test_making_a_stack_makes_no_configuration_file(place: Place) -> None:
    place.run("stack", "init", "dev")
    assert not place.config_file.exists()


def test_a_stack_whose_file_has_a_salt_uses_that_salt_in_its_state_too(place: Place) -> None:
    passphrase = Passphrase.new("pw")
    place.config_file.write_text(f"encryptionsalt: {passphrase.salt}\nconfig:\n  proj:token:\n    secure: {passphrase.encrypt(MARKER)}\n")
    place.run("stack", "init", "dev")
    assert place.json("stack", "export")["deployment"]["secrets_providers"]["state"]["salt"] == passphrase.salt
    assert place.run("config", "get", "token") == MARKER


def test_a_wrong_passphrase_is_told_before_anything_is_made(place: Place) -> None:
    place.config_file.write_text(f"encryptionsalt: {Passphrase.new('another').salt}\n")
    assert "incorrect passphrase" in place.fails("stack", "init", "dev")
    assert place.run("stack", "ls", "--json") == "[]"


def test_the_backend_is_marked_as_the_layout_with_projects(place: Place) -> None:
    place.run("stack", "init", "dev")
    assert (place.backend / ".pulumi/meta.yaml").read_text() == "version: 1\n"


def test_stacks_are_listed_with_what_the_sdk_reads(place: Place) -> None:
    for name in ("b", "a"):
        place.run("stack", "init", name)
    listed = place.workspace.list_stacks()
    assert [(entry.name, entry.current, entry.update_in_progress, entry.resource_count) for entry in listed] == [
        ("a", True, False, 0),
        ("b", False, False, 0),
    ]


def test_a_running_operation_shows_in_the_list(place: Place) -> None:
    place.run("stack", "init", "dev")
    with held(place.backend / ".pulumi/stacks/proj/dev.json", "dev", "update", lambda: None):
        assert place.json("stack", "ls", "--json")[0]["updateInProgress"] is True


def test_the_selected_stack_is_the_default_and_the_environment_goes_before_it(place: Place) -> None:
    for name in ("a", "b"):
        place.run("stack", "init", name)
    assert place.run("stack", "--show-name") == "b"
    assert place.run("stack", "--show-name", PULUMI_STACK="a") == "a"
    place.run("stack", "select", "a")
    assert place.run("stack", "--show-name") == "a"


@pytest.mark.parametrize("name", ["a b", "../evil", "acme/proj/dev", "a/b", "x" * 101, ".."])
def test_a_name_that_is_no_stack_name_is_refused(place: Place, name: str) -> None:
    assert "stack name" in place.fails("stack", "init", name)
    assert not (place.backend / ".pulumi").exists()


def test_a_removed_stack_leaves_nothing_behind(place: Place) -> None:
    place.run("stack", "init", "dev")
    place.run("config", "set", "a", "1")
    place.run("stack", "rm", "--yes", "dev")
    assert [name for name in place.files() if "dev" in Path(name).name] == []
    assert "no stack selected" in place.fails("stack")


def test_removing_a_stack_can_keep_its_configuration(place: Place) -> None:
    place.config_file.write_text(COMMITTED)
    place.run("stack", "init", "dev")
    place.run("stack", "rm", "--yes", "--preserve-config", "dev")
    assert place.config_file.read_text() == COMMITTED


def test_nothing_is_removed_without_a_yes(place: Place) -> None:
    place.run("stack", "init", "dev")
    assert "non-interactive mode requires --yes flag" in place.fails("stack", "rm", "dev")
    assert len(place.json("stack", "ls", "--json")) == 1


# ---- import, export, rename ----------------------------------------------------------------------------------------------------------

SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "plaintext": json.dumps(MARKER)}
ROOT_URN = "urn:pulumi:dev::proj::pulumi:pulumi:Stack::proj-dev"
PROVIDER_URN = "urn:pulumi:dev::proj::pulumi:providers:k8s::default"
THING_URN = "urn:pulumi:dev::proj::k8s:core:Thing::t"


def deployment() -> dict[str, Any]:
    return {
        "version": 3,
        "deployment": {
            "manifest": {"time": "2026-01-01T00:00:00Z", "magic": "", "version": ""},
            "resources": [
                {
                    "urn": ROOT_URN,
                    "type": "pulumi:pulumi:Stack",
                    "custom": False,
                    "outputs": {"url": "http://x", "token": SECRET, "deep": {"t": SECRET}},
                },
                {"urn": PROVIDER_URN, "type": "pulumi:providers:k8s", "custom": True, "id": "p1"},
                {
                    "urn": THING_URN,
                    "type": "k8s:core:Thing",
                    "custom": True,
                    "id": "i",
                    "parent": ROOT_URN,
                    "provider": f"{PROVIDER_URN}::p1",
                    "dependencies": [ROOT_URN],
                    "inputs": {
                        "ref": {"4dabf18193072939515e22adb298388d": "5cf8f73096256a8f31e491e813e4eb8e", "urn": THING_URN, "id": "i"}
                    },
                },
            ],
        },
    }


def imported(place: Place, document: dict[str, Any], *flags: str) -> str:
    file = place.project / "in.json"
    file.write_text(json.dumps(document))
    text = place.run("stack", "import", "--file", str(file), *flags)
    file.unlink()
    return text


def test_outputs_are_masked_exactly_as_the_sdk_compares_them(place: Place, stack: auto.Stack) -> None:
    imported(place, deployment())
    assert place.json("stack", "output", "--json") == {"url": "http://x", "token": "[secret]", "deep": {"t": "[secret]"}}
    outputs = stack.outputs()
    assert (outputs["url"].value, outputs["url"].secret) == ("http://x", False)
    assert (outputs["token"].value, outputs["token"].secret) == (MARKER, True)


def test_one_output_can_be_asked_for_by_name(place: Place, stack: auto.Stack) -> None:
    imported(place, deployment())
    assert place.run("stack", "output", "url") == "http://x"
    assert place.run("stack", "output", "token") == "[secret]"
    assert place.run("stack", "output", "token", "--show-secrets") == MARKER
    assert "does not have output property 'nope'; it has deep, token, url" in place.fails("stack", "output", "nope")


def test_what_is_exported_can_be_imported_again_into_another_backend(place: Place, stack: auto.Stack, tmp_path: Path) -> None:
    imported(place, deployment())
    taken = stack.export_stack()
    other = Place(tmp_path / "other")
    other.command = place.command
    auto.Stack.create("dev", other.workspace).import_stack(taken)
    shown = [place.json("stack", "export", "--show-secrets"), other.json("stack", "export", "--show-secrets")]
    assert shown[0]["deployment"]["resources"] == shown[1]["deployment"]["resources"]


def test_ciphertexts_of_another_stack_are_opened_with_their_own_salt(place: Place, stack: auto.Stack) -> None:
    foreign = Passphrase.new("pw")
    document = deployment()
    sealed = {**SECRET, "ciphertext": foreign.encrypt(json.dumps(MARKER))}
    del sealed["plaintext"]
    document["deployment"]["resources"][0]["outputs"] = {"token": sealed}
    document["deployment"]["secrets_providers"] = {"type": "passphrase", "state": {"salt": foreign.salt}}
    imported(place, document)
    assert place.run("stack", "output", "token", "--show-secrets") == MARKER


def test_an_imported_secret_is_in_no_file_in_the_clear(place: Place, stack: auto.Stack) -> None:
    imported(place, deployment())
    assert [name for name, text in place.files().items() if MARKER in text] == []
    assert MARKER not in place.run("stack", "export")
    assert MARKER in place.run("stack", "export", "--show-secrets")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=2), "version: deployment version 2 is not supported"),
        (lambda d: d["deployment"]["resources"].pop(1), "its provider .* is missing"),
        (lambda d: d["deployment"]["resources"].pop(0), "its parent .* is missing"),
        (lambda d: d["deployment"]["resources"].append(d["deployment"]["resources"][0]), "appears twice"),
        (lambda d: d["deployment"]["resources"][2].update(custom="yes"), r"resources\[2\]\.custom: expected true or false"),
        (lambda d: d["deployment"]["resources"][2].update(taint=True), r"resources\[2\]\.taint: not supported"),
        (lambda d: d["deployment"]["resources"][2].update(urn="urn:pulumi:prod::proj::k8s:core:Thing::t"), "belong to a different stack"),
    ],
)
def test_a_deployment_that_does_not_fit_is_refused_and_changes_nothing(place: Place, stack: auto.Stack, change: Any, message: str) -> None:
    imported(place, deployment())
    before = place.json("stack", "export")["deployment"]["resources"]
    document = deployment()
    change(document)
    with pytest.raises(CommandError, match=message):
        imported(place, document)
    assert place.json("stack", "export")["deployment"]["resources"] == before


def test_pending_operations_are_dropped_by_an_import_and_named(place: Place, stack: auto.Stack) -> None:
    document = deployment()
    document["deployment"]["pending_operations"] = [{"type": "creating", "resource": document["deployment"]["resources"][2]}]
    assert f"removing pending operation 'creating' on '{THING_URN}'" in imported(place, document)
    assert "pending_operations" not in place.json("stack", "export")["deployment"]


def test_a_rename_moves_state_configuration_history_and_every_name(place: Place, stack: auto.Stack) -> None:
    imported(place, deployment())
    place.run("config", "set", "a", "1")
    place.run("stack", "rename", "prod", "--stack", "dev")
    text = json.dumps(place.json("stack", "export", "--stack", "prod"))
    assert "urn:pulumi:dev" not in text
    assert "urn:pulumi:prod::proj::pulumi:pulumi:Stack::proj-prod" in text
    assert place.run("config", "get", "a", "--stack", "prod") == "1"
    assert "no stack named 'dev' found" in place.fails("stack", "--stack", "dev")
    assert place.run("stack", "--show-name") == "prod"


def test_a_locked_stack_is_not_imported_renamed_or_removed(place: Place, stack: auto.Stack) -> None:
    file = place.project / "in.json"
    file.write_text(json.dumps(deployment()))
    with held(place.backend / ".pulumi/stacks/proj/dev.json", "dev", "update", lambda: None):
        for args in (["stack", "import", "--file", str(file)], ["stack", "rename", "prod"], ["stack", "rm", "--yes", "dev"]):
            with pytest.raises(ConcurrentUpdateError, match=r"currently locked by .*pid"):
                place.run(*args)


# ---- tags ----------------------------------------------------------------------------------------------------------------------------


def test_tags_are_set_read_and_removed_by_the_automation_api(stack: auto.Stack) -> None:
    workspace = stack.workspace
    workspace.set_tag("dev", "owner", "vision")
    workspace.set_tag("dev", "cost", "42 %")
    assert workspace.list_tags("dev") == {"cost": "42 %", "owner": "vision"}
    assert workspace.get_tag("dev", "owner") == "vision"
    workspace.remove_tag("dev", "owner")
    assert workspace.list_tags("dev") == {"cost": "42 %"}


def test_tags_follow_their_stack_to_a_new_name_and_go_with_it(place: Place, stack: auto.Stack) -> None:
    stack.workspace.set_tag("dev", "owner", "vision")
    place.run("stack", "rename", "later", "--stack", "dev")
    assert place.json("stack", "tag", "ls", "--json", "--stack", "later") == {"owner": "vision"}
    place.run("stack", "rm", "--yes", "later")
    place.run("stack", "init", "later")
    assert place.json("stack", "tag", "ls", "--json", "--stack", "later") == {}
