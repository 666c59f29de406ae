"""The metrics relay, run as the sidecar runs it."""

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.loopback import Handler, free_port, served

SCRIPT = Path(__file__).parents[3] / "components" / "model_service" / "scripts" / "relay.py"


class Server(Handler):
    def do_GET(self) -> None:
        self.reply(200, "vllm:num_requests_running 3\n" if self.path == "/metrics" else "secret", content_type="text/plain; version=0.0.4")


@contextmanager
def relaying(server: str) -> Generator[str]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-I", str(SCRIPT), str(port), f"{server}/metrics"])
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def relay() -> Iterator[str]:
    with served(Server) as server, relaying(server) as url:
        yield url


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


def test_a_dead_server_makes_the_scrape_fail_instead_of_empty() -> None:
    with ExitStack() as life, relaying(life.enter_context(served(Server))) as relay:
        assert get(relay + "/metrics")[0] == 200
        life.close()
        status, _, text = get(relay + "/metrics")
    assert status == 502
    assert "cannot be read" in text
