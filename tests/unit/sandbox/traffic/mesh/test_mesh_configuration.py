"""What the mesh's objects mean for Envoy, and what the stand-in refuses to guess. No Envoy is started."""

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from components.platform import mesh
from components.tenant.manifests import TenantPlan
from sandbox.traffic.mesh import envoy_configuration, listeners, patches, routes
from sandbox.traffic.mesh.snapshot import MeshSnapshot, cluster_name
from tests.components.contracts import MODELS, POOLS, SURROUNDINGS, service, tenant
from tests.mesh_samples import KEYS, PORTS, cluster, compiled, gateway_routes, served_pod, two_arms


def test_nothing_that_the_program_renders_is_refused() -> None:
    refused = envoy_configuration.judge(MeshSnapshot.of(cluster(two_arms(10, copies=50))))
    assert {uid: [str(each) for each in found] for uid, found in refused.items()} == {}


def test_weights_become_weights_in_order_with_the_canary_last() -> None:
    http = next(each for each in gateway_routes(compiled(cluster(two_arms(10)))) if each["name"] == "weights")
    weighted = http["route"]["weighted_clusters"]["clusters"]
    assert [each["weight"] for each in weighted] == [90, 10]
    assert all(each["name"].startswith("outbound|8000||defects-") for each in weighted)


def test_grpc_goes_to_the_grpc_port_by_its_content_type() -> None:
    found = gateway_routes(compiled(cluster(two_arms(10))))
    assert [each["name"] for each in found] == ["weights-grpc", "weights"]
    (header,) = found[0]["match"]["headers"]
    assert header == {"name": "content-type", "string_match": {"prefix": "application/grpc"}}
    assert {each["name"].split("|")[1] for each in found[0]["route"]["weighted_clusters"]["clusters"]} == {"8001"}


def test_a_release_asked_for_by_name_is_a_route_of_the_mesh_only() -> None:
    found = compiled(cluster(two_arms(0)))
    assert not any(each["name"].startswith("by-release") for each in gateway_routes(found))
    (host,) = [each for each in found.routes["mesh-8000"]["virtual_hosts"] if each["name"] == "defects.vision.svc.cluster.local"]
    assert sum(each["name"].startswith("by-release") for each in host["routes"]) == 4


def test_a_mirror_copies_its_share_to_the_canary() -> None:
    http = next(each for each in gateway_routes(compiled(cluster(two_arms(0, copies=25)))) if each["name"] == "weights")
    (mirror,) = http["route"]["request_mirror_policies"]
    assert mirror["runtime_fraction"]["default_value"] == {"numerator": 250_000, "denominator": "MILLION"}
    assert http["route"]["weighted_clusters"]["clusters"][-1]["name"] == mirror["cluster"]


def test_a_destination_without_a_port_gets_the_listeners_or_its_only_one() -> None:
    item = {
        "kind": "VirtualService",
        "metadata": {"name": "v", "namespace": "n"},
        "spec": {"hosts": ["h"], "http": [{"route": [{"destination": {"host": "s.n.svc.cluster.local"}}]}]},
    }
    for ports, expected in (([8000, 8001], 80), ([9000], 9000)):
        backend = {"kind": "Service", "metadata": {"name": "s", "namespace": "n"}, "spec": {"ports": [{"port": port} for port in ports]}}
        (route,) = routes.routes(item, "n/g", 80, MeshSnapshot.of([backend]))
        assert route["route"]["cluster"] == cluster_name("s.n.svc.cluster.local", expected)


def endpoint_slice(name: str, *endpoints: tuple[str, bool]) -> dict[str, Any]:
    return {
        "kind": "EndpointSlice",
        "metadata": {"name": f"{name}-x", "namespace": "vision", "uid": name, "labels": {"kubernetes.io/service-name": name}},
        "ports": [{"name": "http", "port": 8000}, {"name": "grpc", "port": 8001}],
        "endpoints": [{"addresses": [ip], "conditions": {"ready": ready}} for ip, ready in endpoints],
    }


def test_endpoints_are_the_sidecars_of_ready_replicas_that_are_processes() -> None:
    made = two_arms(10)
    name = f"defects-{made.traffic.ordered[0].release}"
    slices = endpoint_slice(name, ("10.130.0.1", True), ("10.130.0.2", False), ("10.244.0.9", True))
    found = compiled([*cluster(made), slices]).endpoints[cluster_name(f"{name}.vision.svc.cluster.local", 8000)]
    (group,) = found["endpoints"]
    assert group["lb_endpoints"] == [{"endpoint": {"address": {"socket_address": {"address": "127.130.0.1", "port_value": 18000}}}}]


