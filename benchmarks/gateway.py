"""What a gateway proxy computes for one request, by how many models it serves: each with a fallback, 25 to a tenant with a rate of its own.

    python -m benchmarks.gateway [--models 1,50,200] [--rounds 5] [--requests 2000] [--beside FOLDER] [--write FOLDER]

One real Envoy with one worker for each number of models, with the configuration that the program's objects become, tokens and limits
included; a replica in the same process answers at once. One client asks one model over one connection, the proxies in turn. CPU is the
process's own (utime and stime), so that a busy machine hardly moves it; latency is as the client sees it. `--write` keeps the
configurations, and `--beside` measures those of another checkout in the same run.
"""

import argparse
import copy
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from benchmarks.reference import reference_line, times_reference
from components.model_service.manifests import ServicePlan
from components.platform import mesh
from components.tenant.manifests import TenantPlan
from components.tenant.surroundings import Surroundings
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.tenant import Tenant
from sandbox.traffic.mesh import clusters, envoy_configuration, listeners
from sandbox.traffic.mesh.snapshot import INBOUND_OFFSET, MeshSnapshot
from sandbox.traffic.mesh.tokens import TokenIssuers
from sandbox.traffic.pod_addresses import loopback
from sandbox.traffic.programs import programs

PROJECT = Path(__file__).parents[1]
HOST, REGION = "inference.example.com", "us-west-2"
SURROUNDINGS = Surroundings(environment="bench", region=REGION, account_id="111122223333", hosts=(HOST,), gateway_replicas=2)
TENANT_HAS = 25
ISSUER = "https://login.example.com/realms"
_AMI = {"release": "1.36.2-20260714", "driver": "580.159.03"}
_POOL = {
    "name": "l4",
    "instance_types": ["g6.12xlarge"],
    "zones": [f"{REGION}a"],
    "size": {"max": 2},
    "ami": _AMI,
    "workload_class": "latency",
}
_MANAGER = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_TICKS = os.sysconf("SC_CLK_TCK")


def contracts(count: int) -> Iterator[tuple[Tenant, list[Model]]]:
    """So many models with a fallback, by tenant."""
    folder = PROJECT / "tenants" / "vision"
    tenant: dict[str, Any] = yaml.safe_load((folder / "tenant.yaml").read_text())
    model: dict[str, Any] = {**yaml.safe_load((folder / "defects.yaml").read_text()), "batch": None}
    model["degradation"] = {**model["degradation"], "fallback": {"model": "lighter", "priorities": ["normal"]}}
    for first in range(0, count, TENANT_HAS):
        name = f"tenant-{first // TENANT_HAS}"
        issuers = [{"issuer": f"{ISSUER}/{name}", "audiences": [name], "jwks_uri": f"{ISSUER}/{name}/keys"}]
        names = [f"model-{number}" for number in range(first, min(count, first + TENANT_HAS))]
        artifact = {**model["artifact"], "uri": model["artifact"]["uri"].replace("vision", name)}
        models = [Model.model_validate({**copy.deepcopy(model), "name": each, "artifact": artifact}) for each in names]
        yield Tenant.model_validate({**tenant, "name": name, "issuers": issuers}), models


def prepared(count: int, folder: Path) -> dict[str, Any]:
    """An Envoy's configuration, and what to ask it: one of the models that were made last."""
    pool, issuers = Pool.model_validate(_POOL), TokenIssuers(folder / "issuers")
    bodies = [each.body for each in mesh.manifests(hosts=SURROUNDINGS.hosts, certificate=None, region=REGION)]
    keys: dict[str, str] = {}
    # An address of its own, or proxies that run at the same time would share each other's requests.
    replica = f"10.191.{os.getpid() % 200 + 20}.{count % 250 + 1}"
    asked = ("", "")
    for tenant, models in contracts(count):
        bodies += [each.body for each in TenantPlan(tenant=tenant, models=models, pools=(pool,), surroundings=SURROUNDINGS).manifests()]
        for model in models:
            made = ServicePlan.of(tenant.name, model, pool, SURROUNDINGS, "lighter")
            bodies += [each.body for each in made.manifests()]
            asked = (tenant.name, model.name)
            bodies.append(_endpoints(tenant.name, f"{model.name}-{made.traffic.primary.release}", replica))
        keys[f"{ISSUER}/{tenant.name}"] = issuers.keys(f"{ISSUER}/{tenant.name}")
    snapshot = MeshSnapshot.of([{**body, "metadata": {**body["metadata"], "uid": str(number)}} for number, body in enumerate(bodies)])
    port = _free_port()
    ports = listeners.ListenerPorts(gateway={80: port}, mesh={}, log="/dev/null")
    found = _static(envoy_configuration.compile_(snapshot, ports, str(folder), keys), loopback(replica))
    tenant, model = asked
    claims = {"priority": "normal"}
    token = issuers.token(f"{ISSUER}/{tenant}", [tenant], "somebody", now=time.time(), seconds=24 * 3600, claims=claims)
    return {"models": count, "port": port, "host": f"{model}.{tenant}.{HOST}", "token": token, "envoy": found}


