"""The endpoint picker as a process, with the rights that its manifests give it, against a real API server.

Slices are written as Kubernetes' own controller makes them, and nobody answers at their addresses. That Envoy does what the picker says,
`tests/traffic` shows.
"""

import os
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import grpc
import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from components.model_service.manifests import ServicePlan
from components.platform import endpoint_picker
from headway.endpoint_picker.exchange import CLUSTER
from headway.endpoint_picker.messages import ProcessingRequest, ProcessingResponse
from headway.endpoint_picker.server import SERVICE
from headway.wire import ENDPOINT_PICKER_NAMESPACE
from tests.cluster.conftest import PROJECT, ControlPlane, api_client, eventually, kubeconfig_of
from tests.components.contracts import CHAT, SURROUNDINGS, bodies, changed, pool_of
from tests.loopback import free_port

NAMESPACE = "assist"
ENGINES = ("10.0.9.2", "10.0.9.3", "10.0.9.4")
MODEL = changed(CHAT, routing="endpoint_picker")
PLAN = ServicePlan.of(NAMESPACE, MODEL, pool_of(MODEL), SURROUNDINGS)
ARM = f"chat-{PLAN.traffic.primary.release}"


@dataclass
class PickerProcess:
    kubeconfig: Path
    port: int = field(default_factory=free_port)
    shown: int = field(default_factory=free_port)
    process: "subprocess.Popen[str]" = field(init=False)

    def start(self) -> None:
        (running,) = (each.body for each in endpoint_picker.manifests("x") if each.kind == "Deployment")
        (container,) = running["spec"]["template"]["spec"]["containers"]
        places = {f"0.0.0.0:{endpoint_picker.PORT}": self.port, f"0.0.0.0:{endpoint_picker.SHOWN_PORT}": self.shown}
        said = [f"127.0.0.1:{places[each]}" if each in places else each for each in container["args"] if each != "--in-cluster"]
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        command = [sys.executable, "-m", "headway.cli.main", *said]
        self.process = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        eventually(lambda: self.page()[0] == 200, within=60)

    def end(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=60)
        return self.process.returncode, output

    def page(self, path: str = "/metrics") -> tuple[int, str]:
        try:
            with closing(HTTPConnection("127.0.0.1", self.shown, timeout=60)) as connection:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
        except ConnectionError:
            return 0, ""

    def value(self, series: str) -> float:
        (found,) = (line for line in self.page()[1].splitlines() if line.startswith(f"headway_endpoint_picker_{series} "))
        return float(found.rpartition(" ")[2])

    def pick(self, number: int) -> str:
        """The endpoint of a prompt to the stable version, without its port; nothing where none is named."""
        asked = ProcessingRequest()
        asked.request_body.body = b'{"prompt": "%d"}' % number
        cluster = f"outbound|8000||{ARM}.{NAMESPACE}.svc.cluster.local"
        asked.attributes.add(key="any").value.fields[CLUSTER].string_value = cluster
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            call = channel.stream_stream(f"/{SERVICE}/Process", ProcessingRequest.SerializeToString, ProcessingResponse.FromString)
            (answer,) = call(iter([asked]), timeout=60)
        named = answer.request_body.response.header_mutation.set_headers
        return b64decode(named[0].header.raw_value).decode().removesuffix(":8000") if named else ""


def slices(*engines: str) -> list[dict[str, Any]]:
    """Of every Service of the plan, with its labels; `engines` are ready, the others not."""
    endpoints = [{"addresses": [ip], "conditions": {"ready": ip in engines}} for ip in ENGINES]
    return [
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": body["metadata"]["name"],
                "namespace": NAMESPACE,
                "labels": {**body["metadata"]["labels"], "kubernetes.io/service-name": body["metadata"]["name"]},
            },
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
        }
        for body in bodies(PLAN, "Service")
    ]


def now_ready(plane: ControlPlane, *engines: str) -> None:
    for body in slices(*engines):
        plane.resource(body).patch(body=body, namespace=NAMESPACE, content_type="application/merge-patch+json")


@pytest.fixture(scope="module")
def bed(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PickerProcess]:
    plane = control_plane
    for name in (NAMESPACE, ENDPOINT_PICKER_NAMESPACE):
        plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    rights = [dict(each.body) for each in endpoint_picker.manifests("x") if each.role in ("account", "rights", "binding")]
    plane.create(*rights, *slices())
    place = tmp_path_factory.mktemp("picker") / "kubeconfig"
    made = PickerProcess(kubeconfig_of(plane, endpoint_picker.NAME, ENDPOINT_PICKER_NAMESPACE, place))
    made.start()
    yield made
    if made.process.poll() is None:
        made.end()


def test_every_ready_engine_of_a_marked_service_is_picked(bed: PickerProcess, control_plane: ControlPlane) -> None:
    eventually(lambda: bed.page("/healthz")[0] == 200, within=60)
    assert bed.pick(0) == ""
    now_ready(control_plane, *ENGINES)
    eventually(lambda: bed.value("engines") == len(ENGINES), within=60)
    assert {bed.pick(number) for number in range(6)} == set(ENGINES)
    assert bed.value('requests_total{outcome="by_load"}') + bed.value('requests_total{outcome="by_prompt"}') == 6
    eventually(lambda: bed.value("requests_in_progress") == 0, within=30)


def test_an_engine_that_is_no_longer_ready_is_not_picked(bed: PickerProcess, control_plane: ControlPlane) -> None:
    now_ready(control_plane, *ENGINES[1:])
    eventually(lambda: bed.value("engines") == len(ENGINES) - 1, within=60)
    assert {bed.pick(number) for number in range(4)} == set(ENGINES[1:])


def test_it_may_list_endpoints_and_do_nothing_else(bed: PickerProcess) -> None:
    own = api_client(bed.kubeconfig.read_text())
    core: Any = client.CoreV1Api(own)
    discovery: Any = client.DiscoveryV1Api(own)
    for refused in (
        lambda: core.list_namespaced_pod(NAMESPACE),
        lambda: core.list_namespaced_secret(NAMESPACE),
        lambda: discovery.delete_namespaced_endpoint_slice("x", NAMESPACE),
    ):
        with pytest.raises(ApiException) as said:
            refused()
        assert said.value.status == 403


def test_a_picker_without_its_rights_is_not_ready_and_says_why(bed: PickerProcess, control_plane: ControlPlane) -> None:
    rights = control_plane.client.resources.get(api_version="rbac.authorization.k8s.io/v1", kind="ClusterRoleBinding")
    rights.delete(name=next(each.body["metadata"]["name"] for each in endpoint_picker.manifests("x") if each.role == "binding"))
    blind = PickerProcess(bed.kubeconfig)
    blind.start()
    eventually(lambda: blind.value('failures_total{outcome="api"}') > 0, within=60)
    assert blind.page("/healthz")[0] == 503
    ended, said = blind.end()
    assert ended == 0
    assert "no answer (api)" in said and "forbidden" in said


def test_told_to_end_a_picker_does(bed: PickerProcess) -> None:
    """Last, for it is gone then."""
    ended, said = bed.end()
    assert (ended, said.splitlines()[-1]) == (0, "ended")
