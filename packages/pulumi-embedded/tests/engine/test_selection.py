"""Targets, excludes and their dependents: what an operation touches, and what it must leave as it was."""

import pulumi
import pytest
from pulumi import automation as auto

from engine.conftest import Workspace, entry, names, operations
from engine.doubles import Group, Thing

Options = pulumi.ResourceOptions


def three(value: int) -> None:
    base = Thing("base", name="base", value=value)
    Thing("user", name="user", value=[value, base.arn])
    Thing("side", name="side", value=value)


@pytest.fixture
def stack(engine_workspace: Workspace) -> auto.Stack:
    made = engine_workspace.stack(lambda: three(1))
    made.up()
    engine_workspace.world.calls.clear()
    return made


def test_only_the_target_is_updated(stack: auto.Stack, engine_workspace: Workspace) -> None:
    done = stack.up(program=lambda: three(2), target=[entry(stack, "side")["urn"]])
    assert done.summary.resource_changes == {"same": 3, "update": 1}
    assert engine_workspace.world.calls == [("update", "side")]
    assert entry(stack, "base")["inputs"]["value"] == 1, "what is not targeted keeps its recorded inputs"
    assert stack.up(program=lambda: three(2)).summary.resource_changes == {"same": 2, "update": 2}


def test_a_program_may_declare_the_target_alone_and_nothing_is_deleted(stack: auto.Stack, engine_workspace: Workspace) -> None:
    program = lambda: Thing("side", name="side", value=5) and None  # noqa: E731
    done = stack.up(program=program, target=[entry(stack, "side")["urn"]])
    assert done.summary.resource_changes == {"same": 1, "update": 1}
    assert sorted(names(stack)) == ["base", "side", "user"]


@pytest.mark.parametrize(
    ("pattern", "updated"),
    [("**::side", ["side"]), ("urn:pulumi:dev::case::mem:index:*::base", ["base"]), ("**Thing::*", ["base", "side", "user"]), ("*", [])],
)
def test_wildcards_choose_targets(stack: auto.Stack, engine_workspace: Workspace, pattern: str, updated: list[str]) -> None:
    stack.up(program=lambda: three(2), target=[pattern])
    assert sorted(engine_workspace.world.names("update")) == updated


def test_a_target_that_does_not_exist_is_named(stack: auto.Stack) -> None:
    with pytest.raises(auto.CommandError, match="Target 'urn:pulumi:dev::case::mem:index:Thing::nothing' could not be found"):
        stack.up(target=["urn:pulumi:dev::case::mem:index:Thing::nothing"])


def test_target_dependents_brings_them_along(stack: auto.Stack, engine_workspace: Workspace) -> None:
    stack.up(program=lambda: three(2), target=["**::base"], target_dependents=True)
    assert sorted(engine_workspace.world.names("update")) == ["base", "user"]


def test_an_excluded_resource_is_left_alone(stack: auto.Stack, engine_workspace: Workspace) -> None:
    stack.up(program=lambda: three(2), exclude=["**::base"])
    assert sorted(engine_workspace.world.names("update")) == ["side", "user"]


def test_exclude_dependents_leaves_them_alone_too(stack: auto.Stack, engine_workspace: Workspace) -> None:
    stack.up(program=lambda: three(2), exclude=["**::base"], exclude_dependents=True)
    assert engine_workspace.world.names("update") == ["side"]


def test_what_is_left_alone_keeps_its_provider_and_what_it_stood_on(stack: auto.Stack) -> None:
    program = lambda: Thing("user", name="user", value=1) and None  # noqa: E731
    done = stack.up(program=program, exclude=["**::user"])
    assert done.summary.resource_changes == {"delete": 1, "same": 2}
    assert sorted(names(stack)) == ["base", "user"]
    assert stack.refresh().summary.resource_changes == {"same": 2}, "its provider is still known"