def _endpoints(tenant: str, service: str, replica: str) -> dict[str, Any]:
    metadata = {"name": f"{service}-x", "namespace": tenant, "labels": {"kubernetes.io/service-name": service}}
    ports = [{"name": "http", "port": 8000}, {"name": "grpc", "port": 8001}]
    endpoints = [{"addresses": [replica], "conditions": {"ready": True}}]
    return {"kind": "EndpointSlice", "metadata": metadata, "ports": ports, "endpoints": endpoints}


def _static(found: envoy_configuration.EnvoyConfiguration, at: str) -> dict[str, Any]:
    """The configuration without files to watch, and with a replica that answers at once."""
    made = copy.deepcopy(list(found.listeners.values()))
    for listener in made:
        manager = listener["filter_chains"][0]["filters"][-1]["typed_config"]
        manager["route_config"] = found.routes[manager.pop("rds")["route_config_name"]]
    upstream = copy.deepcopy(dict(found.clusters))
    for name, cluster in upstream.items():
        if cluster.pop("eds_cluster_config", None) is not None:
            cluster |= {"type": "STATIC", "load_assignment": found.endpoints[name]}
    answers = {
        "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "direct_response": {"status": 200}}]}]
    }
    router = {
        "name": "envoy.filters.http.router",
        "typed_config": made[0]["filter_chains"][0]["filters"][-1]["typed_config"]["http_filters"][-1]["typed_config"],
    }
    manager = {"@type": _MANAGER, "stat_prefix": "replica", "route_config": answers, "http_filters": [router]}
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    replica = {"name": "replica", "address": clusters.address(at, 8000 + INBOUND_OFFSET), "filter_chains": [chain]}
    return {"static_resources": {"listeners": [*made, replica], "clusters": list(upstream.values())}}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(case: dict[str, Any], folder: Path) -> Generator[int]:
    """The Envoy of a case, once it listens; its process id."""
    file = folder / f"{case['name']}.json"
    file.write_text(json.dumps(case["envoy"]))
    process = subprocess.Popen([programs(PROJECT).envoy, "-c", file, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "off"])
    try:
        while True:
            if process.poll() is not None:
                raise RuntimeError(f"{case['name']}: the proxy refuses its configuration")
            try:
                socket.create_connection(("127.0.0.1", case["port"]), timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def asked(case: dict[str, Any], process: int, requests: int) -> tuple[float, float]:
    """(CPU, median latency) of a request in microseconds, over one connection."""
    lines = ("POST /v2/models/m/infer HTTP/1.1", f"Host: {case['host']}", f"Authorization: Bearer {case['token']}", "Content-Length: 2")
    said, took = ("\r\n".join(lines) + "\r\n\r\n{}").encode(), list[float]()
    with socket.create_connection(("127.0.0.1", case["port"]), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = cpu_seconds(process)
        for _ in range(requests):
            at = time.perf_counter()
            connection.sendall(said)
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += connection.recv(65536)
            took.append(time.perf_counter() - at)
            if not answer.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"{case['name']}: {answer[:300]!r}")
        return (cpu_seconds(process) - begun) / requests * 1e6, median(took) * 1e6


def measured(cases: Sequence[dict[str, Any]], rounds: int, requests: int, folder: Path) -> Iterator[tuple[str, int, float, float]]:
    """(checkout, models, CPU, latency): medians of rounds in which the proxies take turns, after one that is thrown away."""
    with ExitStack() as stack:
        processes = {case["name"]: stack.enter_context(running(case, folder)) for case in cases}
        found: dict[str, list[tuple[float, float]]] = {case["name"]: [] for case in cases}
        for _ in range(rounds + 1):
            for case in cases:
                found[case["name"]].append(asked(case, processes[case["name"]], requests))
        for case in cases:
            cpu, latency = zip(*found[case["name"]][1:], strict=True)
            yield case["of"], case["models"], median(cpu), median(latency)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", default="1,50,200", help="numbers of models")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2000, help="requests of a round to each proxy")
    parser.add_argument("--beside", type=Path, help="folder of configurations that another checkout wrote")
    parser.add_argument("--write", type=Path, help="write the configurations there and measure nothing")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="headway-gateway-") as name:
        folder = Path(name)
        cases = [{**prepared(int(each), folder), "of": "this", "name": f"this-{each}"} for each in given.models.split(",")]
        if given.write:
            given.write.mkdir(parents=True, exist_ok=True)
            for case in cases:
                (given.write / f"{case['models']}.json").write_text(json.dumps(case))
            return
        for file in sorted(given.beside.glob("*.json")) if given.beside else ():
            case = json.loads(file.read_text())
            cases.append({**case, "of": "beside", "name": f"beside-{case['models']}"})
        print(f"load {os.getloadavg()[0]:.1f}")
        print(reference_line())
        for of, models, cpu, latency in measured(cases, given.rounds, given.requests, folder):
            # Microseconds of one request are seconds of a million.
            multiple = times_reference(cpu)
            print(
                f"{of:7} {models:4} models: CPU {cpu:6.0f} us a request (a million: {multiple} of the reference work), "
                f"median latency {latency:6.0f} us"
            )
        print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
