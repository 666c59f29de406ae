"""What contracts render is taken by a real API server without a complaint, counted by its quotas, scheduled and run."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from components.addons.prometheus import DASHBOARD_LABEL
from components.labels import labels
from components.nodes import gpu_node
from components.platform import admission
from components.platform.credentials import CREDENTIALS
from components.tenant.admission import admission as of_tenant
from components.tenant.manifests import SERVICE_ACCOUNT, TenantPlan
from headway.contract.accelerators import INSTANCE_TYPES
from headway.contract.pool import Pool
from headway.contract.tenant import Tenant
from sandbox.cluster.nodes import node_manifest
from tests.cluster.components.boundary_cases import (
    ARM,
    AS_THE_PROXY,
    DENIED,
    GRANTED,
    OUT_OF_THE_MESH,
    REACHES,
    STAYS,
    TEMPLATES_OUT,
    Right,
    deployment,
    pod_spec,
)
from tests.cluster.conftest import ControlPlane, eventually
from tests.cluster.definitions import define
from tests.components.contracts import MODELS, POOLS, SURROUNDINGS, document, service
from tests.components.strangers import rendered, stranger

NAMESPACES = ("istio-ingress", "istio-system", "monitoring")
TENANT = "vision"
STRANGERS = range(20)


def apply(control_plane: ControlPlane, body: dict[str, Any]) -> None:
    """Server-side apply; the API server refuses what its schemas do not know."""
    control_plane.resource(body).server_side_apply(
        body=body,
        name=body["metadata"]["name"],
        namespace=body["metadata"].get("namespace"),
        field_manager="test",
        force_conflicts=True,
        query_params=[("fieldValidation", "Strict")],
    )


def create(control_plane: ControlPlane, body: dict[str, Any]) -> None:
    """Strict creation without keeping: what apply's own schema check leaves to the decoder (duplicates, wrong cases) shows here. That a name is
    taken is said last.
    """
    query = [("fieldValidation", "Strict"), ("dryRun", "All")]
    try:
        control_plane.resource(body).create(body=body, namespace=body["metadata"].get("namespace"), query_params=query)
    except ApiException as error:
        if error.status != 409:
            raise


def node(pool: Pool, number: int) -> dict[str, Any]:
    kind = INSTANCE_TYPES[pool.instance_types[0]]
    devices = {name: str(count) for name, count in pool.resources_per_node.items()}
    capacity = {"cpu": str(kind.vcpus), "memory": kind.memory.kubernetes, "pods": "110", "ephemeral-storage": "4Ti", **devices}
    taints = [{"key": t.key, "value": t.value, "effect": t.effect} for t in gpu_node.taints(pool)]
    return node_manifest(f"{pool.name}-{number}", labels=gpu_node.labels(pool), taints=taints, capacity=capacity)


def roomy() -> Tenant:
    """The sample tenant with a quota that holds every contract of the tests once."""
    found = document(TENANT, "tenant")
    found["quota"] |= {"gpus": {"l4": 12, "h100": 4}, "mig": {"1g.10gb": 4, "3g.40gb": 4}, "shared": 8, "cpu": 400, "memory": "1Ti"}
    return Tenant.model_validate(found)


AS_DEPLOYER: dict[str, Any] = {"header_params": {"Impersonate-User": "someone", "Impersonate-Group": roomy().people.deployers[0]}}


@pytest.fixture(scope="module")
def served(control_plane: ControlPlane) -> ControlPlane:
    """A cluster with the add-ons' CRDs, the platform's rules, a node of every pool, the tenant, and a service of every contract."""
    for add_on in ("istio", "keda"):
        define(control_plane, add_on)
    define(control_plane, "prometheus-operator", "AlertmanagerConfig", "PodMonitor", "PrometheusRule", "ServiceMonitor")
    for manifest in admission.manifests(POOLS, SURROUNDINGS.hosts):
        apply(control_plane, dict(manifest.body))
    for pool in POOLS:
        for number in range(2):
            apply(control_plane, node(pool, number))
    for name in NAMESPACES:
        apply(control_plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    plan = TenantPlan(tenant=roomy(), models=tuple(MODELS.values()), pools=POOLS, surroundings=SURROUNDINGS)
    # Its namespace knows the queues of strangers too.
    namespace, *_ = replace(plan, models=(*plan.models, *map(stranger, STRANGERS))).manifests()
    for manifest in (namespace, *plan.manifests()[1:]):
        apply(control_plane, dict(manifest.body))
    eventually(lambda: "hard" in control_plane.get("ResourceQuota", "tenant", namespace=TENANT).get("status", {}), within=120)
    for name in MODELS:
        for manifest in service(name).manifests():
            apply(control_plane, dict(manifest.body))
    return control_plane


def ready_pods(control_plane: ControlPlane, *, batch: bool = False) -> dict[str, str]:
    """Node by model, of pods that are ready: online replicas, or batch workers."""
    found: dict[str, str] = {}
    for pod in control_plane.list("Pod", namespace=TENANT):
        conditions = pod.get("status", {}).get("conditions") or ()
        if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
            labels = pod["metadata"]["labels"]
            if (labels["platform.io/arm"] == "batch") is batch:
                found[labels["platform.io/model"]] = pod["spec"]["nodeName"]
    return found


@pytest.mark.timeout(300)
def test_every_contract_becomes_a_ready_pod_on_a_node_of_its_pool(served: ControlPlane) -> None:
    try:
        found = eventually(lambda: pods if len(pods := ready_pods(served)) == len(MODELS) else {}, within=90)
    except AssertionError:
        events = [f"{e['reason']}: {e['message']}" for e in served.list("Event", namespace=TENANT) if e["type"] == "Warning"]
        raise AssertionError("\n".join(sorted(set(events)))) from None
    assert {model: name.rsplit("-", 1)[0] for model, name in found.items()} == {name: service(name).pool.name for name in MODELS}


def test_a_batch_worker_is_ready_on_a_spot_node(served: ControlPlane) -> None:
    found = eventually(lambda: ready_pods(served, batch=True), within=90)
    assert {model: name.rsplit("-", 1)[0] for model, name in found.items()} == {"defects-night": "l4-spot"}


def test_an_online_class_gets_no_spot_node(served: ControlPlane) -> None:
    assert "that class is for other pools" in refusal(served, pod("headway-vision-latency-l4", "l4-spot", 1))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_object_of_a_service_passes_strict_decoding(served: ControlPlane, name: str) -> None:
    for manifest in service(name).manifests():
        create(served, dict(manifest.body))


@pytest.mark.parametrize("number", STRANGERS)
def test_every_object_of_a_strangers_contract_passes_strict_decoding(served: ControlPlane, number: int) -> None:
    for body in rendered(stranger(number)):
        create(served, body)


ON_NO_GPU: dict[str, Any] = {
    "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
}


def pod(priority: str, pool: str, gpus: int, **resources: str) -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {}), **resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "raw", "namespace": TENANT, "labels": labels("test", tenant=TENANT, model="raw", release="r")},
        "spec": {
            **({"priorityClassName": priority} if priority else {}),
            "nodeSelector": {"platform.io/pool": pool},
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "runAsGroup": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "raw",
                    "image": f"registry.example.com/raw@sha256:{'a' * 64}",
                    "resources": {"requests": amounts, "limits": amounts},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }


def refusal(control_plane: ControlPlane, body: dict[str, Any]) -> str:
    with pytest.raises(ApiException) as caught:
        control_plane.resource(body).create(body=body, namespace=TENANT, query_params=[("dryRun", "All")])
    return str(caught.value.body)


def test_a_raw_pod_within_quota_pool_and_class_is_admitted(served: ControlPlane) -> None:
    body = pod("headway-vision-latency-l4", "l4", 1)
    served.resource(body).create(body=body, namespace=TENANT, query_params=[("dryRun", "All")])


def test_an_accelerator_has_a_quota_of_its_own(served: ControlPlane) -> None:
    assert "exceeded quota: gpus-h100, requested: requests.nvidia.com/gpu=5" in refusal(
        served, pod("headway-vision-throughput-h100", "h100", 5)
    )


def test_the_quota_of_one_accelerator_cannot_be_used_for_another(served: ControlPlane) -> None:
    assert "that class is for other pools" in refusal(served, pod("headway-vision-latency-l4", "h100", 1))


def test_a_gpu_pod_without_a_class_of_the_tenant_is_refused(served: ControlPlane) -> None:
    assert "that class is for other pools" in refusal(served, pod("", "l4", 1))


def test_a_gpu_that_only_an_init_container_asks_for_needs_its_class_too(served: ControlPlane) -> None:
    body = pod("headway-vision-latency-l4", "h100", 1)
    (asking,) = body["spec"]["containers"]
    body["spec"]["initContainers"] = [{**asking, "name": "first"}]
    asking["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    asking["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    assert "that class is for other pools" in refusal(served, body)


@pytest.mark.parametrize("priority", ["system-cluster-critical", "system-node-critical"])
def test_no_pod_of_a_tenant_pushes_out_what_is_not_the_tenants(served: ControlPlane, priority: str) -> None:
    assert "is not one of tenant vision" in refusal(served, pod(priority, "l4", 0))


@pytest.mark.parametrize("written", CREDENTIALS)
def test_a_pod_of_the_models_is_made_only_with_credentials(served: ControlPlane, written: str) -> None:
    where = f"given-{CREDENTIALS.index(written)}"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SERVICE_ACCOUNT, "namespace": where}}
    apply(served, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}})
    for body in (account, *(body for _, body in of_tenant(where, POOLS, SERVICE_ACCOUNT))):
        apply(served, body)
    body = pod("", "l4", 0)
    body["metadata"]["namespace"] = where
    body["spec"] |= {"serviceAccountName": SERVICE_ACCOUNT}
    (container,) = body["spec"]["containers"]
    container["resources"] = {}

    def refused() -> str:
        try:
            served.resource(body).create(body=body, namespace=where, query_params=[("dryRun", "All")])
        except ApiException as error:
            return str(error.body)
        return ""

    # A new policy takes effect a moment after it is there.
    assert "EKS has written no AWS credentials into this pod" in eventually(refused)
    container["env"] = [{"name": written, "value": "somewhere"}]
    assert refused() == ""
    container["env"], body["spec"]["serviceAccountName"] = [], "default"
    assert refused() == "", "another account has no credentials that it could wait for"


def test_a_mig_profile_that_the_contract_does_not_name_is_granted_nothing(served: ControlPlane) -> None:
    body = pod("headway-vision-latency-h100", "h100-mig", 0, **{"nvidia.com/mig-7g.80gb": "1"})
    assert "requests.nvidia.com/mig-7g.80gb=1" in refusal(served, body)


@pytest.mark.parametrize("where", [{"namespaceSelector": {}}, {"namespaces": ["assist"]}], ids=["everybody's", "another's"])
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_no_pod_keeps_those_of_others_away(served: ControlPlane, kind: str, where: dict[str, Any]) -> None:
    """The scheduler lets no pod that a running one's rule names into its region, whoever it is of."""
    body = pod("headway-vision-latency-l4", "l4", 1)
    term = {"labelSelector": {}, "topologyKey": "topology.kubernetes.io/region"}
    body["spec"]["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{**term, **where}]}}
    assert "exceeded quota: no-foreign-neighbours" in refusal(served, body)
    body["spec"]["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    served.resource(body).create(body=body, namespace=TENANT, query_params=[("dryRun", "All")])


def test_former_versions_are_not_kept_without_end(served: ControlPlane) -> None:
    def counted() -> str:
        return str(served.get("ResourceQuota", "tenant", namespace=TENANT)["status"].get("used", {}).get("count/replicasets.apps", ""))

    assert int(eventually(counted, within=60)) >= len(MODELS)


def test_a_privileged_pod_is_refused(served: ControlPlane) -> None:
    body = pod("headway-vision-latency-l4", "l4", 1)
    body["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    assert "violates PodSecurity" in refusal(served, body)


def test_a_service_that_faces_the_internet_is_refused(served: ControlPlane) -> None:
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "open", "namespace": TENANT}, "spec": spec}
    assert "headway-services-stay-inside" in refusal(served, body), "the quota, which says the same, is asked after the rules"


def test_budgets_are_not_made_without_end(served: ControlPlane) -> None:
    def left() -> int:
        status = served.get("ResourceQuota", "tenant", namespace=TENANT)["status"]
        used = int(status["used"].get("count/poddisruptionbudgets.policy", 0))
        return int(status["hard"]["count/poddisruptionbudgets.policy"]) - used if used else 0

    made: list[dict[str, Any]] = []
    said = ""
    try:
        for number in range(eventually(left, within=60) + 1):
            picks = {**ARM, "platform.io/release": str(number)}
            spec = {**STAYS["budget"]["spec"], "selector": {"matchLabels": picks}}
            more = {**STAYS["budget"], "metadata": {**STAYS["budget"]["metadata"], "name": f"defects-{number}"}, "spec": spec}
            said = _answer(partial(served.create, more))
            if said:
                break
            made.append(more)
    finally:
        for each in made:
            served.resource(each).delete(name=each["metadata"]["name"], namespace=TENANT)
    assert "exceeded quota: tenant" in said


@pytest.mark.parametrize("kind", STAYS)
def test_what_stays_within_the_tenant_is_admitted(served: ControlPlane, kind: str) -> None:
    create(served, STAYS[kind])


@pytest.mark.parametrize(("rule", "case", "body"), REACHES, ids=[f"{rule}, {case}" for rule, case, _ in REACHES])
def test_what_reaches_beyond_the_tenant_is_refused(served: ControlPlane, rule: str, case: str, body: dict[str, Any]) -> None:
    # A binding acts a moment after it was accepted, each at its own.
    assert _refused_by(rule, case, eventually(lambda: _said(served, body))), case


BY_TWO = dict.fromkeys(("bytes to another", "decided elsewhere", "more copies"), "routes-of-own-models") | {
    "every host": "routes-say-it-plainly"
}
"""Cases that a second rule refuses too: which of them the API server names first is a matter of its start."""


def _refused_by(rule: str, case: str, said: str) -> bool:
    return any(f"headway-{name}" in said for name in (rule, BY_TWO.get(case, rule)))


CHANGES = [
    case
    for case in REACHES
    if case[2]["spec"] not in [body["spec"] for body in STAYS.values()] and case[1] != "of no model" and case[0] != "nothing-to-istio"
]
"""All but what a new name makes, and what metadata say."""


@pytest.fixture(scope="module")
def leaving(served: ControlPlane) -> Iterator[dict[str, dict[str, Any]]]:
    """By kind, an object that stays within the tenant, is being deleted, and is held by a finalizer of its writer."""
    held: dict[str, dict[str, Any]] = {}
    for body in STAYS.values():
        metadata = {**body["metadata"], "finalizers": ["test.example/held"]}
        if body["kind"] not in held:
            held[body["kind"]] = {**body, "metadata": metadata}
            apply(served, held[body["kind"]])
            served.resource(body).delete(name=metadata["name"], namespace=TENANT)
    yield held
    for body in held.values():
        assert _patched(served, body, "/metadata/finalizers", []) == "", "what leaves is let go"


@pytest.mark.parametrize(("rule", "case", "body"), CHANGES, ids=[f"{rule}, {case}" for rule, case, _ in CHANGES])
def test_what_is_being_deleted_cannot_be_changed_into_what_reaches_beyond(
    served: ControlPlane, leaving: dict[str, dict[str, Any]], rule: str, case: str, body: dict[str, Any]
) -> None:
    old = leaving[body["kind"]]
    name = old["metadata"]["name"]
    whole = {**served.get(body["kind"], name, api_version=body["apiVersion"], namespace=TENANT), "spec": body["spec"]}
    assert whole["metadata"]["deletionTimestamp"]
    said = {
        "patched": _patched(served, old, "/spec", body["spec"], query_params=[("dryRun", "All")]),
        "replaced": _replaced(served, whole),
        "applied": _applied(served, {**body, "metadata": {**body["metadata"], "name": name}}),
    }
    assert {way for way, answer in said.items() if not _refused_by(rule, case, answer)} == set(), said


@pytest.mark.parametrize("case", OUT_OF_THE_MESH)
def test_a_pod_whose_traffic_no_proxy_would_see_is_refused(served: ControlPlane, case: str) -> None:
    where, key, value = OUT_OF_THE_MESH[case]
    body = pod("headway-vision-latency-l4", "l4", 1)
    body["metadata"].setdefault(where, {})[key] = value
    assert "headway-pods-stay-in-the-mesh" in eventually(lambda: _said(served, body))


@pytest.mark.parametrize("case", AS_THE_PROXY)
def test_a_pod_that_would_pass_for_the_proxy_is_refused(served: ControlPlane, case: str) -> None:
    body = pod("headway-vision-latency-l4", "l4", 1)
    (one,) = body["spec"]["containers"]
    more = AS_THE_PROXY[case]
    first = [
        {**one, **ON_NO_GPU, **each, "securityContext": {**one["securityContext"], **each.get("securityContext", {})}}
        for each in more.get("initContainers", ())
    ]
    if "securityContext" in more:
        body["spec"]["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, **more["securityContext"]}
    body["spec"] |= {"initContainers": first, "volumes": more.get("volumes", [])}
    # Of a proxy by tag two rules say so, and one of them is told.
    assert any(f"headway-{rule}" in _said(served, body) for rule in ("images-by-digest", "pods-stay-in-the-mesh"))


@pytest.mark.parametrize("case", TEMPLATES_OUT)
def test_a_deployment_whose_pods_would_step_out_of_the_mesh_is_refused(served: ControlPlane, case: str) -> None:
    assert "headway-templates-stay-in-the-mesh" in _said(served, TEMPLATES_OUT[case])


@pytest.fixture(scope="module")
def standing(served: ControlPlane) -> Iterator[dict[str, Any]]:
    """A Deployment that stays in the mesh, without pods."""
    body = deployment({}, pod_spec())
    body = {**body, "metadata": {**body["metadata"], "name": "standing"}, "spec": {**body["spec"], "replicas": 0}}
    apply(served, body)
    yield body
    served.resource(body).delete(name="standing", namespace=TENANT)


@pytest.mark.parametrize("case", TEMPLATES_OUT)
def test_a_deployment_is_not_changed_into_one_that_steps_out_either(served: ControlPlane, standing: dict[str, Any], case: str) -> None:
    wanted = TEMPLATES_OUT[case]["spec"]["template"]
    assert "headway-templates-stay-in-the-mesh" in _patched(served, standing, "/spec/template", wanted, query_params=[("dryRun", "All")])


@pytest.mark.parametrize(
    ("rule", "case", "body"), list({rule: case for case in REACHES for rule in case[:1]}.values()), ids=lambda each: str(each)[:30]
)
def test_a_name_that_the_server_makes_up_spares_nobody(served: ControlPlane, rule: str, case: str, body: dict[str, Any]) -> None:
    metadata = {key: value for key, value in body["metadata"].items() if key != "name"}
    said = _said(served, {**body, "metadata": {**metadata, "generateName": "defects-"}})
    # A route of a made up name is of no model.
    assert _refused_by(rule, case, said) or "headway-routes-of-own-models" in said


def test_what_another_object_owns_meets_the_rules_too(served: ControlPlane, standing: dict[str, Any]) -> None:
    uid = served.get("Deployment", "standing", api_version="apps/v1", namespace=TENANT)["metadata"]["uid"]
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "standing", "uid": uid, "controller": True}
    for rule, case, body in REACHES:
        owned = {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}}
        assert _refused_by(rule, case, _said(served, owned))


