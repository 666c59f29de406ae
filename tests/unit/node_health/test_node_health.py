"""What is done about a GPU node that reports a fault: every state with every thing that may happen in it, and what holds over whole lives."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import boto3
import pytest
from botocore.stub import Stubber
from hypothesis import given
from hypothesis import strategies as st

from components.addons import gpu_operator
from headway.cli.nodes import lines
from headway.node_health.cluster import NodeCluster, NodeHealthSettings
from headway.node_health.decision import (
    LOOP,
    SLOW,
    Action,
    Admit,
    Clear,
    Diagnose,
    Evict,
    Isolate,
    NodeHealthPolicy,
    Notice,
    Readmit,
    Replace,
    Tell,
    by_hand,
    clearable,
    decide,
    fault,
    released,
)
from headway.node_health.facts import (
    DIAGNOSTIC_LABEL,
    Diagnostic,
    GpuNode,
    NodeCondition,
    NodePod,
    Quarantine,
    QuarantineState,
    SlowReplica,
    in_short,
    nodes,
)
from headway.node_health.readiness import GpuOperatorState, PoolPromise, cluster_policy_state, lacks
from headway.node_health.replacement import AutoScaling
from headway.node_health.watch import ReadBack
from headway.problem import UserError
from headway.wire import MODEL, NODE_HEALTH_NAMESPACE, POOL, QUARANTINE, RELEASE, TENANT
from tests.loopback import Handler, served

POLICY = NodeHealthPolicy()
NOW = 1_000_000.0
XID = NodeCondition(type="AcceleratedHardwareReady", status="False", reason="NvidiaXID48Error", since=NOW)
SERVER = NodePod(namespace="vision", name="defects-1", tenant="vision", model="defects", release="r1", gpus=1)
TAINT = {"key": QUARANTINE, "effect": "NoSchedule"}
DAEMON = NodePod(namespace="gpu-operator", name="exporter", movable=False)


def node(**changes: Any) -> GpuNode:
    given: dict[str, Any] = {
        "name": "n1",
        "pool": "l4",
        "driver": "580.159.03",
        "offered": {"nvidia.com/gpu": 4},
        "installed": {"nvidia.com/gpu": 4},
        "pods": (DAEMON,),
    }
    return GpuNode(**{**given, **changes})


def isolated(state: QuarantineState, **changes: Any) -> GpuNode:
    """A node in quarantine since an hour before, in `state` since now, but for `changes` of either."""
    own: dict[str, Any] = {key: changes.pop(key) for key in ("attempts", "held", "changed", "reason") if key in changes}
    given: dict[str, Any] = {"state": state, "reason": "NvidiaXID48Error", "by": LOOP, "since": NOW - 3600, "changed": NOW}
    return node(**{"taints": (TAINT,), "quarantine": Quarantine(**{**given, **own}), **changes})


def kinds(actions: Sequence[Action]) -> list[str]:
    """The actions by name; a change of state with the state that it leads to."""
    return [f"to {a.quarantine.state}" if isinstance(a, Isolate) else type(a).__name__ for a in actions]


LATE = NOW - 3601
TABLE: tuple[tuple[str, GpuNode, list[str]], ...] = (
    ("sound", node(), []),
    ("a fatal fault", node(conditions=(XID,), pods=(SERVER,)), ["to draining"]),
    ("the agent's own trouble", node(conditions=(replace(XID, reason="DCGMError"),)), []),
    ("a condition that holds", node(conditions=(replace(XID, status="True"),)), []),
    ("a taint without a reason", node(taints=(TAINT,)), ["Tell"]),
    ("the taint was taken off", replace(isolated(QuarantineState.WAITING), taints=()), ["to waiting"]),
    ("draining, servers run", isolated(QuarantineState.DRAINING, pods=(DAEMON, SERVER)), ["Evict"]),
    ("draining for too long", isolated(QuarantineState.DRAINING, pods=(SERVER,), changed=LATE), ["Evict", "Tell"]),
    ("drained", isolated(QuarantineState.DRAINING), ["to waiting"]),
    ("waiting, the fault remains", isolated(QuarantineState.WAITING, conditions=(XID,)), []),
    ("waiting, repair did not come", isolated(QuarantineState.WAITING, conditions=(XID,), changed=LATE), ["Replace", "to replacing"]),
    ("waiting, the fault is gone", isolated(QuarantineState.WAITING), ["to testing"]),
    ("waiting, the node is away", isolated(QuarantineState.WAITING, ready=False), []),
    ("waiting, a GPU is missing", isolated(QuarantineState.WAITING, offered={"nvidia.com/gpu": 3}), []),
    (
        "waiting, a GPU stays missing",
        isolated(QuarantineState.WAITING, offered={"nvidia.com/gpu": 3}, changed=LATE),
        ["Replace", "to replacing"],
    ),
    ("waiting, a pod slipped in", isolated(QuarantineState.WAITING, pods=(SERVER,)), ["to draining"]),
    ("waiting, held by a person", isolated(QuarantineState.WAITING, held=True, changed=LATE), []),
    ("waiting, no test can clear it", isolated(QuarantineState.WAITING, reason="NvidiaXID79Error"), []),
    (
        "waiting long, no test can clear it",
        isolated(QuarantineState.WAITING, reason="NvidiaXID79Error", changed=LATE),
        ["Replace", "to replacing"],
    ),
    ("waiting, slow and silent", isolated(QuarantineState.WAITING, reason=f"{SLOW}: by 1.3"), []),
    (
        "waiting long, slow and silent",
        isolated(QuarantineState.WAITING, reason=f"{SLOW}: by 1.3", changed=LATE),
        ["Replace", "to replacing"],
    ),
    ("waiting, cut by MIG", isolated(QuarantineState.WAITING, sliced=True), []),
    ("waiting long, cut by MIG", isolated(QuarantineState.WAITING, sliced=True, changed=LATE), ["Replace", "to replacing"]),
    ("testing, not started", isolated(QuarantineState.TESTING, attempts=1), ["Diagnose"]),
    ("testing, runs", isolated(QuarantineState.TESTING, attempts=1, diagnostic=Diagnostic.RUNNING), []),
    ("testing, passed", isolated(QuarantineState.TESTING, attempts=1, diagnostic=Diagnostic.PASSED), ["Readmit", "Clear"]),
    ("testing, failed once", isolated(QuarantineState.TESTING, attempts=1, diagnostic=Diagnostic.FAILED), ["Clear", "to waiting"]),
    (
        "testing, failed twice",
        isolated(QuarantineState.TESTING, attempts=2, diagnostic=Diagnostic.FAILED),
        ["Clear", "Replace", "to replacing"],
    ),
    (
        "testing, does not end",
        isolated(QuarantineState.TESTING, attempts=1, diagnostic=Diagnostic.RUNNING, changed=LATE),
        ["Clear", "to waiting"],
    ),
    ("testing, the fault is back", isolated(QuarantineState.TESTING, attempts=1, conditions=(XID,)), ["Clear", "to waiting"]),
    (
        "testing, passed with the fault back",
        isolated(QuarantineState.TESTING, attempts=1, conditions=(XID,), diagnostic=Diagnostic.PASSED),
        ["Clear", "to waiting"],
    ),
    ("testing, a pod slipped in", isolated(QuarantineState.TESTING, attempts=1, pods=(SERVER,)), ["Clear", "to draining"]),
    ("replacing", isolated(QuarantineState.REPLACING), []),
    ("replacing, still there", isolated(QuarantineState.REPLACING, changed=LATE), ["Replace", "to replacing"]),
)


@pytest.mark.parametrize(("case", "given_node", "expected"), TABLE, ids=[case for case, _, _ in TABLE])
def test_what_follows_from_each_state(case: str, given_node: GpuNode, expected: list[str]) -> None:
    assert kinds(decide([given_node], NOW, POLICY)) == expected, case


def test_a_quarantine_says_why_and_who() -> None:
    (action,) = decide([node(conditions=(XID,))], NOW, POLICY)
    assert isinstance(action, Isolate)
    assert (action.quarantine.reason, action.quarantine.by, action.quarantine.since) == ("NvidiaXID48Error", LOOP, NOW)


def test_only_what_may_leave_is_evicted() -> None:
    actions = decide([isolated(QuarantineState.DRAINING, pods=(DAEMON, SERVER))], NOW, POLICY)
    assert [action.pod.name for action in actions if isinstance(action, Evict)] == ["defects-1"]


def test_a_fault_of_many_takes_no_more_than_its_share_of_a_pool_away() -> None:
    fleet = [node(name=f"n{number}", conditions=(XID,)) for number in range(10)]
    actions = decide(fleet, NOW, POLICY)
    assert [a.node.name for a in actions if isinstance(a, Isolate)] == ["n0", "n1", "n2"], "30 % of ten"
    assert [a.topic for a in actions if isinstance(a, Tell)] == ["brake"] * 7, "the others are told of, not taken"


SLOWER = SlowReplica(pod="vision/defects-1", slower=1.31, siblings=3, evidence=4e5, needed=100)


def test_a_node_that_is_slow_and_says_nothing_is_set_apart_with_the_numbers() -> None:
    (action,) = decide([node(pods=(SERVER,))], NOW, POLICY, slow={"n1": SLOWER})
    assert isinstance(action, Isolate)
    said = "SlowerThanSiblings: vision/defects-1 takes 1.31 times as long as its 3 siblings (evidence 4e+05, 100 needed)"
    assert action.quarantine.reason == said


def test_a_node_that_is_not_proven_slow_is_watched_and_left_as_it_is() -> None:
    watched = replace(SLOWER, evidence=3.0)
    (action,) = decide([node(pods=(SERVER,))], NOW, POLICY, slow={"n1": watched})
    assert isinstance(action, Notice) and "it is watched" in action.text
    (again,) = decide([node(pods=(SERVER,))], NOW, POLICY, slow={"n1": replace(watched, evidence=9.0, slower=1.4)})
    assert isinstance(again, Notice) and again.text == action.text, "an event with the same words is the same event"


def test_a_node_that_is_only_watched_takes_no_room_of_one_that_is_slow() -> None:
    found = decide([node(name="a"), node(name="c")], NOW, POLICY, slow={"a": replace(SLOWER, evidence=3.0, slower=9.0), "c": SLOWER})
    assert {each.node.name: type(each) for each in found} == {"a": Notice, "c": Isolate}


def test_slow_nodes_take_only_the_room_that_faults_leave() -> None:
    pool = [node(name="a"), node(name="b", conditions=(XID,)), node(name="c")]
    found = decide(pool, NOW, POLICY, slow={"a": SLOWER, "c": SLOWER})
    assert [(kind, action.node.name) for kind, action in zip(kinds(found), found, strict=True)] == [
        ("to draining", "b"),
        ("Tell", "a"),
        ("Tell", "c"),
    ]


def test_of_several_slow_nodes_the_slowest_goes_first() -> None:
    found = decide([node(name="a"), node(name="c")], NOW, POLICY, slow={"a": SLOWER, "c": replace(SLOWER, slower=2.0)})
    assert [action.node.name for action in found if isinstance(action, Isolate)] == ["c"]


def test_of_two_replicas_neither_is_set_apart_and_people_are_told() -> None:
    (action,) = decide([node()], NOW, POLICY, slow={"n1": replace(SLOWER, siblings=1)})
    assert isinstance(action, Tell) and action.topic == "slower-of-two"


def test_each_pool_has_a_brake_of_its_own() -> None:
    fleet = [node(name="a", pool="l4", conditions=(XID,)), node(name="b", pool="h100", conditions=(XID,))]
    assert kinds(decide(fleet, NOW, POLICY)) == ["to draining", "to draining"]


def test_nodes_that_are_away_already_count_against_the_brake() -> None:
    fleet = [isolated(QuarantineState.WAITING, name="a", held=True), node(name="b", conditions=(XID,)), node(name="c")]
    assert kinds(decide(fleet, NOW, POLICY)) == ["Tell"]


def test_a_fault_that_returns_under_test_replaces_the_reason() -> None:
    other = replace(XID, reason="NvidiaXID79Error")
    _, moved = decide([isolated(QuarantineState.TESTING, attempts=1, conditions=(other,))], NOW, POLICY)
    assert isinstance(moved, Isolate)
    assert moved.quarantine.reason == "NvidiaXID79Error", "or a node off the bus could be cleared by a test"


@pytest.mark.parametrize(
    ("reason", "may"),
    [
        ("NvidiaXID48Error", True),
        ("NvidiaXID64Error", False),
        ("NvidiaXID79Error", False),
        ("NvidiaXID999Error", True),
        ("NVLinkError", True),
    ],
)
def test_some_faults_no_test_can_clear(reason: str, may: bool) -> None:
    assert clearable(reason) is may


def test_who_quarantines_by_hand_keeps_the_node() -> None:
    action = by_hand(node(), "slow", "person:ann", NOW)
    held = replace(node(), taints=(TAINT,), quarantine=replace(action.quarantine, state=QuarantineState.WAITING))
    assert decide([held], NOW + 10**6, POLICY) == ()


def test_a_released_node_is_tested_first() -> None:
    action = released(isolated(QuarantineState.WAITING, held=True, attempts=2), NOW, untested=False)
    assert isinstance(action, Isolate)
    assert (action.quarantine.held, action.quarantine.attempts) == (False, 0)


def test_a_release_without_a_test_is_a_persons_word() -> None:
    assert isinstance(released(isolated(QuarantineState.WAITING, held=True), NOW, untested=True), Readmit)


def test_a_node_in_no_quarantine_cannot_be_released() -> None:
    assert released(node(), NOW, untested=True) is None


def test_a_quarantine_survives_being_written_down() -> None:
    record = Quarantine(state=QuarantineState.TESTING, reason='slow "quoted"', by="x", since=1.5, changed=2.0, attempts=1, held=True)
    assert Quarantine.read(record.text()) == record


WRITTEN = '{"state":"testing","reason":"r","by":"b","since":1,"changed":1,"attempts":1,"held":false}'


@pytest.mark.parametrize(
    "text",
    [
        *("", "null", "{}", '{"state":"odd"}', '{"state":"testing","reason":"r"}', "[" * 100_000),
        *(WRITTEN.replace('"since":1', f'"since":{odd}') for odd in ("1e999", "1e300", '"nan"', "null", "true")),
        *(WRITTEN.replace('"attempts":1', f'"attempts":{odd}') for odd in ("1e999", "[]", '"1"')),
    ],
    ids=lambda text: text[:70] or "nothing",
)
def test_an_annotation_that_nobody_here_wrote_says_nothing(text: str) -> None:
    assert Quarantine.read(text) is None


# A life: what the world does between rounds, and what the loop made of it. The world obeys its actions.

EVENTS = st.lists(
    st.sampled_from(["fault", "fault-off-bus", "clear", "pod", "leave", "pass", "fail", "away", "back", "time", "long-time"]), max_size=40
)


def _live(events: Sequence[str]) -> list[tuple[GpuNode, tuple[Action, ...]]]:
    """Every round's node with what was decided on it; a node that is replaced ends the life."""
    now, it, rounds = NOW, node(), list[tuple[GpuNode, tuple[Action, ...]]]()
    for event in [*events, "time"]:
        now += {"time": 60.0, "long-time": 4000.0}.get(event, 1.0)
        it = _happens(it, event)
        actions = decide([it], now, POLICY)
        rounds.append((it, actions))
        for action in actions:
            it = _obey(it, action)
        if any(isinstance(action, Replace) for action in actions):
            break
    return rounds


