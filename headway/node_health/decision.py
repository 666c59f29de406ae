"""What is to be done about each node, from what is known of all of them at one moment. Pure: the same facts and clock
give the same actions.

A node of a pool that MIG cuts is born with a taint, and is admitted once it is cut as the pool promises. One with a
fault goes draining -> waiting -> testing -> back in service, or waiting -> replacing -> gone. At most one step of a
node's state a round; a fault moves it back. A fault that many nodes report at once is rarely theirs (a driver, an
agent, a network), so a brake stops new quarantines while too much of a pool is away; and a repair that EKS carries out
must not be raced, so ours waits its turn.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from headway.contract import xids
from headway.node_health.facts import Diagnostic, GpuNode, NodePod, Quarantine, QuarantineState, SlowReplica
from headway.node_health.readiness import PoolPromise
from headway.wire import ACCELERATOR_READY, MIG_STARTUP_SECONDS, MIG_TAINT, QUARANTINE

LOOP = "headway"
"""Who put a node into quarantine when no person did."""

LATE = "MigLayoutLate"
"""The fault of a node that is not cut in time. Unlike the others it needs no test: what it lacked is there or is not."""

SLOW = "SlowerThanSiblings"
"""How the reason begins where no counter says anything: the GPU is slow. DCGM's diagnostic measures no speed, so it clears nobody of it."""

_OTHERS_AT_LEAST = 2
"""Of two replicas nobody knows which one is odd."""

_XID = re.compile(r"NvidiaXID([0-9]+)Error")


@dataclass(frozen=True, kw_only=True)
class NodeHealthPolicy:
    """Limits. Times in seconds."""

    ignored: frozenset[str] = frozenset({"DCGMError"})
    """Reasons that are the monitoring's own trouble, not the hardware's (aws/containers-roadmap#2567)."""
    away_at_most_percent: int = 30
    """Share of a pool that may be in quarantine; one node may always be."""
    drain_seconds: float = 1800
    """After this, a drain that a disruption budget holds up is told to people. It is never forced."""
    repair_seconds: float = 1800
    """How long a drained node waits for EKS's own repair, which acts within 10 minutes of the fault."""
    test_seconds: float = 1200
    attempts: int = 2
    """Diagnostics that may fail before the node is replaced."""
    gone_seconds: float = 1800
    """How long an instance may take to end before it is told so again."""
    cut_seconds: float = MIG_STARTUP_SECONDS
    """How long after it has joined a node may take until MIG has cut it. An Ampere GPU needs a reboot in between."""


@dataclass(frozen=True, kw_only=True)
class Isolate:
    """Taint the node and write down why; the same action moves it from state to state."""

    node: GpuNode
    quarantine: Quarantine


@dataclass(frozen=True, kw_only=True)
class Evict:
    """Ask for the pod's eviction, which the API server refuses while a disruption budget forbids it."""

    node: GpuNode
    pod: NodePod


@dataclass(frozen=True, kw_only=True)
class Diagnose:
    """Start a diagnostic."""

    node: GpuNode
    trial: str


@dataclass(frozen=True, kw_only=True)
class Clear:
    """Remove the diagnostic's pods."""

    node: GpuNode


@dataclass(frozen=True, kw_only=True)
class Admit:
    """Take the taint off with which the node was born: it is cut as its pool promises."""

    node: GpuNode


@dataclass(frozen=True, kw_only=True)
class Readmit:
    """Take taint and annotation off."""

    node: GpuNode


@dataclass(frozen=True, kw_only=True)
class Replace:
    """End the instance; its group starts another."""

    node: GpuNode


@dataclass(frozen=True, kw_only=True)
class Tell:
    """Something that a person must know and the loop may not decide. `topic` is stable: one word for alerts."""

    node: GpuNode
    topic: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Something that nobody need do anything about yet."""

    node: GpuNode
    text: str


Action = Isolate | Evict | Diagnose | Clear | Admit | Readmit | Replace | Tell | Notice


def taints_after(action: Isolate | Admit | Readmit) -> list[Mapping[str, Any]]:
    """All taints of its node once it is carried out: none but the loop's own two come or go."""
    own = MIG_TAINT if isinstance(action, Admit) else QUARANTINE
    kept = [taint for taint in action.node.taints if taint.get("key") != own]
    return [*kept, {"key": QUARANTINE, "value": "true", "effect": "NoSchedule"}] if isinstance(action, Isolate) else kept


def fault(node: GpuNode, policy: NodeHealthPolicy) -> str:
    """The reason that the node's monitoring gives; empty while it is sound."""
    for condition in node.conditions:
        if condition.type == ACCELERATOR_READY and condition.status == "False" and condition.reason not in policy.ignored:
            return condition.reason or "unstated"
    return ""


