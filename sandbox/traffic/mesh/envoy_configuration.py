"""The whole configuration of the one Envoy, from a snapshot of the cluster. Pure; the same snapshot gives the same
bytes.

`compile_` also answers what was refused: an object with anything that is not modelled is left out whole, and its last
accepted version stays in force (`accepted`). Envoy takes files one by one; `Configuration` is divided so that writing
endpoints and clusters before routes, and dropping clusters after them, never routes to a cluster that is not there.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from components.platform import activator, endpoint_picker, limiter
from sandbox.traffic.mesh import clusters, listeners, patches, routes, security
from sandbox.traffic.mesh.listeners import MESH_PORTS, ListenerPorts
from sandbox.traffic.mesh.object_reader import Reader, UnsupportedField
from sandbox.traffic.mesh.snapshot import MeshSnapshot, cluster_name, is_grpc
from sandbox.traffic.mesh.types import EnvoyMessage, MeshObject
from sandbox.traffic.pod_addresses import loopback

_SIDECAR = {"workloadSelector", "inboundConnectionPool", "egress"}


@dataclass(frozen=True, kw_only=True)
class EnvoyConfiguration:
    """What Envoy reads: listeners and clusters by name, route tables by name, endpoints by cluster."""

    listeners: Mapping[str, EnvoyMessage]
    clusters: Mapping[str, EnvoyMessage]
    routes: Mapping[str, EnvoyMessage]
    endpoints: Mapping[str, EnvoyMessage]


def judge(snapshot: MeshSnapshot) -> Mapping[str, list[UnsupportedField]]:
    """What is refused, by uid of the object."""
    checks: Mapping[str, Callable[[MeshObject], Reader]] = {
        "AuthorizationPolicy": security.check_authorization,
        "DestinationRule": clusters.check,
        "EnvoyFilter": patches.check,
        "Gateway": _check_gateway,
        "RequestAuthentication": security.check_authentication,
        "Sidecar": _check_sidecar,
        "VirtualService": routes.check,
    }
    found: dict[str, list[UnsupportedField]] = {}
    for kind, check in checks.items():
        for item in snapshot.of_kind(kind):
            refused = check(item).refusals
            if refused:
                found[item["metadata"]["uid"]] = refused
    return found


def compile_(snapshot: MeshSnapshot, ports: ListenerPorts, folder: str, keys: Mapping[str, str]) -> EnvoyConfiguration:
    """The configuration of Envoy; `folder` is where its files lie, `keys` the key sets of issuers."""
    made_listeners: dict[str, EnvoyMessage] = {}
    made_routes: dict[str, EnvoyMessage] = {}
    made_clusters = clusters.outbound(snapshot)
    asked = (
        (activator.CLUSTER, ports.activator, False),
        (endpoint_picker.CLUSTER, ports.picker, True),
        (limiter.CLUSTER, ports.limiter, True),
    )
    for name, port, grpc in asked:
        if port is not None:
            made_clusters[name] = clusters.inbound(name, ("127.0.0.1", port), {}, grpc=grpc)
    rds = f"{folder}/{listeners.RDS_FOLDER}"
    for item, server in listeners.gateway_servers(snapshot):
        port = server["port"]["number"]
        if port in ports.gateway:
            name = listeners.route_name("gateway", port)
            made_listeners[name] = listeners.gateway_listener(snapshot, item, port, ports, rds, keys)
            gateway = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
            table = _gateway_routes(name, gateway, server["hosts"], port, snapshot)
            filters = listeners.applied(snapshot, item["metadata"]["namespace"], item["spec"].get("selector") or {})
            made_routes[name] = {**table, "virtual_hosts": patches.patched_hosts(table["virtual_hosts"], filters)}
    for port in sorted(set(MESH_PORTS) & set(ports.mesh)):
        name = listeners.route_name("mesh", port)
        made_listeners[name] = listeners.mesh_listener(snapshot, port, ports, rds)
        made_routes[name] = _mesh_routes(name, port, snapshot)
    for pod in snapshot.served_pods():
        ip, limits = loopback(pod["status"]["podIP"]), listeners.sidecar_limits(snapshot, pod)
        for port in pod["spec"]["containers"][0].get("ports") or ():
            number = port["containerPort"]
            if number in MESH_PORTS:
                name = f"inbound|{number}|{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                made_clusters[name] = clusters.inbound(name, (ip, number), limits, grpc=is_grpc(port))
                listener = listeners.sidecar(snapshot, pod, number, ip, name, ports)
                made_listeners[listener["name"]] = listener
    endpoints = {
        cluster_name(host, port["port"]): clusters.assignment(snapshot, host, port["port"])
        for host, service in snapshot.services.items()
        for port in service["spec"]["ports"]
    }
    for name, cluster in made_clusters.items():
        if cluster["type"] == "EDS":
            cluster["eds_cluster_config"] = {"eds_config": _file(f"{folder}/endpoints", f"{file_name(name)}.json")}
    return EnvoyConfiguration(
        listeners=dict(sorted(made_listeners.items())),
        clusters=dict(sorted(made_clusters.items())),
        routes=dict(sorted(made_routes.items())),
        endpoints=dict(sorted(endpoints.items())),
    )


def file_name(cluster: str) -> str:
    """A cluster's name as that of a file."""
    return cluster.replace("|", "_").replace("/", "_")


