"""The endpoint picker behind a real Envoy with the gateway's filters and two versions of a language model: each prompt reaches the engine that was
picked among those of the version that the route chose, and nobody's request depends on the picker.
"""

import asyncio
import json
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any

import grpc
import pytest

from components.model_service.manifests import ServicePlan
from components.model_service.release import Release
from headway.contract.units import Share
from headway.endpoint_picker.exchange import NONE, PICKED
from headway.endpoint_picker.server import SERVICE, PickerState, started
from headway.endpoint_picker.tracking import EngineFacts, Tracked
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficSplit
from headway.wire import PICKED_HEADER, RELEASE_HEADER
from sandbox.traffic.mesh import envoy_configuration, listeners
from sandbox.traffic.mesh.snapshot import INBOUND_OFFSET
from sandbox.traffic.mesh.tokens import TokenIssuers
from sandbox.traffic.pod_addresses import loopback
from tests.components.contracts import CHAT, SURROUNDINGS, changed, pool_of, tenant
from tests.loopback import Handler, served
from tests.traffic import proxied
from tests.traffic.static_configuration import static

ISSUER = tenant("assist").issuers[0]
STABLE, CANARY = ("10.191.9.1", "10.191.9.2", "10.191.9.3"), ("10.191.9.4", "10.191.9.5")
OPENING = "You answer questions about one machine. " * 200


def endpoint(ip: str) -> str:
    """By which the gateway's proxy knows a replica: its own proxy."""
    return f"{loopback(ip)}:{8000 + INBOUND_OFFSET}"


class Engine(Handler):
    """Says which engine it is, how long the body was and whether it was told of a picker; as a stream if asked for one."""

    protocol_version = "HTTP/1.1"

    def body(self) -> bytes:
        """Envoy sends in chunks what it is handed in pieces."""
        if self.headers.get("transfer-encoding") != "chunked":
            return super().body()
        whole = b""
        while length := int(self.rfile.readline(), 16):
            whole += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def do_POST(self) -> None:
        body = self.body()
        asked = json.loads(body) if body[:1] == b"{" else {}
        ip = self.connection.getsockname()[0]
        said = {"engine": f"{ip}:{8000 + INBOUND_OFFSET}", "bytes": len(body)}
        if not asked.get("stream"):
            self.reply(500 if asked.get("broken") == ip else 200, said, content_type="application/json")
            return
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        with suppress(OSError):
            for text in [json.dumps(said).encode()] + [b"data: a\n\n"] * asked["stream"] + [b""]:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
                self.wfile.flush()
                sleep(asked.get("pause", 0))

    def do_GET(self) -> None:
        self.do_POST()


@dataclass
class Picker:
    """Its server, in a loop of its own."""

    state: PickerState = field(default_factory=lambda: PickerState(monotonic, Tracked(16)))
    port: int = 0
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    end: asyncio.Event = field(default_factory=asyncio.Event)
    stall: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Picker":
        listening = threading.Event()

        async def run() -> None:
            server, self.port = await started(self.state, "127.0.0.1:0")
            listening.set()
            await self.end.wait()
            await server.stop(None)

        self._thread = threading.Thread(target=lambda: self.loop.run_until_complete(run()), daemon=True)
        self._thread.start()
        assert listening.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.end.set)
        self._thread.join(60)

    def endpoints(self, there: Mapping[str, str]) -> None:
        """Address and pool of each."""
        done, facts = threading.Event(), {address: EngineFacts(pool, 100_000) for address, pool in there.items()}
        self.loop.call_soon_threadsafe(lambda: (self.state.pool.endpoints(facts), done.set()))
        assert done.wait(60)

    def hang(self, seconds: float) -> None:
        """Do nothing at all for so long."""
        self.loop.call_soon_threadsafe(sleep, seconds)

    def idle(self) -> bool:
        until = monotonic() + 30
        while not self.state.pool.idle() and monotonic() < until:
            sleep(0.05)
        return self.state.pool.idle()


def release(**changes: Any) -> Release:
    return Release(
        model=changed(CHAT, routing="endpoint_picker", degradation__fallback=None, envelope__largest_request__body="8Mi", **changes)
    )


R1, R2 = release(), release(runtime__data_type="float16")


def plan(canary: int) -> ServicePlan:
    arms = (
        TrafficArm(role=ArmRole.STABLE, release=R1.id, weight=Share.parse(f"{100 - canary}%")),
        TrafficArm(role=ArmRole.CANARY, release=R2.id, weight=Share.parse(f"{canary}%")),
    )
    made = ServicePlan.of("assist", R1.model, pool_of(R1.model), SURROUNDINGS)
    return replace(made, releases={R1.id: R1, R2.id: R2}, traffic=TrafficSplit(arms=arms))


