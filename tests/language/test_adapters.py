"""Adapters on the real vLLM: the command line is what a contract renders and what the node makes of it. Gateway and node are left out."""

import hashlib
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from components.model_service import vllm
from components.model_service.serving import serving
from headway.contract.model import Model
from sandbox.layout import Layout
from sandbox.progress import Silent
from sandbox.traffic import profile
from sandbox.traffic.node import cpu_vllm
from sandbox.traffic.programs import programs
from tests.language.sorter import in_order, question
from tests.traffic.bed import PROJECT

ADAPTER, FOLDER = "wordy", "adapters/wordy/"
WORDS = ("wheel nut bolt gear", "tap pin hose", "chain axle pump cam")
STARTING_SECONDS = 900
TRAINS = PROJECT / "sandbox/traffic/models/adapter.py"


@dataclass
class Engine:
    """One vLLM with a model and an adapter of it."""

    model: Model
    address: tuple[str, int]

    def _asked(self, method: str, path: str, body: Any = None) -> Any:
        with closing(http.client.HTTPConnection(*self.address, timeout=120)) as connection:
            connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
            with connection.getresponse() as answer:
                return json.loads(answer.read())

    def answer(self, asked: str, words: str) -> str:
        body = {"model": asked, "prompt": question(words), "max_tokens": 40, "temperature": 0}
        return self._asked("POST", vllm.COMPLETIONS, body)["choices"][0]["text"]

    def models(self) -> list[str]:
        return [each["id"] for each in self._asked("GET", "/v1/models")["data"]]

    def series(self) -> dict[tuple[str, str], float]:
        """Name and label `model_name`, "" where there is none -> the sum over all other labels."""
        with closing(http.client.HTTPConnection(*self.address, timeout=120)) as connection:
            connection.request("GET", "/metrics")
            page = connection.getresponse().read().decode()
        found: dict[tuple[str, str], float] = {}
        for line in page.splitlines():
            if match := re.fullmatch(r"(vllm:\w+)(?:\{(.*)\})? (\S+)", line):
                model = re.search(r'model_name="([^"]*)"', match[2] or "")
                key = (match[1], model[1] if model else "")
                found[key] = found.get(key, 0) + float(match[3])
        return found


def contract(artifacts: profile.ModelArtifacts, folder: Path) -> Model:
    """The sorter's, with an adapter."""
    found = profile.contract(profile.LANGUAGE, artifacts)
    found["runtime"]["adapters"] = [{"name": ADAPTER, "folder": FOLDER, "rank": 16}]
    found["runtime"]["architecture"]["intermediate"] = 256
    files = [
        {"path": f"{FOLDER}{each.name}", "sha256": hashlib.sha256(each.read_bytes()).hexdigest(), "size": f"{each.stat().st_size}B"}
        for each in sorted((folder / FOLDER).iterdir())
    ]
    found["artifact"]["files"] = [*found["artifact"]["files"], *files]
    golden = found["health"]["golden"]
    found["health"]["golden"] = [*golden, {**golden[0], "name": "adapted", "model": ADAPTER}]
    return Model.model_validate(found)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("adapted")
    found = programs(PROJECT)
    python = found.vllm_python()
    artifacts = profile.train(found, PROJECT, Layout.of(PROJECT).cache, Silent())
    base = artifacts.folder / profile.LANGUAGE.model / profile.STABLE
    shutil.copytree(base, folder / "model")
    subprocess.run([python, TRAINS, base, folder / "model" / FOLDER], check=True, capture_output=True, timeout=STARTING_SECONDS)
    model = contract(artifacts, folder / "model")
    host = "127.0.0.1"
    with socket.create_server((host, 0)) as free:
        port = free.getsockname()[1]
    command = [
        each.replace(vllm.WEIGHTS, str(folder / "model"), 1).replace(f"--port={vllm.PORT}", f"--port={port}")
        for each in serving(model, 60).command
    ]
    argv = cpu_vllm.arguments(command, python, host, int(model.envelope.gpu.memory))
    environment = {**cpu_vllm.environment(python, host, "adapters", "/usr/bin:/bin"), **serving(model, 60).environment}
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(argv, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        made = Engine(model, (host, port))
        _await(made, server, folder / "log")
        yield made
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(120)


def _await(engine: Engine, server: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < until:
        assert server.poll() is None, log.read_text()[-3000:]
        try:
            assert engine.models()
        except OSError:
            time.sleep(1)
        else:
            return
    raise AssertionError(log.read_text()[-3000:])


def is_adapted(text: str, words: str) -> bool:
    return text.startswith(f" in order: {in_order(words).split()[0]}")


def test_an_adapter_is_listed_as_a_model_beside_its_base(engine: Engine) -> None:
    assert engine.models() == list(engine.model.model_names)


def test_the_base_and_its_adapter_each_give_their_own_answer(engine: Engine) -> None:
    for words in WORDS:
        plain, adapted = engine.answer(engine.model.name, words), engine.answer(ADAPTER, words)
        assert plain.startswith(f" {in_order(words)}"), plain
        assert is_adapted(adapted, words), adapted


def test_no_series_of_an_engine_tells_its_adapters_apart(engine: Engine) -> None:
    before = engine.series()
    for words in WORDS:
        engine.answer(ADAPTER, words)
    after = engine.series()
    assert {name for name, model in after if model == ADAPTER} == set()
    counted = ("vllm:request_success_total", engine.model.name)
    assert after[counted] - before[counted] == len(WORDS), "the adapter's answers count as its base's"
    assert [name for name, model in after if "lora" in name and not model] == ["vllm:lora_requests_info"], "who runs and waits, no counts"


def test_nobody_gets_the_others_answer_when_both_are_asked_at_once(engine: Engine) -> None:
    alone: dict[tuple[str, str], str] = {(name, words): engine.answer(name, words) for name in engine.model.model_names for words in WORDS}
    asked: list[Any] = [*alone] * 4
    with ThreadPoolExecutor(len(alone)) as callers:
        together = list(callers.map(lambda each: (each, engine.answer(*each)), asked))
    assert [(each, text) for each, text in together if text != alone[each]] == []
