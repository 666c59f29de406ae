"""Which releases are refused to a tenant's runner before they begin: all that would change what its role may not write."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from components.model_service.manifests import ServicePlan
from components.tenant import access
from components.tenant.manifests import TenantPlan
from headway.contract.arithmetic.surge import pool_for
from headway.contract.difference import RELEASED
from headway.contract.model import Model
from headway.contract.routing import Routing
from headway.release.beyond_runners import why_beyond
from tests.components.contract_generator import varied
from tests.components.contracts import CONTAINER, DEFECTS, PLAIN, POOLS, SURROUNDINGS, changed, tenant
from tests.components.strangers import BASES, BATCH_POOL, sound
from tests.contract_data import contract_of

OWN = {**PLAIN, "runtime": CONTAINER}
MIG = {"share": "mig", "accelerator": "a100-80gb", "profile": "1g.10gb", "memory": "8Gi"}
PICKED = Routing.ENDPOINT_PICKER.value
VISION, AROUND = tenant("vision"), replace(SURROUNDINGS, batch_bucket="vision-batches")
WRITTEN = {
    resource
    for role, body in access.roles(VISION)
    if role == "runner"
    for rule in body["rules"]
    if "patch" in rule["verbs"]
    for resource in rule["resources"]
}


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        (OWN, {}, "runtime.engine"),
        (OWN, {**OWN, "runtime__metrics__path": "/figures"}, "runtime.metrics.path"),
        ({}, {"workload_class": "throughput"}, "workload_class"),
        ({}, {"envelope__gpu": MIG, "placement__isolation": "mig"}, "envelope.gpu.accelerator"),
        (OWN, {**OWN, "runtime__port": 9100}, None),
    ],
)
def test_a_release_beyond_a_runners_rights_is_told_by_its_field(before: dict[str, Any], after: dict[str, Any], field: str | None) -> None:
    why = why_beyond(changed(DEFECTS, **before), changed(DEFECTS, **after), POOLS, counts_tokens=False)
    assert why is None if field is None else f"({field})" in (why or "")


def objects(model: Model) -> dict[tuple[str, str], str]:
    fallback = model.degradation.fallback.model if model.degradation.fallback else None
    service = ServicePlan.of("vision", model, pool_for(model, POOLS) or POOLS[0], AROUND, fallback, BATCH_POOL)
    around = TenantPlan(tenant=VISION, models=[model], pools=POOLS, surroundings=AROUND)
    return {(each.kind, each.name): json.dumps(each.body, sort_keys=True) for each in (*service.manifests(), *around.manifests())}


@pytest.mark.parametrize("seed", range(24))
def test_no_release_of_a_runner_changes_what_it_may_not_write(seed: int) -> None:
    # No environment takes an endpoint picker.
    was = varied(BASES[seed % len(BASES)], Model, random.Random(seed), lambda data: sound(data) and data.get("routing") != PICKED, 15)

    def released(data: dict[str, Any]) -> dict[str, Any]:
        return {**was, **{section: data[section] for section in RELEASED if section in data}}

    will = released(varied(was, Model, random.Random(seed + 1_000), lambda data: contract_of(released(data), Model)[0] is not None, 12))
    before, after = Model.model_validate(was), Model.model_validate(will)
    then, now = objects(before), objects(after)
    differ = {kind for kind, name in {*then, *now} if then.get((kind, name)) != now.get((kind, name))}
    refused = {kind for kind in differ if f"{kind.lower()}s" not in WRITTEN}
    assert why_beyond(before, after, POOLS, counts_tokens=VISION.quota.tokens is not None) or not refused
