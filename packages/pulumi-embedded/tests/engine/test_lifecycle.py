"""Create, keep, update, replace, remove, refresh, destroy: what a stack goes through, seen through the Automation API."""

import threading
import time

import pulumi
import pytest
from pulumi import automation as auto

from engine.conftest import Workspace, diagnostics, entry, names, operations
from engine.doubles import Group, MemProvider, Thing

Options = pulumi.ResourceOptions


def test_an_empty_program_creates_its_stack_and_then_keeps_it(any_workspace: Workspace) -> None:
    stack = any_workspace.stack(lambda: None)
    assert stack.preview().change_summary == {"create": 1}
    assert stack.up().summary.resource_changes == {"create": 1}
    assert stack.up().summary.resource_changes == {"same": 1}


def test_outputs_are_known_after_an_update_and_a_second_one_keeps_all(engine_workspace: Workspace) -> None:
    def program() -> None:
        group = Group("group")
        first = Thing("first", value=1, opts=Options(parent=group))
        second = Thing("second", value=first.arn)
        pulumi.export("arn", second.arn)
        pulumi.export("uid", first.status["uid"])

    stack = engine_workspace.stack(program)
    done = stack.up()
    assert done.summary.resource_changes == {"create": 4}
    assert done.outputs["arn"].value.startswith("arn:second-")
    assert done.outputs["uid"].value.startswith("uid-first-")
    assert stack.up().summary.resource_changes == {"same": 4}
    assert engine_workspace.world.names("create") == ["first", "second"]


