"""The loop that explains alerts, beside a real Alertmanager: a page asks it, and whoever got the page gets the cause. Its objects are taken by a
real API server, and its identity may do no more than list."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from components.observability import routes
from components.platform import diagnosis
from headway.contract.model import Model
from headway.diagnosis.alert_loop import AlertLoop, DiagnosedService, answering, threads
from headway.diagnosis.alertmanager import Alertmanagers
from headway.diagnosis.cause_alert import MessagePlaces
from headway.diagnosis.hypothesis import CauseLayer, Symptom
from headway.diagnosis.reasoning import ChainLink, Diagnosis, DiagnosisVerdict
from headway.listening import asked_body, listening
from headway.release.service_place import ServicePlace
from headway.wire import CAUSE_ALERT, DIAGNOSIS_NAMESPACE
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.monitoring import objects, servers
from sandbox.monitoring.configuration import MonitoringSettings
from sandbox.progress import Silent
from tests.cluster.conftest import PROJECT, ControlPlane, api_client, eventually
from tests.components.contracts import DEFECTS, EMBEDDINGS

pytestmark = pytest.mark.timeout(1800)

ONCALL, TENANT = "monitoring/platform/platform-oncall", "vision/alerts/vision-oncall"
FIRST_MINUTE = 60.0
NODE = "l4-0"
LOOP = diagnosis.manifests(f"registry.test/headway@sha256:{'a' * 64}", "us-east-1", diagnosis.settings("prod", "us-east-1", "l", {}))


class Receivers:
    """What each receiver got, and when."""

    def __init__(self) -> None:
        self.got: list[tuple[float, str, dict[str, Any]]] = []

    def handler(self) -> type[BaseHTTPRequestHandler]:
        got = self.got

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                got.append((time.monotonic(), self.path.strip("/"), json.loads(asked_body(self, 2**20))))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        return Receiver

    def causes(self, receiver: str, namespace: str) -> list[tuple[float, dict[str, Any]]]:
        """Notifications of a receiver that explain alerts of this namespace."""

        def explains(each: dict[str, Any]) -> bool:
            return any(a["labels"]["alertname"] == CAUSE_ALERT and a["labels"]["namespace"] == namespace for a in each["alerts"])

        return [(moment, each) for moment, name, each in self.got if name == receiver and explains(each)]


def node_away(place: ServicePlace, at: float) -> tuple[Diagnosis, ...]:
    """One node hurts every service."""
    links = (
        ChainLink(name=Symptom.MISSING, says="replicas are missing", evidence=("one of two is ready",)),
        ChainLink(name="node-not-ready", says="a node is not ready", evidence=(f"{NODE}: the node is not ready",), where=NODE, node=NODE),
    )
    told: dict[str, Any] = {"verdict": DiagnosisVerdict.CAUSE, "cause": "node-not-ready", "layer": CauseLayer.NODE}
    return (Diagnosis(tenant=place.tenant, model=place.model, at=at, symptom=Symptom.MISSING, links=links, **told),)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoopbackEndpoint, Receivers]]:
    """Alertmanager with the platform's and a tenant's routes, the loop that it asks, and receivers."""
    tenant = routes.tenant_routes("vision", (Model.model_validate(DEFECTS), Model.model_validate(EMBEDDINGS)))
    assert tenant is not None
    layout = Layout(project=PROJECT, state=tmp_path_factory.mktemp("diagnosis"), cache=Layout.of(PROJECT).cache)
    keeper, receivers = Supervisor(layout), Receivers()
    address = f"http://127.0.0.1:{keeper.port('alertmanager')}"
    chains = (("vision", "defects"), ("vision", "embeddings"), ("assist", "chat"))
    places = [ServicePlace(project=Path(), environment="prod", tenant=tenant, model=model) for tenant, model in chains]
    services = {each.chain: DiagnosedService(place=each, receiver=f"{each.tenant}-oncall") for each in places}
    loop = AlertLoop(
        services=lambda: services,
        alertmanagers=Alertmanagers(lambda: [address]),
        places=MessagePlaces(environment="prod", runbooks="https://git.example.com/docs/runbooks"),
        clock=time.monotonic,
        now=time.time,
        say=print,
        diagnose=node_away,
    )
    working = threads(loop)
    listens = {"consequence": "", "remedy": ""}
    try:
        with (
            listening("127.0.0.1", 0, answering(loop), **listens) as asked,
            listening("127.0.0.1", 0, receivers.handler(), **listens) as inbox,
        ):
            configs = [routes.platform_routes(diagnosed=True), tenant]
            whole, refused = objects.alerting(configs, "monitoring", f"http://127.0.0.1:{inbox}", f"http://127.0.0.1:{asked}/alerts")
            assert not refused
            running = servers.start(layout, Silent(), MonitoringSettings(alertmanager=whole))
            assert running.alertmanager == address
            yield LoopbackEndpoint(port=int(address.rpartition(":")[2])), receivers
    finally:
        loop.end()
        for each in working:
            each.join(10)
        keeper.stop_all(Silent())


def fire(alertmanager: LoopbackEndpoint, *about: tuple[str, str], name: str = "SloBurnRate", **labels: str) -> float:
    """A page of each service; when."""
    began = datetime.now(UTC).isoformat()
    post(alertmanager, [{"labels": labels_of(each, name, **labels), "startsAt": began} for each in about])
    return time.monotonic()


def resolve(alertmanager: LoopbackEndpoint, name: str, about: tuple[str, str], **labels: str) -> None:
    """End a page."""
    given = {label: value for label, value in labels.items() if value}
    times = {"startsAt": (datetime.now(UTC) - timedelta(hours=1)).isoformat(), "endsAt": datetime.now(UTC).isoformat()}
    post(alertmanager, [{"labels": labels_of(about, name, **given), **times}])


def labels_of(about: tuple[str, str], name: str, **labels: str) -> dict[str, str]:
    return {"alertname": name, "severity": "page", "namespace": about[0], "model": about[1], **labels}


def post(alertmanager: LoopbackEndpoint, alerts: list[dict[str, Any]]) -> None:
    answer = alertmanager.call("POST", "/api/v2/alerts", json.dumps(alerts), {"Content-Type": "application/json"})
    assert answer.status == 200


def test_a_storm_of_one_node_is_one_message_that_lists_what_it_explains(world: tuple[LoopbackEndpoint, Receivers]) -> None:
    alertmanager, receivers = world
    of_vision = [("vision", "defects"), ("vision", "embeddings")]
    fired = fire(alertmanager, *of_vision, ("assist", "chat"), receiver="vision-oncall")
    for name in ("RequestsUnanswered", "ReplicasMissing", "ModelServerRestarts"):
        fire(alertmanager, *of_vision, name=name)
    ((moment, message),) = eventually(lambda: receivers.causes(ONCALL, "vision"), FIRST_MINUTE)
    assert moment - fired < FIRST_MINUTE
    explained = {(each["labels"]["namespace"], each["labels"]["model"]) for each in message["alerts"]}
    assert explained == {*of_vision, ("assist", "chat")}
    assert message["commonLabels"]["place"] == NODE
    told = message["alerts"][0]["annotations"]
    assert "because a node is not ready (l4-0)" in told["summary"]
    assert f"{NODE}: the node is not ready" in told["description"] and "Next: headway diagnose" in told["description"]

    ((_, tenants),) = eventually(lambda: receivers.causes(TENANT, "vision"), FIRST_MINUTE)
    assert {each["labels"]["namespace"] for each in tenants["alerts"]} == {"vision"}
    assert len(tenants["alerts"]) == len(of_vision)
    # What Alertmanager sends together it does not send again before somebody is hurt anew.
    time.sleep(5)
    assert len(receivers.causes(ONCALL, "vision")) == len(receivers.causes(TENANT, "vision")) == 1


def test_no_label_leads_a_cause_to_another_tenant(world: tuple[LoopbackEndpoint, Receivers]) -> None:
    """The first test fired a page of assist/chat whose labels name vision's receiver."""
    _, receivers = world
    assert not receivers.causes(TENANT, "assist")