def test_a_pod_as_the_injector_leaves_it_is_admitted(served: ControlPlane) -> None:
    """With what istiod's template writes where a node agent redirects traffic (injection-template.yaml of 1.31)."""
    body = pod("headway-vision-latency-l4", "l4", 1)
    body["metadata"]["labels"] |= {
        "security.istio.io/tlsMode": "istio",
        "service.istio.io/canonical-name": "raw",
        "service.istio.io/canonical-revision": "latest",
        "sidecar.istio.io/inject": "true",
    }
    (one,) = body["spec"]["containers"]
    one["ports"] = [{"name": "http-metrics", "containerPort": 8002}]
    secured = {**one["securityContext"], "runAsUser": 1337, "runAsGroup": 1337, "runAsNonRoot": True}
    proxy = {**ON_NO_GPU, "image": "docker.io/istio/proxyv2:1.31.4", "securityContext": secured}
    body["spec"]["initContainers"] = [{**proxy, "name": "istio-validation"}, {**proxy, "name": "istio-proxy", "restartPolicy": "Always"}]
    body["metadata"]["annotations"] = {
        "istio.io/rev": "default",
        "proxy.istio.io/config": '{"holdApplicationUntilProxyStarts":true,"terminationDrainDuration":"65s"}',
        "sidecar.istio.io/nativeSidecar": "true",
        "sidecar.istio.io/interceptionMode": "REDIRECT",
        "sidecar.istio.io/status": "{}",
        "traffic.sidecar.istio.io/excludeInboundPorts": "15020,8002",
        "traffic.sidecar.istio.io/excludeOutboundIPRanges": "169.254.170.23/32",
        "traffic.sidecar.istio.io/includeInboundPorts": "*",
        "traffic.sidecar.istio.io/includeOutboundIPRanges": "*",
    }
    assert _said(served, body) == ""