def test_a_preview_changes_nothing(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(lambda: Thing("a", value=1) and None)
    assert stack.preview().change_summary == {"create": 2}
    assert engine_workspace.world.live == {}
    assert stack.export_stack().deployment.get("resources", []) == []


def test_a_changed_input_updates_that_resource_alone(engine_workspace: Workspace) -> None:
    value = 1

    def program() -> None:
        Thing("changing", value=value)
        Thing("steady", value=0)

    stack = engine_workspace.stack(program)
    stack.up()
    value = 2
    assert stack.up().summary.resource_changes == {"same": 2, "update": 1}
    assert engine_workspace.world.object("changing")["value"] == 2


def test_numbers_stay_whole_in_the_state(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(lambda: Thing("a", value={"whole": 3, "part": 2.5, "big": 2**40}) and None)
    stack.up()
    value = entry(stack, "a")["inputs"]["value"]
    assert value == {"whole": 3, "part": 2.5, "big": 2**40}
    assert isinstance(value["whole"], int)


def test_a_resource_that_left_the_program_is_deleted_after_what_depends_on_it(engine_workspace: Workspace) -> None:
    keep = True

    def program() -> None:
        if keep:
            base = Thing("base", value=1)
            middle = Thing("middle", value=base.arn)
            Thing("top", opts=Options(depends_on=[middle]))

    stack = engine_workspace.stack(program)
    stack.up()
    keep = False
    assert stack.up().summary.resource_changes == {"same": 1, "delete": 3}
    assert engine_workspace.world.names("delete") == ["top", "middle", "base"]
    assert engine_workspace.world.live == {}


def test_a_replacement_is_created_before_the_old_object_is_deleted(engine_workspace: Workspace) -> None:
    zone = "a"
    stack = engine_workspace.stack(lambda: Thing("moving", zone=zone) and None)
    stack.up()
    (before,) = engine_workspace.world.live
    zone = "b"
    engine_workspace.world.calls.clear()
    done = stack.up()
    assert done.summary.resource_changes == {"same": 1, "replace": 1}
    assert [call for call in engine_workspace.world.calls if call[0] != "read"] == [("create", "moving"), ("delete", "moving")]
    (after,) = engine_workspace.world.live
    assert after != before, "a replacement gets a name of its own"


def test_what_depends_on_a_replaced_resource_is_changed_before_the_old_one_goes(engine_workspace: Workspace) -> None:
    zone = "a"

    def program() -> None:
        base = Thing("base", zone=zone)
        Thing("user", value=base.arn)

    stack = engine_workspace.stack(program)
    stack.up()
    zone = "b"
    engine_workspace.world.calls.clear()
    assert stack.up().summary.resource_changes == {"same": 1, "replace": 1, "update": 1}
    assert engine_workspace.world.calls == [("create", "base"), ("update", "user"), ("delete", "base")]


def test_an_object_whose_name_stays_is_deleted_before_its_replacement_is_made(engine_workspace: Workspace) -> None:
    zone = "a"
    events: list[object] = []
    stack = engine_workspace.stack(lambda: Thing("fixed", name="same-name", zone=zone) and None)
    stack.up()
    zone = "b"
    engine_workspace.world.calls.clear()
    stack.up(on_event=events.append)
    assert engine_workspace.world.calls == [("delete", "fixed"), ("create", "fixed")]
    assert [op for op, name in operations(events) if name == "fixed"] == ["delete-replaced", "replace", "create-replacement"]


def test_dependents_of_a_resource_that_is_deleted_first_go_before_it(engine_workspace: Workspace) -> None:
    zone = "a"

    def program() -> None:
        base = Thing("base", name="base", zone=zone)
        Thing("tied", name="tied", zone=base.arn, value=1)
        Thing("loose", value=base.arn)
        Thing("only-after", opts=Options(depends_on=[base]))

    stack = engine_workspace.stack(program)
    stack.up()
    zone = "b"
    engine_workspace.world.calls.clear()
    done = stack.up()
    assert engine_workspace.world.calls[:3] == [("delete", "tied"), ("delete", "base"), ("create", "base")]
    assert ("create", "tied") in engine_workspace.world.calls
    assert "only-after" not in {name for _, name in engine_workspace.world.calls}, "only a provider's word makes a dependant go too"
    assert done.summary.resource_changes == {"same": 3, "replace": 2}
    assert stack.up().summary.resource_changes == {"same": 5}


def test_destroy_leaves_neither_objects_nor_entries(engine_workspace: Workspace) -> None:
    def program() -> None:
        provider = MemProvider("own", region="x")
        base = Thing("base", opts=Options(provider=provider))
        Thing("top", value=base.arn)

    stack = engine_workspace.stack(program)
    stack.up()
    assert stack.destroy().summary.resource_changes == {"delete": 4}
    assert engine_workspace.world.live == {}
    assert engine_workspace.world.names("delete") == ["top", "base"]
    assert stack.export_stack().deployment.get("resources", []) == []


def test_independent_resources_are_deleted_at_the_same_time(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(lambda: [Thing(f"t{i}") for i in range(8)] and None)
    stack.up()
    engine_workspace.world.most_at_once = 0
    engine_workspace.world.during = lambda method, name, step: time.sleep(0.05)
    stack.destroy(parallel=4)
    assert engine_workspace.world.most_at_once == 4


def test_no_more_steps_run_at_once_than_asked_for(engine_workspace: Workspace) -> None:
    engine_workspace.world.during = lambda method, name, step: time.sleep(0.03)
    engine_workspace.stack(lambda: [Thing(f"t{i}") for i in range(9)] and None).up(parallel=3)
    assert engine_workspace.world.most_at_once == 3


def test_refresh_records_drift_and_the_next_update_repairs_it(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(lambda: Thing("a", name="a", value=1) and None)
    stack.up()
    assert stack.refresh().summary.resource_changes == {"same": 1}
    engine_workspace.world.live["a"] = {**engine_workspace.world.live["a"], "value": 9}
    assert stack.refresh().summary.resource_changes == {"update": 1}
    assert entry(stack, "a")["outputs"]["value"] == 9
    assert stack.up().summary.resource_changes == {"same": 1, "update": 1}
    assert engine_workspace.world.live["a"]["value"] == 1


def test_a_refresh_records_what_is_unready_and_the_next_update_repeats_it(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(lambda: Thing("a", name="a", value=1) and None)
    stack.up()
    engine_workspace.world.unready["a"] = "no replica answers"
    events: list[auto.EngineEvent] = []
    stack.refresh(on_event=events.append)
    (warning,) = diagnostics(events, "warning")
    assert "no replica answers" in warning
    assert entry(stack, "a")["initErrors"] == ["no replica answers"]
    engine_workspace.world.unready.clear()
    assert stack.up().summary.resource_changes == {"same": 1, "update": 1}
    assert "initErrors" not in entry(stack, "a")


def test_a_previewed_refresh_changes_neither_state_nor_objects(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(lambda: Thing("a", name="a", value=1) and None)
    stack.up()
    engine_workspace.world.live["a"] = {**engine_workspace.world.live["a"], "value": 9}
    before = stack.export_stack().deployment["resources"]
    assert stack.preview_refresh().change_summary == {"update": 1}
    assert stack.export_stack().deployment["resources"] == before


def test_a_refresh_names_what_an_update_would_undo_and_records_the_rest(engine_workspace: Workspace) -> None:
    """As RefreshStep of the real engine: an object's own report, and what ignoreChanges leaves to others, are no drift."""

    def program() -> None:
        Thing("changed", name="changed", value=1)
        Thing("scaled", name="scaled", value=1, opts=Options(ignore_changes=["value"]))
        Thing("reporting", name="reporting", value=1)

    stack = engine_workspace.stack(program)
    stack.up()
    live = engine_workspace.world.live
    live["changed"] = {**live["changed"], "value": 9}
    live["scaled"] = {**live["scaled"], "value": 9}
    live["reporting"] = {**live["reporting"], "arn": "arn:moved"}
    found: dict[str, list[str]] = {}

    def gather(event: auto.EngineEvent) -> None:
        if event.res_outputs_event and event.res_outputs_event.metadata.op == "update":
            step = event.res_outputs_event.metadata
            found[step.urn.rsplit("::", 1)[-1]] = sorted(step.detailed_diff or {})

    assert stack.preview_refresh(on_event=gather).change_summary == {"same": 2, "update": 1}
    assert found == {"changed": ["value"]}
    with pytest.raises(auto.CommandError, match="no changes were expected"):
        stack.preview_refresh(expect_no_changes=True)
    stack.refresh()
    assert entry(stack, "reporting")["outputs"]["arn"] == "arn:moved"
    assert entry(stack, "scaled")["inputs"]["value"] == 9
    assert stack.up().summary.resource_changes == {"same": 3, "update": 1}
    stack.preview_refresh(expect_no_changes=True)


def test_an_update_that_refreshes_first_makes_what_was_lost_again(engine_workspace: Workspace) -> None:
    def program() -> None:
        lost = Thing("lost", name="lost")
        Thing("user", name="user", value=1, opts=Options(depends_on=[lost]))

    stack = engine_workspace.stack(program)
    stack.up()
    del engine_workspace.world.live["lost"]
    done = stack.up(refresh=True)
    assert done.summary.resource_changes == {"delete": 1, "create": 1, "same": 2}
    assert sorted(engine_workspace.world.live) == ["lost", "user"]
    assert stack.up().summary.resource_changes == {"same": 3}


def test_a_refresh_that_forgets_a_resource_leaves_a_whole_state(engine_workspace: Workspace) -> None:
    def program() -> None:
        lost = Thing("lost", name="lost")
        Thing("user", name="user", value=lost.arn)

    stack = engine_workspace.stack(program)
    stack.up()
    del engine_workspace.world.live["lost"]
    stack.refresh()
    assert names(stack) == ["user"]
    user = entry(stack, "user")
    assert user.get("dependencies", []) == [] and not any(user.get("propertyDependencies", {}).values())


def test_an_exported_state_can_be_imported_again(engine_workspace: Workspace) -> None:
    def program() -> None:
        Thing("a", value=pulumi.Output.secret("hidden"))

    stack = engine_workspace.stack(program)
    stack.up()
    saved = stack.export_stack()
    stack.import_stack(saved)
    assert stack.up().summary.resource_changes == {"same": 2}


def test_expecting_no_changes_fails_where_there_are_some(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(lambda: Thing("a") and None)
    with pytest.raises(auto.CommandError, match="no changes were expected"):
        stack.preview(expect_no_changes=True)
    stack.up()
    stack.up(expect_no_changes=True)


def test_a_changed_provider_configuration_keeps_the_providers_resources(engine_workspace: Workspace) -> None:
    region = "one"

    def program() -> None:
        provider = MemProvider("own", region=region)
        Thing("a", opts=Options(provider=provider))

    stack = engine_workspace.stack(program)
    stack.up()
    region = "two"
    assert stack.up().summary.resource_changes == {"same": 2, "update": 1}


def test_a_replaced_provider_replaces_its_resources(engine_workspace: Workspace) -> None:
    account = "one"

    def program() -> None:
        provider = MemProvider("own", region="x", account=account)
        Thing("a", opts=Options(provider=provider))

    stack = engine_workspace.stack(program)
    stack.up()
    account = "two"
    assert stack.preview().change_summary == {"same": 1, "replace": 2}
    assert stack.up().summary.resource_changes == {"same": 1, "replace": 2}
    assert len(engine_workspace.world.live) == 1
    assert stack.up().summary.resource_changes == {"same": 3}


def test_a_resource_that_moves_to_another_provider_is_replaced(engine_workspace: Workspace) -> None:
    which = 0

    def program() -> None:
        providers = [MemProvider("first", region="1"), MemProvider("second", region="2")]
        Thing("a", opts=Options(provider=providers[which]))

    stack = engine_workspace.stack(program)
    stack.up()
    which = 1
    assert stack.up().summary.resource_changes == {"same": 3, "replace": 1}
    assert engine_workspace.world.object("a")["region"] == "2"


def test_a_removed_resource_is_deleted_by_the_provider_that_the_state_remembers(engine_workspace: Workspace) -> None:
    full = True

    def program() -> None:
        if full:
            Thing("a", opts=Options(provider=MemProvider("own", region="x")))

    stack = engine_workspace.stack(program)
    stack.up()
    full = False
    assert stack.up().summary.resource_changes == {"same": 1, "delete": 2}
    assert engine_workspace.world.live == {}


def test_default_providers_are_recorded_but_neither_shown_nor_counted(engine_workspace: Workspace) -> None:
    events: list[object] = []
    stack = engine_workspace.stack(lambda: Thing("a") and None)
    assert stack.up(on_event=events.append).summary.resource_changes == {"create": 2}
    assert not any(name.startswith("default") for _, name in operations(events))
    assert any("pulumi:providers:mem::default" in each["urn"] for each in stack.export_stack().deployment["resources"])


def test_provider_configuration_of_the_stack_reaches_default_providers(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(lambda: Thing("a") and None)
    stack.set_config("mem:region", auto.ConfigValue("eu-west-1"))
    stack.up()
    assert engine_workspace.world.object("a")["region"] == "eu-west-1"


def test_four_stacks_in_one_process_do_not_disturb_each_other(engine_workspace: Workspace) -> None:
    results: dict[str, object] = {}

    def one(number: int) -> None:
        name = f"p{number}"
        stack = engine_workspace.stack(lambda: [Thing(f"{name}-{i}", name=f"{name}-{i}") for i in range(10)] and None, project=name)
        results[name] = stack.up().summary.resource_changes

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {f"p{number}": {"create": 11} for number in range(4)}
    assert len(engine_workspace.world.live) == 40


def test_the_outcome_is_the_same_for_history_and_events(engine_workspace: Workspace) -> None:
    events: list[object] = []
    stack = engine_workspace.stack(lambda: Thing("a") and None)
    done = stack.up(on_event=events.append)
    summaries = [event.summary_event.resource_changes for event in events if event.summary_event]  # type: ignore[attr-defined]
    assert summaries == [done.summary.resource_changes]
    assert diagnostics(events) == []
