"""What an update waits for, and how long. Pulumi's Kubernetes provider waits 600 s where nothing else is said."""

from typing import Any

import pytest

from components.model_service.manifests import ServicePlan
from headway.contract.arithmetic.startup import startup
from headway.contract.arithmetic.surge import batch_pool_for
from tests.components.contracts import MODELS, POOLS, SURROUNDINGS, pool_of, service

SKIP, SECONDS = "pulumi.com/skipAwait", "pulumi.com/timeoutSeconds"
PROVIDER_DEFAULT_SECONDS = 600


def annotations(plan: ServicePlan, kind: str) -> list[dict[str, str]]:
    found: list[dict[str, Any]] = [dict(m.body) for m in plan.manifests() if m.kind == kind]
    assert found, kind
    return [body["metadata"].get("annotations", {}) for body in found]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_an_update_waits_as_long_as_the_start_of_every_replica(name: str) -> None:
    plan = service(name)
    (stable,) = [body for body in annotations(plan, "Deployment") if SECONDS in body]
    model, pool = plan.model, plan.pool
    node = startup(model, pool).node.whole_seconds
    assert int(stable[SECONDS]) >= model.scaling.max_replicas * (node + model.health.startup_budget.whole_seconds)
    assert int(stable[SECONDS]) > PROVIDER_DEFAULT_SECONDS
    assert SKIP not in stable


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_rollout_makes_no_progress_only_after_the_longest_start(name: str) -> None:
    plan = service(name)
    deployment = next(m.body for m in plan.manifests() if m.kind == "Deployment")
    longest = startup(plan.model, plan.pool).node.whole_seconds + plan.model.health.startup_budget.whole_seconds
    assert deployment["spec"]["progressDeadlineSeconds"] > longest


@pytest.mark.parametrize("name", sorted(MODELS))
def test_no_update_waits_for_the_pods_of_a_service(name: str) -> None:
    assert all(body.get(SKIP) == "true" for body in annotations(service(name), "Service"))


def test_no_update_waits_for_workers_on_spot_capacity() -> None:
    model = MODELS["defects-night"]
    plan = ServicePlan.of("vision", model, pool_of(model), SURROUNDINGS, None, batch_pool_for(model, POOLS))
    workers = next(m.body for m in plan.manifests() if m.role == "batch-workers")
    assert workers["metadata"]["annotations"][SKIP] == "true"