def test_a_pod_tolerates_what_is_named_as_a_device_only_if_it_asks_for_it(served: ControlPlane) -> None:
    """EKS writes such a toleration for each device itself (`ExtendedResourceToleration`)."""
    slice_ = "nvidia.com/mig-1g.10gb"
    assert _said(served, pod("headway-vision-throughput-a100-80gb", "a100-mig", 0, **{slice_: "1"})) == ""
    other = pod("headway-vision-latency-l4", "l4", 1)
    other["spec"]["tolerations"] = [{"key": slice_, "operator": "Exists"}]
    assert "headway-tolerations-of-own-pool" in _said(served, other)


AS_ISTIOD: dict[str, Any] = {
    # Its rights are its chart's; what the rules say of it is what is asked here.
    "header_params": {"Impersonate-User": "system:serviceaccount:istio-system:istiod", "Impersonate-Group": "system:masters"}
}


def test_istiod_gives_a_tenants_proxies_the_certificate_that_they_trust(served: ControlPlane) -> None:
    """As `reconcileCACertAndCRL` writes it (pilot/pkg/serviceregistry/kube/controller/namespacecontroller.go of 1.31); a pod that was injected
    mounts it, and is not started without."""
    metadata = {"name": "istio-ca-root-cert", "namespace": TENANT, "labels": {"istio.io/config": "true"}}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"root-cert.pem": "-----BEGIN CERTIFICATE-----"}}
    how = {"namespace": TENANT, "query_params": [("dryRun", "All")], **AS_ISTIOD}
    assert _answer(lambda: served.resource(body).create(body=body, **how)) == ""
    assert "headway-nothing-to-istio" in as_deployer(served, body)


