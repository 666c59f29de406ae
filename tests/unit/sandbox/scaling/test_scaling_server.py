"""What the Cluster Autoscaler's process of the sandbox is started with."""

from pathlib import Path

import pytest

from headway.problem import UserError
from sandbox.cloud.scaling import server
from sandbox.extras import EXTRAS
from sandbox.layout import Layout

PROJECT = Path(__file__).parents[4]
LAYOUT = Layout(project=PROJECT, state=PROJECT / "none", cache=PROJECT / "none")


def test_its_arguments_are_those_of_the_chart_with_the_sandboxs_own_pools() -> None:
    given = server.arguments(LAYOUT)
    assert given.expander == ("priority", "least-waste") and given.scan_interval.total_seconds() == 10
    assert "^eks-a100-mig-[a-f]-[0-9a-f]{6}.*" in given.priorities[20]


@pytest.mark.parametrize(("text", "factor"), [(None, 1.0), ("", 1.0), ("15", 15.0), ("1.5", 1.5)])
def test_delays_pass_as_in_production_unless_a_setting_says_otherwise(text: str | None, factor: float) -> None:
    assert server.speed({} if text is None else {server.SPEED_VARIABLE: text}) == factor


@pytest.mark.parametrize("text", ["fast", "0", "-1", "nan", "1e9"])
def test_a_speed_that_is_none_is_refused_before_anything_starts(text: str) -> None:
    with pytest.raises(UserError, match="from 1 to 1000"):
        server.speed({server.SPEED_VARIABLE: text})


def test_a_node_boots_long_before_the_autoscaler_gives_it_up() -> None:
    assert server.arguments(LAYOUT).max_node_provision_time > server.BOOT * 5


def test_its_process_is_the_one_that_the_extra_names() -> None:
    assert EXTRAS["cluster-autoscaler"].processes == (server.NAME,)
