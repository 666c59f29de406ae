"""Reads what a diagnosis needs: series from Prometheus, objects from the API server, releases from the ledger. Reads, and changes nothing.

Each source may be away: what it would have said is then a blindness, by name, and the rest goes on. A question to Prometheus is a
subquery at one moment, so all of its answers lie on the same grid.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlencode

from headway.diagnosis import changes, commits, states, triage, way_states
from headway.diagnosis.facts import CLOCKS_SECONDS, Blindness, Change, ChangeKind, ServedSettings, State
from headway.diagnosis.measure import HOST, Sight
from headway.diagnosis.measures import MEASURES, query
from headway.diagnosis.observed import Observed
from headway.diagnosis.other_tenants import numbered
from headway.diagnosis.reasoning import CLUSTER, COMMITS, METRICS, REQUESTS
from headway.diagnosis.unseen import unseen
from headway.environment.port import OutOfReachError
from headway.ledger.events import Event
from headway.ledger.serving import released
from headway.ledger.store import MissingStoreError, UnreachableError
from headway.problem import ODD, UserError
from headway.release.driver.following import followed
from headway.release.driver.rollout_state import ServiceState, fold
from headway.release.evidence.prometheus import Prometheus, UnansweredError
from headway.release.evidence.samples import TimedValue
from headway.release.service_place import ServicePlace
from headway.signals.definition import GATEWAY_JOB
from headway.wire import GATEWAY_NAMESPACE, MODEL

SCRAPES_A_STEP = 4
"""A rate survives one missed scrape."""
LEAST_STEP = 10.0
"""Seconds: of less there are too few requests."""
SPAN_SECONDS = 3600.0
"""How far back one looks for the beginning who says nothing else."""

_ANSWER_SECONDS = 30.0
"""For one question, which asks for an hour of every measure."""
_NAMED = "headway_measure"
"""The label by which series of one answer are told apart."""

_CERTIFICATES = f"/apis/cert-manager.io/v1/namespaces/{GATEWAY_NAMESPACE}/certificates"
"""None where cert-manager is not installed, for the secret is then somebody's own."""
_GATEWAYS = f"/apis/networking.istio.io/v1/namespaces/{GATEWAY_NAMESPACE}/gateways"

_Answer = TypeVar("_Answer")


UNREAD = (UserError, OutOfReachError, UnansweredError, UnreachableError, MissingStoreError)
"""What a source raises that is away."""


def why_unread(failure: Exception) -> str:
    return f"{failure.fact} {failure.remedy}" if isinstance(failure, UserError) else str(failure)


@dataclass
class _Collected:
    blind: list[Blindness] = field(default_factory=list[Blindness])

    def heard(self, what: str, ask: Callable[[], _Answer], otherwise: _Answer) -> _Answer:
        try:
            return ask()
        except UNREAD as failure:
            self.blind.append(Blindness(what=what, why=why_unread(failure)))
        except ODD as failure:
            self.blind.append(Blindness(what=what, why=f"something there is not as it should be ({type(failure).__name__}: {failure})"))
        return otherwise


def gather(here: ServicePlace, *, at: float, since: float, look: Callable[[], Sequence[Event]] | None = None) -> Observed:
    """Everything about one service from `at` - `since` to `at`, in Unix seconds and seconds. `look`: reads its releases' chain, for who has
    read it already."""
    collected = _Collected()
    step = max(SCRAPES_A_STEP * here.port.scrape_seconds, LEAST_STEP)
    hosts: dict[str, str] = {}
    series = collected.heard(METRICS, lambda: _measured(here, collected, at, since, step, hosts), {})
    if not any(each.what == METRICS for each in collected.blind) and "requests" not in series:
        collected.blind.append(Blindness(what=REQUESTS, why="the gateway's proxies are not read, or not all of them"))
    collected.blind += unseen(series)
    releases = collected.heard("releases", lambda: fold(look()) if look else followed(here.ledger()).look(), None)
    found, written = _cluster(here, collected, at, hosts, releases)
    settings: Mapping[str, ServedSettings] = {}
    if releases is not None:
        found += tuple(changes.held(releases.running))
        written += tuple(changes.of_releases(releases))
        settings = collected.heard("contracts of releases", lambda: _settings(here, releases), {})
    written += collected.heard(COMMITS, lambda: _commits(here, at, since), ())
    return Observed(
        tenant=here.tenant,
        model=here.model,
        at=at,
        step=step,
        series=series,
        states=tuple(each for each in found if each.since is None or each.repeats or each.since <= at + CLOCKS_SECONDS),
        changes=written,
        hosts=hosts,
        settings=settings,
        blind=tuple(collected.blind),
    )