def test_what_is_not_targeted_is_not_created_and_its_outputs_are_unknown(engine_workspace: Workspace) -> None:
    seen: list[str] = []

    def program() -> None:
        Thing("left-out", name="x").arn.apply(seen.append)
        Thing("wanted", name="w")

    made = engine_workspace.stack(program)
    assert made.up(target=["**::wanted"]).summary.resource_changes == {"create": 2}
    assert (names(made), seen) == (["wanted"], [])


def test_a_target_that_needs_what_does_not_exist_is_refused(engine_workspace: Workspace) -> None:
    def program() -> None:
        base = Thing("base")
        Thing("user", opts=Options(depends_on=[base]))

    with pytest.raises(
        auto.CommandError, match=r"'urn:pulumi:dev::case::mem:index:Thing::user' depends on .*base' which does not exist yet"
    ):
        engine_workspace.stack(program).up(target=["**::user"])


def test_a_targeted_destroy_takes_the_target_alone(stack: auto.Stack, engine_workspace: Workspace) -> None:
    stack.destroy(target=["**::side"])
    assert engine_workspace.world.names("delete") == ["side"]
    assert names(stack) == ["base", "user"]


def test_a_targeted_destroy_refuses_to_strand_a_dependant(stack: auto.Stack, engine_workspace: Workspace) -> None:
    with pytest.raises(auto.CommandError, match=r"without also deleting what depends on it, '.*::user'"):
        stack.destroy(target=["**::base"])
    assert engine_workspace.world.names("delete") == []
    stack.destroy(target=["**::base"], target_dependents=True)
    assert engine_workspace.world.names("delete") == ["user", "base"]


def test_an_update_refuses_to_delete_a_target_on_which_another_resource_stands(stack: auto.Stack, engine_workspace: Workspace) -> None:
    with pytest.raises(auto.CommandError, match="without also deleting what depends on it"):
        stack.up(program=lambda: None, target=["**::base"])
    assert engine_workspace.world.live.keys() == {"base", "user", "side"}


def test_a_destroy_with_an_exclude_keeps_what_the_excluded_stands_on(stack: auto.Stack, engine_workspace: Workspace) -> None:
    # The Python client has no argument for it.
    arguments = ["destroy", "--yes", "--skip-preview", "--exclude", "**::user", "--stack", "dev"]
    stack.workspace.pulumi_command.run(arguments, stack.workspace.work_dir, engine_workspace.environment)
    assert engine_workspace.world.names("delete") == ["side"]
    assert names(stack) == ["base", "user"]


def test_a_targeted_refresh_reads_the_target_alone(stack: auto.Stack, engine_workspace: Workspace) -> None:
    for name in ("base", "side"):
        engine_workspace.world.live[name] = {**engine_workspace.world.live[name], "value": 9}
    assert stack.refresh(target=["**::side"]).summary.resource_changes == {"update": 1}
    assert engine_workspace.world.names("read") == ["side"]


def test_children_of_an_untouched_component_are_untouched(engine_workspace: Workspace) -> None:
    value = 1

    def program() -> None:
        group = Group("group", size=value)
        Thing("child", name="child", value=value, opts=Options(parent=group))
        group.register_outputs({"size": value})
        Thing("other", name="other", value=value)

    made = engine_workspace.stack(program)
    made.up()
    value = 2
    events: list[object] = []
    made.up(target=["**::other"], on_event=events.append)
    assert [name for op, name in operations(events) if op == "update"] == ["other"]
    assert entry(made, "group")["outputs"] == {"size": 1}


def test_a_component_that_is_left_out_may_register_its_outputs(engine_workspace: Workspace) -> None:
    def program() -> None:
        Group("group").register_outputs({"x": 1})
        Thing("wanted", name="w")

    made = engine_workspace.stack(program)
    assert made.up(target=["**::wanted"]).summary.result == "succeeded"
    assert names(made) == ["wanted"]


def test_running_the_program_during_a_destroy_is_refused_by_name(stack: auto.Stack) -> None:
    with pytest.raises(
        auto.CommandError, match="--run-program is not supported by the embedded engine: a destroy works on the recorded state"
    ):
        stack.destroy(run_program=True)
    assert sorted(names(stack)) == ["base", "side", "user"]
