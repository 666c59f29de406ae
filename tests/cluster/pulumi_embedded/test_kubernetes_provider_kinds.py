"""Releases that bring definitions, and every kind that the program uses: created, previewed, free of false drift, deleted."""

from typing import Any

import pytest

from components.addons import keda
from headway.wire import RECORDED_CHART
from pulumi_embedded.engine.provider import UNKNOWN, Properties, ProviderError
from tests.cluster.conftest import ControlPlane, eventually
from tests.cluster.pulumi_embedded.kinds_of_the_program import kinds
from tests.cluster.pulumi_embedded.kubernetes_provider_driver import Driver, RefusedError, Resource, Watched

RELEASE = "kubernetes:helm.sh/v3:Release"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"

Charts = dict[str, Resource]


def release(chart: str, namespace: str, **changed: Any) -> Properties:
    return {
        "chart": chart,
        "version": "1.2.3",
        "namespace": namespace,
        "createNamespace": True,
        "compat": "true",
        "values": {"replicas": 2},
        **changed,
    }


@pytest.fixture(scope="module")
def charts(control_plane: ControlPlane) -> Charts:
    """The releases that bring custom kinds."""
    driver = Driver.of(control_plane)
    names = {"base": "istio-system", "keda": "keda", "kube-prometheus-stack": "monitoring", "gpu-operator": "gpu-operator"}
    return {chart: driver.create(RELEASE, chart, {**release(chart, namespace), "name": chart}) for chart, namespace in names.items()}


@pytest.fixture
def driver(control_plane: ControlPlane) -> Driver:
    return Driver.of(control_plane)


@pytest.fixture
def team(driver: Driver) -> str:
    return driver.namespace()


def record(plane: ControlPlane, resource: Resource) -> Properties:
    namespace, _, name = resource.id.partition("/")
    return plane.get("ConfigMap", f"helm-release-{name}", namespace=namespace)


def definitions(plane: ControlPlane) -> set[str]:
    found = plane.list("CustomResourceDefinition", api_version="apiextensions.k8s.io/v1")
    return {definition["metadata"]["name"] for definition in found}


def test_a_release_installs_the_definitions_of_its_chart(charts: Charts, control_plane: ControlPlane) -> None:
    expected = {
        "virtualservices.networking.istio.io",
        "scaledobjects.keda.sh",
        "podmonitors.monitoring.coreos.com",
        "clusterpolicies.nvidia.com",
    }
    assert expected <= definitions(control_plane)


def test_a_release_is_recorded_in_its_namespace_and_called_what_it_is(charts: Charts, control_plane: ControlPlane) -> None:
    data = record(control_plane, charts["keda"])["data"]
    assert (data["chart"], data["version"], data["revision"], data["state"]) == ("keda", "1.2.3", "1", "recorded, not run")
    labelled = control_plane.list("ConfigMap", label_selector=RECORDED_CHART)
    assert {item["data"]["name"] for item in labelled} >= set(charts)


def test_a_release_answers_a_status_as_helm_does(charts: Charts) -> None:
    status = charts["keda"].outputs["status"]
    assert {key: status[key] for key in ("chart", "name", "namespace", "revision", "status", "version")} == {
        "chart": "keda",
        "name": "keda",
        "namespace": "keda",
        "revision": 1,
        "status": "deployed",
        "version": "1.2.3",
    }


def test_the_values_of_a_release_are_nowhere_in_the_cluster(driver: Driver, team: str, control_plane: ControlPlane) -> None:
    made = driver.create(RELEASE, "s", {**release("loki", team), "values": {"password": "hunter2"}})
    assert "hunter2" not in str(record(control_plane, made))


def test_a_release_is_upgraded_and_read_back_without_drift(driver: Driver, team: str, control_plane: ControlPlane) -> None:
    first = driver.create(RELEASE, "loki", release("loki", team))
    assert driver.drift(first) == {}
    second = driver.update(first, release("loki", team, version="1.3.0", name=first.inputs["name"]))
    assert second.outputs["status"]["revision"] == 2
    assert record(control_plane, second)["data"]["version"] == "1.3.0"
    assert driver.drift(second) == {}
    assert driver.drift(Resource(first.type, first.name, first.id, first.inputs, second.outputs)) == {"version": "update"}


