"""How requests reach a release: host-level weights between the arms' Services, and what a proxy in front of each
replica enforces.

Weights stand in one VirtualService that names whole Services, never subsets: changing a subset's labels and the
weights at once loses requests (argoproj/argo-rollouts#4775). The trap: a DestinationRule's breaker sits in the
caller's proxy, which never retries its own overflow elsewhere; so the limit of a replica is enforced by the
replica's own proxy, whose 503 callers may act on.
"""

from collections.abc import Iterator
from typing import Any

from components.addons import otel
from components.envoy_filter import PRIORITY, envoy_filter, http_filter, lua, manager
from components.labels import labels, selector
from components.manifests import object_
from components.model_service import sampling, triton
from components.model_service.release import Release
from components.model_service.workload import arm_name, arm_selector
from components.naming import physical
from components.platform import replica_measures
from components.platform.boundaries import MOST_RETRIES, RETRIABLE_HEADERS
from components.tenant.surroundings import Surroundings
from headway.contract.batching import NoBatching
from headway.contract.model import Model
from headway.contract.runtime import Triton, Vllm
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficSplit
from headway.wire import (
    ARTIFACT_CACHE_NAMESPACE,
    CLASS_HEADER,
    DEGRADE_HEADER,
    DEGRADED_HEADER,
    EXPERIMENT_HEADER,
    GRPC_SUFFIX,
    MESH_NAMESPACE,
    PRIORITY_HEADER,
    RELEASE_HEADER,
    SPLIT_ROUTE,
    WEIGHTS_ROUTE,
)

UNREACHED_HEADER = "x-model-unreached"
"""Set by a replica's own proxy on its 503 when it got no connection to its server: the model has seen nothing of
this request.
"""
RETRY_ON = "connect-failure,refused-stream,reset-before-request,retriable-headers"
"""Only what no model has seen: a retry of a computation doubles the load of a server that is already slow, and takes
a request that kills its server to the next one. Never `503` or `unavailable`: full servers say those themselves.
"""
RETRIES_AT_ONCE_PERCENT, RETRIES_AT_ONCE = 20, 10
"""Of what an arm is asked at the moment, by one proxy; and what is always allowed."""

EJECT_AFTER_ERRORS = 5
EJECT_INTERVAL_SECONDS, EJECT_SECONDS, EJECT_PERCENT = 10, 30, 50
"""A replica whose GPU or model has failed answers 500 within milliseconds and so draws load; half of the replicas
always stay.
"""
PENDING_REQUESTS = 1024
"""Loose on purpose: the replica's own limit acts first."""


def host(tenant: str, service: str) -> str:
    return f"{service}.{tenant}.svc.cluster.local"


