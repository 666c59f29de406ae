"""What is refused before any cluster is asked: annotations, mesh routes, releases, settings of the provider."""

from pathlib import Path
from typing import Any

import pytest

from pulumi_embedded.engine.provider import UNKNOWN, CheckResult, Properties
from pulumi_embedded.providers.kubernetes import checks, releases, settings
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind, kind_of

VIRTUAL_SERVICE = ObjectKind("networking.istio.io", "v1", "VirtualService")
DESTINATION_RULE = ObjectKind("networking.istio.io", "v1", "DestinationRule")


def checked(
    new: Properties, kind: ObjectKind | str = "core/v1:ConfigMap", old: Properties | None = None, namespace: str = ""
) -> CheckResult:
    found = kind if isinstance(kind, ObjectKind) else kind_of(f"kubernetes:{kind}")
    return checks.complete(found, "res", old, new, lambda: "0a1b2c3d", namespace)


def refused(result: CheckResult) -> list[str]:
    return [failure.property for failure in result.failures]


def routes(*weights: Any, **http: Any) -> Properties:
    destinations = [{"destination": {"host": f"h{index}"}, "weight": weight} for index, weight in enumerate(weights)]
    return {"metadata": {"name": "x"}, "spec": {"hosts": ["h"], "http": [{"route": destinations, **http}]}}


def test_version_and_kind_are_filled_in() -> None:
    inputs = checked({"data": {"a": "b"}}).inputs
    assert (inputs["apiVersion"], inputs["kind"], inputs["metadata"]["name"]) == ("v1", "ConfigMap", "res-0a1b2c3d")


def test_no_label_is_added_because_field_managers_say_who_manages() -> None:
    assert "labels" not in checked({}).inputs["metadata"]


def test_the_namespace_of_the_provider_is_for_objects_that_name_none() -> None:
    assert checked({}, namespace="team").inputs["metadata"]["namespace"] == "team"
    assert checked({"metadata": {"namespace": "own"}}, namespace="team").inputs["metadata"]["namespace"] == "own"
    assert "namespace" not in checked({}, "core/v1:Namespace", namespace="team").inputs["metadata"]


def test_every_contradiction_is_reported_at_once() -> None:
    bad = {"apiVersion": "v2", "kind": "Pod", "metadata": {"generateName": "x-", "annotations": {"pulumi.com/timeoutSeconds": "soon"}}}
    assert refused(checked(bad)) == [
        "apiVersion",
        "kind",
        "metadata.generateName",
        'metadata.annotations["pulumi.com/timeoutSeconds"]',
    ]


def test_core_v1_is_the_same_version_as_v1() -> None:
    assert refused(checked({"apiVersion": "core/v1"})) == []


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        ("pulumi.com/skipAwait", "true", "yes"),
        ("pulumi.com/patchForce", "false", "1"),
        ("pulumi.com/timeoutSeconds", "600", "0"),
        ("pulumi.com/deletionPropagationPolicy", "orphan", "later"),
    ],
)
def test_an_annotation_that_steers_the_provider_is_checked(annotation: str, good: str, bad: str) -> None:
    assert refused(checked({"metadata": {"annotations": {annotation: good}}})) == []
    assert refused(checked({"metadata": {"annotations": {annotation: UNKNOWN}}})) == []
    assert refused(checked({"metadata": {"annotations": {annotation: bad}}})) == [f'metadata.annotations["{annotation}"]']


@pytest.mark.parametrize("annotation", ["pulumi.com/waitFor", "pulumi.com/replaceUnready", "pulumi.com/patchFieldManager"])
def test_an_annotation_that_is_not_modelled_is_refused_by_name(annotation: str) -> None:
    assert refused(checked({"metadata": {"annotations": {annotation: "x"}}})) == [f'metadata.annotations["{annotation}"]']


def test_metadata_that_is_not_known_yet_passes() -> None:
    assert checked({"metadata": UNKNOWN}).failures == ()


@pytest.mark.parametrize("weights", [(90, 10), (100,), (0, 100), (UNKNOWN, 10), (None,)])
def test_weights_that_share_a_hundred_pass(weights: tuple[Any, ...]) -> None:
    assert refused(checked(routes(*weights), VIRTUAL_SERVICE)) == []


def test_weights_that_do_not_share_a_hundred_are_refused_with_their_sum() -> None:
    result = checked(routes(90, 9), VIRTUAL_SERVICE)
    assert refused(result) == ["spec.http[0].route"]
    assert "90 + 9 = 99" in result.failures[0].reason


