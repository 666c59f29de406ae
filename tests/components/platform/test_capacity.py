"""Warm capacity: places and images that are kept on nodes."""

from typing import Any

import pytest

from components.platform import capacity, namespaces
from headway.contract.arithmetic.startup import startup
from headway.contract.arithmetic.warm import warm_units
from headway.contract.placement import WorkloadClass
from headway.wire import MIG_TAINT
from tests.components.contracts import DEFECTS, MODELS, POOLS, changed, pool_of
from tests.components.platform.test_platform import INTRA, by_role, pool
from tests.components.program import layer


def test_warm_capacity_gives_way_to_everything() -> None:
    found = by_role(capacity.manifests([capacity.Warm(pool=pool("l4"), units=2)]))
    assert found["placeholder"]["value"] < 0
    assert found["warm-l4"]["spec"]["replicas"] == 2
    pod = found["warm-l4"]["spec"]["template"]["spec"]
    assert (pod["priorityClassName"], pod["terminationGracePeriodSeconds"]) == ("headway-placeholder", 0)


def test_a_placeholder_takes_one_unit_of_its_own_pool() -> None:
    sliced = pool(
        "sliced", instance_types=["p4de.24xlarge"], sharing={"mode": "mig", "layout": {"1g.10gb": 7}}, workload_class="throughput"
    )
    pod = by_role(capacity.manifests([capacity.Warm(pool=sliced, units=1)]))["warm-sliced"]["spec"]["template"]["spec"]
    resources = pod["containers"][0]["resources"]
    assert resources["limits"] == resources["requests"]
    assert resources["limits"]["nvidia.com/mig-1g.10gb"] == "1"
    assert pod["nodeSelector"] == {"platform.io/pool": "sliced"}
    assert [each["key"] for each in pod["tolerations"]] == ["nvidia.com/gpu"], "nothing takes a slice before there is one"


@pytest.mark.parametrize(
    ("sharing", "stays"), [({"mode": "whole"}, False), ({"mode": "mps", "replicas": 4}, True)], ids=["whole", "shared"]
)
def test_a_placeholder_keeps_a_node_of_which_the_autoscaler_sees_no_use(sharing: dict[str, Any], stays: bool) -> None:
    body = by_role(capacity.manifests([capacity.Warm(pool=pool("l4", sharing=sharing), units=1)]))["warm-l4"]
    said = body["spec"]["template"]["metadata"].get("annotations", {}).get("cluster-autoscaler.kubernetes.io/safe-to-evict")
    assert said == ("false" if stays else None)


def test_placeholders_are_pinned_by_digest() -> None:
    deployment = layer("sandbox-platform").one("kubernetes:apps/v1:Deployment", "capacity-warm-l4")
    assert "@sha256:" in deployment.inputs["spec"]["template"]["spec"]["containers"][0]["image"]


def test_every_node_pulls_the_images_of_its_pools_models_in_advance() -> None:
    images = (f"registry.test/a@sha256:{'a' * 64}", f"registry.test/b@sha256:{'b' * 64}")
    found = by_role(capacity.manifests([capacity.Warm(pool=pool("l4"), units=0, images=images)]))
    assert "warm-l4" not in found, "no room is kept where none is needed"
    pod = found["prefetch-l4"]["spec"]["template"]["spec"]
    assert tuple(container["image"] for container in pod["initContainers"]) == images
    assert not any(name.startswith("nvidia.com/") for container in pod["initContainers"] for name in container["resources"]["limits"])
    assert all({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"] for container in pod["initContainers"]), (
        "an image made for CUDA would be given every GPU of the node, or fail where it is newer than the driver"
    )
    assert pod["nodeSelector"] == {"platform.io/pool": "l4"}


def test_images_are_pulled_while_mig_cuts_the_node() -> None:
    cut = pool("cut", instance_types=["p4de.24xlarge"], sharing={"mode": "mig", "layout": {"1g.10gb": 7}}, workload_class="throughput")
    warm = capacity.Warm(pool=cut, units=0, images=(f"registry.test/a@sha256:{'a' * 64}",))
    pod = by_role(capacity.manifests([warm]))["prefetch-cut"]["spec"]["template"]["spec"]
    assert [each["key"] for each in pod["tolerations"]] == ["nvidia.com/gpu", MIG_TAINT]


def test_what_starts_tenants_images_for_their_nodes_opens_no_connection() -> None:
    policies = {role: body["spec"] for role, body in by_role(namespaces.manifests(INTRA)).items() if role.endswith("-closed")}
    mute = sorted(role for role, spec in policies.items() if "Egress" in spec["policyTypes"] and not spec.get("egress"))
    assert mute == ["warm-capacity-closed"], "code of a tenant would run outside its namespace's isolation"


def test_the_sandboxes_nodes_hold_what_its_tenants_run() -> None:
    daemon = layer("sandbox-platform").one("kubernetes:apps/v1:DaemonSet", "capacity-prefetch-l4")
    pulled = {container["image"] for container in daemon.inputs["spec"]["template"]["spec"]["initContainers"]}
    assert MODELS["defects"].runtime.image in pulled


def test_the_places_that_contracts_pay_for_are_kept_free() -> None:
    model = changed(DEFECTS, scaling__warm_replicas=3)
    assert warm_units(pool_of(model), POOLS, [model]) == 3 * model.envelope.gpu.count


def test_a_budget_that_a_new_node_would_break_keeps_one_place_free() -> None:
    model = changed(DEFECTS, scaling__warm_replicas=0)
    home = pool_of(model)
    cold = startup(model, home)
    assert home.workload_class is WorkloadClass.LATENCY
    tight = changed(DEFECTS, scaling__warm_replicas=0, health__startup_budget=str(cold.pod))
    roomy = changed(DEFECTS, scaling__warm_replicas=0, health__startup_budget=str(cold.cold))
    assert warm_units(home, POOLS, [tight]) == tight.envelope.gpu.count
    assert warm_units(home, POOLS, [roomy]) == 0
    assert warm_units(home, POOLS, []) == 0


def test_a_model_keeps_nothing_warm_on_anothers_pool() -> None:
    model = changed(DEFECTS, scaling__warm_replicas=3)
    others = [each for each in POOLS if each is not pool_of(model)]
    assert [warm_units(each, POOLS, [model]) for each in others] == [0] * len(others)
