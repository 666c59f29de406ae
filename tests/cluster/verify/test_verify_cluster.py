"""Checks of a verification on a real API server and scheduler: what is shown, what is not, and planted faults.

What is simulated: nodes, and the kubelet, so no probe runs; what a check then may say is only what it saw.
"""

import contextlib
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from components.nodes import gpu_node
from components.platform import capacity
from components.tenant import isolation
from headway.environment.kubernetes import NOT_FOUND, KubernetesApi
from headway.environment.port import Facility
from headway.verify import gpus, mesh, packets
from headway.verify.outcome import VerifyState
from headway.verify.site import Site
from headway.wire import TENANT
from sandbox.cluster.nodes import node_manifest
from tests.cluster.conftest import ControlPlane, eventually
from tests.components.contracts import SURROUNDINGS
from tests.unit.verify.test_verify_gpus import L4, SLICED

NAME, SLICE = "headway-verify-test", "nvidia.com/mig-1g.10gb"


def gpu_node_of(pool: Any, resource: str, count: str, **labels: str) -> dict[str, Any]:
    marks = {**gpu_node.labels(pool), **{key.replace("__", "/"): value for key, value in labels.items()}}
    taints = [taint.model_dump() for taint in gpu_node.taints(pool)]
    offered = {"cpu": "48", "memory": "192Gi", "pods": "110", resource: count}
    return node_manifest(f"n-{pool.name}", labels=marks, taints=taints, capacity=offered)


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """Two tenants as their layers render them, and a node of each pool."""
    control_plane.create(*(dict(manifest.body) for manifest in capacity.manifests([])))
    control_plane.create(gpu_node_of(L4, "nvidia.com/gpu", "1"), gpu_node_of(SLICED, SLICE, "56"))
    for tenant in ("vision", "assist"):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tenant, "labels": {TENANT: tenant}}}
        control_plane.create(body, *(policy for _, policy in isolation.network_policies(tenant, SURROUNDINGS)))
    return control_plane


@pytest.fixture
def site(plane: ControlPlane) -> Iterator[Site]:
    api = KubernetesApi(str(plane.kubeconfig))
    lacks = {facility: f"there are no {facility.value} here" for facility in Facility}
    environment: Any = SimpleNamespace(kubernetes=api, cannot_show=lacks.get, nodes_can_be_added=False, simulated=lambda _: True)
    made = Site(
        environment=environment,
        namespace=NAME,
        began="2026-11-23T15:00:00Z",
        pools=(L4, SLICED),
        clock=time.monotonic,
        sleep=time.sleep,
        say=lambda _: None,
    )
    yield made
    assert made.close() == ""
    eventually(lambda: api.answer("GET", f"/api/v1/namespaces/{NAME}").status == NOT_FOUND)


def test_a_pod_of_each_pool_is_given_a_place_and_no_more_is_claimed(site: Site) -> None:
    seen = gpus.look(site)
    assert (seen.state, seen.problems) == (VerifyState.NOT_SHOWN, ())
    assert seen.evidence == (
        "Pool l4: a pod that asks for nvidia.com/gpu was given a place on n-l4.",
        f"Pool h100-mig: a pod that asks for {SLICE} was given a place on n-h100-mig.",
    )


def test_a_divided_node_with_a_wrong_layout_is_found(site: Site, plane: ControlPlane) -> None:
    assert gpus.look_at_mig(site).state is VerifyState.NOT_SHOWN
    nodes = plane.client.resources.get(api_version="v1", kind="Node")
    wrong = {"metadata": {"labels": {"nvidia.com/mig.config": "all-disabled"}}}
    nodes.patch(name="n-h100-mig", body=wrong, content_type="application/merge-patch+json")
    seen = gpus.look_at_mig(site)
    right = {"metadata": {"labels": {"nvidia.com/mig.config": gpu_node.labels(SLICED)["nvidia.com/mig.config"]}}}
    nodes.patch(name="n-h100-mig", body=right, content_type="application/merge-patch+json")
    assert seen.state is VerifyState.FAILED
    assert "asks for MIG layout all-disabled" in seen.problems[0].fact


def test_a_policy_that_was_removed_is_found(site: Site, plane: ControlPlane) -> None:
    assert (packets.look(site).state, packets.look(site).problems) == (VerifyState.NOT_SHOWN, ())
    policies = plane.client.resources.get(api_version="networking.k8s.io/v1", kind="NetworkPolicy")
    for name in ("default-deny", "allow-ingress"):
        policies.delete(name=name, namespace="vision")
    try:
        seen = packets.look(site)
    finally:
        with contextlib.suppress(Exception):
            plane.create(*(policy for role, policy in isolation.network_policies("vision", SURROUNDINGS) if role in ("deny", "ingress")))
    assert seen.state is VerifyState.FAILED
    assert {problem.subject for problem in seen.problems} == {"tenant vision"}


def test_a_mesh_that_demands_nothing_is_found(site: Site) -> None:
    seen = mesh.look(site)
    assert seen.state is VerifyState.FAILED
    assert "No PeerAuthentication of istio-system demands mutual TLS" in "".join(problem.fact for problem in seen.problems)
