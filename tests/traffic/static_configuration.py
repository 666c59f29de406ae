"""The stand-in's configuration of Envoy as one file that needs nobody to serve it."""

import copy
from typing import Any

from sandbox.traffic.mesh import envoy_configuration


def static(found: envoy_configuration.EnvoyConfiguration, *, logs: bool = False) -> dict[str, Any]:
    """The same configuration without files to watch, for `envoy --mode validate`; without logs, unless they are wanted."""
    listeners: list[dict[str, Any]] = []
    for listener in copy.deepcopy(list(found.listeners.values())):
        manager = listener["filter_chains"][0]["filters"][-1]["typed_config"]
        source = manager.pop("rds", None)
        if source is not None:
            manager["route_config"] = found.routes[source["route_config_name"]]
        for log in manager["access_log"]:
            if "path" in log["typed_config"] and not logs:
                log["typed_config"]["path"] = "/dev/null"
        listeners.append(listener)
    clusters: list[dict[str, Any]] = []
    for name, made in copy.deepcopy(dict(found.clusters)).items():
        if made.pop("eds_cluster_config", None) is not None:
            made["type"] = "STATIC"
            made["load_assignment"] = found.endpoints[name]
        clusters.append(made)
    return {"static_resources": {"listeners": listeners, "clusters": clusters}}