def test_a_replicas_own_proxy_limits_its_requests_and_its_bodies() -> None:
    made = two_arms(10)
    found = compiled([*cluster(made), served_pod(made)])
    name = f"inbound|8000|vision/{served_pod(made)['metadata']['name']}"
    (threshold,) = found.clusters[name]["circuit_breakers"]["thresholds"]
    assert threshold["max_requests"] == 48, "overload_at of the contract"
    listener = found.listeners[f"inbound-vision-{served_pod(made)['metadata']['name']}-8000"]
    manager = listener["filter_chains"][0]["filters"][-1]["typed_config"]
    buffers = [each["typed_config"]["max_request_bytes"] for each in manager["http_filters"] if each["name"] == "envoy.filters.http.buffer"]
    assert buffers == [8 * 2**20]
    assert manager["local_reply_config"]["mappers"][0]["status_code"] == 429
    assert manager["http_filters"][-1]["name"] == patches.ROUTER


COLLECTOR = "otel-collector.monitoring.svc.cluster.local"


def logs_of_samples(*egress: dict[str, Any] | None) -> int:
    """Of a replica's proxy whose Sidecar has this egress, or the program's own."""
    made = two_arms(10)
    objects = [*cluster(made), served_pod(made)]
    for each in objects:
        if each["kind"] == "Sidecar" and egress:
            each["spec"]["egress"] = [found for found in egress if found]
    found = envoy_configuration.compile_(MeshSnapshot.of(objects), replace(PORTS, samples="/samples"), "/xds", KEYS)
    listener = found.listeners[f"inbound-vision-{served_pod(made)['metadata']['name']}-8000"]
    logs = listener["filter_chains"][0]["filters"][-1]["typed_config"]["access_log"]
    return sum(each["typed_config"]["path"].startswith("/samples") for each in logs)


def test_a_replica_whose_sidecar_leaves_the_collector_out_keeps_no_sample() -> None:
    assert logs_of_samples() == 1
    assert logs_of_samples({"hosts": ["./*", "istio-system/*"]}) == 0


@pytest.mark.parametrize(
    ("hosts", "there"),
    [
        ([f"monitoring/{COLLECTOR}"], True),
        (["monitoring/*"], True),
        (["*/*"], True),
        ([f"*/{COLLECTOR}"], True),
        (["monitoring/*.monitoring.svc.cluster.local"], True),
        (["./*"], False),
        ([f"./{COLLECTOR}"], False),
        ([f"istio-system/{COLLECTOR}"], False),
        (["monitoring/tempo.monitoring.svc.cluster.local"], False),
        (["~/*"], False),
        ([], False),
    ],
)
def test_a_proxy_has_the_services_that_its_sidecar_names(hosts: list[str], there: bool) -> None:
    assert listeners.imports({"egress": [{"hosts": hosts}]}, "vision", "monitoring", COLLECTOR) is there


def test_a_proxy_without_egress_of_its_own_has_every_service() -> None:
    assert listeners.imports({}, "vision", "monitoring", COLLECTOR)


FALLBACK_HOST = "defects-slice.vision.inference.example.com"


def aged(objects: Iterable[dict[str, Any]], *, youngest_first: bool) -> list[dict[str, Any]]:
    """The same objects, created one after the other in this order or the other."""
    found = [copy.deepcopy(each) for each in objects]
    for number, each in enumerate(found):
        each["metadata"]["creationTimestamp"] = f"2026-11-21T12:00:{59 - number if youngest_first else number:02}Z"
    return found


def at_the_gateway(*names: str) -> list[dict[str, Any]]:
    """What platform, tenant and these models put before the gateway's proxies."""
    plan = TenantPlan(tenant=tenant("vision"), models=[MODELS[each] for each in names], pools=POOLS, surroundings=SURROUNDINGS)
    manifests = [
        *mesh.manifests(hosts=SURROUNDINGS.hosts, certificate=None, region="eu-west-1"),
        *plan.manifests(),
        *(each for name in names for each in service(name).manifests()),
    ]
    bodies = [each.body for each in manifests]
    wanted = ("AuthorizationPolicy", "EnvoyFilter", "Gateway", "RequestAuthentication", "VirtualService")
    return [
        {**each, "metadata": {**each["metadata"], "uid": f"uid-{number}"}} for number, each in enumerate(bodies) if each["kind"] in wanted
    ]


