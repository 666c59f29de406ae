"""Resource options: each changes what happens to a resource in the way that Pulumi documents."""

import pulumi
import pytest
from pulumi import automation as auto

from engine.conftest import Changing, Workspace, diagnostics, entry, names, operations
from engine.doubles import Thing

Options = pulumi.ResourceOptions


def test_a_protected_resource_is_not_deleted_and_nothing_else_is(engine_workspace: Workspace) -> None:
    def program() -> None:
        Thing("guarded", opts=Options(protect=True))
        Thing("other")

    case = Changing(engine_workspace, program)
    case.up()
    with pytest.raises(auto.CommandError, match=r"guarded.*cannot be deleted\n?.*because it is protected"):
        case.up(lambda: None)
    assert sorted(names(case.stack)) == ["guarded", "other"]
    assert len(engine_workspace.world.live) == 2


def test_a_resource_that_is_no_longer_protected_can_be_deleted(engine_workspace: Workspace) -> None:
    case = Changing(engine_workspace, lambda: Thing("guarded", opts=Options(protect=True)))
    case.up()
    assert case.up(lambda: Thing("guarded")) == {"same": 2}
    assert case.up(lambda: None) == {"same": 1, "delete": 1}


def test_a_protected_resource_is_not_replaced(engine_workspace: Workspace) -> None:
    case = Changing(engine_workspace, lambda: Thing("guarded", zone="a", opts=Options(protect=True)))
    case.up()
    with pytest.raises(auto.CommandError, match="marked for protection"):
        case.up(lambda: Thing("guarded", zone="b", opts=Options(protect=True)))
    assert len(engine_workspace.world.live) == 1


def test_a_destroy_can_leave_protected_resources_and_what_they_stand_on(engine_workspace: Workspace) -> None:
    def program() -> None:
        base = Thing("base")
        Thing("guarded", value=base.arn, opts=Options(protect=True))
        Thing("other", value=base.arn)

    case = Changing(engine_workspace, program)
    case.up()
    case.stack.destroy(exclude_protected=True)
    assert sorted(names(case.stack)) == ["base", "guarded"]


@pytest.mark.parametrize("path", ["value.inner[0]", 'value["inner"][0]', "value.inner", "value", "value.*"])
def test_ignored_changes_keep_what_was_recorded(engine_workspace: Workspace, path: str) -> None:
    case = Changing(engine_workspace, lambda: Thing("a", value={"inner": [1]}))
    case.up()
    ignoring = Options(ignore_changes=[path])
    assert case.up(lambda: Thing("a", value={"inner": [2]}, opts=ignoring)) == {"same": 2}


def test_a_place_that_only_the_state_has_cannot_be_ignored(engine_workspace: Workspace) -> None:
    case = Changing(engine_workspace, lambda: Thing("a", value={"inner": [{"x": 1}, {"x": 2}]}))
    case.up()
    ignoring = Options(ignore_changes=["value.inner[1].x", "value.gone.x", "value.inner[*].x"])
    with pytest.raises(auto.CommandError) as refused:
        case.up(lambda: Thing("a", value={"inner": [{"x": 3}]}, opts=ignoring))
    assert "cannot ignore changes to the following properties" in str(refused.value)
    assert "value.inner[1].x" in str(refused.value) and "value.inner[*].x" in str(refused.value)
    assert "value.gone.x" not in str(refused.value), "neither side has it: nothing would change"
    assert engine_workspace.world.object("a")["value"] == {"inner": [{"x": 1}, {"x": 2}]}


def test_a_key_with_dots_is_ignored_by_its_escaped_path(engine_workspace: Workspace) -> None:
    case = Changing(engine_workspace, lambda: Thing("a", value={"x.y": 1, "z": 1}))
    case.up()
    program = lambda: Thing("a", value={"x.y": 2, "z": 2}, opts=Options(ignore_changes=['value["x.y"]']))  # noqa: E731
    assert case.up(program) == {"same": 1, "update": 1}
    assert engine_workspace.world.object("a")["value"] == {"x.y": 1, "z": 2}


def test_an_unreadable_path_is_refused_with_its_text(engine_workspace: Workspace) -> None:
    case = Changing(engine_workspace, lambda: Thing("a", value=1))
    case.up()
    with pytest.raises(auto.CommandError, match=r"ignoreChanges of a: property path 'value\[x'"):
        case.up(lambda: Thing("a", value=1, opts=Options(ignore_changes=["value[x"])))


