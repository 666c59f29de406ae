"""What a refresh shows: true drift, and nothing that the API server only wrote differently."""

import base64
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulumi_embedded.engine.provider import Properties
from pulumi_embedded.providers.kubernetes import quantities, wire
from pulumi_embedded.providers.kubernetes.drift import shaped
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind

POD = ObjectKind("", "v1", "Pod")
DEFINITION = ObjectKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def spec(**fields: Any) -> Properties:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": fields}


def test_fields_that_were_never_recorded_are_not_drift() -> None:
    assert shaped(spec(a=1), {**spec(a=1, b=2), "status": {"c": 3}}) == spec(a=1)


def test_a_changed_field_shows_its_live_value() -> None:
    assert shaped(spec(replicas=1), spec(replicas=3)) == spec(replicas=3)


def test_a_field_that_somebody_removed_is_missing() -> None:
    assert shaped(spec(a=1, b=2), spec(a=1)) == spec(a=1)


@pytest.mark.parametrize("empty", [None, "", 0, False, [], {}, {"a": None}])
def test_an_empty_field_that_the_api_server_leaves_out_is_not_drift(empty: Any) -> None:
    assert shaped(spec(a=empty), spec()) == spec(a=empty)


@pytest.mark.parametrize(
    ("recorded", "live"), [("1000m", "1"), (4, "4"), ("1024Mi", "1Gi"), ("0.5", "500m"), ("1e3", "1k"), (1.5, "1500m"), ("1000", "1k")]
)
def test_the_same_quantity_in_other_words_is_not_drift(recorded: Any, live: str) -> None:
    for parent in ("limits", "requests", "hard", "capacity", "default", "max"):
        assert shaped(spec(**{parent: {"cpu": recorded}}), spec(**{parent: {"cpu": live}})) == spec(**{parent: {"cpu": recorded}})


def test_another_quantity_is_drift() -> None:
    assert shaped(spec(limits={"cpu": "1"}), spec(limits={"cpu": "2"})) == spec(limits={"cpu": "2"})


def test_quantities_are_only_compared_where_there_are_quantities() -> None:
    assert shaped(spec(labels={"a": "1000m"}), spec(labels={"a": "1"})) == spec(labels={"a": "1"})


def test_a_number_is_not_its_text_outside_of_quantities() -> None:
    assert shaped(spec(port=80), spec(port="80")) == spec(port="80")


def test_a_container_that_a_webhook_put_in_is_not_drift() -> None:
    recorded = spec(containers=[{"name": "app", "image": "a"}])
    assert shaped(recorded, spec(containers=[{"name": "proxy", "image": "p"}, {"name": "app", "image": "a", "extra": 1}])) == recorded


def test_a_container_that_somebody_changed_or_removed_is_drift() -> None:
    recorded = spec(containers=[{"name": "app", "image": "a"}, {"name": "side", "image": "s"}])
    assert shaped(recorded, spec(containers=[{"name": "app", "image": "b"}])) == spec(containers=[{"name": "app", "image": "b"}])


def test_an_element_added_to_a_list_of_one_writer_is_drift() -> None:
    live = spec(http=[{"name": "a"}, {"name": "b"}])
    assert shaped(spec(http=[{"name": "a"}]), live) == live


def test_the_tolerations_that_every_pod_gets_are_not_drift() -> None:
    recorded = spec(tolerations=[{"key": "gpu"}])
    default = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}
    assert shaped(recorded, spec(tolerations=[{"key": "gpu"}, default])) == recorded
    assert shaped(recorded, spec(tolerations=[{"key": "gpu"}, {"key": "mine"}])) == spec(tolerations=[{"key": "gpu"}, {"key": "mine"}])


def test_string_data_of_a_secret_is_compared_with_what_is_stored() -> None:
    recorded = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "stringData": {"a": "one", "b": "two"}}
    stored = {key: base64.b64encode(value.encode()).decode() for key, value in {"a": "one", "b": "three"}.items()}
    live = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": stored}
    assert shaped(recorded, live)["stringData"] == {"a": "one", "b": "three"}


def test_an_imported_object_is_recorded_without_what_the_api_server_sets() -> None:
    live = {**spec(a=1), "status": {"b": 2}}
    live["metadata"] = {"name": "x", "labels": {"l": "1"}, "uid": "u", "resourceVersion": "7", "creationTimestamp": "t", "generation": 1}
    assert shaped({}, live) == {**spec(a=1), "metadata": {"name": "x", "labels": {"l": "1"}}}


JSON = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.text("ab1m", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "limits", "containers", "name"]), inner),
)


@given(st.dictionaries(st.text("xy", min_size=1, max_size=2), JSON))
def test_an_object_that_nobody_touched_never_drifts(inputs: Properties) -> None:
    assert shaped({"kind": "Thing", **inputs}, {"kind": "Thing", **inputs}) == {"kind": "Thing", **inputs}


@given(st.integers(0, 10**6), st.sampled_from(["", "m", "k", "Mi", "G"]))
def test_a_quantity_is_equal_to_itself_and_not_to_the_next(number: int, suffix: str) -> None:
    assert quantities.equal(f"{number}{suffix}", f"{number}{suffix}")
    assert not quantities.equal(f"{number}{suffix}", f"{number + 1}{suffix}")


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1", Fraction(1)),
        ("100m", Fraction(1, 10)),
        ("1Ki", Fraction(1024)),
        ("2E", Fraction(2 * 10**18)),
        ("1e-3", Fraction(1, 1000)),
        (".5", Fraction(1, 2)),
    ],
)
def test_quantities_are_read_exactly(text: str, amount: Fraction) -> None:
    assert quantities.amount(text) == amount


@pytest.mark.parametrize("text", ["", "m", "1x", "1 Gi", "abc", True, None, [1]])
def test_what_is_no_quantity_has_no_amount(text: Any) -> None:
    assert quantities.amount(text) is None


def test_managed_fields_are_not_recorded() -> None:
    live = {"metadata": {"name": "x", "managedFields": [{"manager": "m"}]}}
    recorded = wire.outputs(POD, live, "me")
    assert recorded["metadata"] == {"name": "x"}
    assert (recorded["__fieldManager"], recorded["__initialApiVersion"]) == ("me", "v1")


def test_fields_that_the_sdk_cannot_spell_are_translated_in_definitions_only() -> None:
    written = {"metadata": {"name": "x"}, "spec": {"x_kubernetes_preserve_unknown_fields": True, "_ref": "r", "plain_key": 1}}
    served = {"metadata": {"name": "x"}, "spec": {"x-kubernetes-preserve-unknown-fields": True, "$ref": "r", "plain_key": 1}}
    assert wire.manifest(DEFINITION, written) == served
    assert wire.live(DEFINITION, served)["spec"] == written["spec"]
    assert wire.manifest(POD, written) == written


def test_nulls_are_not_sent() -> None:
    assert wire.manifest(POD, {"a": None, "b": {"c": None, "d": [{"e": None}]}}) == {"b": {"d": [{}]}}


def test_string_data_is_sent_as_data_and_wins_over_it() -> None:
    written = {"data": {"a": "b2xk", "b": "Yg=="}, "stringData": {"a": "new"}}
    assert wire.manifest(ObjectKind("", "v1", "Secret"), written) == {"data": {"a": "bmV3", "b": "Yg=="}}
    assert wire.manifest(POD, written) == written
