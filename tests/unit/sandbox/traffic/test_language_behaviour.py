"""What a release of the language model does beside its arithmetic: as its artifact says, in the process that has the engine, and no other."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sandbox.traffic.node import cpu_vllm
from sandbox.traffic.node.start.behaviour import Behaviour, milliseconds

HEALTHY: Mapping[str, float] = {
    "dead_after_requests": 0,
    "decode_ms": 10.0,
    "leak_bytes": 0,
    "prefill_ms": 40.0,
    "prefill_ms_per_token": 0.5,
}
WORKER = """
class Worker:
    def execute_model(self, scheduled):
        return "stepped"
"""
ENGINE = """
import sys, time
from types import SimpleNamespace
from multiprocessing import get_context
def steps():
    from vllm.v1.worker.gpu_worker import Worker
    scheduled = SimpleNamespace(total_num_scheduled_tokens=1, num_scheduled_tokens={"a": 1}, scheduled_new_reqs=[])
    began = time.monotonic()
    print(Worker().execute_model(scheduled), time.monotonic() - began, flush=True)
if __name__ == "__main__":
    engine = get_context("spawn").Process(target=steps)
    engine.start()
    engine.join()
"""


def stepped(folder: Path, model: Path) -> tuple[str, float]:
    """What a step answers in the process that the server starts, and the seconds that it took."""
    package = folder / "vllm" / "v1" / "worker"
    package.mkdir(parents=True)
    (package / "gpu_worker.py").write_text(WORKER)
    (folder / "server.py").write_text(ENGINE)
    environment = cpu_vllm.environment(Path(sys.executable), "127.130.1.2", "headway-0123-", "/usr/bin")
    command = [sys.executable, str(folder / "server.py"), f"--model={model}", "--enforce-eager"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    said, seconds = done.stdout.split()
    return said, float(seconds)


def artifact(folder: Path, behaviour: Mapping[str, float] | None) -> Path:
    folder.mkdir()
    if behaviour is not None:
        (folder / "behaviour.json").write_text(json.dumps(behaviour))
    return folder


def test_the_engines_process_behaves_as_the_artifact_says(tmp_path: Path) -> None:
    said, seconds = stepped(tmp_path / "code", artifact(tmp_path / "model", {**HEALTHY, "decode_ms": 300.0}))
    assert said == "stepped"
    assert seconds >= 0.3


def test_an_artifact_that_says_nothing_is_served_as_it_is(tmp_path: Path) -> None:
    said, seconds = stepped(tmp_path / "code", artifact(tmp_path / "model", None))
    assert said == "stepped"
    assert seconds < 0.3


@pytest.mark.parametrize(
    ("tokens", "milliseconds_of_step"),
    [((), 0.0), ((1,), 10.0), ((1, 1, 1), 10.0), ((20,), 50.0), ((20, 20), 60.0), ((20, 1), 60.0)],
)
def test_requests_of_one_step_share_what_it_takes(tokens: Sequence[int], milliseconds_of_step: float) -> None:
    assert milliseconds(HEALTHY, tokens) == milliseconds_of_step


@pytest.mark.parametrize(("field", "prompt", "answer"), [("prefill_ms", True, False), ("decode_ms", False, True)])
def test_a_slower_prefill_delays_first_tokens_alone_and_decode_others(field: str, prompt: bool, answer: bool) -> None:
    slow = {**HEALTHY, field: 4 * HEALTHY[field]}
    assert (milliseconds(slow, (20,)) > milliseconds(HEALTHY, (20,))) is prompt
    assert (milliseconds(slow, (1,)) > milliseconds(HEALTHY, (1,))) is answer


def test_a_release_that_leaks_keeps_as_much_of_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[int]()
    monkeypatch.setattr("os.urandom", lambda number: Counted(made))
    leaking = Behaviour({**HEALTHY, "leak_bytes": 2**20, "decode_ms": 0.0, "prefill_ms": 0.0, "prefill_ms_per_token": 0.0})
    for new in (2, 0, 1):
        leaking.take([1], new)
    assert made == [2**20] * 3


class Counted:
    """Stands for a byte, and remembers how often it was asked for."""

    def __init__(self, made: list[int]) -> None:
        self._made = made

    def __mul__(self, times: int) -> bytes:
        self._made.append(times)
        return b""


def test_a_release_that_dies_answers_as_many_requests_first(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = list[bool]()
    monkeypatch.setattr("threading.Event.wait", lambda *_: waited.append(True))
    slept = list[float]()
    monkeypatch.setattr(time, "sleep", slept.append)
    dying = Behaviour({**HEALTHY, "dead_after_requests": 3})
    dying.take([20, 20, 20], 3)
    assert not waited
    dying.take([1, 20], 1)
    assert waited == [True]


def test_every_release_behaves_by_the_same_fields(trainer: Any) -> None:
    assert set(trainer.HEALTHY) == set(HEALTHY)
    assert all(set(differs) <= set(HEALTHY) for _, differs in trainer.RELEASES.values())
