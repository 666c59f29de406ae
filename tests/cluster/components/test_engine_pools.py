"""Pools of engines as the real API server takes them, by the definitions that Istio 1.31 is built with."""

from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ResourceNotFoundError

from components.model_service import engine_pool
from tests.cluster.conftest import ControlPlane, eventually
from tests.cluster.definitions import define
from tests.components.contracts import bodies
from tests.components.model_service.test_engine_pool import IMAGE, PLAN, canary

GROUP = engine_pool.GROUP


def pool(name: str, **spec: Any) -> dict[str, Any]:
    """Engines of one release, as the program writes them, and what is changed."""
    (made,) = bodies(PLAN, "InferencePool")
    return {**made, "metadata": {**made["metadata"], "name": name, "namespace": "default"}, "spec": {**made["spec"], **spec}}


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
    assert kept["endpointPickerRef"]["failureMode"] == "FailOpen", "without a picker engines answer by turns"
    assert (kept["endpointPickerRef"]["kind"], kept["appProtocol"]) == ("Service", "http")


def test_two_releases_of_a_pool_share_a_route_by_weight(pools: ControlPlane) -> None:
    (made,) = bodies(canary(), "HTTPRoute")
    pools.create({**made, "metadata": {**made["metadata"], "namespace": "default"}})
    (rule,) = pools.get("HTTPRoute", "chat", api_version="gateway.networking.k8s.io/v1")["spec"]["rules"]
    assert [each["weight"] for each in rule["backendRefs"]] == [95, 5]


def test_every_object_of_a_picker_is_taken_as_it_is_written(pools: ControlPlane) -> None:
    made = list(engine_pool.picker("default", PLAN.model, IMAGE))
    for each in made:
        if each.kind not in {"DestinationRule", "PodMonitor"}:
            assert refusal(pools, dict(each.body)) == "", each.role
    assert len(made) == 8


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
