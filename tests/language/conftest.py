"""One engine for all tests of this tier: vLLM takes minutes to start, and several would fight for two processors."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.progress import Silent
from sandbox.traffic.profile import LANGUAGE
from tests.language.sorter import Sorter
from tests.traffic.bed import Bed, running

STARTING_SECONDS = 2400


@pytest.fixture(scope="session")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Where nothing serves yet."""
    yield from running(tmp_path_factory.mktemp("bed"), Silent(), (LANGUAGE,))


@pytest.fixture(scope="session")
def sorter(bed: Bed) -> Sorter:
    """The language model of the profile, served by vLLM and reached through the gateway."""
    found = Sorter.start(bed)
    found.await_ready(STARTING_SECONDS)
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test waits for the engine, and once for its model to be trained."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(2 * STARTING_SECONDS))
