"""The endpoint picker beside a real Envoy that is configured as istiod does for an InferencePool: each prompt reaches the engine that was picked.

What istiod writes: a filter that skips everything, its settings for each route (pilot/pkg/networking/core/route/route.go), and a cluster whose
balancer takes the host from metadata, by turns if there is none (cluster_builder.go, `applyOverrideHostPolicy`); Istio 1.31. Where a route divides
among pools by weight, it still has one picker.
"""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, IncompleteRead
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import grpc
import pytest

from headway.endpoint_picker.exchange import DESTINATION, ELSEWHERE, NAMESPACE, SERVED
from headway.endpoint_picker.messages import HealthCheckRequest, HealthCheckResponse
from headway.endpoint_picker.server import HEALTH, LIVENESS, NOT_SERVING, READINESS, SERVICE, SERVING, PickerState, ended, started
from headway.endpoint_picker.tracking import EngineFacts, Tracked
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
    """Its server, in a loop of its own. `grace`: how long answers in progress may last when it ends; None kills it."""

    grace: float | None = None
    state: PickerState = field(default_factory=lambda: PickerState(monotonic, Tracked(16)))
    port: int = 0
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    end: asyncio.Event = field(default_factory=asyncio.Event)

    def __enter__(self) -> "Picker":
        listening = threading.Event()

        async def run() -> None:
            server, self.port = await started(self.state, "127.0.0.1:0")
            listening.set()
            await self.end.wait()
            await (server.stop(None) if self.grace is None else ended(self.state, server, self.grace, 0))

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

    def idle(self) -> bool:
        until = monotonic() + 30
        while not self.state.pool.idle() and monotonic() < until:
            sleep(0.05)
        return self.state.pool.idle()


def cluster(name: str, engines: list[str]) -> dict[str, Any]:
    """A pool as istiod writes it."""
    by_turns = {"name": "by-turns", "typed_config": {"@type": f"{TYPES}extensions.load_balancing_policies.round_robin.v3.RoundRobin"}}
    from_metadata = {
        "@type": f"{TYPES}extensions.load_balancing_policies.override_host.v3.OverrideHost",
        "override_host_sources": [{"metadata": {"key": NAMESPACE, "path": [{"key": DESTINATION}]}}],
        "selected_host_key": {"key": NAMESPACE, "path": [{"key": SERVED}]},
        "fallback_policy": {"policies": [{"typed_extension_config": by_turns}]},
    }
    hosts = [{"endpoint": {"address": clusters.address("127.0.0.1", int(each.rpartition(":")[2]))}} for each in engines]
    return {
        "name": name,
        "type": "STATIC",
        "lb_policy": "CLUSTER_PROVIDED",
        "load_balancing_policy": {"policies": [{"typed_extension_config": {"name": "picked", "typed_config": from_metadata}}]},
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": hosts}]},
    }


