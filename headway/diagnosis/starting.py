"""Replicas that start, or have just started: whose files come slower than their siblings', and which have just become ready. Pure; from pods as the API server
answers them.

How long a container ran before the server stands in the pod's status (`startedAt`, `finishedAt` of its state). Only replicas of the very same
artifact are siblings: of another one nobody knows how long it ought to take.
"""

from collections.abc import Iterator, Sequence

from headway.diagnosis.facts import State, StateKind
from headway.diagnosis.objects import Body, holds_since, seconds
from headway.wire import PREFIX

FETCH = "fetch"
ARTIFACT = f"{PREFIX}/artifact"
"""As `components/model_service/pod.py` names the container that fetches the files, and the annotation that says which."""
_SLOWER = 2.0
"""Times the slowest sibling."""
_LEAST_SECONDS = 60.0
"""More than that: what takes less hurts nobody's start."""
_YOUNG_SECONDS = 300.0


def starting(pods: Sequence[Body], *, at: float) -> Iterator[State]:
    """`at` in Unix seconds."""
    yield from _slow_fetches(pods, at)
    for pod in pods:
        ready = holds_since(pod, "Ready")
        if ready is not None and at - ready < _YOUNG_SECONDS:
            words = f"it became ready {at - ready:.0f} s before"
            yield State(kind=StateKind.YOUNG, subject=str(pod["metadata"]["name"]), words=words, since=ready)


def _slow_fetches(pods: Sequence[Body], at: float) -> Iterator[State]:
    by_artifact: dict[str, list[tuple[str, float, float, bool]]] = {}
    ready = {str(pod["metadata"]["name"]) for pod in pods if holds_since(pod, "Ready") is not None}
    for pod in pods:
        found = _fetched(pod, at)
        if found is not None:
            by_artifact.setdefault(str((pod["metadata"].get("annotations") or {}).get(ARTIFACT)), []).append(found)
    for fetches in by_artifact.values():
        for name, began, took, done in fetches:
            siblings = [each[2] for each in fetches if each[0] != name and each[3] and each[1] < began]
            if name in ready or not siblings or took < _SLOWER * max(siblings) or took - max(siblings) < _LEAST_SECONDS:
                continue
            words = (
                f"its files {'took' if done else 'have taken'} {took:.0f} s, those of {len(siblings)} earlier at most {max(siblings):.0f} s"
            )
            yield State(kind=StateKind.FETCH_SLOW, subject=name, words=words, since=began)


def _fetched(pod: Body, at: float) -> tuple[str, float, float, bool] | None:
    """Whose, since when in Unix seconds, how many seconds it took so far, and whether it is done; None where it failed, or has not begun."""
    for each in pod.get("status", {}).get("initContainerStatuses", ()):
        state = each.get("state", {})
        if each.get("name") != FETCH or each.get("restartCount"):
            continue
        running, ended = state.get("running"), state.get("terminated")
        began = seconds((running or ended or {}).get("startedAt"))
        until = at if running else seconds((ended or {}).get("finishedAt"))
        if began is not None and until is not None and not (ended or {}).get("exitCode"):
            return str(pod["metadata"]["name"]), began, until - began, not running
    return None
