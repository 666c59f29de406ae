"""Scripts that run beside a model: the server's answers and metrics, messages of a queue, credentials; and HTTP that our own servers read."""

import importlib
import io
import json
import socketserver
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from google.protobuf.message import DecodeError

from headway.endpoint_picker import engine_page, pool_objects
from headway.endpoint_picker.exchange import CLUSTER, Exchange, PickerCounts
from headway.endpoint_picker.messages import ProcessingRequest
from headway.endpoint_picker.prompts import prompt_of
from headway.endpoint_picker.tracking import EngineFacts, Tracked
from headway.environment import service_proxy
from headway.environment.api_answer import ApiAnswer
from headway.listening import pages
from sandbox.monitoring import follower
from tests.fuzz.parser import FuzzedParser, document, file_of, texts

SCRIPTS = Path(__file__).parents[2] / "components/model_service/scripts"


def script(name: str) -> Any:
    if str(SCRIPTS) not in sys.path:
        sys.path.insert(0, str(SCRIPTS))
    return importlib.import_module(name)


fetch, inference, probe, worker = map(script, ("fetch", "inference", "probe", "worker"))
EXPECTED: dict[str, Any] = {
    "exact": {"value": [1, {"a": True}]},
    "near": {"value": [0.5, 1], "absolute": 0.1, "relative": 0.1},
    "top": {"index": 1},
    "cosine": {"value": [0.5, 1], "at_least": 0.9},
    "contains": {"parts": ["x"]},
    "schema": {
        "document": {
            "type": "object",
            "properties": {"a": {"type": ["integer", "null"], "minimum": 1}},
            "required": ["a"],
            "additionalProperties": False,
        }
    },
}


class _Answer(io.BytesIO):
    status, headers = 200, {"content-type": "text/plain"}


class _Opener:
    """Answers whatever is asked."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def open(self, *_: Any, **__: Any) -> Any:
        return _Answer(self._content)


def answering(module: Any, content: bytes) -> Any:
    return mock.patch.object(module, "STRAIGHT", _Opener(content))


def _judged(data: bytes) -> None:
    """By every comparison; the last refusal is told, once all have been tried."""
    refused: Exception | None = None
    for pointer in ("", "/outputs/0/data"):
        for kind, expect in EXPECTED.items():
            request = {"name": "a", "path": "/x", "timeout_seconds": 1, "answer": pointer, "expect": {"compare": kind, **expect}}
            try:
                with answering(probe, data):
                    probe.golden("http://a", request)
            except probe.NotYet as reason:
                str(reason).encode(errors="replace")
                refused = reason
    if refused:
        raise refused


class _Peer(io.BytesIO):
    """A socket whose other side says so and goes."""

    def settimeout(self, _: float) -> None: ...

    def sendall(self, _: bytes) -> None: ...

    def recv(self, size: int) -> bytes:
        return self.read(size)


def _called(data: bytes) -> None:
    with mock.patch.object(inference.socket, "create_connection", lambda *_, **__: _Peer(data)):
        inference.exchange("a", 1, {"model_name": "a", "inputs": []}, 5.0)


def _decoded(data: bytes) -> None:
    """What a call that went well brings, without the frames around it."""
    status = inference.frame(1, 5, 1, inference.literal(0, "grpc-status", "0"))
    body = inference.frame(0, 0, 1, b"\0" + struct.pack(">I", len(data)) + data)
    _called(body + status)


class _Memory:
    def recall(self, _: str, default: Any) -> Any:
        return default

    def keep(self, _: str, value: Any) -> None:
        json.dumps(value)


def _progressed(data: bytes) -> None:
    config = {"progress": {"url": "http://a", "timeout_seconds": 1, "counters": ["nv_inference_count"]}}
    with answering(probe, data):
        probe.last_progress(config, _Memory(), "live", 1.0)


def _message(data: bytes) -> None:
    cloud: Any = mock.Mock(stored=lambda _: data)
    config = {"paths": {"a": "/a"}, "path": "/x", "path_by_key": {"messages": "/chat"}, "defaults": {"x": 1}}
    worker.request_of(config, {"Body": data.decode(errors="replace")}, cloud)
    worker.request_of(config, {"Body": '{"id": "a", "file": "b"}'}, cloud)


def _taken(data: bytes) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    cloud = worker.Cloud({"region": "us-west-2", "queue_url": "https://q"}, keys)
    with answering(fetch, data):
        for message in cloud.take(10):
            assert isinstance(message["MessageId"], str) and worker.attempts(message) > 0


def _credentials(data: bytes) -> None:
    token = str(file_of(b"t", "token"))
    sources = (
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://a", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": token},
        {"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": "a", "AWS_REGION": "b"},
    )
    with answering(fetch, data):
        fetch.credentials(sources[data[:1] == b"<"])


class _Connection:
    """A client that says so, and takes whatever it is answered."""

    def __init__(self, said: bytes) -> None:
        self._said = said

    def makefile(self, *_: Any, **__: Any) -> Any:
        return io.BytesIO(self._said)

    def sendall(self, _: bytes) -> None: ...

    def settimeout(self, _: float) -> None: ...


def _asks(handler: Any, **of_server: Any) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        server: Any = mock.Mock(spec=socketserver.BaseServer, server_port=1, server_name="a", **of_server)
        handler(_Connection(data), ("127.0.0.1", 2), server)

    return read


class _Api:
    def answer(self, *_: Any, **__: Any) -> ApiAnswer:
        return ApiAnswer(status=200, content=b"{}", kind="application/json")


_ASKED = b"GET /prometheus:9090/api/v1/query?a=b HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n"
_POSTED = (
    b"POST /prometheus:9090/api/v1/alerts HTTP/1.1\r\nHost: 127.0.0.1:1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]"
)
_ALERTED = {"status": "firing", "alerts": [{"labels": {"a": "b"}, "annotations": {"summary": "x"}}]}
_HOOK = b"POST /vision HTTP/1.1\r\nContent-Length: 99\r\n\r\n" + json.dumps(_ALERTED).encode()


def _exchanged(data: bytes) -> None:
    """One message of Envoy's, and then its repetition; nothing is left of either."""
    tracked, counts = Tracked(16), PickerCounts()
    tracked.endpoints({"10.0.0.1:8000": EngineFacts("a.b"), "10.0.0.2:8000": EngineFacts("b")})
    exchange = Exchange(tracked, 1, counts)
    try:
        for _ in range(2):
            for answer in exchange.hear(1.0, ProcessingRequest.FromString(data)):
                answer.SerializeToString()
    finally:
        exchange.close(2.0)
        assert tracked.idle()


