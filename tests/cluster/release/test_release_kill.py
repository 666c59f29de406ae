"""The whole walk: a runner killed at every single boundary of a release that is promoted, in memory. The quick tier takes every fifth."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headway.contract.reading.loader import load_tenant
from tests.unit.release_kill import Shelf, promoting, walk
from tests.unit.release_world import Scene

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
TENANTS = Path(__file__).parents[3] / "tenants"


EXPERIMENT = {"strategy": "ab", "split": {"share": "20%", "duration": "1h", "user_claim": "sub", "experiment": "tone"}}


@pytest.fixture(params=[{"weights": ["10%"]}, EXPERIMENT], ids=["canary", "experiment"])
def promoted(request: pytest.FixtureRequest) -> Callable[[], Scene]:
    (found,) = load_tenant(TENANTS / "vision").contracts
    contract = next(model for model in found.models if model.name == "defects")

    def made() -> Scene:
        scene = Scene.of(Shelf(), contract, mirror=None, **request.param)
        promoting(scene, 2)
        return scene

    return made


def test_wherever_a_runner_is_killed_the_next_promotes_and_repeats_no_step(promoted: Callable[[], Scene]) -> None:
    boundaries = 0
    for at, undisturbed, killed in walk(promoted):
        boundaries = at
        assert killed == undisturbed, f"killed at boundary {at}"
    assert boundaries > 100