def _settings(here: ServicePlace, releases: ServiceState) -> Mapping[str, ServedSettings]:
    contents = changes.serving_contents(releases)
    return {name: changes.settings_of(released(here.store, here.chain, content)) for name, content in contents.items()}


def _commits(here: ServicePlace, at: float, since: float) -> tuple[Change, ...]:
    """Also those of the hour before: they are applied later."""
    if here.checkout is None:
        raise OutOfReachError("there is no checkout here, so who changed a contract or the environment in place is not known")
    return commits.of_checkout(here.checkout, here.environment, here.tenant, here.model, since=at - since - 3600.0, until=at)


def suspects(here: Sequence[ServicePlace], *, at: float, since: float) -> tuple[ServicePlace, ...]:
    """Those of an environment's services that are worth a whole look; all of them where that cannot be asked of all at once. A release that
    a person holds is asked of each ledger."""
    if not here:
        return ()
    step = max(SCRAPES_A_STEP * here[0].port.scrape_seconds, LEAST_STEP)
    collected = _Collected()
    named = collected.heard(METRICS, lambda: _suspected(here[0], at, since, step), set[str]())
    items, of_models = here[0].port.kubernetes.items, urlencode({"labelSelector": MODEL})
    deployments = collected.heard(CLUSTER, lambda: items(f"/apis/apps/v1/deployments?{of_models}"), [])
    if not collected.blind:
        named |= collected.heard(CLUSTER, lambda: _placed(items, of_models, deployments, at), set[str]())
    if collected.blind:
        return tuple(here)
    if collected.heard("certificates", partial(_invalid, items, (), at), ()):
        return tuple(here)
    routes = collected.heard("routes", lambda: _routes(items(f"/apis/networking.istio.io/v1/virtualservices?{of_models}"), deployments), {})
    unheard = True  # a ledger that does not answer leaves its service in
    return tuple(each for each in here if each.chain in named or collected.heard("releases", partial(_off, each, routes), unheard))


def _suspected(here: ServicePlace, at: float, since: float, step: float) -> set[str]:
    client = Prometheus(here.endpoints()[0], timeout_seconds=_ANSWER_SECONDS)
    try:
        if not _gateway_is_read(client, at):
            raise UnansweredError("the gateway's proxies are not read, or not all of them")
        return triage.measured(partial(_latest, client, at), f"{step * 5:.0f}s", f"{since:.0f}s")
    finally:
        client.close()


def _latest(client: Prometheus, at: float, text: str) -> list[tuple[Mapping[str, str], float]]:
    return [(each.labels, each.samples[-1][1]) for each in client.samples(text, at)]


def _placed(items: Callable[[str], list[Any]], of_models: str, deployments: Sequence[Any], at: float) -> set[str]:
    return triage.placed(deployments, items(f"/api/v1/pods?{of_models}"), items("/api/v1/nodes"), at=at)


Routes = Mapping[str, tuple[list[Any], list[Any]]]
"""VirtualServices and Deployments of each service, as `tenant/model`."""


def _routes(*lists: Sequence[Any]) -> Routes:
    found: dict[str, tuple[list[Any], list[Any]]] = {}
    for number, objects in enumerate(lists):
        for each in objects:
            chain = f"{each['metadata'].get('namespace')}/{each['metadata']['labels'][MODEL]}"
            found.setdefault(chain, ([], []))[number].append(each)
    return found


def _off(here: ServicePlace, routes: Routes) -> bool:
    """Whether a person holds a release, or its route is not the ledger's."""
    service = followed(here.ledger()).look()
    if service.running is not None and service.running.frozen is not None:
        return True
    return here.chain in routes and any(way_states.astray(*routes[here.chain], service, here.model))


Series = Mapping[str, Mapping[str, Sequence[TimedValue]]]