def test_a_negative_weight_is_refused_by_its_own_path() -> None:
    for weights in ((101, -1), (50, -1)):
        assert refused(checked(routes(*weights), VIRTUAL_SERVICE)) == ["spec.http[0].route[1].weight"]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"http": [{"route": [{"destination": {"host": "a"}}]}]}, "spec.hosts"),
        ({"hosts": ["a"], "http": [{}]}, "spec.http[0]"),
        ({"hosts": ["a"], "http": [{"route": [{"destination": {"host": "a"}}], "redirect": {"uri": "/"}}]}, "spec.http[0]"),
        ({"hosts": ["a"], "http": [{"route": [{"weight": 100}]}]}, "spec.http[0].route[0].destination.host"),
        (
            {"hosts": ["a"], "http": [{"delegate": {"name": "b"}, "mirrorPercentage": {"value": 101}}]},
            "spec.http[0].mirrorPercentage.value",
        ),
        ({"hosts": ["a"], "tcp": [{"route": [{"destination": {"host": "a"}, "weight": 1}] * 2}]}, "spec.tcp[0].route"),
    ],
)
def test_what_istiod_would_refuse_of_a_virtual_service_is_refused(spec: Properties, path: str) -> None:
    assert refused(checked({"metadata": {"name": "x"}, "spec": spec}, VIRTUAL_SERVICE)) == [path]


def test_subset_names_are_unique() -> None:
    spec = {"host": "h", "subsets": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}
    result = checked({"spec": spec}, DESTINATION_RULE)
    assert refused(result) == ["spec.subsets[2].name"]
    assert "spec.subsets[0]" in result.failures[0].reason
    assert refused(checked({"spec": {"host": "h", "subsets": [{"name": "a"}, {"name": "b"}]}}, DESTINATION_RULE)) == []


def test_a_destination_rule_needs_a_host() -> None:
    assert refused(checked({"spec": {}}, DESTINATION_RULE)) == ["spec.host"]


def test_a_kind_of_the_same_name_in_another_group_is_not_the_meshs() -> None:
    assert refused(checked({"spec": {}}, ObjectKind("example.com", "v1", "DestinationRule"))) == []


def release(**changed: Any) -> CheckResult:
    inputs = {"chart": "keda", "version": "2.20.2", "namespace": "keda", "compat": "true", **changed}
    return releases.check("keda", None, inputs, lambda: "0a1b2c3d", "")


def test_a_pinned_release_of_a_known_chart_passes_and_is_named() -> None:
    result = release()
    assert result.failures == ()
    assert (result.inputs["name"], result.inputs["namespace"]) == ("keda-0a1b2c3d", "keda")


def test_a_release_keeps_its_made_up_name() -> None:
    again = releases.check("keda", {"name": "keda-ffffffff"}, {"chart": "keda", "version": "1"}, lambda: "0a1b2c3d", "")
    assert again.inputs["name"] == "keda-ffffffff"


@pytest.mark.parametrize("chart", ["oci://host.example/charts/keda", "kedacore/keda", UNKNOWN])
def test_a_chart_may_be_named_with_its_place(chart: str) -> None:
    assert refused(release(chart=chart)) == []


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"chart": "surprise"}, "chart"),
        ({"version": None}, "version"),
        ({"version": ">=2"}, "version"),
        ({"version": "2.x"}, "version"),
        ({"version": "latest"}, "version"),
        ({"values": ["a"]}, "values"),
        ({"postrender": "sed"}, "postrender"),
        ({"valueYamlFiles": []}, "valueYamlFiles"),
    ],
)
def test_a_release_that_cannot_be_recorded_faithfully_is_refused(changed: Properties, path: str) -> None:
    assert refused(release(**changed)) == [path]


def test_an_unknown_chart_is_named_with_those_that_are_known() -> None:
    assert "kube-prometheus-stack" in release(chart="surprise").failures[0].reason


def test_the_digest_of_values_depends_on_their_content_and_not_their_order() -> None:
    assert releases.values_digest({"a": 1, "b": 2}) == releases.values_digest({"b": 2, "a": 1}) != releases.values_digest({"a": 1, "b": 3})


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: here, context: {cluster: c, user: u, namespace: team}}
- {name: there, context: {cluster: c, user: u}}
"""


@pytest.mark.parametrize("value", [True, "true"])
def test_settings_are_read_from_the_json_text_that_the_sdk_sends(value: Any) -> None:
    found = settings.parse({"kubeconfig": KUBECONFIG, "enablePatchForce": value, "upsertExistingObjects": "false"}, Path("none"))
    assert (found.patch_force, found.upsert) == (True, False)


def test_variables_count_where_the_program_does_not_say() -> None:
    asked = {settings.UPSERT_VARIABLE: "true", settings.FORCE_VARIABLE: "true"}
    found = settings.parse({"kubeconfig": KUBECONFIG}, Path("none"), asked)
    assert (found.patch_force, found.upsert) == (True, True)
    said = {"kubeconfig": KUBECONFIG, "upsertExistingObjects": "false", "enablePatchForce": "false"}
    found = settings.parse(said, Path("none"), asked)
    assert (found.patch_force, found.upsert) == (False, False)
