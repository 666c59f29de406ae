"""Steps that fail: what is kept, what is not started, what the next update does."""

import json
import threading
import time
from typing import Any

import pulumi
import pytest
from pulumi import automation as auto

from engine.conftest import Workspace, diagnostics, entry, names
from engine.doubles import Group, Thing
from pulumi_embedded.engine.provider import PartialFailureError, ProviderError

Options = pulumi.ResourceOptions


def forked() -> None:
    first = Thing("first", name="first")
    broken = Thing("broken", name="broken", opts=Options(depends_on=[first]))
    Thing("after", name="after", value=broken.arn)
    Thing("after-by-order", name="after-by-order", opts=Options(depends_on=[broken]))
    Thing("beside", name="beside", opts=Options(depends_on=[first]))


def test_a_failed_step_keeps_what_was_done_and_the_next_update_completes(engine_workspace: Workspace) -> None:
    world, events = engine_workspace.world, list[Any]()
    world.fail["create", "broken"] = ProviderError("no room left")
    stack = engine_workspace.stack(forked)
    with pytest.raises(auto.CommandError, match="no room left"):
        stack.up(on_event=events.append)
    assert "first" in names(stack) and not {"broken", "after", "after-by-order"} & set(names(stack))
    assert stack.export_stack().deployment.get("pending_operations") in (None, [])
    failed = [e.res_op_failed_event.metadata.urn.rsplit("::", 1)[-1] for e in events if e.res_op_failed_event]
    assert failed == ["broken"]
    assert not any("Resource monitor has terminated" in text for text in diagnostics(events)), "only the cause is told"
    world.fail.clear()
    assert stack.up().summary.result == "succeeded"
    assert sorted(world.live) == ["after", "after-by-order", "beside", "broken", "first"]


def test_continuing_on_errors_does_everything_that_does_not_depend_on_them(engine_workspace: Workspace) -> None:
    world = engine_workspace.world
    world.fail["create", "broken"] = ProviderError("no room left")
    stack = engine_workspace.stack(forked)
    with pytest.raises(auto.CommandError, match="no room left"):
        stack.up(continue_on_error=True)
    assert sorted(names(stack)) == ["beside", "first"]
    assert "after" not in world.names("create")


