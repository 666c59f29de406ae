"""Objects of the mesh as the program renders them, and what the sandbox compiles them to: samples that several tiers share."""

import copy
from collections.abc import Iterable
from typing import Any

from components.model_service.manifests import ServicePlan
from components.platform import mesh
from components.tenant.manifests import TenantPlan
from headway.contract.units import Share
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficMirror, TrafficSplit
from sandbox.traffic.mesh import envoy_configuration, listeners
from sandbox.traffic.mesh.snapshot import MeshSnapshot
from tests.components.contracts import DEFECTS, MODELS, POOLS, SURROUNDINGS, changed, service, tenant

PORTS = listeners.ListenerPorts(gateway={80: 1080}, mesh={8000: 1800, 8001: 1801}, log="/log")
KEYS = {"https://login.example.com/realms/factory": '{"keys": []}'}
OLD = service("defects").releases
STABLE, CANARY = next(iter(OLD)), "r0000000000"


def two_arms(percent: int, copies: int = 0) -> ServicePlan:
    from components.model_service.release import Release

    plain = {**DEFECTS, "batch": None}
    new = Release(model=changed(plain, artifact__version="2026.12.0"))
    old = Release(model=changed(plain))
    arms = (
        TrafficArm(release=old.id, weight=Share.percent(100 - percent)),
        TrafficArm(release=new.id, role=ArmRole.CANARY, weight=Share.percent(percent)),
    )
    traffic = TrafficSplit(arms=arms, mirror=TrafficMirror(release=new.id, share=Share.percent(copies)) if copies else None)
    found = service("defects")
    return ServicePlan(
        tenant="vision", model=old.model, releases={old.id: old, new.id: new}, traffic=traffic, pool=found.pool, surroundings=SURROUNDINGS
    )


def cluster(made: ServicePlan, *more: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects that traffic depends on, as the API server would keep them."""
    plan = TenantPlan(tenant=tenant("vision"), models=(MODELS["defects"],), pools=POOLS, surroundings=SURROUNDINGS)
    bodies = [
        *(each.body for each in mesh.manifests(hosts=SURROUNDINGS.hosts, certificate=None, region="us-west-2")),
        *(each.body for each in plan.manifests()),
        *(each.body for each in made.manifests()),
        *more,
    ]
    found = [copy.deepcopy(dict(body)) for body in bodies]
    for number, body in enumerate(found):
        body["metadata"]["uid"] = f"uid-{number}"
    return found


def compiled(objects: Iterable[dict[str, Any]], ports: listeners.ListenerPorts = PORTS) -> envoy_configuration.EnvoyConfiguration:
    return envoy_configuration.compile_(MeshSnapshot.of(objects), ports, "/xds", KEYS)


def gateway_routes(found: envoy_configuration.EnvoyConfiguration) -> list[dict[str, Any]]:
    (host,) = [each for each in found.routes["gateway-80"]["virtual_hosts"] if each["name"] == "defects.vision.inference.example.com"]
    return host["routes"]


def served_pod(made: ServicePlan) -> dict[str, Any]:
    name = f"defects-{made.traffic.ordered[0].release}"
    server = next(each.body for each in made.manifests() if each.body["kind"] == "Deployment" and each.body["metadata"]["name"] == name)
    template = server["spec"]["template"]
    owner = {"kind": "ReplicaSet", "name": f"{name}-5d9c"}
    metadata = {"name": f"{name}-5d9c-abcde", "namespace": "vision", "uid": "pod", "labels": template["metadata"]["labels"]}
    return {
        "kind": "Pod",
        "metadata": {**metadata, "ownerReferences": [owner]},
        "spec": template["spec"],
        "status": {"podIP": "10.130.0.1"},
    }
