"""The platform's admission rules against a real API server: one pod admitted, and one refused for each thing that is forbidden."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from components.platform import admission
from headway.contract.pool import Pool
from headway.node_health.facts import DIAGNOSTIC_LABEL
from headway.wire import MIG_TAINT, MODEL, POOL, PREFIX, QUARANTINE, RELEASE, TENANT
from tests.cluster.conftest import ControlPlane, eventually

NAMESPACE, KEPT = "admitted", "kept"
LEVEL = "pod-security.kubernetes.io/enforce"
_POOL: dict[str, Any] = {
    "instance_types": ["g6.12xlarge"],
    "zones": ["us-east-1a"],
    "size": {"max": 4},
    "workload_class": "latency",
    "ami": {"release": "1.36.2-20260714", "driver": "580.159.03"},
}
POOLS = (
    Pool.model_validate(
        {
            **_POOL,
            "name": "blue",
            "instance_types": ["p4de.24xlarge"],
            "sharing": {"mode": "mig", "layout": {"1g.10gb": 7}},
            "taints": [{"key": "team", "value": "blue"}],
        }
    ),
    Pool.model_validate({**_POOL, "name": "plain"}),
)
HOSTS = ("models.test",)
Change = Callable[[dict[str, Any]], object]


def pod(change: Change = lambda body: None) -> dict[str, Any]:
    """A pod of a tenant that keeps every rule, changed."""
    gpu = {"nvidia.com/gpu": "1"}
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "server", "namespace": NAMESPACE, "labels": {TENANT: NAMESPACE, MODEL: "m", RELEASE: "r"}},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": {"runAsUser": 10001, "runAsGroup": 10001},
            "containers": [
                {"name": "server", "image": f"registry.test/server@sha256:{'a' * 64}", "resources": {"limits": gpu, "requests": gpu}}
            ],
            "nodeSelector": {POOL: "blue"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "team", "operator": "Equal", "value": "blue"}],
        },
    }
    changed = copy.deepcopy(body)
    change(changed)
    return changed


@pytest.fixture(scope="module")
def guarded(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with every rule bound, and a tenant's namespace."""
    bodies = [dict(manifest.body) for manifest in admission.manifests(POOLS, HOSTS)]
    namespaces: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {TENANT: NAMESPACE}}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KEPT, "labels": {TENANT: KEPT, LEVEL: "restricted"}}},
    ]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}}
    control_plane.create(*namespaces)
    eventually(lambda: _exists(control_plane, account))
    control_plane.create(pod(lambda body: (body["metadata"].update(name="older", finalizers=["test/held"]), by_tag(body))))
    control_plane.create(*bodies)
    # A binding acts a moment after it was accepted, each at its own.
    for rule, change in {rule: change for rule, _, change in REFUSED}.items():
        eventually(partial(_refused_by, control_plane, rule, change))
    eventually(lambda: "tenant-namespace-stays" in relabelled(control_plane, {TENANT: None}))
    control_plane.create(pod(lambda body: body["metadata"].update(name="running")))
    return control_plane


def _refused_by(control_plane: ControlPlane, rule: str, change: Change) -> bool:
    return f"headway-{rule}" in refusal(control_plane, pod(change))


def _exists(control_plane: ControlPlane, body: dict[str, Any]) -> bool:
    try:
        control_plane.get(body["kind"], body["metadata"]["name"], namespace=NAMESPACE)
    except ApiException:
        return False
    return True


def refusal(control_plane: ControlPlane, body: dict[str, Any]) -> str:
    """What the API server says against `body`; empty when it would take it. Nothing is kept."""
    try:
        control_plane.resource(body).create(body=body, namespace=body["metadata"]["namespace"], query_params=[("dryRun", "All")])
    except ApiException as error:
        return str(error.body)
    return ""


def container(body: dict[str, Any]) -> dict[str, Any]:
    return body["spec"]["containers"][0]


def by_tag(body: dict[str, Any]) -> None:
    container(body).update(image="registry.test/server:1.0")


NO_GPU = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]}


def gpu_at_the_start(body: dict[str, Any]) -> None:
    """The GPU is asked for by an init container only."""
    first = {**container(body), "name": "first"}
    del container(body)["resources"]
    container(body).update(NO_GPU)
    body["spec"]["initContainers"] = [first]


