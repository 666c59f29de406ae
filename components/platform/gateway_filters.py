"""The filters that a request meets at the gateway, in their order: one EnvoyFilter, whatever the number of tenants and
models. Pure.

A filter that stands in the chain once for each model costs every request of every tenant. So each kind of filter
stands there once, and what it must know of a host stands with the host (`components/tenant/gateway_filters.py`),
where Envoy finds it by the virtual host that it has chosen anyway. A host for which nothing is said is refused by
the first of them, and that is what holds a tenant's deployers to the hosts of its contracts; but of a plain port
that only redirects to TLS nothing is said, so they stand at the serving port.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from components.addons.istio import GATEWAY_LABELS
from components.labels import labels
from components.manifests import Manifest, object_
from components.platform import gateway_measures
from components.platform import gateway_scripts as scripts
from components.platform.limiter import CLUSTER, DOMAIN
from headway.wire import GATEWAY_NAMESPACE

TENANT = "headway.tenant"
OWN_LIMIT = "headway.rate_limit"
GLOBAL_LIMIT = "headway.global_rate_limit"
TOKENS = "headway.tokens"
EXPERIMENT = "headway.experiment"
OVERLOAD = "headway.overload"

PRIORITY = 10
"""Of EnvoyFilters that put something beside something else. Data for the filters need none: istiod merges after
everything is in place.
"""
FILL_SECONDS = 1
ANSWER_SECONDS = 0.05
"""The limiter answers within a few milliseconds or counts as away."""
LUA = "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua"
OWN_LIMIT_TYPE = "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit"

MOST = 2**32 - 1
_MANAGER = "envoy.filters.network.http_connection_manager"
_MANAGER_TYPE = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_ALWAYS = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}


def manifest(*, port: int) -> Manifest:
    """The EnvoyFilter of the filters at the gateway's serving `port`, right before the router and so behind tokens
    and callers' rights.
    """
    place = {"filterChain": {"filter": {"name": _MANAGER, "subFilter": {"name": "envoy.filters.http.router"}}}, "portNumber": port}
    whole = {"filterChain": {"filter": {"name": _MANAGER}}, "portNumber": port}
    measured = {"@type": _MANAGER_TYPE, "access_log": gateway_measures.access_log()}
    patches = [
        {
            "applyTo": "HTTP_FILTER",
            "match": {"context": "GATEWAY", "listener": place},
            "patch": {"operation": "INSERT_BEFORE", "value": each},
        }
        for each in chain()
    ] + [
        {
            "applyTo": "NETWORK_FILTER",
            "match": {"context": "GATEWAY", "listener": whole},
            "patch": {"operation": "MERGE", "value": {"typed_config": measured}},
        }
    ]
    return Manifest(
        role="filters",
        body=object_(
            "networking.istio.io/v1alpha3",
            "EnvoyFilter",
            "filters",
            namespace=GATEWAY_NAMESPACE,
            labels=labels("gateway"),
            spec={"workloadSelector": {"labels": dict(GATEWAY_LABELS)}, "priority": PRIORITY, "configPatches": patches},
        ),
    )


def chain() -> Sequence[Mapping[str, Any]]:
    """Every filter in the order in which a request meets it; those that are `disabled` only run for hosts that bring
    data for them.

    Limits before everything that decides where a request goes: what is refused is in no experiment, and no sign of
    an overload.
    """
    return (
        {"name": TENANT, "typed_config": _lua(scripts.TENANT)},
        {"name": OWN_LIMIT, "typed_config": _own_limit()},
        {"name": GLOBAL_LIMIT, "typed_config": _global_limit()},
        {"name": TOKENS, "disabled": True, "typed_config": _lua(scripts.TOKENS)},
        {"name": EXPERIMENT, "disabled": True, "typed_config": _lua(scripts.EXPERIMENT)},
        {"name": OVERLOAD, "disabled": True, "typed_config": _lua(scripts.OVERLOAD)},
    )


def _lua(script: str) -> dict[str, Any]:
    return {"@type": LUA, "default_source_code": {"inline_string": script}}


def _own_limit() -> dict[str, Any]:
    """A proxy's own buckets, which tenants add as descriptors: Envoy finds a request's by the tenant's name."""
    return {
        "@type": OWN_LIMIT_TYPE,
        "stat_prefix": "tenant",
        # The filter demands a bucket for what matches no descriptor: a tenant whose bucket is not there yet.
        "token_bucket": {"max_tokens": MOST, "tokens_per_fill": MOST, "fill_interval": f"{FILL_SECONDS}s"},
        "filter_enabled": _ALWAYS,
        "filter_enforced": _ALWAYS,
        "response_headers_to_add": [{"header": {"key": "retry-after", "value": str(FILL_SECONDS)}}],
        "rate_limits": [{"actions": [_told("tenant", "name")]}],
    }


def _global_limit() -> dict[str, Any]:
    """Asks the platform's limiter, which counts for all proxies; while it does not answer, requests pass and the own
    buckets remain.
    """
    spent = {"format": f"%DYNAMIC_METADATA({scripts.TOKENS_STATE}:spent)%"}
    requests, tokens = {"generic_key": {"descriptor_key": "limit", "descriptor_value": "requests"}}, _told("limit", "counted")
    service = {"envoy_grpc": {"cluster_name": CLUSTER}, "timeout": f"{ANSWER_SECONDS}s"}
    return {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit",
        "domain": DOMAIN,
        "failure_mode_deny": False,
        "timeout": f"{ANSWER_SECONDS}s",
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
        "rate_limited_as_resource_exhausted": True,
        "response_headers_to_add": [{"header": {"key": "retry-after", "value": "%RESP(X-RATELIMIT-RESET)%"}}],
        "rate_limit_service": {"transport_api_version": "V3", "grpc_service": service},
        "rate_limits": [
            _question(requests, "requests"),
            # Of a tenant without a quota of tokens nothing is `counted`, and then nothing is asked.
            {**_question(tokens, "tokens"), "hits_addend": {"number": 0}},
            {**_question(tokens, "tokens"), "hits_addend": spent, "apply_on_stream_done": True},
        ],
    }


def _question(limit: Mapping[str, Any], granted: str) -> dict[str, Any]:
    """How much of one limit the tenant has used, and what the limit is."""
    override = {"metadata_key": {"key": scripts.TENANT_STATE, "path": [{"key": granted}]}}
    return {"actions": [_told("tenant", "name"), limit], "limit": {"dynamic_metadata": override}}


def _told(descriptor: str, key: str) -> dict[str, Any]:
    """Part of a descriptor that the first filter has found; without it there is no descriptor."""
    return {
        "metadata": {
            "descriptor_key": descriptor,
            "metadata_key": {"key": scripts.TENANT_STATE, "path": [{"key": key}]},
            "source": "DYNAMIC",
        }
    }
