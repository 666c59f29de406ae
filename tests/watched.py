"""A pytest plugin: fails a test that opened a file of the checkout whose change would not choose it (`tests/reached.py`).

It sees modules where they are imported first, and no process that a test starts.
"""

import sys
from collections import defaultdict
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.reached import OF_ALL, ROOT, Checkout, checkout

TOP = f"{ROOT}/"
CACHE = "__pycache__/"
opened: defaultdict[str, set[str]] = defaultdict(set)
"""Paths as they were opened, by the test file that was collected or run."""
now: list[str] = []


def pytest_configure() -> None:
    sys.addaudithook(_seen)


def _seen(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and now and isinstance(arguments[0], str) and arguments[0].startswith(TOP) and not _looks_for_constants():
        opened[now[-1]].add(arguments[0])


def _looks_for_constants() -> bool:
    """Whether Hypothesis reads the source of whatever was imported by anybody, to draw what is written there."""
    frame = sys._getframe()
    while frame := frame.f_back:
        if frame.f_globals.get("__name__") == "hypothesis.internal.constants_ast":
            return True
    return False


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    with pytest.MonkeyPatch.context() as during:
        during.setattr(f"{__name__}.now", [_path(collector.path)] if isinstance(collector, pytest.Module) else [])
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with pytest.MonkeyPatch.context() as during:
        during.setattr(f"{__name__}.now", [_path(item.path)])
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    yield
    test = _path(item.path)
    missed = overlooked(test, opened.pop(test, set()), _here())
    if missed:
        pytest.fail(
            f"{test} opened {', '.join(missed)}, and a change there would not choose it in `make check`. "
            "Spell the path of the file or of its folder in the test, or what `tests/reached.py` follows",
            pytrace=False,
        )


def overlooked(test: str, paths: set[str], here: Checkout) -> list[str]:
    """The files of the checkout behind these paths that the test is not known to reach."""
    if test not in here.tests:
        return []
    missed = {_source(path) for path in paths} & here.files - here.reached_by(test)
    return sorted(each for each in missed if not each.startswith(OF_ALL))


def _source(path: str) -> str:
    """Of a compiled module its source."""
    relative = path.removeprefix(TOP)
    folder, cached, name = relative.rpartition(CACHE)
    return f"{folder}{name.partition('.')[0]}.py" if cached else relative


def _path(path: Path) -> str:
    return str(path).removeprefix(TOP)


@cache
def _here() -> Checkout:
    return checkout()