def without_gpu(body: dict[str, Any]) -> None:
    del body["spec"]["nodeSelector"], body["spec"]["tolerations"]
    del container(body)["resources"], body["metadata"]["labels"][RELEASE]


def stays(body: dict[str, Any]) -> None:
    body["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def test_a_pod_with_a_gpu_keeps_its_node(guarded: ControlPlane) -> None:
    assert refusal(guarded, pod(stays)) == ""


def test_a_pod_that_keeps_every_rule_is_admitted(guarded: ControlPlane) -> None:
    assert refusal(guarded, pod()) == ""


def test_a_pod_without_a_gpu_needs_no_release(guarded: ControlPlane) -> None:
    assert refusal(guarded, pod(without_gpu)) == ""


def bound(body: dict[str, Any], audience: str, folder: str, token: str, told: dict[str, str]) -> None:
    """What EKS's webhook adds to a pod whose service account has a role (aws/amazon-eks-pod-identity-webhook, pkg/handler/handler.go,
    `getPodSpecPatch`), before any rule sees it."""
    name, path = token.rpartition("/")[2], f"/var/run/secrets/{folder}/serviceaccount"
    source = {"audience": audience, "expirationSeconds": 86400, "path": name}
    body["spec"]["volumes"] = [{"name": token.partition("/")[0], "projected": {"sources": [{"serviceAccountToken": source}]}}]
    env = {"AWS_STS_REGIONAL_ENDPOINTS": "regional", "AWS_DEFAULT_REGION": "us-east-1", "AWS_REGION": "us-east-1", **told}
    container(body)["env"] = [{"name": key, "value": value} for key, value in env.items()]
    container(body)["volumeMounts"] = [{"name": token.partition("/")[0], "mountPath": path, "readOnly": True}]


BINDINGS: dict[str, Change] = {
    "IRSA": lambda body: bound(
        body,
        "sts.amazonaws.com",
        "eks.amazonaws.com",
        "aws-iam-token/token",
        {
            "AWS_ROLE_ARN": "arn:aws:iam::111122223333:role/headway-prod-vision-models",
            "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/secrets/eks.amazonaws.com/serviceaccount/token",
        },
    ),
    "Pod Identity": lambda body: bound(
        body,
        "pods.eks.amazonaws.com",
        "pods.eks.amazonaws.com",
        "eks-pod-identity-token/eks-pod-identity-token",
        {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount/eks-pod-identity-token",
        },
    ),
}


@pytest.mark.parametrize("binding", BINDINGS)
def test_what_eks_writes_into_a_pod_for_its_role_is_admitted(guarded: ControlPlane, binding: str) -> None:
    assert refusal(guarded, pod(BINDINGS[binding])) == ""


def test_the_meshs_own_proxy_is_admitted_by_tag(guarded: ControlPlane) -> None:
    proxy = {"name": "istio-proxy", "image": "docker.io/istio/proxyv2:1.31.4", "securityContext": {"runAsUser": 1337, "runAsGroup": 1337}}
    assert refusal(guarded, pod(lambda body: body["spec"].update(initContainers=[proxy]))) == ""


def beside(**more: Any) -> dict[str, Any]:
    """A container that asks for no GPU; its image is perhaps one for CUDA."""
    return {"name": "beside", "image": f"registry.test/beside@sha256:{'d' * 64}", **more}


def asks_for(one: dict[str, Any], gpus: str) -> dict[str, Any]:
    one["resources"] = {each: {"nvidia.com/gpu": gpus} for each in ("limits", "requests")}
    return one


REFUSED: tuple[tuple[str, str, Change], ...] = (
    ("images-by-digest", "tag", lambda body: container(body).update(image="registry.test/server:1.0")),
    (
        "images-by-digest",
        "not the mesh",
        lambda body: body["spec"].update(initContainers=[{"name": "other", "image": "docker.io/istio/proxyv2:1.31.4", **NO_GPU}]),
    ),
    (
        "images-by-digest",
        "a volume's",
        lambda body: body["spec"].update(volumes=[{"name": "v", "image": {"reference": "registry.test/weights:1.0"}}]),
    ),
    ("devices-by-the-plugin", "variable", lambda body: container(body).update(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])),
    ("devices-by-the-plugin", "unseen variables", lambda body: container(body).update(envFrom=[{"configMapRef": {"name": "c"}}])),
    ("devices-by-the-plugin", "claim", lambda body: body["spec"].update(resourceClaims=[{"name": "c", "resourceClaimName": "c"}])),
    ("devices-by-the-plugin", "annotation", lambda body: body["metadata"].update(annotations={"cdi.k8s.io/x": "nvidia.com/gpu=all"})),
    (
        "devices-by-the-plugin",
        "annotation of the GPU Operator",
        lambda body: body["metadata"].update(annotations={"nvidia.cdi.k8s.io/container.server": "management.nvidia.com/gpu=all"}),
    ),
    (
        "devices-by-the-plugin",
        "mount",
        lambda body: (
            container(body).update(volumeMounts=[{"name": "v", "mountPath": "/var/run/nvidia-container-devices/all"}]),
            body["spec"].update(volumes=[{"name": "v", "emptyDir": {}}]),
        ),
    ),
    (
        "devices-by-the-plugin",
        "mount, written longer",
        lambda body: (
            container(body).update(volumeMounts=[{"name": "v", "mountPath": "//var/lib/../run/./nvidia-container-devices/all"}]),
            body["spec"].update(volumes=[{"name": "v", "emptyDir": {}}]),
        ),
    ),
    *(
        ("devices-by-the-plugin", f"none of a kind, written {none}", lambda body, none=none: asks_for(container(body), none))
        for none in ("0", "0k", "0.0")
    ),
    (
        "devices-by-the-plugin",
        "none of a kind beside one",
        lambda body: body["spec"]["containers"].append(asks_for(beside(), "0")),
    ),
    ("pods-may-leave", "held", lambda body: body["metadata"].update(finalizers=["test.example/held"])),
    (
        "pods-may-leave",
        "held from the autoscaler",
        lambda body: (without_gpu(body), stays(body)),
    ),
    (
        "pods-may-leave",
        "held beside what a Job holds",
        lambda body: body["metadata"].update(finalizers=["batch.kubernetes.io/job-tracking", "test.example/held"]),
    ),
    (
        "pods-leave-in-time",
        "once it does not start",
        lambda body: container(body).update(startupProbe={"exec": {"command": ["a"]}, "terminationGracePeriodSeconds": 541}),
    ),
    ("pods-leave-in-time", "in sixty years", lambda body: body["spec"].update(terminationGracePeriodSeconds=2**31 - 1)),
    (
        "pods-leave-in-time",
        "once it is not alive",
        lambda body: container(body).update(livenessProbe={"exec": {"command": ["a"]}, "terminationGracePeriodSeconds": 541}),
    ),
    *(
        (
            "resources-that-are-counted",
            name,
            lambda body, name=name: [
                container(body)["resources"].setdefault(each, {}).update({name: "1"}) for each in ("limits", "requests")
            ],
        )
        for name in ("deviceclass.resource.kubernetes.io/gpu.nvidia.com", "vpc.amazonaws.com/efa")
    ),
    (
        "resources-that-are-counted",
        "huge pages",
        lambda body: [
            container(body)["resources"].setdefault(each, {}).update({"hugepages-2Mi": "1Gi", "cpu": "1"})
            for each in ("limits", "requests")
        ],
    ),
    (
        "resources-that-are-counted",
        "huge pages of the whole pod",
        lambda body: body["spec"].update(
            resources={each: {"hugepages-2Mi": "2Mi", "cpu": "1", "memory": "1Gi"} for each in ("limits", "requests")}
        ),
    ),
    ("devices-for-who-asks", "beside it", lambda body: body["spec"]["containers"].append(beside())),
    ("devices-for-who-asks", "before it", lambda body: body["spec"].update(initContainers=[beside()])),
    (
        "devices-for-who-asks",
        "another variable",
        lambda body: body["spec"]["containers"].append(beside(env=[{"name": "A", "value": "void"}])),
    ),
    ("labels-of-the-platform", "a diagnostic", lambda body: body["metadata"]["labels"].update({DIAGNOSTIC_LABEL: "1-1"})),
    ("labels-of-the-platform", "what comes one day", lambda body: body["metadata"]["labels"].update({f"{PREFIX}/someday": "x"})),
    ("no-host-access", "network", lambda body: body["spec"].update(hostNetwork=True)),
    ("no-host-access", "processes", lambda body: body["spec"].update(hostPID=True)),
    ("no-host-access", "path", lambda body: body["spec"].update(volumes=[{"name": "v", "hostPath": {"path": "/"}}])),
    ("no-host-access", "path below", lambda body: body["spec"].update(volumes=[{"name": "v", "hostPath": {"path": "/var/lib/kubelet"}}])),
    ("no-host-access", "port", lambda body: container(body).update(ports=[{"containerPort": 80, "hostPort": 80}])),
    ("no-host-access", "privilege", lambda body: container(body).update(securityContext={"privileged": True})),
    (
        "no-host-access",
        "unmasked kernel",
        lambda body: (body["spec"].update(hostUsers=False), container(body).update(securityContext={"procMount": "Unmasked"})),
    ),
    ("node-by-the-scheduler", "named", lambda body: body["spec"].update(nodeName="gpu-0")),
    ("owner-labels", "none", lambda body: body["metadata"].pop("labels")),
    ("owner-labels", "another's", lambda body: body["metadata"]["labels"].update({TENANT: "other"})),
    ("owner-labels", "no release", lambda body: body["metadata"]["labels"].pop(RELEASE)),
    ("owner-labels", "GPU at the start", lambda body: (gpu_at_the_start(body), body["metadata"]["labels"].pop(RELEASE))),
    (
        "owner-labels",
        "MIG slice",
        lambda body: (
            container(body)["resources"].update(limits={"nvidia.com/mig-1g.10gb": "1"}, requests={"nvidia.com/mig-1g.10gb": "1"}),
            body["metadata"]["labels"].pop(RELEASE),
        ),
    ),
    ("tolerations-of-own-pool", "another pool's", lambda body: body["spec"].update(nodeSelector={POOL: "plain"})),
    ("tolerations-of-own-pool", "no pool", lambda body: body["spec"].pop("nodeSelector")),
    ("tolerations-of-own-pool", "quarantine", lambda body: body["spec"]["tolerations"].append({"key": QUARANTINE, "operator": "Exists"})),
    ("tolerations-of-own-pool", "not cut yet", lambda body: body["spec"]["tolerations"].append({"key": MIG_TAINT, "operator": "Exists"})),
    ("tolerations-of-own-pool", "no GPU", lambda body: container(body).pop("resources")),
    ("tolerations-by-name", "all", lambda body: body["spec"].update(tolerations=[{"operator": "Exists"}])),
)