def test_the_page_itself_still_reaches_people(world: tuple[LoopbackEndpoint, Receivers]) -> None:
    _, receivers = world

    def pages() -> list[Any]:
        return [each for _, name, each in receivers.got if name == ONCALL and each["alerts"][0]["labels"]["severity"] == "page"]

    assert eventually(pages, FIRST_MINUTE)


def test_a_loop_that_starts_sees_what_fires_and_what_is_explained(world: tuple[LoopbackEndpoint, Receivers]) -> None:
    those = alertmanagers(world[0])
    assert those.causes().keys() == {"vision/defects", "vision/embeddings", "assist/chat"}
    assert {f"{each.tenant}/{each.model}" for each in those.pages()} == those.causes().keys()


def test_a_cause_ends_with_its_pages_and_not_before(world: tuple[LoopbackEndpoint, Receivers]) -> None:
    alertmanager, _ = world
    those = alertmanagers(alertmanager)
    resolve(alertmanager, "ReplicasMissing", ("vision", "embeddings"))
    for name in ("SloBurnRate", "RequestsUnanswered", "ReplicasMissing", "ModelServerRestarts"):
        resolve(alertmanager, name, ("vision", "defects"), receiver="vision-oncall" if name == "SloBurnRate" else "")
    eventually(lambda: "vision/defects" not in those.causes(), 3 * FIRST_MINUTE)
    assert those.causes().keys() == {"vision/embeddings", "assist/chat"}, "a page of each still fires"


