"""Which requests are asked again, and how long a client may take, through a real Envoy: the gateway, and the proxies of two replicas of
which one has lost its server.

The server behind the other is a stand-in that answers, refuses or breaks off as the path tells it, and counts what it is asked.
"""

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from time import time
from typing import Any, ClassVar

import grpc
import pytest

from components.model_service.manifests import ServicePlan
from components.model_service.routing import UNREACHED_HEADER
from components.platform import mesh
from sandbox.traffic.mesh import envoy_configuration, listeners
from sandbox.traffic.mesh.tokens import TokenIssuers
from sandbox.traffic.pod_addresses import loopback
from tests.components.contracts import MODELS, SURROUNDINGS, changed, tenant
from tests.components.contracts import service as sample
from tests.loopback import Handler, served
from tests.traffic import proxied
from tests.traffic.static_configuration import static

MODEL, LONE = "defects", "defects-slice"
"""Two replicas, one of them without a server; and one replica, without a server."""
LIVING, DEAD, ALONE = (f"10.191.{os.getpid() % 200 + 20}.{number}" for number in (1, 2, 3))
ISSUER = tenant("vision").issuers[0]
METHOD = "/inference.GRPCInferenceService/ServerLive"
SHORT_SECONDS = 2
"""Instead of the minutes that a client may take."""
CONNECTIONS = 40
"""Instead of thousands."""


class Server(Handler):
    """Answers with the status at the end of the path; `break` ends the connection instead."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.asked.append(self.path)
        self.body()
        if self.path.endswith("break"):
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.reply(int(self.path.rsplit("/", 1)[1]))


@dataclass(frozen=True, kw_only=True)
class Door:
    """The gateway before both models."""

    port: int
    token: str

    def head(self, model: str = MODEL) -> dict[str, str]:
        return {"host": f"{model}.vision.{SURROUNDINGS.hosts[0]}", "authorization": f"Bearer {self.token}"}

    def ask(self, path: str, model: str = MODEL, **headers: str) -> tuple[int, str | None]:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request("POST", f"/v2/models/{path}", b"{}", {**self.head(model), **headers})
            found = connection.getresponse()
            found.read()
            return found.status, found.getheader(UNREACHED_HEADER)

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)


def services() -> list[ServicePlan]:
    found: list[ServicePlan] = []
    for name in (MODEL, LONE):
        contract = MODELS[name].model_dump(mode="json", exclude_none=True)
        given = changed(contract, batch=None, envelope__largest_request__timeout="60s", health__drain="60s")
        found.append(ServicePlan.of("vision", given, sample(name).pool, SURROUNDINGS, fallback=sample(name).fallback))
    return found


def compiled(folder: Any, port: int, issuers: TokenIssuers) -> envoy_configuration.EnvoyConfiguration:
    made = proxied.behind_gateway(services(), ((LIVING, DEAD), (ALONE,)))
    ports = listeners.ListenerPorts(gateway={80: port}, mesh={}, log="/dev/null")
    return envoy_configuration.compile_(made, ports, str(folder), {ISSUER.issuer: issuers.keys(ISSUER.issuer)})


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder, port = tmp_path_factory.mktemp("door"), proxied.free_port()
    issuers = TokenIssuers(folder / "issuers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mesh, "REQUEST_SECONDS", SHORT_SECONDS)
        patch.setattr(mesh, "UNUSED_SECONDS", SHORT_SECONDS)
        patch.setattr(mesh, "CONNECTIONS", CONNECTIONS)
        found = compiled(folder, port, issuers)
    with ExitStack() as stack:
        stack.enter_context(served(Server, 8000, loopback(LIVING)))
        remote = grpc.server(ThreadPoolExecutor(2))
        live = grpc.unary_unary_rpc_method_handler(lambda request, _: request)
        remote.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("inference.GRPCInferenceService", {"ServerLive": live}),))
        remote.add_insecure_port(f"{loopback(LIVING)}:8001")
        remote.start()
        stack.callback(remote.stop, None)
        stack.enter_context(proxied.envoy(folder, static(found), port))
        token = issuers.token(ISSUER.issuer, ISSUER.audiences, "somebody", now=time(), seconds=3600, claims={"priority": "normal"})
        yield Door(port=port, token=token)


def test_a_request_that_never_reached_a_dead_server_is_answered_by_another(door: Door) -> None:
    assert [door.ask("200") for _ in range(12)] == [(200, None)] * 12


def test_so_is_one_by_grpc(door: Door) -> None:
    host = door.head()["host"]
    with grpc.insecure_channel(f"127.0.0.1:{door.port}", options=[("grpc.default_authority", host)]) as channel:
        call = channel.unary_unary(METHOD)
        answers = [call(b"\x08\x01", metadata=(("authorization", f"Bearer {door.token}"),), timeout=60) for _ in range(12)]
    assert answers == [b"\x08\x01"] * 12


@pytest.mark.parametrize(("path", "status"), [("503", 503), ("500", 500), ("break", 503)])
def test_what_a_server_has_seen_is_asked_once_whatever_became_of_it(door: Door, path: str, status: int) -> None:
    """A full server would be asked more for being full, and a request that kills its server taken to the next one."""
    Server.asked.clear()
    assert door.ask(f"own/versions/{path}")[0] == status
    assert Server.asked == [f"/v2/models/own/versions/{path}"]


def test_where_no_server_is_left_the_caller_is_told_that_none_has_seen_it(door: Door) -> None:
    assert door.ask("200", LONE) == (503, "true")


def test_a_client_cannot_have_other_answers_asked_again(door: Door) -> None:
    Server.asked.clear()
    asking = {"x-envoy-retriable-header-names": "content-length", "x-envoy-retry-on": "5xx", "x-envoy-max-retries": "9"}
    assert door.ask("own/versions/500", **asking)[0] == 500
    assert Server.asked == ["/v2/models/own/versions/500"]


def head(door: Door, **headers: str) -> bytes:
    lines = ["POST /v2/models/200 HTTP/1.1", *(f"{name}: {value}" for name, value in {**door.head(), **headers}.items()), "", ""]
    return "\r\n".join(lines).encode()


def test_a_client_that_dribbles_its_body_is_cut_off_in_time(door: Door) -> None:
    with door.connected() as client:
        client.sendall(head(door, **{"content-length": "100000"}))
        client.settimeout(0.2)
        told = b""
        while not told:
            client.sendall(b" ")
            try:
                told = client.recv(1024)
            except TimeoutError:
                continue
    assert told.startswith(b"HTTP/1.1 408 ")


def test_headers_beyond_any_use_are_refused(door: Door) -> None:
    with door.connected() as client:
        client.sendall(head(door, **{"content-length": "0", "x-large": "a" * (40 * 1024)}))
        assert client.recv(1024).startswith(b"HTTP/1.1 431 ")


def test_a_connection_that_carries_nothing_is_closed(door: Door) -> None:
    with door.connected() as client:
        assert client.recv(1) == b""


def test_connections_beyond_what_a_proxy_can_hold_are_closed_and_others_go_on(door: Door) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(door.connected()) for _ in range(2 * CONNECTIONS)]
        answered = 0
        for client in clients:
            with suppress(OSError):
                client.sendall(head(door, **{"content-length": "0"}))
                answered += client.recv(1024).startswith(b"HTTP/1.1 200 ")
    assert 0 < answered <= CONNECTIONS
