"""When the release that fails late begins to fail."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sandbox.traffic import models


@pytest.fixture
def rushes(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("onnxruntime", "triton_python_backend_utils"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    spec = importlib.util.spec_from_file_location("classifier", Path(models.__file__).with_name("classifier.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Rushes()


def fails(rushes: Any, *spans: tuple[float, float]) -> list[bool]:
    """Of each span of (seconds, requests a second), whether its last request comes in a second rush."""
    now, ends = 0.0, list[bool]()
    for seconds, rate in spans:
        second = [rushes.second(now + n / rate, 1) for n in range(int(seconds * rate))]
        now += seconds
        ends.append(second[-1])
    return ends


def test_copies_and_every_step_before_the_bake_pass_and_the_bake_does_not(rushes: Any) -> None:
    assert fails(rushes, (60, 60), (20, 6), (20, 15), (20, 30), (20, 57)) == [False, False, False, False, True]


def test_the_warmup_of_forty_requests_is_no_rush(rushes: Any) -> None:
    assert fails(rushes, (1, 40), (30, 0.2), (60, 60)) == [False, False, False]
