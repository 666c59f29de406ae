"""The live route and the replicas of one service, in its cluster: what the driver reads and patches without waiting for the stack.

The route is patched in the name of its owner, so that the stack finds its own object with other weights and nobody fights over fields
(server-side apply, https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts). The trap: an apply takes away what its
manager no longer says; so it says everything that the object says now.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from headway.contract.labels import MODEL, POOL, PREFIX, RELEASE, TENANT
from headway.contract.pool import Pool
from headway.release.driver.api import MANAGER, Api
from headway.release.driver.world import OutOfReachError, Route
from headway.release.ledger.division import BASELINE, STABLE, Division, Portion
from headway.release.plan import Room

WATCHED_UNTIL = f"{PREFIX}/watched-until"
"""Annotation of a route: until when a runner has promised to look. Past that, the dead man's switch acts."""
SAFE_RELEASE = f"{PREFIX}/safe-release"
"""Annotation of a route: the release that all traffic goes to then."""
ARM = f"{PREFIX}/arm"
RELEASE_HEADER = "x-model-release"
WEIGHTS = "weights"
"""Name of the route's entry that divides users' requests."""
WEIGHED = (WEIGHTS, "weights-grpc")
"""Rules that carry the weights: a server of two protocols has one for each, always alike."""
SIMULATED_NODE = "kwok.x-k8s.io/node"
SERVED_POD = "sandbox.platform.io/address"
"""Annotation of a pod that is a real process although its node is simulated."""
ROUTES = "/apis/networking.istio.io/v1/namespaces/{}/virtualservices"
_UNLIMITED = 1_000_000


