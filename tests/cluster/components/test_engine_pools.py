"""Pools of engines as the real API server takes them: the kinds that a second renderer will write, of the version that Istio 1.31 is built with."""

from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ResourceNotFoundError

from tests.cluster.conftest import ControlPlane, eventually
from tests.cluster.definitions import define

CRD = "apiextensions.k8s.io/v1"
GROUP = "inference.networking.k8s.io"


def pool(name: str, **spec: Any) -> dict[str, Any]:
    """Engines of one release, and the Service of their endpoint picker."""
    whole = {
        "selector": {"matchLabels": {"app": "chat", "release": name}},
        "targetPorts": [{"number": 8000}],
        "endpointPickerRef": {"name": "chat-picker", "port": {"number": 9002}},
        **spec,
    }
    return {"apiVersion": f"{GROUP}/v1", "kind": "InferencePool", "metadata": {"name": name, "namespace": "default"}, "spec": whole}


def route(**weights: int) -> dict[str, Any]:
    backends = [{"group": GROUP, "kind": "InferencePool", "name": name, "weight": weight} for name, weight in weights.items()]
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "chat", "namespace": "default"},
        "spec": {"parentRefs": [{"name": "tenants"}], "hostnames": ["chat.example.com"], "rules": [{"backendRefs": backends}]},
    }


@pytest.fixture(scope="module")
def pools(control_plane: ControlPlane) -> ControlPlane:
    define(control_plane, "gateway-api", "HTTPRoute")
    define(control_plane, "inference-extension", "InferencePool")
    eventually(lambda: refusal(control_plane, pool("tried")) == "", within=60)
    return control_plane


def refusal(control_plane: ControlPlane, body: dict[str, Any]) -> str:
    """What the API server says against it; empty if it would take it."""
    try:
        control_plane.resource(body).create(body=body, namespace="default", query_params=[("dryRun", "All"), ("fieldValidation", "Strict")])
    except ResourceNotFoundError:  # the API server has not published the kind yet
        control_plane.client.resources.invalidate_cache()
        return "not published"
    except ApiException as error:
        return str(error.body)
    return ""


def test_a_pool_names_its_engines_and_its_picker(pools: ControlPlane) -> None:
    pools.create(pool("r1"))
    kept = pools.get("InferencePool", "r1", api_version=f"{GROUP}/v1")["spec"]
    assert kept["endpointPickerRef"]["failureMode"] == "FailClose", "what Istio does when nobody picks"
    assert (kept["endpointPickerRef"]["kind"], kept["appProtocol"]) == ("Service", "http")


def test_two_releases_of_a_pool_share_a_route_by_weight(pools: ControlPlane) -> None:
    pools.create(route(r1=95, r2=5))
    (rule,) = pools.get("HTTPRoute", "chat", api_version="gateway.networking.k8s.io/v1")["spec"]["rules"]
    assert [(each["name"], each["weight"]) for each in rule["backendRefs"]] == [("r1", 95), ("r2", 5)]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"endpointPickerRef": {"name": "chat-picker"}}, "port is required when kind is 'Service'"),
        ({"targetPorts": []}, "spec.targetPorts"),
        ({"selector": {}}, "spec.selector.matchLabels: Required value"),
        ({"weight": 5}, 'unknown field \\"spec.weight\\"'),
    ],
)
def test_a_pool_that_nobody_could_pick_from_is_refused(pools: ControlPlane, spec: dict[str, Any], why: str) -> None:
    assert why in refusal(pools, pool("r3", **spec))
