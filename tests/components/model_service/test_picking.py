"""A language model whose prompts are picked for: what the gateway knows of it, and that its routes and releases are those of any service."""

from dataclasses import replace
from typing import Any

from components.model_service.manifests import ServicePlan
from components.model_service.release import Release
from components.platform import endpoint_picker, gateway_filters
from components.tenant.manifests import TenantPlan
from headway.contract.units import Share
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficSplit
from headway.wire import ENDPOINT_PICKER_NAMESPACE, RELAY_PORT, ROUTING
from tests.components.contracts import CHAT, POOLS, SURROUNDINGS, bodies, changed, pool_of, tenant

MODEL, PLAIN = changed(CHAT, routing="endpoint_picker"), changed(CHAT)
IMAGE = f"registry.example.com/headway:1@sha256:{'0' * 64}"
PLAN = ServicePlan.of("assist", MODEL, pool_of(MODEL), SURROUNDINGS)


def with_canary(plan: ServicePlan) -> ServicePlan:
    other = Release(model=changed(CHAT, routing="endpoint_picker", runtime__data_type="float16"))
    arms = (
        TrafficArm(role=ArmRole.STABLE, release=plan.traffic.primary.release, weight=Share.parse("95%")),
        TrafficArm(role=ArmRole.CANARY, release=other.id, weight=Share.parse("5%")),
    )
    return replace(plan, releases={**plan.releases, other.id: other}, traffic=TrafficSplit(arms=arms))


def told(plan: ServicePlan) -> list[dict[str, Any]]:
    return [each for each in bodies(plan, "EnvoyFilter") if each["metadata"]["name"] == "pick.assist.chat"]


def test_the_gateway_asks_for_each_host_of_the_service() -> None:
    (found,) = told(PLAN)
    patches = found["spec"]["configPatches"]
    assert [each["match"]["routeConfiguration"]["vhost"]["domainName"] for each in patches] == PLAN.public_hosts
    assert {name for each in patches for name in each["patch"]["value"]["typed_per_filter_config"]} == set(gateway_filters.picks())
    assert found["metadata"]["namespace"] == SURROUNDINGS.gateway_namespace


def test_a_release_of_such_a_service_changes_no_word_of_it() -> None:
    assert told(with_canary(PLAN)) == told(PLAN)


def test_whether_it_is_picked_for_changes_neither_route_nor_release() -> None:
    plain = ServicePlan.of("assist", PLAIN, pool_of(PLAIN), SURROUNDINGS)
    assert Release(model=MODEL).id == Release(model=PLAIN).id
    for kind in ("VirtualService", "DestinationRule", "Deployment", "ScaledObject"):
        assert bodies(PLAN, kind) == bodies(plain, kind), kind
    assert not told(plain)


def test_the_services_of_versions_are_marked_and_no_other() -> None:
    marked = {each["metadata"]["name"]: each["metadata"]["labels"].get(ROUTING) for each in bodies(with_canary(PLAN), "Service")}
    assert marked.pop("chat") is None
    assert list(marked.values()) == ["endpoint_picker"] * 2


def test_the_filters_that_pick_are_the_last_and_run_for_nobody_by_themselves() -> None:
    chain = gateway_filters.chain()
    assert [each["name"] for each in chain[-3:]] == [gateway_filters.PICKED, gateway_filters.PICK, gateway_filters.SESSION]
    assert all(each["disabled"] for each in chain[-3:])


def test_the_picker_may_list_endpoints_and_nothing_else() -> None:
    (role,) = (each.body for each in endpoint_picker.manifests(IMAGE) if each.kind == "ClusterRole")
    assert [(each["apiGroups"], each["resources"], each["verbs"]) for each in role["rules"]] == [
        (["discovery.k8s.io"], ["endpointslices"], ["list"])
    ]


def test_there_is_one_picker_for_two_would_each_know_half() -> None:
    (running,) = (each.body for each in endpoint_picker.manifests(IMAGE) if each.kind == "Deployment")
    assert running["spec"]["replicas"] == 1


def test_the_picker_reads_pages_of_tenants_that_are_picked_for_alone() -> None:
    def doors(model: Any) -> list[Any]:
        plan = TenantPlan(tenant=tenant("assist"), models=[model], pools=POOLS, surroundings=SURROUNDINGS)
        (inward,) = (each.body for each in plan.manifests() if each.role == "ingress")
        return [each for each in inward["spec"]["ingress"] if ENDPOINT_PICKER_NAMESPACE in str(each["from"])]

    assert [each["ports"] for each in doors(MODEL)] == [[{"port": RELAY_PORT, "protocol": "TCP"}]]
    assert not doors(PLAIN)
