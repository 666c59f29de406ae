"""The engine's pure decisions: steps, names, order, selection, paths, values and policy settings."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulumi_embedded.engine.changes import changes
from pulumi_embedded.engine.goals import seconds
from pulumi_embedded.engine.graph import dependants, ordered, references, requirements, walk_backwards
from pulumi_embedded.engine.model import Op, Resource
from pulumi_embedded.engine.paths import PathError, carried, covers, parse, render, value_at
from pulumi_embedded.engine.policy_config import Declared, PolicyConfigError, Settled, settle
from pulumi_embedded.engine.provider import DiffResult
from pulumi_embedded.engine.steps import Forced, decide
from pulumi_embedded.engine.targets import matcher
from pulumi_embedded.engine.urns import AliasSpec, Namer, aliases_of, name_of, package_of, qualified_type_of
from pulumi_embedded.engine.values import (
    UNKNOWN,
    copied,
    from_struct,
    has_secret,
    has_unknown,
    map_secrets,
    marked_like,
    masked,
    plain,
    secret,
    to_struct,
    with_secret_keys,
)

NAMER = Namer("dev", "proj")


def resource(name: str, **fields: Any) -> Resource:
    return Resource(**{"urn": NAMER.urn("t:m:T", name), "type": "t:m:T", "custom": True, "id": name, **fields})


OLD = resource("a", inputs={"x": 1})
NEW = resource("a", id="", inputs={"x": 2})
CHANGED = DiffResult({"x": "update", "deep.y[0]": "add"})
REPLACING = DiffResult({"x": "update"}, ("x",))
DELETING = DiffResult({"x": "update"}, ("x",), delete_before_replace=True)


@pytest.mark.parametrize(
    ("old", "new", "diff", "forced", "asked", "op", "first"),
    [
        (None, NEW, DiffResult(), Forced(), None, Op.CREATE, False),
        (None, replace(NEW, import_id="i"), DiffResult(), Forced(), None, Op.IMPORT, False),
        (OLD, NEW, DiffResult(), Forced(), None, Op.SAME, False),
        (OLD, NEW, CHANGED, Forced(), None, Op.UPDATE, False),
        (OLD, NEW, REPLACING, Forced(), None, Op.REPLACE, False),
        (OLD, NEW, DELETING, Forced(), None, Op.REPLACE, True),
        (OLD, NEW, DELETING, Forced(), False, Op.REPLACE, False),
        (OLD, NEW, REPLACING, Forced(), True, Op.REPLACE, True),
        (OLD, NEW, DiffResult(), Forced(asked=True), None, Op.REPLACE, False),
        (OLD, NEW, DiffResult(delete_before_replace=True), Forced(asked=True), None, Op.REPLACE, True),
        (OLD, NEW, DiffResult(), Forced(trigger=True), None, Op.REPLACE, False),
        (OLD, NEW, DiffResult(), Forced(provider=True), None, Op.REPLACE, False),
        (OLD, NEW, DiffResult(), Forced(became_managed=True), None, Op.REPLACE, False),
        (OLD, NEW, DiffResult(), Forced(displaced=("x",)), False, Op.REPLACE, True),
        (OLD, replace(NEW, replace_on_changes=("x",)), CHANGED, Forced(), None, Op.REPLACE, False),
        (OLD, replace(NEW, replace_on_changes=("deep",)), CHANGED, Forced(), None, Op.REPLACE, False),
        (OLD, replace(NEW, replace_on_changes=("deep.y[*]",)), CHANGED, Forced(), None, Op.REPLACE, False),
        (OLD, replace(NEW, replace_on_changes=("*",)), CHANGED, Forced(), None, Op.REPLACE, False),
        (OLD, replace(NEW, replace_on_changes=("deep.z",)), CHANGED, Forced(), None, Op.UPDATE, False),
        (OLD, replace(NEW, replace_on_changes=("*",)), DiffResult(), Forced(), None, Op.SAME, False),
        (OLD, replace(NEW, custom=False), REPLACING, Forced(), None, Op.UPDATE, False),
        (replace(OLD, init_errors=("not ready",)), NEW, DiffResult(), Forced(), None, Op.UPDATE, False),
        (replace(OLD, pending_replacement=True), NEW, CHANGED, Forced(), None, Op.CREATE, False),
    ],
)
def test_the_operation_follows_from_what_was_what_is_wanted_and_how_they_differ(
    old: Resource | None, new: Resource, diff: DiffResult, forced: Forced, asked: bool | None, op: Op, first: bool
) -> None:
    decision = decide(old, new, diff, forced, asked)
    assert (decision.op, decision.delete_first) == (op, first)
    assert bool(decision.replaces) == (op is Op.REPLACE)


def test_a_urn_holds_the_types_of_its_ancestors_but_not_of_the_stack() -> None:
    root = NAMER.urn("pulumi:pulumi:Stack", "proj-dev")
    outer = NAMER.urn("c:c:Outer", "o", root)
    inner = NAMER.urn("c:c:Inner", "i", outer)
    assert NAMER.urn("t:m:T", "a::b", inner) == "urn:pulumi:dev::proj::c:c:Outer$c:c:Inner$t:m:T::a::b"
    assert name_of(NAMER.urn("t:m:T", "a::b", inner)) == "a::b"
    assert qualified_type_of(inner) == "c:c:Outer$c:c:Inner"
    assert package_of("pulumi:providers:aws") == package_of("aws:s3/bucket:Bucket") == "aws"


def test_aliases_are_the_resources_own_and_those_below_its_parents_former_names() -> None:
    parent, former = NAMER.urn("c:c:C", "web"), NAMER.urn("c:c:C", "site")
    specs = [AliasSpec(name="was"), AliasSpec(type="t:m:Old"), AliasSpec(no_parent=True), AliasSpec(urn="urn:pulumi:x::y::z:z:Z::q")]
    found = aliases_of(NAMER, "t:m:T", "web-lb", parent, specs, [former])
    assert found[:4] == (
        NAMER.urn("t:m:T", "was", parent),
        NAMER.urn("t:m:Old", "web-lb", parent),
        NAMER.urn("t:m:T", "web-lb"),
        "urn:pulumi:x::y::z:z:Z::q",
    )
    below = {name_of(urn) for urn in found[4:]}
    assert below == {"site-lb", "q"}, "names that stay give the same URN below either name of the parent"
    assert NAMER.urn("t:m:Old", "site-lb", former) in found
    assert NAMER.urn("t:m:T", "web-lb", parent) not in found, "a resource is no alias of itself"


def test_an_alias_in_another_stack_or_project_is_named_there() -> None:
    found = aliases_of(NAMER, "t:m:T", "a", "", [AliasSpec(stack="prod"), AliasSpec(project="other")], [])
    assert found == ("urn:pulumi:prod::proj::t:m:T::a", "urn:pulumi:dev::other::t:m:T::a")


def chain(*names: str) -> list[Resource]:
    made: list[Resource] = []
    for name in names:
        made.append(resource(name, dependencies=(made[-1].urn,) if made else ()))
    return made


def test_everything_comes_after_what_it_references() -> None:
    a, b, c = chain("a", "b", "c")
    provider = resource("p", type="pulumi:providers:t", urn=NAMER.urn("pulumi:providers:t", "p"))
    managed = resource("m", provider=f"{provider.urn}::id", parent=c.urn, deleted_with=b.urn)
    assert [r.name for r in ordered([managed, c, b, provider, a])].index("m") == 4
    assert references(managed) == {provider.urn, c.urn, b.urn}
    assert dependants([managed, c, b, provider, a], [b.urn]) == {c.urn, managed.urn}
    assert requirements([managed, c, b, provider, a], [c.urn]) == {a.urn, b.urn}


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=30), st.integers(1, 6))
def test_walking_backwards_never_meets_a_resource_before_its_dependants(pairs: list[tuple[int, int]], parallel: int) -> None:
    urns = [NAMER.urn("t:m:T", str(number)) for number in range(13)]
    resources = [
        resource(str(number), dependencies=tuple(sorted({urns[b] for a, b in pairs if a == number and b < number}))) for number in range(13)
    ]
    gone: list[str] = []

    def visit(entry: Resource) -> bool:
        assert not [other for other in resources if entry.urn in other.dependencies and other.urn not in gone]
        gone.append(entry.urn)
        return True

    walk_backwards(resources, parallel, visit)
    assert sorted(gone) == sorted(urns)


def test_what_stays_keeps_what_it_stands_on() -> None:
    visited: list[str] = []

    def visit(entry: Resource) -> bool:
        visited.append(entry.name)
        return entry.name != "b"

    walk_backwards(chain("a", "b", "c"), 2, visit)
    assert visited == ["c", "b"]


def test_an_error_while_walking_comes_out() -> None:
    def visit(entry: Resource) -> bool:
        raise ValueError(entry.name)

    with pytest.raises(ValueError, match="b"):
        walk_backwards(chain("a", "b"), 2, visit)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("a.b[0].c", ("a", "b", 0, "c")),
        ('a["x.y"].z', ("a", "x.y", "z")),
        ('["x.y"]', ("x.y",)),
        (r'["say \"hi\""]', ('say "hi"',)),
        ("a[*].b", ("a", "*", "b")),
        ("*", ("*",)),
    ],
)
def test_paths_are_read(text: str, path: tuple[str | int, ...]) -> None:
    assert parse(text) == path
    assert parse(render(path)) == path


@pytest.mark.parametrize("text", ["", "a..b", "a[x]", "a[", 'a["x', "a[0"])
def test_unreadable_paths_are_errors(text: str) -> None:
    with pytest.raises(PathError):
        parse(text)


keys = st.text(min_size=1, max_size=5).filter(lambda key: key != "*")


@given(st.lists(st.one_of(keys, st.integers(0, 9)), min_size=1, max_size=5))
def test_every_path_survives_being_written(path: list[str | int]) -> None:
    assert parse(render(path)) == tuple(path)


def test_a_change_is_covered_from_above() -> None:
    assert covers(("a",), ("a", "b")) and covers(("a", "*"), ("a", 3)) and covers(("*",), ("a", "b"))
    assert not covers(("a", "b"), ("a", "c")) and not covers(("a", "b"), ("a",))


@pytest.mark.parametrize(("path", "op"), [("deep.z", Op.REPLACE), ("deep.y[*]", Op.UPDATE), ("deep", Op.REPLACE), ("*", Op.REPLACE)])
def test_of_a_structure_that_a_provider_names_only_the_part_that_changed_counts(path: str, op: Op) -> None:
    old, new = ({"deep": {"y": [1], "z": z}} for z in (1, 2))
    wanted = replace(NEW, inputs=new, replace_on_changes=(path,))
    assert decide(replace(OLD, inputs=old), wanted, DiffResult({"deep": "update"})).op is op


def test_carrying_takes_the_old_value_or_its_absence() -> None:
    old = {"a": {"keep": 1}, "list": [{"v": 1}, {"v": 2}]}
    new = {"a": {"keep": 2, "own": 3}, "list": [{"v": 8}, {"v": 9}], "extra": 1}
    assert carried(new, old, parse("a.keep")) == {**new, "a": {"keep": 1, "own": 3}}
    assert carried(new, old, parse("a.own")) == {**new, "a": {"keep": 2}}
    assert carried(new, old, parse("list[*].v"))["list"] == [{"v": 1}, {"v": 2}]
    assert carried(new, old, parse("extra")) == {"a": new["a"], "list": new["list"]}
    assert carried({}, old, parse("a")) == {"a": {"keep": 1}}
    assert carried(new, old, parse("list.*"))["list"] == old["list"]
    assert carried(new, old, parse("*")) == old
    assert carried(new, old, parse("nothing.here")) == carried(new, old, parse("a[0]")) == carried(new, old, parse("list[7]")) == new
    assert carried({"a": UNKNOWN}, old, parse("a.keep")) == {"a": UNKNOWN}, "a preview knows no better"
    assert new["a"] == {"keep": 2, "own": 3}, "nothing is changed in place"


@pytest.mark.parametrize(
    ("new", "old", "path"),
    [
        ({}, {"a": {"keep": 1}}, "a.keep"),
        ({"a": {"b": {"c": 1}}}, {}, "a.b.c"),
        ({"list": [1]}, {"list": [1, 2]}, "list[1]"),
        ({"list": [1, 2]}, {"list": [1]}, "list[1]"),
        ({"list": [{"v": 1}]}, {"list": [{"v": 1}]}, "list[7].v"),
        ({"list": [{"v": 1}]}, {"list": []}, "list[*].v"),
        ({"list": [1]}, {"list": [1, 2]}, "list[*]"),
        ({"a": {}}, {"a": {"x": {"v": 1}}}, "a.*.v"),
        ({"a": 1}, {"a": {"keep": 1}}, "a.keep"),
    ],
)
def test_nothing_is_carried_to_a_place_that_only_one_side_has(new: dict[str, Any], old: dict[str, Any], path: str) -> None:
    with pytest.raises(PathError, match=r"missing|length"):
        carried(new, old, parse(path))


def test_what_is_carried_out_of_a_secret_stays_one() -> None:
    old = {"a": secret({"key": "k", "other": 1})}
    assert carried({"a": {"key": "x"}}, old, parse("a.key")) == {"a": {"key": secret("k")}}
    assert carried({"a": secret({"key": "x"})}, old, parse("a.key")) == {"a": secret({"key": "k"})}
    assert carried({"a": secret({"key": "x"})}, {"a": {"key": "k"}}, parse("a.key")) == {"a": secret({"key": "k"})}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
maps = st.dictionaries(st.text(max_size=5), json_values, max_size=4)


def sprinkled(value: Any, draw: Any) -> Any:
    """`value` with some of its parts made secret."""
    if isinstance(value, dict):
        value = {key: sprinkled(inner, draw) for key, inner in value.items()}
    elif isinstance(value, list):
        value = [sprinkled(inner, draw) for inner in value]
    return secret(value) if draw(st.integers(0, 4)) == 0 else value


@given(maps)
def test_values_survive_the_wire(value: dict[str, Any]) -> None:
    assert from_struct(to_struct(value)) == value


@given(maps, st.data())
def test_secrets_are_found_taken_off_hidden_and_put_back(value: dict[str, Any], data: st.DataObject) -> None:
    marked = {key: sprinkled(inner, data.draw) for key, inner in value.items()}
    assert plain(marked) == value
    assert not has_secret(plain(marked)) and not has_secret(masked(marked))
    assert plain(marked_like(value, marked)) == value
    assert masked(marked_like(value, marked)) == masked(marked), "a repeated value is as secret as it was"
    assert from_struct(to_struct(marked)) == marked
    assert copied(marked) == marked
    assert has_secret(marked) == (map_secrets(marked, lambda _: 0) != marked)


def test_where_shapes_differ_everything_becomes_secret() -> None:
    assert marked_like({"a": "x-y"}, {"a": {"b": secret("x")}}) == {"a": secret("x-y")}
    assert marked_like({"a": [1, 2, 3]}, {"a": [secret(1)]}) == {"a": secret([1, 2, 3])}
    assert marked_like({"other": 1}, {"a": secret(2)}) == {"other": 1}


def test_named_outputs_become_secret() -> None:
    assert with_secret_keys({"a": 1, "b": 2}, ["b", "c"]) == {"a": 1, "b": secret(2)}


def test_values_without_secrets_are_not_copied() -> None:
    value = {"a": [{"b": 1}]}
    assert plain(value) is value and masked(value) is value and marked_like(value, {"a": 1}) is value


def test_output_values_are_reduced_to_what_they_hold() -> None:
    signature = {"4dabf18193072939515e22adb298388d": "d0e6a833031e9bbcd3f4e8bde6ca49a4", "dependencies": ["urn"]}
    found = from_struct(to_struct({"a": {**signature, "value": 3}, "b": [signature], "c": {**signature, "value": "x", "secret": True}}))
    assert found == {"a": 3, "b": [UNKNOWN], "c": secret("x")}
    assert has_unknown(found) and not has_unknown({"a": found["a"]})


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(TypeError, match="set is not"):
        to_struct({"a": {1, 2}})


@given(maps, maps)
def test_differences_are_complete_and_name_places_that_differ(old: dict[str, Any], new: dict[str, Any]) -> None:
    found = changes(old, new)
    assert (found == {}) == (old == new)
    for text, kind in found.items():
        path = parse(text) if "" not in text.split(".") else ()
        if path and "*" not in path:
            was, now = value_at(old, path), value_at(new, path)
            assert {"add": (False, True), "delete": (True, False), "update": (True, True)}[kind] == (was[0], now[0])
            assert was != now


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("urn:pulumi:dev::proj::t:m:T::a", True),
        ("**", True),
        ("*", False),
        ("urn:pulumi:dev::proj::t:m:*::a", True),
        ("urn:pulumi:*::a", False),
        ("**::b", False),
    ],
)
def test_wildcards(pattern: str, matches: bool) -> None:
    assert matcher([pattern])("urn:pulumi:dev::proj::t:m:T::a") is matches


@pytest.mark.parametrize(("text", "expected"), [("30s", 30), ("1h30m", 5400), ("1.5h", 5400), ("250ms", 0.25)])
def test_durations(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "5", "5 m", "soon", "5m!"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        seconds(text)


LIMIT = Declared("limit", "mandatory", {"max": {"type": "integer", "default": 5}}, ("max",))


@pytest.mark.parametrize(
    ("initial", "user", "level", "maximum"),
    [
        ({}, {}, "mandatory", 5),
        ({"limit": Settled("advisory", {})}, {}, "advisory", 5),
        ({"limit": Settled("advisory", {"max": 7})}, {}, "mandatory", 7),
        ({"limit": Settled("disabled", {"max": 7})}, {}, "disabled", 7),
        ({}, {"all": "advisory"}, "advisory", 5),
        ({}, {"all": "advisory", "limit": "mandatory"}, "mandatory", 5),
        ({}, {"all": "advisory", "limit": {"max": 9}}, "advisory", 9),
        ({"limit": Settled("disabled", {"max": 7})}, {"limit": {"enforcementLevel": "remediate", "max": 9}}, "remediate", 9),
    ],
)
def test_later_settings_of_a_policy_win(initial: dict[str, Settled], user: dict[str, Any], level: str, maximum: int) -> None:
    assert settle([LIMIT], initial, user) == {"limit": Settled(level, {"max": maximum})}


def test_all_faults_of_a_policy_configuration_are_told_at_once() -> None:
    strict = Declared("needs", "advisory", {"who": {"type": "string"}}, ("who",))
    with pytest.raises(PolicyConfigError) as raised:
        settle([LIMIT, strict], {}, {"limit": {"max": "x"}, "other": "advisory", "all": "hard"})
    text = str(raised.value)
    for fault in (
        "limit: max: 'x' is not of type 'integer'",
        "needs: configuration: 'who' is a required property",
        "other: no such",
        "'hard'",
    ):
        assert fault in text
