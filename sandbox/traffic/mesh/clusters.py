"""Services and DestinationRules as Envoy's clusters, ready replicas as their endpoints, as istiod writes them. Pure.

Mutual TLS is not modelled, because everything here is one process on loopback: `tls: ISTIO_MUTUAL` is accepted and has
no effect, so what a wrong certificate does to traffic cannot be learnt here.
"""

from sandbox.traffic.mesh.object_reader import Reader, duration
from sandbox.traffic.mesh.snapshot import MeshSnapshot, cluster_name, full_host, is_grpc
from sandbox.traffic.mesh.types import EnvoyMessage, MeshObject

_POLICY = {"tls", "loadBalancer", "connectionPool", "outlierDetection", "retryBudget"}
_BALANCERS = {"LEAST_REQUEST": "LEAST_REQUEST", "ROUND_ROBIN": "ROUND_ROBIN", "RANDOM": "RANDOM", "UNSPECIFIED": "LEAST_REQUEST"}
_UNLIMITED = 4_294_967_295
_HTTP2 = {
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
}


def check(item: MeshObject) -> Reader:
    """Everything in a DestinationRule that is not modelled."""
    reader, spec = Reader.of(item), item["spec"]
    reader.only(spec, "spec", {"host", "trafficPolicy"})
    policy = spec.get("trafficPolicy") or {}
    path = "spec.trafficPolicy"
    reader.only(policy, path, _POLICY)
    tls = policy.get("tls") or {}
    reader.only(tls, f"{path}.tls", {"mode"})
    if tls:
        reader.choice(tls.get("mode"), f"{path}.tls.mode", {"ISTIO_MUTUAL", "DISABLE"})
    balancer = policy.get("loadBalancer") or {}
    reader.only(balancer, f"{path}.loadBalancer", {"simple", "warmup", "consistentHash"})
    reader.only(balancer.get("warmup") or {}, f"{path}.loadBalancer.warmup", {"duration"})
    reader.only(balancer.get("consistentHash") or {}, f"{path}.loadBalancer.consistentHash", {"httpHeaderName"})
    if "simple" in balancer:
        reader.choice(balancer["simple"], f"{path}.loadBalancer.simple", _BALANCERS)
    pool = policy.get("connectionPool") or {}
    reader.only(pool, f"{path}.connectionPool", {"tcp", "http"})
    reader.only(pool.get("tcp") or {}, f"{path}.connectionPool.tcp", {"connectTimeout", "maxConnections"})
    known = {"http1MaxPendingRequests", "http2MaxRequests", "maxRequestsPerConnection", "maxRetries", "idleTimeout"}
    reader.only(pool.get("http") or {}, f"{path}.connectionPool.http", known)
    known = {"consecutive5xxErrors", "consecutiveGatewayErrors", "interval", "baseEjectionTime", "maxEjectionPercent", "minHealthPercent"}
    reader.only(policy.get("outlierDetection") or {}, f"{path}.outlierDetection", known)
    reader.only(policy.get("retryBudget") or {}, f"{path}.retryBudget", {"percent", "minRetryConcurrency"})
    return reader


def outbound(snapshot: MeshSnapshot) -> dict[str, EnvoyMessage]:
    """A cluster by name for every port of every Service that a model server has."""
    rules = {
        full_host(item["spec"]["host"], item["metadata"]["namespace"]): item["spec"].get("trafficPolicy") or {}
        for item in snapshot.of_kind("DestinationRule")
    }
    found: dict[str, EnvoyMessage] = {}
    for host, service in sorted(snapshot.services.items()):
        for port in service["spec"]["ports"]:
            name = cluster_name(host, port["port"])
            found[name] = _outbound(name, rules.get(host) or {}, grpc=is_grpc(port))
    return found