def _measured(here: ServicePlace, collected: _Collected, at: float, since: float, step: float, hosts: dict[str, str]) -> Series:
    client = Prometheus(here.endpoints()[0], timeout_seconds=_ANSWER_SECONDS)
    window = f"{step:.0f}s"
    try:
        found: dict[str, dict[str, Sequence[TimedValue]]] = {}
        for sight in Sight:
            these = [each for each in MEASURES.values() if each.sight is sight]
            marked = " or ".join(
                f'label_replace({query(each, here.tenant, here.model, window)}, "{_NAMED}", "{each.name}", "", "")' for each in these
            )
            asked = partial(client.samples, f"({marked})[{since:.0f}s:{window}]", at)
            # Without the service's own there is nothing; what else is too much for one answer is missed alone.
            answer = asked() if sight is Sight.SERVICE else collected.heard(f"metrics by {sight.name.lower()}", asked, [])
            labels = [each.labels.get(sight.value, "") for each in answer]
            named = numbered(labels, (here.tenant,)) if sight is Sight.NEIGHBOUR else {}
            for each, asked_of in zip(answer, labels, strict=True):
                label = named.get(asked_of, asked_of)
                found.setdefault(each.labels[_NAMED], {})[label] = tuple(each.samples)
                if HOST in each.labels:
                    hosts[label] = each.labels[HOST]
        if "requests" not in found and _gateway_is_read(client, at):
            found["requests"] = {"": tuple((moment, 0.0) for moment in (at - since, at))}
        return found
    finally:
        client.close()


def _gateway_is_read(client: Prometheus, at: float) -> bool:
    """Then a service without a series of requests has got none."""
    up = _latest(client, at, f'up{{job="{GATEWAY_JOB}"}}')
    return bool(up) and all(value == 1 for _, value in up)


def _cluster(
    here: ServicePlace, collected: _Collected, at: float, hosts: dict[str, str], releases: ServiceState | None
) -> tuple[tuple[State, ...], tuple[Change, ...]]:
    mine, listed = urlencode({"labelSelector": f"{MODEL}={here.model}"}), here.port.kubernetes.items
    tenant = f"namespaces/{here.tenant}"
    deployments = collected.heard(CLUSTER, lambda: listed(f"/apis/apps/v1/{tenant}/deployments?{mine}"), None)
    if deployments is None:
        return (), ()
    pods = collected.heard("pods", lambda: listed(f"/api/v1/{tenant}/pods?{mine}"), [])
    hosts |= {pod["metadata"]["name"]: node for pod in pods if (node := pod.get("spec", {}).get("nodeName"))}
    events = collected.heard("events", lambda: listed(f"/api/v1/{tenant}/events"), [])
    sets = collected.heard("earlier templates", lambda: listed(f"/apis/apps/v1/{tenant}/replicasets?{mine}"), [])
    quotas = collected.heard("quotas", lambda: listed(f"/api/v1/{tenant}/resourcequotas"), [])
    routes = collected.heard("routes", lambda: listed(f"/apis/networking.istio.io/v1/{tenant}/virtualservices?{mine}"), None)
    nodes = collected.heard("nodes", lambda: listed("/api/v1/nodes"), [])
    others = collected.heard("other pods", lambda: listed("/api/v1/pods"), pods) if _unplaced(pods) else pods

    def written() -> Iterator[Change]:
        yield from changes.of_deployments(deployments, sets, pods)
        yield from changes.by_hand(ChangeKind.QUOTA, quotas)
        yield from changes.by_hand(ChangeKind.ROUTE, routes or ())
        under = states.nodes_of(deployments, pods, nodes)
        yield from changes.by_hand(ChangeKind.NODE, under, field="unschedulable")
        yield from changes.by_hand(ChangeKind.TAINT, under, field="taints")

    stand = collected.heard("objects", lambda: states.states(deployments, pods, nodes, others, events, at=at), ())
    astray: tuple[State, ...] = ()
    if routes is not None and releases is not None:
        astray = collected.heard("releases", lambda: _astray(here, routes, deployments, releases), ())
    invalid = collected.heard("certificates", partial(_invalid, listed, routes or (), at), ())
    return (*stand, *astray, *invalid), collected.heard("changes", lambda: tuple(written()), ())


def _invalid(items: Callable[[str], list[Any]], routes: Sequence[Any], at: float) -> tuple[State, ...]:
    """Certificates of the listeners for the routes' hosts; without routes, of every listener."""
    return tuple(way_states.invalid(items(_CERTIFICATES), way_states.secrets(items(_GATEWAYS), routes), at=at))


def _astray(here: ServicePlace, routes: Sequence[Any], deployments: Sequence[Any], releases: ServiceState) -> tuple[State, ...]:
    """Where the ledger is still as it was before the route was read: a driver writes down what it will do first."""
    strays = tuple(way_states.astray(routes, deployments, releases, here.model))
    return strays if strays and followed(here.ledger()).look().count == releases.count else ()


def _unplaced(pods: Sequence[Mapping[str, Any]]) -> bool:
    return any(not pod.get("spec", {}).get("nodeName") for pod in pods)
