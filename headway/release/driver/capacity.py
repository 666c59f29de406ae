"""How many more replicas of a model fit, and what they run into first: the pool's nodes, or the tenant's quotas. Pure.

A quota refuses pods silently, long after a plan was made: the Deployment is there and its replicas are not. So every
key of every quota that counts these pods is looked at before anything is written, not only that of GPUs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from headway.release.plan import PoolCapacity

_UNLIMITED = 1_000_000
_OF_AN_ARM = ("count/configmaps", "count/deployments.apps", "configmaps", "services", "count/services")
"""Quotas of objects that each further version has one of."""


@dataclass(frozen=True, kw_only=True)
class ReplicaNeeds:
    """What one replica takes. `cpu` in cores, `memory` in bytes."""

    resource: str
    devices: int
    cpu: Decimal
    memory: Decimal

    @property
    def by_key(self) -> Mapping[str, Decimal]:
        """By the keys of a ResourceQuota. Requests are limits: model servers do not overcommit."""
        one = Decimal(1)
        return {
            f"requests.{self.resource}": Decimal(self.devices),
            **dict.fromkeys(("cpu", "requests.cpu", "limits.cpu"), self.cpu),
            **dict.fromkeys(("memory", "requests.memory", "limits.memory"), self.memory),
            **dict.fromkeys(("pods", "count/pods"), one),
        }


@dataclass(frozen=True, kw_only=True)
class QuotaAllowance:
    """What one key of one quota still allows, in replicas or, for objects, in arms."""

    text: str
    more: int


def available_capacity(
    *,
    running: int,
    pool: str,
    nodes: Sequence[Mapping[str, Any]],
    pods: Sequence[Mapping[str, Any]],
    to_come: int,
    quotas: Sequence[Mapping[str, Any]],
    priority: str,
    needs: ReplicaNeeds,
) -> PoolCapacity:
    """What the pool and the quotas hold. `running`: replicas of the stable version; `to_come`: replicas on nodes that
    an autoscaler adds."""
    free, warm = spare(nodes, pods, needs.resource, needs.devices)
    of_replicas = list(allowances(quotas, needs.by_key, priority))
    of_arms = list(allowances(quotas, dict.fromkeys(_OF_AN_ARM, Decimal(1)), priority))
    allowed = min((one.more for one in of_replicas), default=_UNLIMITED)
    arms = min((one.more for one in of_arms), default=_UNLIMITED)
    grown = f" and {to_come} on nodes to come" if to_come else ""
    held = f", {warm} more on what is held warm" if warm else ""
    room = min(free + to_come, allowed)
    # Of a service that is scaled to zero, the stable version gets a replica back before anything moves.
    back = 0 if running else min(room, 1)
    binding = [one.text for one in of_replicas if one.more == allowed] + [one.text for one in of_arms if one.more == arms and arms < 2]
    return PoolCapacity(
        replicas=running + back,
        free=room - back,
        warm=min(warm, max(0, allowed - free - to_come)),
        arms=arms,
        limits=(f"pool {pool} has {needs.resource} for {free} more replicas{held}{grown}", *sorted(set(binding))),
    )


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


def allowances(quotas: Sequence[Mapping[str, Any]], needs: Mapping[str, Decimal], priority: str) -> Iterator[QuotaAllowance]:
    """What each key of each quota that counts pods of priority class `priority` still allows."""
    from headway.environment.kubernetes import quantity

    for quota in quotas:
        status = quota.get("status", {})
        for key, hard in sorted(status.get("hard", {}).items()) if _concerns(quota, priority) else ():
            if not needs.get(key):
                continue
            used = status.get("used", {}).get(key, "0")
            more = max(0, int((quantity(hard) - quantity(used)) // needs[key]))
            name = quota.get("metadata", {}).get("name", "the quota")
            yield QuotaAllowance(text=f"quota {name} has {used} of {hard} {key} in use: room for {more} more", more=more)


def _concerns(quota: Mapping[str, Any], priority: str) -> bool:
    """Whether a quota counts pods of this priority class. One that is scoped by anything else does not count model
    servers."""
    if quota.get("spec", {}).get("scopes"):
        return False
    return all(_picks(scope, priority) for scope in (quota.get("spec", {}).get("scopeSelector") or {}).get("matchExpressions", ()))


def _picks(scope: Mapping[str, Any], priority: str) -> bool:
    if scope["scopeName"] != "PriorityClass":
        return False
    named = priority in scope.get("values", ())
    return {"Exists": bool(priority), "DoesNotExist": not priority, "In": named, "NotIn": not named}[scope["operator"]]


def _wants(pod: Mapping[str, Any], resource: str) -> int:
    return sum(int(c.get("resources", {}).get("requests", {}).get(resource, 0)) for c in pod["spec"].get("containers", ()))
