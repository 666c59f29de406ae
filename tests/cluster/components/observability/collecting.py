"""The collector as a process, with the platform's configuration but for addresses, and the pods that send to it.

A pod here is an object of the real API server with an address of 127.0.0.0/8, from which a test connects: the collector knows it as it would
know a pod of the cluster, by where its connection comes from.
"""

import http.client
import json
import os
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from headway.wire import GATEWAY_NAMESPACE, MODEL, RELEASE, TENANT
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout
from sandbox.progress import Silent
from tests.cluster.conftest import PROJECT, ControlPlane, eventually

LAYOUT = Layout.of(PROJECT)

UPSTREAM = "outbound|8000||defects-r0123456789.vision.svc.cluster.local"
DEFECTS = {"model": "defects", "release": "r0123456789", "tenant": "vision"}
FRAUD = {"model": "scores", "release": "rabcdef0123", "tenant": "fraud"}


class Sender(StrEnum):
    """Who connects, by address."""

    GATEWAY = "127.0.0.11"
    DEFECTS = "127.0.0.12"
    FRAUD = "127.0.0.13"
    STRANGER = "127.0.0.14"
    """No pod."""


_PODS: tuple[tuple[Sender, str, str, Mapping[str, str]], ...] = (
    (Sender.GATEWAY, GATEWAY_NAMESPACE, "gateway", {}),
    (Sender.DEFECTS, "vision", "defects", DEFECTS),
    (Sender.FRAUD, "fraud", "scores", FRAUD),
)
_KEYS = {"model": MODEL, "release": RELEASE, "tenant": TENANT}


def populate(plane: ControlPlane) -> None:
    """Make every sender but the stranger a pod."""
    for name in (GATEWAY_NAMESPACE, "vision", "fraud"):
        labels = {} if name == GATEWAY_NAMESPACE else {TENANT: name}
        plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        eventually(lambda of=name: plane.list("ServiceAccount", namespace=of), within=60)
    for address, namespace, name, whose in _PODS:
        labels = {_KEYS[key]: value for key, value in whose.items()}
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        spec = {"nodeSelector": {"nowhere": ""}, "containers": [{"name": "server", "image": "registry.test/server"}]}
        plane.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        plane.patch_status("Pod", name, {"podIP": address, "podIPs": [{"ip": address}]}, namespace=namespace)


@dataclass(frozen=True)
class Running:
    """A collector that listens."""

    port: int
    metrics: int

    def tell(self, sender: Sender, kind: str, resource: Mapping[str, str], *items: Any) -> None:
        """Send `logs` or `traces` of one resource."""
        one, scopes, found = ("resourceLogs", "scopeLogs", "logRecords") if kind == "logs" else ("resourceSpans", "scopeSpans", "spans")
        attributes = [text(key, value) for key, value in resource.items()]
        self.post(sender, kind, {one: [{"resource": {"attributes": attributes}, scopes: [{found: list(items)}]}]})

    def post(self, sender: Sender, kind: str, body: Any) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30, source_address=(sender, 0))
        connection.request("POST", f"/v1/{kind}", json.dumps(body), {"content-type": "application/json"})
        assert connection.getresponse().status == 200
        connection.close()

    def counted(self, name: str) -> int:
        """The sum of a counter of the collector's own."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return sum(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith(name))


@contextmanager
def collecting(folder: Path, plane: ControlPlane, config: Mapping[str, Any], local: Mapping[str, Any], **more: str) -> Iterator[Running]:
    """The platform's `config` overlaid by `local`; `more` is its environment. What it holds is sent on before it ends."""
    otlp, health, metrics = free_ports()
    reader = {"pull": {"exporter": {"prometheus": {"host": "127.0.0.1", "port": metrics}}}}
    here = {
        "extensions": {"health_check": {"endpoint": f"127.0.0.1:{health}"}},
        "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:0"}, "http": {"endpoint": f"127.0.0.1:{otlp}"}}}},
        "processors": {"k8s_attributes": {"auth_type": "kubeConfig"}},
        "service": {"telemetry": {"metrics": {"readers": [reader]}}},
    }
    configs = {"platform": config, "local": local, "here": here}
    arguments = [argument for name, body in configs.items() for argument in file(folder, name, body)]
    environment = {**ENVIRONMENT, "KUBECONFIG": str(plane.kubeconfig), "HOME": str(folder), "TZ": "Asia/Tokyo", **more}
    with (folder / "log").open("w") as log, subprocess.Popen([binary(), *arguments], env=environment, stderr=log) as process:
        try:
            eventually(lambda: process.poll() is not None or answers(f"http://127.0.0.1:{health}"), within=60)
            assert process.poll() is None, (folder / "log").read_text()
            yield Running(otlp, metrics)
        finally:
            process.terminate()


ENVIRONMENT = {"MY_POD_IP": "127.0.0.1", "OTEL_K8S_NODE_NAME": "node", "PATH": os.environ["PATH"]}


def binary() -> Path:
    return ensure_toolchain(LAYOUT, Silent(), ("collector",)).binary("otelcol")


def validated(folder: Path, config: Any) -> tuple[int, str]:
    """The collector's own judgement of a configuration: its exit code and what it says."""
    command = [binary(), "validate", *file(folder, "config", config)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def free_ports() -> tuple[int, int, int]:
    """For somebody who cannot be asked which one it got."""
    with socket.socket() as one, socket.socket() as two, socket.socket() as three:
        for each in (one, two, three):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1], three.getsockname()[1]


def file(folder: Path, name: str, body: Any) -> tuple[str, str]:
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(body))
    return "--config", str(path)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def attributes(of: Mapping[str, Any]) -> dict[str, str]:
    """Of a span, a line or a resource; texts only."""
    return {each["key"]: each["value"].get("stringValue", "") for each in of.get("attributes", ())}
