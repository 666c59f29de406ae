"""What the control plane does while nothing goes wrong: real programs, one for the file."""

import contextlib
import os
import ssl
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import NotFoundError

from sandbox.cluster import control_plane_programs, manifests
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.certificates import Pair, Subject, authority, issue
from sandbox.cluster.nodes import READY_DELAY, STATUS_BY_OTHERS, node_manifest
from sandbox.progress import Silent
from tests.cluster.conftest import ControlPlane, api_client, eventually

GPU_NODE = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8", "nvidia.com/mig-1g.10gb": "56"}
GPU_TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}


@pytest.fixture
def nodes(control_plane: ControlPlane) -> Iterator[list[str]]:
    """Two empty nodes of eight GPUs each, gone with their pods when the test has ended."""
    names = ["h100-a", "h100-b"]
    control_plane.create(*(node_manifest(name, labels={}, taints=[GPU_TAINT], capacity=GPU_NODE) for name in names))
    eventually(lambda: all(taints(control_plane, name) == {"nvidia.com/gpu"} for name in names))  # not-ready has been lifted
    yield names
    pods = control_plane.client.resources.get(api_version="v1", kind="Pod")
    for each in control_plane.list("Pod", namespace="default"):
        with contextlib.suppress(NotFoundError):  # a Job's pods may go with it meanwhile
            pods.delete(name=each["metadata"]["name"], namespace="default", body={"gracePeriodSeconds": 0})
    eventually(lambda: not control_plane.list("Pod", namespace="default"))
    for name in names:
        control_plane.client.resources.get(api_version="v1", kind="Node").delete(name=name)


def taints(plane: ControlPlane, node: str) -> set[str]:
    return {taint["key"] for taint in plane.get("Node", node, namespace=None)["spec"].get("taints") or []}


def pod(name: str, resources: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "example.invalid/model@sha256:" + "0" * 64, "resources": {"limits": resources or {}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"containers": [container], "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
    }


def condition(plane: ControlPlane, kind: str, name: str, type: str = "Ready", namespace: str | None = "default") -> str:
    conditions = plane.get(kind, name, namespace=namespace).get("status", {}).get("conditions") or []
    return next((each["status"] for each in conditions if each["type"] == type), "")


def test_it_is_ready_and_runs_the_pinned_kubernetes(control_plane: ControlPlane) -> None:
    status = control_plane.cluster.status()
    assert status.ready, status.reason
    assert status.version == "v1.36.2"
    assert [process.name for process in status.processes] == list(control_plane_programs.NAMES)


def test_starting_what_runs_changes_nothing(control_plane: ControlPlane) -> None:
    before = {process.name: process.pid for process in control_plane.cluster.status().processes}
    info = control_plane.cluster.start(Silent())
    assert info.started == ()
    assert {process.name: process.pid for process in control_plane.cluster.status().processes} == before


def test_the_idle_control_plane_takes_less_than_its_share_of_memory(control_plane: ControlPlane) -> None:
    status = control_plane.cluster.status()
    assert all(process.memory_bytes > 10 << 20 for process in status.processes), "a program without memory was not measured"
    assert status.memory_bytes < 1 << 30


def test_nothing_listens_beyond_loopback(control_plane: ControlPlane) -> None:
    ours = {port for process in control_plane.cluster.status().processes for port in process.ports}
    assert len(ours) == 6
    listening = [line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    addresses = {
        fields[1].rpartition(":")[0] for fields in listening if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) in ours
    }
    assert addresses == {"0100007F"}, "127.0.0.1 as the kernel writes it"


def test_secrets_are_readable_by_their_owner_alone(control_plane: ControlPlane) -> None:
    folder = control_plane.layout.cluster
    secrets = [control_plane.kubeconfig, *folder.glob("pki/*.key"), *folder.glob("config/*.kubeconfig")]
    assert len(secrets) > 10
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}


def test_the_api_server_knows_nobody_without_a_certificate_of_its_own_authority(control_plane: ControlPlane, tmp_path: Path) -> None:
    pki = control_plane.layout.cluster / "pki"
    (port,) = next(
        process.ports for process in control_plane.cluster.status().processes if process.name == control_plane_programs.API_SERVER
    )
    forged = issue(tmp_path, "forged", Subject(common_name="mallory", organizations=("system:masters",)), authority(tmp_path, "cluster"))
    for stranger in (None, forged):
        answer = LoopbackEndpoint(port=port, authority=pki / "cluster.crt", client=stranger).call("GET", "/api/v1/namespaces")
        assert answer.status == 401