def clearable(reason: str) -> bool:
    """Whether a diagnostic may clear a node of this fault."""
    found = _XID.fullmatch(reason)
    return not reason.startswith(SLOW) if found is None else int(found[1]) not in xids.BEYOND_TESTING


def is_cut(node: GpuNode, promise: PoolPromise | None) -> bool:
    """Whether MIG has cut the node as its pool promises. The MIG manager says success before the device plugin, which it
    restarts, has offered anything."""
    return promise is not None and promise.sliced and node.ready and node.mig_state == "success" and promise.offered_by(node)


def decide(
    nodes: Sequence[GpuNode],
    now: float,
    policy: NodeHealthPolicy,
    promises: Sequence[PoolPromise] = (),
    slow: Mapping[str, SlowReplica] | None = None,
) -> tuple[Action, ...]:
    """What to do now, in the order in which to do it. `now` in Unix seconds; `promises` are the pools'; `slow` proposes nodes for quarantine
    that are proven slow, by name, once a pool's faults have had their room."""
    promised, proposed = {promise.pool: promise for promise in promises}, slow or {}
    actions: list[Action] = []
    for name, members in groupby(sorted(nodes, key=lambda n: (n.pool, n.name)), key=lambda n: n.pool):
        pool = list(members)
        away = sum(1 for node in pool if node.quarantine is not None or node.unreadable)
        room = max(1, len(pool) * policy.away_at_most_percent // 100) - away
        slower: list[GpuNode] = []
        for node in pool:
            if node.unreadable:
                text = f"Nobody understands what the API server says of it ({node.unreadable}), so it is left as it is"
                actions.append(Tell(node=node, topic="unreadable", text=text))
                continue
            reason = fault(node, policy) or _late_cut(node, promised.get(name), now, policy)
            if node.quarantine is not None:
                actions += _continue(node, node.quarantine, reason, now, policy)
            elif reason:
                if room > 0:
                    room -= 1
                    actions.append(_isolate(node, reason, now))
                else:
                    actions.append(_braked(node, reason, policy))
            elif node.tainted:
                text = "The quarantine's taint is on the node, and no reason: someone put it there by hand, or removed the annotation"
                actions.append(Tell(node=node, topic="unexplained-taint", text=text))
            elif node.uncut:
                actions += _admit(node, promised.get(name))
            elif node.name in proposed:
                slower.append(node)
        for node in sorted(slower, key=lambda each: (not proposed[each.name].proven, -proposed[each.name].slower, each.name)):
            action = _slower(node, proposed[node.name], now, policy, room)
            room -= isinstance(action, Isolate)
            actions.append(action)
    return tuple(actions)


def _late_cut(node: GpuNode, promise: PoolPromise | None, now: float, policy: NodeHealthPolicy) -> str:
    waits = node.uncut and promise is not None and promise.sliced and not is_cut(node, promise)
    return LATE if waits and now - node.created >= policy.cut_seconds else ""


def _admit(node: GpuNode, promise: PoolPromise | None) -> list[Action]:
    if promise is None or not promise.sliced:
        text = f"It has the taint of a node that MIG is to cut, and pool {node.pool} is none that MIG cuts: whoever put it there must take it off"
        return [Tell(node=node, topic="unexplained-mig-taint", text=text)]
    return [Admit(node=node)] if is_cut(node, promise) else []


def _isolate(node: GpuNode, reason: str, now: float) -> Isolate:
    return Isolate(node=node, quarantine=Quarantine(state=QuarantineState.DRAINING, reason=reason, by=LOOP, since=now, changed=now))


def _slower(node: GpuNode, found: SlowReplica, now: float, policy: NodeHealthPolicy, room: int) -> Action:
    if not found.proven:
        # Without figures, which change at each look: an event with the same words is the same event.
        return Notice(node=node, text=f"{found.pod} takes longer than its {found.siblings} siblings, which may be chance: it is watched")
    if found.siblings < _OTHERS_AT_LEAST:
        text = f"{found.words}; of two nobody knows which one is odd, so the node stays as it is"
        return Tell(node=node, topic="slower-of-two", text=text)
    reason = f"{SLOW}: {found.words}"
    return _isolate(node, reason, now) if room > 0 else _braked(node, reason, policy)


def _braked(node: GpuNode, reason: str, policy: NodeHealthPolicy) -> Tell:
    text = (
        f"{reason} is reported, but {policy.away_at_most_percent} % of pool {node.pool} are away already: the node stays as it is, "
        "for a fault of so many is rarely theirs"
    )
    return Tell(node=node, topic="brake", text=text)


def _continue(node: GpuNode, quarantine: Quarantine, reported: str, now: float, policy: NodeHealthPolicy) -> list[Action]:
    if not node.tainted:
        return [Isolate(node=node, quarantine=quarantine)]
    match quarantine.state:
        case QuarantineState.DRAINING:
            return _drain(node, quarantine, now, policy)
        case QuarantineState.WAITING:
            return _wait(node, quarantine, reported, now, policy)
        case QuarantineState.TESTING:
            return _test(node, quarantine, reported, now, policy)
        case QuarantineState.REPLACING:
            return (
                [Replace(node=node), _moved(node, quarantine, QuarantineState.REPLACING, now)]
                if _late(quarantine, now, policy.gone_seconds)
                else []
            )


def _drain(node: GpuNode, quarantine: Quarantine, now: float, policy: NodeHealthPolicy) -> list[Action]:
    if not node.movable:
        return [_moved(node, quarantine, QuarantineState.WAITING, now)]
    actions: list[Action] = [Evict(node=node, pod=pod) for pod in node.movable]
    if _late(quarantine, now, policy.drain_seconds):
        named = ", ".join(f"{pod.namespace}/{pod.name}" for pod in node.movable[:3])
        text = (
            f"{len(node.movable)} pods have not left ({named}): a disruption budget forbids it, or a pod does not end. It is never forced"
        )
        actions.append(Tell(node=node, topic="drain-stuck", text=text))
    return actions


def _wait(node: GpuNode, quarantine: Quarantine, reported: str, now: float, policy: NodeHealthPolicy) -> list[Action]:
    if node.movable:
        return [_moved(node, quarantine, QuarantineState.DRAINING, now)]
    if quarantine.held:
        return []
    if quarantine.reason == LATE and reported != LATE:
        # Cut after all; or its hardware reports something that is no matter of time.
        return [_moved(node, replace(quarantine, reason=reported), QuarantineState.WAITING, now)] if reported else [Readmit(node=node)]
    hopeless = node.sliced or not clearable(quarantine.reason) or quarantine.attempts >= policy.attempts
    if not reported and node.whole and not hopeless:
        return _tried(node, quarantine, now)
    if not _late(quarantine, now, policy.repair_seconds):
        return []
    return [Replace(node=node), _moved(node, quarantine, QuarantineState.REPLACING, now)]


def _test(node: GpuNode, quarantine: Quarantine, reported: str, now: float, policy: NodeHealthPolicy) -> list[Action]:
    if node.movable:
        return [Clear(node=node), _moved(node, quarantine, QuarantineState.DRAINING, now)]
    if reported:
        return [Clear(node=node), _moved(node, replace(quarantine, reason=reported), QuarantineState.WAITING, now)]
    overdue = node.diagnostic in (Diagnostic.RUNNING, Diagnostic.NONE) and _late(quarantine, now, policy.test_seconds)
    if node.diagnostic is Diagnostic.PASSED:
        return [Readmit(node=node), Clear(node=node)]
    if node.diagnostic is Diagnostic.FAILED or overdue:
        if quarantine.attempts < policy.attempts:
            return [Clear(node=node), _moved(node, quarantine, QuarantineState.WAITING, now)]
        return [Clear(node=node), Replace(node=node), _moved(node, quarantine, QuarantineState.REPLACING, now)]
    return [Diagnose(node=node, trial=quarantine.trial)] if node.diagnostic is Diagnostic.NONE else []


def _tried(node: GpuNode, quarantine: Quarantine, now: float) -> list[Action]:
    once_more = replace(quarantine, attempts=quarantine.attempts + 1)
    return [_moved(node, once_more, QuarantineState.TESTING, now)]


def _moved(node: GpuNode, quarantine: Quarantine, state: QuarantineState, now: float) -> Isolate:
    return Isolate(node=node, quarantine=replace(quarantine, state=state, changed=now))


def _late(quarantine: Quarantine, now: float, seconds: float) -> bool:
    return now - quarantine.changed >= seconds


def by_hand(node: GpuNode, reason: str, who: str, now: float) -> Isolate:
    """Set apart by a person: drained, then held until that person or another releases it."""
    return Isolate(
        node=node, quarantine=Quarantine(state=QuarantineState.DRAINING, reason=reason, by=who, since=now, changed=now, held=True)
    )


def released(node: GpuNode, now: float, *, untested: bool) -> Action | None:
    """What a person's release means: a diagnostic first, unless told otherwise or the GPUs are cut by MIG. None if
    it is in no quarantine."""
    if node.quarantine is None:
        return Readmit(node=node) if node.tainted else None
    if untested:
        return Readmit(node=node)
    free = replace(node.quarantine, held=False, attempts=0)
    return _moved(node, free, QuarantineState.DRAINING, now)
