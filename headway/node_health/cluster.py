"""The live cluster, read and changed: the shell around `facts` and `decision`.

Everything is asked of the API server anew each time, and every change names the version of the node that it was decided on, so two loops
cannot undo each other. The trap: an eviction that a disruption budget forbids answers 429, which is an answer and not a fault.
"""

import hashlib
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from headway.environment.kubernetes import connected
from headway.node_health import facts
from headway.node_health.decision import Action, Clear, Diagnose, Evict, Isolate, Readmit, Replace, Tell
from headway.node_health.diagnostic import pod
from headway.node_health.facts import DIAGNOSTIC_LABEL, Node
from headway.node_health.leader_election import LeaseStore, Record
from headway.node_health.readiness import Expected, Operator, cluster_policy_state
from headway.problem import Exit, UserError
from headway.wire import (
    NODE_HEALTH_FIELD_MANAGER,
    NODE_HEALTH_IMAGE_KEY,
    NODE_HEALTH_NAMESPACE,
    NODE_HEALTH_POOLS_KEY,
    NODE_HEALTH_SETTINGS,
    PREFIX,
    QUARANTINE,
)

RECORDED = f"{PREFIX}/recorded=helm-release"
TIMEOUT_SECONDS = 15
_MERGE = "application/strategic-merge-patch+json"


