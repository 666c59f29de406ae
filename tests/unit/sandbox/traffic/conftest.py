"""The trainer of the language model, without the libraries that its environment has."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sandbox.traffic import models


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("torch", "tokenizers", "transformers"):
        stub: Any = ModuleType(name)
        stub.__getattr__ = lambda _: None
        monkeypatch.setitem(sys.modules, name, stub)
    spec = importlib.util.spec_from_file_location("train", Path(models.__file__).with_name("train.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "train", module)
    spec.loader.exec_module(module)
    return module
