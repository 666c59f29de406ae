"""EnvoyFilters: raw pieces of Envoy configuration, put where istiod puts them. Pure.

The pieces themselves are not judged here: Envoy does that, and what it refuses is told with its words. The trap: patches apply in the order
of their namespaces (the root's first) and creation; a merge into a list appends.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sandbox.traffic.mesh.reading import Object, Reader, items

Config = dict[str, Any]

GATEWAY, INBOUND, OUTBOUND = "GATEWAY", "SIDECAR_INBOUND", "SIDECAR_OUTBOUND"
MANAGER = "envoy.filters.network.http_connection_manager"
ROUTER = "envoy.filters.http.router"
_OPERATIONS = {
    "HTTP_FILTER": {"INSERT_BEFORE", "INSERT_FIRST", "INSERT_AFTER", "MERGE"},
    "NETWORK_FILTER": {"INSERT_BEFORE", "MERGE"},
}


def check(item: Object) -> Reader:
    """Everything in an EnvoyFilter that is not modelled."""
    reader, spec = Reader.of(item), item["spec"]
    reader.only(spec, "spec", {"workloadSelector", "configPatches", "priority"})
    for path, patch in items(spec.get("configPatches"), "spec.configPatches"):
        reader.only(patch, path, {"applyTo", "match", "patch"})
        applied = patch.get("applyTo", "")
        reader.choice(applied, f"{path}.applyTo", _OPERATIONS)
        match = patch.get("match") or {}
        reader.only(match, f"{path}.match", {"context", "listener"})
        reader.choice(match.get("context", "ANY"), f"{path}.match.context", {GATEWAY, INBOUND, OUTBOUND, "ANY"})
        listener = match.get("listener") or {}
        reader.only(listener, f"{path}.match.listener", {"filterChain"})
        chain = listener.get("filterChain") or {}
        reader.only(chain, f"{path}.match.listener.filterChain", {"filter"})
        network = chain.get("filter") or {}
        reader.only(network, f"{path}.match.listener.filterChain.filter", {"name", "subFilter"})
        if network:
            reader.choice(network.get("name"), f"{path}.match.listener.filterChain.filter.name", {MANAGER})
        reader.choice((patch.get("patch") or {}).get("operation"), f"{path}.patch.operation", _OPERATIONS.get(applied, ()))
    return reader


def patched(manager: Config, context: str, filters: Iterable[Object]) -> Config:
    """The HTTP connection manager of a listener in `context`, with the patches of these EnvoyFilters."""
    found = copy.deepcopy(manager)
    for patch, match in _of(context, filters):
        network = ((match.get("listener") or {}).get("filterChain") or {}).get("filter") or {}
        before = (network.get("subFilter") or {}).get("name")
        value, operation = patch["patch"].get("value") or {}, patch["patch"]["operation"]
        if patch["applyTo"] == "HTTP_FILTER":
            found["http_filters"] = _filters(found["http_filters"], operation, before, value)
        elif operation == "MERGE":
            found = merged(found, value.get("typed_config") or {})
    return found


def before_manager(context: str, filters: Iterable[Object]) -> list[Config]:
    """What these EnvoyFilters put before the HTTP connection manager of a listener in `context`."""
    wanted = ("NETWORK_FILTER", "INSERT_BEFORE")
    return [
        copy.deepcopy(dict(patch["patch"]["value"]))
        for patch, _ in _of(context, filters)
        if (patch["applyTo"], patch["patch"]["operation"]) == wanted
    ]


def _of(context: str, filters: Iterable[Object]) -> Iterator[tuple[Object, Object]]:
    """(patch, its match) of what applies in `context`."""
    for item in filters:
        for patch in item["spec"].get("configPatches") or ():
            match = patch.get("match") or {}
            if match.get("context", "ANY") in (context, "ANY"):
                yield patch, match


def _filters(filters: list[Config], operation: str, beside: str | None, value: Mapping[str, Any]) -> list[Config]:
    place = next((number for number, each in enumerate(filters) if each["name"] == beside), None)
    new = copy.deepcopy(dict(value))
    if operation == "INSERT_FIRST":
        return [new, *filters]
    if place is None:
        return filters
    if operation == "MERGE":
        return [*filters[:place], merged(filters[place], value), *filters[place + 1 :]]
    place += operation == "INSERT_AFTER"
    return [*filters[:place], new, *filters[place:]]


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> Config:
    """As protobuf merges messages: scalars are replaced, lists appended, messages merged."""
    found = copy.deepcopy(dict(base))
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(found.get(key), Mapping):
            found[key] = merged(found[key], value)
        elif isinstance(value, list) and isinstance(found.get(key), list):
            found[key] = [*found[key], *copy.deepcopy(value)]
        else:
            found[key] = copy.deepcopy(value)
    return found