def configuration(port: int, picker: int | None, pools: Mapping[str, tuple[int, list[str]]], *, fails_open: bool = False) -> dict[str, Any]:
    """`pools`: weight and engines of each. `picker`: its port; None where no picker is ready."""
    overrides = {
        "failure_mode_allow": fails_open,
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
        "route": {
            "weighted_clusters": {"clusters": [{"name": name, "weight": weight} for name, (weight, _) in pools.items()]},
            "timeout": "0s",
        },
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
    listener = {
        "name": "gateway",
        "address": clusters.address("127.0.0.1", port),
        "filter_chains": [{"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}],
    }
    asked = clusters.inbound("picker", ("127.0.0.1", picker or 1), {}, grpc=True)
    if picker is None:
        asked["load_assignment"]["endpoints"] = []
    return {
        "static_resources": {
            "listeners": [listener],
            "clusters": [*(cluster(name, engines) for name, (_, engines) in pools.items()), asked],
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
        stack.enter_context(envoy(tmp_path_factory.mktemp("proxy"), configuration(port, picker.port, {"r1": (100, engines)}), port))
        yield Bed(port, picker, engines)


@pytest.fixture
def bed(started_bed: Bed) -> Bed:
    started_bed.picker.endpoints({})
    started_bed.picker.endpoints(dict.fromkeys(started_bed.engines, "r1"))
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
        assert not bed.picker.state.pool.idle()
        assert answer.read().count(b"data:") == 4
    assert bed.picker.idle()


def test_a_caller_who_leaves_is_no_longer_counted(bed: Bed) -> None:
    with closing(HTTPConnection("127.0.0.1", bed.port, timeout=60)) as connection:
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "stream": 300, "pause": 0.2}))
        assert connection.getresponse().read(1) == b"{"
        assert not bed.picker.state.pool.idle()
    assert bed.picker.idle()


def test_a_pool_without_endpoints_is_unavailable(bed: Bed) -> None:
    bed.picker.endpoints({})
    assert bed.ask(prompt="a")[0] == 503


def test_pools_by_weight_get_their_shares_each_at_the_endpoint_that_was_picked(bed: Bed, tmp_path: Path) -> None:
    port, (canary, *stable) = free_port(), bed.engines
    bed.picker.endpoints({canary: "r2", **dict.fromkeys(stable, "r1")})
    elsewhere = bed.picker.state.counts.outcomes[ELSEWHERE]
    with envoy(tmp_path, configuration(port, bed.picker.port, {"r1": (75, stable), "r2": (25, [canary])}), port):
        weighed = Bed(port, bed.picker, bed.engines)
        said = [weighed.ask(prompt=f"{number} {OPENING}")[1] for number in range(120)]
        assert bed.picker.idle()
    assert 12 <= Counter(each["engine"] for each in said)[canary] <= 50
    assert all(each["engine"] in each["picked"].split(",") for each in said)
    assert bed.picker.state.counts.outcomes[ELSEWHERE] == elsewhere


def test_without_a_ready_picker_a_pool_answers_by_turns_if_it_says_so(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> None:
    for fails_open in (True, False):
        port, folder = free_port(), tmp_path_factory.mktemp("proxy")
        with envoy(folder, configuration(port, None, {"r1": (100, bed.engines)}, fails_open=fails_open), port):
            said = [Bed(port, bed.picker, bed.engines).ask(prompt="x" * size) for size in (1, 300_000) * 3]
        assert {status for status, _ in said} == ({200} if fails_open else {500})
        assert {each.get("engine") for _, each in said} == (set(bed.engines) if fails_open else {None})


@pytest.mark.parametrize(("grace", "whole"), [(30.0, True), (None, False)])
def test_a_picker_that_ends_lets_answers_end_and_one_that_is_killed_cuts_them(
    bed: Bed, tmp_path: Path, grace: float | None, whole: bool
) -> None:
    port = free_port()
    with ExitStack() as stack:
        picker = stack.enter_context(Picker(grace))
        picker.endpoints(dict.fromkeys(bed.engines, "r1"))
        stack.enter_context(envoy(tmp_path, configuration(port, picker.port, {"r1": (100, bed.engines)}, fails_open=True), port))
        connection = stack.enter_context(closing(HTTPConnection("127.0.0.1", port, timeout=60)))
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "stream": 6, "pause": 0.3}))
        answer = connection.getresponse()
        assert answer.read(1) == b"{"
        picker.loop.call_soon_threadsafe(picker.end.set)
        if whole:
            assert answer.read().count(b"data:") == 6
        else:
            with pytest.raises(IncompleteRead):
                answer.read()


def test_what_is_no_message_ends_one_request_alone(bed: Bed) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{bed.picker.port}") as channel:
        call = channel.stream_stream(f"/{SERVICE}/Process")(iter([b"\xff" * 10]))
        with pytest.raises(grpc.RpcError):
            list(call)
    assert bed.ask(prompt="a")[0] == 200


@pytest.mark.parametrize("service", ["", READINESS, SERVICE])
def test_a_picker_is_ready_once_it_knows_its_engines_and_until_it_ends(bed: Bed, service: str) -> None:
    def said(name: str) -> int:
        with grpc.insecure_channel(f"127.0.0.1:{bed.picker.port}") as channel:
            ask = channel.unary_unary(f"/{HEALTH}/Check", HealthCheckRequest.SerializeToString, HealthCheckResponse.FromString)
            return ask(HealthCheckRequest(service=name), timeout=30).status

    state = bed.picker.state
    assert (said(service), said(LIVENESS)) == (NOT_SERVING, SERVING)
    state.heard = True
    assert said(service) == SERVING
    state.ending = True
    assert (said(service), said(LIVENESS)) == (NOT_SERVING, SERVING)
    state.heard = state.ending = False
    with pytest.raises(grpc.RpcError):
        said("another")


def test_without_its_picker_nothing_is_answered(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> None:
    port = free_port()
    with envoy(tmp_path_factory.mktemp("proxy"), configuration(port, free_port(), {"r1": (100, bed.engines)}), port):
        assert Bed(port, bed.picker, bed.engines).ask(prompt="a")[0] >= 500