TRUSTED = "istio-ca-root-cert"


def test_no_deployer_makes_what_a_proxy_trusts(served: ControlPlane) -> None:
    """Whose istiod a proxy obeys, it knows by that root alone, and a pod may name another address of istiod's (`hostAliases`)."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": TRUSTED, "namespace": TENANT}, "data": {"root-cert.pem": "own"}}
    assert "headway-nothing-to-istio" in as_deployer(served, body)
    assert as_deployer(served, {**body, "metadata": {"name": "own-roots", "namespace": TENANT}}) == ""


def test_no_deployer_takes_over_what_a_proxy_trusts(served: ControlPlane) -> None:
    """Without its label and immutable, so that istiod would never set it right."""
    metadata = {"name": TRUSTED, "namespace": TENANT, "labels": {"istio.io/config": "true"}}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"root-cert.pem": "istiod's"}}
    served.resource(body).create(body=body, namespace=TENANT, **AS_ISTIOD)
    own = {"metadata": {"labels": None}, "data": {"root-cert.pem": "own"}, "immutable": True}
    how = {"content_type": "application/merge-patch+json", **AS_DEPLOYER}
    said = _answer(lambda: served.resource(body).patch(name=TRUSTED, namespace=TENANT, body=own, **how))
    served.resource(body).delete(name=TRUSTED, namespace=TENANT)
    assert "headway-nothing-to-istio" in said


def _said(control_plane: ControlPlane, body: dict[str, Any]) -> str:
    how = {"namespace": TENANT, "query_params": [("dryRun", "All")]}
    return _answer(lambda: control_plane.resource(body).create(body=body, **how))


def _patched(control_plane: ControlPlane, body: dict[str, Any], path: str, value: object, **more: Any) -> str:
    how = {"content_type": "application/json-patch+json", **more}
    patch = [{"op": "replace", "path": path, "value": value}]
    return _answer(lambda: control_plane.resource(body).patch(name=body["metadata"]["name"], namespace=TENANT, body=patch, **how))


def _replaced(control_plane: ControlPlane, body: dict[str, Any]) -> str:
    return _answer(lambda: control_plane.resource(body).replace(body=body, namespace=TENANT, query_params=[("dryRun", "All")]))


def _applied(control_plane: ControlPlane, body: dict[str, Any]) -> str:
    how = {"field_manager": "test", "force_conflicts": True, "query_params": [("dryRun", "All")]}
    return _answer(
        lambda: control_plane.resource(body).server_side_apply(body=body, name=body["metadata"]["name"], namespace=TENANT, **how)
    )


def _answer(written: Callable[[], object]) -> str:
    """What the API server says against it; empty when it would take it."""
    try:
        written()
    except ApiException as error:
        return str(error.body)
    return ""


def as_deployer(control_plane: ControlPlane, body: dict[str, Any]) -> str:
    """What the API server says when one of the tenant's deployers writes `body`."""
    how = {"namespace": TENANT, "query_params": [("dryRun", "All")], **AS_DEPLOYER}
    return _answer(lambda: control_plane.resource(body).create(body=body, **how))