def test_the_datastore_talks_to_nobody_but_the_api_server(control_plane: ControlPlane) -> None:
    pki = control_plane.layout.cluster / "pki"
    port, _ = next(process.ports for process in control_plane.cluster.status().processes if process.name == control_plane_programs.ETCD)
    admin = Pair(certificate=pki / "admin.crt", key=pki / "admin.key")
    friend = Pair(certificate=pki / "etcd-client.crt", key=pki / "etcd-client.key")
    assert LoopbackEndpoint(port=port, authority=pki / "etcd.crt", client=friend).call("GET", "/health").status == 200
    for stranger in (None, admin):
        with pytest.raises(ssl.SSLError):
            LoopbackEndpoint(port=port, authority=pki / "etcd.crt", client=stranger).call("GET", "/health")


def test_kwok_may_play_nodes_and_nothing_else(control_plane: ControlPlane) -> None:
    api = api_client((control_plane.layout.cluster / "config" / "kwok.kubeconfig").read_text())
    core = client.CoreV1Api(api)
    assert core.list_node() is not None
    with pytest.raises(ApiException, match="Forbidden"):
        core.list_secret_for_all_namespaces()
    with pytest.raises(ApiException, match="Forbidden"):
        core.create_namespaced_pod("default", pod("intruder"))


def test_a_quota_on_gpus_is_enforced(control_plane: ControlPlane) -> None:
    control_plane.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "small"}},
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "gpus", "namespace": "small"},
            "spec": {"hard": {"requests.nvidia.com/gpu": "2"}},
        },
    )
    quotas = lambda: control_plane.get("ResourceQuota", "gpus", namespace="small").get("status", {}).get("hard")  # noqa: E731
    eventually(quotas)
    with pytest.raises(ApiException, match=r"exceeded quota: gpus, requested: requests.nvidia.com/gpu=3"):
        control_plane.create(pod("greedy", {"nvidia.com/gpu": "3"}, namespace="small"))


def test_gpu_pods_are_packed_on_one_node_while_another_is_free(control_plane: ControlPlane, nodes: list[str]) -> None:
    for name in ("one", "two", "three"):
        control_plane.create(pod(name, {"nvidia.com/gpu": "1"}))
        eventually(lambda name=name: condition(control_plane, "Pod", name) == "True")
    placed = {control_plane.get("Pod", name)["spec"]["nodeName"] for name in ("one", "two", "three")}
    assert len(placed) == 1, f"three one-GPU pods lie on {sorted(placed)}: no node with eight free GPUs is left for a large model"
    assert placed < set(nodes)


def test_mig_slices_are_packed_like_gpus(control_plane: ControlPlane, nodes: list[str]) -> None:
    for name in ("one", "two", "three"):
        control_plane.create(pod(name, {"nvidia.com/mig-1g.10gb": "1"}))
        eventually(lambda name=name: condition(control_plane, "Pod", name) == "True")
    assert len({control_plane.get("Pod", name)["spec"]["nodeName"] for name in ("one", "two", "three")}) == 1


@pytest.mark.usefixtures("nodes")
def test_the_pod_of_a_job_succeeds(control_plane: ControlPlane) -> None:
    template = {"spec": {**pod("unused")["spec"], "restartPolicy": "Never"}}
    control_plane.create(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "golden", "namespace": "default"}, "spec": {"template": template}}
    )
    eventually(lambda: control_plane.get("Job", "golden", api_version="batch/v1")["status"].get("succeeded") == 1)
    jobs = control_plane.client.resources.get(api_version="batch/v1", kind="Job")
    jobs.delete(name="golden", namespace="default", body={"propagationPolicy": "Background"})


@pytest.mark.usefixtures("nodes")
def test_a_pod_asking_for_more_gpus_than_a_node_has_stays_pending_with_a_reason(control_plane: ControlPlane) -> None:
    control_plane.create(pod("huge", {"nvidia.com/gpu": "16"}))

    def reason() -> str:
        conditions = control_plane.get("Pod", "huge")["status"].get("conditions") or []
        return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")

    assert "2 Insufficient nvidia.com/gpu" in eventually(reason)


@pytest.mark.usefixtures("nodes")
def test_a_pod_warms_up_for_as_long_as_it_says(control_plane: ControlPlane) -> None:
    control_plane.create(pod("slow", annotations={READY_DELAY: "3s"}), pod("slowest", annotations={READY_DELAY: "900s"}), pod("quick"))

    def warmed(name: str) -> float:
        """Seconds from its creation to its readiness, by the pod's own account, which is in whole seconds."""
        eventually(lambda: condition(control_plane, "Pod", name) == "True")
        found = control_plane.get("Pod", name)
        (ready,) = [each["lastTransitionTime"] for each in found["status"]["conditions"] if each["type"] == "Ready"]
        return (datetime.fromisoformat(ready) - datetime.fromisoformat(found["metadata"]["creationTimestamp"])).total_seconds()

    assert warmed("slow") >= 2
    eventually(lambda: condition(control_plane, "Pod", "quick") == "True")
    assert condition(control_plane, "Pod", "slowest") != "True"


