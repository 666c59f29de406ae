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
from components.envoy_filter import PRIORITY, envoy_filter, http_filter, lua, manager
from components.labels import labels
from components.manifests import Manifest
from components.platform import endpoint_picker, gateway_measures
from components.platform import gateway_scripts as scripts
from components.platform.limiter import CLUSTER, DOMAIN
from headway.wire import GATEWAY_NAMESPACE, PICKED_HEADER

TENANT = "headway.tenant"
OWN_LIMIT = "headway.rate_limit"
GLOBAL_LIMIT = "headway.global_rate_limit"
TOKENS = "headway.tokens"
ACTIVATE = "headway.activate"
EXPERIMENT = "headway.experiment"
OVERLOAD = "headway.overload"
PICKED = "headway.picked"
PICK = "headway.pick"
SESSION = "headway.session"

FILL_SECONDS = 1
ANSWER_SECONDS = 0.05
"""The limiter answers within a few milliseconds or counts as away."""
PICK_SECONDS = 0.2
"""For the picker's answer to one message; it takes a few milliseconds."""
_HTTP = "type.googleapis.com/envoy.extensions.filters.http"
OWN_LIMIT_TYPE = "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit"

MOST = 2**32 - 1
_ALWAYS = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}


def manifest(*, port: int) -> Manifest:
    """The EnvoyFilter of the filters at the gateway's serving `port`, right before the router and so behind tokens
    and callers' rights.
    """
    filters = [http_filter("GATEWAY", "INSERT_BEFORE", each, port=port) for each in chain()]
    measured = manager("GATEWAY", {"access_log": gateway_measures.access_log()}, port=port)
    return of_gateway("filters", [*filters, measured])


def of_gateway(role: str, patches: Sequence[Mapping[str, Any]]) -> Manifest:
    """The platform's own EnvoyFilter of the gateway."""
    body = envoy_filter(role, patches, namespace=GATEWAY_NAMESPACE, workload=GATEWAY_LABELS, labels=labels("gateway"), priority=PRIORITY)
    return Manifest(role=role, body=body)


def chain() -> Sequence[Mapping[str, Any]]:
    """Every filter in the order in which a request meets it; those that are `disabled` only run for hosts that bring
    data for them.

    Limits before everything that decides where a request goes: what is refused is in no experiment, and no sign of
    an overload.
    """
    return (
        lua(TENANT, scripts.TENANT),
        {"name": OWN_LIMIT, "typed_config": _own_limit()},
        {"name": GLOBAL_LIMIT, "typed_config": _global_limit()},
        {**lua(TOKENS, scripts.TOKENS), "disabled": True},
        {**lua(ACTIVATE, scripts.ACTIVATE), "disabled": True},
        {**lua(EXPERIMENT, scripts.EXPERIMENT), "disabled": True},
        {**lua(OVERLOAD, scripts.OVERLOAD), "disabled": True},
        # Behind all that changes a route: an endpoint is picked among those of the version that the route has chosen.
        {"name": PICKED, "typed_config": _own_header(), "disabled": True},
        {"name": PICK, "typed_config": _pick(), "disabled": True},
        {"name": SESSION, "typed_config": {"@type": f"{_HTTP}.stateful_session.v3.StatefulSession"}, "disabled": True},
    )


def picks() -> dict[str, Mapping[str, Any]]:
    """By filter, what makes the three of them run for a host."""
    return {
        PICKED: {"@type": f"{_HTTP}.header_mutation.v3.HeaderMutationPerRoute"},
        PICK: {"@type": f"{_HTTP}.ext_proc.v3.ExtProcPerRoute", "overrides": {}},
        SESSION: {"@type": f"{_HTTP}.stateful_session.v3.StatefulSessionPerRoute", "stateful_session": _session()},
    }


def _own_header() -> dict[str, Any]:
    """Nobody outside names an endpoint, or learns of one."""
    gone = [{"remove": PICKED_HEADER}]
    return {
        "@type": f"{_HTTP}.header_mutation.v3.HeaderMutation",
        "mutations": {"request_mutations": gone, "response_mutations": gone},
    }


def _pick() -> dict[str, Any]:
    """Asks the picker, with the body as far as a proxy's buffer takes it. While it does not answer, requests pass without a name. Of answers it
    gets nothing; but for the trailers that no engine sends, its stream would not last as long as the request.
    """
    said = {"request_header_mode": "SEND", "request_body_mode": "BUFFERED_PARTIAL", "response_header_mode": "SKIP"}
    return {
        "@type": f"{_HTTP}.ext_proc.v3.ExternalProcessor",
        "grpc_service": {"envoy_grpc": {"cluster_name": endpoint_picker.CLUSTER, "authority": endpoint_picker.NAME}},
        "failure_mode_allow": True,
        "message_timeout": f"{PICK_SECONDS}s",
        "processing_mode": {**said, "response_trailer_mode": "SEND"},
        "request_attributes": ["xds.cluster_name"],
        # Headers hold tokens, and say nothing of a prompt.
        "forward_rules": {"allowed_headers": {"patterns": [{"exact": "content-type"}]}},
    }


def _session() -> dict[str, Any]:
    """Takes the named endpoint where it is one of the chosen version's and the proxy has not ejected it, else the version's balancer chooses
    (`HostUtility::selectOverrideHost`, source/common/upstream/host_utility.cc). A retry is the balancer's too.
    """
    header = {
        "@type": "type.googleapis.com/envoy.extensions.http.stateful_session.header.v3.HeaderBasedSessionState",
        "name": PICKED_HEADER,
    }
    return {"session_state": {"name": "envoy.http.stateful_session.header", "typed_config": header}}


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
