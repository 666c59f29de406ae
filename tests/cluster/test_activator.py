"""The activator as a process, with the rights that its manifests give it, against a real API server."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from components.platform import activator
from headway.wire import ACTIVATOR_NAMESPACE, MODEL
from tests.cluster.conftest import PROJECT, ControlPlane, api_client, eventually, kubeconfig_of
from tests.loopback import free_port

ROLES = ("account", "rights", "binding")


def listens(port: int) -> bool:
    with socket.socket() as found:
        return not found.connect_ex(("127.0.0.1", port))


def endpoints(model: str, *, ready: bool) -> dict[str, Any]:
    """The slice that Kubernetes' own controller makes of a Service, whose labels it copies."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": model, "namespace": "writing", "labels": {MODEL: model, "kubernetes.io/service-name": model}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": ready}}],
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
    }


@dataclass
class Activator:
    plane: ControlPlane
    kubeconfig: Path
    process: "subprocess.Popen[bytes]"
    port: int
    shown: int

    def ask(self, model: str, seconds: int) -> tuple[int, bytes]:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=90)) as connection:
            connection.request("GET", f"{activator.path('writing', model, seconds)}/2")
            answer = connection.getresponse()
            return answer.status, answer.read()

    def page(self, path: str) -> str:
        with closing(HTTPConnection("127.0.0.1", self.shown, timeout=60)) as connection:
            connection.request("GET", path)
            return connection.getresponse().read().decode()


@pytest.fixture(scope="module")
def found(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Activator]:
    for name in ("writing", ACTIVATOR_NAMESPACE):
        control_plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    made = {each.role: dict(each.body) for each in activator.manifests(f"example.com/headway@sha256:{'0' * 64}")}
    control_plane.create(*(made[role] for role in ROLES))
    kubeconfig = kubeconfig_of(control_plane, activator.NAME, ACTIVATOR_NAMESPACE, tmp_path_factory.mktemp("activator") / "kubeconfig")
    port, shown = free_port(), free_port()
    (container,) = made["activator"]["spec"]["template"]["spec"]["containers"]
    said = [each.replace(f"0.0.0.0:{activator.PORT}", f"127.0.0.1:{port}") for each in container["args"]]
    said = [each.replace(f"0.0.0.0:{activator.SHOWN_PORT}", f"127.0.0.1:{shown}") for each in said]
    command = [sys.executable, "-m", "headway.cli.main", *said, "--kubeconfig", str(kubeconfig)]
    process = subprocess.Popen(command, cwd=PROJECT, env={**os.environ, "PYTHONPATH": str(PROJECT)})
    running = Activator(plane=control_plane, kubeconfig=kubeconfig, process=process, port=port, shown=shown)
    try:
        eventually(lambda: listens(port) and listens(shown), within=60)
        yield running
    finally:
        process.kill()
        process.wait()


def test_a_service_with_a_ready_endpoint_is_served_at_once(found: Activator) -> None:
    found.plane.create(endpoints("awake", ready=True))
    assert found.ask("awake", 60) == (200, b"serves\n")
    assert found.page("/healthz") == "well\n"


def test_whoever_asks_for_one_without_waits_and_is_late_in_the_end(found: Activator) -> None:
    found.plane.create(endpoints("asleep", ready=False))
    assert found.ask("asleep", 2) == (504, b"late\n")


def test_it_may_list_endpoints_and_do_nothing_else(found: Activator) -> None:
    own = api_client(found.kubeconfig.read_text())
    discovery: Any = client.DiscoveryV1Api(own)
    assert discovery.list_namespaced_endpoint_slice("writing").items
    core: Any = client.CoreV1Api(own)
    for refused in (
        lambda: discovery.delete_namespaced_endpoint_slice("asleep", "writing"),
        lambda: core.list_namespaced_pod("writing"),
        lambda: core.list_namespaced_secret("writing"),
    ):
        with pytest.raises(ApiException) as said:
            refused()
        assert said.value.status == 403


def test_told_to_end_it_first_answers_who_waits(found: Activator) -> None:
    """Last, for it is gone then."""
    with closing(HTTPConnection("127.0.0.1", found.port, timeout=60)) as connection:
        connection.request("GET", f"{activator.path('writing', 'asleep', 5)}/2")
        eventually(lambda: 'waiting_requests{model="asleep"' in found.page("/metrics"), within=60)
        found.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert found.process.poll() is None
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (504, b"late\n")
    assert found.process.wait(60) == 0
