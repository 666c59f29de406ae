"""The live cluster, read and changed: the shell around `facts` and `decision`.

Everything is asked of the API server anew each time, and every change names the version of the node that it was decided
on, so two loops cannot undo each other. An eviction that a disruption budget forbids answers 429, which is an answer
and not a fault.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from headway.bounded_json import bounded_json
from headway.environment.api_answer import Object, TooMuchError, page_of
from headway.environment.kubernetes import (
    CONFLICT,
    JSON,
    LARGEST_ANSWER,
    MOST_OBJECTS,
    NOT_FOUND,
    PAGE,
    STRATEGIC_PATCH,
    ApiClient,
    KubernetesApi,
    UnusableKubeconfigError,
)
from headway.environment.port import OutOfReachError
from headway.node_health import facts
from headway.node_health.decision import Action, Admit, Clear, Diagnose, Evict, Isolate, Notice, Readmit, Replace, Tell, taints_after
from headway.node_health.diagnostic import pod
from headway.node_health.facts import DIAGNOSTIC_LABEL, GpuNode
from headway.node_health.leader_election import LeaderRecord, LeaseStore
from headway.node_health.readiness import GpuOperatorState, PoolPromise, cluster_policy_state
from headway.problem import ODD, Exit, UserError
from headway.timestamp import rfc3339
from headway.wire import (
    NODE_HEALTH_FIELD_MANAGER,
    NODE_HEALTH_IMAGE_KEY,
    NODE_HEALTH_NAMESPACE,
    NODE_HEALTH_POOLS_KEY,
    NODE_HEALTH_SETTINGS,
    QUARANTINE,
    RECORDED_CHART,
)

TIMEOUT_SECONDS = 15
OPERATORS_NAMESPACE = "gpu-operator"
"""Where the platform layer installs the GPU Operator."""
LARGEST_PAGE = 6 << 20
"""Bytes of a list in memory at once, where they take seven times as many. An object of a tenant has up to 1.5 MiB: where a page
would have more, the next have fewer objects.
"""
_NOTICE_LASTS = timedelta(minutes=11)
"""It is said again every ten minutes for as long as it is so."""
_DONE = ("Quarantine", "Admitted", "Readmitted", "Replacing")
"""Reasons of events that tell of what was done."""
CLIENT = ApiClient(
    name=NODE_HEALTH_FIELD_MANAGER,
    if_refused="The request was not carried out.",
    remedy="A conflict passes by itself; for `forbidden`, deploy the platform layer or use the rights of node-health/node-health.",
)
_PODS = f"/api/v1/namespaces/{NODE_HEALTH_NAMESPACE}/pods"


class Replacer(Protocol):
    """Ends the instance behind a node; its group starts another. Raises UserError where it cannot."""

    def __call__(self, node: GpuNode) -> None: ...


@dataclass(frozen=True, kw_only=True)
class NodeHealthSettings:
    """What the platform layer wrote down for the loop."""

    diagnostic_image: str
    expected: tuple[PoolPromise, ...]


@dataclass(frozen=True, kw_only=True)
class Done:
    """One action and how it went; `refused` says why it was not carried out."""

    action: Action
    refused: str = ""


class NodeCluster:
    """A cluster through its API or a path of a kubeconfig, or from inside when that is None."""

    def __init__(self, cluster: KubernetesApi | str | None, replace: Replacer) -> None:
        self._api = cluster if isinstance(cluster, KubernetesApi) else KubernetesApi(cluster or None, client=CLIENT)
        try:
            self._api.connect()
        except UnusableKubeconfigError as failure:
            raise UserError(
                f"No cluster is named: {failure.reason.rstrip('.')}.",
                "Nothing can be read or changed.",
                "Name its environment with -e, or set KUBECONFIG to its kubeconfig.",
            ) from None
        self._leases = LeaseStore(self._ask, NODE_HEALTH_NAMESPACE)
        self._replace = replace

    @property
    def address(self) -> str:
        """Where the cluster's API server is."""
        return self._api.address

    def nodes(self) -> tuple[GpuNode, ...]:
        """Every GPU node with the pods on it."""
        return facts.nodes(self._list("/api/v1/nodes"), self._list("/api/v1/pods", {"fieldSelector": "spec.nodeName!="}, facts.in_short))

    def notices(self, now: datetime) -> Mapping[str, str]:
        """What the loop has said of nodes in the last minutes and waits to see, or a person to decide, by node; the newest of each. Raises
        UserError."""
        # `source` selects by component (Kubernetes, pkg/registry/core/event/strategy.go, ToSelectableFields).
        said = self._list("/api/v1/namespaces/default/events", {"fieldSelector": f"source={NODE_HEALTH_FIELD_MANAGER}"})
        found: dict[str, tuple[str, str]] = {}
        for each in said:
            node, told = each["involvedObject"]["name"], (str(each["lastTimestamp"]), str(each["message"]))
            fresh = now - datetime.fromisoformat(told[0]) < _NOTICE_LASTS
            if fresh and each["reason"] not in _DONE and told > found.get(node, ("", "")):
                found[node] = told
        return {node: text for node, (_, text) in found.items()}

    def settings(self) -> NodeHealthSettings:
        """Raises UserError where the platform layer has not been deployed."""
        configmap = self._ask("GET", f"/api/v1/namespaces/{NODE_HEALTH_NAMESPACE}/configmaps/{NODE_HEALTH_SETTINGS}", unless=NOT_FOUND)
        if configmap is None:
            raise UserError(
                f"ConfigMap {NODE_HEALTH_NAMESPACE}/{NODE_HEALTH_SETTINGS} is not there.",
                "Headway cannot know what the pools should offer, nor which image tests their GPUs.",
                "Deploy the platform layer: `pulumi up -s <environment>-platform`.",
            )
        try:
            pools = bounded_json(configmap["data"][NODE_HEALTH_POOLS_KEY])
            expected = tuple(
                PoolPromise(pool=name, resources=pool["resources"], driver=pool["driver"], nodes_at_least=pool["nodesAtLeast"])
                for name, pool in sorted(pools.items())
            )
            return NodeHealthSettings(diagnostic_image=configmap["data"][NODE_HEALTH_IMAGE_KEY], expected=expected)
        except ODD as odd:
            raise UserError(
                f"ConfigMap {NODE_HEALTH_NAMESPACE}/{NODE_HEALTH_SETTINGS} does not say what the platform layer writes ({odd}).",
                "Headway cannot know what the pools should offer, nor which image tests their GPUs; nodes stay as they are.",
                "Deploy the platform layer anew: `pulumi up -s <environment>-platform`.",
            ) from None

    def operator(self) -> GpuOperatorState:
        """The GPU Operator's own word."""
        body = self._ask("GET", "/apis/nvidia.com/v1/clusterpolicies/cluster-policy", unless=NOT_FOUND)
        records = self._list(f"/api/v1/namespaces/{OPERATORS_NAMESPACE}/configmaps", {"labelSelector": RECORDED_CHART})
        recorded = any((record.get("data") or {}).get("chart") == "gpu-operator" for record in records)
        return GpuOperatorState(state=cluster_policy_state(body), recorded=recorded and body is None)

    def read(self) -> LeaderRecord | None:
        """Who holds the loops' Lease (`leader_election.LeaderStore`)."""
        return self._leases.read()

    def write(self, holder: str, over: LeaderRecord | None) -> LeaderRecord | None:
        """Take or give up the loops' Lease (`leader_election.LeaderStore`)."""
        return self._leases.write(holder, over)

    def perform(
        self, actions: Sequence[Action], settings: NodeHealthSettings, allowed: Callable[[], bool] = lambda: True
    ) -> tuple[Done, ...]:
        """Carry out `actions` in order, as long as it is `allowed`.

        After one that was refused, the rest of that node's waits for the next round.
        """
        done: list[Done] = []
        stopped: set[str] = set()
        for action in actions:
            if not allowed():
                break
            if action.node.name in stopped and not isinstance(action, Evict):
                continue
            refused = self._refusal(action, settings)
            if refused:
                stopped.add(action.node.name)
            done.append(Done(action=action, refused=refused))
        return tuple(done)

    def _refusal(self, action: Action, settings: NodeHealthSettings) -> str:
        try:
            self._carry_out(action, settings)
        except UserError as failure:
            return failure.fact
        except ODD as odd:  # the other nodes have their turn
            return f"it met what nobody of ours writes ({type(odd).__name__}: {odd})"
        return ""

    def _carry_out(self, action: Action, settings: NodeHealthSettings) -> None:
        match action:
            case Isolate(node=node, quarantine=quarantine):
                before = node.quarantine
                self._patch(action, {QUARANTINE: quarantine.text()})
                if before is None or before.state is not quarantine.state:
                    self._event(node, "Quarantine", f"{quarantine.state}: {quarantine.reason} (by {quarantine.by})", "Warning")
            case Admit(node=node):
                self._patch(action)
                self._event(node, "Admitted", "cut by MIG as its pool promises", "Normal")
            case Readmit(node=node):
                self._patch(action, {QUARANTINE: None})
                self._event(node, "Readmitted", "back in service", "Normal")
            case Evict(pod=it):
                body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": it.name, "namespace": it.namespace}}
                self._ask("POST", f"/api/v1/namespaces/{it.namespace}/pods/{it.name}/eviction", body=body)
            case Diagnose(node=node, trial=trial):
                self._ask("POST", _PODS, body=pod(node, trial, settings.diagnostic_image), unless=CONFLICT)
            case Clear(node=node):
                for body in self._list(_PODS, {"labelSelector": DIAGNOSTIC_LABEL}):
                    if body["spec"].get("nodeName") == node.name:
                        self._ask("DELETE", f"{_PODS}/{body['metadata']['name']}", {"gracePeriodSeconds": "0"}, unless=NOT_FOUND)
            case Replace(node=node):
                self._event(node, "Replacing", f"ending {node.provider_id}", "Warning")
                self._replace(node)
            case Tell(node=node, topic=topic, text=text):
                self._event(node, _reason(topic), text, "Warning")
            case Notice(node=node, text=text):
                self._event(node, "Watched", text, "Normal")

    def _patch(self, action: Isolate | Admit | Readmit, annotations: Mapping[str, str | None] | None = None) -> None:
        # A node's taints are one list, replaced as a whole; the version keeps whatever someone else wrote to it meanwhile.
        # What may be in it is bounded by an admission rule: `components/platform/node_boundary.py`.
        metadata = {"resourceVersion": action.node.version, "annotations": annotations or {}}
        body = {"metadata": metadata, "spec": {"taints": taints_after(action)}}
        self._ask("PATCH", f"/api/v1/nodes/{action.node.name}", {"fieldManager": NODE_HEALTH_FIELD_MANAGER}, body, STRATEGIC_PATCH)

    def _event(self, node: GpuNode, reason: str, message: str, kind: str) -> None:
        """An event on the node: what a person and an alert see. Its name says its content, so that a repeated one is
        one."""
        now = rfc3339(datetime.now(UTC), "microseconds")
        name = f"{node.name[:200]}.{hashlib.sha256(f'{reason}{message}{now[:15]}'.encode()).hexdigest()[:12]}"
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.name},
            "reason": reason,
            "message": message,
            "type": kind,
            "source": {"component": NODE_HEALTH_FIELD_MANAGER},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._ask("POST", "/api/v1/namespaces/default/events", body=body, unless=CONFLICT)

    def _list(
        self, path: str, query: Mapping[str, str] | None = None, kept: Callable[[Object], Object] = lambda each: each
    ) -> list[Object]:
        """Every object of a list, and what is `kept` of each."""
        found: list[Object] = []
        after, size = "", PAGE
        while len(found) <= MOST_OBJECTS:
            whole = {**(query or {}), "limit": str(size), **({"continue": after} if after else {})}
            try:
                page = self._ask("GET", path, whole, largest=LARGEST_PAGE) or {}
                items, after = page_of(page)
            except TooMuchError as failure:
                if size == 1:
                    raise _unanswered(failure) from None
                size = max(1, size // 8)
                continue
            except OutOfReachError as failure:
                raise _unanswered(failure) from None
            found += map(kept, items)
            if not after:
                return found
        raise _unanswered(OutOfReachError(f"a list of more than {MOST_OBJECTS} objects"))

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        *,
        unless: int | tuple[int, ...] = (),
        largest: int = LARGEST_ANSWER,
    ) -> Object | None:
        """The answer; None for one of the statuses `unless`. A server that does not answer, or says no, is told as a
        sentence; TooMuchError is the caller's."""
        try:
            answer = self._api.answer(method, path, query, body, content_type, TIMEOUT_SECONDS, largest)
            if answer.ok:
                return answer.document
        except TooMuchError:
            raise
        except OutOfReachError as failure:
            raise _unanswered(failure) from None
        if answer.status in (unless if isinstance(unless, tuple) else (unless,)):
            return None
        raise UserError(answer.message, CLIENT.if_refused, CLIENT.remedy, Exit.REFUSED)


def _unanswered(failure: OutOfReachError) -> UserError:
    return UserError(
        f"The API server does not answer ({failure}).",
        "Nothing is known of the nodes, and nothing was changed.",
        "Check that the cluster runs, and that the kubeconfig is the cluster's own.",
    )


def _reason(topic: str) -> str:
    return "".join(part.capitalize() for part in topic.split("-"))
