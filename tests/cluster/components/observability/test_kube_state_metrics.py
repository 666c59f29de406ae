"""kube-state-metrics itself, told what the platform's chart values say: what alerts, rules, dashboards and releases read of it is there.

The chart hands its values on as options (prometheus-community/helm-charts, charts/kube-state-metrics, templates/deployment.yaml). Objects are
made and their states written by hand: no kubelet runs here.
"""

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from components.addons import prometheus
from headway.diagnosis.measures import MEASURES
from headway.wire import MODEL, POOL, RELEASE, TENANT, WORKLOAD_CLASS
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.monitoring import exporters
from sandbox.progress import Silent
from tests.cluster.components.observability import generated_series
from tests.cluster.components.observability.collecting import free_ports
from tests.cluster.conftest import ControlPlane, eventually

VALUES = prometheus.values(days=15, storage_bytes=100 * 2**30)["kube-state-metrics"]
OPTIONS = exporters.options(VALUES)
IDENTITIES = {"namespace", "pod", "node", "deployment", "horizontalpodautoscaler", "resourcequota", "container", "uid"}
"""Labels that say which object; their values differ from test to test."""
Sample = tuple[str, dict[str, str], float]

pytestmark = pytest.mark.needs("kube-state-metrics")

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "l4-0", "labels": {POOL: "l4", WORKLOAD_CLASS: "latency", "nvidia.com/gpu.present": "true"}},
    "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}], "unschedulable": True},
}
NODE_STATUS = {
    "allocatable": {"nvidia.com/gpu": "4", "cpu": "8"},
    "capacity": {"nvidia.com/gpu": "4", "cpu": "8"},
    "conditions": [
        {"type": kind, "status": status, "reason": "Test", "lastHeartbeatTime": None, "lastTransitionTime": None}
        for kind, status in (("Ready", "True"), ("DiskPressure", "False"))
    ],
}
TENANTS = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vision", "labels": {TENANT: "vision"}}}
LABELS = {TENANT: "vision", MODEL: "defects", RELEASE: "r0123456789", WORKLOAD_CLASS: "latency"}
SERVER = {"name": "server", "image": "server", "resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}}
TOLERATES = [{"operator": "Exists"}]


def pod(name: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "vision", "labels": LABELS, "finalizers": ["test/keeps"]}
    spec = {"containers": [SERVER], "schedulerName": "nobody", "tolerations": TOLERATES, "automountServiceAccountToken": False, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "defects", "namespace": "vision"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "defects"}},
        "template": {"metadata": {"labels": {"app": "defects"}}, "spec": {"containers": [SERVER]}},
    },
}
SCALER = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "keda-defects", "namespace": "vision"},
    "spec": {
        "minReplicas": 1,
        "maxReplicas": 8,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "defects"},
        "metrics": [{"type": "External", "external": {"metric": {"name": "s0"}, "target": {"type": "AverageValue", "averageValue": "1"}}}],
    },
}
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "tenant", "namespace": "vision"},
    "spec": {"hard": {"requests.nvidia.com/gpu": "4"}},
}


def was_killed() -> dict[str, Any]:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    container = {
        "name": "server",
        "image": "server",
        "imageID": "",
        "ready": True,
        "restartCount": 1,
        "lastState": ended,
        "state": {"running": {}},
    }
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [container]}


UNSCHEDULABLE = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


@pytest.fixture(scope="module")
def samples(control_plane: ControlPlane) -> Iterator[list[Sample]]:
    """What the exporter says of an environment that has one of everything."""
    plane = control_plane
    plane.create(TENANTS, NODE, DEPLOYMENT, SCALER, QUOTA, pod("serves", nodeName="l4-0"), pod("waits"), pod("evicted", nodeName="l4-0"))
    plane.patch_status("Node", "l4-0", NODE_STATUS, namespace=None)
    plane.patch_status("Pod", "serves", was_killed(), namespace="vision")
    plane.patch_status("Pod", "waits", UNSCHEDULABLE, namespace="vision")
    plane.patch_status("Pod", "evicted", {"phase": "Failed", "reason": "Evicted"}, namespace="vision")
    plane.client.resources.get(api_version="v1", kind="Pod").delete(name="serves", namespace="vision")
    program = ensure_toolchain(plane.layout, Silent(), ("kube-state-metrics",)).binary("kube-state-metrics")
    ports = free_ports()
    at = ["--host=127.0.0.1", "--telemetry-host=127.0.0.1", f"--port={ports[0]}", f"--telemetry-port={ports[1]}"]
    with subprocess.Popen([program, f"--kubeconfig={plane.kubeconfig}", *at, *OPTIONS], stderr=subprocess.PIPE, text=True) as process:
        try:
            yield eventually(lambda: complete(ports[0], process), within=60)
        finally:
            process.terminate()


def complete(port: int, process: "subprocess.Popen[str]") -> list[Sample] | None:
    """All samples, once the quota and the states of all objects are in it."""
    assert process.poll() is None, process.communicate()[1]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
    except OSError:
        return None
    found = [(each.name, dict(each.labels), each.value) for family in families for each in family.samples]
    names = {name for name, _, _ in found}
    whole = {"kube_resourcequota", "kube_pod_deletion_timestamp", "kube_pod_status_unschedulable", "kube_node_status_allocatable"} <= names
    # The controller of nodes taints what is cordoned, a moment later.
    tainted = any(name == "kube_node_spec_taint" and labels["key"] == "node.kubernetes.io/unschedulable" for name, labels, _ in found)
    return found if whole and tainted else None


def wanted() -> list[Sample]:
    """The series of this exporter that rules and dashboards are tested with."""
    families = text_string_to_metric_families(
        "\n".join(line for line in generated_series.text(0).splitlines() if line.startswith("kube_")) + "\n"
    )
    return [(each.name, dict(each.labels), each.value) for family in families for each in family.samples]


@pytest.mark.parametrize("name", sorted({name for name, _, _ in wanted()}))
def test_a_series_that_rules_are_tested_with_is_the_exporters(samples: list[Sample], name: str) -> None:
    given = [labels for found, labels, _ in samples if found == name]
    for _, labels, _ in (each for each in wanted() if each[0] == name):
        closed = {key: value for key, value in labels.items() if key not in IDENTITIES and not key.startswith("label_platform_io")}
        assert [each for each in given if labels.keys() <= each.keys() and closed.items() <= each.items()], (
            f"the exporter gives {name} no {json.dumps(labels)}; it gives {given[:3]}"
        )


def test_what_a_diagnosis_asks_of_objects_is_the_exporters(samples: list[Sample]) -> None:
    asked = {found for each in MEASURES.values() for found in re.findall(r"kube_[a-z_]+", each.query)}
    given = {name for name, _, _ in samples}
    assert sorted(asked - given) == []


def test_no_secret_becomes_a_series(samples: list[Sample]) -> None:
    assert not [name for name, _, _ in samples if re.match(r"kube_(secret|configmap)", name)]
