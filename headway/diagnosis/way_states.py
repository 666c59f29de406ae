"""What the live route says against the ledger, and what cert-manager says of the certificates by which callers of a service know the gateway.
Pure; from objects as the API server answers them. A Certificate names its Secret and holds no key (pkg/apis/certmanager/v1/types_certificate.go
of cert-manager), and a listener of a Gateway names one for its hosts (networking/v1alpha3/gateway.proto of istio/api)."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from headway.contract.units import Share
from headway.diagnosis.facts import State, StateKind
from headway.diagnosis.objects import Body, seconds
from headway.problem import ODD, on_one_line
from headway.release.driver.live_service import route_of
from headway.release.driver.rollout_state import ServiceState

_BEING_MADE = 900.0
"""Seconds for which a certificate that was never there may be on its way; a proof in DNS takes minutes."""


def astray(routes: Iterable[Body], deployments: Iterable[Body], service: ServiceState, model: str) -> Iterator[State]:
    """That users are not sent where the ledger says, of one service's VirtualServices and Deployments. Nothing while a change is on its way, or
    of a service that no ledger knows or nobody deployed."""
    arms = {str(each["metadata"]["name"]) for each in deployments}
    if service.split is None or not arms or (service.running is not None and not service.running.settled):
        return
    route = next((each for each in routes if each["metadata"]["name"] == model), None)
    if route is None:
        yield State(kind=StateKind.ROUTE_ASTRAY, subject=model, words="there is no VirtualService, so nobody is sent to it")
        return
    try:
        live = route_of(route)
    except ODD as odd:
        words = f"the VirtualService is like none of the platform's ({type(odd).__name__})"
        yield State(kind=StateKind.ROUTE_ASTRAY, subject=model, words=words, since=_written(route))
        return
    gone = sorted(host for key, host in live.hosts.items() if live.weights.get(key) and host not in arms)
    if gone:
        words = f"users are sent to {on_one_line(', '.join(gone))}, and no Deployment is called so"
    elif not live.carries(service.split):
        words = f"users go to {_said(live.weights)}; the ledger says {_said(service.split.weights)}"
    else:
        return
    yield State(kind=StateKind.ROUTE_ASTRAY, subject=model, words=words, since=_written(route))


def secrets(gateways: Iterable[Body], routes: Iterable[Body]) -> frozenset[str]:
    """Those that listeners name for the hosts of a service's VirtualServices; without a host, those of every listener."""
    hosts = [str(host) for route in routes for host in route["spec"].get("hosts") or ()]
    return frozenset(
        str(named)
        for gateway in gateways
        for server in gateway["spec"].get("servers") or ()
        if (named := (server.get("tls") or {}).get("credentialName"))
        and (not hosts or any(_listens(str(name), host) for name in server.get("hosts") or () for host in hosts))
    )


def _listens(name: str, host: str) -> bool:
    """Whether a listener's name, which may begin with a namespace and `*`, is or ends the host."""
    name = name.rpartition("/")[2]
    return name in ("*", host) or (name.startswith("*.") and host.endswith(name[1:]))


def invalid(certificates: Iterable[Body], secrets: Collection[str], *, at: float) -> Iterator[State]:
    """Of the gateway's namespace and those `secrets`: what is no longer valid, or was ordered and is not there."""
    for each in certificates:
        if each["spec"]["secretName"] not in secrets:
            continue
        status = each.get("status", {})
        ready = next((c for c in status.get("conditions", ()) if c.get("type") == "Ready"), {})
        until, ordered = seconds(status.get("notAfter")), seconds(each["metadata"].get("creationTimestamp"))
        said = (
            f"; cert-manager says {on_one_line(str(ready['message']))}" if ready.get("status") == "False" and ready.get("message") else ""
        )
        if until is not None and until <= at:
            yield State(
                kind=StateKind.CERTIFICATE_INVALID, subject=_name(each), words=f"it was valid until {status['notAfter']}{said}", since=until
            )
        elif until is None and ready.get("status") == "False" and (ordered is None or at - ordered > _BEING_MADE):
            yield State(kind=StateKind.CERTIFICATE_INVALID, subject=_name(each), words=f"nobody has issued it{said}", since=ordered)


def _said(weights: Mapping[str, Share]) -> str:
    """Shares above zero; the parts differ elsewhere where both are equal."""
    return ", ".join(f"{on_one_line(key)} {weight.whole_percent} %" for key, weight in sorted(weights.items()) if weight) or "nobody"


def _written(route: Body) -> float | None:
    """When somebody last wrote its specification."""
    times = (seconds(e.get("time")) for e in route["metadata"].get("managedFields", ()) if "f:spec" in e.get("fieldsV1", {}))
    return max((each for each in times if each is not None), default=None)


def _name(certificate: Body) -> str:
    return str(certificate["metadata"]["name"])