class Cluster:
    """One service in a cluster."""

    def __init__(self, api: Api, tenant: str, model: str) -> None:
        self._api, self._tenant, self._model = api, tenant, model

    # -- the route -------------------------------------------------------------------------------------------------------------

    def route(self) -> Route:
        """The live route; no weights where there is no route. Raises OutOfReachError."""
        live = self._api.get(self._route_path())
        return route_of(live) if live else Route(weights={})

    def patch(self, division: Division) -> None:
        """Give the live route the weights and copies of `division`, whose arms it must name. Raises OutOfReachError."""
        live = self._api.get(self._route_path())
        if live is None:
            raise OutOfReachError(f"there is no route {self._model} in {self._tenant}")
        patch(self._api, live, division)

    def vouch(self, until: datetime | None, safe: str) -> None:
        """Write on the route until when it is watched; None takes that away. Raises OutOfReachError."""
        text = until.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z") if until else None
        body = {"metadata": {"annotations": {WATCHED_UNTIL: text, SAFE_RELEASE: safe if until else None}}}
        self._api.request("PATCH", self._route_path(), {"fieldManager": MANAGER}, body, "application/merge-patch+json")

    # -- replicas --------------------------------------------------------------------------------------------------------------

    def unready(self, division: Division) -> Sequence[str]:
        """What is not ready yet, in words, by arm. Raises OutOfReachError."""
        deployments = self._list("/apis/apps/v1/namespaces/{}/deployments")
        scaled = {s["metadata"]["name"] for s in self._list("/apis/keda.sh/v1alpha1/namespaces/{}/scaledobjects") if _scaling(s)}
        pods = self._list("/api/v1/namespaces/{}/pods")
        return tuple(said for portion in division.portions if (said := _lacking(portion, deployments, scaled, pods)))

    def simulated(self, release: str) -> bool:
        """Whether replicas of `release` run on nodes that only pretend to run anything. Raises OutOfReachError."""
        pods = [p for p in self._list("/api/v1/namespaces/{}/pods") if p["metadata"]["labels"].get(RELEASE) == release]
        pods = [p for p in pods if SERVED_POD not in (p["metadata"].get("annotations") or {})]
        names = sorted({str(p["spec"].get("nodeName")) for p in pods if p["spec"].get("nodeName")})
        nodes = [self._api.get(f"/api/v1/nodes/{name}") for name in names]
        return any(SIMULATED_NODE in (node or {}).get("metadata", {}).get("annotations", {}) for node in nodes)

    def room(self, pool: Pool, resource: str, each: int, stable: str, *, grows: bool) -> Room:
        """What the pool can hold, in replicas that take `each` of `resource`; `grows` counts nodes that an autoscaler would add."""
        nodes = self._api.items(f"/api/v1/nodes?{urlencode({'labelSelector': f'{POOL}={pool.name}'})}")
        pods = self._api.items("/api/v1/pods")
        quotas = self._api.items(f"/api/v1/namespaces/{self._tenant}/resourcequotas")
        deployments = self._list("/apis/apps/v1/namespaces/{}/deployments")
        running = sum(_count(d) for d in deployments if _is(d, stable, STABLE))
        free, warm = spare(nodes, pods, resource, each)
        more = max(0, pool.max_nodes - len(nodes)) * (pool.resources_per_node.get(resource, 0) // each) if grows else 0
        priority = next((str(d["spec"]["template"]["spec"].get("priorityClassName", "")) for d in deployments), "")
        allowed = granted(quotas, resource, each, priority)
        return Room(replicas=max(1, running), free=min(free + more, allowed), warm=min(warm, max(0, allowed - free - more)))

    # -- requests --------------------------------------------------------------------------------------------------------------

    def _route_path(self) -> str:
        return f"{ROUTES.format(self._tenant)}/{self._model}"

    def _list(self, path: str) -> list[dict[str, Any]]:
        """Objects of the service, by its labels; none of a kind that the cluster does not know."""
        selector = urlencode({"labelSelector": f"{MODEL}={self._model},{TENANT}={self._tenant}"})
        return self._api.items(f"{path.format(self._tenant)}?{selector}")

    def _items(self, path: str) -> list[dict[str, Any]]:
        return (self._api.get(path) or {}).get("items", [])


def route_of(live: Mapping[str, Any]) -> Route:
    """What a VirtualService of ours says: arms by the header that tells clients which release answered."""
    entry = _weights_entry(live)
    arms = {_key(d): d for d in entry.get("route", ())}
    percent = entry.get("mirrorPercentage", {}).get("value", 100.0) if entry.get("mirror") else 0.0
    return Route(
        weights={key: int(d.get("weight", 100)) for key, d in arms.items()},
        hosts={key: _service(d["destination"]["host"]) for key, d in arms.items()},
        mirrored=_service(entry["mirror"]["host"]) if entry.get("mirror") else None,
        copies=float(percent),
    )


def patch(api: Api, live: Mapping[str, Any], division: Division) -> None:
    """Give the route `live` the weights of `division`. Raises OutOfReachError."""
    head = live["metadata"]
    path = f"{ROUTES.format(head['namespace'])}/{head['name']}"
    api.request("PATCH", path, {"fieldManager": owner(live), "force": "true"}, applied(live, division), "application/apply-patch+yaml")


def applied(live: Mapping[str, Any], division: Division) -> dict[str, Any]:
    """The object as its owner would apply it with the weights of `division`; arms that it does not name get nothing."""
    if not _weights_entry(live):
        raise OutOfReachError("the live route has no weights")
    rules = [_weighted(rule, division) if rule.get("name") in WEIGHED else rule for rule in live["spec"]["http"]]
    head = live["metadata"]
    kept = {key: value for key, value in (head.get("annotations") or {}).items() if key not in (WATCHED_UNTIL, SAFE_RELEASE)}
    return {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {
            "name": head["name"],
            "namespace": head["namespace"],
            **({"labels": head["labels"]} if head.get("labels") else {}),
            **({"annotations": kept} if kept else {}),
        },
        "spec": {**live["spec"], "http": rules},
    }


def _weighted(rule: Mapping[str, Any], division: Division) -> dict[str, Any]:
    """One rule with the weights and copies of `division`."""
    targets, shares = {_key(d): d["destination"] for d in rule["route"]}, division.routes
    entry = {key: value for key, value in rule.items() if key not in ("mirror", "mirrorPercentage")}
    entry["route"] = [{**d, "weight": shares.get(_key(d), 0)} for d in rule["route"]]
    if sum(d["weight"] for d in entry["route"]) != 100:
        raise OutOfReachError("the live route does not name every arm that should get requests")
    if division.mirrored and division.mirrored in targets:
        entry |= {"mirror": dict(targets[division.mirrored]), "mirrorPercentage": {"value": float(division.copies)}}
    return entry


def owner(live: Mapping[str, Any]) -> str:
    """Who applies the object's spec; ourselves where nobody does."""
    entries = live["metadata"].get("managedFields") or ()
    return next((e["manager"] for e in entries if e.get("operation") == "Apply" and "f:spec" in e.get("fieldsV1", {})), MANAGER)


def spare(nodes: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]], resource: str, each: int) -> tuple[int, int]:
    """Replicas that fit on what nobody uses, and more that fit on what pods of negative priority hold, node by node."""
    used: dict[str, int] = {}
    yielding: dict[str, int] = {}
    for pod in pods:
        node, phase = pod["spec"].get("nodeName"), pod.get("status", {}).get("phase")
        if node and phase not in ("Succeeded", "Failed"):
            place = yielding if int(pod["spec"].get("priority") or 0) < 0 else used
            place[node] = place.get(node, 0) + _wants(pod, resource)
    free = both = 0
    for node in nodes:
        conditions = node.get("status", {}).get("conditions", ())
        if node["spec"].get("unschedulable") or not any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
            continue
        name, total = node["metadata"]["name"], int(node["status"].get("allocatable", {}).get(resource, 0))
        left = total - used.get(name, 0)
        free += max(0, left - yielding.get(name, 0)) // each
        both += max(0, left) // each
    return free, both - free


