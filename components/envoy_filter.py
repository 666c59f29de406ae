"""EnvoyFilters, which say to Envoy what no other object of Istio can, and the names that Envoy gives its parts. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from components.manifests import object_

MANAGER = "envoy.filters.network.http_connection_manager"
MANAGER_TYPE = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
ROUTER = "envoy.filters.http.router"
PRIORITY = 10
"""Of EnvoyFilters that put something beside something else. Data for the filters need none: istiod merges after
everything is in place.
"""


def lua(name: str, code: str) -> dict[str, Any]:
    """A filter that runs a script."""
    typed = {"@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua", "default_source_code": {"inline_string": code}}
    return {"name": name, "typed_config": typed}


def http_filter(context: str, operation: str, value: Mapping[str, Any], *, beside: str = ROUTER, port: int | None = None) -> dict[str, Any]:
    """The patch of the filter `beside` of every chain of `context`, or only of those at `port`."""
    place = {"filterChain": {"filter": {"name": MANAGER, "subFilter": {"name": beside}}}}
    return _patch("HTTP_FILTER", context, place, operation, value, port)


def manager(context: str, config: Mapping[str, Any], *, port: int | None = None) -> dict[str, Any]:
    """The patch that adds `config` to Envoy's manager of HTTP connections."""
    return network_filter(context, "MERGE", {"typed_config": {"@type": MANAGER_TYPE, **config}}, port=port)


def network_filter(context: str, operation: str, value: Mapping[str, Any], *, port: int | None = None) -> dict[str, Any]:
    """The patch of that manager, or of what stands before it."""
    return _patch("NETWORK_FILTER", context, {"filterChain": {"filter": {"name": MANAGER}}}, operation, value, port)


def _patch(kind: str, context: str, place: Mapping[str, Any], operation: str, value: Mapping[str, Any], port: int | None) -> dict[str, Any]:
    listener = dict(place) if port is None else {**place, "portNumber": port}
    return {
        "applyTo": kind,
        "match": {"context": context, "listener": listener},
        "patch": {"operation": operation, "value": dict(value)},
    }


def envoy_filter(
    name: str,
    patches: Sequence[Mapping[str, Any]],
    *,
    namespace: str,
    workload: Mapping[str, str],
    labels: Mapping[str, str],
    priority: int | None = None,
) -> dict[str, Any]:
    """The object of these patches for the pods with the labels `workload`."""
    spec: dict[str, Any] = {"workloadSelector": {"labels": dict(workload)}}
    if priority is not None:
        spec["priority"] = priority
    spec["configPatches"] = list(patches)
    return object_("networking.istio.io/v1alpha3", "EnvoyFilter", name, namespace=namespace, labels=labels, spec=spec)
