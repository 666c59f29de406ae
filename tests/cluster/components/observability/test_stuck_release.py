"""A release that shares requests for too long, found by the real rule engine."""

from pathlib import Path

import pytest

from components.model_service import stuck_release
from sandbox.cluster.toolchain import Toolchain
from tests.cluster.components.observability.promtool import judge, series
from tests.components.contracts import DEFECTS, SURROUNDINGS, changed

pytestmark = pytest.mark.timeout(1800)

MODEL = changed(DEFECTS, rollout__strategy="blue_green", rollout__mirror=None, rollout__bake="1h", rollout__held_back="0%")
"""An hour and a half for two versions together."""
STEPS = 480
"""Two hours of fifteen seconds."""


def stuck(toolchain: Toolchain, folder: Path, shown: list[dict[str, str]], at: str, count: int) -> str:
    """What promtool has against: at that time so many alerts fire."""
    found = [{"labels": "{}", "value": count}] if count else []
    query = {"expr": 'count(ALERTS{alertname="ReleaseStuck",alertstate="firing"})', "eval_time": at, "exp_samples": found}
    test = {"interval": "15s", "input_series": shown, "promql_expr_test": [query]}
    return judge(toolchain, folder, [test], [stuck_release.group("vision", MODEL, SURROUNDINGS)])


def rate(release: str, values: str, model: str = "defects") -> dict[str, str]:
    return series("headway:request_rate", {"tenant": "vision", "model": model, "source": "mesh", "release": release}, values)


def test_two_releases_that_share_requests_for_too_long_alert(toolchain: Toolchain, tmp_path: Path) -> None:
    shown = [rate("r1", f"5x{STEPS}"), rate("r2", f"1x{STEPS}")]
    assert stuck(toolchain, tmp_path, shown, "85m", 0) == ""
    assert stuck(toolchain, tmp_path, shown, "95m", 1) == ""


def test_a_release_that_ends_in_time_is_silent(toolchain: Toolchain, tmp_path: Path) -> None:
    assert stuck(toolchain, tmp_path, [rate("r1", f"5x240 0x{STEPS - 240}"), rate("r2", f"1x{STEPS}")], "115m", 0) == ""


def test_two_services_with_a_release_each_are_no_release_that_is_stuck(toolchain: Toolchain, tmp_path: Path) -> None:
    assert stuck(toolchain, tmp_path, [rate("r1", f"5x{STEPS}"), rate("r2", f"1x{STEPS}", "embeddings")], "115m", 0) == ""
