"""Looks, decides and acts, every ten seconds: the Cluster Autoscaler's process in the sandbox, and beside it the Auto
Scaling groups' own work, which lets instances join when they have booted.

What a turn decides is in `turn.py`. A node is emptied as `cluster-autoscaler/core/scaledown/actuation` does it: a taint
keeps new pods off, evictions respect disruption budgets, and one that is refused gives the node back. The trap: the
pods of a turn were listed before its taint, so what has been bound since is looked at again before an instance goes.
"""

import http.client
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import sleep
from typing import Any

from headway.contract.accelerators import INSTANCE_TYPES
from pulumi_embedded.engine.provider import ProviderError
from pulumi_embedded.providers.aws.catalogue.eks import is_arm
from pulumi_embedded.providers.aws.scaling_groups import AutoScalingGroup, ScalingGroups
from sandbox.cloud.nodes import node_taint
from sandbox.cloud.scaling.groups import TO_BE_DELETED
from sandbox.cloud.scaling.model import (
    NOTHING_REMEMBERED,
    AutoscalerArguments,
    AutoscalerWorld,
    CapacityChange,
    ScalableGroup,
    ScalingDecision,
    ScalingState,
    Termination,
)
from sandbox.cloud.scaling.scale_up import is_of_daemon_set
from sandbox.cloud.scaling.turn import turn
from sandbox.cluster.api import LoopbackEndpoint

_MERGE = {"Content-Type": "application/merge-patch+json"}
_JSON = {"Content-Type": "application/json"}
_POLL_SECONDS = 0.5
_GONE = 404


def now() -> datetime:
    return datetime.now(UTC)


@dataclass
class AutoscalerLoop:
    """`once` is one turn; it raises OSError, http.client.HTTPException or ProviderError where nobody answers."""

    groups: ScalingGroups
    api: LoopbackEndpoint
    arguments: AutoscalerArguments
    clock: Callable[[], datetime] = now
    say: Callable[[str], None] = print
    pause: Callable[[float], None] = sleep
    state: ScalingState = NOTHING_REMEMBERED
    _said: tuple[str, ...] = field(default=(), init=False)

    def once(self) -> tuple[ScalingDecision, ...]:
        """What was ordered; what AWS or a budget refused is said and tried again in a later turn."""
        for name in self.groups.settle():
            self.say(f"{name} joins")
        done = turn(self.world(), self.arguments, self.state)
        self.state = done.state
        for line in done.said:
            if line not in self._said:
                self.say(line)
        self._said = done.said
        for decision in done.decisions:
            try:
                self._act(decision)
            except ProviderError as refusal:
                self.say(f"{decision.group}: {refusal}")
        return done.decisions

    def world(self) -> AutoscalerWorld:
        return AutoscalerWorld(
            now=self.clock(),
            groups=[scalable(group) for group in self.groups.describe()],
            nodes=self._list("/api/v1/nodes"),
            pods=self._list("/api/v1/pods"),
            budgets=self._list("/apis/policy/v1/poddisruptionbudgets"),
            daemon_sets=self._list("/apis/apps/v1/daemonsets"),
        )

    def _act(self, decision: ScalingDecision) -> None:
        if isinstance(decision, CapacityChange):
            self.groups.set_desired_capacity(decision.group, decision.capacity)
        elif decision.node is None or self._emptied(decision, decision.node):
            self.groups.terminate_instance(decision.provider_id)
        else:
            self.state = replace(self.state, failed=self.clock())

    def _emptied(self, decision: Termination, node: str) -> bool:
        """Whether all pods have left. A refused eviction gives the node back, and nothing else goes for a while."""
        self._taint(node, add=True)
        for namespace, name in decision.evict:
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": namespace, "name": name}}
            answer = self._call("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", eviction, _JSON)
            if answer not in (200, 201, _GONE):
                self.say(f"{decision.group}: {node} stays, because {namespace}/{name} may not be evicted now ({answer})")
                self._taint(node, add=False)
                return False
        waits = self.arguments.max_graceful_termination_sec if decision.evict else 0
        while left := self._left(node):
            if waits <= 0:
                self.say(f"{decision.group}: {node} stays, because {left[0]} is on it")
                self._taint(node, add=False)
                return False
            self.pause(_POLL_SECONDS)
            waits -= _POLL_SECONDS
        return True

    def _left(self, node: str) -> list[str]:
        there = self._list(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")
        running = [pod for pod in there if not is_of_daemon_set(pod) and pod["status"].get("phase") not in ("Succeeded", "Failed")]
        return [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in running]

    def _taint(self, node: str, *, add: bool) -> None:
        answer = self.api.call("GET", f"/api/v1/nodes/{node}")
        if answer.status != 200:
            return
        taints = [each for each in json.loads(answer.body)["spec"].get("taints") or () if each["key"] != TO_BE_DELETED]
        mine = {"key": TO_BE_DELETED, "value": str(int(self.clock().timestamp())), "effect": "NoSchedule"}
        self._call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": [*taints, *([mine] if add else [])]}}, _MERGE)

    def _list(self, path: str) -> list[dict[str, Any]]:
        answer = self.api.call("GET", path)
        if answer.status != 200:
            raise OSError(f"{path}: {answer.status}")
        return json.loads(answer.body)["items"]

    def _call(self, method: str, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> int:
        return self.api.call(method, path, json.dumps(body), headers).status


def scalable(group: AutoScalingGroup) -> ScalableGroup:
    """The group as the autoscaler sees it. EKS gives its labels and taints too: `cloudprovider/aws/aws_wrapper.go`,
    getManagedNodegroupInfo."""
    told = group.node_group
    labels = {
        "amiType": told.ami_type,
        "eks.amazonaws.com/capacityType": told.capacity_type,
        "eks.amazonaws.com/nodegroup": told.name,
        **{str(key): str(value) for key, value in told.labels.items()},
    }
    return ScalableGroup(
        name=group.name,
        min=group.min,
        max=group.max,
        desired=group.desired,
        instance_type=INSTANCE_TYPES[told.instance_type],
        region=told.region,
        zone=told.zones[0].name,
        instances=group.launched,
        tags=group.tags,
        labels=labels,
        taints=[node_taint(taint) for taint in told.taints],
        architecture="arm64" if is_arm(told.instance_type) else "amd64",
    )


def run(loop: AutoscalerLoop, alive: Callable[[], None], interval: timedelta) -> None:
    """Turn for turn until it is ended. What does not answer is told once, and asked again."""
    told = ""
    while True:
        try:
            loop.once()
            alive()
            told = ""
        except (OSError, http.client.HTTPException, ProviderError) as trouble:  # a server restarts, or is down
            if str(trouble) != told:
                told = str(trouble)
                loop.say(told)
        loop.pause(interval.total_seconds())
