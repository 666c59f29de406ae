"""The status of a pod as a kubelet writes it, from what the agent knows of its containers. Pure.

A status patch replaces lists as a whole, so conditions that others own (PodScheduled, DisruptionTarget) are carried
over.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

OURS = ("ContainersReady", "Initialized", "PodReadyToStartContainers", "Ready")


def timestamp(moment: datetime) -> str:
    """RFC 3339 in whole seconds, as Kubernetes writes times."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, kw_only=True)
class ContainerWaiting:
    """Not running yet, or not again: PodInitializing, CrashLoopBackOff, ..."""

    reason: str
    message: str = ""

    def view(self) -> dict[str, Any]:
        return {"waiting": {"reason": self.reason, **({"message": self.message} if self.message else {})}}


@dataclass(frozen=True, kw_only=True)
class ContainerRunning:
    since: datetime

    def view(self) -> dict[str, Any]:
        return {"running": {"startedAt": timestamp(self.since)}}


@dataclass(frozen=True, kw_only=True)
class ContainerTerminated:
    """Ended. `exit_code` above 128 is a signal's number plus 128."""

    reason: str
    exit_code: int
    began: datetime
    ended: datetime
    message: str = ""

    def view(self) -> dict[str, Any]:
        found = {
            "exitCode": self.exit_code,
            "finishedAt": timestamp(self.ended),
            "reason": self.reason,
            "startedAt": timestamp(self.began),
            **({"message": self.message} if self.message else {}),
        }
        return {"terminated": found}


@dataclass(frozen=True, kw_only=True)
class ContainerView:
    """One container as it is now. `started`: the startup probe has succeeded since its process was started."""

    name: str
    image: str
    state: ContainerWaiting | ContainerRunning | ContainerTerminated
    last: ContainerTerminated | None = None
    restarts: int = 0
    started: bool = False
    ready: bool = False
    sidecar: bool = False

    def view(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
            "state": self.state.view(),
            "lastState": self.last.view() if self.last else {},
        }

    @property
    def done(self) -> bool:
        """Of an init container: whether the next one may begin."""
        return (self.sidecar and self.started) or (isinstance(self.state, ContainerTerminated) and self.state.exit_code == 0)


def pod_status(
    *,
    inits: Sequence[ContainerView],
    containers: Sequence[ContainerView],
    pod_ip: str,
    node_ip: str,
    began: datetime,
    now: datetime,
    before: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    """The whole `status` of a pod; `before` are its conditions so far, which keep their time where nothing changed."""
    initialised = all(each.done for each in inits)
    ready = initialised and all(each.ready for each in containers)
    truth = {"ContainersReady": ready, "Initialized": initialised, "PodReadyToStartContainers": True, "Ready": ready}
    unready = sorted(each.name for each in containers if not each.ready)
    why = {
        "ContainersReady": ("ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"),
        "Ready": ("ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"),
        "Initialized": (
            "ContainersNotInitialized",
            f"containers with incomplete status: [{' '.join(each.name for each in inits if not each.done)}]",
        ),
    }
    old = {condition["type"]: condition for condition in before}
    conditions = [dict(condition) for kind, condition in old.items() if kind not in OURS]
    for kind in OURS:
        value = "True" if truth[kind] else "False"
        same = kind in old and old[kind]["status"] == value
        since = old[kind].get("lastTransitionTime") if same else timestamp(now)
        reason = {} if truth[kind] else {"reason": why[kind][0], "message": why[kind][1]}
        conditions.append({"type": kind, "status": value, "lastTransitionTime": since, **reason})
    return {
        "phase": "Running"
        if initialised and any(not isinstance(each.state, ContainerWaiting) or each.restarts for each in containers)
        else "Pending",
        "conditions": sorted(conditions, key=lambda condition: condition["type"]),
        "containerStatuses": [each.view() for each in containers],
        "initContainerStatuses": [each.view() for each in inits],
        "hostIP": node_ip,
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": timestamp(began),
    }
