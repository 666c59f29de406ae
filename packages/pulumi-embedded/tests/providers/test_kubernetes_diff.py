"""What changes between two versions of an object's inputs, what replaces it, and how it is named."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulumi_embedded.engine.provider import UNKNOWN, DiffResult, Properties
from pulumi_embedded.providers.kubernetes import names, paths
from pulumi_embedded.providers.kubernetes.diff import changes, compare, compare_plain
from pulumi_embedded.providers.kubernetes.kinds import kind_of

DEPLOYMENT = "apps/v1:Deployment"
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text("abc", max_size=3)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz.", min_size=1, max_size=3), inner))


def web(**changed: Any) -> Properties:
    container = {"name": "c", "image": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec: Properties = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "team"}, "spec": spec | changed}


def difference(
    old: Properties, new: Properties, kind: str = DEPLOYMENT, ignored: tuple[str, ...] = (), mutable: bool = False, namespaced: bool = True
) -> DiffResult:
    return compare(kind_of(f"kubernetes:{kind}"), old, new, ignored, namespaced=namespaced, payload_mutable=mutable)


def named(name: str, **rest: Any) -> Properties:
    return {"metadata": {"name": name, "namespace": "team"}, **rest}


def test_equal_inputs_have_no_difference() -> None:
    assert difference(web(), web()).details == {}


def test_a_change_deep_inside_is_named_by_its_path() -> None:
    new = web()
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "b"
    assert difference(web(), new).details == {"spec.template.spec.containers[0].image": "update"}
    assert difference(web(), new).replaces == ()


def test_keys_with_dots_are_quoted_in_a_path() -> None:
    new = web()
    new["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "2"
    assert list(difference(web(), new).details) == ['spec.template.spec.containers[0].resources.limits["nvidia.com/gpu"]']


def test_a_null_is_the_same_as_an_absent_field() -> None:
    assert difference(web(), web(minReadySeconds=None)).details == {}


def test_true_is_not_one() -> None:
    assert difference(named("x", data={"a": 1}), named("x", data={"a": True}), "example.com/v1:Thing").details == {"data.a": "update"}


def test_a_missing_namespace_is_default() -> None:
    old, new = {"metadata": {"name": "x"}}, {"metadata": {"name": "x", "namespace": "default"}}
    assert difference(old, new, "core/v1:Service").details == {}


def test_a_cluster_scoped_object_has_no_namespace_to_change() -> None:
    old, new = {"metadata": {"name": "x"}}, {"metadata": {"name": "x", "namespace": "team"}}
    assert difference(old, new, "core/v1:Namespace", namespaced=False).details == {}


@pytest.mark.parametrize(
    ("kind", "old", "new", "path"),
    [
        (
            DEPLOYMENT,
            {"spec": {"selector": {"matchLabels": {"a": "1"}}}},
            {"spec": {"selector": {"matchLabels": {"a": "2"}}}},
            "spec.selector.matchLabels.a",
        ),
        ("apps/v1:StatefulSet", {"spec": {"serviceName": "a"}}, {"spec": {"serviceName": "b"}}, "spec.serviceName"),
        ("batch/v1:Job", {"spec": {"template": {"a": 1}}}, {"spec": {"template": {"a": 2}}}, "spec.template.a"),
        ("core/v1:ConfigMap", {"data": {"a": "1"}}, {"data": {"a": "2"}}, "data.a"),
        ("core/v1:Secret", {"stringData": {"a": "1"}}, {"stringData": {"a": "2"}}, "stringData.a"),
        ("core/v1:Service", {"spec": {"clusterIP": "None"}}, {"spec": {"clusterIP": "10.0.0.1"}}, "spec.clusterIP"),
        (
            "core/v1:PersistentVolumeClaim",
            {"spec": {"storageClassName": "a"}},
            {"spec": {"storageClassName": "b"}},
            "spec.storageClassName",
        ),
        ("core/v1:Pod", {"spec": {"nodeName": "a"}}, {"spec": {"nodeName": "b"}}, "spec.nodeName"),
        ("rbac.authorization.k8s.io/v1:RoleBinding", {"roleRef": {"name": "a"}}, {"roleRef": {"name": "b"}}, "roleRef.name"),
        ("storage.k8s.io/v1:StorageClass", {"parameters": {"a": "1"}}, {"parameters": {"a": "2"}}, "parameters.a"),
    ],
)
def test_a_field_that_cannot_change_in_place_replaces_the_object(kind: str, old: Properties, new: Properties, path: str) -> None:
    found = difference(named("x", **old), named("x", **new), kind)
    assert (found.replaces, found.details) == ((path,), {path: "update-replace"})
    assert found.delete_before_replace, "the replacement has the same name, so the old object must go first"


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        (DEPLOYMENT, {"spec": {"replicas": 1}}, {"spec": {"replicas": 2}}),
        ("core/v1:Pod", {"spec": {"tolerations": []}}, {"spec": {"tolerations": [{"key": "a"}]}}),
        ("core/v1:Service", {"spec": {"selector": {"a": "1"}}}, {"spec": {"selector": {"a": "2"}}}),
        ("core/v1:ResourceQuota", {"spec": {"hard": {"pods": "1"}}}, {"spec": {"hard": {"pods": "2"}}}),
        ("rbac.authorization.k8s.io/v1:RoleBinding", {"subjects": []}, {"subjects": [{"name": "a"}]}),
    ],
)
def test_a_field_that_may_change_does_not_replace(kind: str, old: Properties, new: Properties) -> None:
    found = difference(named("x", **old), named("x", **new), kind)
    assert found.details
    assert found.replaces == ()


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("scheduling.k8s.io/v1:PriorityClass", {"value": 1}, {"value": 2}),
        ("storage.k8s.io/v1:StorageClass", {"reclaimPolicy": "Delete"}, {"reclaimPolicy": "Retain"}),
        ("node.k8s.io/v1:RuntimeClass", {"handler": "a"}, {"handler": "b"}),
        ("core/v1:ResourceQuota", {"spec": {"scopeSelector": {}}}, {"spec": {"scopeSelector": {"matchExpressions": []}}}),
    ],
)
def test_what_the_provider_does_not_know_as_immutable_is_patched(kind: str, old: Properties, new: Properties) -> None:
    found = difference(named("x", **old), named("x", **new), kind)
    assert found.details
    assert (found.replaces, found.delete_before_replace) == ((), False)


def test_data_changes_in_place_where_the_provider_says_so() -> None:
    assert difference(named("x", data={"a": "1"}), named("x", data={"a": "2"}), "core/v1:ConfigMap", mutable=True).replaces == ()


def test_data_of_an_immutable_object_never_changes_in_place() -> None:
    old, new = named("x", data={"a": "1"}, immutable=True), named("x", data={"a": "2"}, immutable=True)
    assert difference(old, new, "core/v1:ConfigMap", mutable=True).replaces == ("data.a",)


def test_another_name_replaces_without_deleting_first() -> None:
    found = difference(named("a"), named("b"))
    assert found.replaces == ("metadata.name",)
    assert not found.delete_before_replace


def test_another_namespace_replaces_without_deleting_first() -> None:
    found = difference(named("a"), {"metadata": {"name": "a", "namespace": "other"}})
    assert found.replaces == ("metadata.namespace",)
    assert not found.delete_before_replace


def test_a_name_that_is_not_known_yet_replaces_without_deleting_first() -> None:
    found = difference(named("a"), named(UNKNOWN))
    assert found.replaces == ("metadata.name",)
    assert not found.delete_before_replace


def test_an_object_with_a_made_up_name_is_replaced_under_a_new_one_first() -> None:
    head = {"name": "cfg-0a1b2c3d", "namespace": "team", "annotations": {names.AUTONAMED: "true"}}
    found = difference({"metadata": head, "data": {"a": "1"}}, {"metadata": head, "data": {"a": "2"}}, "core/v1:ConfigMap")
    assert found.replaces == ("data.a",)
    assert not found.delete_before_replace


def test_a_replacement_that_others_ask_for_does_not_delete_first() -> None:
    assert not difference(web(), web()).delete_before_replace
    assert not difference(web(), web(replicas=2)).delete_before_replace


def test_losing_all_metadata_replaces() -> None:
    assert difference(named("a"), {"metadata": UNKNOWN}).replaces == ("metadata",)


@pytest.mark.parametrize("ignored", ["spec.replicas", "spec", 'spec["replicas"]'])
def test_an_ignored_field_does_not_change(ignored: str) -> None:
    assert difference(web(), web(replicas=5), ignored=(ignored,)).details == {}


def test_ignoring_a_child_does_not_hide_its_parent() -> None:
    found = difference(web(), {**web(), "spec": {"replicas": 5}}, ignored=("spec.replicas",))
    assert sorted(found.details) == ["spec.selector", "spec.template"]


def test_an_ignored_path_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ValueError, match="spec"):
        difference(web(), web(replicas=2), ignored=("spec[",))


def test_elements_added_to_and_removed_from_a_list_are_told_apart() -> None:
    assert changes({"a": [1, 2]}, {"a": [1]}) == {("a", 1): "delete"}
    assert changes({"a": [1]}, {"a": [1, 2]}) == {("a", 1): "add"}


def test_a_release_is_replaced_by_its_name_only() -> None:
    old = {"name": "a", "namespace": "n", "version": "1", "values": {"x": 1}}
    assert compare_plain(old, {**old, "version": "2"}, (), replacing=("name", "namespace")).replaces == ()
    found = compare_plain(old, {**old, "name": "b"}, (), replacing=("name", "namespace"))
    assert (found.details, found.replaces) == ({"name": "update-replace"}, ("name",))
    assert not compare_plain(old, old, (), replacing=("name", "namespace")).delete_before_replace


@given(VALUES)
def test_a_contract_does_not_differ_from_itself(value: Any) -> None:
    assert changes({"v": value}, {"v": value}) == {}


@given(VALUES, VALUES)
def test_a_difference_is_seen_from_both_sides(one: Any, other: Any) -> None:
    mirrored = {"add": "delete", "delete": "add", "update": "update"}
    assert changes({"v": one}, {"v": other}) == {path: mirrored[kind] for path, kind in changes({"v": other}, {"v": one}).items()}


def test_an_unnamed_object_is_named_after_its_resource_and_says_so() -> None:
    inputs = names.named("web", None, {}, lambda: "0a1b2c3d")
    assert inputs["metadata"] == {"name": "web-0a1b2c3d", "annotations": {names.AUTONAMED: "true"}}


def test_a_made_up_name_is_kept() -> None:
    first = names.named("web", None, {"metadata": {"labels": {"a": "b"}}}, lambda: "0a1b2c3d")
    again = names.named("web", first, {"metadata": {"labels": {"a": "c"}}}, lambda: "ffffffff")
    assert again["metadata"]["name"] == "web-0a1b2c3d"
    assert again["metadata"]["annotations"] == {names.AUTONAMED: "true"}


def test_a_name_that_the_user_had_given_is_not_kept_when_it_is_taken_away() -> None:
    assert names.named("web", {"metadata": {"name": "mine"}}, {}, lambda: "0a1b2c3d")["metadata"]["name"] == "web-0a1b2c3d"


def test_a_given_name_stays_and_is_not_called_made_up() -> None:
    given_name = {"metadata": {"name": "mine"}}
    assert names.named("web", None, given_name, lambda: "x") == given_name


def test_metadata_that_is_not_known_yet_is_left_alone() -> None:
    assert names.named("web", None, {"metadata": UNKNOWN}, lambda: "x") == {"metadata": UNKNOWN}


def test_the_field_manager_of_a_resource_never_changes() -> None:
    urn = "urn:pulumi:s::p::kubernetes:core/v1:ConfigMap::a"
    assert names.field_manager(urn) == names.field_manager(urn) != names.field_manager(urn + "b")
    assert names.field_manager(urn).startswith("pulumi-kubernetes-")


def test_random_suffixes_are_eight_characters_of_their_own() -> None:
    made = {names.random_suffix() for _ in range(50)}
    assert len(made) == 50
    assert all(len(suffix) == 8 for suffix in made)


@pytest.mark.parametrize(("namespace", "name", "id"), [("team", "web", "team/web"), ("", "high", "high")])
def test_an_id_is_read_back(namespace: str, name: str, id: str) -> None:
    assert names.object_id(namespace, name) == id
    assert names.split_id(id) == (namespace, name)


def test_a_field_in_the_api_servers_spelling_is_found_by_the_keys_of_its_list() -> None:
    manifest = {"spec": {"containers": [{"name": "a"}, {"name": "b", "image": "x"}], "ports": [{"port": 80, "protocol": "TCP"}]}}
    assert paths.located('.spec.containers[name="b"].image', manifest) == ("spec", "containers", 1, "image")
    assert paths.located('.spec.ports[port=80,protocol="TCP"]', manifest) == ("spec", "ports", 0)
    assert paths.located('.spec.containers[name="z"].image', manifest) == ("spec", "containers", "*", "image")


def test_taking_a_field_out_leaves_its_neighbours() -> None:
    value = {"spec": {"replicas": 1, "other": {"replicas": 2}}, "status": {"replicas": 3}}
    assert paths.without(value, ("spec", "replicas")) == {"spec": {"other": {"replicas": 2}}, "status": {"replicas": 3}}
    assert paths.without({"a": [{"b": 1, "c": 2}, {"b": 3}]}, ("a", 0, "b")) == {"a": [{"c": 2}, {"b": 3}]}
    assert paths.without({"a": [1, 2]}, ("a", 1)) == {"a": [1]}
