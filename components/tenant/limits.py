"""How much of a tenant passes the gateway: its requests, and the tokens of their prompts and answers, over all proxies
together. Pure.

Each proxy first asks its own bucket, then the platform's limiter (`components/platform/limiter.py`), which counts
for all of them; what the limit is stands in the question, so the limiter knows no tenant. While the limiter does not
answer, requests pass and the proxies' own buckets remain. Tokens are known when an answer is over, so they are
charged then, and the next request is refused; what runs is never cut off, and a tenant may overshoot by the answers
that are under way.
"""

import math
from collections.abc import Iterable
from typing import Any

from components.labels import labels
from components.platform.gateway_filters import FILL_SECONDS, MOST, OWN_LIMIT, OWN_LIMIT_TYPE, TENANT, TOKENS
from components.tenant.gateway_filters import filter_data, gateway_data, host_data
from components.tenant.surroundings import Surroundings
from headway.contract.model import Model
from headway.contract.tenant import Tenant
from headway.contract.units import Rate

BURST_SECONDS = 2
"""A tenant may save up two seconds of its rate in a proxy's own bucket."""
UNEVEN = 2
"""Connections are not spread evenly: a proxy lets its part of the rate through twice over before it refuses by
itself.
"""
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600}


def rate_of_one_proxy(tenant: Tenant, surroundings: Surroundings) -> int:
    """Requests a second that one gateway proxy lets through whatever the limiter says: at least one, at most the
    tenant's whole rate.
    """
    rate = tenant.quota.requests.per_second
    return max(1, math.ceil(min(rate, UNEVEN * rate / surroundings.gateway_replicas)))


def rate_limit(tenant: Tenant, models: Iterable[Model], surroundings: Surroundings, name: str) -> dict[str, Any]:
    """What the gateway knows of the tenant: its bucket in each proxy, and with every host of its models what it is
    granted.

    Of a host that is none of these nothing is known, and nothing is served there.
    """
    hosts = {host: model for model in models for host in surroundings.public_hosts(tenant.name, model.name)}
    known = [each for host, model in sorted(hosts.items()) for each in host_data([host], _granted(tenant, model, surroundings))]
    patches = [filter_data(OWN_LIMIT, _own_bucket(tenant, surroundings)), *known]
    return gateway_data(name, patches, surroundings, labels("limit", tenant=tenant.name))


def window(rate: Rate, unit: str) -> dict[str, Any]:
    """The rate as a whole number in a window of at least `unit`; of a second where the number would not fit."""
    for each in list(_SECONDS)[list(_SECONDS).index(unit) :]:
        number, rest = divmod(int(rate) * _SECONDS[each], 3_600)
        if not rest and number <= MOST:
            return {"unit": each, "requests_per_unit": number}
    return {"unit": "SECOND", "requests_per_unit": round(rate.per_second)}


def _own_bucket(tenant: Tenant, surroundings: Surroundings) -> dict[str, Any]:
    rate = rate_of_one_proxy(tenant, surroundings)
    bucket = {"max_tokens": rate * BURST_SECONDS, "tokens_per_fill": rate, "fill_interval": f"{FILL_SECONDS}s"}
    return {"@type": OWN_LIMIT_TYPE, "descriptors": [{"entries": [{"key": "tenant", "value": tenant.name}], "token_bucket": bucket}]}


def _granted(tenant: Tenant, model: Model, surroundings: Surroundings) -> dict[str, dict[str, Any]]:
    """What the tenant is granted at a host of this model, by the filters that act on it."""
    granted: dict[str, Any] = {
        "tenant": tenant.name,
        "guarded": surroundings.guarded(tenant.name),
        "model": model.name,
        "requests": window(tenant.quota.requests, "SECOND"),
    }
    if tenant.quota.tokens is None:
        return {TENANT: granted}
    context = model.envelope.largest_request.context_tokens
    # Answers come in lumps of hundreds of tokens: only over a minute do they make a rate.
    return {TENANT: {**granted, "tokens": window(tenant.quota.tokens, "MINUTE")}, TOKENS: {"context": context} if context else {}}
