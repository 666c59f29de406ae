"""How much of a tenant passes the gateway: its requests and the tokens that are generated for it, over all proxies together. Pure.

Each proxy first asks its own bucket, then the platform's limiter (`components/platform/limiter.py`), which counts for all of them; what the
limit is stands in the question, so the limiter knows no tenant. While the limiter does not answer, requests pass and the proxies' own
buckets remain. The trap: tokens are known when an answer is over, so they are charged then, and the next request is refused; what
runs is never cut off, and a tenant may overshoot by the answers that are under way.
"""

import math
from typing import Any

from components.labels import labels
from components.platform.limiter import CLUSTER, DOMAIN
from components.tenant.gateway_filters import gateway_filters
from components.tenant.surroundings import Surroundings
from headway.contract.tenant import Tenant
from headway.contract.units import Rate

FILL_SECONDS = 1
BURST_SECONDS = 2
"""A tenant may save up two seconds of its rate in a proxy's own bucket."""
UNEVEN = 2
"""Connections are not spread evenly: a proxy lets its part of the rate through twice over before it refuses by itself."""
ANSWER_SECONDS = 0.05
"""The limiter answers within a few milliseconds or counts as away."""

COUNTED = "headway.tokens"
"""Where the counting filter leaves the tokens of an answer: namespace of dynamic metadata, key `generated`."""

_HTTP = "type.googleapis.com/envoy.extensions.filters.http"
_MOST = 2**32 - 1
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600}

COUNTER = f"""
local function last(text, pattern)
  local found = nil
  for number in text:gmatch(pattern) do found = number end
  return found
end

function envoy_on_response(handle)
  local kind = handle:headers():get("content-type") or ""
  local streamed = kind:find("text/event-stream", 1, true)
  if not (streamed or kind:find("application/json", 1, true)) then return end
  local rest, events, said = "", 0, nil
  for chunk in handle:bodyChunks() do
    local length = chunk:length()
    if length > 0 then
      local text = rest .. chunk:getBytes(0, length)
      said = last(text, '"completion_tokens":%s*(%d+)') or said
      if streamed then
        for _ in text:gmatch("data: {{") do events = events + 1 end
        for _ in rest:gmatch("data: {{") do events = events - 1 end
      end
      rest = text:sub(-64)
      local spent = tonumber(said) or events
      if spent > 0 then handle:streamInfo():dynamicMetadata():set("{COUNTED}", "generated", spent) end
    end
  end
end
"""
"""Counts while the answer passes, and holds none of it back.

Servers of the OpenAI API say `usage.completion_tokens` at the end of an answer; of a stream that is left before, each event is one token at
least. A number inside a generated text does not match: there its quotation marks are escaped.
"""


def rate_of_one_proxy(tenant: Tenant, surroundings: Surroundings) -> int:
    """Requests a second that one gateway proxy lets through whatever the limiter says: at least one, at most the tenant's whole rate."""
    rate = tenant.quota.requests.per_second
    return max(1, math.ceil(min(rate, UNEVEN * rate / surroundings.gateway_replicas)))


def rate_limit(tenant: Tenant, surroundings: Surroundings, name: str) -> dict[str, Any]:
    """The tenant's filters in each proxy of the gateway, in the order in which a request meets them; 429 with Retry-After from each."""
    filters = [
        ("rate_limit", _own_bucket(tenant, surroundings)),
        ("limits", _limits(tenant)),
        ("global_rate_limit", _limiter(tenant, surroundings)),
    ]
    if tenant.quota.tokens is not None:
        filters.append(("tokens", _only_of(tenant, surroundings, _counter())))
    named = [(f"headway.{kind}.{tenant.name}", config) for kind, config in filters]
    return gateway_filters(name, named, surroundings, labels("limit", tenant=tenant.name))


def window(rate: Rate, unit: str) -> dict[str, Any]:
    """The rate as a whole number in a window of at least `unit`; of a second where the number would not fit."""
    for each in list(_SECONDS)[list(_SECONDS).index(unit) :]:
        number, rest = divmod(int(rate) * _SECONDS[each], 3_600)
        if not rest and number <= _MOST:
            return {"unit": each, "requests_per_unit": number}
    return {"unit": "SECOND", "requests_per_unit": round(rate.per_second)}


def _own_bucket(tenant: Tenant, surroundings: Surroundings) -> dict[str, Any]:
    rate = rate_of_one_proxy(tenant, surroundings)
    filled = {"tokens_per_fill": rate, "fill_interval": f"{FILL_SECONDS}s"}
    entry = {"key": "tenant", "value": tenant.name}
    return {
        "@type": f"{_HTTP}.local_ratelimit.v3.LocalRateLimit",
        "stat_prefix": f"tenant_{tenant.name}",
        # The filter demands a bucket for requests that match no descriptor: those of other tenants, which this filter must not slow down.
        "token_bucket": {"max_tokens": _MOST, "tokens_per_fill": _MOST, "fill_interval": "1s"},
        "filter_enabled": {"default_value": {"numerator": 100, "denominator": "HUNDRED"}},
        "filter_enforced": {"default_value": {"numerator": 100, "denominator": "HUNDRED"}},
        "response_headers_to_add": [{"header": {"key": "retry-after", "value": str(FILL_SECONDS)}}],
        "rate_limits": [{"actions": [_of(tenant, host)]} for host in surroundings.hosts],
        "descriptors": [{"entries": [entry], "token_bucket": {"max_tokens": rate * BURST_SECONDS, **filled}}],
    }


