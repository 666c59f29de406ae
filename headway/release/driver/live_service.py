"""The live route and the replicas of one service, in its cluster: what the driver reads and patches without waiting for
the stack.

The route is patched in the name of its owner, so that the stack finds its own object with other weights and nobody
fights over fields (server-side apply, https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts). The
trap: an apply takes away what its manager no longer says; so it says everything that the object says now. Who read it
and then stood still must not undo what others did meanwhile: each change states the version that it is made of, and the
server refuses it with 409 where there is a newer one (API conventions, "Concurrency Control and Consistency").
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from headway.contract.arithmetic.replica import replica_cpu, replica_memory
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.units import Share
from headway.environment.clock import ClockOffset
from headway.environment.kubernetes import KubernetesApi
from headway.environment.port import OutOfReachError
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficSplit
from headway.problem import ODD
from headway.release.driver.capacity import ReplicaNeeds, available_capacity
from headway.release.driver.golden_answers import CONTAINER
from headway.release.driver.service_under_release import LiveRoute
from headway.release.plan import PoolCapacity
from headway.timestamp import rfc3339
from headway.wire import (
    ARM,
    EXPERIMENT_HEADER,
    GRPC_SUFFIX,
    MODEL,
    POOL,
    RELEASE,
    RELEASE_FIELD_MANAGER,
    RELEASE_HEADER,
    SAFE_RELEASE,
    SPLIT_ROUTE,
    TENANT,
    WATCHED_UNTIL,
    WEIGHTS_ROUTE,
)

LED = (SPLIT_ROUTE, f"{SPLIT_ROUTE}{GRPC_SUFFIX}")
WEIGHED = (WEIGHTS_ROUTE, f"{WEIGHTS_ROUTE}{GRPC_SUFFIX}")
"""Rules that carry the weights: a server of two protocols has one for each, always alike."""
ROUTES = "/apis/networking.istio.io/v1/namespaces/{}/virtualservices"
PULUMI_CREATES = "pulumi-kubernetes"
"""In whose name Pulumi makes an object. It applies in another, which first takes over what is written in this one, not applied (`Creation`
and `fixCSAFieldManagers` in provider/pkg/await/await.go of pulumi-kubernetes, from 4.29): what anybody else had applied would refuse it.
"""


class LiveService:
    """One service in a cluster. `simulated`: the environment's word for which pods only pretend to run."""

    def __init__(
        self, api: KubernetesApi, tenant: str, model: str, simulated: Callable[[Sequence[Mapping[str, Any]]], bool] = lambda _: False
    ) -> None:
        self._api, self._tenant, self._model, self._simulated = api, tenant, model, simulated

    def may_patch(self, group: str, resource: str) -> bool:
        """Whether whoever asks may patch such objects of the tenant, as the API server says (SelfSubjectAccessReview, which everybody may make).
        Raises OutOfReachError, UserError."""
        asked = {"namespace": self._tenant, "verb": "patch", "group": group, "resource": resource}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}
        answer = self._api.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=review)
        return bool(((answer or {}).get("status") or {}).get("allowed"))

    # -- the route -------------------------------------------------------------------------------------------------------------

    def route(self) -> LiveRoute:
        """The live route; no weights where there is no route. Raises OutOfReachError."""
        live = self._api.get(self._route_path())
        if live is None:
            return LiveRoute(weights={})
        with _read(self._model):
            return route_of(live)

    def patch(self, split: TrafficSplit) -> None:
        """Give the live route the weights and copies of `split`, whose arms it must name. Raises OutOfReachError."""
        live = self._api.get(self._route_path())
        if live is None:
            raise OutOfReachError(f"there is no route {self._model} in {self._tenant}")
        with _read(self._model):
            patch(self._api, live, split)

    def vouch(self, until: datetime | None, safe: str, seen: str) -> None:
        """Write on the route until when it is watched, by the cluster's clock, which the dead man's switch reads; None
        takes that away. Raises OutOfReachError, also where the route is no longer the version `seen`."""
        if until:
            until -= timedelta(seconds=self.clock_offset().certain)
        text = rfc3339(until) if until else None
        notes = {WATCHED_UNTIL: text, SAFE_RELEASE: safe if until else None}
        body = {"metadata": {"annotations": notes, "resourceVersion": seen}}
        self._api.request("PATCH", self._route_path(), {"fieldManager": RELEASE_FIELD_MANAGER}, body, "application/merge-patch+json")

    def clock_offset(self) -> ClockOffset:
        """How far this machine's clock is from the API server's. Raises OutOfReachError."""
        return self._api.clock_offset()

    # -- replicas --------------------------------------------------------------------------------------------------------------

    def unready(self, split: TrafficSplit) -> Sequence[str]:
        """What is not ready yet, in words, by arm. Raises OutOfReachError."""
        deployments = self._list("/apis/apps/v1/namespaces/{}/deployments")
        scaled = {s["metadata"]["name"] for s in self._list("/apis/keda.sh/v1alpha1/namespaces/{}/scaledobjects") if _scaling(s)}
        pods = self._list("/api/v1/namespaces/{}/pods")
        return tuple(said for arm in split.arms if (said := _lacking(arm, deployments, scaled, pods)))

    def given_up(self, split: TrafficSplit) -> Sequence[str]:
        """Arms of which Kubernetes has given up, in words: their Deployment is past its own deadline, and a replica
        that had a node was ended for not becoming ready. Waiting longer only repeats it. Raises OutOfReachError."""
        deployments = self._list("/apis/apps/v1/namespaces/{}/deployments")
        pods = self._list("/api/v1/namespaces/{}/pods")
        return tuple(said for arm in split.arms if (said := _given_up(arm, deployments, pods)))

    def starting(self, split: TrafficSplit) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """By arm, in words: replicas whose server runs and has not proven itself, of arms that have no ready one.
        Raises OutOfReachError."""
        pods = self._list("/api/v1/namespaces/{}/pods")
        arms = {f"{arm.role} ({arm.key})": _of(arm, pods) for arm in split.arms}
        return {
            who: found for who, of in arms.items() if not any(_condition(pod, "Ready") for pod in of) and (found := [*filter(_proving, of)])
        }

    def simulated(self, release: str) -> bool:
        """Whether replicas of `release` only pretend to run. Raises OutOfReachError."""
        pods = self._list("/api/v1/namespaces/{}/pods")
        return self._simulated([pod for pod in pods if pod["metadata"]["labels"].get(RELEASE) == release])

    def ready(self, release: str) -> Sequence[Mapping[str, Any]]:
        """Pods of `release`, but for those of the baseline arm, that are ready. Raises OutOfReachError."""
        pods = self._list("/api/v1/namespaces/{}/pods")
        mine = [p for p in pods if p["metadata"]["labels"].get(RELEASE) == release and not _baseline(p["metadata"]["labels"])]
        return [p for p in mine if "deletionTimestamp" not in p["metadata"] and _condition(p, "Ready")]

    def room(self, pool: Pool, model: Model, stable: str, *, grows: bool) -> PoolCapacity:
        """What the pool and the tenant's quotas hold; `grows` counts nodes that an autoscaler would add. Raises
        OutOfReachError."""
        gpu = model.envelope.gpu
        nodes = self._api.items(f"/api/v1/nodes?{urlencode({'labelSelector': f'{POOL}={pool.name}'})}")
        deployments = self._list("/apis/apps/v1/namespaces/{}/deployments")
        per_node = pool.resources_per_node.get(gpu.resource, 0) // gpu.count
        return available_capacity(
            running=max(1, sum(_count(d) for d in deployments if _is(d, stable, ArmRole.STABLE))),
            pool=pool.name,
            nodes=nodes,
            pods=self._api.items("/api/v1/pods"),
            to_come=max(0, pool.max_nodes - len(nodes)) * per_node if grows else 0,
            quotas=self._api.items(f"/api/v1/namespaces/{self._tenant}/resourcequotas"),
            priority=next((str(d["spec"]["template"]["spec"].get("priorityClassName", "")) for d in deployments), ""),
            needs=ReplicaNeeds(
                resource=gpu.resource,
                devices=gpu.count,
                cpu=Decimal(int(replica_cpu(model))) / 1000,
                memory=Decimal(int(replica_memory(model))),
            ),
        )

    # -- requests --------------------------------------------------------------------------------------------------------------

    def _route_path(self) -> str:
        return f"{ROUTES.format(self._tenant)}/{self._model}"

    def _list(self, path: str) -> list[dict[str, Any]]:
        """Objects of the service, by its labels; none of a kind that the cluster does not know."""
        selector = urlencode({"labelSelector": f"{MODEL}={self._model},{TENANT}={self._tenant}"})
        return self._api.items(f"{path.format(self._tenant)}?{selector}")


