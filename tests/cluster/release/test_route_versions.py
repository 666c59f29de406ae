"""Who read the live route and then stood still undoes nothing that others did to it meanwhile: a real API server refuses."""

from collections.abc import Callable
from typing import Any

import pytest

from headway.contract.units import Share
from headway.environment.kubernetes import KubernetesApi
from headway.environment.port import OutOfReachError
from headway.ledger.traffic_split import TrafficSplit
from headway.release.driver.live_service import ROUTES, LiveService, patch, route_of
from tests.cluster.conftest import ControlPlane
from tests.cluster.definitions import define
from tests.unit.release.driver.test_live_service import split
from tests.unit.release.town import rendered

SAFE = TrafficSplit.only("r1")
ROUTE: dict[str, Any] = {
    "apiVersion": "networking.istio.io/v1",
    "kind": "VirtualService",
    "metadata": {"name": "defects", "namespace": "default", "labels": {"platform.io/model": "defects"}},
    "spec": {"hosts": ["defects"], **rendered(SAFE)},
}
CHANGES: dict[str, Callable[[KubernetesApi, LiveService, dict[str, Any]], None]] = {
    "weights": lambda api, _, live: patch(api, live, SAFE),
    "word of the watch": lambda _, service, live: service.vouch(None, "r1", live["metadata"]["resourceVersion"]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_change_that_was_made_of_an_older_route_is_refused(
    control_plane: ControlPlane, change: Callable[[KubernetesApi, LiveService, dict[str, Any]], None]
) -> None:
    define(control_plane, "istio", "VirtualService")
    api = KubernetesApi(str(control_plane.kubeconfig))
    service, path = LiveService(api, "default", "defects"), f"{ROUTES.format('default')}/defects"
    api.request("PATCH", path, {"fieldManager": "stack", "force": "true"}, ROUTE, "application/apply-patch+yaml")
    live = api.get(path)
    assert live is not None
    change(api, service, live)
    another = {"metadata": {"labels": {"somebody": "else"}}}
    api.request("PATCH", path, {"fieldManager": "another"}, another, "application/merge-patch+json")
    with pytest.raises(OutOfReachError, match="HTTP 409"):
        change(api, service, live)
    newest = api.get(path)
    assert newest is not None and newest["metadata"]["labels"].get("somebody") == "else"
    api.request("DELETE", path)


def test_a_route_that_pulumi_has_only_created_stays_its_own(control_plane: ControlPlane) -> None:
    """pulumi-kubernetes creates in this name, and before it first applies takes over what is written in it and in no other
    (`Creation` and `fixCSAFieldManagers` in its provider/pkg/await/await.go, from 4.29)."""
    define(control_plane, "istio", "VirtualService")
    api = KubernetesApi(str(control_plane.kubeconfig))
    path = f"{ROUTES.format('default')}/defects"
    api.request(
        "POST",
        ROUTES.format("default"),
        {"fieldManager": "pulumi-kubernetes"},
        {**ROUTE, "spec": {"hosts": ["defects"], **rendered(split(50, 50))}},
    )
    live = api.get(path)
    assert live is not None
    patch(api, live, split(20, 80))
    newest = api.get(path)
    assert newest is not None and route_of(newest).weights == {"r1": Share.percent(20), "r2": Share.percent(80)}
    owners = {(each["manager"], each["operation"]) for each in newest["metadata"]["managedFields"]}
    assert owners == {("pulumi-kubernetes", "Update")}, "anybody else would refuse the update that ends the release"
    api.request("DELETE", path)
