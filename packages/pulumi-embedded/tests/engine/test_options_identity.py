"""Options by which a resource is an object that exists already: aliases, imports and reads."""

import pulumi
import pytest
from pulumi import automation as auto

from engine.conftest import Changing, Workspace, entry, names
from engine.doubles import Group, Thing

Options = pulumi.ResourceOptions


def test_an_alias_by_name_keeps_the_resource(engine_workspace: Workspace) -> None:
    case = Changing(engine_workspace, lambda: Thing("old"))
    case.up()
    assert case.up(lambda: Thing("new", opts=Options(aliases=[pulumi.Alias(name="old")]))) == {"same": 2}
    assert names(case.stack) == ["new"]


def test_an_alias_by_urn_keeps_the_resource(engine_workspace: Workspace) -> None:
    case = Changing(engine_workspace, lambda: Thing("old"))
    case.up()
    urn = entry(case.stack, "old")["urn"]
    assert case.up(lambda: Thing("new", opts=Options(aliases=[urn]))) == {"same": 2}


def test_a_resource_that_moves_into_a_component_keeps_its_object(engine_workspace: Workspace) -> None:
    case = Changing(engine_workspace, lambda: Thing("a"))
    case.up()
    moved = lambda: Thing("a", opts=Options(parent=Group("g"), aliases=[pulumi.Alias(parent=pulumi.ROOT_STACK_RESOURCE)]))  # noqa: E731
    assert case.up(moved) == {"same": 2, "create": 1}
    assert len(engine_workspace.world.names("create")) == 1


def test_children_follow_the_alias_of_their_component(engine_workspace: Workspace) -> None:
    def program(name: str, *aliases: pulumi.Alias) -> object:
        group = Group(name, opts=Options(aliases=list(aliases)))
        inner = Group("inner", opts=Options(parent=group))
        Thing("child", opts=Options(parent=inner))
        return Thing(f"{name}-named", opts=Options(parent=group))

    case = Changing(engine_workspace, lambda: program("one"))
    case.up()
    assert case.up(lambda: program("two", pulumi.Alias(name="one"))) == {"same": 5}
    assert "two-named" in names(case.stack), "a child that is named after its component is renamed with it"
    assert case.up(lambda: program("three", pulumi.Alias(name="two"))) == {"same": 5}
    assert len(engine_workspace.world.names("create")) == 2


def test_aliases_of_an_older_name_still_find_the_resource(engine_workspace: Workspace) -> None:
    case = Changing(engine_workspace, lambda: Thing("one"))
    case.up()
    aliases = [pulumi.Alias(name="two"), pulumi.Alias(name="one")]
    assert case.up(lambda: Thing("three", opts=Options(aliases=aliases))) == {"same": 2}


@pytest.mark.parametrize("other", ["old", "second"])
def test_two_resources_cannot_both_continue_what_was_one(engine_workspace: Workspace, other: str) -> None:
    def both() -> None:
        first = Thing(other, opts=Options(aliases=[pulumi.Alias(name="old")] if other != "old" else []))
        Thing("new", opts=Options(aliases=[pulumi.Alias(name="old")], depends_on=[first]))

    case = Changing(engine_workspace, lambda: Thing("old"))
    case.up()
    with pytest.raises(auto.CommandError, match=r"Duplicate resource alias .*Thing::old' applied to resource with URN .*Thing::new'"):
        case.up(both)
    assert names(case.stack) == [other], "the object is one resource's, and has no twin"
    assert len(engine_workspace.world.live) == 1


def test_resources_left_alone_refer_to_a_renamed_one_by_its_new_name(engine_workspace: Workspace) -> None:
    def before() -> None:
        base = Thing("old", name="base")
        Thing("user", name="user", opts=Options(depends_on=[base]))

    case = Changing(engine_workspace, before)
    case.up()
    renamed = lambda: Thing("new", name="base", opts=Options(aliases=[pulumi.Alias(name="old")]))  # noqa: E731
    case.up(renamed, target=["**::new"])
    assert entry(case.stack, "user")["dependencies"] == [entry(case.stack, "new")["urn"]]


def test_an_imported_object_is_adopted_as_it_is(engine_workspace: Workspace) -> None:
    engine_workspace.world.live["theirs"] = {"name": "theirs", "value": 1, "arn": "arn:theirs"}
    case = Changing(engine_workspace, lambda: Thing("a", name="theirs", value=1, opts=Options(import_="theirs")))
    assert case.up() == {"create": 1, "import": 1}
    assert case.up() == {"same": 2}
    assert case.up(lambda: Thing("a", name="theirs", value=1)) == {"same": 2}
    assert engine_workspace.world.names("create") == []


def test_importing_what_does_not_exist_fails(engine_workspace: Workspace) -> None:
    with pytest.raises(auto.CommandError, match="resource 'nothing' does not exist"):
        Changing(engine_workspace, lambda: Thing("a", opts=Options(import_="nothing"))).up()


def test_an_import_never_changes_the_object(engine_workspace: Workspace) -> None:
    engine_workspace.world.live["theirs"] = {"name": "theirs", "value": 1}
    case = Changing(engine_workspace, lambda: Thing("a", name="theirs", value=2, opts=Options(import_="theirs")))
    with pytest.raises(auto.CommandError, match=r"do not match the existing resource 'theirs'.*they differ at value"):
        case.up()
    assert engine_workspace.world.live["theirs"]["value"] == 1
    assert names(case.stack) == []


def test_reading_a_resource_shows_it_and_never_touches_it(engine_workspace: Workspace) -> None:
    engine_workspace.world.live["theirs"] = {"name": "theirs", "arn": "arn:theirs"}

    def program() -> None:
        found = Thing("found", opts=Options(id="theirs"))
        pulumi.export("arn", found.arn)

    case = Changing(engine_workspace, program)
    assert case.up() == {"create": 1, "read": 1}
    assert case.stack.outputs()["arn"].value == "arn:theirs"
    assert case.up() == {"same": 1, "read": 1}
    case.up(lambda: None)
    assert engine_workspace.world.names("delete") == []
    assert "theirs" in engine_workspace.world.live


def test_a_named_output_of_what_is_read_is_secret(engine_workspace: Workspace) -> None:
    engine_workspace.world.live["theirs"] = {"name": "theirs", "arn": "arn:theirs"}

    def program() -> None:
        pulumi.export("arn", Thing("found", opts=Options(id="theirs", additional_secret_outputs=["arn"])).arn)

    assert engine_workspace.stack(program).up().outputs["arn"].secret is True


def test_what_was_only_read_is_forgotten_and_not_deleted(engine_workspace: Workspace) -> None:
    engine_workspace.world.live["ext"] = {"name": "ext", "value": 1}
    case = Changing(engine_workspace, lambda: Thing("seen", Options(id="ext")))
    case.up()
    assert case.up(lambda: None) == {"same": 1, "discard": 1}
    assert "ext" in engine_workspace.world.live


def test_reading_what_does_not_exist_fails(engine_workspace: Workspace) -> None:
    with pytest.raises(auto.CommandError, match="resource 'nothing' does not exist"):
        Changing(engine_workspace, lambda: Thing("a", opts=Options(id="nothing"))).up()
