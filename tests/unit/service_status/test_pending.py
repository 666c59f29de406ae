"""Why a replica is not ready, in words, from objects as the API server answers them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from headway.service_status.pending import Pending, PendingKind, ended, pending, refused, why
from headway.service_status.replicas import services
from headway.wire import ARM, MIG_TAINT, MODEL, POOL, QUARANTINE, RELEASE, TENANT
from sandbox.traffic.node.images import backing_off
from sandbox.traffic.node.images import refused as absent

GPU = "nvidia.com/gpu"
ABSENT = f"registry.example/triton@sha256:{'0' * 64}"
SAID = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's node affinity/selector."


def node(name: str, pool: str = "l4", gpus: int = 1, *, ready: bool = True, taints: tuple[str, ...] = (), **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {POOL: pool}},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints], **spec},
        "status": {"allocatable": {GPU: str(gpus)}, "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]},
    }


def pod(name: str = "p", on: str = "", pool: str = "l4", namespace: str = "vision", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {TENANT: "vision", MODEL: "defects", RELEASE: "r1", ARM: "stable"},
        },
        "spec": {
            "nodeName": on or None,
            "nodeSelector": {POOL: pool},
            "containers": [{"name": "server", "image": "registry.example/triton@sha256:1", "resources": {"limits": {GPU: "1"}}}],
        },
        "status": {"phase": "Running" if on else "Pending", **status},
    }


def unplaced(message: str = SAID) -> dict[str, Any]:
    return pod(conditions=[{"type": "PodScheduled", "status": "False", "message": message}])


def container(**state: Any) -> dict[str, Any]:
    return {"name": "server", "state": state.pop("state", {}), **state}


def test_a_ready_pod_has_no_reason() -> None:
    assert why(pod(on="n1", conditions=[{"type": "Ready", "status": "True"}])) == ""


def test_a_pod_that_only_a_node_in_quarantine_could_take_names_that_node() -> None:
    others = [node("h", "h100"), node("g", "h100")]
    assert why(unplaced(), [node("a", taints=(QUARANTINE,)), *others]) == "pool l4: 1 of 1 in quarantine (a)"


def test_a_full_pool_says_how_many_of_its_gpus_are_in_use() -> None:
    said = why(unplaced(), [node("a"), node("b", taints=(QUARANTINE,))], [pod("q", on="a")])
    assert said == f"pool l4: 1 of 2 in quarantine (b); no node has 1 {GPU} left (1 of 1 in use on 1: 1 by vision)"


def test_a_full_pool_says_whose_pods_hold_its_gpus_the_most_first() -> None:
    holders = [pod("q", on="a"), pod("r", on="b"), pod("s", on="b", namespace="default")]
    assert why(unplaced(), [node("a"), node("b", gpus=2)], holders).endswith("(3 of 3 in use on 2: 2 by vision, 1 by default)")


def test_a_pod_that_has_ended_uses_no_gpu() -> None:
    assert why(unplaced("0/1 nodes are available: 1 Insufficient cpu."), [node("a")], [pod("q", on="a", phase="Failed")]) == (
        "0/1 nodes are available: 1 Insufficient cpu."
    )


def test_a_pool_without_nodes_waits_for_one() -> None:
    assert why(unplaced(), [node("h", "h100")]) == "pool l4 has no node; one must be added"


def test_nodes_that_are_late_down_or_cordoned_are_told_apart() -> None:
    nodes = [node("a", ready=False), node("b", taints=(MIG_TAINT,)), node("c", unschedulable=True)]
    assert why(unplaced(), nodes) == "pool l4: 1 of 3 not ready (a); 1 of 3 cordoned (c); 1 of 3 still to be cut by MIG (b)"


def test_what_no_node_of_the_pool_explains_is_left_in_the_schedulers_words() -> None:
    assert why(unplaced("0/1 nodes are available: 1 Insufficient memory."), [node("a")]).endswith("1 Insufficient memory.")


def test_free_gpus_that_no_node_has_together_are_told_from_taken_ones() -> None:
    asks = unplaced()
    asks["spec"]["containers"][0]["resources"]["limits"][GPU] = "2"
    found = pending(asks, [node("a", gpus=2), node("b", gpus=2)], [pod("q", on="a"), pod("r", on="b")])
    assert found == Pending(PendingKind.GPUS_SCATTERED, f"pool l4: 2 {GPU} are free, but no node has 2 of them (1 on a, 1 on b)")


def test_free_gpus_in_another_shape_are_told_from_taken_ones() -> None:
    asks, cut = unplaced(), node("a", gpus=0)
    asks["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/mig-3g.40gb": "1"}
    cut["status"]["allocatable"] |= {"nvidia.com/mig-1g.10gb": "4", "nvidia.com/mig-3g.40gb": "0"}
    found = pending(asks, [cut])
    assert found is not None and found.kind is PendingKind.GPUS_SCATTERED
    assert found.words.endswith("while others are free: 4 nvidia.com/mig-1g.10gb")


def test_a_taint_that_a_pod_does_not_tolerate_is_named() -> None:
    found = pending(unplaced(), [node("a", taints=("team.example.com/only",))])
    words = "pool l4: 1 of 1 with a taint that it does not tolerate (a: team.example.com/only)"
    assert found == Pending(PendingKind.TAINTED, words)


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"operator": "Exists", "key": "team.example.com/only"},
        {"operator": "Exists", "key": "team.example.com/only", "effect": "NoSchedule"},
        {"key": "team.example.com/only", "value": ""},
    ],
)
def test_a_taint_that_a_pod_tolerates_keeps_it_from_no_node(toleration: dict[str, str]) -> None:
    asks = unplaced("said")
    asks["spec"]["tolerations"] = [toleration]
    assert why(asks, [node("a", taints=("team.example.com/only",))]) == "said"


def test_a_node_with_a_free_gpu_and_no_memory_is_told_from_a_full_one() -> None:
    found = pending(unplaced("0/1 nodes are available: 1 Insufficient memory."), [node("a")])
    assert found is not None and found.kind is PendingKind.NODE_UNFIT


def test_a_node_that_is_short_of_memory_takes_no_pod() -> None:
    short = node("a", taints=("node.kubernetes.io/memory-pressure",))
    short["status"]["conditions"].append({"type": "MemoryPressure", "status": "True"})
    found = pending(unplaced(), [short])
    assert found == Pending(PendingKind.NODE_PRESSURE, "pool l4: 1 of 1 short of memory, disk or processes (a)")


def test_an_image_that_cannot_be_pulled_is_named() -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "manifest unknown"}
    said = why(pod(on="a", containerStatuses=[container(state={"waiting": waiting})]))
    assert said == "image registry.example/triton@sha256:1 cannot be pulled: manifest unknown"


def test_an_image_is_named_once_however_often_the_runtime_repeats_it() -> None:
    waiting = {"reason": "ImagePullBackOff", "message": f"{backing_off(ABSENT)}: ErrImagePull: {absent(ABSENT)}"}
    one = pod(on="a", containerStatuses=[container(state={"waiting": waiting})])
    one["spec"]["containers"][0]["image"] = ABSENT
    assert why(one) == f"image {ABSENT} cannot be pulled: not found"
    waiting["message"] = backing_off(ABSENT)
    assert why(one) == f"image {ABSENT} cannot be pulled: {waiting['message']}"


def test_a_container_that_runs_again_says_how_it_ended() -> None:
    last = {"terminated": {"reason": "Error", "exitCode": 137, "finishedAt": "2026-11-29T01:23:12Z"}}
    again = container(state={"running": {}}, ready=True, restartCount=1, lastState=last)
    said = "container server ended once at 2026-11-29 01:23Z with Error, exit code 137"
    assert ended(pod(on="a", containerStatuses=[again])) == (said, datetime(2026, 11, 29, 1, 23, 12, tzinfo=UTC))
    assert ended(pod(on="a", containerStatuses=[container(state={"running": {}}, ready=True, restartCount=0)])) == ("", None)


def test_a_container_that_keeps_ending_says_how_often_and_how() -> None:
    again = container(
        state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
        restartCount=7,
        lastState={"terminated": {"reason": "OOMKilled", "exitCode": 137}},
    )
    assert why(pod(on="a", containerStatuses=[again])) == "container server ended 7 times, the last time with OOMKilled, exit code 137"


def test_a_probe_that_fails_says_its_newest_answer() -> None:
    running = pod(on="a", containerStatuses=[container(state={"running": {}}, ready=False, started=False)])
    events = [
        {"reason": "Unhealthy", "message": "Startup probe failed: golden 2 of 3", "lastTimestamp": "2026-11-25T04:00:09Z"},
        {"reason": "Unhealthy", "message": "Startup probe failed: connection refused", "lastTimestamp": "2026-11-25T04:00:01Z"},
        {"reason": "Pulled", "message": "pulled", "lastTimestamp": "2026-11-25T04:00:10Z"},
    ]
    assert why(running, events=events) == "startup probe failed: golden 2 of 3"
    assert why(running) == "its startup probe has not passed"


def test_a_quota_that_is_full_says_of_what_how_much() -> None:
    message = (
        f'pods "defects-r1-x" is forbidden: exceeded quota: vision, requested: requests.{GPU}=1, '
        f"used: requests.{GPU}=4,pods=9, limited: requests.{GPU}=4,pods=50"
    )
    conditions = [{"type": "ReplicaFailure", "status": "True", "message": message}]
    assert refused(conditions) == f"quota vision is full: requests.{GPU} has 4 of 4 in use and 1 more asked for"


def test_another_refusal_is_left_in_its_own_words() -> None:
    assert refused([{"type": "ReplicaFailure", "status": "True", "message": "denied by policy"}]) == "denied by policy"
    assert refused([{"type": "Available", "status": "True", "message": "fine"}]) == ""


def test_stable_and_baseline_of_one_release_are_told_apart() -> None:
    def deployment(arm: str) -> dict[str, Any]:
        labels = {TENANT: "vision", MODEL: "defects", RELEASE: "r1", ARM: arm}
        spec = {"replicas": 1, "template": {"metadata": {"labels": labels}}}
        return {"metadata": {"namespace": "vision", "labels": labels}, "spec": spec, "status": {"readyReplicas": int(arm == "stable")}}

    base = pod("q", on="a")
    base["metadata"]["labels"][ARM] = "baseline"
    found = services([deployment("stable"), deployment("baseline")], [pod("p", on="a"), base])
    assert [(each.arm, [p.name for p in each.pods], each.ready) for each in found] == [("baseline", ["q"], 0), ("stable", ["p"], 1)]


def test_what_a_tenants_code_answers_to_a_probe_is_no_order_to_a_terminal() -> None:
    labels = {TENANT: "vision", MODEL: "defects", RELEASE: "r1", ARM: "stable"}
    deployment = {"metadata": {"namespace": "vision", "labels": labels}, "spec": {"template": {"metadata": {"labels": labels}}}}
    running = pod("p", on="a", containerStatuses=[container(state={"running": {}}, ready=False, started=False)])
    said = {"reason": "Unhealthy", "message": "Startup probe failed: \x1b]52;c;eA==\x07\nall is well", "involvedObject": {"name": "p"}}
    (service,) = services([deployment], [running], events=[said])
    assert service.reason == service.pods[0].reason == r"startup probe failed: \x1b]52;c;eA==\x07\nall is well"


@pytest.mark.parametrize("state", [{"running": {}}, {"terminated": {"exitCode": 1, "reason": "Error"}}], ids=["again", "just-ended"])
def test_a_fetch_that_failed_is_told_while_it_tries_again(state: dict[str, Any]) -> None:
    fetch = {"name": "fetch", "state": state, "restartCount": 2, "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}
    found = pending(pod(on="n", initContainerStatuses=[fetch]))
    assert found == Pending(PendingKind.ARTIFACTS_MISSING, "container fetch ended 2 times, the last time with Error, exit code 1")


def test_a_fetch_that_failed_once_and_is_done_keeps_nobody() -> None:
    last = {"terminated": {"exitCode": 1, "reason": "Error"}}
    fetch = {"name": "fetch", "state": {"terminated": {"exitCode": 0}}, "restartCount": 1, "lastState": last}
    found = pending(pod(on="n", initContainerStatuses=[fetch], containerStatuses=[container(state={"running": {}}, ready=False)]))
    assert found is not None and found.kind is PendingKind.UNREADY