def _happens(it: GpuNode, event: str) -> GpuNode:
    match event:
        case "fault":
            return replace(it, conditions=(XID,))
        case "fault-off-bus":
            return replace(it, conditions=(replace(XID, reason="NvidiaXID79Error"),))
        case "clear":
            return replace(it, conditions=())
        case "pod":
            return it if it.tainted else replace(it, pods=(DAEMON, SERVER))
        case "leave":
            return replace(it, pods=(DAEMON,))
        case "pass" if it.diagnostic is Diagnostic.RUNNING:
            return replace(it, diagnostic=Diagnostic.PASSED)
        case "fail" if it.diagnostic is Diagnostic.RUNNING:
            return replace(it, diagnostic=Diagnostic.FAILED)
        case "away" | "back":
            return replace(it, ready=event == "back")
        case _:
            return it


def _obey(it: GpuNode, action: Action) -> GpuNode:
    match action:
        case Isolate(quarantine=quarantine):
            return replace(it, taints=(TAINT,), quarantine=quarantine)
        case Diagnose():
            return replace(it, diagnostic=Diagnostic.RUNNING)
        case Clear():
            return replace(it, diagnostic=Diagnostic.NONE)
        case Readmit():
            return replace(it, taints=(), quarantine=None)
        case Admit() | Evict() | Notice() | Replace() | Tell():
            return it