def virtual_service(tenant: str, model: Model, split: TrafficSplit, surroundings: Surroundings, fallback: str | None) -> dict[str, Any]:
    """The stable route. Arms that are asked for by name come first, so that a dark release can be tried before it
    has any weight.
    """
    timeout = f"{int(model.envelope.largest_request.timeout) // 1000}ms"
    again: dict[str, Any] = {
        "timeout": timeout,
        "retries": {"attempts": MOST_RETRIES, "retryOn": RETRY_ON},
        "headers": {"request": {"set": {RETRIABLE_HEADERS: UNREACHED_HEADER}}},
    }
    routes: list[dict[str, Any]] = [
        {
            "name": f"by-release-{arm.key}",
            "match": [{"gateways": ["mesh"], "headers": {RELEASE_HEADER: {"exact": arm.key}}}],
            "route": [_destination(tenant, model, arm, None)],
            "timeout": timeout,
            # Whoever names a release wants to know how it answers; without a policy of its own a route gets the mesh's.
            "retries": {"attempts": 0},
        }
        for arm in split.ordered
    ]
    if fallback is not None:
        routes += [{**route, **again} for route in _degraded(tenant, model, fallback)]
    stable: dict[str, Any] = {
        "name": WEIGHTS_ROUTE,
        "route": [_destination(tenant, model, arm, arm.weight.whole_percent) for arm in split.ordered],
        **again,
    }
    canary = split.arm(ArmRole.CANARY)
    if split.user_split is not None and canary is not None:
        # At the gateway only: whoever calls from inside the mesh is in no experiment, whatever header it sends.
        marked = {"gateways": [surroundings.gateway], "headers": {EXPERIMENT_HEADER: {"exact": split.user_split.experiment}}}
        led = _destination(tenant, model, canary, None)
        routes.append({**stable, "name": SPLIT_ROUTE, "match": [marked], "route": [_without(EXPERIMENT_HEADER, led)]})
    if split.mirror is not None:
        shadow = next(arm for arm in split.ordered if arm.release == split.mirror.release and arm.role is not ArmRole.BASELINE)
        stable["mirror"] = {"host": host(tenant, arm_name(model.name, shadow))}
        stable["mirrorPercentage"] = {"value": float(split.mirror.share.whole_percent)}
    return object_(
        "networking.istio.io/v1",
        "VirtualService",
        model.name,
        namespace=tenant,
        labels=labels("route", tenant=tenant, model=model.name),
        spec={
            "hosts": [host(tenant, model.name), *surroundings.public_hosts(tenant, model.name)],
            "gateways": ["mesh", surroundings.gateway],
            "http": [each for route in (*routes, stable) for each in _by_protocol(route, model)],
        },
    )


def _degraded(tenant: str, model: Model, fallback: str) -> Iterator[dict[str, Any]]:
    """The route to the fallback, for requests of the priorities that may move."""
    if model.degradation.fallback is None:
        return
    yield {
        "name": "degraded",
        "match": [
            {"headers": {DEGRADE_HEADER: {"exact": model.name}, PRIORITY_HEADER: {"exact": priority.value}}}
            for priority in sorted(model.degradation.fallback.priorities)
        ],
        "route": [{"destination": {"host": host(tenant, fallback)}, "headers": {"response": {"set": {DEGRADED_HEADER: model.name}}}}],
    }


def _by_protocol(route: dict[str, Any], model: Model) -> list[dict[str, Any]]:
    """One route for each protocol of the server: gRPC by its content type, everything else as HTTP.

    A destination without a port leads to the only port of its Service, else to the port that the request came in by
    (istiod's GetDestinationCluster): at the gateway that is 80 or 443, where a Service with two ports has nothing.
    """
    if not isinstance(model.runtime, Triton):
        return [route]
    grpc = {"content-type": {"prefix": "application/grpc"}}
    matches = [{**match, "headers": {**match.get("headers", {}), **grpc}} for match in route.get("match", ({},))]
    return [
        {**_at_port(route, triton.GRPC_PORT), "name": f"{route['name']}{GRPC_SUFFIX}", "match": matches},
        _at_port(route, triton.HTTP_PORT),
    ]


def _at_port(route: dict[str, Any], port: int) -> dict[str, Any]:
    number = {"port": {"number": port}}
    led = [{**each, "destination": {**each["destination"], **number}} for each in route["route"]]
    return {**route, "route": led, **({"mirror": {**route["mirror"], **number}} if "mirror" in route else {})}


def _destination(tenant: str, model: Model, arm: TrafficArm, weight: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "destination": {"host": host(tenant, arm_name(model.name, arm))},
        "headers": {"response": {"set": {RELEASE_HEADER: arm.key}}},
    }
    return found if weight is None else {**found, "weight": weight}


def _without(header: str, led: dict[str, Any]) -> dict[str, Any]:
    """The same destination, which is not told of `header`."""
    return {**led, "headers": {**led["headers"], "request": {"remove": [header]}}}


