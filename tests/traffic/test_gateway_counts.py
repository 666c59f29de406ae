"""What a real gateway's proxy counts of requests, as a diagnosis asks it: how many were worked on, their bytes and attempts, which callers repeat,
and connections that were too many."""

import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from components.addons import gateway_memory
from components.platform import mesh
from components.platform.gateway_measures import REPEATS
from headway.diagnosis.measures import MEASURES
from headway.wire import REPEATED_REQUESTS, WORKED_ATTEMPTS, WORKED_BYTES, WORKED_REQUESTS
from sandbox.traffic.mesh.envoy import EnvoyAdmin
from tests.cluster.conftest import eventually
from tests.loopback import served
from tests.traffic.limited_gateway import HOST, UNKNOWN, Model, configuration, filters
from tests.traffic.proxied import envoy, free_port

COUNTS = (WORKED_REQUESTS, WORKED_BYTES, WORKED_ATTEMPTS, REPEATED_REQUESTS)


@dataclass(frozen=True, kw_only=True)
class CountingGateway:
    port: int
    admin: int

    def counted(self) -> tuple[float, ...]:
        page = EnvoyAdmin(self.admin).get("/stats/prometheus")
        found = (re.search(rf'^envoy_headway_{name}{{tenant="assist",model="chat"}} (\S+)$', page, re.MULTILINE) for name in COUNTS)
        return tuple(float(each[1]) if each else 0.0 for each in found)

    def ask(self, body: bytes = b'{"tokens": 1}', host: str = HOST, **headers: str) -> int:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            told = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request("POST", "/v1/completions", body, {"host": host, **told})
            return connection.getresponse().status


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[str, int]]:
    with served(Model) as model:
        yield "127.0.0.1", int(model.rpartition(":")[2])


@pytest.fixture(scope="module")
def gateway(place: tuple[str, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountingGateway]:
    port, admin = free_port(), free_port()
    config = configuration(port, filters("500/s", "1000000/s", 1, answer=1), place, free_port(), admin)
    with envoy(tmp_path_factory.mktemp("proxy"), config, port):
        yield CountingGateway(port=port, admin=admin)


def added(gateway: CountingGateway, *expected: float, **asked: Any) -> None:
    before = gateway.counted()
    gateway.ask(**asked)
    eventually(lambda: tuple(now - then for now, then in zip(gateway.counted(), before, strict=True)) == expected, within=30)


def test_each_request_adds_itself_the_bytes_of_its_body_and_its_attempts(gateway: CountingGateway) -> None:
    body = json.dumps({"tokens": 1, "text": "x" * 5000}).encode()
    added(gateway, 1, len(body), 1, 0, body=body)


@pytest.mark.parametrize("header", REPEATS)
def test_a_client_that_says_it_asks_again_is_counted_so(gateway: CountingGateway, header: str) -> None:
    added(gateway, 1, 13, 1, 1, **{header.replace("-", "_"): "2"})


def test_a_clients_first_attempt_repeats_nothing(gateway: CountingGateway) -> None:
    added(gateway, 1, 13, 1, 0, **{REPEATS[1].replace("-", "_"): "0"})


@pytest.mark.parametrize(("host", "coding"), [(UNKNOWN, "identity"), (HOST, "br")])
def test_what_was_turned_away_was_not_worked_on(gateway: CountingGateway, host: str, coding: str) -> None:
    before = gateway.counted()
    assert gateway.ask(host=host, content_encoding=coding) in (404, 415)
    added(gateway, 1, 13, 1, 0)
    assert gateway.counted()[0] == before[0] + 1


@pytest.mark.parametrize("tags", [True, False])
def test_a_connection_too_many_is_counted_under_the_name_that_is_asked_for(place: tuple[str, int], tmp_path: Path, tags: bool) -> None:
    """Istio's bootstrap takes no default tags out of names (tools/packaging/common/envoy_bootstrap.json), Envoy's own does."""
    port, admin = free_port(), free_port()
    config = configuration(port, filters("500/s", "1000000/s", 1, answer=1), place, free_port(), admin)
    config["stats_config"] = {**config.get("stats_config", {}), "use_all_default_tags": tags}
    door = next(each.body for each in mesh.manifests(hosts=["a.example.com"], certificate=None, region="us-west-2") if each.role == "door")
    (limit,) = (p["patch"]["value"] for p in door["spec"]["configPatches"] if "connection_limit" in p["patch"]["value"].get("name", ""))
    config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"].insert(
        0, {**limit, "typed_config": {**limit["typed_config"], "max_connections": 1}}
    )
    (asked,) = re.findall(r'__name__=~"([^"]+)"', MEASURES["gateway_closed"].query)
    with envoy(tmp_path, config, port), ExitStack() as open_at_once:
        for _ in range(3):
            open_at_once.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
        counted = re.compile(rf"^{asked}{{[^}}]*}} [1-9]", re.MULTILINE)
        eventually(lambda: counted.search(EnvoyAdmin(admin).get("/stats/prometheus")), within=30)


def test_a_full_proxy_shows_it_under_the_name_that_is_asked_for(place: tuple[str, int], tmp_path: Path) -> None:
    port, admin = free_port(), free_port()
    config = configuration(port, filters("500/s", "1000000/s", 1, answer=1), place, free_port(), admin)
    asked = re.findall(r"envoy_overload_\w+", MEASURES["gateway_overloaded"].query)
    with envoy(tmp_path, config, port, override=gateway_memory.bootstrap(heap=2**20)):
        full = re.compile(rf"^{asked[0]}{{}} 1$", re.MULTILINE)
        eventually(lambda: full.search(EnvoyAdmin(admin).measured()), within=30)
