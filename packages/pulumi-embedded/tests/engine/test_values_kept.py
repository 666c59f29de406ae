"""Secrets, unknowns, assets and references: values that are more than their text, from the program through state and back."""

import json
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi import automation as auto

from engine.conftest import Workspace, entry
from engine.doubles import MemProvider, Thing

Options = pulumi.ResourceOptions
MARKER = "marker-in-the-clear-4711"


def everything_written(workspace: Workspace) -> str:
    return "\n".join(path.read_text(errors="replace") for path in workspace.folder.rglob("*") if path.is_file())


def test_secrets_are_nowhere_in_clear_text(engine_workspace: Workspace) -> None:
    events: list[Any] = []
    printed: list[str] = []

    def program() -> None:
        Thing("direct", value=pulumi.Output.secret(MARKER))
        nested = Thing("nested", value={"list": [1, {"deep": pulumi.Config().require_secret("token")}]})
        Thing("derived", value=nested.value.apply(lambda value: value["list"][1]["deep"] + "!"))
        Thing("named-output", value="x", opts=Options(additional_secret_outputs=["arn"]))
        pulumi.export("secret", pulumi.Output.secret({"inside": MARKER}))

    stack = engine_workspace.stack(program)
    stack.set_config("token", auto.ConfigValue(MARKER, secret=True))
    stack.preview(on_event=events.append, on_output=printed.append)
    done = stack.up(on_event=events.append, on_output=printed.append)
    assert MARKER not in everything_written(engine_workspace)
    assert MARKER not in json.dumps([event.__dict__ for event in events], default=lambda value: getattr(value, "__dict__", str(value)))
    assert MARKER not in "\n".join(printed)
    assert engine_workspace.world.object("derived")["value"] == MARKER + "!", "the provider gets the value itself"
    assert done.outputs["secret"].secret and done.outputs["secret"].value == {"inside": MARKER}