def pools() -> dict[str, str]:
    found = ((R1, STABLE), (R2, CANARY))
    return {endpoint(ip): f"chat-{one.id}.assist" for one, ips in found for ip in ips}


@dataclass(frozen=True)
class Bed:
    port: int
    picker: Picker
    issuers: TokenIssuers

    def headers(self, **more: str) -> dict[str, str]:
        signed = self.issuers.token(ISSUER.issuer, ISSUER.audiences, "somebody", now=time(), seconds=600, claims={})
        return {"host": f"chat.assist.{SURROUNDINGS.hosts[0]}", "authorization": f"Bearer {signed}", **more}

    def connection(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method: str = "POST", headers: Mapping[str, str] | None = None, **asked: Any) -> tuple[int, dict[str, Any]]:
        with closing(self.connection()) as connection:
            path, body = ("/v1/completions", json.dumps(asked)) if method == "POST" else ("/v1/models", None)
            connection.request(method, path, body, self.headers(**(headers or {})))
            answer = connection.getresponse()
            said = answer.read()
            found = json.loads(said.partition(b"data:")[0]) if said[:1] == b"{" else {"said": said}
            return answer.status, {**found, "headers": {name.lower(): value for name, value in answer.getheaders()}}

    def outcome(self, name: str) -> int:
        return self.picker.state.counts.outcomes[name]


class Gateway:
    """Envoy with the gateway's filters before both versions."""

    def __init__(self, folder: Path) -> None:
        self.issuers, self.folder = TokenIssuers(folder / "issuers"), folder

    def before(self, stack: ExitStack, picker: Picker, port_of_picker: int | None, canary: int = 20) -> Bed:
        made, port = plan(canary), proxied.free_port()
        snapshot = proxied.behind_gateway([made], [()], *proxied.arms(made, {R1.id: STABLE, R2.id: CANARY}))
        ports = listeners.ListenerPorts(gateway={80: port}, mesh={}, log="/dev/null", picker=port_of_picker)
        found = envoy_configuration.compile_(snapshot, ports, str(self.folder), {ISSUER.issuer: self.issuers.keys(ISSUER.issuer)})
        stack.enter_context(proxied.envoy(self.folder, static(found), port))
        return Bed(port, picker, self.issuers)


@pytest.fixture(scope="module")
def engines() -> Iterator[None]:
    with ExitStack() as stack:
        for ip in (*STABLE, *CANARY):
            stack.enter_context(served(Engine, 8000, loopback(ip)))
        yield


@pytest.fixture(scope="module")
def started_bed(engines: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with ExitStack() as stack:
        picker = stack.enter_context(Picker())
        yield Gateway(tmp_path_factory.mktemp("proxy")).before(stack, picker, picker.port)


@pytest.fixture
def bed(started_bed: Bed) -> Bed:
    assert started_bed.picker.idle()
    started_bed.picker.endpoints({})
    started_bed.picker.endpoints(pools())
    return started_bed


def test_weights_choose_the_version_and_the_picker_an_engine_of_it(bed: Bed) -> None:
    picked = bed.outcome(PICKED)
    said = [bed.ask(prompt=f"{number} {OPENING}")[1] for number in range(200)]
    assert {each["engine"] for each in said} == set(pools())
    for each in said:
        assert pools()[each["engine"]] == f"chat-{each['headers'][RELEASE_HEADER]}.assist"
    assert 20 <= Counter(each["headers"][RELEASE_HEADER] for each in said)[R2.id] <= 64
    assert bed.outcome(PICKED) - picked == 200
    assert bed.picker.idle()


def test_a_conversation_reaches_the_engine_that_holds_it_in_its_version(bed: Bed) -> None:
    first = dict[tuple[int, str], str]()
    for turn in range(12):
        for number in range(5):
            said = bed.ask(prompt=f"{number} {OPENING} {'and then? ' * turn}")[1]
            assert first.setdefault((number, said["headers"][RELEASE_HEADER]), said["engine"]) == said["engine"]
    assert len(set(first.values())) > 2


@pytest.mark.parametrize("there", [True, False])
def test_nobody_outside_names_an_engine_or_learns_of_one(bed: Bed, there: bool) -> None:
    if not there:
        bed.picker.endpoints({})
    named = b64encode(endpoint(STABLE[0]).encode()).decode()
    for method in ("POST", "GET"):
        found = [bed.ask(method, {PICKED_HEADER: named}, prompt=f"{number}") for number in range(30)]
        assert {status for status, _ in found} == {200}
        assert len({said["engine"] for _, said in found}) > 2
        assert not [said for _, said in found if PICKED_HEADER in said["headers"]]
    assert bed.picker.idle()


@pytest.mark.parametrize("length", [1, 65_536, 300_000, 3_000_000])
def test_a_body_arrives_as_it_was_sent(bed: Bed, length: int) -> None:
    sent = len(json.dumps({"prompt": "x" * length}))
    status, said = bed.ask(prompt="x" * length)
    assert (status, said["bytes"]) == (200, sent)


def test_a_stream_passes_as_it_comes_and_counts_until_it_ends(bed: Bed) -> None:
    with closing(bed.connection()) as connection:
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "stream": 4, "pause": 1}), bed.headers())
        answer, began = connection.getresponse(), monotonic()
        assert answer.read(1) == b"{"
        assert monotonic() - began < 3
        assert not bed.picker.state.pool.idle()
        assert answer.read().count(b"data:") == 4
    assert bed.picker.idle()


