"""What the gateway's filters must know of a host, put where Envoy keeps it: with the host's virtual host, by an
EnvoyFilter. Pure.

The filters themselves are the platform's, each once (`components/platform/gateway_filters.py`). The trap: istiod
names virtual hosts by host and port and makes one of several whose routes are equal, so a host is found by its
domain and never by that name; and a map is merged entry by entry, so two objects may speak of one host, but not of
one filter there.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from components import envoy_filter
from components.tenant.surroundings import Surroundings

_PER_ROUTE = "type.googleapis.com/envoy.extensions.filters.http.lua.v3.LuaPerRoute"


def host_data(hosts: Iterable[str], known: Mapping[str, Mapping[str, Any]], **more: Any) -> list[dict[str, Any]]:
    """Patches that tell scripts, by the names of their filters, what they must know of `hosts`; `more`: what Envoy itself must."""
    return host_config(hosts, {name: {"@type": _PER_ROUTE, "filter_context": dict(context)} for name, context in known.items()}, **more)


def host_config(hosts: Iterable[str], filters: Mapping[str, Mapping[str, Any]], **more: Any) -> list[dict[str, Any]]:
    """Patches that give `hosts` these configurations of filters, by their names."""
    return [
        {
            "applyTo": "VIRTUAL_HOST",
            "match": {"context": "GATEWAY", "routeConfiguration": {"vhost": {"domainName": host}}},
            "patch": {"operation": "MERGE", "value": {**more, "typed_per_filter_config": dict(sorted(filters.items()))}},
        }
        for host in hosts
    ]


def filter_data(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The patch that adds `config`, with its type, to the configuration of the gateway's filter `name`."""
    return envoy_filter.http_filter("GATEWAY", "MERGE", {"name": name, "typed_config": dict(config)}, beside=name)


def gateway_data(name: str, patches: Sequence[Mapping[str, Any]], surroundings: Surroundings, labels: Mapping[str, str]) -> dict[str, Any]:
    """The EnvoyFilter of these patches for every proxy of the gateway."""
    namespace, workload = surroundings.gateway_namespace, dict(surroundings.gateway_labels)
    return envoy_filter.envoy_filter(name, patches, namespace=namespace, workload=workload, labels=labels)