@pytest.mark.parametrize(("rule", "case", "change"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
def test_a_pod_that_breaks_a_rule_is_refused_by_that_rule(guarded: ControlPlane, rule: str, case: str, change: Change) -> None:
    said = refusal(guarded, pod(change))
    assert f"headway-{rule}" in said, f"admitted, or refused by something else: {said!r}"


def test_a_container_beside_that_wants_no_gpu_and_says_so_is_admitted(guarded: ControlPlane) -> None:
    assert refusal(guarded, pod(lambda body: body["spec"]["containers"].append(beside(**NO_GPU)))) == ""


def by_limits_only(body: dict[str, Any]) -> None:
    del container(body)["resources"]["requests"]


@pytest.mark.parametrize("change", [gpu_at_the_start, by_limits_only])
def test_a_pod_that_asks_for_its_gpu_otherwise_is_admitted(guarded: ControlPlane, change: Change) -> None:
    assert refusal(guarded, pod(change)) == ""


def test_a_pod_of_a_job_keeps_the_jobs_finalizer(guarded: ControlPlane) -> None:
    assert refusal(guarded, pod(lambda body: body["metadata"].update(finalizers=["batch.kubernetes.io/job-tracking"]))) == ""


def test_an_image_volume_by_digest_is_admitted(guarded: ControlPlane) -> None:
    weights = {"name": "v", "image": {"reference": f"registry.test/weights@sha256:{'b' * 64}"}}
    assert refusal(guarded, pod(lambda body: body["spec"].update(volumes=[weights]))) == ""


def test_a_large_pod_stays_within_the_rules_budget(guarded: ControlPlane) -> None:
    """Or a pod that keeps every rule would be refused because its rules could not be evaluated."""

    def grow(body: dict[str, Any]) -> None:
        one = container(body)
        small = {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
        env = [{"name": f"V{number}", "value": "x"} for number in range(50)] + NO_GPU["env"]
        body["spec"]["containers"] += [{**one, "name": f"side-{number}", "env": env, "resources": small} for number in range(40)]

    assert refusal(guarded, pod(grow)) == ""


def written(
    plane: ControlPlane, kind: str, name: str, patch: dict[str, Any], subresource: str = "", namespace: str | None = NAMESPACE
) -> str:
    """What the API server says against a change of what is there; empty when it would take it. Nothing is kept."""
    resource = plane.client.resources.get(api_version="v1", kind=kind)
    target = resource.subresources[subresource] if subresource else resource
    how = {"content_type": "application/strategic-merge-patch+json", "query_params": [("dryRun", "All")]}
    try:
        target.patch(name=name, namespace=namespace, body=patch, **how)
    except ApiException as error:
        return str(error.body)
    return ""


def relabelled(plane: ControlPlane, labels: dict[str, str | None], subresource: str = "", name: str = NAMESPACE) -> str:
    return written(plane, "Namespace", name, {"metadata": {"labels": labels}}, subresource, namespace=None)


def debugger(image: str) -> dict[str, Any]:
    return {"spec": {"ephemeralContainers": [{"name": "debugger", "image": image, **NO_GPU}]}}


def test_a_container_that_is_added_to_a_running_pod_meets_the_rules_too(guarded: ControlPlane) -> None:
    assert "headway-images-by-digest" in written(guarded, "Pod", "running", debugger("registry.test/sh:1"), "ephemeralcontainers")
    assert written(guarded, "Pod", "running", debugger(f"registry.test/sh@sha256:{'c' * 64}"), "ephemeralcontainers") == ""


@pytest.mark.parametrize(
    ("rule", "patch"),
    [
        ("tolerations-of-own-pool", {"spec": {"tolerations": [*pod()["spec"]["tolerations"], {"key": QUARANTINE, "operator": "Exists"}]}}),
        ("owner-labels", {"metadata": {"labels": {TENANT: None}}}),
        ("labels-of-the-platform", {"metadata": {"labels": {DIAGNOSTIC_LABEL: "1-1"}}}),
        ("images-by-digest", {"spec": {"containers": [{"name": "server", "image": "registry.test/server:1.0"}]}}),
    ],
    ids=["toleration", "owner", "diagnostic", "image"],
)
def test_a_running_pod_cannot_be_changed_into_one_that_would_be_refused(guarded: ControlPlane, rule: str, patch: dict[str, Any]) -> None:
    assert f"headway-{rule}" in written(guarded, "Pod", "running", patch)
    assert written(guarded, "Pod", "running", {"metadata": {"annotations": {"note": "x"}}}) == ""


def test_a_running_pod_gets_no_second_gpu_by_resizing(guarded: ControlPlane) -> None:
    two = {"nvidia.com/gpu": "2"}
    patch = {"spec": {"containers": [{"name": "server", "resources": {"limits": two, "requests": two}}]}}
    assert "Forbidden" in written(guarded, "Pod", "running", patch, "resize")


def test_a_pod_that_is_older_than_the_rules_may_leave_but_not_change(guarded: ControlPlane) -> None:
    """Its finalizer is taken off by an update, which a rule that it breaks would refuse for ever."""
    noted: dict[str, Any] = {"metadata": {"annotations": {"note": "x"}}}
    assert written(guarded, "Pod", "older", {"status": {"phase": "Running"}}, "status") == "", "a kubelet is not silenced"
    assert "ValidatingAdmissionPolicy 'headway-" in written(guarded, "Pod", "older", noted, "status")
    guarded.resource(pod()).delete(name="older", namespace=NAMESPACE)
    assert "ValidatingAdmissionPolicy 'headway-" in written(guarded, "Pod", "older", noted)
    assert "ValidatingAdmissionPolicy 'headway-" in written(guarded, "Pod", "older", debugger("registry.test/sh:1"), "ephemeralcontainers")
    assert written(guarded, "Pod", "older", {"metadata": {"finalizers": None}}) == ""


def test_what_controllers_make_meets_the_rules_too(guarded: ControlPlane) -> None:
    template = pod(lambda body: (by_tag(body), body["spec"].update(restartPolicy="Never")))
    spec = {"template": {"metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"]}, "backoffLimit": 0}
    guarded.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job", "namespace": NAMESPACE}, "spec": spec})
    said = eventually(
        lambda: [e["message"] for e in guarded.list("Event", namespace=NAMESPACE) if e["reason"] == "FailedCreate"], within=60
    )
    assert "headway-images-by-digest" in said[0]


@pytest.mark.parametrize("subresource", ["", "status"])
@pytest.mark.parametrize(
    "labels",
    [{TENANT: None}, {TENANT: "other"}, {LEVEL: "privileged"}, {LEVEL: None}],
    ids=["no owner", "another owner", "privileged", "no level"],
)
def test_a_tenants_namespace_cannot_step_out_of_the_rules(guarded: ControlPlane, labels: dict[str, str | None], subresource: str) -> None:
    assert relabelled(guarded, {"team": "blue"}, subresource, KEPT) == ""
    assert "headway-tenant-namespace-stays" in relabelled(guarded, labels, subresource, KEPT)


def test_a_tenants_namespace_does_not_step_out_as_one_that_ends(guarded: ControlPlane) -> None:
    """Its finalizers are written by a way of their own, which takes labels too."""
    path = f"/api/v1/namespaces/{KEPT}/finalize"

    def ended(labels: dict[str, str]) -> str:
        body = {**namespace(KEPT, labels), "spec": {"finalizers": ["kubernetes"]}}
        how: dict[str, Any] = {"query_params": [("dryRun", "All")], "header_params": {"Content-Type": "application/json"}}
        try:
            guarded.client.client.call_api(path, "PUT", body=body, response_types_map={}, auth_settings=["BearerToken"], **how)
        except ApiException as error:
            return str(error.body)
        return ""

    assert ended({TENANT: KEPT, LEVEL: "restricted"}) == ""
    assert "headway-tenant-namespace-stays" in ended({LEVEL: "restricted"})


@pytest.mark.parametrize("labels", [{TENANT: None}, {LEVEL: "privileged"}], ids=["no owner", "privileged"])
def test_a_tenants_namespace_that_is_being_deleted_cannot_either(guarded: ControlPlane, labels: dict[str, str | None]) -> None:
    """What still runs in it would be free of the rules until its last pod is gone."""
    body = namespace("leaving", {TENANT: "leaving", LEVEL: "restricted"})
    guarded.create({**body, "metadata": {**body["metadata"], "finalizers": ["test.example/held"]}})
    guarded.resource(body).delete(name="leaving")
    for subresource in ("", "status"):
        assert "headway-tenant-namespace-stays" in relabelled(guarded, labels, subresource, "leaving")
    guarded.resource(body).patch(name="leaving", body={"metadata": {"finalizers": None}}, content_type="application/merge-patch+json")
    eventually(lambda: not any(one["metadata"]["name"] == "leaving" for one in guarded.list("Namespace")))


def namespace(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "namespace": None, "labels": labels}}


def test_a_new_namespace_is_a_tenants_only_under_its_own_name_and_restricted(guarded: ControlPlane) -> None:
    assert refusal(guarded, namespace("fresh", {TENANT: "fresh", LEVEL: "restricted"})) == ""
    assert refusal(guarded, namespace("fresh", {})) == "", "the platform's own namespaces have no owner"
    for labels in ({TENANT: "other", LEVEL: "restricted"}, {TENANT: "fresh"}, {TENANT: "fresh", LEVEL: "baseline"}):
        assert "headway-tenant-namespace-stays" in refusal(guarded, namespace("fresh", labels))


def test_a_gpu_is_never_overcommitted(guarded: ControlPlane) -> None:
    """Kubernetes' own validation comes first here; the rule holds should a version ever allow it."""
    unequal = {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "1"}}
    assert "must be equal to nvidia.com/gpu limit" in refusal(guarded, pod(lambda body: container(body).update(resources=unequal)))


def test_the_api_server_finds_no_fault_in_the_rules_themselves(guarded: ControlPlane) -> None:
    def checked() -> list[dict[str, Any]]:
        policies = [
            guarded.get("ValidatingAdmissionPolicy", f"headway-{rule.name}", api_version="admissionregistration.k8s.io/v1", namespace=None)
            for rule in admission.rules(POOLS, HOSTS)
        ]
        return (
            [policy["status"] for policy in policies]
            if all((policy.get("status") or {}).get("typeChecking") is not None for policy in policies)
            else []
        )

    assert not any(status["typeChecking"].get("expressionWarnings") for status in eventually(checked))