def test_secretness_survives_an_update_that_changes_nothing(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(lambda: Thing("a", value=[pulumi.Output.secret("hidden"), "open"]) and None)
    stack.up()
    before = entry(stack, "a")["outputs"]["value"]
    assert stack.up().summary.resource_changes == {"same": 2}
    assert entry(stack, "a")["outputs"]["value"] == before
    assert "hidden" in json.dumps(before) and "plaintext" in json.dumps(before), "exported with its secret shown"


def test_an_output_named_as_secret_is_one(engine_workspace: Workspace) -> None:
    def program() -> None:
        pulumi.export("arn", Thing("a", opts=Options(additional_secret_outputs=["arn"])).arn)

    assert engine_workspace.stack(program).up().outputs["arn"].secret is True


def test_a_refresh_keeps_secrets_secret(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(lambda: Thing("a", name="a", value=pulumi.Output.secret("hidden")) and None)
    stack.up()
    engine_workspace.world.live["a"] = {**engine_workspace.world.live["a"], "value": MARKER}
    stack.refresh()
    assert MARKER not in everything_written(engine_workspace)


def test_what_is_not_known_in_a_preview_never_reads_as_nothing(engine_workspace: Workspace) -> None:
    seen: dict[str, Any] = {}

    def program() -> None:
        a = Thing("a", name="a", value={"given": 1})
        pulumi.Output.all(a.arn).apply(lambda values: seen.update(arn=values))
        a.status.apply(lambda status: seen.update(status=status))
        a.name.apply(lambda name: seen.update(name=name))
        a.value.apply(lambda value: seen.update(value=value))
        a.id.apply(lambda found: seen.update(id=found))

    engine_workspace.stack(program).preview()
    assert seen == {"name": "a", "value": {"given": 1}}, "computed outputs are unknown, inputs are known"


def test_resources_of_a_provider_that_is_not_configured_yet_are_planned(engine_workspace: Workspace) -> None:
    seen: dict[str, Any] = {}

    def program() -> None:
        cluster = Thing("cluster")
        provider = MemProvider("inner", region=cluster.arn)
        inner = Thing("inner-thing", name="n", value=1, opts=Options(provider=provider))
        inner.name.apply(lambda name: seen.update(name=name))
        inner.status["name"].apply(lambda name: seen.update(nested=name))
        inner.status["uid"].apply(lambda uid: seen.update(uid=uid))
        inner.arn.apply(lambda arn: seen.update(arn=arn))
        said = pulumi.runtime.invoke_output("mem:index:echo", {"say": "hello"}, pulumi.InvokeOptions(provider=provider))
        said.apply(lambda result: seen.update(said=result["said"]))

    stack = engine_workspace.stack(program)
    assert stack.preview().change_summary == {"create": 4}
    assert seen == {"name": "n", "nested": "n"}
    stack.up()
    assert seen == {"name": "n", "nested": "n", "uid": "uid-n", "arn": "arn:n", "said": "hello"}
    assert engine_workspace.world.object("n")["region"].startswith("arn:cluster-")
    assert stack.preview().change_summary == {"same": 4}


def test_a_provider_without_a_plan_leaves_fields_that_may_be_computed_unknown() -> None:
    from pulumi_embedded.engine.provider import UNKNOWN, Provider

    plan = Provider.plan(None, "t", {"flat": 1, "list": [1, 2], "map": {"a": 1}, "maps": [{"a": 1}]}, None)  # type: ignore[arg-type]
    assert plan == {"flat": 1, "list": [1, 2], "map": UNKNOWN, "maps": UNKNOWN}


def test_a_changed_file_is_a_change_of_the_asset(engine_workspace: Workspace, tmp_path: Path) -> None:
    file = tmp_path / "model.txt"
    file.write_text("one")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "inner.txt").write_text("one")

    def program() -> None:
        Thing("file", value=pulumi.FileAsset(str(file)))
        Thing("text", value=pulumi.StringAsset("hello"))
        Thing("archive", value=pulumi.AssetArchive({"a": pulumi.FileAsset(str(file)), "b": pulumi.StringAsset("x")}))
        Thing("tree", value=pulumi.FileArchive(str(tmp_path / "tree")))

    stack = engine_workspace.stack(program)
    stack.up()
    assert stack.up().summary.resource_changes == {"same": 5}
    file.write_text("two")
    assert stack.up().summary.resource_changes == {"same": 3, "update": 2}
    (tmp_path / "tree" / "inner.txt").write_text("two")
    assert stack.up().summary.resource_changes == {"same": 4, "update": 1}


def test_a_file_that_is_missing_is_named(engine_workspace: Workspace) -> None:
    with pytest.raises(auto.CommandError, match="no-such-file of an asset cannot be read: No such file"):
        engine_workspace.stack(lambda: Thing("a", value=pulumi.FileAsset("/no-such-file")) and None).up()


def test_a_stack_reference_gives_plain_and_secret_outputs(engine_workspace: Workspace) -> None:
    def below() -> None:
        pulumi.export("plain", "open")
        pulumi.export("hidden", pulumi.Output.secret("closed"))

    def above() -> None:
        other = pulumi.StackReference("organization/below/dev")
        pulumi.export("plain", other.require_output("plain"))
        pulumi.export("hidden", other.require_output("hidden"))

    engine_workspace.stack(below, project="below").up()
    stack = engine_workspace.stack(above, project="above")
    assert stack.preview().change_summary == {"create": 1, "read": 1}
    outputs = stack.up().outputs
    assert (outputs["plain"].value, outputs["plain"].secret) == ("open", False)
    assert (outputs["hidden"].value, outputs["hidden"].secret) == ("closed", True)


def test_an_unknown_stack_is_named(engine_workspace: Workspace) -> None:
    def program() -> None:
        pulumi.export("x", pulumi.StackReference("organization/none/none").require_output("x"))

    with pytest.raises(auto.CommandError, match="unknown stack 'organization/none/none'"):
        engine_workspace.stack(program).up()


def test_a_function_answers_and_sees_plain_arguments(engine_workspace: Workspace) -> None:
    def program() -> None:
        known = pulumi.runtime.invoke("mem:index:echo", {"say": "hello"})
        pulumi.export("known", known.value["said"])
        later = Thing("a", name="a")
        pulumi.export("later", pulumi.runtime.invoke_output("mem:index:echo", {"say": later.arn}).apply(lambda r: r["said"]))

    stack = engine_workspace.stack(program)
    stack.preview()
    outputs = stack.up().outputs
    assert outputs["known"].value == "hello" and outputs["later"].value == "arn:a"


def test_an_unknown_function_is_named(engine_workspace: Workspace) -> None:
    with pytest.raises(auto.CommandError, match="function mem:index:nothing is not modelled by the mem double"):
        engine_workspace.stack(lambda: pulumi.runtime.invoke("mem:index:nothing", {}) and None).up()


def test_the_program_can_handle_a_function_that_fails(engine_workspace: Workspace) -> None:
    def program() -> None:
        try:
            pulumi.runtime.invoke("mem:index:nothing", {})
        except Exception:
            pulumi.export("handled", True)

    assert engine_workspace.stack(program).up().outputs["handled"].value is True


def test_a_resource_as_an_input_travels_as_a_reference(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(lambda: Thing("user", value=Thing("base", name="base")) and None)
    stack.up()
    given = engine_workspace.world.object("user")["value"]
    assert (given["urn"], given["id"]) == (entry(stack, "base")["urn"], "base")
    assert stack.up().summary.resource_changes == {"same": 3}
