"""What a tenant's quota becomes at the gateway, and the limiter that counts for all of its proxies."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from contracts import SURROUNDINGS, tenant
from hypothesis import given
from hypothesis import strategies as st

from components.addons.istio import INGRESS_NAMESPACE
from components.platform import limiter, namespaces
from components.tenant import limits
from headway.contract.units import Rate

SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600}


def filters(name: str) -> Mapping[str, Mapping[str, Any]]:
    """The tenant's filters in the gateway by kind, in their order."""
    patches = limits.rate_limit(tenant(name), SURROUNDINGS, "limits")["spec"]["configPatches"]
    return {patch["patch"]["value"]["name"].split(".")[1]: patch["patch"]["value"]["typed_config"] for patch in patches}


def objects() -> Mapping[str, Mapping[str, Any]]:
    return {manifest.role: manifest.body for manifest in limiter.manifests()}


@pytest.mark.parametrize(("replicas", "each"), [(1, 2000), (2, 2000), (3, 1334), (5000, 1)])
def test_a_proxy_alone_lets_through_twice_its_part_and_never_more_than_the_whole_rate(replicas: int, each: int) -> None:
    assert limits.rate_of_one_proxy(tenant("vision"), replace(SURROUNDINGS, gateway_replicas=replicas)) == each


def test_a_tenants_own_bucket_slows_no_other_tenant() -> None:
    config = filters("vision")["rate_limit"]
    assert config["token_bucket"]["max_tokens"] == 2**32 - 1
    (descriptor,) = config["descriptors"]
    assert descriptor["token_bucket"] == {"max_tokens": 4000, "tokens_per_fill": 2000, "fill_interval": "1s"}


def test_a_request_meets_the_cheap_limit_before_the_exact_one_and_the_exact_one_before_its_answer_is_counted() -> None:
    assert list(filters("assist")) == ["rate_limit", "limits", "global_rate_limit", "tokens"]


def test_a_tenant_without_a_quota_of_tokens_has_no_answer_counted() -> None:
    assert list(filters("vision")) == ["rate_limit", "limits", "global_rate_limit"]
    assert all("hits_addend" not in asked for asked in filters("vision")["global_rate_limit"]["rate_limits"])


def test_every_question_carries_the_limit_that_its_tenant_is_granted() -> None:
    config = filters("assist")
    granted = {entry["metadata_namespace"]: entry["value"] for entry in config["limits"]["metadata"]}
    for asked in config["global_rate_limit"]["rate_limits"]:
        key = asked["limit"]["dynamic_metadata"]["metadata_key"]
        (step,) = key["path"]
        quota = {"requests": tenant("assist").quota.requests, "tokens": tenant("assist").quota.tokens}[step["key"]]
        found = granted[key["key"]][step["key"]]
        assert quota is not None
        assert found["requests_per_unit"] / SECONDS[found["unit"]] == quota.per_second


def test_while_the_limiter_is_away_requests_pass() -> None:
    assert filters("vision")["global_rate_limit"]["failure_mode_deny"] is False


@given(st.integers(1, 10_000_000 * 3_600), st.sampled_from(["SECOND", "MINUTE"]))
def test_a_rate_is_a_whole_number_of_a_window_that_the_limiter_can_hold(hourly: int, unit: str) -> None:
    found = limits.window(Rate(hourly), unit)
    assert 0 < found["requests_per_unit"] < 2**32
    assert found["requests_per_unit"] / SECONDS[found["unit"]] == pytest.approx(hourly / 3_600)


def test_the_gateway_asks_the_service_that_the_platform_runs() -> None:
    service = objects()["service"]
    name, namespace, (port,) = service["metadata"]["name"], service["metadata"]["namespace"], service["spec"]["ports"]
    asked = filters("vision")["global_rate_limit"]["rate_limit_service"]["grpc_service"]["envoy_grpc"]["cluster_name"]
    assert asked == f"outbound|{port['port']}||{name}.{namespace}.svc.cluster.local"
    assert port["name"] == "grpc", "a proxy speaks HTTP/2 to ports of this name only"


def test_only_the_gateway_may_ask_and_only_the_limiter_may_count() -> None:
    found = objects()
    (asks,) = found["callers"]["spec"]["rules"]
    assert asks["from"] == [{"source": {"namespaces": [INGRESS_NAMESPACE]}}]
    (counts,) = found["counts-callers"]["spec"]["rules"]
    account = found["limiter"]["spec"]["template"]["spec"]["serviceAccountName"]
    assert counts["from"] == [{"source": {"principals": [f"cluster.local/ns/{limiter.RATE_LIMIT}/sa/{account}"]}}]


def test_the_limiters_namespace_is_meshed_and_lets_questions_in() -> None:
    (place,) = [each for each in namespaces.NAMESPACES if each.name == limiter.RATE_LIMIT]
    assert place.meshed, "without proxies nobody would check who asks"
    assert limiter.GRPC_PORT in place.open_to_all


def test_the_limiter_reads_the_one_set_of_questions_that_the_gateway_names() -> None:
    (text,) = objects()["configuration"]["data"].values()
    assert text == f"domain: {filters('vision')['global_rate_limit']['domain']}\n"