def _picked_from(data: bytes) -> None:
    for address, _ in pool_objects.engines_of([document(data), None]):
        assert address.rpartition(":")[2].isdigit()


def _asked_of_picker(**parts: Any) -> bytes:
    made = ProcessingRequest()
    for part, values in parts.items():
        getattr(made, part).SetInParent()
        for name, value in values.items():
            setattr(getattr(made, part), name, value)
    made.attributes.add(key="a").value.fields[CLUSTER].string_value = "outbound|8000||a.b.svc.cluster.local"
    return made.SerializeToString()


_TENSOR = inference.field(
    5,
    inference.field(1, b"y")
    + inference.field(2, b"FP32")
    + inference.field(3, b"\x02")
    + inference.field(5, inference.field(6, b"\0\0\x80?\0\0\0@")),
)
_SAID = b"\x88" + inference.literal(0, "grpc-status", "0") + inference.literal(0, "grpc-message", "a%20b")
_FRAMES = (
    inference.frame(4, 0, 0, b"\0\x04\0\0\xff\xff") + inference.frame(0, 0, 1, b"\0\0\0\0\x02\x0a\0") + inference.frame(1, 5, 1, _SAID)
)
_STS = f'<A xmlns="{fetch.STS_NAMESPACE[1:-1]}"><AccessKeyId>a</AccessKeyId><SecretAccessKey>b</SecretAccessKey><SessionToken>c</SessionToken></A>'
_MESSAGE = {"MessageId": "a", "ReceiptHandle": "b", "Body": "{}", "Attributes": {"ApproximateReceiveCount": "2"}}
_ANSWER = {"outputs": [{"name": "y", "data": [0.5, 1]}]}
_FOLDER = "components/model_service/scripts"

_SLICE = {
    "metadata": {"namespace": "a", "labels": {pool_objects.SERVICE: "b"}},
    "ports": [{"port": 8000}],
    "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}, "targetRef": {"uid": "a"}}],
}

