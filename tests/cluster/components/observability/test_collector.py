"""The collector's real pipelines, sent prompts, names and keys: what comes out says of a request how it went, and nothing of what was asked.
And whose it was is not for the sender to say.

Runs where the collector has been built (`make servers`, minutes of CPU once); the configuration is the platform's, but for addresses.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from components.addons import node_logs, otel
from tests.cluster.components.observability.collecting import (
    DEFECTS,
    FRAUD,
    UPSTREAM,
    Running,
    Sender,
    attributes,
    collecting,
    populate,
    text,
    validated,
)
from tests.cluster.conftest import ControlPlane, eventually
from tests.loopback import Handler, served

pytestmark = pytest.mark.needs("collector")

SAID = "my mother Anna has diabetes"
SECRETS = (SAID, "anna@example.com", "sk-live-0123456789abcdef", "4111 1111 1111 1111")
FAILED, SLOW, LINKED = (f"{number:032x}" for number in (1, 2, 3))
OTHERS = 1_000
MULTIPLIER = 0x9E3779B97F4A7C15
"""Spreads trace ids, by which the sampler draws lots."""


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
    def lines(self) -> list[tuple[dict[str, str], dict[str, Any]]]:
        """Each with its resource's attributes."""
        found = [each for body in self.bodies["logs"] for each in body["resourceLogs"]]
        return [(attributes(each["resource"]), line) for each in found for scope in each["scopeLogs"] for line in scope["logRecords"]]

    @property
    def records(self) -> list[dict[str, Any]]:
        return [line for _, line in self.lines]


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    class Server(Handler):
        def do_POST(self) -> None:
            found.bodies[self.path.rpartition("/")[2]].append(json.loads(self.body()))
            self.reply(200, {}, content_type="application/json")

    with served(Server) as url:
        found = Sink(int(url.rpartition(":")[2]))
        yield found


CLAIMS = {
    "k8s.namespace.name": "istio-ingress",
    "k8s.pod.ip": Sender.DEFECTS,
    "k8s.pod.name": "defects",
    "service.name": "payments",
    "source.namespace": "istio-ingress",
    "source.tenant": "vision",
    **DEFECTS,
}
"""What a sender may say of itself, and is not believed."""
SENDERS = (Sender.DEFECTS, Sender.FRAUD, Sender.STRANGER)
PROBE = "is anybody known?"
LONG, MANY = "x" * 50_000, 100
"""Lines that make more than twice what a store takes at once."""


@pytest.fixture(scope="module")
def told(sink: Sink, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sink]:
    """What came out after a thousand traces and some lines of the log went in by the gateway, and a few under others' names."""
    populate(control_plane)
    exporter = {"endpoint": f"http://127.0.0.1:{sink.port}", "encoding": "json", "compression": "none"}
    local = {
        "processors": {"batch": {"timeout": "100ms"}, "tail_sampling": {"decision_wait": "1s"}},
        "exporters": {"otlp_http": exporter, "otlp_http/traces": exporter},
        "service": {"pipelines": {"traces": {"exporters": ["otlp_http/traces"]}}},
    }
    with collecting(tmp_path_factory.mktemp("collector"), control_plane, otel.config(), local) as collector:
        _known(collector, sink)
        _send(collector)
        kept = {FAILED, SLOW, *map(trace_of, SENDERS)}
        count = len(BODIES) + 1 + len(SENDERS) + MANY
        eventually(lambda: len(of_senders(sink)) >= count and kept <= {s["traceId"] for s in sink.spans}, within=60)
        decided = "otelcol_processor_tail_sampling_global_count_traces_sampled"
        eventually(lambda: collector.counted(decided) >= OTHERS + 2 + len(SENDERS), within=60)
    yield sink


def _known(collector: Running, sink: Sink) -> None:
    """Wait until the collector has heard of the pods."""

    def heard() -> bool:
        for sender in (Sender.DEFECTS, Sender.FRAUD):
            collector.tell(sender, "logs", {}, {"timeUnixNano": str(time.time_ns()), "body": {"stringValue": PROBE}})
        return {"vision", "fraud"} <= {attributes(record).get("tenant") for record in sink.records}

    eventually(heard, within=60)


def of_senders(sink: Sink) -> list[tuple[dict[str, str], dict[str, Any]]]:
    """The lines that came out, each with its resource's attributes."""
    return [(resource, record) for resource, record in sink.lines if record["body"] != {"stringValue": PROBE}]


def trace_of(sender: Sender) -> str:
    return f"{int(sender.rpartition('.')[2]) << 96:032x}"


BODIES: tuple[dict[str, Any], ...] = (
    {"stringValue": "POST weights 200 - 12"},
    {"stringValue": json.dumps({"prompt": SAID})},
    {"stringValue": f"mail to {SECRETS[1]}, api_key={SECRETS[2]}"},
    {"stringValue": f"card {SECRETS[3]} of AKIAABCDEFGHIJKLMNOP"},
    {"kvlistValue": {"values": [text("prompt", SAID), text("route", "weights")]}},
    {"arrayValue": {"values": [{"stringValue": f"prompt: {SAID}"}]}},
)


def record(body: Any, *more: dict[str, Any]) -> dict[str, Any]:
    return {"timeUnixNano": str(time.time_ns()), "body": body, "attributes": [text("tenant", "claimed"), *more]}


