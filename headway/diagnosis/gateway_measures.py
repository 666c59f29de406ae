"""What is asked of a service's requests where they come in, of the gateway's proxies themselves, and of the limiter that they ask.

Names and flags are those of Istio's "Standard metrics" and Envoy's "Response flags"; what begins with `envoy_` the platform has Istio's
proxies emit (`EMITTED` of components/addons/istio.py, components/platform/gateway_measures.py). How long the mesh's authority is valid says
istiod (security/pkg/server/ca/monitoring.go of istio/istio). Sizes are those of the bodies, packed as they came.
The sandbox's gateway and limiter are processes of its machine: of their CPU quota, the limiter's own proxy and an istiod nothing is measured.
"""

from headway.diagnosis.measure import ANSWERED, NEVER_ZERO, FigureUnit, Sight, mean, share
from headway.diagnosis.measure import measure as _of
from headway.wire import (
    DOOR,
    GATEWAY_NAMESPACE,
    GATEWAY_STATISTICS,
    MESH_NAMESPACE,
    RATE_LIMIT_NAMESPACE,
    REPEATED_REQUESTS,
    WORKED_ATTEMPTS,
    WORKED_BYTES,
    WORKED_REQUESTS,
)

_MALFORMED = 'response_code=~"400|404|405|411|413|415|422"'
"""What a caller has to write otherwise. 404 comes from a server that has no such path: of a host without a route nobody knows whose it is."""
_PROXIES = f'namespace="{GATEWAY_NAMESPACE}",container="istio-proxy"'
_LIMITER = f'reporter="destination",destination_service_namespace="{RATE_LIMIT_NAMESPACE}"'


def _counted(name: str) -> str:
    return f"sum(rate(envoy_{GATEWAY_STATISTICS}_{name}{{$named}}[$window]))"


ALL = (
    _of("requests", "requests", FigureUnit.PER_SECOND, "sum(rate(istio_requests_total{$gateway}[$window]))"),
    _of(
        "latency",
        "mean time of an answer at the gateway",
        FigureUnit.SECONDS,
        mean("istio_request_duration_milliseconds_sum", "istio_request_duration_milliseconds_count", " / 1e3", f"$gateway,{ANSWERED}"),
    ),
    _of("errors", "answers with a server error", FigureUnit.SHARE, share("$gateway", 'response_code=~"5.."')),
    _of("unreached", "requests that no replica answered", FigureUnit.SHARE, share("$gateway", 'response_flags=~".*(UF|UH|URX|UC).*"')),
    _of("late", "requests that ran out of time", FigureUnit.SHARE, share("$gateway", 'response_flags=~".*UT.*"')),
    # Not the end of UMSDR.
    _of(
        "left", "requests whose callers left before the answer", FigureUnit.SHARE, share("$gateway", 'response_flags=~"(.+,)?D[CR](,.+)?"')
    ),
    _of(
        "overflow",
        "requests that found too many open",
        FigureUnit.SHARE,
        # A replica's own proxy enforces the limit (`replica_limit` of components/model_service/routing.py): the gateway sees a plain 503.
        share("$replicas", 'response_flags=~".*UO.*"'),
    ),
    _of(
        "pool_overflow",
        "requests that could not wait for a connection at the gateway",
        FigureUnit.SHARE,
        # Also what may not be asked again because too much is (`Filter::maybeRetryReset` and others of source/common/router/router.cc of Envoy).
        share("$gateway", 'response_flags="UO"'),
    ),
    _of(
        "refused_there",
        "requests of which a replica's own server took no connection",
        FigureUnit.SHARE,
        share("$replicas", 'response_flags=~"(.+,)?UF(,.+)?"'),
    ),
    _of("limited", "requests refused as too many (429)", FigureUnit.SHARE, share("$gateway", 'response_code="429"')),
    _of("unproven", "requests refused for their token (401)", FigureUnit.SHARE, share("$gateway", 'response_code="401"')),
    _of("forbidden", "requests refused as not allowed (403)", FigureUnit.SHARE, share("$gateway", 'response_code="403"')),
    _of("malformed", "requests refused for what is in them (4xx)", FigureUnit.SHARE, share("$gateway", _MALFORMED)),
    _of(
        "malformed_by_pod",
        "requests refused for what is in them (4xx)",
        FigureUnit.SHARE,
        f"(sum $by (rate(istio_requests_total{{$replicas,{_MALFORMED}}}[$window])) or 0 * sum $by (rate(istio_requests_total{{$replicas}}[$window])))"
        f" / clamp_min(sum $by (rate(istio_requests_total{{$replicas}}[$window])), {NEVER_ZERO})",
        Sight.POD,
    ),
    _of("request_size", "bytes of a request", FigureUnit.BYTES, f"{_counted(WORKED_BYTES)} / ({_counted(WORKED_REQUESTS)} > 0)"),
    _of(
        "attempts",
        "times that the gateway asks a replica for each request",
        FigureUnit.COUNT,
        f"{_counted(WORKED_ATTEMPTS)} / ({_counted(WORKED_REQUESTS)} > 0)",
    ),
    _of(
        "repeated",
        "requests of which callers say that they ask again",
        FigureUnit.SHARE,
        f"({_counted(REPEATED_REQUESTS)} or 0 * {_counted(WORKED_REQUESTS)})"
        f" / clamp_min(sum(rate(istio_requests_total{{$gateway}}[$window])), {NEVER_ZERO})",
    ),
    # The recorded rate, for it is that of every service of the environment.
    _of("neighbours", "requests to other tenants", FigureUnit.PER_SECOND, 'sum(headway:request_rate{source="mesh",$others})'),
    _of(
        "gateway_throttled",
        "scheduling periods in which the CPU quota of the gateway's proxies was used up",
        FigureUnit.SHARE,
        mean("container_cpu_cfs_throttled_periods_total", "container_cpu_cfs_periods_total", where=_PROXIES),
    ),
    _of(
        "gateway_closed",
        "connections that the gateway closed as too many",
        FigureUnit.PER_SECOND,
        # A proxy that extracts Envoy's default tags has the filter's name there.
        f'sum(rate({{__name__=~"envoy_connection_limit_({DOOR}_)?limited_connections"}}[$window]))',
    ),
    _of(
        "gateway_overloaded",
        "proxies of the gateway that take no more requests, for their memory is full",
        FigureUnit.SHARE,
        "avg(envoy_overload_envoy_overload_actions_stop_accepting_requests_active)",
    ),
    _of(
        "limiter",
        "mean time of the limiter's answer, for which each request waits",
        FigureUnit.SECONDS,
        mean("istio_request_duration_milliseconds_sum", "istio_request_duration_milliseconds_count", " / 1e3", _LIMITER),
    ),
    _of(
        "limiter_ready",
        "pods of the limiter, or of what keeps its counts, that are available",
        FigureUnit.COUNT,
        f'min(kube_deployment_status_replicas_available{{namespace="{RATE_LIMIT_NAMESPACE}"}})',
    ),
    _of(
        "mesh_authority_left",
        "for which the mesh's own authority is still valid",
        FigureUnit.SECONDS,
        f'min({{__name__=~"citadel_server_(root_cert|cert_chain)_expiry_seconds",namespace="{MESH_NAMESPACE}"}})',
    ),
)
