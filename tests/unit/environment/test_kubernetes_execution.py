"""A command in a pod, asked of an API server that speaks as the real one does: WebSocket, subprotocol v4.channel.k8s.io."""

import base64
import hashlib
import json
import socketserver
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes import client

from headway.environment.kubernetes import LARGEST_OUTPUT, execute
from headway.environment.port import OutOfReachError

STDOUT, STDERR, ENDED = b"\x01", b"\x02", b"\x03"
SUCCESS = json.dumps({"status": "Success"}).encode()
FAILURE = json.dumps({"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "137"}]}}).encode()
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455, section 1.3."""


@contextmanager
def api_server(frames: Sequence[bytes], status: str = "101 Switching Protocols") -> Generator[tuple[Any, list[str]]]:
    """Answers one exec with `frames`, each a channel's number and its bytes; and what was asked."""
    seen: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            asked = [line.decode().strip() for line in iter(self.rfile.readline, b"\r\n")]
            seen.append(asked[0])
            self.wfile.write(f"HTTP/1.1 {status}\r\n".encode())
            if not status.startswith("101"):
                self.wfile.write(b"Content-Length: 0\r\n\r\n")
                return
            key = next(line.partition(": ")[2] for line in asked if line.lower().startswith("sec-websocket-key"))
            accepted = base64.b64encode(hashlib.sha1((key + _MAGIC).encode()).digest()).decode()
            self.wfile.write(f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accepted}\r\n\r\n".encode())
            for frame in frames:
                self.wfile.write(bytes([0x82, 126]) + len(frame).to_bytes(2, "big") + frame)
            if ENDED in {frame[:1] for frame in frames}:
                self.wfile.write(bytes([0x88, 0]))
            self.rfile.read(1)

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    configuration: Any = client.Configuration()
    configuration.host = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield configuration, seen
    finally:
        server.shutdown()
        server.server_close()


def run(configuration: Any, seconds: float = 20.0) -> str:
    return execute(configuration, "vision", "defects-r1-abc", "server", ("python3", "-c", "print(1)"), seconds)


def test_what_the_command_says_comes_back_and_nothing_of_its_other_stream() -> None:
    with api_server((STDOUT + b"first\n", STDERR + b"warned\n", STDOUT + b"second\n", ENDED + SUCCESS)) as (configuration, seen):
        assert run(configuration) == "first\nsecond\n"
    assert "/api/v1/namespaces/vision/pods/defects-r1-abc/exec?" in seen[0]
    assert "container=server" in seen[0] and "command=python3&command=-c" in seen[0] and "stdin=False" in seen[0]


def test_a_command_that_fails_is_no_answer() -> None:
    with (
        api_server((STDERR + b"killed\n", ENDED + FAILURE)) as (configuration, _),
        pytest.raises(OutOfReachError, match="exit 137: killed"),
    ):
        run(configuration)


def test_a_command_that_does_not_end_is_no_answer() -> None:
    with api_server((STDOUT + b"first\n",)) as (configuration, _), pytest.raises(OutOfReachError, match="no end within"):
        run(configuration, seconds=0.3)


@pytest.mark.parametrize("channel", [STDOUT, STDERR])
def test_a_command_that_says_more_than_any_of_ours_is_no_answer(channel: bytes) -> None:
    """The program is of the tenant's image, and loops of the platform listen to it."""
    told = [channel + b"x" * 60_000] * (LARGEST_OUTPUT // 60_000 + 2)
    with api_server((*told, ENDED + SUCCESS)) as (configuration, _), pytest.raises(OutOfReachError, match="more than"):
        run(configuration, seconds=120.0)


def test_an_identity_that_may_not_is_told_what_it_lacks() -> None:
    with (
        api_server((), "403 Forbidden") as (configuration, _),
        pytest.raises(OutOfReachError, match="create and get on pods/exec in vision"),
    ):
        run(configuration)


def test_a_pod_that_is_gone_is_no_answer() -> None:
    with api_server((), "404 Not Found") as (configuration, _), pytest.raises(OutOfReachError, match="404"):
        run(configuration)
