"""A language model as a pool of engines: what stands beside its route in the mesh."""

from dataclasses import replace
from typing import Any

from components.labels import selector
from components.model_service import engine_pool
from components.model_service.manifests import ServicePlan
from components.model_service.release import Release
from headway.contract.units import Share
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficSplit
from headway.wire import RELEASE_HEADER
from tests.components.contracts import CHAT, SURROUNDINGS, bodies, changed, pool_of

MODEL = changed(CHAT, routing="endpoint_picker")
IMAGE = f"registry.example.com/headway:1@sha256:{'0' * 64}"
PLAN = ServicePlan.of("assist", MODEL, pool_of(MODEL), replace(SURROUNDINGS, loops_image=IMAGE))
STABLE = PLAN.traffic.primary.release


def canary() -> ServicePlan:
    other = Release(model=changed(CHAT, routing="endpoint_picker", runtime__data_type="float16"))
    arms = (
        TrafficArm(role=ArmRole.STABLE, release=STABLE, weight=Share.parse("95%")),
        TrafficArm(role=ArmRole.CANARY, release=other.id, weight=Share.parse("5%")),
    )
    return replace(PLAN, releases={**PLAN.releases, other.id: other}, traffic=TrafficSplit(arms=arms))


def one(plan: ServicePlan, kind: str, name: str) -> dict[str, Any]:
    (found,) = (each for each in bodies(plan, kind) if each["metadata"]["name"] == name)
    return found


def test_the_gateway_has_the_pools_way_and_callers_in_the_mesh_keep_theirs() -> None:
    (inside,), (outside,) = bodies(PLAN, "VirtualService"), bodies(PLAN, "HTTPRoute")
    assert (inside["spec"]["gateways"], inside["spec"]["hosts"]) == (["mesh"], ["chat.assist.svc.cluster.local"])
    assert outside["spec"]["hostnames"] == PLAN.public_hosts
    assert outside["spec"]["rules"][0]["timeouts"] == {"request": "120s0ms"}


def test_each_arm_is_a_pool_with_its_weight_and_says_its_release() -> None:
    plan = canary()
    pools = {each["metadata"]["name"]: each["spec"] for each in bodies(plan, "InferencePool")}
    backends = bodies(plan, "HTTPRoute")[0]["spec"]["rules"][0]["backendRefs"]
    assert [(each["name"] in pools, each["weight"]) for each in backends] == [(True, 95), (True, 5)]
    assert [each["filters"][0]["responseHeaderModifier"]["set"][0]["name"] for each in backends] == [RELEASE_HEADER] * 2
    assert {each["endpointPickerRef"]["name"] for each in pools.values()} == {"chat-endpoint-picker"}
    servers = {each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"] for each in bodies(plan, "Deployment")}
    for name, spec in pools.items():
        assert [server for server, labels in servers.items() if spec["selector"]["matchLabels"].items() <= labels.items()] == [name]


def test_nothing_takes_the_picker_for_a_replica() -> None:
    labels = one(PLAN, "Deployment", "chat-endpoint-picker")["spec"]["template"]["metadata"]["labels"]
    assert not selector(tenant="assist", model="chat").items() <= labels.items()
    assert one(PLAN, "Service", "chat-endpoint-picker")["spec"]["selector"] == labels


def test_a_picker_may_list_pods_and_pools_of_its_namespace_alone() -> None:
    (role,) = bodies(PLAN, "Role")
    assert role["metadata"]["namespace"] == "assist"
    assert [(each["apiGroups"], each["resources"], each["verbs"]) for each in role["rules"]] == [
        ([""], ["pods"], ["list"]),
        ([engine_pool.GROUP], ["inferencepools"], ["list"]),
    ]
    assert not bodies(PLAN, "ClusterRole")


def test_a_picker_ends_no_sooner_than_the_answers_that_pass_through_it() -> None:
    spec = one(PLAN, "Deployment", "chat-endpoint-picker")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    given = dict(zip(container["args"], container["args"][1:], strict=False))
    assert int(given["--grace"]) == MODEL.health.drain.whole_seconds
    assert spec["terminationGracePeriodSeconds"] > MODEL.health.drain.whole_seconds + 5
    assert container["image"] == IMAGE


def test_without_a_picker_section_nothing_of_a_pool_is_made() -> None:
    plain = ServicePlan.of("assist", changed(CHAT), pool_of(MODEL), replace(SURROUNDINGS, loops_image=IMAGE))
    assert not [each for each in plain.manifests() if each.kind in {"InferencePool", "HTTPRoute", "Role"}]