def destination_rule(tenant: str, arm: TrafficArm, model: Model) -> dict[str, Any]:
    """How callers choose among the replicas of an arm, and when they stop choosing one."""
    name = arm_name(model.name, arm)
    return object_(
        "networking.istio.io/v1",
        "DestinationRule",
        name,
        namespace=tenant,
        labels=labels("route", tenant=tenant, model=model.name, release=arm.release),
        spec={
            "host": host(tenant, name),
            "trafficPolicy": {
                "tls": {"mode": "ISTIO_MUTUAL"},
                "loadBalancer": {"simple": "LEAST_REQUEST", "warmup": {"duration": "30s"}},
                "connectionPool": {
                    "tcp": {"connectTimeout": "1s"},
                    "http": {"http1MaxPendingRequests": PENDING_REQUESTS, "maxRequestsPerConnection": 0},
                },
                "outlierDetection": {
                    "consecutive5xxErrors": EJECT_AFTER_ERRORS,
                    "interval": f"{EJECT_INTERVAL_SECONDS}s",
                    "baseEjectionTime": f"{EJECT_SECONDS}s",
                    "maxEjectionPercent": EJECT_PERCENT,
                    "minHealthPercent": 0,
                },
                # A share that is left out is a fifth of a percent to istiod, not a fifth.
                "retryBudget": {"percent": float(RETRIES_AT_ONCE_PERCENT), "minRetryConcurrency": RETRIES_AT_ONCE},
            },
        },
    )


def requests_at_once(model: Model) -> int:
    """What one replica takes at the same time before its proxy says 503: where it counts as overloaded, or less
    where it must.
    """
    at_most = model.degradation.overload_at
    return min(at_most, model.batching.max_concurrent) if isinstance(model.batching, NoBatching) else at_most


def replica_limit(tenant: str, arm: TrafficArm, release: Release, *, artifact_cache: bool = False) -> dict[str, Any]:
    """The proxy of each replica: how many requests it lets through at once, and whom the replica may call.

    The proxy itself has no cluster but of these, and tells nobody else what it saw: traces, lines and samples to a collector that is left
    out are lost without a word (istio/istio#53701; `BuildClusters` in pilot/pkg/networking/core/cluster.go of 1.31).
    """
    model = release.model
    most = requests_at_once(model)
    called = ["./*", *([f"{ARTIFACT_CACHE_NAMESPACE}/*"] if artifact_cache else []), f"{MESH_NAMESPACE}/*", f"{otel.NAMESPACE}/{otel.HOST}"]
    return object_(
        "networking.istio.io/v1",
        "Sidecar",
        arm_name(model.name, arm),
        namespace=tenant,
        labels=labels("limit", tenant=tenant, model=model.name, release=arm.release),
        spec={
            "workloadSelector": {"labels": arm_selector(tenant, model.name, arm)},
            "inboundConnectionPool": {"http": {"http1MaxPendingRequests": most, "http2MaxRequests": most}},
            "egress": [{"hosts": called}],
        },
    )


def guard(tenant: str, model: Model) -> dict[str, Any]:
    """What no other object of the mesh can say: the largest body, who is told to come back later when a replica is
    full, and which requests the model has not seen; and of language models, what a proxy measures of their tokens.

    An overflow answers 503; for the priorities that the contract rejects, and for what was sent here instead of to
    another model, it becomes 429. Both say when to come back. A server that takes no connection answers 503 with a
    header by which callers' proxies ask elsewhere.
    """
    filters = [_UNPACK, _buffer(int(model.envelope.largest_request.body))]
    if model.rollout.classes:
        filters.append(_classifier(model))
    if (sampled := sampling.keeper(tenant, model)) is not None:
        filters.append(sampled)
    measured: dict[str, Any] = {}
    if isinstance(model.runtime, Vllm):
        classes = bool(model.rollout.classes)
        filters.append(lua(replica_measures.STATE, replica_measures.script(classes=classes)))
        measured = {"access_log": replica_measures.access_log(classes=classes)}
    replies = {"local_reply_config": {"mappers": [*_full(model), _UNREACHED]}, **measured}
    return envoy_filter(
        model.name,
        [*(http_filter(_INBOUND, "INSERT_BEFORE", each) for each in filters), manager(_INBOUND, replies)],
        namespace=tenant,
        workload=selector(tenant=tenant, model=model.name),
        labels=labels("limit", tenant=tenant, model=model.name),
        priority=PRIORITY,
    )