def _limits(tenant: Tenant) -> dict[str, Any]:
    """What the tenant is granted, where the questions to the limiter find it."""
    granted = {"requests": window(tenant.quota.requests, "SECOND")}
    if tenant.quota.tokens is not None:
        # Answers come in lumps of hundreds of tokens: only over a minute do they make a rate.
        granted["tokens"] = window(tenant.quota.tokens, "MINUTE")
    told: list[dict[str, Any]] = [{"metadata_namespace": _granted(tenant), "value": granted}]
    if tenant.quota.tokens is not None:
        # An answer in which nothing is counted is charged nothing.
        told.append({"metadata_namespace": COUNTED, "value": {"generated": 0}})
    return {"@type": f"{_HTTP}.set_metadata.v3.Config", "metadata": [{**each, "allow_overwrite": True} for each in told]}


def _limiter(tenant: Tenant, surroundings: Surroundings) -> dict[str, Any]:
    asked: list[dict[str, Any]] = []
    for host in surroundings.hosts:
        asked.append(_question(tenant, host, "requests"))
        if tenant.quota.tokens is not None:
            asked.append({**_question(tenant, host, "tokens"), "hits_addend": {"number": 0}})
            spent = {"format": f"%DYNAMIC_METADATA({COUNTED}:generated)%"}
            asked.append({**_question(tenant, host, "tokens"), "hits_addend": spent, "apply_on_stream_done": True})
    service = {"envoy_grpc": {"cluster_name": CLUSTER}, "timeout": f"{ANSWER_SECONDS}s"}
    return {
        "@type": f"{_HTTP}.ratelimit.v3.RateLimit",
        "domain": DOMAIN,
        "failure_mode_deny": False,
        "timeout": f"{ANSWER_SECONDS}s",
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
        "rate_limited_as_resource_exhausted": True,
        "response_headers_to_add": [{"header": {"key": "retry-after", "value": "%RESP(X-RATELIMIT-RESET)%"}}],
        "rate_limit_service": {"transport_api_version": "V3", "grpc_service": service},
        "rate_limits": asked,
    }


def _question(tenant: Tenant, host: str, limit: str) -> dict[str, Any]:
    """How much of one limit the tenant has used, and what the limit is."""
    granted = {"metadata_key": {"key": _granted(tenant), "path": [{"key": limit}]}}
    kind = {"generic_key": {"descriptor_key": "limit", "descriptor_value": limit}}
    return {"actions": [_of(tenant, host), kind], "limit": {"dynamic_metadata": granted}}


def _granted(tenant: Tenant) -> str:
    return f"headway.limits.{tenant.name}"


def _of(tenant: Tenant, host: str) -> dict[str, Any]:
    """Requests to the tenant's hosts, and no others."""
    return {
        "header_value_match": {
            "descriptor_key": "tenant",
            "descriptor_value": tenant.name,
            "headers": [{"name": ":authority", "string_match": {"contains": f".{tenant.name}.{host}", "ignore_case": True}}],
        }
    }


def _counter() -> dict[str, Any]:
    return {"@type": f"{_HTTP}.lua.v3.Lua", "default_source_code": {"inline_string": COUNTER}}


def _only_of(tenant: Tenant, surroundings: Surroundings, config: dict[str, Any]) -> dict[str, Any]:
    """The filter for requests to the tenant's hosts; it is skipped for all others."""
    header = {"@type": "type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput", "header_name": ":authority"}
    one_of = [
        {
            "single_predicate": {
                "input": {"name": "authority", "typed_config": header},
                "value_match": {"contains": f".{tenant.name}.{host}", "ignore_case": True},
            }
        }
        for host in surroundings.hosts
    ]
    skip = {"@type": "type.googleapis.com/envoy.extensions.filters.common.matcher.action.v3.SkipFilter"}
    predicate = one_of[0] if len(one_of) == 1 else {"or_matcher": {"predicate": one_of}}
    skipped = {"predicate": {"not_matcher": predicate}, "on_match": {"action": {"name": "skip", "typed_config": skip}}}
    return {
        "@type": "type.googleapis.com/envoy.extensions.common.matching.v3.ExtensionWithMatcher",
        "extension_config": {"name": "envoy.filters.http.lua", "typed_config": config},
        "xds_matcher": {"matcher_list": {"matchers": [skipped]}},
    }