@pytest.mark.parametrize("path", ["value", "value.deep", "*"])
def test_replace_on_changes_turns_an_update_into_a_replacement(engine_workspace: Workspace, path: str) -> None:
    case = Changing(engine_workspace, lambda: Thing("a", value={"deep": 1}))
    case.up()
    replacing = Options(replace_on_changes=[path])
    assert case.up(lambda: Thing("a", value={"deep": 2}, opts=replacing)) == {"same": 1, "replace": 1}


def test_replace_on_changes_of_another_property_leaves_an_update(engine_workspace: Workspace) -> None:
    case = Changing(engine_workspace, lambda: Thing("a", value=1))
    case.up()
    assert case.up(lambda: Thing("a", value=2, opts=Options(replace_on_changes=["zone"]))) == {"same": 1, "update": 1}


def test_delete_before_replace_is_obeyed_either_way(engine_workspace: Workspace) -> None:
    case = Changing(engine_workspace, lambda: Thing("a", zone="a", opts=Options(delete_before_replace=True)))
    case.up()
    engine_workspace.world.calls.clear()
    case.up(lambda: Thing("a", zone="b", opts=Options(delete_before_replace=True)))
    assert engine_workspace.world.calls == [("delete", "a"), ("create", "a")]
    engine_workspace.world.calls.clear()
    case.up(lambda: Thing("a", zone="c", opts=Options(delete_before_replace=False)))
    assert engine_workspace.world.calls == [("create", "a"), ("delete", "a")]


def test_a_retained_resource_leaves_the_state_and_stays_in_the_world(engine_workspace: Workspace) -> None:
    case = Changing(engine_workspace, lambda: Thing("kept", opts=Options(retain_on_delete=True)))
    case.up()
    assert case.up(lambda: None) == {"same": 1, "delete": 1}
    assert names(case.stack) == []
    assert len(engine_workspace.world.live) == 1


def test_what_is_deleted_with_another_resource_is_not_deleted_itself(engine_workspace: Workspace) -> None:
    def program() -> None:
        host = Thing("host")
        guest = Thing("guest", opts=Options(deleted_with=host))
        Thing("guests-guest", opts=Options(deleted_with=guest))

    case = Changing(engine_workspace, program)
    case.up()
    case.up(lambda: None)
    assert engine_workspace.world.names("delete") == ["host"]
    assert names(case.stack) == []


def test_what_is_deleted_with_a_retained_resource_is_deleted_itself(engine_workspace: Workspace) -> None:
    def program() -> None:
        host = Thing("host", opts=Options(retain_on_delete=True))
        Thing("guest", opts=Options(deleted_with=host))

    case = Changing(engine_workspace, program)
    case.up()
    case.up(lambda: None)
    assert engine_workspace.world.names("delete") == ["guest"]


def test_custom_timeouts_reach_the_provider_in_seconds(engine_workspace: Workspace) -> None:
    timeouts = pulumi.CustomTimeouts(create="1h30m", update="2m", delete="500ms")
    case = Changing(engine_workspace, lambda: Thing("a", value=1, opts=Options(custom_timeouts=timeouts)))
    case.up()
    case.up(lambda: Thing("a", value=2, opts=Options(custom_timeouts=timeouts)))
    case.up(lambda: None)
    assert engine_workspace.world.timeouts == {("create", "a"): 5400.0, ("update", "a"): 120.0, ("delete", "a"): 0.5}


def test_a_timeout_that_is_no_duration_is_refused(engine_workspace: Workspace) -> None:
    timeouts = pulumi.CustomTimeouts(create="soon")
    with pytest.raises(auto.CommandError, match="'soon' is not a duration such as 30s"):
        Changing(engine_workspace, lambda: Thing("a", opts=Options(custom_timeouts=timeouts))).up()


def test_an_asked_replacement_replaces_what_has_not_changed(engine_workspace: Workspace) -> None:
    case = Changing(engine_workspace, lambda: [Thing("a"), Thing("b")])
    case.up()
    urn = entry(case.stack, "a")["urn"]
    assert case.up(replace=[urn]) == {"same": 2, "replace": 1}


