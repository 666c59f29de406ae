"""A node that MIG is to cut: what is done from its birth until it serves, and what is never done."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.node_health.decision import (
    LATE,
    Action,
    Admit,
    Isolate,
    NodeHealthPolicy,
    Readmit,
    Replace,
    Tell,
    decide,
    is_cut,
    taints_after,
)
from headway.node_health.facts import GpuNode, NodeCondition, NodePod, Quarantine, QuarantineState, nodes
from headway.node_health.readiness import GpuOperatorState, PoolPromise, lacks
from headway.wire import MIG_CONFIG, MIG_STATE, MIG_TAINT, POOL, QUARANTINE

POLICY = NodeHealthPolicy()
NOW = 1_000_000.0
YOUNG, OLD = NOW - 60, NOW - POLICY.cut_seconds
SLICE = "nvidia.com/mig-1g.10gb"
PROMISE = PoolPromise(pool="mig", resources={SLICE: 56}, driver="580.159.03")
WHOLE = replace(PROMISE, resources={"nvidia.com/gpu": 8})
UNCUT = {"key": MIG_TAINT, "value": "pending", "effect": "NoSchedule"}
GPU = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
SET_APART = {"key": QUARANTINE, "value": "true", "effect": "NoSchedule"}
XID = NodeCondition(type="AcceleratedHardwareReady", status="False", reason="NvidiaXID48Error", since=NOW)
SERVER = NodePod(namespace="vision", name="defects-1", gpus=1)


def node(**changes: Any) -> GpuNode:
    """A node of a MIG pool that has just joined, changed."""
    given: dict[str, Any] = {"name": "n", "pool": "mig", "created": YOUNG, "sliced": True, "taints": (GPU, UNCUT)}
    given |= {"offered": {}, "installed": {}}
    return GpuNode(**{**given, **changes})


def cut(**changes: Any) -> GpuNode:
    return node(**{"mig_state": "success", "offered": {SLICE: 56}, "installed": {SLICE: 56}, **changes})


def late(state: QuarantineState = QuarantineState.WAITING, since: float = NOW, **changes: Any) -> GpuNode:
    """In quarantine because it was not cut in time, in `state` since then."""
    record = Quarantine(state=state, reason=changes.pop("reason", LATE), by="headway", since=since, changed=since)
    return node(**{"created": OLD - 3600, "taints": (GPU, UNCUT, SET_APART), "quarantine": record, **changes})


def kinds(actions: Sequence[Action]) -> list[str]:
    return [f"to {a.quarantine.state}: {a.quarantine.reason}" if isinstance(a, Isolate) else type(a).__name__ for a in actions]


OFFERED: dict[str, Any] = {"mig_state": "success", "offered": {SLICE: 56}, "installed": {SLICE: 56}}
TABLE: tuple[tuple[str, GpuNode, PoolPromise | None, list[str]], ...] = (
    ("just joined", node(), PROMISE, []),
    ("the MIG manager cuts", node(mig_state="pending"), PROMISE, []),
    ("it reboots", node(mig_state="rebooting", ready=False), PROMISE, []),
    ("success, the plugin has not answered", node(mig_state="success"), PROMISE, []),
    ("success, a slice is missing", cut(offered={SLICE: 55}), PROMISE, []),
    ("offered, no success", cut(mig_state="pending"), PROMISE, []),
    ("cut, not ready", cut(ready=False), PROMISE, []),
    ("cut", cut(), PROMISE, ["Admit"]),
    ("cut, and late", cut(created=OLD), PROMISE, ["Admit"]),
    ("cut, with a fault", cut(conditions=(XID,)), PROMISE, ["to draining: NvidiaXID48Error"]),
    ("cut, and set apart by nobody", cut(taints=(UNCUT, SET_APART)), PROMISE, ["Tell"]),
    ("failed, and young", node(mig_state="failed"), PROMISE, []),
    ("failed, and late", node(mig_state="failed", created=OLD), PROMISE, [f"to draining: {LATE}"]),
    ("nothing begun, and late", node(created=OLD), PROMISE, [f"to draining: {LATE}"]),
    ("success, nothing offered, and late", node(mig_state="success", created=OLD), PROMISE, [f"to draining: {LATE}"]),
    ("uncut without the taint, and late", node(created=OLD, taints=(GPU,)), PROMISE, []),
    ("of a pool of whole GPUs", cut(), WHOLE, ["Tell"]),
    ("of a pool that nobody promised", cut(), None, ["Tell"]),
    ("late, drains", late(QuarantineState.DRAINING), PROMISE, [f"to waiting: {LATE}"]),
    ("late, waits", late(), PROMISE, []),
    ("late, waited for long", late(since=NOW - 1800), PROMISE, ["Replace", f"to replacing: {LATE}"]),
    ("late, cut after all", late(**OFFERED), PROMISE, ["Readmit"]),
    ("late, and then a fault", late(conditions=(XID,)), PROMISE, ["to waiting: NvidiaXID48Error"]),
    ("a fault, cut meanwhile", late(reason="NvidiaXID48Error", **OFFERED), PROMISE, []),
    ("late, ends", late(QuarantineState.REPLACING), PROMISE, []),
)


@pytest.mark.parametrize(("case", "given_node", "promise", "expected"), TABLE, ids=[case for case, *_ in TABLE])
def test_what_follows_while_mig_cuts(case: str, given_node: GpuNode, promise: PoolPromise | None, expected: list[str]) -> None:
    assert kinds(decide([given_node], NOW, POLICY, [promise] if promise else [])) == expected, case


def test_nodes_that_are_all_late_are_not_all_taken() -> None:
    fleet = [node(name=f"n{number}", created=OLD) for number in range(4)]
    assert kinds(decide(fleet, NOW, POLICY, [PROMISE])) == [f"to draining: {LATE}", "Tell", "Tell", "Tell"]


# A life: the world does what it likes, and obeys.

EVENTS = st.lists(
    st.sampled_from(
        ["pending", "rebooting", "success", "failed", "offer", "withdraw", "away", "back", "fault", "clear", "time", "long-time"]
    ),
    max_size=40,
)
STRANGERS = st.lists(st.sampled_from(["team", "node.kubernetes.io/not-ready", "ToBeDeletedByClusterAutoscaler"]), unique=True)
PROMISES = st.sampled_from([PROMISE, WHOLE, None])


def _live(events: Sequence[str], promise: PoolPromise | None, strangers: Sequence[str]) -> list[tuple[GpuNode, tuple[Action, ...]]]:
    taints = (GPU, *({"key": key, "effect": "NoSchedule"} for key in strangers), UNCUT)
    now, it, rounds = NOW, node(taints=taints, created=NOW), list[tuple[GpuNode, tuple[Action, ...]]]()
    for event in [*events, "time"]:
        now += {"time": 60.0, "long-time": 2000.0}.get(event, 1.0)
        it = _happens(it, event)
        actions = decide([it], now, POLICY, [promise] if promise else [])
        rounds.append((it, actions))
        for action in actions:
            if isinstance(action, Isolate | Admit | Readmit):
                it = replace(it, taints=tuple(taints_after(action)))
            if isinstance(action, Isolate | Readmit):
                it = replace(it, quarantine=action.quarantine if isinstance(action, Isolate) else None)
        if any(isinstance(action, Replace) for action in actions):
            break
    return rounds


def _happens(it: GpuNode, event: str) -> GpuNode:
    match event:
        case "offer" | "withdraw":
            amount = 56 if event == "offer" else 0
            return replace(it, offered={SLICE: amount}, installed={SLICE: 56})
        case "away" | "back":
            return replace(it, ready=event == "back")
        case "fault" | "clear":
            return replace(it, conditions=(XID,) if event == "fault" else ())
        case "time" | "long-time":
            return it
        case state:
            return replace(it, mig_state=state)


@given(EVENTS, PROMISES, STRANGERS)
def test_no_node_is_admitted_that_is_not_cut_as_promised(events: list[str], promise: PoolPromise | None, strangers: list[str]) -> None:
    for it, actions in _live(events, promise, strangers):
        for action in actions:
            if isinstance(action, Admit):
                assert promise is PROMISE and it.mig_state == "success" and it.offered[SLICE] == 56 and it.ready


@given(EVENTS, PROMISES, STRANGERS)
def test_the_loop_touches_no_taint_but_its_own_two(events: list[str], promise: PoolPromise | None, strangers: list[str]) -> None:
    for it, actions in _live(events, promise, strangers):
        for action in actions:
            if isinstance(action, Isolate | Admit | Readmit):
                after = taints_after(action)
                changed = {str(taint["key"]) for taint in (*it.taints, *after) if (taint in it.taints) != (taint in after)}
                assert changed <= ({MIG_TAINT} if isinstance(action, Admit) else {QUARANTINE})
                assert UNCUT not in after or UNCUT in it.taints, "it takes it off, and never puts it there"


@given(EVENTS, STRANGERS)
def test_a_node_that_stays_cut_and_sound_serves_in_the_end(events: list[str], strangers: list[str]) -> None:
    end = ["clear", "back", "success", "offer", "time", "time", "time"]
    rounds = _live([*events, *end], PROMISE, strangers)
    it, actions = rounds[-1]
    replaced = any(isinstance(action, Replace) for action in actions)
    # A fault of its hardware is cleared by no test, for its GPUs are cut: such a node waits to be replaced.
    hardware = it.quarantine is not None and it.quarantine.reason != LATE
    assert replaced or hardware or (not it.uncut and not it.tainted)


@given(EVENTS, PROMISES)
def test_a_node_is_late_no_sooner_than_the_limit_says(events: list[str], promise: PoolPromise | None) -> None:
    now = NOW
    for event, (it, actions) in zip([*events, "time"], _live(events, promise, []), strict=False):
        now += {"time": 60.0, "long-time": 2000.0}.get(event, 1.0)
        begun = [a for a in actions if isinstance(a, Isolate) and a.quarantine.reason == LATE and it.quarantine is None]
        assert not begun or (now - NOW >= POLICY.cut_seconds and promise is PROMISE and not is_cut(it, promise))


# Facts and the read-back.


def test_what_the_mig_manager_says_is_read_from_the_nodes_labels() -> None:
    labels = {POOL: "mig", MIG_CONFIG: "all-1g.10gb", MIG_STATE: "rebooting"}
    metadata = {"name": "n", "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"}
    (found,) = nodes([{"metadata": metadata, "spec": {"taints": [UNCUT]}, "status": {}}], [])
    assert (found.mig_state, found.sliced, found.uncut, found.created) == ("rebooting", True, True, 1767225600.0)


def test_a_node_whose_layout_says_whole_is_not_cut() -> None:
    (found,) = nodes([{"metadata": {"name": "n", "labels": {POOL: "l4", MIG_CONFIG: "all-disabled"}}, "status": {}}], [])
    assert not found.sliced, "its GPUs can be tested"


def test_a_node_that_is_cut_and_still_tainted_is_told_at_the_read_back() -> None:
    ready = GpuOperatorState(state="ready")
    (told,) = lacks([PROMISE], [cut()], ready)
    assert "still has the taint" in told.fact and told.consequence == "No model is scheduled there"
    assert lacks([PROMISE], [cut(taints=(GPU,))], ready) == ()


def test_one_lack_is_told_of_a_node_that_mig_still_cuts() -> None:
    (told,) = lacks([PROMISE], [node(mig_state="pending")], GpuOperatorState(state="ready"))
    assert told.fact == f"offers 0 of 56 {SLICE}"


def test_a_taint_on_a_node_of_whole_gpus_is_told_and_left() -> None:
    (told,) = decide([cut()], NOW, POLICY, [WHOLE])
    assert isinstance(told, Tell) and told.topic == "unexplained-mig-taint"
