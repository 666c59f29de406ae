"""What a tenant's quota becomes at the gateway, and the limiter that counts for all of its proxies."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.platform import gateway_filters, limiter, namespaces
from components.tenant import limits
from headway.contract.units import Rate
from headway.wire import GATEWAY_NAMESPACE
from tests.components.contracts import MODELS, SURROUNDINGS, tenant

SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600}


def bucket(name: str, **changes: Any) -> Mapping[str, Any]:
    """The tenant's bucket in each proxy."""
    surroundings = replace(SURROUNDINGS, **changes)
    first, *_ = limits.rate_limit(tenant(name), (), surroundings, "limits")["spec"]["configPatches"]
    assert first["match"]["listener"]["filterChain"]["filter"]["subFilter"]["name"] == gateway_filters.OWN_LIMIT
    (descriptor,) = first["patch"]["value"]["typed_config"]["descriptors"]
    assert descriptor["entries"] == [{"key": "tenant", "value": name}]
    return descriptor["token_bucket"]


def told(name: str, *models: str, **changes: Any) -> Mapping[str, Mapping[str, Any]]:
    """What the gateway's scripts know, by host."""
    body = limits.rate_limit(tenant(name), [MODELS[each] for each in models], replace(SURROUNDINGS, **changes), "limits")
    _, *patches = body["spec"]["configPatches"]
    return {
        patch["match"]["routeConfiguration"]["vhost"]["domainName"]: {
            each: config["filter_context"] for each, config in patch["patch"]["value"]["typed_per_filter_config"].items()
        }
        for patch in patches
    }


def configs() -> Mapping[str, Mapping[str, Any]]:
    return {each["name"]: each["typed_config"] for each in gateway_filters.chain()}


def objects() -> Mapping[str, Mapping[str, Any]]:
    return {manifest.role: manifest.body for manifest in limiter.manifests()}


@pytest.mark.parametrize(("replicas", "each"), [(1, 2000), (2, 2000), (3, 1334), (5000, 1)])
def test_one_proxy_lets_through_twice_its_share_and_at_most_the_whole_rate(replicas: int, each: int) -> None:
    assert limits.rate_of_one_proxy(tenant("vision"), replace(SURROUNDINGS, gateway_replicas=replicas)) == each


def test_a_tenants_bucket_holds_two_seconds_and_no_bucket_means_no_limit() -> None:
    assert bucket("vision") == {"max_tokens": 4000, "tokens_per_fill": 2000, "fill_interval": "1s"}
    assert configs()[gateway_filters.OWN_LIMIT]["token_bucket"]["max_tokens"] == 2**32 - 1


def test_every_host_of_a_tenants_models_brings_what_the_tenant_is_granted() -> None:
    found = told("assist", "chat", "chat-mig", hosts=("a.example", "b.example"))
    assert list(found) == ["chat-mig.assist.a.example", "chat-mig.assist.b.example", "chat.assist.a.example", "chat.assist.b.example"]
    for known in found.values():
        granted = known[gateway_filters.TENANT]
        assert (granted["tenant"], granted["guarded"]) == ("assist", [".assist.a.example", ".assist.b.example"])
        for limit, quota in (("requests", tenant("assist").quota.requests), ("tokens", tenant("assist").quota.tokens)):
            assert quota is not None
            assert granted[limit]["requests_per_unit"] / SECONDS[granted[limit]["unit"]] == quota.per_second


def test_only_answers_of_a_tenant_with_a_quota_of_tokens_are_read() -> None:
    assert gateway_filters.TOKENS in told("assist", "chat")["chat.assist.inference.example.com"]
    (known,) = told("vision", "defects").values()
    assert set(known) == {gateway_filters.TENANT}
    assert "tokens" not in known[gateway_filters.TENANT]


def test_while_the_limiter_is_away_requests_pass() -> None:
    assert configs()[gateway_filters.GLOBAL_LIMIT]["failure_mode_deny"] is False


@given(st.integers(1, 10_000_000 * 3_600), st.sampled_from(["SECOND", "MINUTE"]))
def test_a_rate_is_a_whole_number_of_a_window_that_the_limiter_can_hold(hourly: int, unit: str) -> None:
    found = limits.window(Rate(hourly), unit)
    assert 0 < found["requests_per_unit"] < 2**32
    assert found["requests_per_unit"] / SECONDS[found["unit"]] == pytest.approx(hourly / 3_600)


def test_the_gateway_asks_the_service_that_the_platform_runs() -> None:
    service = objects()["service"]
    name, namespace, (port,) = service["metadata"]["name"], service["metadata"]["namespace"], service["spec"]["ports"]
    asked = configs()[gateway_filters.GLOBAL_LIMIT]["rate_limit_service"]["grpc_service"]["envoy_grpc"]["cluster_name"]
    assert asked == f"outbound|{port['port']}||{name}.{namespace}.svc.cluster.local"
    assert port["name"] == "grpc", "a proxy speaks HTTP/2 to ports of this name only"


def test_only_the_gateway_may_ask_and_only_the_limiter_may_count() -> None:
    found = objects()
    (asks,) = found["callers"]["spec"]["rules"]
    assert asks["from"] == [{"source": {"namespaces": [GATEWAY_NAMESPACE]}}]
    (counts,) = found["counts-callers"]["spec"]["rules"]
    account = found["limiter"]["spec"]["template"]["spec"]["serviceAccountName"]
    assert counts["from"] == [{"source": {"principals": [f"cluster.local/ns/{limiter.RATE_LIMIT}/sa/{account}"]}}]


def test_the_limiters_namespace_is_meshed_and_lets_questions_in() -> None:
    (place,) = [each for each in namespaces.NAMESPACES if each.name == limiter.RATE_LIMIT]
    assert place.meshed, "without proxies nobody would check who asks"
    assert limiter.GRPC_PORT in place.open_to_gateway


def test_the_limiter_reads_the_one_set_of_questions_that_the_gateway_names() -> None:
    (text,) = objects()["configuration"]["data"].values()
    assert text == f"domain: {configs()[gateway_filters.GLOBAL_LIMIT]['domain']}\n"
