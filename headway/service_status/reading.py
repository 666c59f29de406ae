"""Asks an environment's API server and Prometheus what its model services do now. Reads, and changes nothing.

A person of a team may read the team's namespace alone, so one service is asked for there; what only the whole cluster
tells (nodes, and which GPUs others use) is asked for where a replica waits for a node, and left out where it may not be
read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from headway.environment.kubernetes import KubernetesApi, Object
from headway.environment.port import OutOfReachError
from headway.problem import ODD, Exit, UserError
from headway.release.driver.live_service import LiveRoute, route_of
from headway.service_status.promises import Promise
from headway.service_status.replicas import ServiceStatus, service_of, services
from headway.wire import MODEL

_LINKS = {"dashboard": "dashboard_url", "logs": "logs_url", "runbook": "team_runbook_url"}
"""What a service's alerts link (annotations of its PrometheusRule), by the name that people are shown."""
_INSIDE = ".svc.cluster.local"


@dataclass(frozen=True, kw_only=True)
class ServiceView:
    """One service as it is now."""

    tenant: str
    model: str
    addresses: tuple[str, ...] = ()
    """Names at which applications reach it."""
    weights: Mapping[str, int] | None = None
    """Percent of requests by arm on the live route; None where there is no route that can be read."""
    copies: int = 0
    """Percent of requests that are copied to the new version."""
    arms: tuple[ServiceStatus, ...] = ()
    promises: tuple[Promise, ...] = ()
    links: Mapping[str, str]

    @property
    def chain(self) -> str:
        return f"{self.tenant}/{self.model}"

    @property
    def ready(self) -> bool:
        """Whether something serves, and all that is wanted is there."""
        return bool(self.arms) and all(arm.ready >= arm.wanted for arm in self.arms) and any(arm.ready for arm in self.arms)


def read(
    api: KubernetesApi, chains: Sequence[str], promises: Iterable[Promise] = (), *, restart_hint: str, alone: bool = False
) -> tuple[ServiceView, ...]:
    """The services of the cluster, and those of `chains` that it lacks; `alone`: only the one that `chains` names. Raises
    UserError where the API server does not answer, or does not allow it."""
    try:
        return _read(api, chains, tuple(promises), alone)
    except OutOfReachError as failure:
        raise UserError(
            f"The API server does not answer ({failure}).", "Nothing can be said of services and replicas.", restart_hint
        ) from None
    except UserError as refusal:
        if refusal.exit is not Exit.REFUSED:
            raise
        raise UserError(
            refusal.fact,
            "Services cannot be shown.",
            "Name one of your own services, or use an identity that may read all of them.",
            Exit.REFUSED,
        ) from None


def _read(api: KubernetesApi, chains: Sequence[str], promises: Sequence[Promise], alone: bool) -> tuple[ServiceView, ...]:
    where, selector = "", MODEL
    if alone:
        tenant, _, model = chains[0].partition("/")
        where, selector = f"/namespaces/{tenant}", f"{MODEL}={model}"
    query = urlencode({"labelSelector": selector})

    def listed(group: str, kind: str) -> list[Object]:
        return api.items(f"{group}{where}/{kind}?{query}")

    deployments, pods = listed("/apis/apps/v1", "deployments"), listed("/api/v1", "pods")
    routes = _by_service(listed("/apis/networking.istio.io/v1", "virtualservices"))
    rules = _by_service(listed("/apis/monitoring.coreos.com/v1", "prometheusrules"))
    events = api.items(f"/api/v1{where}/events") if alone else []
    nodes, others = _cluster(api) if any(not pod.get("spec", {}).get("nodeName") for pod in pods) else ([], [])
    found = services(deployments, [*pods, *_without(others, pods)], nodes, events)
    known = sorted({*chains, *(f"{each.tenant}/{each.model}" for each in found)}) if not alone else list(chains)
    return tuple(_view(chain, found, routes, rules, promises) for chain in known)


def _view(
    chain: str,
    found: Sequence[ServiceStatus],
    routes: Mapping[str, Object],
    rules: Mapping[str, Object],
    promises: Sequence[Promise],
) -> ServiceView:
    tenant, _, model = chain.partition("/")
    route = routes.get(chain)
    live = _live(route) if route else None
    return ServiceView(
        tenant=tenant,
        model=model,
        addresses=tuple(name for name in (route or {}).get("spec", {}).get("hosts", ()) if not name.endswith(_INSIDE)),
        weights={key: weight.whole_percent for key, weight in live.weights.items()} if live else None,
        copies=live.copies.whole_percent if live and live.mirrored else 0,
        arms=tuple(each for each in found if (each.tenant, each.model) == (tenant, model)),
        promises=tuple(each for each in promises if each.chain == chain),
        links=_links(rules.get(chain)),
    )


def _live(route: Object) -> LiveRoute | None:
    """Tenants' deployers write routes: one that is like none of ours hides no other."""
    try:
        return route_of(route)
    except ODD:
        return None


def _links(rules: Object | None) -> dict[str, str]:
    """What the service's own alerts link, the first that has each."""
    annotations = [rule.get("annotations", {}) for group in (rules or {}).get("spec", {}).get("groups", ()) for rule in group["rules"]]
    found = {name: next((each[key] for each in annotations if key in each), "") for name, key in _LINKS.items()}
    return {name: address for name, address in found.items() if address}


def _cluster(api: KubernetesApi) -> tuple[list[Object], list[Object]]:
    """Nodes and all pods; nothing for who may not read them."""
    try:
        return api.items("/api/v1/nodes"), api.items("/api/v1/pods")
    except UserError:
        return [], []


def _without(others: Iterable[Object], pods: Iterable[Object]) -> list[Object]:
    """Pods of no model service: they are no replicas, and use GPUs all the same."""
    mine = {_place(pod) for pod in pods}
    return [pod for pod in others if _place(pod) not in mine]


def _place(thing: Mapping[str, Any]) -> tuple[str, str]:
    head = thing["metadata"]
    return str(head.get("namespace", "")), str(head["name"])


def _by_service(things: Iterable[Object]) -> dict[str, Object]:
    whose = ((service_of(thing["metadata"], thing["metadata"].get("labels") or {}), thing) for thing in things)
    return {"/".join(service): thing for service, thing in whose if service}
