"""The endpoint picker beside a real Envoy that is configured as istiod does for an InferencePool: each prompt reaches the engine that was picked.

What istiod writes: a filter that skips everything, its settings for each route (pilot/pkg/networking/core/route/route.go), and a cluster whose
balancer takes the host from metadata, by turns if there is none (cluster_builder.go, `applyOverrideHostPolicy`); Istio 1.31.
"""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from time import monotonic, sleep
from typing import Any

import pytest

from headway.endpoint_picker.exchange import DESTINATION, NAMESPACE
from headway.endpoint_picker.server import started
from headway.endpoint_picker.tracking import Tracked
from sandbox.traffic.mesh import clusters
from tests.loopback import Handler, served
from tests.traffic.proxied import envoy, free_port

ENGINES = 3
TYPES = "type.googleapis.com/envoy."
OPENING = "You answer questions about one machine. " * 200


class Engine(Handler):
    """Says which engine it is and how long the body was; as a stream if asked for one."""

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
        said = {"engine": "{}:{}".format(*self.connection.getsockname()), "bytes": len(body), "picked": self.headers.get(DESTINATION)}
        if not asked.get("stream"):
            self.reply(200, said, content_type="application/json")
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

    pool: Tracked = field(default_factory=lambda: Tracked(16))
    port: int = 0
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    end: asyncio.Event = field(default_factory=asyncio.Event)

    def __enter__(self) -> "Picker":
        listening = threading.Event()

        async def run() -> None:
            server, self.port = await started(self.pool, monotonic, "127.0.0.1:0")
            listening.set()
            await self.end.wait()
            await server.stop(None)

        self._thread = threading.Thread(target=lambda: self.loop.run_until_complete(run()), daemon=True)
        self._thread.start()
        assert listening.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.end.set)
        self._thread.join(60)

    def endpoints(self, addresses: list[str]) -> None:
        done = threading.Event()
        self.loop.call_soon_threadsafe(lambda: (self.pool.endpoints(dict.fromkeys(addresses, 100_000)), done.set()))
        assert done.wait(60)

    def idle(self) -> bool:
        until = monotonic() + 30
        while not self.pool.idle() and monotonic() < until:
            sleep(0.05)
        return self.pool.idle()


