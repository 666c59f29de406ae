"""The loop that asks what serves, before a real API server: its objects are taken, and its identity may ask and nothing else."""

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from components.platform import evaluation
from components.tenant import evaluating
from headway.wire import EVALUATION_NAMESPACE
from tests.cluster.conftest import ControlPlane, api_client
from tests.components.contracts import MODELS
from tests.evaluation_world import evaluation as asked

pytestmark = pytest.mark.timeout(1800)

ASKED, OTHER = "evaluated-tenant", "other-tenant"
KNOWN = evaluation.settings("prod", "us-east-1", {f"{ASKED}/defects": asked()}, artifacts="a", ledger="l")
LOOP = evaluation.manifests(f"registry.test/headway@sha256:{'a' * 64}", "us-east-1", KNOWN)


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Two tenants, one of which has a service to ask."""
    spaces: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (EVALUATION_NAMESPACE, ASKED, OTHER)
    ]
    control_plane.create(*spaces)
    control_plane.create(*(body for _, body in evaluating.rights(ASKED, [next(each for each in MODELS.values() if each.evaluation)])))
    yield control_plane
    for body in spaces:
        control_plane.resource(body).delete(name=body["metadata"]["name"])


def test_its_objects_pass_strict_decoding(cluster: ControlPlane) -> None:
    for manifest in LOOP:
        if manifest.kind != "PodMonitor":  # of an add-on that is not here
            query = [("fieldValidation", "Strict"), ("dryRun", "All")]
            cluster.resource(dict(manifest.body)).create(body=dict(manifest.body), namespace=EVALUATION_NAMESPACE, query_params=query)


@pytest.mark.parametrize(
    ("verb", "resource", "subresource", "namespace", "allowed"),
    [
        ("list", "pods", "", ASKED, True),
        ("get", "pods", "exec", ASKED, True),
        ("create", "pods", "exec", ASKED, True),
        ("create", "pods", "exec", OTHER, False),
        ("list", "pods", "", OTHER, False),
        ("list", "pods", "", "", False),
        ("create", "pods", "attach", ASKED, False),
        ("get", "secrets", "", ASKED, False),
        ("get", "pods", "log", ASKED, False),
        ("patch", "virtualservices", "", ASKED, False),
        ("patch", "deployments", "", ASKED, False),
    ],
)
def test_its_identity_may_find_and_ask_replicas_of_that_tenant_and_no_more(
    cluster: ControlPlane, verb: str, resource: str, subresource: str, namespace: str, allowed: bool
) -> None:
    groups = {"virtualservices": "networking.istio.io", "deployments": "apps"}
    attributes = {"verb": verb, "group": groups.get(resource, ""), "resource": resource, "subresource": subresource, "namespace": namespace}
    body = {"spec": {"user": f"system:serviceaccount:{EVALUATION_NAMESPACE}:{evaluation.NAME}", "resourceAttributes": attributes}}
    answer: Any = client.AuthorizationV1Api(api_client(cluster.kubeconfig.read_text())).create_subject_access_review(body)
    assert bool(answer.status.allowed) is allowed
