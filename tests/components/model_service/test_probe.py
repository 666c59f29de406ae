"""The probe script, run as the kubelet runs it: a process against a server that can lie, stall, be busy or be wrong."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.loopback import Handler, served

SCRIPT = Path(__file__).parents[3] / "components" / "model_service" / "scripts" / "probe.py"
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

    class Health(Handler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            if self.path == "/metrics":
                return self.reply(200, f'nv_inference_count{{model="resnet",version="1"}} {found.finished}\nnv_inference_count_other 7\n')
            return self.reply(200)

        def do_POST(self) -> None:
            self.body()
            found.asked.append(self.path)
            time.sleep(found.delay_seconds)
            self.reply(found.status, found.answer)

    with served(Health) as found.url:
        yield found


INFER = "/v2/models/resnet/versions/1/infer"
NEAR: dict[str, Any] = {"compare": "near", "value": [0.25, 0.75], "absolute": 1e-3, "relative": 0.0}


def golden_request(seconds: float) -> dict[str, Any]:
    return {"name": "cat", "path": INFER, "body": {}, "timeout_seconds": seconds, "answer": "/outputs/0/data", "expect": NEAR}


def probe(server: Server, tmp_path: Path, mode: str, **changes: Any) -> subprocess.CompletedProcess[str]:
    """One probe, with limits that a machine at work on other things keeps as well."""
    config = tmp_path / "probe.json"
    tensor = {"name": "IMAGE", "shape": [2, 3], "datatype": "FP32", "bytes": 24}
    warm = {"path": INFER + "?max", "zeros": [tensor], "timeout_seconds": 2}
    value = {
        "base": server.url,
        "state": str(tmp_path / "state"),
        "slice_seconds": 5,
        "timeout_seconds": 2,
        "fresh_seconds": 0.0,
        "no_progress_seconds": 0.0,
        "memory_limit_mib": None,
        "ready": ["/v2/models/resnet/versions/1/ready"],
        "warmup": [{"name": "resnet", "requests": 4, "budget_seconds": 10.0, "request": warm}],
        "golden": [golden_request(5)],
        "progress": {"url": server.url + "/metrics", "counters": ["nv_inference_count"], "timeout_seconds": 1},
    }
    config.write_text(json.dumps({**value, **changes}))
    command = [sys.executable, "-I", str(SCRIPT), mode, str(config)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("mode", ["startup", "ready", "live"])
def test_a_server_that_answers_correctly_passes_every_probe(server: Server, tmp_path: Path, mode: str) -> None:
    done = probe(server, tmp_path, mode)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "state" / "proven").exists() is (mode == "startup")


@pytest.mark.parametrize(("mode", "passes"), [("startup", False), ("ready", False), ("live", True)])
def test_garbage_keeps_a_server_out_of_traffic_but_is_no_reason_to_restart_it(
    server: Server, tmp_path: Path, mode: str, passes: bool
) -> None:
    server.answer = {"outputs": [{"name": "PROBS", "data": [[0.26, 0.74]]}]}
    done = probe(server, tmp_path, mode)
    assert (done.returncode == 0) is passes
    assert passes or "golden is 0.25" in done.stdout
    assert not (tmp_path / "state" / "proven").exists()


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
    for server.finished in (10, 11):
        assert probe(server, tmp_path, mode).returncode == 0
    assert probe(server, tmp_path, mode).returncode == 1


def test_a_busy_server_is_not_restarted_before_the_contract_calls_it_stuck(server: Server, tmp_path: Path) -> None:
    server.status, server.finished = 503, 10
    assert probe(server, tmp_path, "live", no_progress_seconds=60).returncode == 0
    assert probe(server, tmp_path, "live", no_progress_seconds=60).returncode == 0
    assert probe(server, tmp_path, "live", no_progress_seconds=0.01).returncode == 1


def test_a_server_too_slow_to_answer_in_time_counts_as_busy_not_as_wrong(server: Server, tmp_path: Path) -> None:
    server.delay_seconds, server.finished = 1.0, 5
    slow = [golden_request(0.5)]
    assert probe(server, tmp_path, "ready", golden=slow).returncode == 0
    assert probe(server, tmp_path, "ready", golden=slow).returncode == 1


def test_startup_does_not_pass_on_progress_alone(server: Server, tmp_path: Path) -> None:
    server.status, server.finished = 503, 100
    assert probe(server, tmp_path, "startup").returncode == 1


def test_two_probes_of_one_interval_share_one_synthetic_request(server: Server, tmp_path: Path) -> None:
    for mode in ("ready", "live", "ready"):
        assert probe(server, tmp_path, mode, fresh_seconds=30).returncode == 0
    assert server.asked.count(INFER) == 1


def test_warm_up_runs_at_maximum_shape_before_golden_and_is_not_repeated(server: Server, tmp_path: Path) -> None:
    assert probe(server, tmp_path, "startup").returncode == 0
    assert server.asked == ["/v2/models/resnet/versions/1/ready", *[INFER + "?max"] * 4, INFER]
    server.asked.clear()
    assert probe(server, tmp_path, "startup").returncode == 0
    assert server.asked == ["/v2/models/resnet/versions/1/ready", INFER]


def test_a_warm_up_longer_than_one_slice_goes_on_in_the_next(server: Server, tmp_path: Path) -> None:
    server.delay_seconds = 0.3
    first = probe(server, tmp_path, "startup", slice_seconds=0.2)
    assert first.returncode == 1
    assert "of 4 warm-up requests done" in first.stdout
    assert probe(server, tmp_path, "startup", slice_seconds=10).returncode == 0
    assert server.asked.count(INFER + "?max") == 4


def test_a_model_too_slow_at_its_maximum_shape_never_starts(server: Server, tmp_path: Path) -> None:
    server.delay_seconds = 0.1
    request = {"path": "/infer", "body": {}, "timeout_seconds": 2}
    for _ in range(2):
        plan = {"name": "resnet", "requests": 2, "budget_seconds": 0.05, "request": request}
        done = probe(server, tmp_path, "startup", warmup=[plan], slice_seconds=1)
        assert done.returncode == 1
        assert "the contract allows 0.05 s" in done.stdout


def test_startup_waits_within_its_slice_for_a_server_that_is_still_loading(server: Server, tmp_path: Path) -> None:
    server.status = 500
    threading.Timer(1.0, lambda: setattr(server, "status", 200)).start()
    assert probe(server, tmp_path, "startup", slice_seconds=10).returncode == 0


def fake_driver(tmp_path: Path, says: str, status: int = 0) -> dict[str, str]:
    """A driver that answers `says` to whatever it is asked."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\nprintf '{says}'\nexit {status}\n")
    tool.chmod(0o755)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin"}