@contextmanager
def _read(name: str) -> Generator[None]:
    """Tenants' deployers write routes: one that is like none of ours is told, and ends no driver. Raises OutOfReachError."""
    try:
        yield
    except ODD as odd:
        raise OutOfReachError(f"route {name} is like none of ours ({type(odd).__name__}: {odd})") from None


def route_of(live: Mapping[str, Any]) -> LiveRoute:
    """What a VirtualService of ours says: arms by the header that tells clients which release answered."""
    entry, led = _rule(live, WEIGHTS_ROUTE), _rule(live, SPLIT_ROUTE)
    until = (live.get("metadata", {}).get("annotations") or {}).get(WATCHED_UNTIL)
    arms = {_key(d): d for d in entry.get("route", ())}
    percent = entry.get("mirrorPercentage", {}).get("value", 100.0) if entry.get("mirror") else 0.0
    return LiveRoute(
        weights={key: Share.percent(int(d.get("weight", 100))) for key, d in arms.items()},
        hosts={key: _service(d["destination"]["host"]) for key, d in arms.items()},
        mirrored=_service(entry["mirror"]["host"]) if entry.get("mirror") else None,
        copies=Share.percent(round(float(percent))),
        led=(str(led["match"][0]["headers"][EXPERIMENT_HEADER]["exact"]), _key(led["route"][0])) if led else None,
        watched_until=promise(until),
        version=str(live.get("metadata", {}).get("resourceVersion", "")),
    )


