"""The kubernetes provider against a real API server: objects live, wait, conflict, are refused, and go."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import pytest

from pulumi_embedded.engine.provider import UNKNOWN, Properties, ProviderError
from sandbox.cluster.nodes import node_manifest
from sandbox.progress import Silent
from tests.cluster.conftest import ControlPlane, eventually
from tests.cluster.pulumi_embedded.kubernetes_provider_driver import GPU_TAINT, Driver, Resource, Watched, partial, urn, workload

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
NAMESPACE = "kubernetes:core/v1:Namespace"
QUOTA = "kubernetes:core/v1:ResourceQuota"
SECRET = "kubernetes:core/v1:Secret"
SERVICE = "kubernetes:core/v1:Service"
OTHER = "somebody-else"


@pytest.fixture(scope="module")
def gpu_node(control_plane: ControlPlane) -> Iterator[str]:
    capacity = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    node = node_manifest("provider-h100", labels={"pool": "h100"}, taints=[GPU_TAINT], capacity=capacity)
    control_plane.create(node)
    yield "provider-h100"
    control_plane.resource(node).delete(name="provider-h100")


@pytest.fixture
def driver(control_plane: ControlPlane) -> Driver:
    return Driver.of(control_plane)


@pytest.fixture
def team(driver: Driver) -> str:
    return driver.namespace()


def config_map(name: str, namespace: str, **data: str) -> Properties:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


def live(plane: ControlPlane, resource: Resource) -> dict[str, Any]:
    kind = resource.type.rpartition(":")[2]
    namespace, _, name = resource.id.rpartition("/")
    version = resource.outputs["apiVersion"]
    return plane.get(kind, name, api_version=version, namespace=namespace or None)


def test_an_object_is_created_under_a_made_up_name_that_it_keeps(driver: Driver, team: str, control_plane: ControlPlane) -> None:
    first = driver.create(CONFIG_MAP, "settings", {"metadata": {"namespace": team}, "data": {"a": "1"}})
    assert first.id.startswith(f"{team}/settings-")
    assert live(control_plane, first)["data"] == {"a": "1"}
    assert driver.diff(first, {"metadata": {"namespace": team}, "data": {"a": "1"}}).details == {}


def test_the_outputs_are_the_live_object(driver: Driver, team: str) -> None:
    outputs = driver.create(SERVICE, "web", {"metadata": {"name": "web", "namespace": team}, "spec": {"ports": [{"port": 80}]}}).outputs
    assert outputs["spec"]["clusterIP"].startswith("10.")
    assert len(outputs["metadata"]["uid"]) == 36
    assert "managedFields" not in outputs["metadata"]


def test_an_update_changes_the_object_and_removes_what_is_no_longer_said(driver: Driver, team: str, control_plane: ControlPlane) -> None:
    first = driver.create(CONFIG_MAP, "x", config_map("x", team, a="1", b="2"))
    second = driver.again().update(first, config_map("x", team, a="3"))
    assert live(control_plane, second)["data"] == {"a": "3"}
    assert second.outputs["metadata"]["uid"] == first.outputs["metadata"]["uid"]


def test_a_deleted_object_is_gone_when_the_delete_ends(driver: Driver, team: str) -> None:
    first = driver.create(CONFIG_MAP, "x", config_map("x", team, a="1"))
    driver.delete(first)
    assert driver.read(first) is None
    driver.delete(first)


def test_a_delete_spares_an_object_that_has_taken_the_name_since(driver: Driver, team: str, control_plane: ControlPlane) -> None:
    first = driver.create(CONFIG_MAP, "x", config_map("x", team, a="1"))
    driver.delete(first)
    second = driver.create(CONFIG_MAP, "x", config_map("x", team, a="2"))
    driver.delete(first)
    assert live(control_plane, second)["data"] == {"a": "2"}, "the successor of a replaced object was deleted in its stead"


def test_a_namespace_is_deleted_with_all_that_is_in_it(driver: Driver, gpu_node: str) -> None:
    space = driver.create(NAMESPACE, "gone", {"metadata": {"name": "gone"}})
    inside = driver.create(DEPLOYMENT, "web", workload("web", "gone"))
    driver.delete(space)
    assert driver.read(space) is None
    assert driver.read(inside) is None


def test_a_delete_that_is_held_up_names_the_finalizer(driver: Driver, team: str, control_plane: ControlPlane) -> None:
    inputs = config_map("held", team)
    inputs["metadata"]["finalizers"] = ["example.com/hold"]
    held = driver.create(CONFIG_MAP, "held", inputs)
    with pytest.raises(ProviderError, match=r"finalizer example\.com/hold"):
        driver.delete(held, Watched(timeout=1))
    driver.update(held, config_map("held", team))
    assert eventually(lambda: driver.read(held) is None)


def test_a_repeated_create_takes_over_what_it_had_made_only_when_told(driver: Driver, team: str) -> None:
    first = driver.create(CONFIG_MAP, "x", config_map("x", team, a="1"))
    with pytest.raises(ProviderError, match=r"already exists.*PULUMI_K8S_UPSERT_EXISTING_OBJECTS=true"):
        driver.again().create(CONFIG_MAP, "x", config_map("x", team, a="1"), Watched(repeated=True))
    again = driver.again(upsertExistingObjects="true").create(CONFIG_MAP, "x", config_map("x", team, a="1"))
    assert again.outputs["metadata"]["uid"] == first.outputs["metadata"]["uid"], "a create that was cut off must be safe to repeat"


def test_a_preview_passes_over_what_the_resource_may_have_made_before(driver: Driver, team: str) -> None:
    driver.create(CONFIG_MAP, "x", config_map("x", team, a="1"))
    driver.again().plan(CONFIG_MAP, "x", config_map("x", team, a="1"))
    driver.again().plan(NAMESPACE, "team", {"metadata": {"name": team}}, Watched(repeated=True))


def test_an_object_that_is_being_deleted_is_in_the_way_of_its_successor(driver: Driver, team: str) -> None:
    inputs = config_map("held", team)
    inputs["metadata"]["finalizers"] = ["example.com/hold"]
    held = driver.create(CONFIG_MAP, "held", inputs)
    with pytest.raises(ProviderError):
        driver.delete(held, Watched(timeout=1))
    with pytest.raises(ProviderError, match="is being deleted"):
        driver.create(CONFIG_MAP, "held", config_map("held", team))
    driver.update(held, config_map("held", team))


def test_an_object_of_somebody_else_is_not_taken_over(driver: Driver, team: str, control_plane: ControlPlane) -> None:
    control_plane.create({"apiVersion": "v1", "kind": "ConfigMap", **config_map("x", team, a="1")})
    for attempt in (driver.create, driver.plan):
        with pytest.raises(ProviderError, match="already exists"):
            attempt(CONFIG_MAP, "x", config_map("x", team, a="2"))
    assert driver.again(upsertExistingObjects="true").create(CONFIG_MAP, "x", config_map("x", team, b="2")).outputs["data"]["b"] == "2"


def test_a_deployment_is_ready_when_its_pods_run_on_a_gpu_node(
    driver: Driver, team: str, gpu_node: str, control_plane: ControlPlane
) -> None:
    web = driver.create(DEPLOYMENT, "web", workload("web", team, gpus=2, replicas=2))
    assert web.outputs["status"]["availableReplicas"] == 2
    assert {pod["spec"]["nodeName"] for pod in control_plane.list("Pod", namespace=team)} == {gpu_node}


def test_a_deployment_is_deleted_with_its_pods(driver: Driver, team: str, gpu_node: str, control_plane: ControlPlane) -> None:
    driver.delete(driver.create(DEPLOYMENT, "web", workload("web", team)))
    assert control_plane.list("Pod", namespace=team) == []


def test_a_deployment_that_fits_nowhere_fails_with_the_schedulers_words(driver: Driver, team: str, gpu_node: str) -> None:
    step = Watched(timeout=2)
    big, why = partial(driver, DEPLOYMENT, "big", workload("big", team, gpus=16), step)
    assert big.id == f"{team}/big", "the object exists, so state must keep it"
    assert "Insufficient nvidia.com/gpu" in why
    assert any("Insufficient nvidia.com/gpu" in shown for shown in step.shown), "the reason is shown while it waits"
    assert driver.update(big, workload("big", team)).outputs["status"]["availableReplicas"] == 1
    driver.delete(big)


def test_a_deployment_beyond_its_quota_fails_with_the_figures(driver: Driver, team: str, gpu_node: str) -> None:
    driver.create(QUOTA, "q", {"metadata": {"name": "gpus", "namespace": team}, "spec": {"hard": {"requests.nvidia.com/gpu": "2"}}})
    over, why = partial(driver, DEPLOYMENT, "over", workload("over", team, gpus=3), Watched(timeout=2))
    assert all(part in why for part in ("exceeded quota: gpus", "requests.nvidia.com/gpu=3", "limited: requests.nvidia.com/gpu=2"))
    driver.delete(over)


def test_awaiting_is_skipped_on_request(driver: Driver, team: str, gpu_node: str) -> None:
    inputs = workload("big", team, gpus=16)
    inputs["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true"}
    assert driver.create(DEPLOYMENT, "big", inputs).id == f"{team}/big"


def test_the_annotation_sets_the_timeout_where_none_is_given(driver: Driver, team: str, gpu_node: str) -> None:
    inputs = workload("big", team, gpus=16)
    inputs["metadata"]["annotations"] = {"pulumi.com/timeoutSeconds": "1"}
    _, why = partial(driver, DEPLOYMENT, "big", inputs, Watched(timeout=0))
    assert "not ready after 1 s" in why


def test_a_cancelled_wait_keeps_the_object(driver: Driver, team: str, gpu_node: str) -> None:
    _, why = partial(driver, DEPLOYMENT, "big", workload("big", team, gpus=16), Watched(stop=True))
    assert "cancelled" in why


@pytest.mark.parametrize("mode", ["plan", "create"])
def test_a_wrong_field_is_named_by_its_path_in_preview_and_update(driver: Driver, team: str, mode: str) -> None:
    inputs = workload("bad", team, imagee="x")
    inputs["spec"]["replicas"] = "three"
    with pytest.raises(ProviderError) as refused:
        getattr(driver.again(), mode)(DEPLOYMENT, "bad", inputs)
    assert 'spec.template.spec.containers[name="c"].imagee: field not declared in schema' in str(refused.value)
    assert "spec.replicas: expected numeric" in str(refused.value)


def test_every_invalid_value_is_named_at_once(driver: Driver, team: str) -> None:
    inputs = workload("bad", team)
    inputs["spec"]["replicas"] = -1
    inputs["spec"]["template"]["spec"]["containers"][0]["name"] = "A_b"
    with pytest.raises(ProviderError) as refused:
        driver.again().plan(DEPLOYMENT, "bad", inputs)
    assert "spec.replicas" in str(refused.value)
    assert "spec.template.spec.containers[0].name" in str(refused.value)


def test_a_quota_on_objects_refuses_already_in_the_preview(driver: Driver, team: str) -> None:
    driver.create(QUOTA, "q", {"metadata": {"name": "few", "namespace": team}, "spec": {"hard": {"services": "0"}}})
    service = {"metadata": {"name": "web", "namespace": team}, "spec": {"ports": [{"port": 80}]}}
    with pytest.raises(ProviderError, match=r"quota few .* limit services=0"):
        driver.again().plan(SERVICE, "web", service)


def test_a_quota_that_the_same_preview_raises_does_not_refuse(driver: Driver, team: str) -> None:
    def inputs(services: str) -> Properties:
        return {"metadata": {"name": "few", "namespace": team}, "spec": {"hard": {"services": services}}}

    quota = driver.create(QUOTA, "q", inputs("0"))
    preview, step = driver.again(), Watched(preview=True)
    preview.update(quota, inputs("1"), Watched(preview=True))
    preview.plan(SERVICE, "web", {"metadata": {"name": "web", "namespace": team}, "spec": {"ports": [{"port": 80}]}}, step)
    assert len(step.warnings) == 1


@pytest.mark.parametrize(("reason", "ends"), [("Forbidden", False), ("Invalid", True)])
def test_a_plan_passes_over_what_its_namespace_will_no_longer_forbid(
    driver: Driver, control_plane: ControlPlane, reason: str, *, ends: bool
) -> None:
    name = f"noted-{reason.lower()}"
    metadata = {"name": name, "labels": {"noted": name}}
    namespace = driver.create(NAMESPACE, name, {"metadata": metadata})
    kind = "admissionregistration.k8s.io/v1"
    noted = "has(namespaceObject.metadata.annotations) && 'noted' in namespaceObject.metadata.annotations"
    spec = {
        "matchConstraints": {
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}]
        },
        "validations": [{"expression": noted, "message": "the namespace says nothing", "reason": reason}],
    }
    bound = {"policyName": name, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": {"matchLabels": {"noted": name}}}}
    control_plane.create({"apiVersion": kind, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec})
    control_plane.create({"apiVersion": kind, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": bound})
    service = {"metadata": {"name": "web", "namespace": name}, "spec": {"ports": [{"port": 80}]}}

    def refused() -> bool:
        try:
            driver.again().plan(SERVICE, "web", service)
        except ProviderError:
            return True
        return False

    eventually(refused)
    preview, step = driver.again(), Watched(preview=True)
    preview.update(namespace, {"metadata": {**metadata, "annotations": {"noted": "yes"}}}, Watched(preview=True))
    if ends:
        with pytest.raises(ProviderError, match="the namespace says nothing"):
            preview.plan(SERVICE, "web", service, step)
    else:
        preview.plan(SERVICE, "web", service, step)
        assert len(step.warnings) == 1


def test_a_preview_changes_nothing_and_tells_the_defaults(driver: Driver, team: str, control_plane: ControlPlane) -> None:
    outputs = driver.again().plan(DEPLOYMENT, "web", workload("web", team))
    assert outputs["spec"]["progressDeadlineSeconds"] == 600
    assert [outputs["metadata"][key] for key in ("uid", "resourceVersion", "creationTimestamp")] == [UNKNOWN] * 3
    assert outputs["status"] == UNKNOWN
    assert control_plane.list("Deployment", api_version="apps/v1", namespace=team) == []


def test_a_preview_in_a_namespace_that_is_not_there_plans_from_the_inputs(driver: Driver) -> None:
    outputs = driver.plan(CONFIG_MAP, "x", config_map("x", "not-there-yet", a="1"))
    assert outputs["data"] == {"a": "1"}
    assert outputs["metadata"]["uid"] == UNKNOWN


def test_an_update_without_its_namespace_says_what_to_do(driver: Driver) -> None:
    with pytest.raises(ProviderError, match=r"namespace does not exist.*create the Namespace"):
        driver.create(CONFIG_MAP, "x", config_map("x", "not-there-yet"))


def test_a_conflict_names_the_other_owner_in_preview_and_update(driver: Driver, team: str, control_plane: ControlPlane) -> None:
    first = driver.create(CONFIG_MAP, "x", config_map("x", team, a="1"))
    take_over(control_plane, team, "x", a="9")
    for preview in (True, False):
        with pytest.raises(ProviderError, match=f"data.a: owned by {OTHER}"):
            driver.again().update(first, config_map("x", team, a="2"), Watched(preview=preview))


def test_an_ignored_field_is_left_to_its_other_owner(driver: Driver, team: str, control_plane: ControlPlane) -> None:
    first = driver.create(CONFIG_MAP, "x", config_map("x", team, a="1", b="1"))
    take_over(control_plane, team, "x", a="9")
    second = driver.again().update(first, config_map("x", team, a="1", b="2"), ignored=("data.a",))
    assert second.outputs["data"] == {"a": "9", "b": "2"}


def test_fields_are_taken_over_by_force_on_request(driver: Driver, team: str, control_plane: ControlPlane) -> None:
    first = driver.create(CONFIG_MAP, "x", config_map("x", team, a="1"))
    take_over(control_plane, team, "x", a="9")
    inputs = config_map("x", team, a="2")
    inputs["metadata"]["annotations"] = {"pulumi.com/patchForce": "true"}
    assert driver.again().update(first, inputs).outputs["data"] == {"a": "2"}


def test_a_replacement_under_the_same_name_is_planned_and_done(driver: Driver, team: str, gpu_node: str) -> None:
    first = driver.create(DEPLOYMENT, "web", workload("web", team))
    inputs = deepcopy(workload("web", team))
    inputs["spec"]["selector"]["matchLabels"] = inputs["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    preview = driver.again()
    found = preview.diff(first, inputs)
    assert found.replaces == ("spec.selector.matchLabels.app",)
    assert found.delete_before_replace
    preview.plan(DEPLOYMENT, "web", inputs)
    update = driver.again()
    update.diff(first, inputs)
    update.delete(first)
    second = update.create(DEPLOYMENT, "web", inputs)
    assert second.outputs["metadata"]["uid"] != first.outputs["metadata"]["uid"]


def test_a_refresh_shows_what_somebody_has_changed(driver: Driver, team: str, control_plane: ControlPlane) -> None:
    first = driver.create(CONFIG_MAP, "x", config_map("x", team, a="1"))
    take_over(control_plane, team, "x", a="9", extra="mine")
    found = driver.read(first)
    assert found is not None
    assert found.inputs["data"] == {"a": "9"}, "what others added is theirs"
    assert driver.drift(first) == {"data.a": "update-replace"}


def test_an_imported_object_is_recorded_as_its_owner_wrote_it(driver: Driver, team: str) -> None:
    made = driver.create(CONFIG_MAP, "x", config_map("x", team, a="1"))
    found = driver.provider.read(urn(CONFIG_MAP, "other"), CONFIG_MAP, made.id, {}, {})
    assert found is not None
    assert found.inputs == {"apiVersion": "v1", "kind": "ConfigMap", **config_map("x", team, a="1")}


def test_a_secret_is_kept_out_of_its_refusal(driver: Driver, team: str) -> None:
    secret = {"metadata": {"name": "s", "namespace": team}, "stringData": {"not/a key": "hunter2", "list": ["hunter2"]}}
    with pytest.raises(ProviderError) as refused:
        driver.create(SECRET, "s", secret)
    assert "hunter2" not in str(refused.value)
    assert "stringData.list" in str(refused.value)


def test_string_data_does_not_drift(driver: Driver, team: str) -> None:
    made = driver.create(SECRET, "s", {"metadata": {"name": "s", "namespace": team}, "stringData": {"a": "one"}})
    assert driver.drift(made) == {}


def test_a_key_that_leaves_string_data_leaves_the_secret(driver: Driver, team: str, control_plane: ControlPlane) -> None:
    def inputs(**data: str) -> Properties:
        return {"metadata": {"name": "s", "namespace": team}, "stringData": data}

    mutable = driver.again(enableSecretMutable="true")
    made = mutable.create(SECRET, "s", inputs(a="1", b="2"))
    assert mutable.diff(made, inputs(a="3")).replaces == ()
    assert live(control_plane, mutable.update(made, inputs(a="3")))["data"] == {"a": "Mw=="}


def test_an_immutable_field_is_told_as_one(driver: Driver, team: str) -> None:
    job = {"metadata": {"name": "j", "namespace": team, "annotations": {"pulumi.com/skipAwait": "true"}}, "spec": {"template": pod("a")}}
    made = driver.create("kubernetes:batch/v1:Job", "j", job)
    changed = {**job, "spec": {"template": pod("b")}}
    with pytest.raises(ProviderError, match=r"spec\.template.*immutable"):
        driver.update(made, changed)


def test_four_hundred_objects_are_applied_from_sixteen_threads(driver: Driver, team: str) -> None:
    with ThreadPoolExecutor(16) as workers:
        made = list(workers.map(lambda index: driver.create(CONFIG_MAP, f"m{index}", config_map(f"m{index}", team)), range(400)))
    assert len({resource.id for resource in made}) == 400


def test_an_unreachable_cluster_is_one_warning_in_a_preview(control_plane: ControlPlane) -> None:
    config = control_plane.kubeconfig.read_text().replace(str(port_of(control_plane)), "9")
    driver = Driver.of(control_plane, kubeconfig=config)
    step = Watched(preview=True)
    for name in ("a", "b"):
        assert driver.plan(CONFIG_MAP, name, config_map(name, "team", a="1"), step)["data"] == {"a": "1"}
    assert len(step.warnings) == 1, "the cluster is missed once, not by every object"
    assert "does not answer" in step.warnings[0]


@pytest.mark.slow
def test_an_api_server_killed_during_a_wait_or_an_apply_is_waited_for(breakable: ControlPlane) -> None:
    breakable.create(node_manifest("n", labels={}, taints=[], capacity={"cpu": "8", "memory": "8Gi", "pods": "10"}))
    driver = Driver.of(breakable)
    team = driver.namespace()
    inputs = workload("slow", team)
    inputs["spec"]["template"]["metadata"]["annotations"] = {"pod-ready.stage.kwok.x-k8s.io/delay": "5s"}
    step, made = Watched(timeout=60), list[Resource]()
    waiting = threading.Thread(target=lambda: made.append(driver.create(DEPLOYMENT, "slow", inputs, step)))
    waiting.start()
    assert eventually(lambda: step.shown)
    kill(breakable, "kube-apiserver")
    applying = threading.Thread(target=lambda: made.append(driver.create(CONFIG_MAP, "x", config_map("x", team))))
    applying.start()
    time.sleep(1)
    breakable.cluster.start(Silent())
    waiting.join(60)
    applying.join(60)
    assert sorted(resource.name for resource in made) == ["slow", "x"]
    assert any("does not answer" in shown for shown in step.shown)


def take_over(plane: ControlPlane, namespace: str, name: str, **data: str) -> None:
    """Somebody else's server-side apply, by force."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", **config_map(name, namespace, **data)}
    plane.client.server_side_apply(plane.resource(manifest), manifest, name, namespace, force_conflicts=True, field_manager=OTHER)


def pod(image: str) -> Properties:
    return {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}}


def port_of(plane: ControlPlane) -> int:
    return plane.cluster.supervisor.port("kube-apiserver")


def kill(plane: ControlPlane, name: str) -> None:
    pid = next(process.pid for process in plane.cluster.supervisor.list() if process.name == name)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def test_an_object_without_a_trace_of_its_maker_is_not_taken_over_either(driver: Driver) -> None:
    first = driver.create(NAMESPACE, "bare", {"metadata": {"name": "bare"}})
    with pytest.raises(ProviderError, match="already exists"):
        driver.again().create(NAMESPACE, "bare", {"metadata": {"name": "bare"}})
    again = driver.again(upsertExistingObjects="true").create(NAMESPACE, "bare", {"metadata": {"name": "bare"}})
    assert again.outputs["metadata"]["uid"] == first.outputs["metadata"]["uid"]