def test_nothing_is_deleted_after_a_failed_step_even_when_going_on(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(lambda: Thing("old") and None)
    stack.up()
    engine_workspace.world.fail["create", "broken"] = ProviderError("no room left")
    with pytest.raises(auto.CommandError):
        stack.up(program=forked, continue_on_error=True)
    assert "old" in names(stack) and engine_workspace.world.names("delete") == []


def test_a_failed_update_keeps_the_recorded_inputs(engine_workspace: Workspace) -> None:
    value = 1
    stack = engine_workspace.stack(lambda: Thing("a", name="a", value=value) and None)
    stack.up()
    engine_workspace.world.fail["update", "a"] = ProviderError("not now")
    value = 2
    with pytest.raises(auto.CommandError, match="not now"):
        stack.up()
    assert entry(stack, "a")["inputs"]["value"] == 1
    engine_workspace.world.fail.clear()
    assert stack.up().summary.resource_changes == {"same": 1, "update": 1}


def test_a_failed_delete_keeps_the_resource_and_what_it_stands_on(engine_workspace: Workspace) -> None:
    def program() -> None:
        base = Thing("base", name="base")
        Thing("stuck", name="stuck", value=base.arn)
        Thing("free", name="free")

    stack = engine_workspace.stack(program)
    stack.up()
    engine_workspace.world.fail["delete", "stuck"] = ProviderError("still in use")
    with pytest.raises(auto.CommandError, match="still in use"):
        stack.destroy()
    assert {"base", "stuck"} <= set(names(stack))
    assert "base" in engine_workspace.world.live
    engine_workspace.world.fail.clear()
    stack.destroy()
    assert names(stack) == []


def test_a_failed_replacement_keeps_the_old_object(engine_workspace: Workspace) -> None:
    zone = "a"
    stack = engine_workspace.stack(lambda: Thing("a", zone=zone) and None)
    stack.up()
    (before,) = engine_workspace.world.live
    zone = "b"
    engine_workspace.world.fail["create", "a"] = ProviderError("no room left")
    with pytest.raises(auto.CommandError):
        stack.up()
    assert entry(stack, "a")["id"] == before
    engine_workspace.world.fail.clear()
    assert stack.up().summary.resource_changes == {"same": 1, "replace": 1}
    assert before not in engine_workspace.world.live


def test_an_old_object_whose_deletion_failed_is_deleted_by_the_next_update(engine_workspace: Workspace) -> None:
    zone = "a"
    stack = engine_workspace.stack(lambda: Thing("a", zone=zone) and None)
    stack.up()
    zone = "b"
    engine_workspace.world.fail["delete", "a"] = ProviderError("still in use")
    with pytest.raises(auto.CommandError):
        stack.up()
    assert len(engine_workspace.world.live) == 2
    assert sorted(bool(each.get("delete")) for each in stack.export_stack().deployment["resources"] if each["urn"].endswith("::a")) == [
        False,
        True,
    ]
    engine_workspace.world.fail.clear()
    stack.up()
    assert len(engine_workspace.world.live) == 1
    assert stack.up().summary.resource_changes == {"same": 2}


def test_an_object_deleted_before_a_failed_replacement_is_made_again(engine_workspace: Workspace) -> None:
    zone = "a"
    stack = engine_workspace.stack(lambda: Thing("a", name="fixed", zone=zone) and None)
    stack.up()
    zone = "b"
    engine_workspace.world.fail["create", "a"] = ProviderError("no room left")
    with pytest.raises(auto.CommandError):
        stack.up()
    engine_workspace.world.fail.clear()
    stack.up()
    assert engine_workspace.world.live["fixed"]["zone"] == "b"
    assert stack.up().summary.resource_changes == {"same": 2}


def test_an_object_that_exists_but_is_not_ready_is_recorded_and_updated_again(engine_workspace: Workspace) -> None:
    world = engine_workspace.world
    world.fail["create", "a"] = PartialFailureError("a", {"name": "a", "arn": "arn:a"}, ["0/3 replicas", "image not found"])
    stack = engine_workspace.stack(lambda: Thing("a", name="a") and None)
    with pytest.raises(auto.CommandError, match="0/3 replicas; image not found"):
        stack.up()
    assert entry(stack, "a")["initErrors"] == ["0/3 replicas", "image not found"]
    assert entry(stack, "a")["id"] == "a"
    world.fail.clear()
    assert stack.up().summary.resource_changes == {"same": 1, "update": 1}
    assert "initErrors" not in entry(stack, "a")
    assert stack.up().summary.resource_changes == {"same": 2}


def test_what_depends_on_an_object_that_is_not_ready_is_not_started(engine_workspace: Workspace) -> None:
    world = engine_workspace.world
    world.fail["create", "broken"] = PartialFailureError("broken", {"name": "broken"}, ["not ready"])
    stack = engine_workspace.stack(forked)
    with pytest.raises(auto.CommandError, match="not ready"):
        stack.up(continue_on_error=True)
    assert sorted(names(stack)) == ["beside", "broken", "first"]


def test_a_defect_of_a_provider_is_told_by_its_kind_and_recorded_like_a_failure(engine_workspace: Workspace) -> None:
    engine_workspace.world.fail["create", "a"] = KeyError("oops")
    stack = engine_workspace.stack(lambda: Thing("a") and None)
    with pytest.raises(auto.CommandError, match="KeyError: 'oops'"):
        stack.up()
    assert names(stack) == []


def test_a_secret_in_a_providers_message_is_not_shown(engine_workspace: Workspace) -> None:
    printed: list[str] = []
    engine_workspace.world.fail["create", "a"] = ProviderError("password 'open-sesame-4711' is too short")
    stack = engine_workspace.stack(lambda: Thing("a", value=pulumi.Output.secret("open-sesame-4711")) and None)
    with pytest.raises(auto.CommandError) as raised:
        stack.up(on_output=printed.append)
    assert "is too short" in str(raised.value)
    assert "open-sesame-4711" not in str(raised.value) + "\n".join(printed)


def test_components_of_a_failed_run_are_kept_with_their_children(engine_workspace: Workspace) -> None:
    def program() -> None:
        group = Group("group")
        Thing("good", name="good", opts=Options(parent=group))
        Thing("broken", name="broken", opts=Options(parent=group, depends_on=[Thing("other", name="other")]))
        group.register_outputs({})

    engine_workspace.world.fail["create", "broken"] = ProviderError("no")
    stack = engine_workspace.stack(program)
    with pytest.raises(auto.CommandError):
        stack.up()
    assert {"group", "other"} <= set(names(stack))
    assert stack.destroy().summary.result == "succeeded"
    assert engine_workspace.world.live == {}


def test_others_may_refer_to_what_was_deleted_before_a_failed_replacement(engine_workspace: Workspace) -> None:
    zone = "a"

    def program() -> None:
        base = Thing("base", name="base", zone=zone)
        Thing("tied", name="tied", zone=base.arn)
        Thing("later", name="later", opts=Options(depends_on=[base]))

    stack = engine_workspace.stack(program)
    stack.up()
    zone = "b"
    engine_workspace.world.fail["create", "base"] = ProviderError("no room left")
    with pytest.raises(auto.CommandError, match="no room left"):
        stack.up()
    assert engine_workspace.world.live.keys() == {"later"}
    stack.import_stack(stack.export_stack())  # refuses a state with references to what is not there
    engine_workspace.world.fail.clear()
    stack.up()
    assert engine_workspace.world.live.keys() == {"base", "tied", "later"}
    assert stack.up().summary.resource_changes == {"same": 4}


def test_a_program_that_drops_what_was_deleted_ahead_leaves_no_trace_of_it(engine_workspace: Workspace) -> None:
    zone, full = "a", True

    def program() -> None:
        base = Thing("base", name="base", zone=zone)
        if full:
            Thing("tied", name="tied", zone=base.arn)

    stack = engine_workspace.stack(program)
    stack.up()
    zone, full = "b", False
    stack.up()
    assert (names(stack), list(engine_workspace.world.live)) == (["base"], ["base"])


def test_a_failed_update_after_a_rename_leaves_a_whole_state(engine_workspace: Workspace) -> None:
    def before() -> None:
        base = Thing("old", name="base")
        Thing("user", name="user", opts=Options(depends_on=[base]))

    def after() -> None:
        base = Thing("new", name="base", opts=Options(aliases=[pulumi.Alias(name="old")]))
        Thing("broken", name="broken", opts=Options(depends_on=[base]))

    stack = engine_workspace.stack(before)
    stack.up()
    engine_workspace.world.fail["create", "broken"] = ProviderError("no room left")
    with pytest.raises(auto.CommandError):
        stack.up(program=after)
    stack.import_stack(stack.export_stack())
    assert entry(stack, "user")["dependencies"] == [entry(stack, "new")["urn"]]


def pending(workspace: Workspace, name: str, kind: str) -> None:
    """Leave the trace of an operation that was interrupted."""
    file = workspace.folder / "backend/.pulumi/stacks/case/dev.json"
    saved = json.loads(file.read_text())
    resource = {"urn": f"urn:pulumi:dev::case::mem:index:Thing::{name}", "type": "mem:index:Thing", "custom": True, "inputs": {}}
    saved["checkpoint"]["latest"]["pending_operations"] = [{"resource": resource, "type": kind}]
    file.write_text(json.dumps(saved))


def test_interrupted_operations_are_told_and_a_repeated_creation_settles_them(engine_workspace: Workspace) -> None:
    events: list[Any] = []
    stack = engine_workspace.stack(lambda: None)
    stack.up()
    pending(engine_workspace, "a", "creating")
    stack.up(program=lambda: Thing("a", name="a") and None, on_event=events.append)
    told = diagnostics(events, "warning")
    assert len(told) == 1 and "Thing::a, interrupted while creating" in told[0]
    assert stack.export_stack().deployment.get("pending_operations") in (None, [])


def test_a_refresh_forgets_interrupted_creations_only_when_asked(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(lambda: None)
    stack.up()
    pending(engine_workspace, "a", "creating")
    stack.refresh()
    assert len(stack.export_stack().deployment["pending_operations"]) == 1
    stack.refresh(clear_pending_creates=True)
    assert stack.export_stack().deployment.get("pending_operations") in (None, [])
    pending(engine_workspace, "a", "updating")
    stack.refresh()
    assert stack.export_stack().deployment.get("pending_operations") in (None, [])


def test_steps_under_way_when_another_fails_are_finished_and_recorded(engine_workspace: Workspace) -> None:
    started = threading.Event()

    def during(method: str, name: str, step: Any) -> None:
        if name == "slow":
            started.set()
            time.sleep(2.5)
        elif name == "broken":
            assert started.wait(60)
            raise ProviderError("no room left")

    engine_workspace.world.during = during
    stack = engine_workspace.stack(lambda: [Thing("slow", name="slow"), Thing("broken", name="broken")])
    with pytest.raises(auto.CommandError, match="no room left"):
        stack.up()
    assert (names(stack), list(engine_workspace.world.live)) == (["slow"], ["slow"])
    assert stack.export_stack().deployment.get("pending_operations") in (None, [])


def test_a_provider_that_cannot_be_made_is_told_once_and_nothing_depends_on_it(engine_workspace: Workspace) -> None:
    events: list[Any] = []

    def program() -> None:
        first = Thing("first", name="first")
        Thing("second", name="second", value=first.arn)
        Thing("third", name="third")
        Group("group")

    stack = engine_workspace.stack(program)
    stack.set_config("mem:region", auto.ConfigValue("nowhere"))
    with pytest.raises(auto.CommandError):
        stack.up(continue_on_error=True, on_event=events.append)
    assert len([text for text in diagnostics(events) if "must not be nowhere" in text]) == 1
    assert len(diagnostics(events)) == 1
    assert names(stack) == ["group"]
    assert engine_workspace.world.calls == []
