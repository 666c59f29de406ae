"""Objectives and their burn rate alerts. Expected values are written by hand."""

import pytest

from components.model_service import objectives
from headway.contract.units import Duration
from tests.components.contracts import MODELS, bodies, service


@pytest.mark.parametrize(
    ("threshold", "scale", "edge"),
    [("50ms", 1000, "50.0"), ("49ms", 1000, "10.0"), ("1ms", 1000, "5.0"), ("1h", 1000, "1000.0")],
)
def test_a_threshold_between_two_buckets_counts_by_the_stricter_one(threshold: str, scale: int, edge: str) -> None:
    assert objectives.edge_within(Duration.parse(threshold), (5, 10, 50, 1000), scale) == edge


def test_every_objective_has_its_rules_and_every_alert_a_runbook_and_a_receiver() -> None:
    for name, model in MODELS.items():
        groups = bodies(service(name), "PrometheusRule")[0]["spec"]["groups"]
        assert len(groups) == len(model.slo) + 1, "and one for a release that is stuck"
        for group in groups:
            for rule in group["rules"]:
                if "alert" in rule:
                    assert rule["annotations"]["runbook_url"].endswith(".md")
                    assert rule["labels"]["receiver"] == model.observability.receiver


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_container_beside_the_server_says_that_it_wants_no_gpu(name: str) -> None:
    """Its image is the server's, which names all GPUs of the node."""
    deployments = [m.body for m in service(name).manifests() if m.body["kind"] == "Deployment"]
    for spec in (body["spec"]["template"]["spec"] for body in deployments):
        containers = [*spec["containers"], *spec["initContainers"]]
        others = [c for c in containers if not any(resource.startswith("nvidia.com/") for resource in c["resources"]["limits"])]
        assert len(others) == len(containers) - 1
        assert all({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in c["env"] for c in others)
