"""What the tests of rules and queries share."""

import pytest

from sandbox.cluster.toolchain import Toolchain, ensure_toolchain
from sandbox.layout import Layout
from sandbox.progress import Silent
from tests.cluster.conftest import PROJECT


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    """With promtool."""
    return ensure_toolchain(Layout.of(PROJECT), Silent(), ("prometheus",))