def _buffer(most: int) -> dict[str, Any]:
    """Refuses a larger body."""
    typed = {"@type": "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer", "max_request_bytes": most}
    return {"name": "envoy.filters.http.buffer", "typed_config": typed}


def _classifier(model: Model) -> dict[str, Any]:
    """Writes the class of a request by the size of its body, which the buffer before it knows; whatever was there is
    replaced.
    """
    sized = [c for c in model.rollout.classes if c.body_up_to is not None]
    last = model.rollout.classes[-1].name
    choice = "".join(f'size <= {int(c.body_up_to or 0)} and "{c.name}" or ' for c in sized) + f'"{last}"'
    code = (
        "function envoy_on_request(handle)\n"
        '  local size = tonumber(handle:headers():get("content-length") or 0)\n'
        f'  handle:headers():replace("{CLASS_HEADER}", {choice})\n'
        "end\n"
    )
    return lua("envoy.filters.http.lua", code)


_INBOUND = "SIDECAR_INBOUND"
_GZIP = "type.googleapis.com/envoy.extensions.compression.gzip.decompressor.v3.Gzip"
_UNPACK: dict[str, Any] = {
    "name": "envoy.filters.http.decompressor",
    "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.decompressor.v3.Decompressor",
        "decompressor_library": {"name": "gzip", "typed_config": {"@type": _GZIP}},
        "request_direction_config": {"advertise_accept_encoding": False},
        # Answers are left as they are. Envoy asks for the name of a switch, which nobody sets.
        "response_direction_config": {"common_config": {"enabled": {"default_value": False, "runtime_key": "headway.unpack_answers"}}},
    },
}
"""Unpacks a body before its size is judged; else the server would, a thousandfold. A piece that unpacks to more than a
hundred times its size is cut off (`max_inflate_ratio`), and then the server finds no request in it. The gateway lets
no other coding through (`components/platform/gateway_scripts.py`).
"""

_UNREACHED: dict[str, Any] = {
    "filter": {"response_flag_filter": {"flags": ["UF"]}},
    "headers_to_add": [{"header": {"key": UNREACHED_HEADER, "value": "true"}}],
}
"""The ResponseMapper of a server that takes no connection (flag UF)."""


def _full(model: Model) -> list[dict[str, Any]]:
    """ResponseMappers of a full replica (flag UO), the first that fits: 429 where the ladder ends, 503 else; each
    says when to come back.
    """
    overflow = {"response_flag_filter": {"flags": ["UO"]}}
    ends = [_header(PRIORITY_HEADER, string_match={"exact": priority.value}) for priority in sorted(model.degradation.reject)]
    # Sent here because another model is overloaded: there is no further rung.
    ends.append(_header(DEGRADE_HEADER, present_match=True))
    last = {"filter": {"and_filter": {"filters": [overflow, ends[0] if len(ends) == 1 else {"or_filter": {"filters": ends}}]}}}
    wait = {"headers_to_add": [{"header": {"key": "retry-after", "value": str(model.degradation.retry_after.whole_seconds)}}]}
    return [{**last, "status_code": 429, **wait}, {"filter": overflow, **wait}]


def _header(name: str, **match: Any) -> dict[str, Any]:
    return {"header_filter": {"header": {"name": name, **match}}}


def stable_service_selector(tenant: str, model: Model, split: TrafficSplit) -> dict[str, str]:
    """Whoever bypasses the mesh reaches the arm that has most of the traffic, and never a dark one."""
    return arm_selector(tenant, model.name, split.primary)


def configuration_name(model: Model, release: Release, digest: str) -> str:
    return physical(model.name, release.id, digest)