def configuration(port: int, picker: int, engines: list[str]) -> dict[str, Any]:
    overrides = {
        "failure_mode_allow": False,
        "grpc_service": {"envoy_grpc": {"cluster_name": "picker"}},
        "processing_mode": {
            **{f"{side}_{part}_mode": "SEND" for side in ("request", "response") for part in ("header", "trailer")},
            **{f"{side}_body_mode": "FULL_DUPLEX_STREAMED" for side in ("request", "response")},
        },
    }
    filters: list[dict[str, Any]] = [
        {
            "name": "envoy.filters.http.ext_proc",
            "typed_config": {
                "@type": f"{TYPES}extensions.filters.http.ext_proc.v3.ExternalProcessor",
                "grpc_service": {"envoy_grpc": {"cluster_name": "dummy"}, "timeout": "10s"},
                "failure_mode_allow": True,
                "processing_mode": {"request_header_mode": "SKIP", "response_header_mode": "SKIP"},
                "message_timeout": "1000s",
                "metadata_options": {each: {"untyped": [NAMESPACE]} for each in ("receiving_namespaces", "forwarding_namespaces")},
            },
        },
        {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{TYPES}extensions.filters.http.router.v3.Router"}},
    ]
    route = {
        "match": {"prefix": "/"},
        "route": {"cluster": "engines", "timeout": "0s"},
        "typed_per_filter_config": {
            "envoy.filters.http.ext_proc": {
                "@type": f"{TYPES}extensions.filters.http.ext_proc.v3.ExtProcPerRoute",
                "overrides": overrides,
            }
        },
    }
    manager = {
        "@type": f"{TYPES}extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "gateway",
        "http_filters": filters,
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
    }
    by_turns = {"name": "by-turns", "typed_config": {"@type": f"{TYPES}extensions.load_balancing_policies.round_robin.v3.RoundRobin"}}
    from_metadata = {
        "@type": f"{TYPES}extensions.load_balancing_policies.override_host.v3.OverrideHost",
        "override_host_sources": [{"metadata": {"key": NAMESPACE, "path": [{"key": DESTINATION}]}}],
        "fallback_policy": {"policies": [{"typed_extension_config": by_turns}]},
    }
    hosts = [{"endpoint": {"address": clusters.address("127.0.0.1", int(each.rpartition(":")[2]))}} for each in engines]
    pool = {
        "name": "engines",
        "type": "STATIC",
        "lb_policy": "CLUSTER_PROVIDED",
        "load_balancing_policy": {"policies": [{"typed_extension_config": {"name": "picked", "typed_config": from_metadata}}]},
        "load_assignment": {"cluster_name": "engines", "endpoints": [{"lb_endpoints": hosts}]},
    }
    listener = {
        "name": "gateway",
        "address": clusters.address("127.0.0.1", port),
        "filter_chains": [{"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}],
    }
    return {
        "static_resources": {
            "listeners": [listener],
            "clusters": [pool, clusters.inbound("picker", ("127.0.0.1", picker), {}, grpc=True)],
        }
    }


@dataclass(frozen=True)
class Bed:
    port: int
    picker: Picker
    engines: list[str]

    def ask(self, method: str = "POST", **asked: Any) -> tuple[int, dict[str, Any]]:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, "/v1/completions", json.dumps(asked) if method == "POST" else None)
            answer = connection.getresponse()
            body = answer.read()
            return answer.status, json.loads(body.partition(b"data:")[0]) if body[:1] == b"{" else {}


@pytest.fixture(scope="module")
def started_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with ExitStack() as stack:
        engines = [stack.enter_context(served(Engine)).removeprefix("http://") for _ in range(ENGINES)]
        picker, port = stack.enter_context(Picker()), free_port()
        stack.enter_context(envoy(tmp_path_factory.mktemp("proxy"), configuration(port, picker.port, engines), port))
        yield Bed(port, picker, engines)


@pytest.fixture
def bed(started_bed: Bed) -> Bed:
    started_bed.picker.endpoints([])
    started_bed.picker.endpoints(started_bed.engines)
    return started_bed


def test_a_conversation_reaches_the_engine_that_holds_it(bed: Bed) -> None:
    first = {number: bed.ask(prompt=f"{number} {OPENING}")[1]["engine"] for number in range(9)}
    assert set(first.values()) == set(bed.engines)
    again = {number: bed.ask(prompt=f"{number} {OPENING} and then?")[1]["engine"] for number in reversed(range(9))}
    assert again == first
    assert bed.picker.idle()


def test_the_engine_is_told_that_it_was_picked(bed: Bed) -> None:
    for _ in range(5):
        status, said = bed.ask(prompt="a")
        assert (status, said["picked"]) == (200, said["engine"])


@pytest.mark.parametrize("length", [1, 65_536, 65_537, 300_000])
def test_a_body_arrives_as_it_was_sent(bed: Bed, length: int) -> None:
    sent = len(json.dumps({"prompt": "x" * length}))
    assert bed.ask(prompt="x" * length)[1]["bytes"] == sent


def test_a_request_without_a_body_is_picked_for_too(bed: Bed) -> None:
    assert bed.ask("GET")[0] == 200


def test_a_stream_passes_as_it_comes_and_counts_until_it_ends(bed: Bed) -> None:
    with closing(HTTPConnection("127.0.0.1", bed.port, timeout=60)) as connection:
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "stream": 4, "pause": 1}))
        answer, began = connection.getresponse(), monotonic()
        assert answer.read(1) == b"{"
        assert monotonic() - began < 3
        assert not bed.picker.pool.idle()
        assert answer.read().count(b"data:") == 4
    assert bed.picker.idle()


def test_a_caller_who_leaves_is_no_longer_counted(bed: Bed) -> None:
    with closing(HTTPConnection("127.0.0.1", bed.port, timeout=60)) as connection:
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "stream": 300, "pause": 0.2}))
        assert connection.getresponse().read(1) == b"{"
        assert not bed.picker.pool.idle()
    assert bed.picker.idle()


def test_a_pool_without_endpoints_is_unavailable(bed: Bed) -> None:
    bed.picker.endpoints([])
    assert bed.ask(prompt="a")[0] == 503


def test_without_its_picker_nothing_is_answered(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> None:
    port = free_port()
    with envoy(tmp_path_factory.mktemp("proxy"), configuration(port, free_port(), bed.engines), port):
        assert Bed(port, bed.picker, bed.engines).ask(prompt="a")[0] >= 500