def test_other_values_than_the_recorded_ones_are_drift(driver: Driver, team: str) -> None:
    first = driver.create(RELEASE, "loki", release("loki", team))
    driver.update(first, {**first.inputs, "values": {"replicas": 3}})
    assert "values.replicas" in driver.drift(first)


KEPT = {"crds": {"additionalAnnotations": {"helm.sh/resource-policy": "keep"}}}


def test_a_release_leaves_its_definitions_if_its_values_say_so(
    driver: Driver, team: str, control_plane: ControlPlane, charts: Charts
) -> None:
    made = driver.create(RELEASE, "again", release("keda", team, values=KEPT))
    driver.delete(made)
    assert driver.read(made) is None
    assert "scaledobjects.keda.sh" in definitions(control_plane)
    assert keda.values("cluster")["crds"] == KEPT["crds"], "else every autoscaler would go with the chart"


def test_definitions_that_are_templates_go_with_their_release(
    driver: Driver, team: str, control_plane: ControlPlane, charts: Charts
) -> None:
    driver.delete(driver.create(RELEASE, "once", release("keda", team)))
    assert not any(name.endswith("keda.sh") for name in definitions(control_plane))
    driver.create(RELEASE, "back", release("keda", team))


def test_definitions_of_a_charts_folder_stay(driver: Driver, team: str, control_plane: ControlPlane, charts: Charts) -> None:
    driver.delete(driver.create(RELEASE, "stack", release("kube-prometheus-stack", team)))
    assert "podmonitors.monitoring.coreos.com" in definitions(control_plane)


def test_definitions_are_left_out_on_request(driver: Driver, team: str, control_plane: ControlPlane) -> None:
    driver.create(RELEASE, "gateway-api", release("gateway-api", team, skipCrds=True))
    assert not any(name.endswith("gateway.networking.k8s.io") for name in definitions(control_plane))


def test_a_release_makes_its_namespace_only_on_request(driver: Driver, control_plane: ControlPlane) -> None:
    with pytest.raises(ProviderError, match="namespace does not exist"):
        driver.create(RELEASE, "loki", release("loki", "nobody-made-this", createNamespace=False))
    driver.create(RELEASE, "loki", release("loki", "helm-made-this"))
    assert control_plane.get("Namespace", "helm-made-this", namespace=None)["status"]["phase"] == "Active"


def test_a_release_in_a_preview_changes_nothing(driver: Driver, team: str, control_plane: ControlPlane) -> None:
    assert driver.plan(RELEASE, "loki", release("loki", team))["status"]["status"] == "deployed"
    assert control_plane.list("ConfigMap", namespace=team, label_selector=RECORDED_CHART) == []


def test_an_unknown_chart_is_refused_by_name(driver: Driver, team: str) -> None:
    with pytest.raises(RefusedError, match="chart: is 'surprise'"):
        driver.create(RELEASE, "surprise", release("surprise", team))


def test_a_custom_resource_defined_in_the_same_preview_is_planned_from_inputs(driver: Driver, team: str) -> None:
    driver.plan(RELEASE, "gateway-api", release("gateway-api", team))
    gateway = {"metadata": {"name": "g", "namespace": team}, "spec": {"whatever": 1}}
    outputs = driver.plan("kubernetes:gateway.networking.k8s.io/v1:Gateway", "g", gateway)
    assert (outputs["spec"], outputs["metadata"]["uid"]) == ({"whatever": 1}, UNKNOWN)


def test_a_custom_resource_without_its_definition_says_what_to_do(driver: Driver, team: str) -> None:
    with pytest.raises(ProviderError, match=r"serves no kind example\.com/v1 Nothing.*CustomResourceDefinition"):
        driver.create("kubernetes:example.com/v1:Nothing", "n", {"metadata": {"name": "n", "namespace": team}})


def test_a_definition_in_the_program_is_awaited_and_its_kind_usable_at_once(driver: Driver, team: str) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "x_kubernetes_preserve_unknown_fields": True}}}
    spec = {
        "group": "test.example.com",
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
    }
    definition = driver.create(
        "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition",
        "widgets",
        {"metadata": {"name": "widgets.test.example.com"}, "spec": spec},
    )
    assert driver.drift(definition) == {}
    widget = driver.create("kubernetes:test.example.com/v1:Widget", "w", {"metadata": {"namespace": team}, "spec": {"any": {"thing": 1}}})
    assert driver.drift(widget) == {}
    driver.delete(definition)
    assert eventually(lambda: driver.read(widget) is None), "an object whose kind is gone is gone"