@pytest.mark.usefixtures("nodes")
def test_a_pod_whose_status_others_keep_is_not_made_ready_but_can_be_deleted(control_plane: ControlPlane) -> None:
    control_plane.create(pod("served", annotations=STATUS_BY_OTHERS), pod("simulated"))
    eventually(lambda: condition(control_plane, "Pod", "simulated") == "True")
    eventually(lambda: condition(control_plane, "Pod", "served", "PodScheduled") == "True")
    time.sleep(0.5)
    assert condition(control_plane, "Pod", "served") != "True"
    control_plane.client.resources.get(api_version="v1", kind="Pod").delete(name="served", namespace="default")
    eventually(lambda: all(each["metadata"]["name"] != "served" for each in control_plane.list("Pod", namespace="default")))


def test_nodes_keep_their_leases_so_that_none_is_given_up(control_plane: ControlPlane, nodes: list[str]) -> None:
    def leases() -> dict[str, str]:
        found = control_plane.list("Lease", api_version="coordination.k8s.io/v1", namespace="kube-node-lease")
        return {each["metadata"]["name"]: each["spec"]["renewTime"] for each in found if each["metadata"]["name"] in nodes}

    first = eventually(lambda: leases() if len(leases()) == len(nodes) else None)
    eventually(lambda: all(leases()[name] > first[name] for name in nodes), within=25)


@pytest.mark.usefixtures("nodes")
def test_a_pod_of_a_node_that_was_lost_becomes_ready_again(control_plane: ControlPlane) -> None:
    control_plane.create(pod("survivor"))
    eventually(lambda: condition(control_plane, "Pod", "survivor") == "True")
    lost = {"type": "Ready", "status": "False", "lastTransitionTime": (datetime.now(UTC) + timedelta(seconds=1)).isoformat()}
    control_plane.patch_status("Pod", "survivor", {"conditions": [lost]})  # what the node lifecycle controller does
    eventually(lambda: condition(control_plane, "Pod", "survivor") == "True")


@pytest.mark.usefixtures("nodes")
def test_a_pod_whose_container_failed_is_not_repaired(control_plane: ControlPlane) -> None:
    control_plane.create(pod("broken"))
    eventually(lambda: condition(control_plane, "Pod", "broken") == "True")
    failed = {
        "name": "main",
        "ready": False,
        "restartCount": 1,
        "image": "",
        "imageID": "",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    }
    control_plane.patch_status("Pod", "broken", {"conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [failed]})
    time.sleep(1.0)
    assert condition(control_plane, "Pod", "broken") == "False"


def test_a_load_balancer_and_an_ingress_get_an_address(control_plane: ControlPlane) -> None:
    control_plane.create(
        """
apiVersion: v1
kind: Service
metadata: {name: gateway, namespace: default}
spec: {type: LoadBalancer, ports: [{port: 80}], selector: {app: gateway}}
---
apiVersion: v1
kind: Service
metadata: {name: inner, namespace: default}
spec: {ports: [{port: 80}], selector: {app: gateway}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: entry, namespace: default}
spec: {defaultBackend: {service: {name: gateway, port: {number: 80}}}}
"""
    )

    def address(kind: str, name: str, api_version: str = "v1") -> list[dict[str, str]]:
        return control_plane.get(kind, name, api_version=api_version)["status"]["loadBalancer"].get("ingress") or []

    assert eventually(lambda: address("Service", "gateway")) == [{"hostname": "gateway-default.elb.sandbox.internal"}]
    assert eventually(lambda: address("Ingress", "entry", "networking.k8s.io/v1"))[0]["hostname"] == "entry-default.elb.sandbox.internal"
    assert address("Service", "inner") == []


OFFERED = {
    "good": ("internal", "ip", False, 60),
    "instances": ("internal", "instance", True, 0),
    "no-node-ports": ("internal", "instance", False, 0),
    "nowhere": ("everywhere", "ip", False, 0),
    "too-many": ("internal", "ip", False, 61),
}
"""Services of the AWS Load Balancer Controller's class: scheme, kind of targets, whether they have node ports, how many ranges they admit."""


def balanced(name: str) -> dict[str, Any]:
    scheme, targets, ports, ranges = OFFERED[name]
    prefix = "service.beta.kubernetes.io/aws-load-balancer"
    annotations = {f"{prefix}-scheme": scheme, f"{prefix}-nlb-target-type": targets}
    spec = {
        "type": "LoadBalancer",
        "loadBalancerClass": "service.k8s.aws/nlb",
        "allocateLoadBalancerNodePorts": ports,
        "loadBalancerSourceRanges": [f"203.0.113.{number}/32" for number in range(ranges)],
        "ports": [{"port": 80}],
    }
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def test_a_balancer_is_late_and_none_is_made_of_what_its_controller_refuses(control_plane: ControlPlane) -> None:
    control_plane.create(*(balanced(name) for name in OFFERED))

    def address(name: str) -> list[dict[str, str]]:
        return control_plane.get("Service", name)["status"]["loadBalancer"].get("ingress") or []

    assert address("good") == []
    assert eventually(lambda: address("good")) == [{"hostname": "k8s-default-good.elb.sandbox.internal"}]
    assert eventually(lambda: address("instances"))
    time.sleep(3.0)
    assert (address("no-node-ports"), address("nowhere"), address("too-many")) == ([], [], [])


def test_the_cloud_provider_leaves_services_of_other_controllers_alone(control_plane: ControlPlane) -> None:
    other = balanced("good")
    other["metadata"] = {"name": "other", "namespace": "default"}
    other["spec"]["loadBalancerClass"] = "example.com/balancer"
    annotated = {"service.beta.kubernetes.io/aws-load-balancer-type": "external"}
    external = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "external", "namespace": "default", "annotations": annotated}}
    control_plane.create(other, {**external, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}})
    time.sleep(3.0)
    for name in ("other", "external"):
        assert not control_plane.get("Service", name)["status"]["loadBalancer"].get("ingress")


