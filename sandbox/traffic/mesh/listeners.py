"""The listeners of one Envoy: the gateway, a door for callers inside the mesh, and a sidecar before each served pod.
Pure.

Every listener logs one line a request, from which `telemetry.py` counts what Istio's proxies would. A mirrored request
has no line at its caller; it shows at the sidecar of its destination, its host ending in `-shadow`.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from components.platform import replica_measures, stats_log
from headway.wire import COLLECTOR, MESH_NAMESPACE, MODEL, MONITORING_NAMESPACE, SAMPLES_PROVIDER
from sandbox.traffic.mesh import patches, security
from sandbox.traffic.mesh.clusters import address
from sandbox.traffic.mesh.object_reader import labels_match
from sandbox.traffic.mesh.snapshot import INBOUND_OFFSET, MeshSnapshot, host_of
from sandbox.traffic.mesh.types import EnvoyMessage, MeshObject

RDS_FOLDER = "routes"
MESH_PORTS = (8000, 8001)
"""Ports of Services for which callers inside the mesh have a door: Triton's two."""
_MANAGER_TYPE = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_ROUTER_TYPE = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
_DROP_TYPE = "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"
_LOG_TYPE = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog"

_CEL_TYPE = "type.googleapis.com/envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter"

_OWN_WORKLOAD = "%ENVIRONMENT(ISTIO_META_WORKLOAD_NAME)%"
SAMPLE = f'{{"time":"%START_TIME%","workload":"{_OWN_WORKLOAD}",%DYNAMIC_METADATA(headway.sample:record)%}}'

LOG_FIELDS: Mapping[str, str] = {
    "arm": "%DYNAMIC_METADATA(headway.experiment:arm)%",
    "authority": "%REQ(:AUTHORITY)%",
    "bucket": "%DYNAMIC_METADATA(headway.experiment:bucket)%",
    "class": "%REQ(X-REQUEST-CLASS)%",
    "cluster": "%UPSTREAM_CLUSTER_RAW%",
    "code": "%RESPONSE_CODE%",
    "duration": "%DURATION%",
    "experiment": "%DYNAMIC_METADATA(headway.experiment:experiment)%",
    "flags": "%RESPONSE_FLAGS%",
    "grpc": "%GRPC_STATUS_NUMBER%",
    "type": "%REQ(CONTENT-TYPE)%",
}


@dataclass(frozen=True, kw_only=True)
class ListenerPorts:
    """Where the listeners are on 127.0.0.1: the gateway's port by the port that its Gateway object names, the mesh's by
    Service port."""

    gateway: Mapping[int, int]
    mesh: Mapping[int, int]
    log: str
    """The access log of all of them."""
    samples: str | None = None
    """The folder of the samples' logs, which must exist, one file a model; None for none."""
    limiter: int | None = None
    """Where the gateway's proxy asks the platform's limiter; None where it does not run, and then requests pass."""
    activator: int | None = None
    """Where it asks the platform's activator; the same."""
    picker: int | None = None
    """Where it asks the platform's endpoint picker; the same."""


def gateway_servers(snapshot: MeshSnapshot) -> list[tuple[MeshObject, MeshObject]]:
    """(Gateway, server) of every plain HTTP server."""
    found = [(item, server) for item in snapshot.of_kind("Gateway") for server in item["spec"].get("servers") or ()]
    return [(item, server) for item, server in found if server["port"]["protocol"] in {"HTTP", "HTTP2", "GRPC"}]


def route_name(kind: str, port: int) -> str:
    return f"{kind}-{port}"


def gateway_listener(
    snapshot: MeshSnapshot, item: MeshObject, port: int, ports: ListenerPorts, folder: str, keys: Mapping[str, str]
) -> EnvoyMessage:
    """One port of a Gateway, with what its namespace says about tokens, callers and rates."""
    labels, namespace = item["spec"].get("selector") or {}, item["metadata"]["namespace"]
    tokens = snapshot.selecting("RequestAuthentication", namespace, labels)
    claimed = security.claimed_headers(tokens)
    verify = security.authentication(tokens, keys)
    filters = [
        *([_dropping(claimed)] if claimed else []),
        *([verify] if verify else []),
        *security.authorization(security.of_workload(snapshot, namespace, labels)),
        _router(),
    ]
    name = route_name("gateway", port)
    manager = _manager(name, filters, _log(ports.log, {"at": "source"}), rds=folder)
    found = applied(snapshot, namespace, labels)
    made = patches.patched(manager, patches.GATEWAY, port, found)
    return _listener(name, ("127.0.0.1", ports.gateway[port]), made, patches.before_manager(patches.GATEWAY, port, found))


