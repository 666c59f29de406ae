"""EnvoyFilters: raw pieces of Envoy configuration, put where istiod puts them. Pure.

The pieces themselves are not judged here: Envoy does that, and what it refuses is told with its words. Filters are
merged after all of them are in place, whoever put them there; a merge into a list appends, and one into a map replaces
the entry (istio/istio, pilot/pkg/networking/core/envoyfilter: listener_patch.go, rc_patch.go).
"""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sandbox.traffic.mesh.object_reader import Reader, items
from sandbox.traffic.mesh.types import EnvoyMessage, MeshObject

GATEWAY, INBOUND, OUTBOUND = "GATEWAY", "SIDECAR_INBOUND", "SIDECAR_OUTBOUND"
MANAGER = "envoy.filters.network.http_connection_manager"
ROUTER = "envoy.filters.http.router"
_OPERATIONS = {
    "HTTP_FILTER": {"INSERT_BEFORE", "INSERT_FIRST", "INSERT_AFTER", "MERGE"},
    "NETWORK_FILTER": {"INSERT_BEFORE", "MERGE"},
    "VIRTUAL_HOST": {"MERGE"},
}
_MERGED = {"HTTP_FILTER": {"name", "typed_config"}, "VIRTUAL_HOST": {"request_body_buffer_limit", "typed_per_filter_config"}}
"""What a merge may hold. Of an HTTP filter istiod takes no more; of a virtual host more is not modelled."""


def check(item: MeshObject) -> Reader:
    """Everything in an EnvoyFilter that is not modelled."""
    reader, spec = Reader.of(item), item["spec"]
    reader.only(spec, "spec", {"workloadSelector", "configPatches", "priority"})
    for path, patch in items(spec.get("configPatches"), "spec.configPatches"):
        reader.only(patch, path, {"applyTo", "match", "patch"})
        applied, operation = patch.get("applyTo", ""), (patch.get("patch") or {}).get("operation")
        reader.choice(applied, f"{path}.applyTo", _OPERATIONS)
        reader.choice(operation, f"{path}.patch.operation", _OPERATIONS.get(applied, ()))
        match = patch.get("match") or {}
        if applied == "VIRTUAL_HOST":
            _check_host(reader, match, f"{path}.match")
        else:
            _check_listener(reader, match, f"{path}.match")
        if operation == "MERGE" and applied in _MERGED:
            reader.only((patch.get("patch") or {}).get("value") or {}, f"{path}.patch.value", _MERGED[applied])
        if operation == "MERGE" and applied == "HTTP_FILTER" and not _beside(match):
            reader.refuse(f"{path}.match.listener.filterChain.filter.subFilter", "a merge into every filter is not modelled here")
    return reader


def _check_listener(reader: Reader, match: MeshObject, path: str) -> None:
    reader.only(match, path, {"context", "listener"})
    reader.choice(match.get("context", "ANY"), f"{path}.context", {GATEWAY, INBOUND, OUTBOUND, "ANY"})
    listener = match.get("listener") or {}
    # Elsewhere it is not the port that a proxy listens on.
    reader.only(listener, f"{path}.listener", {"filterChain", *(["portNumber"] if match.get("context") == GATEWAY else [])})
    chain = listener.get("filterChain") or {}
    reader.only(chain, f"{path}.listener.filterChain", {"filter"})
    network = chain.get("filter") or {}
    reader.only(network, f"{path}.listener.filterChain.filter", {"name", "subFilter"})
    if network:
        reader.choice(network.get("name"), f"{path}.listener.filterChain.filter.name", {MANAGER})


def _check_host(reader: Reader, match: MeshObject, path: str) -> None:
    """Only hosts of a gateway that are found by their domain: by name istiod's are host and port, and equal ones are
    made one."""
    reader.only(match, path, {"context", "routeConfiguration"})
    reader.choice(match.get("context", "ANY"), f"{path}.context", {GATEWAY})
    table = match.get("routeConfiguration") or {}
    reader.only(table, f"{path}.routeConfiguration", {"vhost"})
    host = table.get("vhost") or {}
    reader.only(host, f"{path}.routeConfiguration.vhost", {"domainName"})
    if not host.get("domainName"):
        reader.refuse(f"{path}.routeConfiguration.vhost.domainName", "a patch of every virtual host is not modelled here")


