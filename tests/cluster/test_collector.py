"""The collector's real pipelines, sent prompts, names and keys: what comes out says of a request how it went, and nothing of what was asked.

Runs where the collector has been built (`make collector`, minutes of CPU once); the configuration is the platform's, but for addresses.
"""

import http.server
import json
import socket
import subprocess
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from components.addons import node_logs, otel
from sandbox.cluster.toolchain import ensure_toolchain, is_built
from sandbox.layout import Layout
from sandbox.progress import Silent
from tests.cluster.conftest import PROJECT, eventually

LAYOUT = Layout.of(PROJECT)
pytestmark = pytest.mark.skipif(not is_built(LAYOUT, ("collector",)), reason="build the collector first: make collector")

ENVIRONMENT = {"MY_POD_IP": "127.0.0.1", "OTEL_K8S_NODE_NAME": "node"}
SAID = "my mother Anna has diabetes"
SECRETS = (SAID, "anna@example.com", "sk-live-0123456789abcdef", "4111 1111 1111 1111")
UPSTREAM = "outbound|8000||defects-r0123456789.vision.svc.cluster.local"
FAILED, SLOW, LINKED = (f"{number:032x}" for number in (1, 2, 3))
OTHERS = 1_000
MULTIPLIER = 0x9E3779B97F4A7C15
"""Spreads trace ids, by which the sampler draws lots."""


def text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


CONTENTS = [
    text("gen_ai.prompt", SAID),
    text("gen_ai.input.messages", json.dumps([{"content": SAID}])),
    text("http.url", f"https://models.test/?q={SECRETS[1]}"),
    text("http.request.header.authorization", f"Bearer {SECRETS[2]}"),
    text("user_agent", SECRETS[1]),
    text("request_id", SECRETS[1]),
    text("url.path", f"/v1/{SECRETS[1]}"),
    {"key": "gen_ai.request.model", "value": {"kvlistValue": {"values": [text("prompt", SAID)]}}},
    {"key": "route", "value": {"arrayValue": {"values": [{"stringValue": SECRETS[1]}, {"stringValue": f"prompt: {SAID}"}]}}},
]
"""Attributes that no server should set, under keys of its own and under those that pass."""


def span(trace: str, number: int, milliseconds: int = 10, **more: Any) -> dict[str, Any]:
    now = time.time_ns()
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "traceState": f"p={SECRETS[2]}",
        "name": f"chat {SECRETS[1]} defects word after word prompt: {SAID}",
        "kind": 2,
        "startTimeUnixNano": str(now - milliseconds * 1_000_000),
        "endTimeUnixNano": str(now),
        "attributes": [text("http.request.method", "POST"), text("upstream_cluster", UPSTREAM), *CONTENTS],
        "events": [{"name": f"token: {SECRETS[2]}", "timeUnixNano": str(now), "attributes": [text("exception.message", SAID)]}],
        **more,
    }


@dataclass
class Sink:
    """Where Loki and Tempo would be: keeps what it is sent, by kind."""

    port: int
    bodies: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def spans(self) -> list[dict[str, Any]]:
        return [s for body in self.bodies["traces"] for r in body["resourceSpans"] for scope in r["scopeSpans"] for s in scope["spans"]]

    @property
    def records(self) -> list[dict[str, Any]]:
        return [
            r for body in self.bodies["logs"] for each in body["resourceLogs"] for scope in each["scopeLogs"] for r in scope["logRecords"]
        ]


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            found.bodies[self.path.rpartition("/")[2]].append(body)
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Sink(server.server_address[1])
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield found
        server.shutdown()


def binary() -> Path:
    return ensure_toolchain(LAYOUT, Silent(), ("collector",)).binary("otelcol")


@pytest.fixture(scope="module")
def told(sink: Sink, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sink]:
    """What came out after a thousand and three traces and six lines of the log went in."""
    folder = tmp_path_factory.mktemp("collector")
    otlp, health, metrics = free_ports()
    exporter = {"endpoint": f"http://127.0.0.1:{sink.port}", "encoding": "json", "compression": "none"}
    local = {
        "extensions": {"health_check": {"endpoint": f"127.0.0.1:{health}"}},
        "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:0"}, "http": {"endpoint": f"127.0.0.1:{otlp}"}}}},
        "processors": {"batch": {"timeout": "100ms"}, "tail_sampling": {"decision_wait": "1s"}},
        "exporters": {"otlp_http": exporter, "otlp_http/traces": exporter},
        "service": {
            "telemetry": {"metrics": {"readers": [{"pull": {"exporter": {"prometheus": {"host": "127.0.0.1", "port": metrics}}}}]}},
            "pipelines": {"traces": {"exporters": ["otlp_http/traces"]}},
        },
    }
    arguments = [argument for name, body in (("platform", otel.config()), ("local", local)) for argument in file(folder, name, body)]
    with (folder / "log").open("w") as log, subprocess.Popen([binary(), *arguments], env=ENVIRONMENT, stderr=log) as process:
        try:
            eventually(lambda: process.poll() is not None or answers(f"http://127.0.0.1:{health}"), within=60)
            assert process.poll() is None, (folder / "log").read_text()
            _send(otlp)
            eventually(lambda: len(sink.records) >= len(BODIES) and {FAILED, SLOW} <= {s["traceId"] for s in sink.spans}, within=60)
            eventually(lambda: _decided(metrics) >= OTHERS + 2, within=60)
        finally:
            process.terminate()  # what was decided is sent on before it ends
    yield sink


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


