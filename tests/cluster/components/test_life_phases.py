"""Deployers' objects and runners' commands in the phases that no manifest shows: made up names, owners, parts of an object, commands."""

from collections.abc import Callable
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from components.labels import MODELS
from components.platform import admission
from components.tenant import access
from headway.contract.tenant import Tenant
from headway.wire import TENANT as OF_TENANT
from tests.cluster.components.boundary_cases import STAYS, TENANT, deployment, pod_spec
from tests.cluster.conftest import ControlPlane, eventually
from tests.cluster.definitions import define
from tests.components.contracts import POOLS, SURROUNDINGS, document

PEOPLE = Tenant.model_validate(document(TENANT, "tenant")).people
DEPLOYER, RUNNER, OPERATOR = PEOPLE.deployers[0], PEOPLE.runners[0], "system:masters"
KEPT: dict[str, dict[str, Any]] = {
    **{name: STAYS[name] for name in ("autoscaler", "budget", "destination", "route", "service", "sidecar")},
    "configuration": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tried", "namespace": TENANT}, "data": {}},
    "deployment": deployment({}, pod_spec()),
}
"""One object of each kind that a deployer may write."""
OWNERS = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "name": "system-node-critical", "uid": "1", "blockOwnerDeletion": True}
]
"""Of the cluster: deleted in the foreground, it waits for what names it so (Kubernetes documentation, "Garbage Collection")."""


@pytest.fixture(scope="module")
def walled(control_plane: ControlPlane) -> ControlPlane:
    """A cluster with the kinds and rules of the platform, and a tenant's namespace with its roles."""
    kinds = {body["kind"] for body in KEPT.values()}
    for add_on in ("istio", "keda"):
        define(control_plane, add_on, *kinds)
    metadata = {"name": TENANT, "labels": {OF_TENANT: TENANT}, "annotations": {MODELS: "defects"}}
    control_plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    roles = [
        body for _, body in access.roles(Tenant.model_validate(document(TENANT, "tenant"))) if body["metadata"].get("namespace") == TENANT
    ]
    control_plane.create(*roles, *(dict(manifest.body) for manifest in admission.manifests(POOLS, SURROUNDINGS.hosts)))
    control_plane.client.resources.invalidate_cache()
    for body in KEPT.values():
        eventually(lambda body=body: said(lambda: created(control_plane, body)) == "" or None, within=60)
    eventually(lambda: "headway-no-owners" in said(lambda: created(control_plane, owned(KEPT["service"]), dryRun="All")))
    eventually(lambda: "headway-commands-in-servers-alone" in run(control_plane, RUNNER, "istio-proxy"))
    return control_plane


def by(group: str, **query: str) -> dict[str, Any]:
    return {"header_params": {"Impersonate-User": "someone", "Impersonate-Group": group}, "query_params": [*query.items()]}


def created(plane: ControlPlane, body: dict[str, Any], group: str = DEPLOYER, **query: str) -> object:
    return plane.resource(body).create(body=body, namespace=TENANT, **by(group, **query))


def said(act: Callable[[], object]) -> str:
    """What the API server says against it; empty when it takes it."""
    try:
        act()
    except ApiException as error:
        return str(error.body)
    return ""


def owned(body: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "ownerReferences": OWNERS, **metadata}}


@pytest.mark.parametrize("kind", KEPT)
def test_what_a_deployer_writes_has_no_owner_however_it_is_written(walled: ControlPlane, kind: str) -> None:
    body = KEPT[kind]
    resource, name = walled.resource(body), body["metadata"]["name"]
    own = {"metadata": {"ownerReferences": OWNERS}}
    ways = {
        "created": lambda: created(walled, owned(body, name=f"{name}-other"), dryRun="All"),
        "patched": lambda: resource.patch(
            name=name, namespace=TENANT, body=own, content_type="application/merge-patch+json", **by(DEPLOYER, dryRun="All")
        ),
        "applied": lambda: resource.server_side_apply(
            name=name, namespace=TENANT, body=owned(body), field_manager="kubelet", force_conflicts=True, **by(DEPLOYER, dryRun="All")
        ),
    }
    answers = {way: said(act) for way, act in ways.items()}
    # Of a new name another rule may speak first.
    assert {way for way, answer in answers.items() if "denied request" not in answer} == set(), answers
    assert all("headway-no-owners" in answers[way] for way in ("patched", "applied")), answers