@given(EVENTS)
def test_only_a_passed_diagnostic_of_a_sound_empty_node_brings_it_back(events: list[str]) -> None:
    for it, actions in _live(events):
        for action in actions:
            if isinstance(action, Readmit):
                assert it.diagnostic is Diagnostic.PASSED
                assert not fault(it, POLICY)


@given(EVENTS)
def test_no_diagnostic_starts_beside_a_workload(events: list[str]) -> None:
    for it, actions in _live(events):
        assert not it.movable or not any(isinstance(action, Diagnose) for action in actions)


@given(EVENTS)
def test_no_instance_ends_while_a_workload_runs_on_it(events: list[str]) -> None:
    for it, actions in _live(events):
        assert not it.movable or not any(isinstance(action, Replace) for action in actions)


@given(EVENTS)
def test_a_node_that_was_off_the_bus_comes_back_only_as_another(events: list[str]) -> None:
    for it, actions in _live(events):
        off = it.quarantine is not None and it.quarantine.reason == "NvidiaXID79Error"
        assert not off or not any(isinstance(action, Readmit) for action in actions)


@given(EVENTS)
def test_the_state_moves_at_most_once_a_round(events: list[str]) -> None:
    for _, actions in _live(events):
        assert sum(isinstance(action, Isolate) for action in actions) <= 1