def test_a_volume_is_provisioned_bound_and_deleted_with_its_claim(control_plane: ControlPlane) -> None:
    control_plane.create(
        """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: cache, namespace: default}
spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 100Gi}}}
"""
    )
    eventually(lambda: control_plane.get("PersistentVolumeClaim", "cache")["status"]["phase"] == "Bound")
    (volume,) = control_plane.list("PersistentVolume")
    assert volume["spec"]["capacity"] == {"storage": "100Gi"}
    control_plane.client.resources.get(api_version="v1", kind="PersistentVolumeClaim").delete(name="cache", namespace="default")
    eventually(lambda: not control_plane.list("PersistentVolume"), within=60)


@pytest.mark.usefixtures("nodes")
def test_a_claim_that_waits_for_its_first_consumer_is_bound_when_one_comes(control_plane: ControlPlane) -> None:
    control_plane.create(
        """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: lazy}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: weights, namespace: default}
spec: {accessModes: [ReadWriteOnce], storageClassName: lazy, resources: {requests: {storage: 1Gi}}}
"""
    )
    time.sleep(1.0)
    assert control_plane.get("PersistentVolumeClaim", "weights")["status"]["phase"] == "Pending"
    consumer = pod("consumer")
    consumer["spec"]["volumes"] = [{"name": "weights", "persistentVolumeClaim": {"claimName": "weights"}}]
    control_plane.create(consumer)
    eventually(lambda: condition(control_plane, "Pod", "consumer") == "True")
    assert control_plane.get("PersistentVolumeClaim", "weights")["status"]["phase"] == "Bound"
    control_plane.client.resources.get(api_version="v1", kind="PersistentVolumeClaim").delete(name="weights", namespace="default")


def test_the_crds_of_every_add_on_are_accepted(control_plane: ControlPlane) -> None:
    toolchain = control_plane.cluster.start(Silent()).toolchain
    for add_on in ("cert-manager", "istio", "keda", "prometheus-operator", "gateway-api", "inference-extension"):
        for document in manifests.read(toolchain.crds(add_on)):
            assert document["kind"] == "CustomResourceDefinition"
            control_plane.resource(document).server_side_apply(
                body=document, field_manager="test", force_conflicts=True, query_params=[("dryRun", "All")]
            )


def test_no_program_was_given_a_secret_as_an_argument(control_plane: ControlPlane) -> None:
    keys = [path.read_text().split("\n")[1] for path in (control_plane.layout.cluster / "pki").glob("*.key")]
    for process in control_plane.cluster.status().processes:
        assert process.pid is not None
        for file in ("cmdline", "environ"):
            said = Path(f"/proc/{process.pid}/{file}").read_text()
            assert not [key for key in keys if key in said]


def test_a_program_inherits_neither_terminal_nor_proxy_from_its_starter(control_plane: ControlPlane) -> None:
    for process in control_plane.cluster.status().processes:
        assert process.pid is not None
        assert os.getsid(process.pid) != os.getsid(0)
        names = {entry.partition("=")[0] for entry in Path(f"/proc/{process.pid}/environ").read_text().split("\0") if entry}
        assert names <= {"HOME", "PATH", "PWD", "OLDPWD", "SHLVL", "_"}
