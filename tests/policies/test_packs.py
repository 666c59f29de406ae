"""The packs as an engine meets them: real processes, real protocol."""

from collections.abc import Iterator

import pytest

from policies.guardrails.registry import PACKS
from tests.policies.analyzer import Analyzer
from tests.policies.world import GOOD, spoilt

D = "kubernetes:apps/v1:Deployment"
SERVER = ("spec", "template", "spec", "containers", 0)
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
ADVISORY, MANDATORY = 0, 1


@pytest.fixture(scope="module")
def process() -> Iterator[Analyzer]:
    with Analyzer("tenant") as running:
        yield running


@pytest.fixture
def tenant(process: Analyzer) -> Analyzer:
    process.configure()
    return process


@pytest.mark.parametrize("layer", sorted(PACKS))
def test_a_pack_offers_every_rule_of_its_layer_by_name_and_level(layer: str) -> None:
    with Analyzer(layer) as pack:
        offered = {p.name: p.enforcementLevel for p in pack.info.policies}
    assert pack.info.name == f"headway-{layer}"
    assert {r.id for r in PACKS[layer]} <= set(offered)
    assert all(offered[r.id] == MANDATORY for r in PACKS[layer])


def test_a_well_made_resource_passes(tenant: Analyzer) -> None:
    assert tenant.analyze(D, GOOD[D]) == {}


def test_a_breach_is_reported_once_under_its_own_rule_as_mandatory(tenant: Analyzer) -> None:
    found = tenant.analyze(D, spoilt(D, (*SERVER, "image"), "triton:latest"))
    assert list(found) == ["image-by-digest"]
    ((level, message),) = found["image-by-digest"]
    assert level == MANDATORY
    assert "spec.template.spec.containers[0].image: triton:latest is not named by a digest" in message


def test_the_configuration_of_a_rule_reaches_that_rule(tenant: Analyzer) -> None:
    eight = spoilt(D, (*SERVER, "resources"), {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "8"}})
    assert tenant.analyze(D, eight) == {}
    tenant.configure({"gpus-per-pod-bounded": {"maxGpusPerPod": 4}})
    assert list(tenant.analyze(D, eight)) == ["gpus-per-pod-bounded"]


def test_an_environment_can_lower_or_disable_a_rule(tenant: Analyzer) -> None:
    tagged = spoilt(D, (*SERVER, "image"), "triton:latest")
    tenant.configure({"image-by-digest": {"level": "advisory"}})
    assert tenant.analyze(D, tagged)["image-by-digest"][0][0] == ADVISORY
    tenant.configure({"image-by-digest": {"level": "disabled"}})
    assert tenant.analyze(D, tagged) == {}


def test_rules_hold_without_the_gate(tenant: Analyzer) -> None:
    tenant.configure({"rules-are-evaluated": {"level": "disabled"}})
    assert tenant.analyze(D, GOOD[D]) == {}
    assert list(tenant.analyze(D, spoilt(D, (*SERVER, "image"), "triton:latest"))) == ["image-by-digest"]


def test_an_unknown_value_leaves_the_other_rules_mandatory(tenant: Analyzer) -> None:
    properties = spoilt(D, (*SERVER, "image"), UNKNOWN)
    properties["spec"]["template"]["spec"]["hostNetwork"] = True
    found = tenant.analyze(D, properties)
    assert found["no-host-access"][0][0] == MANDATORY
    assert all(level == ADVISORY for level, _ in found["rules-are-evaluated"])
    assert any(
        "image-by-digest could not be evaluated: spec.template.spec.containers[0].image" in m for _, m in found["rules-are-evaluated"]
    )


def test_a_verdict_is_never_used_for_the_next_resource(tenant: Analyzer) -> None:
    tenant.analyze(D, spoilt(D, (*SERVER, "image"), "triton:latest"))
    assert tenant.analyze(D, GOOD[D], name="y") == {}


def test_a_raw_manifest_is_bound_by_the_same_rules(tenant: Analyzer) -> None:
    raw = {"kind": "Pod", "spec": {"containers": [{"name": "a", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
    for type in ("kubernetes:core/v1:Pod", "kubernetes:v1:Pod"):  # the second is what CustomResource registers
        assert {"image-by-digest", "gpu-workload-is-labelled", "gpu-workload-in-tenant-namespace"} <= set(tenant.analyze(type, raw))


def test_the_work_of_a_disabled_rule_is_not_done_later(tenant: Analyzer) -> None:
    tenant.configure({"image-by-digest": {"level": "disabled"}})
    for i in range(8):
        tenant.analyze(D, spoilt(D, (*SERVER, "image"), "triton:latest"), name=str(i))
    tenant.configure({"rules-are-evaluated": {"level": "disabled"}})
    assert [tenant.analyze(D, GOOD[D], name=str(i)) for i in range(8)] == [{}] * 8
