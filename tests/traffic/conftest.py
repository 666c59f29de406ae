"""One bed for all tests of this tier; each test leaves the stable releases serving."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.cluster.toolchain import is_built
from sandbox.layout import Layout
from sandbox.progress import Silent
from sandbox.traffic import profile
from tests.traffic.bed import PROJECT, Bed, running
from tests.traffic.serving import Serving

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="session")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    yield from running(tmp_path_factory.mktemp("bed"), Silent())


@pytest.fixture(scope="session")
def serving(bed: Bed) -> Serving:
    """Both services of the profile, served and reached through the gateway."""
    found = Serving.start(bed)
    for each in profile.SERVED:
        found.await_answer(each)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests wait for real servers on busy machines; on a fresh one also for the programs to be built."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(1800 if not is_built(Layout.of(PROJECT)) else 300))