def _decided(port: int) -> int:
    """Traces about which the sampler has decided."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    name = "otelcol_processor_tail_sampling_global_count_traces_sampled"
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith(name))


BODIES: tuple[dict[str, Any], ...] = (
    {"stringValue": "POST weights 200 - 12"},
    {"stringValue": json.dumps({"prompt": SAID})},
    {"stringValue": f"mail to {SECRETS[1]}, api_key={SECRETS[2]}"},
    {"stringValue": f"card {SECRETS[3]} of AKIAABCDEFGHIJKLMNOP"},
    {"kvlistValue": {"values": [text("prompt", SAID), text("route", "weights")]}},
    {"arrayValue": {"values": [{"stringValue": f"prompt: {SAID}"}]}},
)


def _send(port: int) -> None:
    spans = [
        span(FAILED, 1, status={"code": 2, "message": f"refused: {SAID}"}),
        span(SLOW, 2, milliseconds=otel.ALWAYS_KEPT_MILLISECONDS * 5),
        span(
            LINKED, 3, status={"code": 2}, links=[{"traceId": FAILED, "spanId": f"{9:016x}", "attributes": [text("gen_ai.prompt", SAID)]}]
        ),
        *(span(f"{(MULTIPLIER * n) % 2**64 | n << 64:032x}", 100 + n) for n in range(1, OTHERS + 1)),
    ]
    scope = {"name": "server", "attributes": [text("gen_ai.prompt", SAID)]}
    resource = {"attributes": [text("service.name", "gateway"), text("process.command_line", f"--prompt {SAID}")]}
    records = [
        {
            "timeUnixNano": str(time.time_ns()),
            "body": body,
            "attributes": [text("upstream", UPSTREAM), text("tenant", "claimed"), *CONTENTS],
        }
        for body in BODIES
    ]
    post(port, "traces", {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]})
    post(port, "logs", {"resourceLogs": [{"resource": {"attributes": []}, "scopeLogs": [{"scope": scope, "logRecords": records}]}]})


def post(port: int, kind: str, body: dict[str, Any]) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/{kind}", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200


def attributes(of: dict[str, Any]) -> dict[str, str]:
    return {each["key"]: each["value"].get("stringValue", "") for each in of["attributes"]}


def test_nothing_that_a_caller_said_comes_out(told: Sink) -> None:
    for kind, bodies in told.bodies.items():
        assert [secret for secret in (*SECRETS, "AKIAABCDEFGHIJKLMNOP") if secret in json.dumps(bodies)] == [], kind


def test_the_same_words_would_be_found_were_they_let_through() -> None:
    assert all(secret in json.dumps([span(SLOW, 1), BODIES]) for secret in SECRETS), "the check above could not fail"


def test_a_line_and_a_span_say_whose_request_it_was_by_its_upstream_and_not_by_its_caller(told: Sink) -> None:
    owner = {"tenant": "vision", "model": "defects", "release": "r0123456789"}
    for each in (*told.records, *told.spans):
        assert owner.items() <= attributes(each).items()


def test_what_describes_a_request_passes(told: Sink) -> None:
    assert told.records[0]["body"] == {"stringValue": "POST weights 200 - 12"}
    failed = next(s for s in told.spans if s["traceId"] == FAILED)
    assert attributes(failed)["http.request.method"] == "POST"
    assert failed["status"] == {"code": 2}, "that it failed, and not with which words"
    assert failed["name"] == "chat **** defects", "its first words, masked"


def test_every_trace_that_failed_or_was_slow_is_kept_and_a_share_of_the_others(told: Sink) -> None:
    kept = {s["traceId"] for s in told.spans}
    assert {FAILED, SLOW} <= kept
    # Six standard deviations of the draw among a thousand.
    assert abs(len(kept) - 2 - OTHERS * otel.SAMPLED_PERCENT / 100) < 42


def test_a_span_with_links_is_dropped_even_if_it_failed(told: Sink) -> None:
    assert LINKED not in {s["traceId"] for s in told.spans}


# As the chart's preset writes it (opentelemetry-collector 0.170.0, templates/_config.tpl).
OF_FILES = {
    "include": ["/var/log/pods/*/*/*.log"],
    "include_file_name": False,
    "include_file_path": True,
    "operators": [{"id": "container-parser", "max_log_size": node_logs.LINE_BYTES, "type": "container"}],
    "retry_on_failure": {"enabled": True},
    "start_at": "end",
}


def on_nodes() -> dict[str, Any]:
    found = json.loads(json.dumps(node_logs.config()))
    found["service"]["pipelines"]["logs"]["receivers"] = ["file_log"]
    return {**found, "receivers": {"file_log": OF_FILES}}


@pytest.mark.parametrize("config", [otel.config(), on_nodes()], ids=["gateway", "nodes"])
def test_the_collector_finds_no_fault_in_its_configuration(config: Any, tmp_path: Path) -> None:
    done = subprocess.run(
        [binary(), "validate", *file(tmp_path, "config", config)], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_invented_setting_is_found(tmp_path: Path) -> None:
    config = json.loads(json.dumps(otel.config()))
    config["processors"]["redaction"]["blocked_valuez"] = []
    done = subprocess.run(
        [binary(), "validate", *file(tmp_path, "config", config)], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0 and "blocked_valuez" in done.stderr