def met_at_the_gateway(objects: Iterable[dict[str, Any]]) -> list[str]:
    """Names of filters in the order in which a request meets them."""
    chain = compiled(objects).listeners["gateway-80"]["filter_chains"][0]["filters"]
    manager = chain[-1]["typed_config"]
    assert manager["strip_any_host_port"], "policies by host do not look at ports"
    return [each["name"] for each in (*chain[:-1], *manager["http_filters"])]


@pytest.mark.parametrize("youngest_first", [False, True])
def test_the_gateways_filters_have_one_order_whichever_object_is_older(youngest_first: bool) -> None:
    assert met_at_the_gateway(aged(at_the_gateway("defects", "defects-slice"), youngest_first=youngest_first)) == [
        "envoy.filters.network.connection_limit",
        "headway.claimed_headers",
        "envoy.filters.http.jwt_authn",
        "envoy.filters.http.rbac.deny",
        "envoy.filters.http.rbac.allow",
        "headway.tenant",
        "headway.rate_limit",
        "headway.global_rate_limit",
        "headway.tokens",
        "headway.activate",
        "headway.experiment",
        "headway.overload",
        "headway.picked",
        "headway.pick",
        "headway.session",
        patches.ROUTER,
    ]


def test_a_models_fallback_costs_the_gateway_no_filter() -> None:
    one, more = at_the_gateway("defects"), at_the_gateway("defects", "defects-slice", "plain")
    assert met_at_the_gateway(one) == met_at_the_gateway(more)


def test_each_host_brings_what_the_gateways_filters_must_know_of_it() -> None:
    hosts = {each["name"]: each for each in compiled(at_the_gateway("defects", "defects-slice")).routes["gateway-80"]["virtual_hosts"]}
    told = {name: set(host["typed_per_filter_config"]) for name, host in hosts.items()}
    assert told == {"defects.vision.inference.example.com": {"headway.tenant"}, FALLBACK_HOST: {"headway.tenant", "headway.overload"}}
    ladder = hosts[FALLBACK_HOST]["typed_per_filter_config"]["headway.overload"]["filter_context"]
    assert ladder == {"service": "vision/defects-slice", "model": "defects-slice", "moved": {"normal": True}, "hold": 2}


def test_a_port_that_only_redirects_has_no_filter_that_refuses_requests() -> None:
    rules = {each.role: each.body for each in mesh.manifests(hosts=["m.test"], certificate="tls", region="r")}
    assert {patch["match"]["listener"]["portNumber"] for patch in rules["filters"]["spec"]["configPatches"]} == {443}


def test_a_merge_reaches_a_filter_that_a_later_object_puts_there() -> None:
    at = {"context": "GATEWAY", "listener": {"filterChain": {"filter": {"name": patches.MANAGER, "subFilter": {"name": "f"}}}}}
    merge = {"applyTo": "HTTP_FILTER", "match": at, "patch": {"operation": "MERGE", "value": {"typed_config": {"list": [2]}}}}
    first = {"operation": "INSERT_FIRST", "value": {"name": "f", "typed_config": {"list": [1]}}}
    insert = {"applyTo": "HTTP_FILTER", "match": {"context": "GATEWAY"}, "patch": first}
    found = patches.patched({"http_filters": []}, patches.GATEWAY, 80, [{"spec": {"configPatches": [each]}} for each in (merge, insert)])
    assert found["http_filters"] == [{"name": "f", "typed_config": {"list": [1, 2]}}]


@pytest.mark.parametrize(
    ("name", "number", "change", "path"),
    [
        ("overload.vision.defects-slice", 0, {"match": {"context": "SIDECAR_OUTBOUND"}}, "match.context"),
        ("overload.vision.defects-slice", 0, {"match": {"context": "GATEWAY"}}, "match.routeConfiguration.vhost.domainName"),
        (
            "overload.vision.defects-slice",
            0,
            {"match": {"context": "GATEWAY", "routeConfiguration": {"vhost": {"name": "a:80"}}}},
            "match.routeConfiguration.vhost.name",
        ),
        ("overload.vision.defects-slice", 0, {"patch": {"operation": "REMOVE"}}, "patch.operation"),
        ("overload.vision.defects-slice", 0, {"patch": {"operation": "MERGE", "value": {"routes": []}}}, "patch.value.routes"),
        ("tenant-vision", 0, {"patch": {"operation": "MERGE", "value": {"disabled": True}}}, "patch.value.disabled"),
        ("tenant-vision", 0, {"match": {"context": "GATEWAY"}}, "match.listener.filterChain.filter.subFilter"),
        ("defects", 0, {"match": {"context": "SIDECAR_INBOUND", "listener": {"portNumber": 8000}}}, "match.listener.portNumber"),
    ],
)
def test_a_patch_that_istiod_would_make_something_else_of_is_refused(name: str, number: int, change: dict[str, Any], path: str) -> None:
    objects = at_the_gateway("defects", "defects-slice")
    (item,) = [each for each in objects if (each["kind"], each["metadata"]["name"]) == ("EnvoyFilter", name)]
    item = copy.deepcopy(item)
    item["spec"]["configPatches"][number] |= change
    refused = envoy_configuration.judge(MeshSnapshot.of([item]))[item["metadata"]["uid"]]
    assert f"spec.configPatches[{number}].{path}" in [each.path for each in refused]