def test_a_caller_who_leaves_is_no_longer_counted(bed: Bed) -> None:
    with closing(bed.connection()) as connection:
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "stream": 300, "pause": 0.2}), bed.headers())
        assert connection.getresponse().read(1) == b"{"
        assert not bed.picker.state.pool.idle()
    assert bed.picker.idle()


def test_an_engine_that_the_version_does_not_have_is_never_reached(bed: Bed) -> None:
    bed.picker.endpoints({endpoint("10.191.9.9"): f"chat-{R1.id}.assist", endpoint(STABLE[0]): f"chat-{R2.id}.assist"})
    said = [bed.ask(prompt=f"{number}") for number in range(30)]
    assert {status for status, _ in said} == {200}
    assert all(pools()[each["engine"]] == f"chat-{each['headers'][RELEASE_HEADER]}.assist" for _, each in said)
    bed.picker.endpoints({})


def test_an_engine_that_was_ejected_is_left_out_though_it_is_picked(engines: None, bed: Bed, tmp_path: Path) -> None:
    with ExitStack() as stack:
        own = Gateway(tmp_path).before(stack, bed.picker, bed.picker.port, canary=0)
        bed.picker.endpoints({endpoint(STABLE[0]): f"chat-{R1.id}.assist"})
        answers = [own.ask(prompt="a", broken=loopback(STABLE[0])) for _ in range(20)]
        assert [status for status, _ in answers[:5]] == [500] * 5
        until = monotonic() + 30
        while own.ask(prompt="a", broken=loopback(STABLE[0]))[0] == 500:
            assert monotonic() < until
        assert {own.ask(prompt="a", broken=loopback(STABLE[0]))[0] for _ in range(10)} == {200}


@pytest.mark.parametrize("where", ["nowhere", "closed"])
def test_without_a_picker_requests_pass(engines: None, bed: Bed, tmp_path: Path, where: str) -> None:
    with ExitStack() as stack:
        own = Gateway(tmp_path).before(stack, bed.picker, {"nowhere": None, "closed": proxied.free_port()}[where])
        for size in (1, 300_000, 3_000_000) * 2:
            began = monotonic()
            assert own.ask(prompt="x" * size)[0] == 200
            assert monotonic() - began < 5


def test_a_picker_that_is_killed_loses_no_request_and_cuts_no_answer(engines: None, tmp_path: Path) -> None:
    with ExitStack() as stack:
        picker = stack.enter_context(Picker())
        bed = Gateway(tmp_path).before(stack, picker, picker.port)
        picker.endpoints(pools())
        streams = [stack.enter_context(closing(bed.connection())) for _ in range(5)]
        for connection in streams:
            connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "stream": 6, "pause": 0.3}), bed.headers())
        answers = [connection.getresponse() for connection in streams]
        assert [answer.read(1) for answer in answers] == [b"{"] * 5
        statuses = list[int]()
        asking = [threading.Thread(target=lambda: statuses.extend(bed.ask(prompt=OPENING)[0] for _ in range(40))) for _ in range(4)]
        for thread in asking:
            thread.start()
        sleep(0.2)
        picker.loop.call_soon_threadsafe(picker.end.set)
        for thread in asking:
            thread.join(120)
        assert [answer.read().count(b"data:") for answer in answers] == [6] * 5
        assert statuses == [200] * 160


def test_a_picker_that_hangs_is_waited_for_briefly(bed: Bed) -> None:
    bed.picker.hang(3)
    began = monotonic()
    assert [bed.ask(prompt=f"{number}")[0] for number in range(3)] == [200] * 3
    assert monotonic() - began < 2.5
    assert bed.picker.idle()


def test_a_version_without_an_endpoint_to_pick_from_is_left_to_the_proxy(bed: Bed) -> None:
    bed.picker.endpoints({})
    before = bed.outcome(NONE)
    assert {bed.ask(prompt="a")[0] for _ in range(10)} == {200}
    assert bed.outcome(NONE) - before == 10


def test_what_is_no_message_ends_one_request_alone(bed: Bed) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{bed.picker.port}") as channel:
        call = channel.stream_stream(f"/{SERVICE}/Process")(iter([b"\xff" * 10]))
        with pytest.raises(grpc.RpcError):
            list(call)
    assert bed.ask(prompt="a")[0] == 200
