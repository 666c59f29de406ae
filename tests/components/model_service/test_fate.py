"""A server that computes in processes of its own, started as its container starts it: it ends with the first of
them.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.model_service.configuration import FATE_SCRIPT, SCRIPTS
from tests.components.contracts import service

pytestmark = pytest.mark.needs("descriptors of processes")

SCRIPT = SCRIPTS / FATE_SCRIPT
WITHIN_SECONDS = 30
SERVER = """
import signal, subprocess, sys, threading
model, folder = sys.argv[1:]
models = [subprocess.Popen([f"{folder}/triton_python_backend_stub", model], stdin=subprocess.PIPE) for _ in range(2)]

def stop(number, frame):
    for each in models:
        each.kill()
        each.wait()
    open(f"{folder}/stopped", "w").close()
    sys.exit(7)

signal.signal(signal.SIGTERM, stop)
with open(f"{folder}/models", "w") as told:
    told.write(" ".join(str(each.pid) for each in models) + ".")
threading.Event().wait()
"""
"""Ends its model processes when it is told to end, and then itself with 7."""


class Served:
    """The script with the server behind it, and the server's model processes."""

    def __init__(self, folder: Path, before: str = "pass") -> None:
        self.folder = folder
        (folder / "model.py").write_text("read word\n")  # ends with whoever holds its input
        (folder / "triton_python_backend_stub").symlink_to("/bin/sh")
        (folder / "server.py").write_text(SERVER)
        server = [sys.executable, "-I", "-S", str(folder / "server.py"), str(folder / "model.py"), str(folder)]
        start = f"import runpy, sys, os; {before}; sys.argv[0] = {str(SCRIPT)!r}; runpy.run_path(sys.argv[0], run_name='__main__')"
        self.log = folder / "log"
        with self.log.open("wb") as sink:
            command = [sys.executable, "-I", "-c", start, str(folder / "proven"), *server]
            self.process = subprocess.Popen(command, stdout=sink, stderr=sink)
        self.models = [int(pid) for pid in self.eventually(lambda: self.read("models").endswith(".") and self.read("models"))[:-1].split()]

    def read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def eventually(self, found: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + WITHIN_SECONDS
        while not (value := found()):
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.01)
        return value

    def proves_itself(self) -> None:
        (self.folder / "proven").touch()

    def code(self) -> int:
        return self.process.wait(WITHIN_SECONDS)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    found = Served(tmp_path)
    yield found
    for pid in (*found.models, found.process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    found.process.wait()


def gone(pid: int) -> bool:
    """Whether it has ended, be it as a zombie: here nobody reaps what a killed server leaves."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_server_ends_with_the_first_of_its_model_processes_and_says_which(served: Served) -> None:
    served.proves_itself()
    first, other = served.models
    os.kill(first, signal.SIGKILL)
    assert served.code() == 1
    assert re.search(rf"model process {first} \((.*/model\.py)?\) has ended, and the server with it", served.log.read_text())
    served.eventually(lambda: gone(other))
    assert not served.read("stopped"), "a server that is asked to end would wait for the dead"


def test_one_that_ended_before_anybody_looked_is_found_as_well(served: Served) -> None:
    for pid in served.models:
        os.kill(pid, signal.SIGKILL)
    served.proves_itself()
    assert served.code() == 1


def test_before_it_has_proven_itself_a_server_stays_and_its_probe_says_why(served: Served) -> None:
    os.kill(served.models[0], signal.SIGKILL)
    with pytest.raises(subprocess.TimeoutExpired):
        served.process.wait(1.2)
    served.proves_itself()
    assert served.code() == 1


def test_the_proof_of_a_server_that_ran_before_in_the_pod_is_none(tmp_path: Path) -> None:
    (tmp_path / "proven").touch()
    found = Served(tmp_path)
    assert not (tmp_path / "proven").exists()
    found.process.send_signal(signal.SIGTERM)
    assert found.code() == 7


def test_a_server_that_is_told_to_end_ends_its_model_processes_itself(served: Served) -> None:
    served.proves_itself()
    served.process.send_signal(signal.SIGTERM)
    assert served.code() == 7
    assert (served.folder / "stopped").exists()
    assert "model process" not in served.log.read_text()


def test_a_server_that_is_killed_is_seen_to_have_been_killed(served: Served) -> None:
    (server,) = Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children").read_text().split()
    os.kill(int(server), signal.SIGKILL)
    assert served.code() == 128 + signal.SIGKILL


def test_where_processes_cannot_be_watched_the_server_takes_the_scripts_place(tmp_path: Path) -> None:
    found = Served(tmp_path, before="del os.pidfd_open")
    os.kill(found.models[0], signal.SIGKILL)
    found.process.send_signal(signal.SIGTERM)
    assert found.code() == 7
    assert "found by the probes alone" in found.log.read_text()


def test_only_a_server_that_computes_in_other_processes_is_started_so() -> None:
    def command(name: str) -> list[str]:
        (pod,) = (each.body["spec"]["template"] for each in service(name).manifests() if each.body["kind"] == "Deployment")
        return pod["spec"]["containers"][0]["command"]

    def brought(name: str) -> bool:
        return any(FATE_SCRIPT in each.body["data"] for each in service(name).manifests() if each.body["kind"] == "ConfigMap")

    assert command("defects")[0] == "tritonserver"
    assert not brought("defects")
    assert command("defects-dense")[:5] == ["python3", "-I", "/etc/headway/fate.py", "/tmp/headway/proven", "tritonserver"]
    assert brought("defects-dense")
