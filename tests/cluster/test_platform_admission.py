"""The platform's admission rules against a real API server: one pod admitted, and one refused for each thing that is forbidden."""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from components.platform import admission
from headway.contract.labels import MODEL, POOL, QUARANTINE, RELEASE, TENANT
from headway.contract.pool import Pool
from tests.cluster.conftest import ControlPlane, eventually

NAMESPACE = "admitted"
_POOL: dict[str, Any] = {
    "instance_types": ["g6.12xlarge"],
    "zones": ["us-east-1a"],
    "size": {"max": 4},
    "workload_class": "latency",
    "ami": {"release": "1.35.6-20260714", "driver": "580.159.03"},
}
POOLS = (
    Pool.model_validate({**_POOL, "name": "blue", "taints": [{"key": "team", "value": "blue"}]}),
    Pool.model_validate({**_POOL, "name": "plain"}),
)
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
def guarded(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with every rule bound, and a tenant's namespace."""
    bodies = [dict(manifest.body) for manifest in admission.manifests(POOLS)]
    namespaces: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {TENANT: NAMESPACE}}}
    ]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}}
    control_plane.create(*namespaces)
    eventually(lambda: _exists(control_plane, account))
    control_plane.create(*bodies)
    # A binding acts a moment after it was accepted, each at its own.
    for rule, change in {rule: change for rule, _, change in REFUSED}.items():
        eventually(partial(_refused_by, control_plane, rule, change))
    yield control_plane
    for body in [*bodies, *namespaces]:
        control_plane.resource(body).delete(name=body["metadata"]["name"])


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


def without_gpu(body: dict[str, Any]) -> None:
    del body["spec"]["nodeSelector"], body["spec"]["tolerations"]
    del container(body)["resources"], body["metadata"]["labels"][RELEASE]


def test_a_pod_that_keeps_every_rule_is_admitted(guarded: ControlPlane) -> None:
    assert refusal(guarded, pod()) == ""


def test_a_pod_without_a_gpu_needs_no_release(guarded: ControlPlane) -> None:
    assert refusal(guarded, pod(without_gpu)) == ""


def test_the_meshs_own_proxy_is_admitted_by_tag(guarded: ControlPlane) -> None:
    proxy = {"name": "istio-proxy", "image": "registry.istio.io/release/proxyv2:1.30.3"}
    assert refusal(guarded, pod(lambda body: body["spec"].update(initContainers=[proxy]))) == ""


REFUSED: tuple[tuple[str, str, Change], ...] = (
    ("images-by-digest", "tag", lambda body: container(body).update(image="registry.test/server:1.0")),
    (
        "images-by-digest",
        "not the mesh",
        lambda body: body["spec"].update(initContainers=[{"name": "other", "image": "registry.istio.io/release/proxyv2:1.30.3"}]),
    ),
    ("no-host-access", "network", lambda body: body["spec"].update(hostNetwork=True)),
    ("no-host-access", "processes", lambda body: body["spec"].update(hostPID=True)),
    ("no-host-access", "path", lambda body: body["spec"].update(volumes=[{"name": "v", "hostPath": {"path": "/"}}])),
    ("no-host-access", "port", lambda body: container(body).update(ports=[{"containerPort": 80, "hostPort": 80}])),
    ("no-host-access", "privilege", lambda body: container(body).update(securityContext={"privileged": True})),
    ("owner-labels", "none", lambda body: body["metadata"].pop("labels")),
    ("owner-labels", "another's", lambda body: body["metadata"]["labels"].update({TENANT: "other"})),
    ("owner-labels", "no release", lambda body: body["metadata"]["labels"].pop(RELEASE)),
    ("tolerations-of-own-pool", "another pool's", lambda body: body["spec"].update(nodeSelector={POOL: "plain"})),
    ("tolerations-of-own-pool", "no pool", lambda body: body["spec"].pop("nodeSelector")),
    ("tolerations-of-own-pool", "quarantine", lambda body: body["spec"]["tolerations"].append({"key": QUARANTINE, "operator": "Exists"})),
    ("tolerations-of-own-pool", "no GPU", lambda body: container(body).pop("resources")),
    ("tolerations-by-name", "all", lambda body: body["spec"].update(tolerations=[{"operator": "Exists"}])),
)


@pytest.mark.parametrize(("rule", "case", "change"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
def test_a_pod_that_breaks_a_rule_is_refused_by_that_rule(guarded: ControlPlane, rule: str, case: str, change: Change) -> None:
    said = refusal(guarded, pod(change))
    assert f"headway-{rule}" in said, f"admitted, or refused by something else: {said!r}"


def test_a_gpu_is_never_overcommitted(guarded: ControlPlane) -> None:
    """Kubernetes' own validation comes first here; the rule holds should a version ever allow it."""
    unequal = {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "1"}}
    assert "must be equal to nvidia.com/gpu limit" in refusal(guarded, pod(lambda body: container(body).update(resources=unequal)))


def test_the_api_server_finds_no_fault_in_the_rules_themselves(guarded: ControlPlane) -> None:
    def checked() -> list[dict[str, Any]]:
        policies = [
            guarded.get("ValidatingAdmissionPolicy", f"headway-{rule.name}", api_version="admissionregistration.k8s.io/v1", namespace=None)
            for rule in admission.rules(POOLS)
        ]
        return (
            [policy["status"] for policy in policies]
            if all((policy.get("status") or {}).get("typeChecking") is not None for policy in policies)
            else []
        )

    assert not any(status["typeChecking"].get("expressionWarnings") for status in eventually(checked))