def test_a_replacement_of_what_does_not_exist_is_refused_by_name_at_once(engine_workspace: Workspace) -> None:
    case = Changing(engine_workspace, lambda: Thing("a", value=1))
    case.up()
    with pytest.raises(auto.CommandError, match="Thing::nothing' could not be found"):
        case.up(lambda: Thing("a", value=2), replace=["urn:pulumi:dev::case::mem:index:Thing::nothing"])
    assert engine_workspace.world.object("a")["value"] == 1


def test_a_changed_replacement_trigger_replaces(engine_workspace: Workspace) -> None:
    case = Changing(engine_workspace, lambda: Thing("a", opts=Options(replacement_trigger="one")))
    case.up()
    assert case.up() == {"same": 2}
    assert case.up(lambda: Thing("a", opts=Options(replacement_trigger="two"))) == {"same": 1, "replace": 1}


def test_depends_on_orders_creation(engine_workspace: Workspace) -> None:
    def program() -> None:
        last = Thing("1")
        for number in range(2, 6):
            last = Thing(str(number), opts=Options(depends_on=[last]))

    Changing(engine_workspace, program).up()
    assert engine_workspace.world.names("create") == ["1", "2", "3", "4", "5"]


def test_a_name_used_twice_is_an_error_that_shows_the_urn(engine_workspace: Workspace) -> None:
    with pytest.raises(auto.CommandError, match="Duplicate resource URN 'urn:pulumi:dev::case::mem:index:Thing::a'"):
        Changing(engine_workspace, lambda: [Thing("a"), Thing("a")]).up()


def test_every_problem_of_a_resource_is_shown_with_its_property(engine_workspace: Workspace) -> None:
    events: list[object] = []
    case = Changing(engine_workspace, lambda: Thing("a", value="bad"))
    with pytest.raises(auto.CommandError):
        case.up(on_event=events.append)
    text = "\n".join(diagnostics(events))
    assert "property value: must not be bad" in text and "property zone: must exist" in text
    assert operations(events) == [("create", "case-dev")]


def test_a_provider_with_a_bad_configuration_is_refused(engine_workspace: Workspace) -> None:
    case = Changing(engine_workspace, lambda: Thing("a"))
    case.stack.set_config("mem:region", auto.ConfigValue("nowhere"))
    with pytest.raises(auto.CommandError, match="property region: must not be nowhere"):
        case.up()


def test_a_package_without_a_provider_is_named(engine_workspace: Workspace) -> None:
    class Foreign(pulumi.CustomResource):
        def __init__(self) -> None:
            super().__init__("gcp:storage:Bucket", "b", {})

    with pytest.raises(auto.CommandError, match=r"no provider for package 'gcp'.*known: aws, eks, mem"):
        Changing(engine_workspace, Foreign).up()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (lambda: Options(hide_diffs=["value"]), "the resource option hideDiffs"),
        (lambda: Options(custom_timeouts=pulumi.CustomTimeouts(read="1m")), "a custom timeout for reading"),
        (lambda: Options(replace_with=[Thing("other")]), "ReplaceWith option"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(engine_workspace: Workspace, options: object, named: str) -> None:
    with pytest.raises(auto.CommandError, match=f"{named}"):
        Changing(engine_workspace, lambda: Thing("a", opts=options())).up()  # type: ignore[operator]
    assert "a" not in engine_workspace.world.names("create")


def test_asking_whether_a_resource_exists_is_refused_by_name(engine_workspace: Workspace) -> None:
    from pulumi.runtime.resource import exists_resource

    def program() -> None:
        pulumi.export("there", exists_resource(None, "mem:index:Thing", "it", {}, Options()))

    with pytest.raises(auto.CommandError, match="asking whether a resource exists is not supported"):
        Changing(engine_workspace, program).up()


def test_a_dynamic_provider_is_refused_by_name(engine_workspace: Workspace) -> None:
    from pulumi import dynamic

    class Nothing(dynamic.ResourceProvider):
        def create(self, props: object) -> dynamic.CreateResult:
            return dynamic.CreateResult("1")

    class Mine(dynamic.Resource):
        def __init__(self) -> None:
            super().__init__(Nothing(), "mine", {})

    with pytest.raises(auto.CommandError, match="a dynamic provider is not supported"):
        Changing(engine_workspace, Mine).up()
