"""What telemetry takes: arithmetic that the guide states and the environments' volumes hold."""

import re
from pathlib import Path

import pytest
import yaml

from components.addons import prometheus
from components.addons.prometheus import RETAINED_SHARE_PERCENT
from components.model_service.observing import SERIES_LIMIT
from components.observability.sizing import SERVER_SERIES, ServiceSize, day, series_of
from headway.contract.runtime import Engine
from headway.contract.units import Bytes

PROJECT = Path(__file__).parents[3]
HUNDRED = (*(ServiceSize(engine=Engine.VLLM) for _ in range(30)), *(ServiceSize(engine=Engine.TRITON) for _ in range(70)))
WHOLE = day(HUNDRED, nodes=60, gateways=6)


def test_productions_volume_holds_a_hundred_services_for_as_long_as_it_says() -> None:
    settings = yaml.safe_load((PROJECT / "stacks" / "Pulumi.prod-platform.yaml").read_text())["config"]["headway:observability"]
    needed = WHOLE.metrics_bytes * settings["metrics_days"] * 100 / RETAINED_SHARE_PERCENT
    assert needed <= int(Bytes.parse(settings["metrics_storage"]))


def test_the_guide_says_that_volumes_stay_while_retention_follows() -> None:
    """prometheus-operator, Documentation/platform/storage.md, "Resizing volumes": claims that are there are not expanded."""
    before, after = (prometheus.values(days=30, storage_bytes=size * 2**30)["prometheus"]["prometheusSpec"] for size in (100, 200))
    assert before["retentionSize"] != after["retentionSize"]
    guide = " ".join((PROJECT / "docs" / "guide" / "observability.md").read_text().split())
    assert "First patch the claims labelled `app.kubernetes.io/name=prometheus`" in guide


@pytest.mark.parametrize("engine", Engine)
def test_a_well_behaved_server_stays_far_under_its_limit_of_series(engine: Engine) -> None:
    assert SERVER_SERIES[engine] * 4 <= SERIES_LIMIT


def test_series_multiply_with_the_gateways_proxies() -> None:
    service = ServiceSize(engine=Engine.TRITON)
    one, two, three = (series_of(service, gateways) for gateways in (1, 2, 3))
    assert two - one == three - two > 300


def test_a_second_release_costs_its_own_series() -> None:
    assert series_of(ServiceSize(engine=Engine.VLLM, releases=2), 3) > 1.8 * series_of(ServiceSize(engine=Engine.VLLM, releases=1), 3)


def test_a_day_grows_with_what_is_logged_and_traced_alone() -> None:
    little, much = (day(HUNDRED, nodes=60, gateways=6, sampled=share, traced=share) for share in (0.1, 1.0))
    assert (little.metrics_bytes, little.printed_bytes) == (much.metrics_bytes, much.printed_bytes)
    assert much.log_bytes == pytest.approx(10 * little.log_bytes)
    assert much.trace_bytes == pytest.approx(10 * little.trace_bytes)


def test_the_guide_states_these_figures() -> None:
    text = (PROJECT / "docs" / "guide" / "observability.md").read_text()
    stated = re.search(
        r"([\d,]+) series; each day they make ([\d.]+) GB of metrics, ([\d.]+) GB of proxies' and ([\d.]+) GB of containers' logs, "
        r"and ([\d.]+) GB of traces",
        text.replace("\n", " "),
    )
    assert stated
    series, *sizes = stated.groups()
    assert int(series.replace(",", "")) == round(WHOLE.series, -2)
    assert sizes == [f"{size / 1e9:.1f}" for size in (WHOLE.metrics_bytes, WHOLE.log_bytes, WHOLE.printed_bytes, WHOLE.trace_bytes)]