PARSERS = (
    FuzzedParser(
        name="prompt-of-a-request",
        rooms=("headway/endpoint_picker/prompts.py",),
        read=prompt_of,
        seeds=texts(
            {"model": "m", "prompt": "a"},
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "tools": [{"type": "function"}]},
            {"instructions": "i", "input": [1, 2.5, None, True]},
        ),
    ),
    FuzzedParser(
        name="message-to-a-picker",
        rooms=("headway/endpoint_picker/exchange.py", "headway/endpoint_picker/messages.py", "headway/endpoint_picker/server.py"),
        read=_exchanged,
        refuses=(DecodeError,),
        seeds=(
            _asked_of_picker(request_headers={"end_of_stream": True}),
            _asked_of_picker(request_body={"body": b'{"prompt": "a"}', "end_of_stream": True}),
            _asked_of_picker(response_trailers={}),
        ),
    ),
    FuzzedParser(
        name="page-of-an-engine",
        rooms=("headway/endpoint_picker/engine_page.py",),
        read=engine_page.read,
        seeds=texts('vllm:cache_config_info{block_size="16",num_gpu_blocks="5"} 1.0\nvllm:num_requests_running{engine="0"} 1.5e3\n'),
    ),
    FuzzedParser(
        name="pools-of-a-picker",
        rooms=("headway/endpoint_picker/pool_objects.py",),
        read=_picked_from,
        seeds=texts(_SLICE),
    ),
    FuzzedParser(
        name="golden-answer",
        rooms=(f"{_FOLDER}/probe.py",),
        read=_judged,
        refuses=(probe.NotYet,),
        seeds=texts(_ANSWER, [0.5, 1], "x", {"a": 1}),
    ),
    FuzzedParser(
        name="metrics-of-a-server",
        rooms=(f"{_FOLDER}/probe.py",),
        read=_progressed,
        seeds=texts('# HELP x\nnv_inference_count{model="a"} 5\nnv_inference_count 7 1700000000000\n'),
    ),
    FuzzedParser(
        name="grpc-answer", rooms=(f"{_FOLDER}/inference.py",), read=_called, refuses=(inference.Failed, OSError), seeds=(_FRAMES,)
    ),
    FuzzedParser(
        name="grpc-message",
        rooms=(f"{_FOLDER}/inference.py",),
        read=_decoded,
        refuses=(inference.Failed,),
        seeds=(_TENSOR, inference.field(1, b"m")),
    ),
    FuzzedParser(
        name="queue-message",
        rooms=(f"{_FOLDER}/worker.py",),
        read=_message,
        refuses=(worker.Refused, worker.Again, fetch.Refused),
        seeds=texts({"id": "a", "request": {"x": 1}, "model": "a"}, {"id": "a", "file": "b"}),
    ),
    FuzzedParser(
        name="queue-answer",
        rooms=(f"{_FOLDER}/worker.py",),
        read=_taken,
        refuses=(worker.Refused, worker.Again),
        seeds=texts({"Messages": [_MESSAGE]}, "{}"),
    ),
    FuzzedParser(
        name="pods-credentials",
        rooms=(f"{_FOLDER}/fetch.py",),
        read=_credentials,
        refuses=(fetch.Refused,),
        seeds=texts({"AccessKeyId": "a", "SecretAccessKey": "b", "Token": "c"}, _STS),
    ),
    FuzzedParser(
        name="request-to-the-service-proxy",
        rooms=("headway/environment/service_proxy.py",),
        read=_asks(service_proxy._Handler, services=frozenset(("prometheus:9090",)), api=_Api),  # pyright: ignore[reportPrivateUsage]
        seeds=(_ASKED, _POSTED, _ASKED + _ASKED),
    ),
    FuzzedParser(
        name="request-for-a-page",
        rooms=("headway/listening.py",),
        read=_asks(pages({"/healthz": lambda: (200, "well\n")})),
        seeds=(b"GET /healthz HTTP/1.0\r\n\r\n",),
    ),
    FuzzedParser(
        name="alert-to-the-sandbox",
        rooms=("sandbox/monitoring/follower.py",),
        read=_asks(follower._Request, keep=lambda *_: None),  # pyright: ignore[reportPrivateUsage]
        seeds=(_HOOK,),
    ),
)
