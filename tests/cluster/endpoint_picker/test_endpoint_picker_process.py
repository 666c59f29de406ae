"""The endpoint picker as a process, with rights of its own, against a real API server; its engines are pages of metrics, one of them hostile.

Pods have no kubelet here: their addresses and conditions are written. That Envoy does what the picker says, `tests/traffic` shows.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import grpc
import pytest
from kubernetes import client

from components.model_service import engine_pool
from headway.endpoint_picker.exchange import DESTINATION
from headway.endpoint_picker.messages import HealthCheckRequest, HealthCheckResponse, ProcessingRequest, ProcessingResponse
from headway.endpoint_picker.server import HEALTH, NOT_SERVING, SERVICE, SERVING
from tests.cluster.conftest import PROJECT, ControlPlane, api_client, eventually, kubeconfig_of
from tests.cluster.definitions import define
from tests.components.model_service.test_engine_pool import IMAGE, PLAN
from tests.loopback import Handler, served

NAMESPACE, PICKER, GROUP = "assist", engine_pool.picker_name("chat"), engine_pool.GROUP
ENGINES = ("127.0.0.2", "127.0.0.3", "127.0.0.4")


class Engine(Handler):
    """A page of metrics as vLLM has it; of the last engine a page without end."""

    def do_GET(self) -> None:
        if self.connection.getsockname()[0] == ENGINES[-1]:
            self.reply(200, b"vllm:num_requests_running{} 1e999\n" * 200_000)
        else:
            self.reply(
                200, b'vllm:cache_config_info{block_size="16",num_gpu_blocks="6250"} 1.0\nvllm:num_requests_running{engine="0"} 0.0\n'
            )


@dataclass
class PickerProcess:
    kubeconfig: Path
    process: "subprocess.Popen[str]" = field(init=False)
    port: int = 0
    shown: int = 0
    lines: list[str] = field(default_factory=list[str])

    def start(self, *options: str) -> None:
        command = [
            sys.executable,
            "-m",
            "headway.cli.main",
            "endpoint-picker",
            PICKER,
            "--namespace",
            NAMESPACE,
            "--unready",
            "0",
            *options,
        ]
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        self.process = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        output = self.process.stdout
        assert output
        first = output.readline()
        found = re.fullmatch(r"serving on 127\.0\.0\.1:(\d+), metrics on 127\.0\.0\.1:(\d+)\n", first)
        assert found, first + output.read()
        self.port, self.shown = map(int, found.groups())

        def read() -> None:
            with output:
                self.lines.extend(output)

        threading.Thread(target=read, daemon=True).start()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def page(self, path: str = "/metrics") -> tuple[int, str]:
        with closing(HTTPConnection("127.0.0.1", self.shown, timeout=60)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def value(self, series: str) -> float:
        (found,) = re.findall(rf"^headway_endpoint_picker_{re.escape(series)} (\S+)$", self.page()[1], re.M)
        return float(found)

    def pick(self) -> str:
        """The endpoint of a request without a body; nothing where it is refused."""
        asked = ProcessingRequest()
        asked.request_headers.end_of_stream = True
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            call = channel.stream_stream(f"/{SERVICE}/Process", ProcessingRequest.SerializeToString, ProcessingResponse.FromString)
            (answer,) = call(iter([asked]), timeout=60)
        assert answer.HasField("request_headers") or answer.immediate_response.status.code == 503
        return "".join(
            each.header.raw_value.decode()
            for each in answer.request_headers.response.header_mutation.set_headers
            if each.header.key == DESTINATION
        )

    def health(self) -> int:
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            ask = channel.unary_unary(f"/{HEALTH}/Check", HealthCheckRequest.SerializeToString, HealthCheckResponse.FromString)
            return ask(HealthCheckRequest(service=SERVICE), timeout=60).status


def pool(name: str, port: int) -> dict[str, Any]:
    spec = {
        "selector": {"matchLabels": {"pool": name}},
        "targetPorts": [{"number": port}],
        "endpointPickerRef": {"name": PICKER, "port": {"number": 9002}},
    }
    return {"apiVersion": f"{GROUP}/v1", "kind": "InferencePool", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def pod(name: str, of: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"pool": of}}
    spec = {"containers": [{"name": "server", "image": "x"}], "nodeName": "nowhere", "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def ready(plane: ControlPlane, name: str, ip: str, *, is_ready: bool = True) -> None:
    condition = {"type": "Ready", "status": str(is_ready)}
    plane.patch_status("Pod", name, {"podIP": ip, "podIPs": [{"ip": ip}], "conditions": [condition]}, namespace=NAMESPACE)


@pytest.fixture(scope="module")
def bed(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PickerProcess]:
    plane = control_plane
    define(plane, "inference-extension", "InferencePool")
    rights = [
        dict(each.body)
        for each in engine_pool.picker(NAMESPACE, PLAN.model, IMAGE)
        if each.role.startswith(("picker-account", "picker-rights"))
    ]
    plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, *rights)
    core: Any = client.CoreV1Api(api_client(plane.kubeconfig.read_text()))
    eventually(lambda: any(each.metadata.name == "default" for each in core.list_namespaced_service_account(NAMESPACE).items), within=60)
    kubeconfig = kubeconfig_of(plane, PICKER, NAMESPACE, tmp_path_factory.mktemp("picker") / "kubeconfig")
    with ExitStack() as stack:
        port = int(stack.enter_context(served(Engine, host=ENGINES[0])).rpartition(":")[2])
        for ip in ENGINES[1:]:
            stack.enter_context(served(Engine, port, ip))
        plane.create(
            pool("r1", port),
            {**pool("other", port), "spec": {**pool("other", port)["spec"], "endpointPickerRef": {"name": "x", "port": {"number": 1}}}},
        )
        plane.create(*(pod(f"engine-{number}", "r1") for number in range(3)), pod("other", "other"))
        made = PickerProcess(kubeconfig)
        made.start()
        yield made
        if made.process.poll() is None:
            made.end()


def test_every_ready_engine_of_its_pools_is_picked_whatever_one_of_them_says(bed: PickerProcess, control_plane: ControlPlane) -> None:
    eventually(lambda: bed.health() == SERVING, within=60)
    assert bed.pick() == ""
    for number, ip in enumerate(ENGINES):
        ready(control_plane, f"engine-{number}", ip)
    ready(control_plane, "other", "127.0.0.9")
    eventually(lambda: bed.value("engines") == len(ENGINES), within=60)
    eventually(lambda: bed.value('failures_total{outcome="page"}') > 0, within=60)
    assert {bed.pick().rpartition(":")[0] for _ in range(6)} == set(ENGINES)
    assert bed.value('requests_total{outcome="by_load"}') == 6
    assert bed.value("requests_in_progress") == 0


def test_an_engine_that_is_no_longer_ready_is_not_picked(bed: PickerProcess, control_plane: ControlPlane) -> None:
    ready(control_plane, "engine-0", ENGINES[0], is_ready=False)
    eventually(lambda: bed.value("engines") == len(ENGINES) - 1, within=60)
    assert ENGINES[0] not in {bed.pick().rpartition(":")[0] for _ in range(4)}


def test_a_picker_that_is_told_to_end_lets_requests_end_first(bed: PickerProcess) -> None:
    headers, end = ProcessingRequest(), ProcessingRequest()
    headers.request_headers.end_of_stream, end.response_headers.end_of_stream = True, True
    go_on = threading.Event()

    def asked() -> Iterator[Any]:
        yield headers
        assert go_on.wait(60)
        yield end

    with grpc.insecure_channel(f"127.0.0.1:{bed.port}") as channel:
        call = channel.stream_stream(f"/{SERVICE}/Process", ProcessingRequest.SerializeToString, ProcessingResponse.FromString)
        answers = iter(call(asked(), timeout=60))
        assert next(answers).HasField("request_headers")
        bed.process.send_signal(signal.SIGTERM)
        eventually(lambda: bed.page("/healthz")[0] == 503, within=30)
        go_on.set()
        assert next(answers).HasField("response_headers")
    assert bed.process.wait(60) == 0
    eventually(lambda: bed.lines[-1:] == ["ended\n"], within=30)


def test_a_picker_without_its_rights_is_not_ready_and_says_why(bed: PickerProcess, control_plane: ControlPlane) -> None:
    rights = control_plane.client.resources.get(api_version="rbac.authorization.k8s.io/v1", kind="RoleBinding")
    rights.delete(name=PICKER, namespace=NAMESPACE)
    blind = PickerProcess(bed.kubeconfig)
    blind.start()
    try:
        eventually(lambda: blind.value('failures_total{outcome="api"}') > 0, within=60)
        assert (blind.health(), blind.page("/healthz")[0]) == (NOT_SERVING, 503)
        eventually(lambda: any("no answer (api)" in line and "forbidden" in line for line in blind.lines), within=30)
    finally:
        assert blind.end() == 0