def patched(manager: EnvoyMessage, context: str, port: int, filters: Iterable[MeshObject]) -> EnvoyMessage:
    """The HTTP connection manager of a listener in `context`, with the patches of these EnvoyFilters."""
    found, merges = copy.deepcopy(manager), list[tuple[str | None, Mapping[str, Any]]]()
    for patch, match in _of_listener(context, port, filters):
        value, operation = patch["patch"].get("value") or {}, patch["patch"]["operation"]
        if patch["applyTo"] == "HTTP_FILTER":
            if operation == "MERGE":
                merges.append((_beside(match), value))
            else:
                found["http_filters"] = _inserted(found["http_filters"], operation, _beside(match), value)
        elif operation == "MERGE":
            found = merged(found, value.get("typed_config") or {})
    for name, value in merges:
        found["http_filters"] = [merged(each, value) if each["name"] == name else each for each in found["http_filters"]]
    return found


def before_manager(context: str, port: int, filters: Iterable[MeshObject]) -> list[EnvoyMessage]:
    """What these EnvoyFilters put before the HTTP connection manager of a listener in `context`."""
    wanted = ("NETWORK_FILTER", "INSERT_BEFORE")
    return [
        copy.deepcopy(dict(patch["patch"]["value"]))
        for patch, _ in _of_listener(context, port, filters)
        if (patch["applyTo"], patch["patch"]["operation"]) == wanted
    ]


def patched_hosts(hosts: Sequence[EnvoyMessage], filters: Iterable[MeshObject]) -> list[EnvoyMessage]:
    """The virtual hosts of a gateway, each with what these EnvoyFilters say of one of its domains."""
    said = [
        (match["routeConfiguration"]["vhost"]["domainName"], patch["patch"].get("value") or {})
        for patch, match in _of(GATEWAY, filters)
        if patch["applyTo"] == "VIRTUAL_HOST"
    ]
    found: list[EnvoyMessage] = []
    for host in hosts:
        known = dict(host)
        for value in (copy.deepcopy(dict(value)) for domain, value in said if domain in host["domains"]):
            filters_of_host = {**known.get("typed_per_filter_config", {}), **value.get("typed_per_filter_config", {})}
            known |= {**value, "typed_per_filter_config": filters_of_host}
        found.append(known)
    return found


def _of_listener(context: str, port: int, filters: Iterable[MeshObject]) -> Iterator[tuple[MeshObject, MeshObject]]:
    """(patch, its match) of what applies to a listener in `context` at `port`."""
    for patch, match in _of(context, filters):
        asked = (match.get("listener") or {}).get("portNumber")
        if patch["applyTo"] != "VIRTUAL_HOST" and asked in (None, port):
            yield patch, match


def _of(context: str, filters: Iterable[MeshObject]) -> Iterator[tuple[MeshObject, MeshObject]]:
    """(patch, its match) of what applies in `context`."""
    for item in filters:
        for patch in item["spec"].get("configPatches") or ():
            match = patch.get("match") or {}
            if match.get("context", "ANY") in (context, "ANY"):
                yield patch, match


def _beside(match: MeshObject) -> str | None:
    """The HTTP filter that a patch is about."""
    network = ((match.get("listener") or {}).get("filterChain") or {}).get("filter") or {}
    return (network.get("subFilter") or {}).get("name")


def _inserted(filters: list[EnvoyMessage], operation: str, beside: str | None, value: Mapping[str, Any]) -> list[EnvoyMessage]:
    place = next((number for number, each in enumerate(filters) if each["name"] == beside), None)
    new = copy.deepcopy(dict(value))
    if operation == "INSERT_FIRST":
        return [new, *filters]
    if place is None:
        return filters
    place += operation == "INSERT_AFTER"
    return [*filters[:place], new, *filters[place:]]


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> EnvoyMessage:
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
