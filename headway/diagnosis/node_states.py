"""What pods say of the node under them, and of the one that is ordered for them: evicted, too little disk, a driver that does not fit. Pure.

The kubelet names what it evicts a pod for (kubernetes, `pkg/kubelet/eviction/eviction_manager.go` and `helpers.go`), and which limit of its own
one exceeded. A full disk is the system's "no space left on device". That driver and image do not fit is said before a container starts by
NVIDIA's runtime (libnvidia-container, `src/cli/common.c` and `src/nvc_container.c`), else by CUDA in what a server prints last (CUDA Runtime
API, "cudaError"; NVML, "nvmlReturn_t"), which stands in its status, because its policy falls back to the log (`FallbackToLogsOnError`). The
autoscaler tells a pod that a node was ordered for it, and for how long it may take (kubernetes/autoscaler,
`cluster-autoscaler/processors/status/eventing_scale_up_processor.go`; `max-node-provision-time` of components/addons/cluster_autoscaler.py).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from headway.diagnosis.facts import State, StateKind
from headway.diagnosis.objects import Body, ended_before, event_seconds, line_of, long_ago, seconds
from headway.problem import on_one_line
from headway.wire import POOL

_PROVISION_SECONDS = 1200.0
_OWN_LIMIT = re.compile(
    r"exceeded its local ephemeral storage limit|ephemeral local storage usage exceeds|Usage of EmptyDir volume .* exceeds"
)
_FULL = re.compile(r".*no space left on device", re.IGNORECASE)
_DRIVER = re.compile(
    r"unsatisfied condition: (cuda|driver|brand|arch)\S*"
    r"|driver/library version mismatch"
    r"|CUDA driver version is insufficient for CUDA runtime version"
    r"|unsupported display driver / cuda driver combination"
    r"|forward compatibility was attempted on non supported HW"
    r"|(?:nvidia-container-cli|nvml error): .*driver not loaded",
    re.IGNORECASE,
)


def evicted(pod: Body) -> bool:
    """Whether the kubelet ended it for good; another one takes its place."""
    return pod.get("status", {}).get("phase") == "Failed" and pod["status"].get("reason") == "Evicted"


def pool_of(pod: Body) -> str:
    """The pool that a pod asks for; empty where it asks for none."""
    return str((pod.get("spec", {}).get("nodeSelector") or {}).get(POOL, ""))


def of_nodes(pods: Iterable[Body], events: Mapping[str, Sequence[Body]], *, at: float) -> Iterator[State]:
    """`events`: by the name of whom they are about; `at` in Unix seconds."""
    for pod in pods:
        name, status = str(pod["metadata"]["name"]), pod.get("status", {})
        if evicted(pod):
            message = str(status.get("message", ""))
            since = _ended_at(status)
            if not long_ago(since, at):
                kind = StateKind.STORAGE_EXCEEDED if _OWN_LIMIT.search(message) else StateKind.EVICTED
                yield State(kind=kind, subject=name, words=on_one_line(message or "the kubelet evicted it"), since=since)
            continue
        if not pod.get("spec", {}).get("nodeName"):
            yield from _ordered(pod, events.get(name, ()), at)
        for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
            yield from _unfit(name, container, at)


def _ordered(pod: Body, events: Sequence[Body], at: float) -> Iterator[State]:
    """That a node was ordered, where the autoscaler has not said otherwise since, and the node may still come."""
    said = [each for each in events if each.get("reason") in ("TriggeredScaleUp", "NotTriggerScaleUp")]
    newest = max(said, key=lambda each: event_seconds(each) or 0.0, default=None)
    if newest is None or newest["reason"] == "NotTriggerScaleUp":
        return
    since = event_seconds(newest)
    if since is not None and at - since <= _PROVISION_SECONDS:
        words = f"a node was ordered {max(at - since, 0.0):.0f} s ago: {newest.get('message', '')}"
        yield State(
            kind=StateKind.NODE_ORDERED, subject=str(pod["metadata"]["name"]), words=on_one_line(words), since=since, pool=pool_of(pod)
        )


def _unfit(pod: str, container: Body, at: float) -> Iterator[State]:
    """Of a container that waits, or whose last run has ended lately: a disk that was full, or a driver that does not fit."""
    states = (container.get("state", {}), container.get("lastState", {}))
    for each in states:
        ended = each.get("terminated") or {}
        since = seconds(ended.get("finishedAt"))
        if long_ago(since, at):
            continue
        text = str((each.get("waiting") or ended).get("message", ""))
        for kind, pattern in ((StateKind.DISK_FULL, _FULL), (StateKind.DRIVER_UNFIT, _DRIVER)):
            if found := pattern.search(text):
                yield State(
                    kind=kind,
                    subject=pod,
                    words=on_one_line(f"container {container.get('name', '?')}: {line_of(text, found)}"),
                    since=since,
                    repeats=ended_before(container, ended, at),
                )
                return


def _ended_at(status: Body) -> float | None:
    """When an evicted pod was (condition `DisruptionTarget`), else when its last container ended."""
    chosen = [c.get("lastTransitionTime") for c in status.get("conditions", ()) if c.get("type") == "DisruptionTarget"]
    ended = [(each.get("state", {}).get("terminated") or {}).get("finishedAt") for each in status.get("containerStatuses", ())]
    times = [seconds(each) for each in (*chosen, *ended)]
    return max((each for each in times if each is not None), default=seconds(status.get("startTime")))
