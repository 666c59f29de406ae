"""What a release of the language model does beside its arithmetic, as `behaviour.json` in its artifact says.

Runs in every process of the pod, and changes the one that has vLLM's worker, once it is imported. A GPU's time is stood in for by sleeping:
in each step once for the prompts and once for the answers in it, so that what several share is not paid by each. The standard library
only; where an artifact has no such file, nothing is changed.
"""

import importlib.abc
import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

WORKER = "vllm.v1.worker.gpu_worker"
"""Whose class `Worker` runs each step; a CPU's worker inherits it."""
VARIABLE, FILE, MODEL = "HEADWAY_BEHAVIOUR", "behaviour.json", "--model="


class Behaviour:
    """Of one engine. `take` is called before each of its steps."""

    def __init__(self, wanted: Mapping[str, float]) -> None:
        self._wanted, self._served = wanted, 0
        self._kept: list[bytes] = []

    def take(self, tokens: Sequence[int], new: int) -> None:
        """`tokens`: of each request in the step; `new`: how many of the requests are."""
        wanted = self._wanted
        self._served += new
        if wanted["dead_after_requests"] and self._served > wanted["dead_after_requests"]:
            threading.Event().wait()  # alive, on every health page well, and never to answer again
        if wanted["leak_bytes"]:
            self._kept.extend(os.urandom(1) * int(wanted["leak_bytes"]) for _ in range(new))
        time.sleep(milliseconds(wanted, tokens) / 1000)


def milliseconds(wanted: Mapping[str, float], tokens: Sequence[int]) -> float:
    """How long a step takes: a request of several tokens is a prompt, one of a single token an answer."""
    prompts = [each for each in tokens if each > 1]
    of_prompts = wanted["prefill_ms"] + wanted["prefill_ms_per_token"] * sum(prompts) if prompts else 0.0
    return of_prompts + (wanted["decode_ms"] if len(tokens) > len(prompts) else 0.0)


class _Watch(importlib.abc.MetaPathFinder):
    """Changes the worker's class as soon as its module is there; imports nothing itself."""

    def __init__(self, wanted: Mapping[str, float]) -> None:
        self._behaviour = Behaviour(wanted)

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != WORKER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        assert spec and spec.loader  # noqa: S101  what Python found a moment ago
        run = spec.loader.exec_module

        def changed(module: ModuleType) -> None:
            run(module)
            self._change(module)

        spec.loader.exec_module = changed
        return spec

    def _change(self, module: Any) -> None:
        step = module.Worker.execute_model

        def behaving(worker: Any, scheduled: Any, *rest: Any, **named: Any) -> Any:
            if scheduled.total_num_scheduled_tokens:
                self._behaviour.take([*scheduled.num_scheduled_tokens.values()], len(scheduled.scheduled_new_reqs))
            return step(worker, scheduled, *rest, **named)

        module.Worker.execute_model = behaving


def begin(arguments: Sequence[str], environment: Any = os.environ) -> None:
    """In the process that is told the model, and in those that it starts."""
    folder = next((each.removeprefix(MODEL) for each in arguments if each.startswith(MODEL)), None)
    if folder is not None:
        environment[VARIABLE] = str(Path(folder, FILE))
    file = Path(environment.get(VARIABLE) or os.devnull)
    if file.is_file():
        sys.meta_path.insert(0, _Watch(json.loads(file.read_text())))
