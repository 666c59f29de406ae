"""No add-on is given a value that its chart does not know: Helm drops such a key without a word.

`chart_values.json` holds, for each chart at its pinned version, the paths of its own values.yaml; `free` are the
mappings that it hands on as they are, and keys that its templates read without a default. Of the charts of
observability only those paths are kept that stand beside something given here; a chart's own charts are part of it.
A new version of a chart needs its paths read anew.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from components import versions
from components.addons import (
    cert_manager,
    cluster_autoscaler,
    gpu_operator,
    istio,
    keda,
    load_balancer,
    loki,
    node_logs,
    otel,
    prometheus,
    tempo,
)
from components.addons.images import SWITCHES, UnswitchedChartError, switched
from tests.components.contracts import POOLS

KNOWN: Mapping[str, Mapping[str, Any]] = json.loads(Path(__file__).with_name("chart_values.json").read_text())
ROLE = {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/x"}
"""What IRSA has a service account carry."""
GIVEN: Mapping[str, Mapping[str, Any]] = {
    "aws-load-balancer-controller": load_balancer.values("cluster", "us-east-1", "vpc-1", {"team": "platform"}, ROLE),
    "base": istio.base_values(),
    "cert-manager": cert_manager.values(ROLE),
    "cluster-autoscaler": cluster_autoscaler.values("cluster", "us-east-1", POOLS, ROLE),
    "cni": istio.node_agent_values(),
    "gateway": istio.gateway_values(replicas_min=2, replicas_max=3, histogram_buckets="{}"),
    "gpu-operator": gpu_operator.values(POOLS),
    "istiod": istio.control_plane_values("collector", 4317),
    "keda": keda.values("cluster", ROLE),
    "kube-prometheus-stack": prometheus.values(days=30, storage_bytes=2**39),
    "loki": loki.values(bucket="bucket", region="us-west-2", days=14, annotations=ROLE),
    "opentelemetry-collector": otel.values(bucket="telemetry", region="us-east-1", annotations=ROLE),
    "opentelemetry-collector on nodes": node_logs.values("class"),
    "prometheus-operator-crds": prometheus.definitions_values(),
    "tempo": tempo.values(bucket="bucket", region="us-west-2", days=7, annotations=ROLE),
}


def chart_of(release: str) -> str:
    """The chart of a release: the first word of its name above."""
    return release.partition(" ")[0]


def unknown(given: Mapping[str, Any], values: set[str], free: set[str], path: str = "") -> Iterator[str]:
    """Paths of `given` that the chart does not read."""
    for key, value in given.items():
        here = f"{path}.{key}" if path else key
        if here in free:
            continue
        if isinstance(value, Mapping) and any(each.startswith(f"{here}.") for each in values | free):
            yield from unknown(value, values, free, here)
        elif here not in values:
            yield here


@pytest.mark.parametrize("release", sorted(GIVEN))
def test_a_chart_knows_every_value_that_it_is_given(release: str) -> None:
    known = KNOWN[chart_of(release)]
    assert list(unknown(GIVEN[release], set(known["values"]), set(known["free"]))) == []


@pytest.mark.parametrize("chart", sorted({chart_of(release) for release in GIVEN}))
def test_the_paths_are_those_of_the_version_that_is_installed(chart: str) -> None:
    (installed,) = [each for each in versions.CHARTS if each.chart == chart]
    assert KNOWN[chart]["version"] == installed.version, "read the new chart's values.yaml"


def test_every_chart_that_is_installed_is_compared() -> None:
    assert {chart_of(release) for release in GIVEN} == {each.chart for each in versions.CHARTS}


def test_an_invented_key_is_found() -> None:
    known = KNOWN["gpu-operator"]
    invented = {"dcgmExporter": {"counters": "x"}, "driver": {"enabled": False}, "telemetry": {}}
    assert list(unknown(invented, set(known["values"]), set(known["free"]))) == ["dcgmExporter.counters", "telemetry"]


@pytest.mark.parametrize("release", sorted(GIVEN))
def test_a_chart_knows_every_value_that_points_it_at_a_mirror(release: str) -> None:
    known, chart = KNOWN[chart_of(release)], chart_of(release)
    given = switched(chart, GIVEN[release], "registry.example.com/mirror")
    assert list(unknown(given, set(known["values"]), set(known["free"]))) == []
    if any(each.images for each in versions.CHARTS if each.chart == chart) and chart != "gateway":
        assert "registry.example.com/mirror/images" in json.dumps(given)


def test_a_chart_of_which_nobody_knows_where_it_pulls_from_is_refused() -> None:
    with pytest.raises(UnswitchedChartError, match="does not say where new-one pulls from"):
        switched("new-one", {}, "registry.example.com/mirror")
    assert switched("new-one", {"a": 1}, None) == {"a": 1}


def test_every_chart_has_its_switch() -> None:
    assert set(SWITCHES) == {each.chart for each in versions.CHARTS}


def test_every_part_of_the_gpu_operator_has_its_switch() -> None:
    """Its own containers are made by the operator later, so no rendered chart names them all. Of its manager of virtual GPUs the chart names no
    repository."""
    known = {path for path in KNOWN["gpu-operator"]["values"] if path.endswith(".repository")}
    assert set(SWITCHES["gpu-operator"]) == known - {"vgpuManager.repository"}


def test_what_was_given_stays_beside_what_is_switched() -> None:
    values = switched("gpu-operator", gpu_operator.values(POOLS), "registry.example.com/mirror")
    assert values["driver"] == {
        "enabled": False,
        "manager": {"repository": "registry.example.com/mirror/images/nvidia/cloud-native"},
        "repository": "registry.example.com/mirror/images/nvidia",
    }
