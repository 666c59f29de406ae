"""What objects of the API server hold in many places: times, conditions, events, and the line of a text in which something was found. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from headway.contract.secret_names import masked
from headway.diagnosis.facts import CLOCKS_SECONDS
from headway.service_status.pending import condition

Body = Mapping[str, Any]

RECENT_SECONDS = 3600.0
"""For which events are kept, and what has ended counts."""
_LONGEST_LINE = 200


def seconds(text: Any) -> float | None:
    """Unix seconds of a time as the API server writes it; None for what is none."""
    try:
        return datetime.fromisoformat(str(text)).timestamp() if text else None
    except ValueError:
        return None


def event_seconds(event: Body) -> float | None:
    """When an event was last seen."""
    return seconds(event.get("lastTimestamp") or event.get("eventTime"))


def changed_at(thing: Body, kind: str) -> float | None:
    """Unix seconds at which a condition of a pod or node last changed."""
    found: Body = next((c for c in thing.get("status", {}).get("conditions", ()) if c.get("type") == kind), {})
    return seconds(found.get("lastTransitionTime"))


def holds_since(thing: Body, kind: str) -> float | None:
    """Unix seconds since which a condition holds; None where it does not."""
    return changed_at(thing, kind) if condition(thing, kind) else None


def long_ago(moment: float | None, at: float) -> bool:
    """Whether what ended then no longer counts; what nobody dates does."""
    return moment is not None and at - moment > RECENT_SECONDS


def ended_before(container: Body, ended: Body, at: float) -> bool:
    """Whether a container had ended before this end too, and it counts. It was started again at once, or within the five minutes for which the
    kubelet holds it back (kubernetes, `pkg/kubelet/kubelet.go`, `MaxContainerBackOff`), so the end before was about when this run began; of
    earlier ones nothing is known. A run that never began says Unix 0 (`pkg/kubelet/kuberuntime/kuberuntime_container.go`)."""
    times, before = container.get("restartCount", 0), seconds(ended.get("startedAt")) or seconds(ended.get("finishedAt"))
    return times > 1 and not long_ago(before, at) and (times > 2 or before is None or before <= at + CLOCKS_SECONDS)


def was_never_ready(pod: Body) -> bool:
    """It has been unready since before all of it was set up: a pod that was ready once became so, and ceased, after that."""
    first, set_up = changed_at(pod, "Ready"), changed_at(pod, "Initialized")
    return not condition(pod, "Ready") and first is not None and set_up is not None and first <= set_up


def unready_since(pod: Body) -> float | None:
    """Since when a pod is missing: when it ceased to be ready, or was made."""
    ceased = None if was_never_ready(pod) else changed_at(pod, "Ready")
    return seconds(pod["metadata"].get("creationTimestamp")) if ceased is None else ceased


def containers(pod: Body) -> Sequence[Body]:
    """The states of a pod's containers, without those that only prepare it."""
    return pod.get("status", {}).get("containerStatuses", ())


def by_object(events: Iterable[Body]) -> Mapping[str, Sequence[Body]]:
    """Events by the name of whom they are about."""
    found: dict[str, list[Body]] = {}
    for event in events:
        found.setdefault(str(event.get("involvedObject", {}).get("name")), []).append(event)
    return found


def line_of(text: str, found: re.Match[str]) -> str:
    """The line in which something was found, from there on, without secrets."""
    line = masked(text[found.start() :].partition("\n")[0].strip())
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"
