"""The loops that ask what serves and watch its users, before a real API server: their objects are taken, and their identity may do no more."""

from typing import Any

import pytest
from kubernetes import client

from components.platform import evaluation
from components.tenant import evaluating
from headway.wire import EVALUATION_NAMESPACE
from tests.cluster.conftest import ControlPlane, api_client
from tests.components.contracts import MODELS
from tests.drift_world import traffic
from tests.evaluation_world import evaluation as asked

pytestmark = pytest.mark.timeout(1800)

ASKED, WATCHED, OTHER = "evaluated-tenant", "watched-tenant", "other-tenant"
LOOKED_AT = evaluation.LookedAt(
    asked={f"{ASKED}/embeddings": asked()}, watched={f"{WATCHED}/defects": traffic()}, artifacts="a", ledger="l", telemetry="t"
)
KNOWN = evaluation.settings("prod", "us-east-1", LOOKED_AT)
DEFECTS = next(each for each in MODELS.values() if each.drift and not each.evaluation)
LOOP = evaluation.manifests(f"registry.test/headway@sha256:{'a' * 64}", "us-east-1", KNOWN)


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    """Three tenants: one has a service to ask, one a service to watch."""
    spaces: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (EVALUATION_NAMESPACE, ASKED, WATCHED, OTHER)
    ]
    control_plane.create(*spaces)
    control_plane.create(
        *(body for _, body in evaluating.rights(ASKED, [next(each for each in MODELS.values() if each.evaluation and not each.drift)]))
    )
    control_plane.create(*(body for _, body in evaluating.rights(WATCHED, [DEFECTS])))
    return control_plane


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
        ("get", "virtualservices/defects", "", ASKED, False),
        ("get", "virtualservices/defects", "", WATCHED, True),
        ("get", "virtualservices/other", "", WATCHED, False),
        ("list", "virtualservices", "", WATCHED, False),
        ("patch", "virtualservices/defects", "", WATCHED, False),
        ("list", "pods", "", WATCHED, False),
        ("create", "pods", "exec", WATCHED, False),
    ],
)
def test_its_identity_may_find_and_ask_replicas_of_that_tenant_and_no_more(
    cluster: ControlPlane, verb: str, resource: str, subresource: str, namespace: str, allowed: bool
) -> None:
    groups = {"virtualservices": "networking.istio.io", "deployments": "apps"}
    kind, _, name = resource.partition("/")
    about = {"group": groups.get(kind, ""), "resource": kind, "subresource": subresource, "name": name}
    attributes = {"verb": verb, "namespace": namespace, **about}
    body = {"spec": {"user": f"system:serviceaccount:{EVALUATION_NAMESPACE}:{evaluation.NAME}", "resourceAttributes": attributes}}
    answer: Any = client.AuthorizationV1Api(api_client(cluster.kubeconfig.read_text())).create_subject_access_review(body)
    assert bool(answer.status.allowed) is allowed
