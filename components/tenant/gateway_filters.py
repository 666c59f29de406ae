"""What the gateway's filters must know of a host, put where Envoy keeps it: with the host's virtual host, by an
EnvoyFilter. Pure.

The filters themselves are the platform's, each once (`components/platform/gateway_filters.py`). The trap: istiod
names virtual hosts by host and port and makes one of several whose routes are equal, so a host is found by its
domain and never by that name; and a map is merged entry by entry, so two objects may speak of one host, but not of
one filter there.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from components.manifests import object_
from components.tenant.surroundings import Surroundings

_PER_ROUTE = "type.googleapis.com/envoy.extensions.filters.http.lua.v3.LuaPerRoute"


def host_data(hosts: Iterable[str], known: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Patches that tell scripts, by the names of their filters, what they must know of `hosts`."""
    filters = {name: {"@type": _PER_ROUTE, "filter_context": dict(context)} for name, context in sorted(known.items())}
    return [
        {
            "applyTo": "VIRTUAL_HOST",
            "match": {"context": "GATEWAY", "routeConfiguration": {"vhost": {"domainName": host}}},
            "patch": {"operation": "MERGE", "value": {"typed_per_filter_config": filters}},
        }
        for host in hosts
    ]


def filter_data(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The patch that adds `config`, with its type, to the configuration of the gateway's filter `name`."""
    chain = {"filterChain": {"filter": {"name": "envoy.filters.network.http_connection_manager", "subFilter": {"name": name}}}}
    return {
        "applyTo": "HTTP_FILTER",
        "match": {"context": "GATEWAY", "listener": chain},
        "patch": {"operation": "MERGE", "value": {"name": name, "typed_config": dict(config)}},
    }


def gateway_data(name: str, patches: Sequence[Mapping[str, Any]], surroundings: Surroundings, labels: Mapping[str, str]) -> dict[str, Any]:
    """The EnvoyFilter of these patches for every proxy of the gateway."""
    return object_(
        "networking.istio.io/v1alpha3",
        "EnvoyFilter",
        name,
        namespace=surroundings.gateway_namespace,
        labels=labels,
        spec={"workloadSelector": {"labels": dict(surroundings.gateway_labels)}, "configPatches": [dict(patch) for patch in patches]},
    )
