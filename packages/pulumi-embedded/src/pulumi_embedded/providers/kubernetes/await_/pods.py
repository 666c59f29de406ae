"""Why pods are not ready, in the words of the scheduler and the kubelet, and readiness of a single Pod."""

from collections import Counter
from collections.abc import Iterable, Iterator

from pulumi_embedded.engine.provider import Properties
from pulumi_embedded.providers.kubernetes.await_.verdict import POD, READY, Lookup, ReadinessVerdict, at, condition, failed, said, waiting

_SHOWN = 4


def pod(live: Properties, _look: Lookup) -> ReadinessVerdict:
    """Ready, or run to its end."""
    if at(live, "status", "phase") == "Succeeded" or is_ready(live):
        return READY
    if at(live, "status", "phase") == "Failed":
        return failed(trouble(live) or "the pod has failed")
    return waiting(trouble(live) or "the pod is starting")


def is_ready(live: Properties) -> bool:
    return condition(live, "Ready").get("status") == "True"


def troubles(pods: Iterable[Properties]) -> str:
    """What holds these pods back, most frequent first; nothing when all are ready."""
    counted = Counter(why for each in pods if not at(each, "metadata", "deletionTimestamp") and (why := trouble(each)))
    ranked = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    texts = [f"{count} pod{'s' if count > 1 else ''}: {why}" for why, count in ranked[:_SHOWN]]
    if len(ranked) > _SHOWN:
        texts.append(f"and {len(ranked) - _SHOWN} other reasons")
    return "; ".join(texts)


def trouble(live: Properties) -> str:
    """What holds this pod back; nothing when it is ready or only starting."""
    if is_ready(live) or at(live, "status", "phase") == "Succeeded":
        return ""
    scheduled = condition(live, "PodScheduled")
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason") or "not scheduled")
    stuck = list(_containers(live))
    if stuck:
        return "; ".join(stuck)
    if at(live, "status", "phase") == "Failed":
        return str(at(live, "status", "message") or at(live, "status", "reason") or "failed")
    ready = condition(live, "Ready")
    return said(ready) if ready.get("status") == "False" else ""


def _containers(live: Properties) -> Iterator[str]:
    for key in ("initContainerStatuses", "containerStatuses"):
        for status in at(live, "status", key) or ():
            name = status.get("name")
            blocked, ended = at(status, "state", "waiting"), at(status, "state", "terminated")
            if blocked and blocked.get("reason") not in ("ContainerCreating", "PodInitializing"):
                before = at(status, "lastState", "terminated")
                yield f"container {name} {said(blocked)}" + (f" ({_ending(before)})" if before else "")
            elif ended and ended.get("exitCode"):
                yield f"container {name} {_ending(ended)}"


def _ending(ended: Properties) -> str:
    return f"exited with code {ended.get('exitCode')}" + (f", {ended['reason']}" if ended.get("reason") else "")


def of(namespace: str, labels: str, look: Lookup) -> list[Properties]:
    """Pods of a selector that are not on their way out; none for an empty selector."""
    if not labels:
        return []
    return [each for each in look.find(POD, namespace, labels=labels) if not at(each, "metadata", "deletionTimestamp")]
