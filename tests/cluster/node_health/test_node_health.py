"""The loop of node health against a real API server: conditions as the node monitoring agent sets them, real disruption budgets and scheduling.

What is simulated: the nodes, and the diagnostic's result, which a kubelet would report.
"""

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from kubernetes import client
from typer.testing import CliRunner

from components.nodes import gpu_node
from components.platform import namespaces, node_health
from headway.cli.main import app
from headway.contract.pool import Pool
from headway.node_health import watch
from headway.node_health.cluster import Done, NodeCluster
from headway.node_health.decision import NodeHealthPolicy, Replace, by_hand
from headway.node_health.facts import GpuNode, QuarantineState
from headway.node_health.replacement import refused
from headway.wire import MODEL, NODE_HEALTH_NAMESPACE, QUARANTINE, RELEASE, TENANT
from sandbox.cluster.nodes import node_manifest
from tests.cluster.conftest import ControlPlane, api_client, eventually
from tests.cluster.node_health.as_the_loop import kubeconfig_of_the_loop

NAMESPACE = "vision"
SLOW = NodeHealthPolicy()
NODES = {"gpu-a", "gpu-b", "gpu-c"}
POOL_OF_THREE = Pool.model_validate(
    {
        "name": "l4",
        "instance_types": ["g6.12xlarge"],
        "zones": ["us-east-1a"],
        "size": {"min": 3, "max": 3},
        "workload_class": "latency",
        "ami": {"release": "1.36.2-20260714", "driver": "580.159.03"},
    }
)
OFFERED = {"cpu": "48", "memory": "192Gi", "pods": "110", "nvidia.com/gpu": "4"}


def simulated(name: str) -> dict[str, Any]:
    labels = {**gpu_node.labels(POOL_OF_THREE), "nvidia.com/cuda.driver-version.full": "580.159.03"}
    taints = [taint.model_dump() for taint in gpu_node.taints(POOL_OF_THREE)]
    return node_manifest(name, labels=labels, taints=taints, capacity=OFFERED, provider_id=f"aws:///us-east-1a/i-{name}")


def server() -> dict[str, Any]:
    labels = {TENANT: NAMESPACE, MODEL: "defects", RELEASE: "r1"}
    gpu = {"nvidia.com/gpu": "1"}
    container = {"name": "server", "image": f"registry.test/server@sha256:{'a' * 64}", "resources": {"limits": gpu, "requests": gpu}}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        # A node in quarantine is no place to spread to.
        "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchLabels": labels},
    }
    pod = {
        "automountServiceAccountToken": False,
        "containers": [container],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "topologySpreadConstraints": [spread],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "defects", "namespace": NAMESPACE},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