def promise(text: Any) -> datetime | None:
    """The time that an annotation or a Lease states; None where it states none, or one without a zone."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else None


def patch(api: KubernetesApi, live: Mapping[str, Any], split: TrafficSplit) -> None:
    """Give the route `live` the weights of `split`. Raises OutOfReachError."""
    head = live["metadata"]
    path = f"{ROUTES.format(head['namespace'])}/{head['name']}"
    manager, body = owner(live), applied(live, split)
    if manager == PULUMI_CREATES:
        api.request("PATCH", path, {"fieldManager": manager}, body, "application/merge-patch+json")
    else:
        api.request("PATCH", path, {"fieldManager": manager, "force": "true"}, body, "application/apply-patch+yaml")


def applied(live: Mapping[str, Any], split: TrafficSplit) -> dict[str, Any]:
    """The object as its owner would apply it with the weights of `split`; arms that it does not name get nothing, and
    users are led only where they are already."""
    if not _rule(live, WEIGHTS_ROUTE):
        raise OutOfReachError("the live route has no weights")
    if split.led and route_of(live).led != split.led:
        raise OutOfReachError(f"the live route leads no users of experiment {split.led[0]}")
    kept_rules = [rule for rule in live["spec"]["http"] if split.led or rule.get("name") not in LED]
    rules = [_weighted(rule, split) if rule.get("name") in WEIGHED else rule for rule in kept_rules]
    head = live["metadata"]
    kept = {key: value for key, value in (head.get("annotations") or {}).items() if key not in (WATCHED_UNTIL, SAFE_RELEASE)}
    return {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {
            "name": head["name"],
            "namespace": head["namespace"],
            **({"resourceVersion": head["resourceVersion"]} if "resourceVersion" in head else {}),
            **({"labels": head["labels"]} if head.get("labels") else {}),
            **({"annotations": kept} if kept else {}),
        },
        "spec": {**live["spec"], "http": rules},
    }


def _weighted(rule: Mapping[str, Any], split: TrafficSplit) -> dict[str, Any]:
    """One rule with the weights and copies of `split`."""
    targets, shares = {_key(d): d["destination"] for d in rule["route"]}, split.percentages
    entry = {key: value for key, value in rule.items() if key not in ("mirror", "mirrorPercentage")}
    entry["route"] = [{**d, "weight": shares.get(_key(d), 0)} for d in rule["route"]]
    if sum(d["weight"] for d in entry["route"]) != 100:
        raise OutOfReachError("the live route does not name every arm that should get requests")
    if split.mirror and split.mirror.release in targets:
        entry |= {
            "mirror": dict(targets[split.mirror.release]),
            "mirrorPercentage": {"value": float(split.mirror.share.whole_percent)},
        }
    return entry


def owner(live: Mapping[str, Any]) -> str:
    """Who applies the object's spec, or will, having made it; ourselves where nobody does."""
    said = [(e["manager"], e.get("operation")) for e in live["metadata"].get("managedFields") or () if "f:spec" in e.get("fieldsV1", {})]
    applies = [manager for manager, operation in said if operation == "Apply"]
    return next(iter(applies), PULUMI_CREATES if (PULUMI_CREATES, "Update") in said else RELEASE_FIELD_MANAGER)