def test_a_tickets_cause_comes_to_whoever_gets_tickets(world: tuple[LoopbackEndpoint, Receivers]) -> None:
    alertmanager, receivers = world
    fire(alertmanager, ("vision", "defects"), name="RolloutStuck", severity="ticket", receiver="vision-oncall")
    ((_, message),) = eventually(lambda: receivers.causes("monitoring/platform/platform-tickets", "vision"), FIRST_MINUTE)
    assert message["commonLabels"]["explains"] == "ticket"
    assert len(receivers.causes(ONCALL, "vision")) == 1 + _ended(receivers), "nobody is woken"


def _ended(receivers: Receivers) -> int:
    """Messages that a cause has ended."""
    return sum(any(one["status"] == "resolved" for one in each["alerts"]) for _, each in receivers.causes(ONCALL, "vision"))


def alertmanagers(alertmanager: LoopbackEndpoint) -> Alertmanagers:
    return Alertmanagers(lambda: ["http://127.0.0.1:9", f"http://127.0.0.1:{alertmanager.port}"])


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    control_plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DIAGNOSIS_NAMESPACE}})
    for manifest in LOOP:
        if manifest.kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding"):
            control_plane.create(dict(manifest.body))
    return control_plane


def test_its_objects_pass_strict_decoding(cluster: ControlPlane) -> None:
    for manifest in LOOP:
        if manifest.kind in ("ConfigMap", "Deployment", "PodDisruptionBudget", "Service"):
            query = [("fieldValidation", "Strict"), ("dryRun", "All")]
            cluster.resource(dict(manifest.body)).create(body=dict(manifest.body), namespace=DIAGNOSIS_NAMESPACE, query_params=query)


@pytest.mark.parametrize(
    ("verb", "resource", "group", "allowed"),
    [
        ("list", "pods", "", True),
        ("list", "events", "", True),
        ("list", "nodes", "", True),
        ("list", "resourcequotas", "", True),
        ("list", "deployments", "apps", True),
        ("list", "virtualservices", "networking.istio.io", True),
        ("get", "pods", "", False),
        ("watch", "pods", "", False),
        ("list", "secrets", "", False),
        ("get", "secrets", "", False),
        ("list", "configmaps", "", False),
        ("create", "pods/exec", "", False),
        ("get", "pods/log", "", False),
        ("get", "services/proxy", "", False),
        ("patch", "deployments", "apps", False),
        ("patch", "nodes", "", False),
        ("patch", "virtualservices", "networking.istio.io", False),
    ],
)
def test_its_identity_may_list_what_it_reads_and_no_more(
    cluster: ControlPlane, verb: str, resource: str, group: str, allowed: bool
) -> None:
    kind, _, part = resource.partition("/")
    attributes = {"verb": verb, "namespace": "vision", "group": group, "resource": kind, "subresource": part}
    body = {"spec": {"user": f"system:serviceaccount:{DIAGNOSIS_NAMESPACE}:{diagnosis.NAME}", "resourceAttributes": attributes}}
    answer: Any = client.AuthorizationV1Api(api_client(cluster.kubeconfig.read_text())).create_subject_access_review(body)
    assert bool(answer.status.allowed) is allowed