def _send(collector: Running) -> None:
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
    records = [record(body, text("upstream", UPSTREAM), *CONTENTS) for body in BODIES]
    nowhere = record({"stringValue": "GET - 404 NR 0"}, text("upstream", "-"))
    collector.post(Sender.GATEWAY, "traces", {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]})
    logs = [{"resource": {"attributes": []}, "scopeLogs": [{"scope": scope, "logRecords": [*records, nowhere]}]}]
    collector.post(Sender.GATEWAY, "logs", {"resourceLogs": logs})
    collector.tell(Sender.DEFECTS, "logs", {}, *(record({"stringValue": LONG}) for _ in range(MANY)))
    lies = [text("upstream", UPSTREAM), *(text(key, value) for key, value in DEFECTS.items())]
    for number, sender in enumerate(SENDERS):
        collector.tell(sender, "logs", CLAIMS, record({"stringValue": sender}, *lies))
        told = span(trace_of(sender), 10 + number, status={"code": 2})
        collector.tell(sender, "traces", CLAIMS, {**told, "attributes": [*told["attributes"], *lies]})


def test_nothing_that_a_caller_said_comes_out(told: Sink) -> None:
    for kind, bodies in told.bodies.items():
        assert [secret for secret in (*SECRETS, "AKIAABCDEFGHIJKLMNOP") if secret in json.dumps(bodies)] == [], kind


def test_the_same_words_would_be_found_were_they_let_through() -> None:
    assert all(secret in json.dumps([span(SLOW, 1), BODIES]) for secret in SECRETS), "the check above could not fail"


def owner(of: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in attributes(of).items() if key in otel.LABELS}


def test_a_gateways_log_and_span_name_the_tenant_by_upstream_not_by_caller(told: Sink) -> None:
    lines = [line for resource, line in of_senders(told) if resource.get("k8s.pod.name") == "gateway" and "NR" not in str(line["body"])]
    spans = [s for s in told.spans if s["traceId"] not in map(trace_of, SENDERS)]
    assert len(lines) == len(BODIES)
    assert len(spans) > 2
    assert [each for each in (*lines, *spans) if owner(each) != DEFECTS] == []


def test_a_request_that_reached_nobody_is_nobodys_whatever_its_caller_said(told: Sink) -> None:
    (line,) = [line for _, line in of_senders(told) if "NR" in str(line["body"])]
    assert owner(line) == {}


@pytest.mark.parametrize(("sender", "whose"), [(Sender.DEFECTS, DEFECTS), (Sender.FRAUD, FRAUD), (Sender.STRANGER, {})])
def test_whoever_is_not_the_gateway_speaks_for_its_own_pod_whatever_it_claims(told: Sink, sender: Sender, whose: dict[str, str]) -> None:
    ((resource, line),) = [(resource, line) for resource, line in of_senders(told) if line["body"] == {"stringValue": sender}]
    (seen,) = [s for s in told.spans if s["traceId"] == trace_of(sender)]
    assert owner(line) == owner(seen) == whose
    assert resource["service.name"] == otel.TOLD, "a name of its own choice would be a stream of its own choice"
    assert not resource.keys() & {*otel.LABELS, "k8s.namespace.name"}, (
        "labels of streams, of which the gateway's lines would make thousands"
    )
    assert resource.get("k8s.pod.name") == {Sender.DEFECTS: "defects", Sender.FRAUD: "scores"}.get(sender)


def test_a_proxys_line_belongs_to_the_log_of_requests(told: Sink) -> None:
    assert {resource["service.name"] for resource, _ in of_senders(told) if resource.get("k8s.pod.name") == "gateway"} == {otel.ACCESS_LOG}


def test_much_at_once_is_pushed_in_pieces_that_the_store_takes(told: Sink) -> None:
    """Loki's gateway refuses more than 4 MB, and what it refuses is lost."""
    assert [line["body"] for line in told.records].count({"stringValue": LONG}) == MANY
    assert max(len(json.dumps(body)) for body in told.bodies["logs"]) < 2.2 * 2**20


def test_what_describes_a_request_passes(told: Sink) -> None:
    assert {"stringValue": "POST weights 200 - 12"} in [line["body"] for line in told.records]
    failed = next(s for s in told.spans if s["traceId"] == FAILED)
    assert attributes(failed)["http.request.method"] == "POST"
    assert failed["status"] == {"code": 2}, "that it failed, and not with which words"
    assert failed["name"] == "chat **** defects", "its first words, masked"


def test_every_trace_that_failed_or_was_slow_is_kept_and_a_share_of_the_others(told: Sink) -> None:
    kept = {s["traceId"] for s in told.spans} - {trace_of(sender) for sender in SENDERS}
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


SAMPLING = otel.sampling(otel.config(), bucket="telemetry", region="us-east-1")


@pytest.mark.parametrize("config", [SAMPLING, on_nodes()], ids=["gateway", "nodes"])
def test_the_collector_finds_no_fault_in_its_configuration(config: Any, tmp_path: Path) -> None:
    assert validated(tmp_path, config) == (0, "")


def test_an_invented_setting_is_found(tmp_path: Path) -> None:
    config = json.loads(json.dumps(otel.config()))
    config["processors"]["redaction"]["blocked_valuez"] = []
    code, said = validated(tmp_path, config)
    assert code != 0
    assert "blocked_valuez" in said