def test_what_everybody_sees_in_grafana_is_written_by_nobody_who_only_deploys(served: ControlPlane) -> None:
    own: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "tried", "labels": labels("test", tenant=TENANT)},
        "data": {},
    }
    page = {**own, "metadata": {**own["metadata"], "labels": {**own["metadata"]["labels"], **DASHBOARD_LABEL}}}
    assert as_deployer(served, own) == ""
    assert "headway-dashboards-are-the-platforms" in eventually(lambda: as_deployer(served, page))
    assert _said(served, page) == "", "who writes the tenant's namespace writes its dashboards"
    apply(served, {**page, "metadata": {**page["metadata"], "namespace": TENANT}})
    assert "headway-dashboards-are-the-platforms" in _patched(served, page, "/data", {"page.json": "{}"}, **AS_DEPLOYER)


def test_a_config_map_that_is_being_deleted_becomes_no_dashboard_either(served: ControlPlane) -> None:
    metadata: dict[str, Any] = {
        "name": "leaving",
        "namespace": TENANT,
        "finalizers": ["test.example/held"],
        "labels": labels("test", tenant=TENANT),
    }
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}
    apply(served, body)
    served.resource(body).delete(name="leaving", namespace=TENANT)
    page = {**metadata["labels"], **DASHBOARD_LABEL}
    assert "headway-dashboards-are-the-platforms" in _patched(served, body, "/metadata/labels", page, **AS_DEPLOYER)
    assert _patched(served, body, "/metadata/finalizers", [], **AS_DEPLOYER) == ""


def allowed(control_plane: ControlPlane, right: Right) -> bool:
    """Whether the API server lets one of the tenant's deployers do it."""
    verb, group, resource, namespace = right
    resource, _, subresource = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "someone", "groups": [*roomy().people.deployers, "system:authenticated"], "resourceAttributes": asked},
    }
    return bool(control_plane.resource(review).create(body=review).to_dict()["status"]["allowed"])


@pytest.mark.parametrize("right", GRANTED, ids=" ".join)
def test_a_deployer_may_write_what_a_release_is_made_of(served: ControlPlane, right: Right) -> None:
    assert allowed(served, right)


def test_a_deployer_may_do_nothing_that_leads_around_the_rules(served: ControlPlane) -> None:
    assert [right for right in DENIED if allowed(served, right)] == []
