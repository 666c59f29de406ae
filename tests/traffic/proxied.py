"""One real Envoy that is a gateway and the proxies of replicas, for tests that need no cluster; the servers behind are the tests' own."""

import copy
import json
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from components.manifests import Manifest
from components.model_service.manifests import ServicePlan
from components.platform import mesh
from components.tenant.manifests import TenantPlan
from sandbox.traffic.mesh import envoy_configuration
from sandbox.traffic.mesh.snapshot import MeshSnapshot
from sandbox.traffic.programs import programs
from tests.components.contracts import POOLS, SURROUNDINGS, tenant
from tests.loopback import free_port as free_port
from tests.traffic.bed import PROJECT

_PATIENCE = 60.0


@contextmanager
def envoy(
    folder: Path, configuration: Mapping[str, Any], port: int, override: Mapping[str, Any] | None = None
) -> "Iterator[subprocess.Popen[bytes]]":
    """Envoy with this configuration, once it listens on `port`; `override` is merged into it as Istio's agent lets Envoy merge."""
    file = folder / "envoy.json"
    file.write_text(json.dumps(configuration))
    flags = ("--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error", "--file-flush-interval-msec", "100")
    merged = ("--config-yaml", json.dumps(override)) if override is not None else ()
    process = subprocess.Popen([programs(PROJECT).envoy, "-c", file, *merged, *flags])
    try:
        _await_port(port, process)
        yield process
    finally:
        process.terminate()
        process.wait(30)


def _await_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    until = monotonic() + _PATIENCE
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        assert process.poll() is None, "the proxy refuses its configuration"
        assert monotonic() < until, "the proxy does not listen"
        sleep(0.05)


def replicas(made: ServicePlan, ips: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Ready replicas of the service with these addresses, as the API server would tell of them."""
    yield from _arm(made, made.traffic.primary.release, list(ips), made.model.name)


def arms(made: ServicePlan, ips: Mapping[str, Iterable[str]]) -> Iterator[dict[str, Any]]:
    """The same of each release, by its identifier."""
    for release, own in ips.items():
        yield from _arm(made, release, list(own))


def _arm(made: ServicePlan, release: str, found: Sequence[str], *more: str) -> Iterator[dict[str, Any]]:
    name = f"{made.model.name}-{release}"
    server = next(each.body for each in made.manifests() if each.body["kind"] == "Deployment" and each.body["metadata"]["name"] == name)
    template = server["spec"]["template"]
    metadata = {"namespace": made.tenant, "labels": template["metadata"]["labels"]}
    for number, ip in enumerate(found):
        yield {"kind": "Pod", "metadata": {**metadata, "name": f"{name}-{number}"}, "spec": template["spec"], "status": {"podIP": ip}}
    for of in (name, *more):
        yield {
            "kind": "EndpointSlice",
            "metadata": {"namespace": made.tenant, "name": f"{of}-x", "labels": {"kubernetes.io/service-name": of}},
            "ports": [{"name": "http", "port": 8000}, {"name": "grpc", "port": 8001}],
            "endpoints": [{"addresses": [ip], "conditions": {"ready": True}} for ip in found],
        }


def snapshot(manifests: Iterable[Manifest], *more: Mapping[str, Any]) -> MeshSnapshot:
    """A cluster that holds these objects."""
    found = [copy.deepcopy(dict(body)) for body in (*(each.body for each in manifests), *more)]
    for number, body in enumerate(found):
        body["metadata"]["uid"] = f"uid-{number}"
    return MeshSnapshot.of(found)


def behind_gateway(made: Sequence[ServicePlan], ips: Iterable[Iterable[str]], *more: Mapping[str, Any]) -> MeshSnapshot:
    """The gateway with its rules, and one tenant's services, each with ready replicas at its `ips`; all of it is in force."""
    plan = TenantPlan(tenant=tenant(made[0].tenant), models=tuple(each.model for each in made), pools=POOLS, surroundings=SURROUNDINGS)
    rules = mesh.manifests(hosts=SURROUNDINGS.hosts, certificate=None, region="us-west-2")
    manifests = [*rules, *plan.manifests(), *(each for one in made for each in one.manifests())]
    found = snapshot(manifests, *(body for one, own in zip(made, ips, strict=True) for body in replicas(one, own)), *more)
    assert envoy_configuration.judge(found) == {}
    return found