def budget(unavailable: int) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "defects", "namespace": NAMESPACE},
        "spec": {"maxUnavailable": unavailable, "selector": {"matchLabels": {MODEL: "defects"}}},
    }


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Three GPU nodes with a server on each, and the platform's own objects for node health."""
    places = [dict(m.body) for m in namespaces.manifests([]) if m.name == NODE_HEALTH_NAMESPACE and m.kind == "Namespace"]
    control_plane.create(*places, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    control_plane.create(*[dict(m.body) for m in node_health.manifests([POOL_OF_THREE])])
    control_plane.create(*[simulated(f"gpu-{n}") for n in "abc"])
    # A server that comes first would be put on whichever nodes were ready by then.
    eventually(lambda: [len(node["spec"]["taints"]) for node in control_plane.list("Node")] == [1, 1, 1] and all_ready(control_plane))
    control_plane.create(server(), budget(0))
    eventually(lambda: serving(control_plane) == NODES, within=60)
    yield control_plane


@pytest.fixture
def sound(fleet: ControlPlane) -> ControlPlane:
    """The fleet with nothing wrong, whatever an earlier test left behind: a second try must not meet the first one's quarantines."""
    for name in sorted(NODES):
        condition(fleet, name, "True", "NvidiaGPUIsReady")
        command(fleet, "release", name, "--untested")
    allow(fleet, 1)
    for kind, namespace in (("Pod", NODE_HEALTH_NAMESPACE), *([] if serving(fleet) == NODES else [("Pod", NAMESPACE)])):
        for left in fleet.list(kind, namespace=namespace):
            name = left["metadata"]["name"]
            fleet.resource(left).delete(name=name, namespace=namespace, body={"gracePeriodSeconds": 0})
    eventually(lambda: serving(fleet) == NODES and not fleet.list("Pod", namespace=NODE_HEALTH_NAMESPACE), within=60)
    return fleet


def allow(plane: ControlPlane, unavailable: int) -> None:
    policies = client.PolicyV1Api(api_client(plane.kubeconfig.read_text()))
    policies.patch_namespaced_pod_disruption_budget("defects", NAMESPACE, {"spec": {"maxUnavailable": unavailable}})


def all_ready(plane: ControlPlane) -> bool:
    return all(node.ready for node in cluster(plane).nodes())


def serving(plane: ControlPlane) -> set[str]:
    """Nodes with a ready server on them."""
    pods = plane.list("Pod", namespace=NAMESPACE)
    ready = [p for p in pods if any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions") or ())]
    return {p["spec"]["nodeName"] for p in ready if not p["metadata"].get("deletionTimestamp")}


def condition(plane: ControlPlane, node: str, status: str, reason: str) -> None:
    """As the node monitoring agent reports it."""
    found = {"type": "AcceleratedHardwareReady", "status": status, "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    plane.patch_status("Node", node, {"conditions": [found]}, namespace=None)


def cluster(plane: ControlPlane, replace: Any = refused) -> NodeCluster:
    return NodeCluster(str(plane.kubeconfig), replace)


def a_round(plane: ControlPlane, policy: NodeHealthPolicy = SLOW, replace: Any = refused) -> tuple[Done, ...]:
    return watch.once(cluster(plane, replace), policy, time.time())


def seen(plane: ControlPlane, name: str) -> GpuNode:
    return next(node for node in cluster(plane).nodes() if node.name == name)


def state(plane: ControlPlane, name: str) -> QuarantineState | None:
    record = seen(plane, name).quarantine
    return record.state if record else None


def rounds_until(plane: ControlPlane, name: str, wanted: QuarantineState | None) -> None:
    def reached() -> bool:
        a_round(plane)
        return state(plane, name) is wanted

    eventually(reached, within=60)


def command(plane: ControlPlane, *arguments: str) -> tuple[int, str]:
    """The real command, without its last resort for errors."""
    result = CliRunner().invoke(app, ["nodes", *arguments, "--kubeconfig", str(plane.kubeconfig)])
    return result.exit_code, result.stdout if result.exception is None or isinstance(result.exception, SystemExit) else str(
        result.exception
    )


def events(plane: ControlPlane, node: str) -> set[str]:
    return {e["reason"] for e in plane.list("Event", namespace="default") if e["involvedObject"].get("name") == node}


def test_a_sound_fleet_is_left_alone(fleet: ControlPlane) -> None:
    assert a_round(fleet) == ()
    assert command(fleet, "check") == (1, _no_operator()), "there is no operator in a bare control plane, and that is said"


def _no_operator() -> str:
    lines = (
        "ClusterPolicy cluster-policy: the GPU Operator's ClusterPolicy is not there.",
        "  Nodes may have no device plugin, no MIG layout and no telemetry.",
        "  Remedy: kubectl describe clusterpolicy; kubectl get pods -n gpu-operator; docs/runbooks/gpu-node-without-gpus.md.",
    )
    return "\n".join(lines) + "\n"


def test_a_node_with_a_fatal_fault_goes_through_its_whole_quarantine(sound: ControlPlane) -> None:
    allow(sound, 0)
    condition(sound, "gpu-a", "False", "NvidiaXID48Error")
    a_round(sound)
    assert state(sound, "gpu-a") is QuarantineState.DRAINING
    assert seen(sound, "gpu-a").tainted

    refusals = [done.refused for done in a_round(sound)]
    assert any("disruption budget" in said for said in refusals), f"the budget allows nobody to leave: {refusals}"
    assert "gpu-a" in serving(sound), "a disruption budget is never forced"

    allow(sound, 1)
    rounds_until(sound, "gpu-a", QuarantineState.WAITING)
    eventually(lambda: len(sound.list("Pod", namespace=NAMESPACE)) == 3 and serving(sound) == {"gpu-b", "gpu-c"}, within=60)

    a_round(sound)
    assert state(sound, "gpu-a") is QuarantineState.WAITING, "repair has its turn while the fault is reported"

    condition(sound, "gpu-a", "True", "NvidiaGPUIsReady")
    rounds_until(sound, "gpu-a", QuarantineState.TESTING)
    a_round(sound)
    (diagnostic,) = sound.list("Pod", namespace=NODE_HEALTH_NAMESPACE)
    assert diagnostic["spec"]["nodeName"] == "gpu-a"
    # The simulated kubelet writes that it runs over whatever it did not know of yet.
    eventually(lambda: sound.list("Pod", namespace=NODE_HEALTH_NAMESPACE)[0]["status"]["phase"] == "Running")
    sound.patch_status("Pod", diagnostic["metadata"]["name"], {"phase": "Succeeded"}, namespace=NODE_HEALTH_NAMESPACE)
    rounds_until(sound, "gpu-a", None)
    back = seen(sound, "gpu-a")
    assert (back.tainted, back.quarantine) == (False, None)
    assert [taint["key"] for taint in sound.get("Node", "gpu-a", namespace=None)["spec"]["taints"]] == ["nvidia.com/gpu"], "its own stays"
    eventually(lambda: not sound.list("Pod", namespace=NODE_HEALTH_NAMESPACE))
    assert {"Quarantine", "Readmitted"} <= events(sound, "gpu-a")


def test_a_node_that_no_test_can_clear_is_replaced_once_it_is_empty(sound: ControlPlane) -> None:
    ended: list[str] = []
    impatient = NodeHealthPolicy(repair_seconds=0)
    condition(sound, "gpu-b", "False", "NvidiaXID79Error")

    def end(node: GpuNode) -> None:
        ended.append(node.provider_id)

    def replaced() -> bool:
        a_round(sound, impatient, end)
        return bool(ended)

    eventually(replaced, within=60)
    assert ended == ["aws:///us-east-1a/i-gpu-b"]
    assert "gpu-b" not in serving(sound), "not before its servers had left"
    assert state(sound, "gpu-b") is QuarantineState.REPLACING
    sound.resource(simulated("gpu-b")).delete(name="gpu-b")
    sound.create(simulated("gpu-b"))
    assert a_round(sound) == (), "the node that its group starts instead is a new one"


def test_a_loop_that_may_not_replace_says_so_and_leaves_the_node_waiting(sound: ControlPlane) -> None:
    condition(sound, "gpu-c", "False", "NvidiaXID79Error")
    impatient = NodeHealthPolicy(repair_seconds=0)
    said: list[str] = []

    def told() -> bool:
        said.extend(done.refused for done in a_round(sound, impatient) if isinstance(done.action, Replace))
        return bool(said)

    eventually(told, within=60)
    assert "may not end instances" in said[0]
    assert state(sound, "gpu-c") is QuarantineState.WAITING, "as long as it was not carried out, it is not written down"
    condition(sound, "gpu-c", "True", "NvidiaGPUIsReady")
    assert command(sound, "release", "gpu-c", "--untested")[0] == 0


def test_a_person_sets_a_node_apart_and_releases_it(sound: ControlPlane) -> None:
    code, said = command(sound, "quarantine", "gpu-a", "--reason", "slow since Tuesday")
    assert (code, said) == (0, "gpu-a is in quarantine: slow since Tuesday\n")
    told = CliRunner().invoke(app, ["nodes", "quarantine", "gpu-b", "--reason", "once", "--kubeconfig", str(sound.kubeconfig)])
    assert told.stderr.startswith("writing to the cluster at https://127.0.0.1:")
    assert command(sound, "release", "gpu-b", "--untested")[0] == 0
    code, said = command(sound, "quarantine", "gpu-a", "--reason", "again")
    assert "is in quarantine already: slow since Tuesday" in said
    shown = _listed(sound)
    assert shown["gpu-a"]["quarantine"]["reason"] == "slow since Tuesday"
    assert re.search(r"slow since Tuesday \(by \S+, since \d{4}-\d\d-\d\d \d\d:\d\dZ\)", " ".join(command(sound)[1].split()))
    assert shown["gpu-a"]["driver"] == "580.159.03"
    assert {run["model"] for node in shown.values() for run in node["runs"]} == {"defects"}
    rounds_until(sound, "gpu-a", QuarantineState.WAITING)
    assert command(sound, "release", "gpu-a")[1] == "gpu-a returns once its diagnostic has passed\n"
    assert state(sound, "gpu-a") is QuarantineState.DRAINING
    assert command(sound, "release", "gpu-a", "--untested")[1] == "gpu-a is back in service\n"
    assert state(sound, "gpu-a") is None


def _listed(fleet: ControlPlane) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["nodes", "--kubeconfig", str(fleet.kubeconfig), "--output", "json"])
    assert result.exit_code == 0, result.output
    return {node["node"]: node for node in json.loads(result.output)}


def test_two_loops_cannot_undo_each_other(fleet: ControlPlane) -> None:
    one, other = cluster(fleet), cluster(fleet)
    as_both_saw_it = seen(fleet, "gpu-b")
    settings = one.settings()
    (first,) = one.perform([by_hand(as_both_saw_it, "first", "one", 1.0)], settings)
    (second,) = other.perform([by_hand(as_both_saw_it, "second", "other", 2.0)], settings)
    assert first.refused == ""
    assert "modified" in second.refused
    found = seen(fleet, "gpu-b").quarantine
    assert found is not None
    assert found.reason == "first"


def test_the_loops_own_identity_may_do_what_it_does_and_no_more(fleet: ControlPlane) -> None:
    """Asked of the API server's own authoriser, as the service account that the platform gives the loop."""
    review = client.AuthorizationV1Api(api_client(fleet.kubeconfig.read_text()))

    def may(verb: str, resource: str, namespace: str = "", subresource: str = "", group: str = "") -> bool:
        attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace}
        body = {"spec": {"user": f"system:serviceaccount:{NODE_HEALTH_NAMESPACE}:node-health", "resourceAttributes": attributes}}
        answer: Any = review.create_subject_access_review(body)
        return bool(answer.status.allowed)

    assert may("patch", "nodes")
    assert may("create", "pods", NAMESPACE, "eviction")
    assert may("create", "pods", NODE_HEALTH_NAMESPACE)
    assert not may("delete", "pods", NAMESPACE)
    assert not may("create", "pods", NAMESPACE)
    assert not may("get", "secrets", NAMESPACE)
    assert not may("delete", "nodes")
    assert may("update", "leases", NODE_HEALTH_NAMESPACE, group="coordination.k8s.io")
    assert not may("update", "leases", "kube-system", group="coordination.k8s.io")


@contextlib.contextmanager
def looping(fleet: ControlPlane) -> Generator[subprocess.Popen[str]]:
    """`headway nodes watch` as the Deployment runs it: with the service account's own token and nobody else's rights."""
    path = str(kubeconfig_of_the_loop(fleet))
    words = ["nodes", "watch", "--interval", "1", "--serve", "127.0.0.1:0", "--kubeconfig", path]
    with subprocess.Popen([sys.executable, "-m", "headway.cli.main", *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def holder(fleet: ControlPlane) -> str:
    leases = fleet.list("Lease", api_version="coordination.k8s.io/v1", namespace=NODE_HEALTH_NAMESPACE)
    return next((lease["spec"].get("holderIdentity") or "" for lease in leases), "")


def test_the_deployed_loop_works_with_its_own_rights_and_hands_over_at_its_end(fleet: ControlPlane) -> None:
    for name in "abc":
        condition(fleet, f"gpu-{name}", "True", "NvidiaGPUIsReady")
        command(fleet, "release", f"gpu-{name}", "--untested")
    with looping(fleet) as first:
        began = eventually(lambda: holder(fleet), within=60)
        code, said = command(fleet, "watch", "--once")
        assert (code, "Another loop of node health has its turn" in said) == (1, True), "an error that the command shows, and no round"
        sick = min(eventually(lambda: serving(fleet), within=60))
        condition(fleet, sick, "False", "NvidiaXID48Error")
        eventually(lambda: state(fleet, sick) is QuarantineState.WAITING, within=60)
        assert sick not in serving(fleet)
        with looping(fleet) as second:
            assert holder(fleet) == began
            first.terminate()
            assert first.wait(60) == 0
            next_ = eventually(lambda: h if (h := holder(fleet)) not in ("", began) else "", within=60)
            condition(fleet, sick, "True", "NvidiaGPUIsReady")
            eventually(lambda: state(fleet, sick) is QuarantineState.TESTING, within=60)
            second.kill()
        assert holder(fleet) == next_, "who was killed gives nothing up: the next one waits for the Lease's time"
        output = first.stdout.read() if first.stdout else ""
    assert '"action": "isolate"' in output and '"action": "evict"' in output, output
    fleet.resource({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}).delete(name="node-health", namespace=NODE_HEALTH_NAMESPACE)


def test_the_loops_objects_pass_strict_decoding(fleet: ControlPlane) -> None:
    for manifest in node_health.loop(f"registry.test/headway@sha256:{'a' * 64}", "us-east-1"):
        if manifest.kind != "PodMonitor":  # of an add-on that is not here
            query = [("fieldValidation", "Strict"), ("dryRun", "All")]
            fleet.resource(dict(manifest.body)).create(body=dict(manifest.body), namespace=NODE_HEALTH_NAMESPACE, query_params=query)


def test_a_taint_that_nothing_explains_is_told(fleet: ControlPlane) -> None:
    nodes = client.CoreV1Api(api_client(fleet.kubeconfig.read_text()))
    command(fleet, "release", "gpu-b", "--untested")
    taint = {"key": QUARANTINE, "value": "true", "effect": "NoSchedule"}
    kept = [taint, *[t.model_dump() for t in gpu_node.taints(POOL_OF_THREE)]]
    nodes.patch_node("gpu-b", {"spec": {"taints": kept}})
    a_round(fleet)
    assert "UnexplainedTaint" in events(fleet, "gpu-b")
    code, listed = command(fleet, "--output", "json")
    assert code == 0
    notices = {each["node"]: each["notice"] for each in json.loads(listed)}
    assert notices["gpu-b"] is not None and "someone put it there by hand" in notices["gpu-b"]