# Facts, from what the API server says.


def body(**changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "metadata": {"name": "n1", "labels": {POOL: "l4", "nvidia.com/cuda.driver-version.full": "580.159.03"}, "resourceVersion": "7"},
        "spec": {"providerID": "aws:///us-east-1a/i-0abc"},
        "status": {
            "capacity": {"cpu": "8", "nvidia.com/gpu": "4"},
            "allocatable": {"cpu": "8", "nvidia.com/gpu": "3"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    }
    return {**given, **changes}


def pod(name: str, **changes: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "vision", "labels": {TENANT: "vision", MODEL: "defects", RELEASE: "r"}, **changes}
    asked = {"resources": {"requests": {"nvidia.com/gpu": "1"}}}
    return {"metadata": metadata, "spec": {"nodeName": "n1", "containers": [asked]}, "status": {"phase": "Running"}}


def test_a_node_is_read_with_what_runs_on_it() -> None:
    (found,) = nodes([body()], [pod("b"), pod("a", labels={}, ownerReferences=[{"kind": "DaemonSet"}])])
    assert (found.pool, found.driver, found.ready, found.whole) == ("l4", "580.159.03", True, False), "one of four GPUs is not offered"
    assert [(p.name, p.movable, p.gpus) for p in found.pods] == [("a", False, 1), ("b", True, 1)]


UNDER_TEST = Quarantine(state=QuarantineState.TESTING, reason="r", by="b", since=9, changed=9, attempts=2)


def test_a_tenants_pod_posing_as_a_diagnostic_is_drained_and_proves_nothing() -> None:
    metadata = {**body()["metadata"], "annotations": {QUARANTINE: UNDER_TEST.text()}}
    labels = {TENANT: "vision", DIAGNOSTIC_LABEL: UNDER_TEST.trial}
    for phase, movable in (("Succeeded", False), ("Failed", False), ("Running", True)):
        (found,) = nodes([body(metadata=metadata)], [{**pod("d", labels=labels), "status": {"phase": phase}}])
        assert found.diagnostic is Diagnostic.NONE
        assert [(each.name, each.movable) for each in found.pods] == [("d", movable)]


@pytest.mark.parametrize(
    "said", [{"ownerReferences": [{"kind": "DaemonSet"}]}, {"annotations": {"kubernetes.io/config.mirror": "x"}}], ids=["owner", "mirror"]
)
def test_a_tenants_pod_that_says_it_belongs_to_the_node_is_drained_too(said: dict[str, Any]) -> None:
    (found,) = nodes([body()], [pod("a", **said)])
    assert [each.movable for each in found.pods] == [True]


def test_a_node_that_nobody_understands_leaves_the_others_looked_after() -> None:
    odd = body(
        metadata={**body()["metadata"], "name": "odd"}, status={"conditions": [{"type": "Ready"}], "capacity": {"nvidia.com/gpu": "4"}}
    )
    sick = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID48Error"}
    found = nodes([odd, body(status={**body()["status"], "conditions": [sick]})], [])
    actions = decide(found, NOW, NodeHealthPolicy(away_at_most_percent=100))
    assert [(type(each), each.node.name) for each in actions] == [(Isolate, "n1"), (Tell, "odd")]


def test_the_result_of_another_trial_proves_nothing() -> None:
    metadata = {**body()["metadata"], "annotations": {QUARANTINE: UNDER_TEST.text()}}
    passed = {**pod("d", namespace=NODE_HEALTH_NAMESPACE, labels={DIAGNOSTIC_LABEL: "9-1"}), "status": {"phase": "Succeeded"}}
    (found,) = nodes([body(metadata=metadata)], [passed])
    assert found.diagnostic is Diagnostic.NONE
    (found,) = nodes([body(metadata=metadata)], [{**passed, "metadata": {**passed["metadata"], "labels": {DIAGNOSTIC_LABEL: "9-2"}}}])
    assert found.diagnostic is Diagnostic.PASSED


def test_nodes_without_gpus_are_none_of_this() -> None:
    assert nodes([{"metadata": {"name": "system", "labels": {POOL: "system"}}, "status": {"capacity": {"cpu": "4"}}}], []) == ()


def test_a_gpu_node_whose_plugin_is_gone_is_still_seen() -> None:
    silent = body(status={"capacity": {"cpu": "8"}, "allocatable": {"cpu": "8"}, "conditions": []})
    (found,) = nodes([silent], [])
    assert not found.whole


def test_the_quarantine_is_on_the_node() -> None:
    record = Quarantine(state=QuarantineState.WAITING, reason="r", by="b", since=1, changed=2)
    metadata = {**body()["metadata"], "annotations": {QUARANTINE: record.text()}}
    (found,) = nodes([body(metadata=metadata, spec={"taints": [{"key": QUARANTINE, "effect": "NoSchedule"}]})], [])
    assert (found.tainted, found.quarantine) == (True, record)


# Read back after an update.

EXPECTED = PoolPromise(pool="l4", resources={"nvidia.com/gpu": 4}, driver="580.159.03", nodes_at_least=1)
READY = GpuOperatorState(state="ready")


def test_a_pool_that_offers_what_it_should_lacks_nothing() -> None:
    assert lacks([EXPECTED], [node()], READY) == ()


@pytest.mark.parametrize(
    ("case", "found", "operator", "said"),
    [
        ("no device plugin", [node(offered={})], READY, "offers 0 of 4 nvidia.com/gpu"),
        ("another driver", [node(driver="570.1")], READY, "runs driver 570.1, and pool l4 states 580.159.03"),
        ("no node", [], READY, "0 of at least 1 nodes have joined"),
        ("the operator is at it", [node()], GpuOperatorState(state="notReady"), "says 'notReady'"),
        ("no operator", [node()], GpuOperatorState(state=None), "is not there"),
    ],
)
def test_what_is_missing_after_an_update_is_said(case: str, found: list[GpuNode], operator: GpuOperatorState, said: str) -> None:
    (lack,) = lacks([EXPECTED], found, operator)
    assert said in lack.fact, case
    assert lack.consequence
    assert lack.remedy


def test_a_node_in_quarantine_owes_nothing() -> None:
    assert lacks([EXPECTED], [isolated(QuarantineState.WAITING, offered={})], READY) == ()


def test_a_read_back_names_the_nodes_in_quarantine() -> None:
    found = lines(ReadBack(lacks=(), operator=READY, nodes=3, pools=1, quarantined=(("gpu-a", "XID 79"),)))
    assert found == [
        "Read back: 2 GPU nodes of 1 pools offer what they should.",
        "In quarantine, so nothing new is placed there: gpu-a (XID 79).",
    ]


def test_a_cluster_that_only_records_charts_owes_no_operator() -> None:
    operator = GpuOperatorState(state=None, recorded=True)
    assert lacks([EXPECTED], [node()], operator) == ()
    (_, said) = lines(ReadBack(lacks=(), operator=operator, nodes=1, pools=1))
    assert "no operator runs" in said and "sandbox" not in said


def test_a_cluster_policy_that_nobody_looked_at_is_not_ready() -> None:
    assert cluster_policy_state({}) == "not reconciled yet"
    assert cluster_policy_state({"status": {"state": "ready"}}) == "ready"
    assert cluster_policy_state(None) is None


# Replacement.


def autoscaling() -> tuple[AutoScaling, Stubber]:
    service: Any = boto3.client("autoscaling", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    stub = Stubber(service)
    stub.activate()
    return AutoScaling(client=service), stub


def test_an_instance_is_ended_in_its_group_which_keeps_its_size() -> None:
    ends, stub = autoscaling()
    asked = {"InstanceId": "i-0abc", "ShouldDecrementDesiredCapacity": False}
    stub.add_response("terminate_instance_in_auto_scaling_group", {"Activity": _activity()}, asked)
    ends(node(provider_id="aws:///us-east-1a/i-0abc"))
    stub.assert_no_pending_responses()


def _activity() -> dict[str, Any]:
    return {
        "ActivityId": "a",
        "AutoScalingGroupName": "g",
        "Cause": "c",
        "StartTime": datetime(2026, 1, 1, tzinfo=UTC),
        "StatusCode": "InProgress",
    }


def test_what_aws_refuses_is_said() -> None:
    ends, stub = autoscaling()
    stub.add_client_error("terminate_instance_in_auto_scaling_group", "AccessDenied", "no")
    with pytest.raises(UserError, match="AWS did not end i-0abc") as raised:
        ends(node(provider_id="aws:///us-east-1a/i-0abc"))
    assert "autoscaling:TerminateInstanceInAutoScalingGroup" in raised.value.remedy


def test_a_node_that_is_no_instance_cannot_be_replaced() -> None:
    ends, _ = autoscaling()
    with pytest.raises(UserError, match="has no EC2 instance behind it"):
        ends(node(provider_id="kwok://n1"))


def test_an_action_that_meets_something_odd_leaves_the_others_carried_out(tmp_path: Path) -> None:
    class ApiServer(Handler):
        def do_POST(self) -> None:
            self.body()
            self.reply(201, {})

    def replace_one(node: GpuNode) -> None:
        if node.name == "odd":
            raise KeyError("Activity")

    with served(ApiServer) as address:
        (config := tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig(address)))
        done = NodeCluster(str(config), replace_one).perform(
            [Replace(node=node(name="odd")), Replace(node=node())], NodeHealthSettings(diagnostic_image="i", expected=())
        )
    assert [each.refused for each in done] == ["it met what nobody of ours writes (KeyError: 'Activity')", ""]


def test_pods_of_a_megabyte_each_take_no_node_out_of_sight(tmp_path: Path) -> None:
    env = [{"name": f"A{number}", "value": "x"} for number in range(35_000)]
    container = {"name": "server", "env": env, "resources": {"requests": {"nvidia.com/gpu": "1", "cpu": "1"}}}
    gpu_node = {
        "metadata": {"name": "n1", "labels": {POOL: "l4"}},
        "status": {"capacity": {"nvidia.com/gpu": "60"}, "allocatable": {"nvidia.com/gpu": "60"}},
    }
    many = 60

    class ApiServer(Handler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            said = dict(parse_qsl(query))
            if path == "/api/v1/nodes":
                self.reply(200, {"metadata": {}, "items": [gpu_node]})
                return
            first, size = int(said.get("continue", 0)), int(said["limit"])
            metadata = [{"name": f"p{n}", "namespace": "vision", "labels": {TENANT: "vision"}} for n in range(many)[first : first + size]]
            items = [{"metadata": each, "spec": {"nodeName": "n1", "containers": [container]}} for each in metadata]
            after = {"continue": str(first + size)} if first + size < many else {}
            self.reply(200, {"metadata": after, "items": items})

    with served(ApiServer) as address:
        (config := tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig(address)))
        (found,) = NodeCluster(str(config), lambda node: None).nodes()
    assert [pod.gpus for pod in found.pods] == [1] * many


@pytest.mark.parametrize("odd", [{}, {"metadata": 3}, {"metadata": {"namespace": "a", "name": "b"}, "spec": {"containers": [3]}}])
def test_an_odd_pod_is_kept_as_it_is(odd: dict[str, Any]) -> None:
    assert in_short(odd) == odd


def test_the_record_of_a_chart_counts_where_the_chart_is_alone(tmp_path: Path) -> None:
    asked: list[str] = []

    class ApiServer(Handler):
        def do_GET(self) -> None:
            asked.append(self.path.partition("?")[0])
            own = {"metadata": {"name": "x", "namespace": "vision"}, "data": {"chart": "gpu-operator"}}
            if "configmaps" not in self.path:
                self.reply(404, {})
            else:
                self.reply(200, {"metadata": {}, "items": [own] if "gpu-operator" not in self.path else []})

    with served(ApiServer) as address:
        (config := tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig(address)))
        assert NodeCluster(str(config), lambda node: None).operator() == GpuOperatorState(state=None, recorded=False)
    assert f"/api/v1/namespaces/{gpu_operator.NAMESPACE}/configmaps" in asked
    assert "/api/v1/configmaps" not in asked


def kubeconfig(address: str) -> dict[str, Any]:
    context = {"name": "one", "context": {"cluster": "one", "user": "ci"}}
    named = {"clusters": [{"name": "one", "cluster": {"server": address}}], "users": [{"name": "ci", "user": {"token": "t"}}]}
    return {"current-context": "one", "contexts": [context], **named}
