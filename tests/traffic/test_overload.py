"""The ladder down, through a real Envoy: the gateway with its doors, the proxies of two replicas, and the routes that the program renders.

The servers behind are stand-ins that answer at once or when they are told to; tokens are signed by the sandbox's own issuer.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from http.client import HTTPConnection
from threading import Event, Thread
from time import monotonic, sleep, time

import pytest

from components.model_service.manifests import ServicePlan
from sandbox.traffic.mesh import envoy_configuration, listeners
from sandbox.traffic.mesh.tokens import TokenIssuers
from sandbox.traffic.pod_addresses import loopback
from tests.components.contracts import MODELS, SURROUNDINGS, changed, service, tenant
from tests.loopback import Handler, served
from tests.traffic import proxied
from tests.traffic.static_configuration import static

MODEL, FALLBACK = "defects-slice", "defects"
ADDRESSES = {MODEL: "10.191.7.1", FALLBACK: "10.191.7.2"}
ISSUER = tenant("vision").issuers[0]
HOLD_SECONDS = 1


class Server(Handler):
    """Answers at once; a request that says `wait` is answered when `released` is set."""

    protocol_version = "HTTP/1.1"
    waits: Event
    released: Event

    def do_POST(self) -> None:
        self.body()
        if self.path.endswith("wait"):
            self.waits.set()
            self.released.wait(60)
        self.reply(200)


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    degraded: bool
    retry_after: str | None


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """A gateway before a model and its fallback; one request at a time fills a replica of either."""

    port: int
    issuers: TokenIssuers
    servers: dict[str, type[Server]]

    def ask(self, priority: str, model: str = MODEL, path: str = "/v2/models/x", **headers: str) -> Answer:
        claims = {"priority": priority}
        token = self.issuers.token(ISSUER.issuer, ISSUER.audiences, "somebody", now=time(), seconds=600, claims=claims)
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            given = {"host": f"{model}.vision.{SURROUNDINGS.hosts[0]}", "authorization": f"Bearer {token}", **headers}
            connection.request("POST", path, b"{}", given)
            found = connection.getresponse()
            found.read()
            return Answer(status=found.status, degraded=found.getheader("x-degraded") == MODEL, retry_after=found.getheader("retry-after"))

    def await_answer(self, wanted: Answer, priority: str) -> None:
        until = monotonic() + 60
        while (found := self.ask(priority)) != wanted:
            assert monotonic() < until, found
            sleep(0.05)

    def fill(self, model: str) -> None:
        """Have the model's one replica busy until the test lets go."""
        server = self.servers[model]
        server.waits, server.released = Event(), Event()
        Thread(target=self.ask, args=("high", model, "/v2/models/wait"), daemon=True).start()
        assert server.waits.wait(60)

    def release(self) -> None:
        for server in self.servers.values():
            server.released.set()


def services() -> list[ServicePlan]:
    """Both services, with room for one request at a time on each replica."""
    found: list[ServicePlan] = []
    for name in (MODEL, FALLBACK):
        contract = MODELS[name].model_dump(mode="json", exclude_none=True)
        ladder = {"degradation__overload_at": 1, "degradation__retry_after": f"{HOLD_SECONDS}s"}
        model = changed(contract, batch=None, envelope__largest_request__timeout="60s", health__drain="60s", **ladder)
        found.append(ServicePlan.of("vision", model, service(name).pool, SURROUNDINGS, fallback=service(name).fallback))
    return found


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ladder]:
    folder = tmp_path_factory.mktemp("ladder")
    issuers = TokenIssuers(folder / "issuers")
    port = proxied.free_port()
    ports = listeners.ListenerPorts(gateway={80: port}, mesh={}, log="/dev/null")
    made = proxied.behind_gateway(services(), [[ip] for ip in ADDRESSES.values()])
    found = envoy_configuration.compile_(made, ports, str(folder), {ISSUER.issuer: issuers.keys(ISSUER.issuer)})
    servers: dict[str, type[Server]] = {name: type(name, (Server,), {"waits": Event(), "released": Event()}) for name in ADDRESSES}
    with ExitStack() as stack:
        for name, ip in ADDRESSES.items():
            stack.enter_context(served(servers[name], 8000, loopback(ip)))
        stack.enter_context(proxied.envoy(folder, static(found), port))
        yield Ladder(port=port, issuers=issuers, servers=servers)


SERVED = Answer(status=200, degraded=False, retry_after=None)
FELL_BACK = Answer(status=200, degraded=True, retry_after=None)
LATER = str(HOLD_SECONDS)


@pytest.fixture
def ladder(gateway: Ladder) -> Iterator[Ladder]:
    """Nothing is overloaded, and no overload is remembered."""
    for server in gateway.servers.values():
        server.released = Event()
    gateway.await_answer(SERVED, "normal")
    yield gateway
    gateway.release()


def test_while_there_is_room_every_priority_is_served_by_the_model(ladder: Ladder) -> None:
    assert [ladder.ask(priority) for priority in ("high", "normal", "low")] == [SERVED] * 3


def test_a_client_cannot_send_itself_to_the_fallback(ladder: Ladder) -> None:
    assert ladder.ask("normal", **{"x-degrade": MODEL, "x-request-priority": "normal"}) == SERVED


def test_a_full_model_answers_by_priority(ladder: Ladder) -> None:
    ladder.fill(MODEL)
    ladder.await_answer(FELL_BACK, "normal")
    assert ladder.ask("low") == Answer(status=429, degraded=False, retry_after=LATER)
    assert ladder.ask("high") == Answer(status=503, degraded=False, retry_after=LATER), "never sent to a lighter model"


def test_when_the_fallback_is_full_too_callers_are_told_to_come_back(ladder: Ladder) -> None:
    ladder.fill(FALLBACK)
    ladder.fill(MODEL)
    ladder.await_answer(Answer(status=429, degraded=True, retry_after=LATER), "normal")


def test_after_the_overload_the_model_takes_its_requests_back(ladder: Ladder) -> None:
    ladder.fill(MODEL)
    ladder.await_answer(FELL_BACK, "normal")
    ladder.release()
    ladder.await_answer(SERVED, "normal")
