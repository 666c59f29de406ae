"""A request to a service without a replica, through a real Envoy with the gateway's filters and the room in which it waits."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from socket import create_connection
from threading import Event, Thread
from time import monotonic, sleep, time

import pytest

from components.addons import gateway_memory
from components.model_service.activation import HELD_BYTES
from components.model_service.manifests import ServicePlan
from components.platform import mesh
from headway.activator.serving import holding
from headway.activator.waiting import MOST_OF_A_SERVICE, Service, WaitingRoom
from headway.listening import listening
from headway.signals import Scope, Source
from sandbox.traffic.mesh import envoy_configuration, listeners
from sandbox.traffic.mesh.telemetry import labels_of
from sandbox.traffic.mesh.tokens import TokenIssuers
from sandbox.traffic.pod_addresses import loopback
from tests.components.contracts import MODELS, SURROUNDINGS, changed, service, tenant
from tests.loopback import Handler, served
from tests.traffic import proxied
from tests.traffic.static_configuration import static

SLEEPING, AWAKE = "defects-slice", "defects"
ADDRESSES = {SLEEPING: "10.191.8.1", AWAKE: "10.191.8.2"}
ISSUER = tenant("vision").issuers[0]
HEAP = gateway_memory.HEAP // 2
"""There are two rooms."""


class Server(Handler):
    """Says how long the body was that it got."""

    def do_POST(self) -> None:
        self.reply(200, str(len(self.body())))


@dataclass
class Gateway:
    port: int
    issuers: TokenIssuers
    there: Event
    """Whether the sleeping service has a replica."""
    asked: list[Service]
    """Looks of the activator."""
    room: WaitingRoom
    log: Path

    def connection(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=60)

    def headers(self, model: str, *, token: bool = True) -> dict[str, str]:
        signed = self.issuers.token(ISSUER.issuer, ISSUER.audiences, "somebody", now=time(), seconds=600, claims={})
        return {"host": f"{model}.vision.{SURROUNDINGS.hosts[0]}", **({"authorization": f"Bearer {signed}"} if token else {})}

    def ask(self, model: str, body: bytes = b"{}", *, token: bool = True, kind: str = "application/json") -> tuple[int, bytes]:
        with closing(self.connection()) as connection:
            connection.request("POST", "/v2/models/x/infer", body, {**self.headers(model, token=token), "content-type": kind})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def counted(self) -> dict[str, str]:
        """The labels of the first request, as the proxy counts it."""
        until = monotonic() + 60
        while not (lines := [each for each in self.log.read_text(encoding="utf-8").splitlines() if '"at":"source"' in each]):
            assert monotonic() < until
            sleep(0.02)
        told = json.loads(lines[0])
        return {**(labels_of(told) or {}), "response_code": str(told["code"])}

    def await_waiting(self, *, some: bool) -> None:
        until = monotonic() + 60
        while self.room.empty is some:
            assert monotonic() < until
            sleep(0.02)


def plans() -> list[ServicePlan]:
    found = list[ServicePlan]()
    for name, fewest in ((SLEEPING, 0), (AWAKE, 1)):
        model = changed(MODELS[name].model_dump(mode="json", exclude_none=True), batch=None, scaling__min_replicas=fewest)
        found.append(ServicePlan.of("vision", model, service(name).pool, SURROUNDINGS, fallback=service(name).fallback))
    return found


@pytest.fixture
def gateway(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway before two services, of which one may have no replica; with `away`, before no activator."""
    folder, snapshot = tmp_path_factory.mktemp("activation"), proxied.behind_gateway(plans(), [[ip] for ip in ADDRESSES.values()])
    issuers, there, asked = TokenIssuers(folder / "issuers"), Event(), list[Service]()

    def serves(one: Service) -> bool:
        asked.append(one)
        return there.is_set()

    room = WaitingRoom(serves, monotonic, lambda seconds: sleep(seconds / 50))
    with ExitStack() as stack:
        port = proxied.free_port()
        activator = stack.enter_context(listening("127.0.0.1", 0, holding(room), consequence="", remedy=""))
        if hasattr(request, "param"):
            activator = {"closed": proxied.free_port(), "unknown": None}[request.param]
        ports = listeners.ListenerPorts(gateway={80: port}, mesh={}, log=str(folder / "log"), activator=activator)
        found = envoy_configuration.compile_(snapshot, ports, str(folder), {ISSUER.issuer: issuers.keys(ISSUER.issuer)})
        for ip in ADDRESSES.values():
            stack.enter_context(served(Server, 8000, loopback(ip)))
        stack.enter_context(proxied.envoy(folder, static(found, logs=True), port, gateway_memory.bootstrap(HEAP)))
        yield Gateway(port=port, issuers=issuers, there=there, asked=asked, room=room, log=folder / "log")