def mesh_listener(snapshot: MeshSnapshot, port: int, ports: ListenerPorts, folder: str) -> EnvoyMessage:
    """Where a caller inside the mesh reaches a Service's port: the sidecar of nobody in particular."""
    name = route_name("mesh", port)
    manager = _manager(name, [_router()], _log(ports.log, {"at": "source"}), rds=folder)
    found = [item for item in snapshot.of_kind("EnvoyFilter") if item["metadata"]["namespace"] == MESH_NAMESPACE]
    made = patches.patched(manager, patches.OUTBOUND, port, found)
    return _listener(name, ("127.0.0.1", ports.mesh[port]), made, patches.before_manager(patches.OUTBOUND, port, found))


def sidecar(snapshot: MeshSnapshot, pod: MeshObject, port: int, ip: str, cluster: str, ports: ListenerPorts) -> EnvoyMessage:
    """The sidecar of one pod before one of its ports."""
    metadata = pod["metadata"]
    labels, namespace = metadata.get("labels") or {}, metadata["namespace"]
    name = f"inbound-{namespace}-{metadata['name']}-{port}"
    said = {"at": "destination", "namespace": namespace, "pod": metadata["name"], "workload": workload(pod)}
    filters = [*security.authorization(security.of_workload(snapshot, namespace, labels)), _router()]
    # As istiod: what a server's closing connection did not take is asked again.
    action = {"cluster": cluster, "timeout": "0s", "retry_policy": {"retry_on": "reset-before-request", "num_retries": 2}}
    routes = {
        "name": name,
        "validate_clusters": False,
        "virtual_hosts": [{"name": "inbound", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": action}]}],
    }
    manager = _manager(name, filters, _log(ports.log, said), routes=routes)
    # As istiod: only where requests enter are their ids made anew.
    manager["use_remote_address"] = False
    manager["access_log"] += _samples(snapshot, pod, ports)
    found = applied(snapshot, namespace, labels)
    made = patches.patched(manager, patches.INBOUND, port, found)
    made["access_log"] = [each for log in made["access_log"] if (each := _of_pod(log, metadata)) is not None]
    return _listener(name, (ip, port + INBOUND_OFFSET), made, patches.before_manager(patches.INBOUND, port, found))


def _of_pod(log: EnvoyMessage, metadata: MeshObject) -> EnvoyMessage | None:
    """A logger of a pod's proxy. One Envoy stands for all proxies, so what it counts for a pod is told by it, as the scrape tells it of the
    pod's own page. None where that page would not show it, or with other edges: a pod's annotations decide both."""
    if log["name"] != stats_log.NAME:
        return log
    told = metadata.get("annotations") or {}
    if any(told.get(key) != value for key, value in replica_measures.annotations().items()):
        return None
    of_pod = [{"name": key, "value_format": metadata[own]} for key, own in (("namespace", "namespace"), ("pod", "name"))]
    kept = copy.deepcopy(log)
    for each in (*kept["typed_config"].get("histograms", ()), *kept["typed_config"].get("counters", ())):
        each["stat"]["tags"] += of_pod
    return kept


def _samples(snapshot: MeshSnapshot, pod: MeshObject, ports: ListenerPorts) -> Iterator[EnvoyMessage]:
    """The logs of samples that a Telemetry object asks of the pod's proxy, which reaches the collector only where its Sidecar imports it.
    What else such objects say has no effect here."""
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    if not imports_of(snapshot, pod, MONITORING_NAMESPACE, host_of(COLLECTOR, MONITORING_NAMESPACE)):
        return
    for item in snapshot.selecting("Telemetry", metadata["namespace"], labels) if ports.samples else ():
        for entry in item["spec"].get("accessLogging") or ():
            if SAMPLES_PROVIDER in {each["name"] for each in entry.get("providers") or ()}:
                path = f"{ports.samples}/{metadata['namespace']}.{labels[MODEL]}.jsonl"
                text = f"{SAMPLE.replace(_OWN_WORKLOAD, workload(pod))}\n"
                kept = {"@type": _CEL_TYPE, "expression": entry["filter"]["expression"]}
                yield {
                    "name": "envoy.access_loggers.file",
                    "filter": {"extension_filter": {"name": "envoy.access_loggers.extension_filters.cel", "typed_config": kept}},
                    "typed_config": {"@type": _LOG_TYPE, "path": path, "log_format": {"text_format_source": {"inline_string": text}}},
                }


def workload(pod: MeshObject) -> str:
    """The Deployment of a pod, by the name of its ReplicaSet; a pod without one is its own."""
    owner = next((each["name"] for each in pod["metadata"].get("ownerReferences") or () if each["kind"] == "ReplicaSet"), None)
    return owner.rpartition("-")[0] if owner else pod["metadata"]["name"]


def sidecar_limits(snapshot: MeshSnapshot, pod: MeshObject) -> MeshObject:
    """What the Sidecar object that selects this pod lets through at once."""
    return (_sidecar_of(snapshot, pod).get("inboundConnectionPool") or {}).get("http") or {}


def _sidecar_of(snapshot: MeshSnapshot, pod: MeshObject) -> MeshObject:
    metadata = pod["metadata"]
    for item in snapshot.of_kind("Sidecar"):
        selector = (item["spec"].get("workloadSelector") or {}).get("labels") or {}
        if item["metadata"]["namespace"] == metadata["namespace"] and selector and labels_match(selector, metadata.get("labels") or {}):
            return item["spec"]
    return {}


def imports_of(snapshot: MeshSnapshot, pod: MeshObject, namespace: str, host: str) -> bool:
    """Whether the proxy of a pod has a cluster for the Service `host` of `namespace`."""
    return imports(_sidecar_of(snapshot, pod), pod["metadata"]["namespace"], namespace, host)


def imports(sidecar: MeshObject, own: str, namespace: str, host: str) -> bool:
    """Whether a proxy of namespace `own` with this Sidecar's spec has a cluster for the Service `host` of `namespace`: of all without one,
    else of what its egress names as `namespace/dnsName` (pilot/pkg/model/sidecar.go of Istio 1.31, `convertIstioListenerToWrapper`).
    """
    named = [name.partition("/") for each in sidecar.get("egress") or () for name in each.get("hosts") or ()]
    if not sidecar.get("egress"):
        return True
    return any(
        (own if place == "." else place) in (namespace, "*") and (dns in ("*", host) or (dns.startswith("*.") and host.endswith(dns[1:])))
        for place, _, dns in named
    )


def applied(snapshot: MeshSnapshot, namespace: str, labels: MeshObject) -> list[MeshObject]:
    """EnvoyFilters that apply to a workload, in istiod's order: by priority, then the root's first, then by age and
    name."""
    found = snapshot.selecting("EnvoyFilter", namespace, labels)
    return sorted(
        found,
        key=lambda item: (
            int(item["spec"].get("priority", 0)),
            item["metadata"]["namespace"] != MESH_NAMESPACE,
            item["metadata"].get("creationTimestamp") or "",
            item["metadata"]["name"],
        ),
    )


def _listener(name: str, place: tuple[str, int], manager: EnvoyMessage, before: Iterable[EnvoyMessage]) -> EnvoyMessage:
    typed = {"@type": _MANAGER_TYPE, **manager}
    return {
        "name": name,
        "address": address(*place),
        "filter_chains": [{"filters": [*before, {"name": patches.MANAGER, "typed_config": typed}]}],
    }


def _manager(
    name: str, filters: Sequence[EnvoyMessage], log: EnvoyMessage, *, rds: str | None = None, routes: EnvoyMessage | None = None
) -> EnvoyMessage:
    """The HTTP connection manager of a listener, with its routes inline or read from the folder `rds`."""
    found: EnvoyMessage = {
        "stat_prefix": name,
        "codec_type": "AUTO",
        "http_filters": list(filters),
        "access_log": [log],
        "use_remote_address": True,
        # As istiod, where the mesh asks for DECODE_AND_MERGE_SLASHES (`components/addons/istio.py` does).
        "normalize_path": True,
        "merge_slashes": True,
        "path_with_escaped_slashes_action": "UNESCAPE_AND_FORWARD",
        "stream_idle_timeout": "0s",  # as istiod
        "upgrade_configs": [{"upgrade_type": "websocket"}],  # as istiod
    }
    if routes is not None:
        return {**found, "route_config": routes}
    source = {"path": f"{rds}/{name}.json", "watched_directory": {"path": rds}}
    return {**found, "rds": {"route_config_name": name, "config_source": {"resource_api_version": "V3", "path_config_source": source}}}


def _router() -> EnvoyMessage:
    return {"name": patches.ROUTER, "typed_config": {"@type": _ROUTER_TYPE}}


def _dropping(headers: Iterable[str]) -> EnvoyMessage:
    """What a client sends under the name of a verified claim is dropped before tokens are read."""
    mutations = {"request_mutations": [{"remove": name} for name in headers]}
    return {"name": "headway.claimed_headers", "typed_config": {"@type": _DROP_TYPE, "mutations": mutations}}


def _log(path: str, said: Mapping[str, str]) -> EnvoyMessage:
    fields = {**LOG_FIELDS, **said}
    return {
        "name": "envoy.access_loggers.file",
        "typed_config": {"@type": _LOG_TYPE, "path": path, "log_format": {"json_format": dict(sorted(fields.items()))}},
    }
