"""What the objects of the cluster say of one service now: why replicas are missing, what ended and by whom, which node is out of use.
Pure; from objects as the API server answers them.

Events are kept for an hour.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from headway.diagnosis.container_ends import how_it_ended
from headway.diagnosis.facts import PASSING, State, StateKind
from headway.diagnosis.node_states import of_nodes, pool_of
from headway.diagnosis.objects import Body, by_object, changed_at, containers, ended_before, long_ago, seconds, unready_since
from headway.diagnosis.other_tenants import without_pods
from headway.diagnosis.starting import starting
from headway.node_health.decision import SLOW
from headway.node_health.facts import Quarantine, QuarantineState
from headway.problem import on_one_line
from headway.service_status.pending import PendingKind, condition, pending, quarantined, quota_of, refused, running_unready
from headway.wire import ACCELERATOR_READY, POOL, QUARANTINE

Events = Mapping[str, Sequence[Body]]
"""By the name of whom they are about."""

_ON_ITS_WAY = 300.0
"""Seconds for which a replica that is not ready is on its way, and not missing."""


def states(
    deployments: Sequence[Body], pods: Sequence[Body], nodes: Sequence[Body], others: Sequence[Body], events: Sequence[Body], *, at: float
) -> tuple[State, ...]:
    """Of one service's Deployments and pods; `others` are the pods of the whole cluster, `at` in Unix seconds. What ended within the last
    hour counts."""
    about = by_object(events)
    found = [
        *_missing(deployments, pods, nodes, others, about, at),
        *_ended(pods, about, at),
        *_nodes(deployments, pods, nodes),
        *of_nodes(pods, about, at=at),
        *starting(pods, at=at),
    ]
    live = [each for each in pods if each.get("status", {}).get("phase") not in _OVER and "deletionTimestamp" not in each["metadata"]]
    again = bool(live) and all(condition(each, "Ready") for each in live)
    return tuple(dict.fromkeys(replace(each, over=again and each.kind in PASSING) for each in found))


NOTHING_FINISHED = "and nothing was finished"
"""Of what the probe says (`components/model_service/scripts/probe.py`) of a server that answers nothing and does nothing else either."""
_OVER = ("Failed", "Succeeded")
"""A pod that was refused by its node, or ended with it, stays until it is collected; another one is in its place."""


def _missing(
    deployments: Iterable[Body], pods: Iterable[Body], nodes: Sequence[Body], others: Sequence[Body], about: Events, at: float
) -> Iterator[State]:
    for pod in pods:
        name = str(pod["metadata"]["name"])
        if pod.get("status", {}).get("phase") in _OVER:
            continue
        this = pending(pod, nodes, others, about.get(name, ()))
        if this is None or this.kind is PendingKind.LEAVING:
            continue
        if this.kind is PendingKind.ENDED and any("terminated" in each.get("lastState", {}) for each in containers(pod)):
            continue  # `_ended` says how
        made = seconds(pod["metadata"].get("creationTimestamp"))
        on_its_way = _starts(pod) or (made is not None and at - made < _ON_ITS_WAY)
        if this.kind is PendingKind.UNREADY and on_its_way and not _restarts(pod):
            continue
        words, kind = on_one_line(this.words), this.kind
        if kind is PendingKind.UNREADY and _fails_its_probe(pod, about.get(name, ())):
            kind = StateKind.HANGING if NOTHING_FINISHED in words else StateKind.PROBE_FAILING
        yield State(kind=StateKind(kind.value), subject=name, words=words, since=unready_since(pod), pool=pool_of(pod))
    for each in deployments:
        conditions = each.get("status", {}).get("conditions", [])
        message = next((c for c in conditions if c.get("type") == "ReplicaFailure" and c.get("status") == "True"), None)
        if message:
            kind = StateKind.QUOTA_FULL if quota_of(message.get("message", "")) else StateKind.UNPLACED
            words = on_one_line(refused(conditions))
            yield State(kind=kind, subject=str(each["metadata"]["name"]), words=words, since=seconds(message.get("lastTransitionTime")))


def _ended(pods: Iterable[Body], about: Events, at: float) -> Iterator[State]:
    for pod in pods:
        name = str(pod["metadata"]["name"])
        for each in containers(pod):
            ended = each.get("lastState", {}).get("terminated")
            finished = seconds(ended.get("finishedAt")) if ended else None
            if not ended or finished is None or long_ago(finished, at):
                continue
            kind, words = how_it_ended(pod, each, about.get(name, ()))
            yield State(kind=kind, subject=name, words=on_one_line(words), since=finished, repeats=ended_before(each, ended, at))


def nodes_of(deployments: Iterable[Body], pods: Iterable[Body], nodes: Iterable[Body]) -> list[Body]:
    """Of the pools that a service is placed in, and those on which it runs."""
    pools = {(each["spec"]["template"]["spec"].get("nodeSelector") or {}).get(POOL) for each in deployments} - {None}
    used = {pod.get("spec", {}).get("nodeName") for pod in pods}
    return [each for each in nodes if each["metadata"].get("labels", {}).get(POOL) in pools or each["metadata"]["name"] in used]


def _nodes(deployments: Sequence[Body], pods: Sequence[Body], nodes: Iterable[Body]) -> Iterator[State]:
    own = {each["metadata"].get("namespace") for each in (*deployments, *pods)}
    for node in nodes_of(deployments, pods, nodes):
        name = str(node["metadata"]["name"])
        if quarantined(node):
            why, since = _apart(node, own)
            yield State(kind=StateKind.NODE_SET_APART, subject=name, words=why, since=since)
        elif not condition(node, "Ready"):
            yield State(kind=StateKind.NODE_NOT_READY, subject=name, words="the node is not ready", since=changed_at(node, "Ready"))


def _apart(node: Body, own: Collection[str]) -> tuple[str, float | None]:
    """Why a node is in quarantine, and since when it takes no replica; from when it was drained on, it has none either."""
    written = (node["metadata"].get("annotations") or {}).get(QUARANTINE)
    if written and (found := Quarantine.read(written)):
        since = found.changed if found.state is QuarantineState.WAITING else found.since
        reason = on_one_line(found.reason)
        return f"in quarantine: {without_pods(reason, own) if reason.startswith(SLOW) else reason}", since
    said = [c for c in node.get("status", {}).get("conditions", ()) if c.get("type") == ACCELERATOR_READY and c.get("status") == "False"]
    if not said:
        return "in quarantine", None
    return f"in quarantine; the node says {said[0].get('reason')}", seconds(said[0].get("lastTransitionTime"))


def _fails_its_probe(pod: Body, events: Iterable[Body]) -> bool:
    return bool(running_unready(pod.get("status", {}))) and any(each.get("reason") == "Unhealthy" for each in events)


def _starts(pod: Body) -> bool:
    """Whether a startup probe still waits, which the kubelet ends in its time (Kubernetes API, `ContainerStatus.started`)."""
    return any(each.get("started") is False for each in running_unready(pod.get("status", {})))


def _restarts(pod: Body) -> int:
    return sum(int(each.get("restartCount", 0)) for each in containers(pod))