def granted(quotas: Sequence[Mapping[str, Any]], resource: str, each: int, priority: str) -> int:
    """Replicas of priority class `priority` that the namespace's quotas still allow."""
    left = [
        (int(hard) - int(quota.get("status", {}).get("used", {}).get(key, 0))) // each
        for quota in quotas
        if _concerns(quota, priority)
        for key, hard in quota.get("status", {}).get("hard", {}).items()
        if key == f"requests.{resource}"
    ]
    return max(0, min(left)) if left else _UNLIMITED


def _concerns(quota: Mapping[str, Any], priority: str) -> bool:
    """Whether a quota counts pods of this priority class. One that is scoped by anything else does not count model servers."""
    scopes = (quota.get("spec", {}).get("scopeSelector") or {}).get("matchExpressions", ())
    if quota.get("spec", {}).get("scopes"):
        return False
    return all(
        s["scopeName"] == "PriorityClass" and (s["operator"] == "Exists" or (s["operator"] == "In" and priority in s.get("values", ())))
        for s in scopes
    )


def _wants(pod: Mapping[str, Any], resource: str) -> int:
    return sum(int(c.get("resources", {}).get("requests", {}).get(resource, 0)) for c in pod["spec"].get("containers", ()))


def _lacking(portion: Portion, deployments: Sequence[Mapping[str, Any]], scaled: set[str], pods: Sequence[Mapping[str, Any]]) -> str | None:
    found = next((d for d in deployments if _is(d, portion.release, portion.arm)), None)
    who = f"{portion.arm} ({portion.key})"
    if found is None:
        return f"{who}: there is no Deployment"
    status, wanted = found.get("status", {}), int(found["spec"].get("replicas", 1))
    if found["metadata"]["name"] in scaled:
        # Nobody else scales: a cluster without the autoscaler keeps what the Deployment says.
        wanted = max(wanted, portion.replicas or portion.at_least or 0)
    ready = int(status.get("readyReplicas") or 0)
    seen = int(status.get("observedGeneration") or 0) >= int(found["metadata"].get("generation") or 0)
    if seen and ready >= wanted and int(status.get("updatedReplicas") or 0) >= wanted:
        return None
    return f"{who}: {ready} of {wanted} replicas ready{_reasons(portion, pods)}"


def _reasons(portion: Portion, pods: Sequence[Mapping[str, Any]]) -> str:
    said: set[str] = set()
    for pod in pods:
        if pod["metadata"]["labels"].get(RELEASE) != portion.release or _baseline(pod["metadata"]["labels"]) != (portion.arm == BASELINE):
            continue
        for condition in pod.get("status", {}).get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] != "True" and condition.get("message"):
                said.add(condition["message"])
    return f" ({'; '.join(sorted(said))})" if said else ""


def _is(deployment: Mapping[str, Any], release: str, arm: str) -> bool:
    picks = deployment["spec"]["selector"]["matchLabels"]
    return picks.get(RELEASE) == release and _baseline(picks) == (arm == BASELINE)


def _baseline(labels: Mapping[str, str]) -> bool:
    return labels.get(ARM) == BASELINE


def _count(deployment: Mapping[str, Any]) -> int:
    return int(deployment["spec"].get("replicas", 1))


def _scaling(scaled: Mapping[str, Any]) -> bool:
    return bool(scaled.get("status", {}).get("hpaName"))


def _weights_entry(live: Mapping[str, Any]) -> dict[str, Any]:
    return next((dict(r) for r in live["spec"].get("http", ()) if r.get("name") == WEIGHTS), {})


def _key(destination: Mapping[str, Any]) -> str:
    return str(destination["headers"]["response"]["set"][RELEASE_HEADER])


def _service(host: str) -> str:
    return host.partition(".")[0]