@pytest.mark.parametrize("kind", KEPT)
def test_what_has_no_owner_may_be_changed_as_before(walled: ControlPlane, kind: str) -> None:
    body = KEPT[kind]
    how = {"content_type": "application/merge-patch+json", **by(DEPLOYER, dryRun="All")}
    note = {"metadata": {"annotations": {"note": "x"}, "labels": {"team": "blue"}}}
    assert said(lambda: walled.resource(body).patch(name=body["metadata"]["name"], namespace=TENANT, body=note, **how)) == ""


@pytest.mark.parametrize("where", ["annotations", "labels"])
@pytest.mark.parametrize("kind", KEPT)
def test_what_a_deployer_keeps_is_not_told_to_istio_afterwards(walled: ControlPlane, kind: str, where: str) -> None:
    body = KEPT[kind]
    how = {"content_type": "application/merge-patch+json", **by(DEPLOYER, dryRun="All")}
    told = {"metadata": {where: {"networking.istio.io/exportTo": "x"}}}
    answer = said(lambda: walled.resource(body).patch(name=body["metadata"]["name"], namespace=TENANT, body=told, **how))
    assert "headway-nothing-to-istio" in answer


def test_who_may_change_the_namespace_itself_may_name_owners(walled: ControlPlane) -> None:
    assert said(lambda: created(walled, owned(KEPT["configuration"], name="other"), OPERATOR, dryRun="All")) == ""


@pytest.mark.parametrize(("kind", "rule"), [("route", "routes-of-own-models"), ("budget", "disruptions-stay-possible")])
def test_a_name_that_the_server_makes_up_passes_for_no_models(walled: ControlPlane, kind: str, rule: str) -> None:
    metadata = {key: value for key, value in KEPT[kind]["metadata"].items() if key != "name"}
    body = {**KEPT[kind], "metadata": {**metadata, "generateName": KEPT[kind]["metadata"]["name"]}}
    assert f"headway-{rule}" in said(lambda: created(walled, body, dryRun="All"))


def run(plane: ControlPlane, group: str, container: str | None, method: str = "POST") -> str:
    """What the API server says of a command in a pod that is not there."""
    query = [("command", "id"), ("stdout", "true"), *([("container", container)] if container is not None else [])]
    headers = {"Impersonate-User": "someone", "Impersonate-Group": group}
    path = f"/api/v1/namespaces/{TENANT}/pods/none/exec"
    api = plane.client.client
    return said(lambda: api.call_api(path, method, query_params=query, header_params=headers, auth_settings=["BearerToken"]))


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("container", ["istio-proxy", "istio-validation", "fetch", "metrics", "debugger", "Server"])
def test_a_runner_runs_nothing_beside_the_model_server(walled: ControlPlane, container: str, method: str) -> None:
    assert "headway-commands-in-servers-alone" in run(walled, RUNNER, container, method)


@pytest.mark.parametrize("container", ["server", "", None])
def test_a_runner_runs_commands_in_the_model_server(walled: ControlPlane, container: str | None) -> None:
    assert 'pods \\"none\\" not found' in run(walled, RUNNER, container)


def test_who_may_change_the_namespace_itself_may_look_into_the_proxy(walled: ControlPlane) -> None:
    assert 'pods \\"none\\" not found' in run(walled, OPERATOR, "istio-proxy")


def test_a_deployer_runs_nothing(walled: ControlPlane) -> None:
    assert "cannot create resource" in run(walled, DEPLOYER, "server")
