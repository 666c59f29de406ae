"""The metrics relay, run as the sidecar runs it."""

import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "components" / "model_service" / "scripts" / "relay.py"


def free_port() -> int:
    with socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"vllm:num_requests_running 3\n" if self.path == "/metrics" else b"secret"
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
    yield listener
    listener.shutdown()
    listener.server_close()


@pytest.fixture
def relay(server: ThreadingHTTPServer) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{server.server_address[1]}/metrics"
    process = subprocess.Popen([sys.executable, "-I", str(SCRIPT), str(port), url])
    yield f"http://127.0.0.1:{port}"
    process.kill()
    process.wait()


def get(url: str) -> tuple[int, str, str]:
    deadline = time.monotonic() + 10
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.headers["content-type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["content-type"], error.read().decode()
        except OSError:
            assert time.monotonic() < deadline, "the relay does not listen"
            time.sleep(0.05)


def test_every_path_answers_the_metrics_page_and_nothing_else(relay: str) -> None:
    for path in ("/metrics", "/v1/chat/completions"):
        assert get(relay + path) == (200, "text/plain; version=0.0.4", "vllm:num_requests_running 3\n")


def test_a_dead_server_makes_the_scrape_fail_instead_of_empty(relay: str, server: ThreadingHTTPServer) -> None:
    assert get(relay + "/metrics")[0] == 200
    server.shutdown()
    server.server_close()
    status, _, text = get(relay + "/metrics")
    assert status == 502
    assert "cannot be read" in text
