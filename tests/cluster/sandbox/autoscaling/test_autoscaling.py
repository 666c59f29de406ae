"""Real KEDA moves the replicas of a real Deployment by what real Prometheus answers, with the ScaledObject that a contract renders."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from kubernetes.dynamic.exceptions import ForbiddenError

from components.model_service.scaling import scaled_object
from components.observability.alerts import ALERTS
from headway.ledger.traffic_split import TrafficArm
from sandbox.autoscaling import servers as autoscaling
from sandbox.cluster.nodes import node_manifest
from sandbox.cluster.processes import Supervisor
from sandbox.monitoring import servers as monitoring
from sandbox.monitoring.servers import Monitoring
from sandbox.progress import Silent
from tests.cluster.conftest import ControlPlane, eventually
from tests.cluster.definitions import define
from tests.cluster.exporter import Exporter, shown
from tests.components.contracts import DEFECTS, MODELS, SURROUNDINGS, changed, service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]  # on a fresh machine the first test waits for the programs to be built

TENANT, RELEASE = "vision", "r1"
NAME = f"defects-{RELEASE}"
PER_REPLICA = 4
WITHIN = 180.0
(ALERT,) = (alert for alert in ALERTS if alert.name == "ScalerFailing")
SCALED_OBJECT = {"api_version": "keda.sh/v1alpha1", "namespace": TENANT}


@dataclass
class Load:
    """A service under load: pods that nobody runs, and readings that a test chooses."""

    cluster: ControlPlane
    exporter: Exporter
    prometheus: Monitoring

    def waiting(self, requests: object) -> None:
        """Have the model server report that many requests in its queue."""
        self.exporter.text = f'nv_inference_pending_request_count{{model="defects",pod="a"}} {requests}\n'

    def silence(self) -> None:
        self.exporter.text = ""

    def apply(self, body: dict[str, Any]) -> None:
        api = self.cluster.client.resources.get(api_version=body["apiVersion"], kind=body["kind"])
        api.server_side_apply(body=body, namespace=TENANT, field_manager="headway", force_conflicts=True)

    def replicas(self, name: str = NAME) -> int:
        return self.cluster.get("Deployment", name, api_version="apps/v1", namespace=TENANT)["spec"]["replicas"]

    def falls_back(self, name: str = NAME) -> bool:
        """Whether KEDA says that it has lost a trigger and keeps what there is."""
        conditions = self.cluster.get("ScaledObject", name, **SCALED_OBJECT).get("status", {}).get("conditions") or ()
        return any(each["type"] == "Fallback" and each["status"] == "True" for each in conditions)

    def settle(self, requests: int, replicas: int) -> None:
        """Have `requests` waiting until the deployment has `replicas`."""
        self.waiting(requests)
        eventually(lambda: self.replicas() == replicas and not self.falls_back(), WITHIN)


def deployment(name: str = NAME, replicas: int = 1) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "server", "image": "nothing"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": TENANT},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod},
    }


def scaler(least: int = 1) -> dict[str, Any]:
    """As the contract has it, but that replicas go as soon as the load does: what keeps them must not be the wait."""
    model = changed(
        DEFECTS,
        scaling__triggers=[{"signal": "waiting", "target": PER_REPLICA}],
        scaling__policy="target",
        scaling__polling="5s",
        scaling__min_replicas=least,
        scaling__max_replicas=6,
    )
    body = scaled_object(TENANT, TrafficArm(release=RELEASE), model, SURROUNDINGS)
    body["spec"]["cooldownPeriod"] = 5
    body["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"] = {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 5}],
    }
    return body


@pytest.fixture(scope="module")
def load(control_plane: ControlPlane) -> Iterator[Load]:
    layout, progress = control_plane.layout, Silent()
    labels = {"job": "triton", "platform_io_model": "defects", "platform_io_release": RELEASE, "platform_io_tenant": TENANT, "pod": "a"}
    with shown("") as exporter:
        define(control_plane, "keda")
        running = monitoring.start(layout, progress)
        running.scrape("triton", [exporter.target], labels)
        autoscaling.start(layout, progress)
        control_plane.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TENANT}},
            node_manifest("node-0", labels={}, taints=[], capacity={"cpu": "8", "memory": "8Gi", "pods": "110"}),
            deployment(),
        )
        found = Load(control_plane, exporter, running)
        found.waiting(PER_REPLICA)
        eventually(lambda: running.query("nv_inference_pending_request_count"), WITHIN)
        control_plane.create(scaler())
        yield found


def test_replicas_follow_the_requests_that_wait_out_and_in(load: Load) -> None:
    load.settle(5 * PER_REPLICA, replicas=5)
    pods = lambda: [p for p in load.cluster.list("Pod", namespace=TENANT) if p["status"].get("phase") == "Running"]  # noqa: E731
    assert len(eventually(lambda: found if len(found := pods()) == 5 else [], WITHIN)) == 5
    load.settle(2 * PER_REPLICA, replicas=2)


def test_replicas_never_pass_the_contracts_bounds(load: Load) -> None:
    load.settle(100 * PER_REPLICA, replicas=6)
    load.settle(0, replicas=1)


@pytest.mark.parametrize("reading", ["", "NaN"], ids=["nothing", "no-number"])
def test_a_reading_that_is_lost_scales_nothing_in_and_is_alerted(load: Load, reading: str) -> None:
    load.settle(4 * PER_REPLICA, replicas=4)
    load.waiting(reading) if reading else load.silence()
    eventually(load.falls_back, WITHIN)
    assert load.replicas() == 4
    eventually(lambda: load.prometheus.query(ALERT.expression), WITHIN)
    (failing,) = load.prometheus.query(ALERT.expression)
    assert failing["metric"]["namespace"] == TENANT
    assert failing["metric"]["scaledObject"] == NAME


def test_without_prometheus_nothing_scales_in_and_load_counts_when_it_is_back(load: Load) -> None:
    layout = load.cluster.layout
    load.settle(3 * PER_REPLICA, replicas=3)
    Supervisor(layout).stop(monitoring.PROMETHEUS, Silent())
    eventually(load.falls_back, WITHIN)
    assert load.replicas() == 3
    monitoring.start(layout, Silent())
    load.settle(2 * PER_REPLICA, replicas=2)


def test_workers_of_a_queue_that_cannot_be_read_stay(load: Load) -> None:
    (body,) = (dict(m.body) for m in service("defects-night").manifests() if m.role == "batch-autoscaler")
    body = {**body, "spec": {**body["spec"], "pollingInterval": 5}}
    name = body["metadata"]["name"]
    load.cluster.create(deployment(name, replicas=2), body)
    eventually(lambda: load.falls_back(name), WITHIN)
    assert load.replicas(name) == 2


def test_a_plain_container_that_nobody_asks_is_idle_and_not_unknown(load: Load) -> None:
    body = scaled_object(TENANT, TrafficArm(release=RELEASE), MODELS["plain"], SURROUNDINGS)
    body = {**body, "spec": {**body["spec"], "pollingInterval": 5, "minReplicaCount": 1}}
    name = body["metadata"]["name"]

    def states() -> set[str]:
        return {
            each["status"] for each in load.cluster.get("ScaledObject", name, **SCALED_OBJECT).get("status", {}).get("health", {}).values()
        }

    with shown("istio_build 1\n") as proxy:
        load.prometheus.scrape("proxies", [proxy.target], {"job": "monitoring/mesh-proxies"})
        eventually(lambda: load.prometheus.query("istio_build"), WITHIN)
        load.cluster.create(deployment(name), body)
        eventually(lambda: states() == {"Happy"} and not load.falls_back(name), WITHIN)
    # Not read any more: nobody knows what it answers.
    eventually(lambda: load.falls_back(name), WITHIN)


def test_a_second_scaler_of_a_deployment_is_refused_as_keda_refuses_it(load: Load) -> None:
    second = scaler()
    second["metadata"]["name"] = "another"
    with pytest.raises(ForbiddenError, match="is already managed by"):
        load.cluster.create(second)


def test_what_contracts_render_passes_the_admission_of_keda_again(load: Load) -> None:
    load.apply(scaler())
    assert load.cluster.get("ScaledObject", NAME, **SCALED_OBJECT)["metadata"]["name"] == NAME


def test_what_runs_is_left_alone_and_what_died_is_started_again(load: Load) -> None:
    layout = load.cluster.layout
    assert autoscaling.start(layout, Silent()) == ()
    Supervisor(layout).stop(autoscaling.ADAPTER, Silent())
    assert autoscaling.start(layout, Silent()) == (autoscaling.ADAPTER,)
    load.settle(PER_REPLICA, replicas=1)


def test_a_request_that_is_held_brings_the_first_replica(load: Load) -> None:
    """It is counted at the gateway only when it is over."""
    waiting = f'headway_activator_waiting_requests{{tenant="{TENANT}",model="defects"}} '
    with shown("istio_build 1\n") as proxy, shown(f"{waiting}0\n") as activator:
        load.prometheus.scrape("proxies", [proxy.target], {"job": "monitoring/mesh-proxies"})
        load.prometheus.scrape("activator", [activator.target], {"job": "activator"})
        eventually(lambda: load.prometheus.query("istio_build"), WITHIN)
        load.settle(PER_REPLICA, replicas=1)
        load.apply(scaler(least=0))
        load.waiting(0)
        eventually(lambda: load.replicas() == 0, WITHIN)
        load.silence()
        activator.text = f"{waiting}1\n"
        eventually(lambda: load.replicas() == 1, WITHIN)


def test_a_service_that_may_go_to_zero_stays_there_until_somebody_asks(load: Load) -> None:
    """Its replicas' own series go with them, and what the gateway's proxies count remains, also of the last ten minutes: so it is last."""
    labels = f'destination_service_namespace="{TENANT}",destination_service_name="{NAME}",reporter="source",response_code="503"'
    with shown("istio_build 1\n") as proxy:
        load.prometheus.scrape("proxies", [proxy.target], {"job": "monitoring/mesh-proxies"})
        eventually(lambda: load.prometheus.query("istio_build"), WITHIN)
        load.settle(PER_REPLICA, replicas=1)
        load.apply(scaler(least=0))
        load.waiting(0)
        eventually(lambda: load.replicas() == 0, WITHIN)
        load.silence()
        assert {load.replicas() for _ in range(30) if not time.sleep(1)} == {0}
        for refused in range(1, 100):
            proxy.text = f"istio_requests_total{{{labels}}} {refused}\n"
            if load.replicas():
                break
            time.sleep(1)
        assert load.replicas() == 1