def _lacking(arm: TrafficArm, deployments: Sequence[Mapping[str, Any]], scaled: set[str], pods: Sequence[Mapping[str, Any]]) -> str | None:
    found = next((d for d in deployments if _is(d, arm.release, arm.role)), None)
    who = f"{arm.role} ({arm.key})"
    if found is None:
        return f"{who}: there is no Deployment"
    status, wanted = found.get("status", {}), int(found["spec"].get("replicas", 1))
    if found["metadata"]["name"] in scaled:
        # Nobody else scales: a cluster without the autoscaler keeps what the Deployment says.
        wanted = max(wanted, arm.replicas or arm.at_least or 0)
    ready = int(status.get("readyReplicas") or 0)
    seen = int(status.get("observedGeneration") or 0) >= int(found["metadata"].get("generation") or 0)
    if seen and ready >= wanted and int(status.get("updatedReplicas") or 0) >= wanted:
        return None
    return f"{who}: {ready} of {wanted} replicas ready{_reasons(arm, pods)}"


def _given_up(arm: TrafficArm, deployments: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]]) -> str | None:
    found = next((d for d in deployments if _is(d, arm.release, arm.role)), None)
    conditions = found.get("status", {}).get("conditions", ()) if found else ()
    if not any(c["type"] == "Progressing" and c.get("reason") == "ProgressDeadlineExceeded" for c in conditions):
        return None
    ends = sum(int(status.get("restartCount") or 0) for pod in _of(arm, pods) for status in pod["status"].get("containerStatuses") or ())
    if not ends:
        return None
    return f"{arm.role} ({arm.key}): ended {ends} times without becoming ready, and its Deployment is past its deadline"


def _of(arm: TrafficArm, pods: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Replicas of an arm."""
    labelled = [(pod, pod["metadata"]["labels"]) for pod in pods]
    return [pod for pod, labels in labelled if labels.get(RELEASE) == arm.release and _baseline(labels) == (arm.role == ArmRole.BASELINE)]


def _proving(pod: Mapping[str, Any]) -> bool:
    """Whether its server runs and its startup probe has not passed."""
    found = pod.get("status", {}).get("containerStatuses") or ()
    return any(each["name"] == CONTAINER and "running" in each.get("state", {}) and not each.get("started") for each in found)


def _reasons(arm: TrafficArm, pods: Sequence[Mapping[str, Any]]) -> str:
    said: set[str] = set()
    for pod in _of(arm, pods):
        for condition in pod.get("status", {}).get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] != "True" and condition.get("message"):
                said.add(condition["message"])
    return f" ({'; '.join(sorted(said))})" if said else ""


def _is(deployment: Mapping[str, Any], release: str, arm: str) -> bool:
    picks = deployment["spec"]["selector"]["matchLabels"]
    return picks.get(RELEASE) == release and _baseline(picks) == (arm == ArmRole.BASELINE)


def _condition(pod: Mapping[str, Any], name: str) -> bool:
    return any(c["type"] == name and c["status"] == "True" for c in pod.get("status", {}).get("conditions", ()))


def _baseline(labels: Mapping[str, str]) -> bool:
    return labels.get(ARM) == ArmRole.BASELINE


def _count(deployment: Mapping[str, Any]) -> int:
    return int(deployment["spec"].get("replicas", 1))


def _scaling(scaled: Mapping[str, Any]) -> bool:
    return bool(scaled.get("status", {}).get("hpaName"))


def _rule(live: Mapping[str, Any], name: str) -> dict[str, Any]:
    return next((dict(r) for r in live["spec"].get("http", ()) if r.get("name") == name), {})


def _key(destination: Mapping[str, Any]) -> str:
    return str(destination["headers"]["response"]["set"][RELEASE_HEADER])


def _service(host: str) -> str:
    return host.partition(".")[0]