def _outbound(name: str, policy: MeshObject, *, grpc: bool) -> EnvoyMessage:
    pool = policy.get("connectionPool") or {}
    tcp, http = pool.get("tcp") or {}, pool.get("http") or {}
    threshold: EnvoyMessage = {
        "max_connections": int(tcp.get("maxConnections") or _UNLIMITED),
        "max_pending_requests": int(http.get("http1MaxPendingRequests") or _UNLIMITED),
        "max_requests": int(http.get("http2MaxRequests") or _UNLIMITED),
        "max_retries": int(http.get("maxRetries") or _UNLIMITED),
        "track_remaining": True,
    }
    if policy.get("retryBudget"):
        threshold["retry_budget"] = _budget(policy["retryBudget"])
    cluster: EnvoyMessage = {
        "name": name,
        "type": "EDS",
        "connect_timeout": duration(tcp.get("connectTimeout", "10s")),
        "circuit_breakers": {"thresholds": [threshold]},
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        **_balancer(policy.get("loadBalancer") or {}),
    }
    options: EnvoyMessage = {}
    if grpc:
        options = {key: dict(value) for key, value in _HTTP2.items()}
    common: EnvoyMessage = {}
    if http.get("maxRequestsPerConnection"):
        common["max_requests_per_connection"] = int(http["maxRequestsPerConnection"])
    if http.get("idleTimeout"):
        common["idle_timeout"] = duration(http["idleTimeout"])
    if common:
        key = next(iter(_HTTP2))
        options.setdefault(key, {"@type": _HTTP2[key]["@type"], "explicit_http_config": {"http_protocol_options": {}}})
        options[key]["common_http_protocol_options"] = common
    if options:
        cluster["typed_extension_protocol_options"] = options
    if policy.get("outlierDetection"):
        cluster["outlier_detection"] = _ejection(policy["outlierDetection"])
        cluster["common_lb_config"]["healthy_panic_threshold"] = {"value": float(policy["outlierDetection"].get("minHealthPercent", 0))}
    return cluster


def _budget(given: MeshObject) -> EnvoyMessage:
    """As istiod, whose share where none is given is a fifth of a percent."""
    percent, least = given.get("percent"), int(given.get("minRetryConcurrency") or 0)
    return {"budget_percent": {"value": 0.2 if percent is None else float(percent)}, "min_retry_concurrency": least or 3}


def _balancer(given: MeshObject) -> EnvoyMessage:
    if (given.get("consistentHash") or {}).get("httpHeaderName"):
        return {"lb_policy": "RING_HASH"}
    policy = _BALANCERS[given.get("simple", "LEAST_REQUEST")]
    warm = (given.get("warmup") or {}).get("duration")
    slow = {"slow_start_config": {"slow_start_window": duration(warm)}} if warm else {}
    if policy == "LEAST_REQUEST":
        return {"lb_policy": policy, **({"least_request_lb_config": slow} if slow else {})}
    if policy == "ROUND_ROBIN":
        return {"lb_policy": policy, **({"round_robin_lb_config": slow} if slow else {})}
    return {"lb_policy": policy}


def _ejection(given: MeshObject) -> EnvoyMessage:
    found: EnvoyMessage = {"always_eject_one_host": False}
    errors, gateway = given.get("consecutive5xxErrors"), given.get("consecutiveGatewayErrors")
    # As istiod: a threshold that is not given is not enforced; without any, Envoy's own five are.
    found |= {"consecutive_5xx": errors, "enforcing_consecutive_5xx": 100} if errors else {}
    found |= {"consecutive_gateway_failure": gateway, "enforcing_consecutive_gateway_failure": 100} if gateway else {}
    found["enforcing_success_rate"] = 0
    for ours, theirs in (("interval", "interval"), ("baseEjectionTime", "base_ejection_time")):
        if given.get(ours):
            found[theirs] = duration(given[ours])
    if given.get("maxEjectionPercent") is not None:
        found["max_ejection_percent"] = int(given["maxEjectionPercent"])
    return found


def assignment(snapshot: MeshSnapshot, host: str, port: int) -> EnvoyMessage:
    """The endpoints of one cluster: the sidecars of its ready replicas."""
    found = snapshot.endpoints(host, port)
    return {
        "cluster_name": cluster_name(host, port),
        "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(*each)}} for each in found]}] if found else [],
    }


def inbound(name: str, place: tuple[str, int], limits: MeshObject, *, grpc: bool) -> EnvoyMessage:
    """The cluster of a sidecar: its own server, and what the Sidecar object lets through at once."""
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "10s",
        "circuit_breakers": {
            "thresholds": [
                {
                    "max_connections": _UNLIMITED,
                    "max_pending_requests": int(limits.get("http1MaxPendingRequests") or _UNLIMITED),
                    "max_requests": int(limits.get("http2MaxRequests") or _UNLIMITED),
                    "max_retries": _UNLIMITED,
                    "track_remaining": True,
                }
            ]
        },
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(*place)}}]}],
        },
        **({"typed_extension_protocol_options": {key: dict(value) for key, value in _HTTP2.items()}} if grpc else {}),
    }


def address(host: str, port: int) -> EnvoyMessage:
    return {"socket_address": {"address": host, "port_value": port}}
