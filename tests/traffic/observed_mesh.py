"""A gateway and proxies on real Envoys whose log lines and spans a collector of the tests takes."""

import json
import re
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from time import time
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs_service
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc as logs_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as trace_grpc

from components.addons import istio
from headway.contract.sampling import Sample, samples
from headway.contract.units import Share
from sandbox.traffic.mesh.snapshot import INBOUND_OFFSET
from sandbox.traffic.mesh.telemetry import Telemetry
from sandbox.traffic.mesh.tokens import TokenIssuers
from sandbox.traffic.pod_addresses import loopback
from tests.components.contracts import SURROUNDINGS, tenant
from tests.loopback import Handler

ISSUER = tenant("vision").issuers[0]
SHARE = Share.parse("50%")
PATH = "/v2/models/defects/infer"
PROMPT = "zebra-crossing-4711"
"""What must not be found anywhere but where a contract names it."""
FIELDS = ["request.inputs.data", "request.parameters.seed", "response.outputs"]
ASKED = {
    "id": "mine",
    "inputs": [{"name": "x", "shape": [1, 2], "data": [1, 2.50]}, {"name": "y", "data": ['a\\"]}', "é"]}],
    "parameters": {"seed": 7, "prompt": PROMPT},
}
ANSWERED = {"model_name": PROMPT, "outputs": [{"name": "z", "data": [0.125]}]}


class Server(Handler):
    """Answers with what `answer` holds."""

    protocol_version = "HTTP/1.1"
    answer: tuple[int, str, bytes] = (200, "application/json", json.dumps(ANSWERED, indent=1).encode())

    def do_POST(self) -> None:
        self.body()
        status, kind, body = self.answer
        self.reply(status, body, content_type=kind)

    def do_GET(self) -> None:
        self.do_POST()


@dataclass
class Collector(logs_grpc.LogsServiceServicer, trace_grpc.TraceServiceServicer):
    """Remembers what proxies tell."""

    lines: list[Any] = field(default_factory=list[Any])
    spans: list[Any] = field(default_factory=list[Any])

    def Export(self, request: Any, context: Any) -> Any:
        if isinstance(request, logs_service.ExportLogsServiceRequest):
            self.lines += [line for each in request.resource_logs for scope in each.scope_logs for line in scope.log_records]
            return logs_service.ExportLogsServiceResponse()
        self.spans += [span for each in request.resource_spans for scope in each.scope_spans for span in scope.spans]
        return trace_service.ExportTraceServiceResponse()


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """The gateway's port, what was told to the collector, and the sandbox's own files."""

    port: int
    admin: int
    issuers: TokenIssuers
    collector: Collector
    folder: Path
    address: str
    """Of the stable release's one replica."""
    workloads: tuple[str, str]
    """The stable release's Deployment and the canary's, which gets a copy of every request."""

    def ask(self, body: bytes, **headers: str) -> str:
        """Through the gateway; the request's id, as its caller learns it."""
        token = self.issuers.token(ISSUER.issuer, ISSUER.audiences, "somebody", now=time(), seconds=600, claims={"priority": "normal"})
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            given = {
                "host": f"defects.vision.{SURROUNDINGS.hosts[0]}",
                "authorization": f"Bearer {token}",
                "content-type": "application/json",
            }
            connection.request("POST", f"{PATH}?q={PROMPT}", body, {**given, **headers})
            found = connection.getresponse()
            assert (found.status, found.read()) == (Server.answer[0], Server.answer[2])
            return found.headers["x-request-id"]

    def ask_replica(self, body: bytes | None, request: str | None = None, kind: str = "application/json") -> str:
        """At the stable replica's own proxy, under an id of one's own; if none is given, under one that is sampled."""
        request = request_id(0) if request is None else request
        with closing(HTTPConnection(loopback(self.address), 8000 + INBOUND_OFFSET, timeout=60)) as connection:
            said = {"host": "defects.vision", "content-type": kind, "x-request-id": request}
            connection.request("GET" if body is None else "POST", PATH, body, said)
            found = connection.getresponse()
            assert (found.status, found.read()) == (Server.answer[0], Server.answer[2])
            return request

    def script_errors(self) -> int:
        """How often a filter's script failed, by Envoy's own count."""
        with urlopen(f"http://127.0.0.1:{self.admin}/stats?filter=lua.*errors") as answer:
            return sum(int(line.rpartition(":")[2]) for line in answer.read().decode().splitlines())

    def spans(self, trace: str) -> list[Any]:
        return [span for span in list(self.collector.spans) if span.trace_id.hex() == trace]

    def series(self) -> list[dict[str, str]]:
        """Labels of what the sandbox counts of the requests that its proxies logged."""
        counted = Telemetry()
        for line in (self.folder / "access.log").read_text().splitlines():
            counted.take(json.loads(line))
        found = [line for line in counted.exposition() if line.startswith("istio_requests_total{")]
        return [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in found]

    def lines(self, request: str, sampled: bool = False) -> list[dict[str, str]]:
        """The attributes of the proxies' lines about a request, with its body and its ids."""
        found = [
            {**attributes(line), "body": line.body.string_value, "trace_id": line.trace_id.hex(), "span_id": line.span_id.hex()}
            for line in list(self.collector.lines)
        ]
        return [line for line in found if request in json.dumps(line) and (istio.SAMPLES_PLACE in line) is sampled]

    def samples(self, request: str) -> list[Sample]:
        """What the collector was told to keep."""
        return list(samples(line["body"] for line in self.lines(request, sampled=True)))


def attributes(said: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in said.attributes}


def request_id(number: int) -> str:
    """One that ends in this number, as a gateway hands it on: Envoy writes into an id whether it is traced (9 is yes)."""
    made = str(uuid4())
    return f"{made[:14]}9{made[15:-8]}{number:08x}"
