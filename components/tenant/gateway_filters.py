"""Filters in every proxy of the gateway, put before its router by an EnvoyFilter. Pure.

The trap: the gateway is everybody's, so each filter has to leave the requests of other tenants alone by itself.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from components.manifests import object_
from components.tenant.surroundings import Surroundings

_ROUTER = {"name": "envoy.filters.network.http_connection_manager", "subFilter": {"name": "envoy.filters.http.router"}}


def gateway_filters(
    name: str, filters: Sequence[tuple[str, Mapping[str, Any]]], surroundings: Surroundings, labels: Mapping[str, str]
) -> dict[str, Any]:
    """The EnvoyFilter of `filters`, each a name and its typed configuration, in the order in which a request meets them."""
    before_router = {"context": "GATEWAY", "listener": {"filterChain": {"filter": _ROUTER}}}
    return object_(
        "networking.istio.io/v1alpha3",
        "EnvoyFilter",
        name,
        namespace=surroundings.gateway_namespace,
        labels=labels,
        spec={
            "workloadSelector": {"labels": dict(surroundings.gateway_labels)},
            "configPatches": [
                {
                    "applyTo": "HTTP_FILTER",
                    "match": before_router,
                    "patch": {"operation": "INSERT_BEFORE", "value": {"name": each, "typed_config": dict(config)}},
                }
                for each, config in filters
            ],
        },
    )


def lua_set(names: Iterable[str]) -> str:
    """The inside of a Lua table in which `names` are true."""
    return ", ".join(f"[{json.dumps(name)}] = true" for name in names)
