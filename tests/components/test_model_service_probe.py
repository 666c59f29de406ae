"""The probe script, run as the kubelet runs it: a process against a server that can lie, stall, be busy or be wrong."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "components" / "model_service" / "scripts" / "probe.py"
RIGHT: dict[str, Any] = {"outputs": [{"name": "PROBS", "data": [[0.25, 0.75]]}]}


@dataclass
class Server:
    """A model server whose health endpoint always says 200, whatever its inference does."""

    status: int = 200
    answer: Any = field(default_factory=lambda: RIGHT)
    delay_seconds: float = 0.0
    finished: int = 0
    url: str = ""
    asked: list[str] = field(default_factory=list[str])


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            if self.path == "/metrics":
                return self.reply(200, f'nv_inference_count{{model="resnet",version="1"}} {found.finished}\nnv_inference_count_other 7\n')
            return self.reply(200, "")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            found.asked.append(self.path)
            time.sleep(found.delay_seconds)
            self.reply(found.status, json.dumps(found.answer))

        def reply(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None: ...

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{listener.server_address[1]}"
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    yield found
    listener.shutdown()
    listener.server_close()


def probe(server: Server, tmp_path: Path, mode: str, **changes: Any) -> subprocess.CompletedProcess[str]:
    close = {"at": ["outputs", {"name": "PROBS"}, "data"], "close": [[0.25, 0.75]], "absolute": 1e-3, "relative": 0.0}
    path = "/v2/models/resnet/versions/1/infer"
    model = {
        "name": "resnet",
        "ready": "/v2/models/resnet/versions/1/ready",
        "timeout_seconds": 2,
        "warmup": {
            "requests": 3,
            "measured": 1,
            "budget_seconds": 1.0,
            "request": {"path": path + "?max", "body": {}, "timeout_seconds": 2},
        },
        "golden": [{"path": path, "body": {"inputs": []}, "timeout_seconds": 0.5, "checks": [close]}],
        **changes,
    }
    config = tmp_path / "probe.json"
    config.write_text(
        json.dumps(
            {
                "base": server.url,
                "state": str(tmp_path / "state"),
                "models": [model],
                "progress": {"url": server.url + "/metrics", "counters": ["nv_inference_count"], "timeout_seconds": 1},
            }
        )
    )
    command = [sys.executable, "-I", str(SCRIPT), mode, str(config)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("mode", ["startup", "ready", "live"])
def test_a_server_that_answers_correctly_passes_every_probe(server: Server, tmp_path: Path, mode: str) -> None:
    done = probe(server, tmp_path, mode)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(("mode", "passes"), [("startup", False), ("ready", False), ("live", True)])
def test_garbage_keeps_a_server_out_of_traffic_but_is_no_reason_to_restart_it(
    server: Server, tmp_path: Path, mode: str, passes: bool
) -> None:
    server.answer = {"outputs": [{"name": "PROBS", "data": [[0.26, 0.74]]}]}
    done = probe(server, tmp_path, mode)
    assert (done.returncode == 0) is passes
    assert passes or "golden is 0.25" in done.stdout


@pytest.mark.parametrize("mode", ["startup", "ready", "live"])
def test_a_dead_model_process_behind_healthy_endpoints_fails_every_probe(server: Server, tmp_path: Path, mode: str) -> None:
    server.status, server.answer = 500, {"error": "Stub process 'resnet_0_0' is not healthy"}
    done = probe(server, tmp_path, mode)
    assert done.returncode == 1
    assert "Stub process" in done.stdout


@pytest.mark.parametrize("mode", ["ready", "live"])
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_passes_while_it_finishes_work_and_fails_once_it_stops(
    server: Server, tmp_path: Path, mode: str, status: int
) -> None:
    server.status = status
    server.finished = 10
    assert probe(server, tmp_path, mode).returncode == 0
    server.finished = 11
    assert probe(server, tmp_path, mode).returncode == 0
    assert probe(server, tmp_path, mode).returncode == 1


def test_a_server_too_slow_to_answer_in_time_counts_as_busy_not_as_wrong(server: Server, tmp_path: Path) -> None:
    server.delay_seconds, server.finished = 1.0, 5
    assert probe(server, tmp_path, "ready").returncode == 0
    assert probe(server, tmp_path, "ready").returncode == 1


def test_startup_does_not_pass_on_progress_alone(server: Server, tmp_path: Path) -> None:
    server.status, server.finished = 503, 100
    assert probe(server, tmp_path, "startup").returncode == 1


def test_warm_up_runs_at_maximum_shape_before_golden_and_is_not_repeated(server: Server, tmp_path: Path) -> None:
    assert probe(server, tmp_path, "startup").returncode == 0
    infer = "/v2/models/resnet/versions/1/infer"
    assert server.asked == ["/v2/models/resnet/versions/1/ready", *[infer + "?max"] * 3, infer]
    server.asked.clear()
    assert probe(server, tmp_path, "startup").returncode == 0
    assert server.asked == [infer]


def test_a_model_too_slow_at_its_maximum_shape_never_starts(server: Server, tmp_path: Path) -> None:
    server.delay_seconds = 0.2
    plan = {"requests": 2, "measured": 1, "budget_seconds": 0.05, "request": {"path": "/infer", "body": {}, "timeout_seconds": 2}}
    for _ in range(2):
        done = probe(server, tmp_path, "startup", warmup=plan)
        assert done.returncode == 1
        assert "budget 0.05 s" in done.stdout


@pytest.mark.parametrize(
    ("check", "passes"),
    [
        ({"at": ["choices", 0, "text"], "equals": "blue"}, True),
        ({"at": ["choices", 0, "text"], "equals": "blu"}, False),
        ({"at": ["choices", 0, "text"], "contains": "lu"}, True),
        ({"at": ["choices", 0, "text"], "matches": "^b.+e$"}, True),
        ({"at": ["choices", 0, "text"], "matches": "^lue"}, False),
        ({"at": ["choices", 1, "text"], "equals": "blue"}, False),
        ({"at": ["usage"], "close": [3], "absolute": 0, "relative": 0.4}, True),
        ({"at": ["usage"], "close": [3], "absolute": 0, "relative": 0.3}, False),
        ({"at": ["usage"], "close": [3, 3], "absolute": 9, "relative": 0}, False),
    ],
)
def test_golden_answers_are_compared_exactly_by_text_or_within_tolerance(
    server: Server, tmp_path: Path, check: dict[str, Any], passes: bool
) -> None:
    server.answer = {"choices": [{"text": "blue"}], "usage": [4]}
    golden = [{"path": "/v1/completions", "body": {}, "timeout_seconds": 1, "checks": [check]}]
    assert (probe(server, tmp_path, "ready", golden=golden).returncode == 0) is passes


def test_not_a_number_is_never_close(server: Server, tmp_path: Path) -> None:
    server.answer = {"outputs": [{"name": "PROBS", "data": [[float("nan"), 0.75]]}]}
    assert probe(server, tmp_path, "ready").returncode == 1


def test_nothing_listening_fails_without_a_traceback(server: Server, tmp_path: Path) -> None:
    server.url = "http://127.0.0.1:9"
    done = probe(server, tmp_path, "live")
    assert done.returncode == 1
    assert "cannot be reached" in done.stdout
    assert done.stderr == ""