@pytest.mark.parametrize(("used", "passes"), [("900\\n1000\\n", True), ("900\\n1001\\n", False), ("[N/A]\\n", True)])
def test_a_model_that_needs_more_device_memory_than_its_envelope_never_starts(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: str, passes: bool
) -> None:
    monkeypatch.setenv("PATH", fake_driver(tmp_path, used)["PATH"])
    done = probe(server, tmp_path, "startup", memory_limit_mib=1000)
    assert (done.returncode == 0) is passes
    assert passes or "holds 1001 MiB" in done.stdout


@pytest.mark.parametrize("action", ["Reset", "Reboot", "Drain P2P", "Drain and Reset"])
def test_a_fatal_gpu_fault_withdraws_a_replica_whose_server_answers(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    monkeypatch.setenv("PATH", fake_driver(tmp_path, f"None\\n{action}\\n")["PATH"])
    ready = probe(server, tmp_path, "ready")
    assert (ready.returncode, ready.stderr) == (1, "")
    assert f"the driver asks to {action.lower()} a GPU of this replica" in ready.stdout
    assert probe(server, tmp_path, "live").returncode == 0, "a restart of the server heals no GPU"


@pytest.mark.parametrize(("says", "status"), [("None\\nNone\\n", 0), ("[N/A]\\n", 0), ("Field is not a valid field to query.\\n", 2)])
def test_a_driver_that_reports_nothing_or_does_not_answer_keeps_a_replica_ready(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, status: int
) -> None:
    monkeypatch.setenv("PATH", fake_driver(tmp_path, says, status)["PATH"])
    assert probe(server, tmp_path, "ready").returncode == 0


def test_a_golden_request_can_be_a_file_of_the_artifact(server: Server, tmp_path: Path) -> None:
    (tmp_path / "golden.json").write_text("{}")
    golden = {"name": "cat", "path": INFER, "timeout_seconds": 1, "answer": "/outputs/0/data", "expect": NEAR}
    assert probe(server, tmp_path, "ready", golden=[{**golden, "file": str(tmp_path / "golden.json")}]).returncode == 0


@pytest.mark.parametrize(
    ("answer", "expect", "passes"),
    [
        ("/choices/0/text", {"compare": "exact", "value": "Blue sky"}, True),
        ("/choices/0/text", {"compare": "exact", "value": "blue sky"}, False),
        ("/choices/0/text", {"compare": "contains", "parts": ["BLUE", "sky"]}, True),
        ("/choices/0/text", {"compare": "contains", "parts": ["blue", "sea"]}, False),
        ("/choices/1/text", {"compare": "exact", "value": "Blue sky"}, False),
        ("/nothing", {"compare": "exact", "value": None}, False),
        ("/a~1b", {"compare": "exact", "value": True}, True),
        ("/a~1b", {"compare": "exact", "value": 1}, False),
        ("/vector", {"compare": "near", "value": [3.0, 4.0], "absolute": 0.0, "relative": 0.0}, True),
        ("/vector", {"compare": "near", "value": [3.3, 4.0], "absolute": 0.0, "relative": 0.1}, True),
        ("/vector", {"compare": "near", "value": [3.3, 4.0], "absolute": 0.1, "relative": 0.0}, False),
        ("/vector", {"compare": "near", "value": [3.0], "absolute": 9.0, "relative": 0.0}, False),
        ("/vector", {"compare": "top", "index": 1}, True),
        ("/vector", {"compare": "top", "index": 0}, False),
        ("/nan", {"compare": "near", "value": [1.0], "absolute": 9.0, "relative": 0.0}, False),
        ("/nan", {"compare": "top", "index": 0}, False),
        ("/vector", {"compare": "cosine", "value": [6.0, 8.0], "at_least": 0.999}, True),
        ("/vector", {"compare": "cosine", "value": [4.0, -3.0], "at_least": 0.1}, False),
        ("/vector", {"compare": "cosine", "value": [6.0, 8.0, 1.0], "at_least": 0.1}, False),
        ("/choices/0", {"compare": "schema", "document": {"type": "object", "required": ["text"]}}, True),
        ("/choices/0", {"compare": "schema", "document": {"required": ["speech"]}}, False),
        ("/choices/0", {"compare": "schema", "document": {"properties": {"text": {"type": "integer"}}}}, False),
        ("/choices/0", {"compare": "schema", "document": {"additionalProperties": False}}, False),
        ("/vector", {"compare": "schema", "document": {"items": {"type": "number", "minimum": 3}, "minItems": 2}}, True),
        ("/vector", {"compare": "schema", "document": {"items": {"maximum": 3}}}, False),
        ("/vector", {"compare": "schema", "document": {"maxItems": 1}}, False),
        ("/a~1b", {"compare": "schema", "document": {"type": "number"}}, False),
        ("/choices/0/text", {"compare": "schema", "document": {"pattern": "^B", "maxLength": 8, "enum": ["Blue sky"]}}, True),
        ("/choices/0/text", {"compare": "schema", "document": {"const": "Red"}}, False),
    ],
)
def test_an_answer_is_compared_as_the_contract_says(
    server: Server, tmp_path: Path, answer: str, expect: dict[str, Any], passes: bool
) -> None:
    server.answer = {"choices": [{"text": "Blue sky"}], "vector": [[3, 4]], "a/b": True, "nan": [float("nan")]}
    if expect["compare"] == "schema" and answer == "/vector":
        server.answer["vector"] = [3, 4]
    golden = {"name": "cat", "path": INFER, "body": {}, "timeout_seconds": 1, "answer": answer, "expect": expect}
    done = probe(server, tmp_path, "ready", golden=[golden])
    assert (done.returncode == 0) is passes, done.stdout + done.stderr


def test_nothing_listening_fails_without_a_traceback(server: Server, tmp_path: Path) -> None:
    server.url = "http://127.0.0.1:9"
    done = probe(server, tmp_path, "live")
    assert done.returncode == 1
    assert "cannot be reached" in done.stdout
    assert done.stderr == ""