def _file(folder: str, name: str) -> EnvoyMessage:
    return {"resource_api_version": "V3", "path_config_source": {"path": f"{folder}/{name}", "watched_directory": {"path": folder}}}


def response(kind: str, resources: Iterable[EnvoyMessage], version: str) -> str:
    """The text of one file that Envoy watches."""
    types = {
        "clusters": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "endpoints": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "listeners": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "routes": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
    }
    found = [{"@type": types[kind], **resource} for resource in resources]
    return json.dumps({"version_info": version, "resources": found}, sort_keys=True)


def _gateway_routes(name: str, gateway: str, served: Iterable[str], port: int, snapshot: MeshSnapshot) -> EnvoyMessage:
    hosts: dict[str, list[EnvoyMessage]] = {}
    names: dict[str, str] = {}
    for item in snapshot.of_kind("VirtualService"):
        if gateway in routes.gateways(item):
            for host in routes.hosts(item):
                if any(_serves(pattern, host) for pattern in served) and host not in hosts:
                    hosts[host] = routes.routes(item, gateway, port, snapshot)
                    names[host] = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
    return _table(name, {host: found for host, found in hosts.items() if found})


def _mesh_routes(name: str, port: int, snapshot: MeshSnapshot) -> EnvoyMessage:
    """VirtualServices of the mesh; a Service without one is reached as it is."""
    hosts: dict[str, list[EnvoyMessage]] = {}
    for host, service in snapshot.services.items():
        if any(each["port"] == port for each in service["spec"]["ports"]):
            action = {"cluster": cluster_name(host, port), "timeout": "0s", "retry_policy": routes.retries(None)}
            hosts[host] = [{"name": "default", "match": {"prefix": "/"}, "route": action}]
    for item in snapshot.of_kind("VirtualService"):
        if routes.MESH in routes.gateways(item):
            found = routes.routes(item, routes.MESH, port, snapshot)
            for host in routes.hosts(item):
                if found:
                    hosts[host] = found
    return _table(name, hosts)


def _table(name: str, hosts: Mapping[str, list[EnvoyMessage]]) -> EnvoyMessage:
    virtual = [{"name": host, "domains": [host], "routes": found} for host, found in sorted(hosts.items())]
    # As istiod: the port in a request's host does not matter here, and every filter sees it.
    return {"name": name, "validate_clusters": False, "ignore_port_in_host_matching": True, "virtual_hosts": virtual}


def _serves(pattern: str, host: str) -> bool:
    """Whether a Gateway's host (perhaps with its namespace before a slash) covers a VirtualService's."""
    wanted = pattern.rpartition("/")[2]
    return wanted in ("*", host) or (wanted.startswith("*.") and host.endswith(wanted[1:]))


def _check_gateway(item: MeshObject) -> Reader:
    reader = Reader.of(item)
    reader.only(item["spec"], "spec", {"selector", "servers"})
    for number, server in enumerate(item["spec"].get("servers") or ()):
        path = f"spec.servers[{number}]"
        reader.only(server, path, {"port", "hosts", "tls", "name"})
        reader.only(server["port"], f"{path}.port", {"name", "number", "protocol"})
        if server["port"]["protocol"] not in {"HTTP", "HTTP2", "GRPC", "HTTPS"}:
            reader.refuse(f"{path}.port.protocol", f"{server['port']['protocol']} is not modelled here")
        if server["port"]["protocol"] != "HTTPS" and server.get("tls"):
            reader.refuse(f"{path}.tls", "no redirect to HTTPS is done here: nothing listens there")
    return reader


def _check_sidecar(item: MeshObject) -> Reader:
    reader, spec = Reader.of(item), item["spec"]
    reader.only(spec, "spec", _SIDECAR)
    for number, each in enumerate(spec.get("egress") or ()):
        reader.only(each, f"spec.egress[{number}]", {"hosts"})
    pool = spec.get("inboundConnectionPool") or {}
    reader.only(pool, "spec.inboundConnectionPool", {"http"})
    reader.only(pool.get("http") or {}, "spec.inboundConnectionPool.http", {"http1MaxPendingRequests", "http2MaxRequests"})
    return reader