def test_outliers_are_ejected_as_the_destination_rule_says() -> None:
    made = two_arms(10)
    name = cluster_name(f"defects-{made.traffic.ordered[0].release}.vision.svc.cluster.local", 8000)
    ejection = compiled(cluster(made)).clusters[name]["outlier_detection"]
    assert (ejection["consecutive_5xx"], ejection["interval"], ejection["max_ejection_percent"]) == (5, "10s", 50)


def one_route(**said: Any) -> dict[str, Any]:
    """What a VirtualService's only rule becomes for Envoy; the rule says this beside where it leads."""
    rule = {"route": [{"destination": {"host": "s.n.svc.cluster.local"}}], **said}
    item = {"kind": "VirtualService", "metadata": {"name": "v", "namespace": "n"}, "spec": {"hosts": ["h"], "http": [rule]}}
    assert not routes.check(item).refusals
    backend = {"kind": "Service", "metadata": {"name": "s", "namespace": "n"}, "spec": {"ports": [{"port": 8000}]}}
    (found,) = routes.routes(item, "n/g", 80, MeshSnapshot.of([backend]))
    return found["route"]


def test_a_route_that_says_nothing_of_retries_has_the_meshs_own() -> None:
    policy = one_route()["retry_policy"]
    assert (policy["num_retries"], "unavailable" in policy["retry_on"].split(",")) == (2, True)
    assert "retry_policy" not in one_route(retries={"attempts": 0})


def test_status_codes_among_the_reasons_to_retry_are_told_to_envoy_apart() -> None:
    policy = one_route(retries={"attempts": 1, "retryOn": "refused-stream, 502,503"})["retry_policy"]
    assert (policy["retry_on"], policy["retriable_status_codes"]) == ("refused-stream,retriable-status-codes", [502, 503])


def test_only_what_no_model_has_seen_is_asked_again() -> None:
    for route in gateway_routes(compiled(cluster(two_arms(10)))):
        reasons = set(route["route"]["retry_policy"]["retry_on"].split(","))
        assert reasons == {"connect-failure", "refused-stream", "reset-before-request", "retriable-headers"}
        (told,) = [each["header"] for each in route["request_headers_to_add"] if each["header"]["key"] == "x-envoy-retriable-header-names"]
        assert told["value"] == "x-model-unreached"


def test_what_is_asked_by_the_name_of_a_release_is_asked_once() -> None:
    (host,) = [
        each
        for each in compiled(cluster(two_arms(0))).routes["mesh-8000"]["virtual_hosts"]
        if each["name"] == "defects.vision.svc.cluster.local"
    ]
    assert not any("retry_policy" in each["route"] for each in host["routes"] if each["name"].startswith("by-release"))


def test_retries_are_a_share_of_what_an_arm_is_asked_at_the_moment() -> None:
    made = two_arms(10)
    name = cluster_name(f"defects-{made.traffic.ordered[0].release}.vision.svc.cluster.local", 8000)
    (threshold,) = compiled(cluster(made)).clusters[name]["circuit_breakers"]["thresholds"]
    assert threshold["retry_budget"] == {"budget_percent": {"value": 20.0}, "min_retry_concurrency": 10}


def test_a_clients_own_claim_header_is_dropped_before_the_token_is_read() -> None:
    filters = compiled(cluster(two_arms(0))).listeners["gateway-80"]["filter_chains"][0]["filters"][-1]["typed_config"]["http_filters"]
    names = [each["name"] for each in filters]
    assert (
        names.index("headway.claimed_headers") < names.index("envoy.filters.http.jwt_authn") < names.index("envoy.filters.http.rbac.deny")
    )
    removed = [each["remove"] for each in filters[0]["typed_config"]["mutations"]["request_mutations"]]
    assert removed == ["x-request-priority", "x-user-id"]