@pytest.mark.parametrize("name", sorted(kinds("any")))
def test_a_kind_of_the_program_lives_without_false_drift(name: str, driver: Driver, team: str, charts: Charts) -> None:
    type, inputs = kinds(team)[name]
    type = f"kubernetes:{type}"
    driver.again().plan(type, name, inputs)
    made = driver.create(type, name, inputs)
    assert driver.drift(made) == {}, "a refresh after a create must show nothing"
    assert driver.diff(made, inputs).details == {}, "a second update must change nothing"
    labelled = {**inputs, "metadata": {**inputs["metadata"], "labels": {"changed": "yes"}}}
    preview = driver.again().update(made, labelled, Watched(preview=True))
    assert preview.outputs["metadata"]["labels"] == {"changed": "yes"}
    changed = driver.again().update(made, labelled)
    assert driver.drift(changed) == {}, "a refresh after an update must show nothing"
    assert changed.outputs["metadata"]["uid"] == made.outputs["metadata"]["uid"]
    driver.delete(changed)
    assert driver.read(changed) is None


def test_the_meshs_own_kinds_are_validated_by_the_servers_schema_in_a_preview(driver: Driver, team: str, charts: Charts) -> None:
    type, inputs = kinds(team)["routes"]
    inputs["spec"]["http"][0]["routez"] = 1
    with pytest.raises(ProviderError, match=r"spec\.http\[0\]\.routez: field not declared in schema"):
        driver.again().plan(f"kubernetes:{type}", "routes", inputs)


def test_a_policy_of_the_cluster_refuses_in_a_preview_with_its_message(driver: Driver, team: str) -> None:
    found = kinds(team)
    match = {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]}
    space = {"matchLabels": {"kubernetes.io/metadata.name": team}}
    spec = {
        "matchConstraints": {**match, "namespaceSelector": space},
        "validations": [{"expression": "false", "message": "none of these here"}],
    }
    driver.create(f"kubernetes:{found['policy'][0]}", "p", {"metadata": {"name": f"none-{team}"}, "spec": spec})
    driver.create(
        f"kubernetes:{found['policy-binding'][0]}",
        "b",
        {"metadata": {"name": f"none-{team}"}, "spec": {"policyName": f"none-{team}", "validationActions": ["Deny"]}},
    )

    def refused() -> str:
        try:
            driver.again().plan(CONFIG_MAP, "x", {"metadata": {"name": "x", "namespace": team}})
        except ProviderError as error:
            return str(error)
        return ""

    text = eventually(refused)
    assert f"admission policy none-{team}" in text
    assert "none of these here" in text


@pytest.mark.parametrize("storage", ["immediate", "late"])
def test_a_claim_is_awaited_as_its_class_wants(storage: str, driver: Driver, team: str) -> None:
    mode = {"immediate": "Immediate", "late": "WaitForFirstConsumer"}[storage]
    name = f"{storage}-{team}"
    driver.create(
        "kubernetes:storage.k8s.io/v1:StorageClass",
        name,
        {"metadata": {"name": name}, "provisioner": "test.example.com", "volumeBindingMode": mode},
    )
    spec = {"storageClassName": name, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}
    claim = driver.create(
        "kubernetes:core/v1:PersistentVolumeClaim", "data", {"metadata": {"name": "data", "namespace": team}, "spec": spec}
    )
    assert claim.outputs["status"]["phase"] == {"immediate": "Bound", "late": "Pending"}[storage]
    assert driver.drift(claim) == {}


def test_a_load_balancer_gets_its_address(driver: Driver, team: str) -> None:
    spec = {"type": "LoadBalancer", "selector": {"app": "none"}, "ports": [{"port": 80}]}
    service = driver.create("kubernetes:core/v1:Service", "edge", {"metadata": {"name": "edge", "namespace": team}, "spec": spec})
    assert service.outputs["status"]["loadBalancer"]["ingress"]
    assert driver.drift(service) == {}