def picked(labels: Mapping[str, str], matchers: str) -> bool:
    """Whether Prometheus takes a series of these labels for one that the matchers are about."""
    ways = {"=": str.__eq__, "=~": lambda value, by: bool(re.fullmatch(by, value)), "!~": lambda value, by: not re.fullmatch(by, value)}
    return all(ways[how](labels.get(name, ""), by) for name, how, by in re.findall(r'(\w+)(=~|!~|=)"([^"]*)"', matchers))


def test_a_request_is_held_until_there_is_a_replica_and_arrives_whole(gateway: Gateway) -> None:
    answers = list[tuple[int, bytes]]()
    asking = Thread(target=lambda: answers.append(gateway.ask(SLEEPING, b"x" * 300_000)))
    asking.start()
    gateway.await_waiting(some=True)
    assert answers == []
    gateway.there.set()
    asking.join(60)
    assert answers == [(200, b"300000")]
    assert set(gateway.asked) == {Service("vision", SLEEPING)}


def test_a_large_request_is_held_for_longer_than_a_slow_one_may_take(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Until it has arrived whole, Envoy counts the time: its buffers must take what a contract allows."""
    monkeypatch.setattr(mesh, "REQUEST_SECONDS", 1)
    gateway: Gateway = request.getfixturevalue("gateway")
    answers = list[tuple[int, bytes]]()
    asking = Thread(target=lambda: answers.append(gateway.ask(SLEEPING, b"x" * 5_000_000)))
    asking.start()
    gateway.await_waiting(some=True)
    sleep(3)
    assert answers == []
    gateway.there.set()
    asking.join(60)
    assert answers == [(200, b"5000000")]


def test_requests_that_wait_leave_the_gateways_memory_to_others(gateway: Gateway) -> None:
    """By HTTP/1.1, of whose requests Envoy ends none for the memory that it holds."""
    head = "".join(f"{name}: {value}\r\n" for name, value in gateway.headers(SLEEPING).items())
    asked = f"POST /v2/models/x/infer HTTP/1.1\r\n{head}content-length: {HELD_BYTES}\r\n\r\n".encode() + b" " * HELD_BYTES
    with ExitStack() as stack:
        answer: tuple[int, bytes] | None = None
        for _ in range(MOST_OF_A_SERVICE):
            with suppress(OSError):  # as of a proxy whose memory is full
                stack.enter_context(create_connection(("127.0.0.1", gateway.port), timeout=0.5)).sendall(asked)
        gateway.await_waiting(some=True)
        with suppress(OSError):
            answer = gateway.ask(AWAKE)
        assert answer == (200, b"2")


def test_a_service_that_serves_is_asked_at_once(gateway: Gateway) -> None:
    gateway.there.set()
    assert gateway.ask(SLEEPING) == (200, b"2")


def test_nobody_asks_about_a_service_that_always_has_a_replica(gateway: Gateway) -> None:
    assert gateway.ask(AWAKE) == (200, b"2")
    assert gateway.asked == []


@pytest.mark.parametrize(("kind", "status"), [("application/json", 403), ("application/grpc", 200)])
@pytest.mark.parametrize("forged", [False, True])
def test_a_request_without_a_token_neither_waits_nor_brings_a_replica(gateway: Gateway, kind: str, status: int, forged: bool) -> None:
    of_service = Scope(tenant="vision", model=SLEEPING).matchers(Source.MESH)
    if forged:
        gateway.issuers = TokenIssuers(gateway.log.parent / "others")
        status = 401 if status == 403 else status
    assert gateway.ask(SLEEPING, token=forged, kind=kind)[0] == status
    assert gateway.asked == []
    refused = gateway.counted()
    assert refused["destination_service_name"].startswith(SLEEPING), "the proxy counts it as one of the service"
    assert not picked(refused, of_service), "as a scaler asks"


def test_a_request_that_nobody_answers_brings_a_replica(gateway: Gateway) -> None:
    gateway.there.set()
    assert gateway.ask(SLEEPING) == (200, b"2")
    answered = gateway.counted()
    of_service = Scope(tenant="vision", model=SLEEPING).matchers(Source.MESH)
    assert picked(answered, of_service) and picked({**answered, "response_code": "503"}, of_service)


def test_a_caller_who_leaves_no_longer_waits(gateway: Gateway) -> None:
    with closing(gateway.connection()) as connection:
        connection.request("POST", "/v2/models/x/infer", b"{}", gateway.headers(SLEEPING))
        gateway.await_waiting(some=True)
    gateway.await_waiting(some=False)


@pytest.mark.parametrize("gateway", ["closed", "unknown"], indirect=True)
def test_without_an_activator_requests_pass_at_once(gateway: Gateway) -> None:
    assert gateway.ask(SLEEPING) == (200, b"2")