class Replacer(Protocol):
    """Ends the instance behind a node; its group starts another. Raises UserError where it cannot."""

    def __call__(self, node: Node) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the platform layer wrote down for the loop."""

    diagnostic_image: str
    expected: tuple[Expected, ...]


@dataclass(frozen=True, kw_only=True)
class Done:
    """One action and how it went; `refused` says why it was not carried out."""

    action: Action
    refused: str = ""


class Cluster:
    """A cluster through `kubeconfig`, or from inside when that is None."""

    def __init__(self, kubeconfig: str | None, replace: Replacer) -> None:
        from kubernetes import client, config

        try:
            self._api = connected(kubeconfig or None)
        except config.ConfigException as failure:
            raise UserError(
                f"No cluster is named: {str(failure).rstrip('.')}.",
                "Nothing can be read or changed.",
                'Set KUBECONFIG, or run `eval "$(headway sandbox env)"` for the sandbox.',
            ) from None
        self._core: Any = client.CoreV1Api(self._api)
        self._custom: Any = client.CustomObjectsApi(self._api)
        self._leases = LeaseStore(self._api, NODE_HEALTH_NAMESPACE, TIMEOUT_SECONDS)
        self._replace = replace

    def nodes(self) -> tuple[Node, ...]:
        """Every GPU node with the pods on it."""
        with _told():
            nodes = self._core.list_node(_request_timeout=TIMEOUT_SECONDS).items
            pods = self._core.list_pod_for_all_namespaces(field_selector="spec.nodeName!=", _request_timeout=TIMEOUT_SECONDS).items
        return facts.nodes(self._plain(nodes), self._plain(pods))

    def settings(self) -> Settings:
        """Raises UserError where the platform layer has not been deployed."""
        with _told():
            found = self._or_none(
                lambda: self._core.read_namespaced_config_map(NODE_HEALTH_SETTINGS, NODE_HEALTH_NAMESPACE, _request_timeout=TIMEOUT_SECONDS)
            )
        if found is None:
            raise UserError(
                f"ConfigMap {NODE_HEALTH_NAMESPACE}/{NODE_HEALTH_SETTINGS} is not there.",
                "What the pools should offer, and with what GPUs are tested, is not known.",
                "Deploy the platform layer: `pulumi up -s <environment>-platform`.",
            )
        pools = json.loads(found.data[NODE_HEALTH_POOLS_KEY])
        expected = tuple(
            Expected(pool=name, resources=pool["resources"], driver=pool["driver"], nodes_at_least=pool["nodesAtLeast"])
            for name, pool in sorted(pools.items())
        )
        return Settings(diagnostic_image=found.data[NODE_HEALTH_IMAGE_KEY], expected=expected)

    def operator(self) -> Operator:
        """The GPU Operator's own word."""
        with _told():
            body = self._or_none(
                lambda: self._custom.get_cluster_custom_object(
                    "nvidia.com", "v1", "clusterpolicies", "cluster-policy", _request_timeout=TIMEOUT_SECONDS
                )
            )
            records = self._core.list_config_map_for_all_namespaces(label_selector=RECORDED, _request_timeout=TIMEOUT_SECONDS).items
        recorded = any((record.data or {}).get("chart") == "gpu-operator" for record in records)
        return Operator(state=cluster_policy_state(body), recorded=recorded and body is None)

    def read(self) -> Record | None:
        """Who holds the loops' Lease (`leader_election.Store`)."""
        with _told():
            return self._leases.read()

    def write(self, holder: str, over: Record | None) -> Record | None:
        """Take or give up the loops' Lease (`leader_election.Store`)."""
        with _told():
            return self._leases.write(holder, over)

    def perform(self, actions: Sequence[Action], settings: Settings, allowed: Callable[[], bool] = lambda: True) -> tuple[Done, ...]:
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

    def _refusal(self, action: Action, settings: Settings) -> str:
        try:
            with _told():
                self._carry_out(action, settings)
        except UserError as failure:
            return failure.fact
        return ""

    def _carry_out(self, action: Action, settings: Settings) -> None:
        others = [taint for taint in action.node.taints if taint.get("key") != QUARANTINE]
        match action:
            case Isolate(node=node, quarantine=quarantine):
                before = node.quarantine
                self._patch(node, quarantine.text(), [*others, {"key": QUARANTINE, "value": "true", "effect": "NoSchedule"}])
                if before is None or before.state is not quarantine.state:
                    self._event(node, "Quarantine", f"{quarantine.state}: {quarantine.reason} (by {quarantine.by})", "Warning")
            case Readmit(node=node):
                self._patch(node, None, others)
                self._event(node, "Readmitted", "back in service", "Normal")
            case Evict(pod=it):
                body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": it.name, "namespace": it.namespace}}
                self._core.create_namespaced_pod_eviction(it.name, it.namespace, body, _request_timeout=TIMEOUT_SECONDS)
            case Diagnose(node=node, trial=trial):
                self._or_none(
                    lambda: self._core.create_namespaced_pod(
                        NODE_HEALTH_NAMESPACE, pod(node, trial, settings.diagnostic_image), _request_timeout=TIMEOUT_SECONDS
                    ),
                    status=409,
                )
            case Clear(node=node):
                for body in self._core.list_namespaced_pod(
                    NODE_HEALTH_NAMESPACE, label_selector=DIAGNOSTIC_LABEL, _request_timeout=TIMEOUT_SECONDS
                ).items:
                    if body.spec.node_name == node.name:
                        self._delete(body.metadata.name)
            case Replace(node=node):
                self._event(node, "Replacing", f"ending {node.provider_id}", "Warning")
                self._replace(node)
            case Tell(node=node, topic=topic, text=text):
                self._event(node, _reason(topic), text, "Warning")

    def _delete(self, name: str) -> None:
        self._or_none(
            lambda: self._core.delete_namespaced_pod(name, NODE_HEALTH_NAMESPACE, grace_period_seconds=0, _request_timeout=TIMEOUT_SECONDS)
        )

    def _patch(self, node: Node, annotation: str | None, taints: Sequence[Mapping[str, Any]]) -> None:
        # A node's taints are one list, replaced as a whole; the version keeps whatever someone else wrote to it meanwhile.
        body = {
            "metadata": {"resourceVersion": node.version, "annotations": {QUARANTINE: annotation}},
            "spec": {"taints": list(taints)},
        }
        self._core.patch_node(
            node.name, body, field_manager=NODE_HEALTH_FIELD_MANAGER, _content_type=_MERGE, _request_timeout=TIMEOUT_SECONDS
        )

    def _event(self, node: Node, reason: str, message: str, kind: str) -> None:
        """An event on the node: what a person and an alert see. Its name says its content, so that a repeated one is one."""
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
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
        self._or_none(lambda: self._core.create_namespaced_event("default", body, _request_timeout=TIMEOUT_SECONDS), status=409)

    def _plain(self, items: Sequence[Any]) -> list[Mapping[str, Any]]:
        return [self._api.sanitize_for_serialization(item) for item in items]

    def _or_none(self, ask: Callable[[], Any], status: int = 404) -> Any:
        from kubernetes.client.exceptions import ApiException

        try:
            return ask()
        except ApiException as failure:
            if failure.status == status:
                return None
            raise


@contextmanager
def _told() -> Generator[None]:
    """A server that does not answer, or says no, as a sentence."""
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as failure:
        raise UserError(
            _said(failure),
            "What was asked was not done.",
            "A conflict passes by itself; for `forbidden`, deploy the platform layer or use the rights of node-health/node-health.",
            Exit.REFUSED,
        ) from None
    except (HTTPError, OSError) as failure:
        raise UserError(
            f"The API server does not answer ({type(failure).__name__}).",
            "Nothing is known of the nodes, and nothing was changed.",
            "Look whether the cluster runs and the kubeconfig is its own; in the sandbox: `make up`.",
        ) from None


def _said(failure: Any) -> str:
    try:
        return str(json.loads(failure.body)["message"])
    except (TypeError, ValueError, KeyError):
        return f"{failure.status} {failure.reason}"


def _reason(topic: str) -> str:
    return "".join(part.capitalize() for part in topic.split("-"))
