"""Contracts as strangers would write them, drawn from the vocabulary itself, and the objects that they become."""

import random
from dataclasses import replace
from functools import cache
from typing import Any

from components.model_service.manifests import ServicePlan
from headway.contract.arithmetic.surge import pool_for
from headway.contract.crosscheck import check_model
from headway.contract.model import Model
from headway.problem import ProblemLevel
from tests.components.contract_generator import varied
from tests.components.contracts import CHAT, CONTAINER, DEFECTS, EMBEDDINGS, MODELS, PLAIN, POOLS, SURROUNDINGS, changed
from tests.contract_data import contract_of

BATCH_POOL = next(pool for pool in POOLS if pool.name == "l4-spot")
BASES: list[dict[str, Any]] = [
    DEFECTS,
    EMBEDDINGS,
    CHAT,
    changed(DEFECTS, runtime=CONTAINER, **PLAIN).model_dump(mode="json", exclude_none=True),
    *(MODELS[name].model_dump(mode="json", exclude_none=True) for name in ("chat-mig", "defects-mps", "defects-slice", "plain-grpc")),
]


def sound(data: dict[str, Any]) -> bool:
    contract, _ = contract_of(data, Model)
    return contract is not None and all(concern.level is not ProblemLevel.ERROR for concern in check_model("vision", contract))


@cache
def stranger(seed: int) -> Model:
    """Written by its number; every rule that `check` has is kept."""
    return Model.model_validate(varied(BASES[seed % len(BASES)], Model, random.Random(seed), sound, 40))


def rendered(model: Model) -> list[dict[str, Any]]:
    pool = pool_for(model.model_copy(update={"placement": model.placement.model_copy(update={"pool": None})}), POOLS) or POOLS[0]
    fallback = model.degradation.fallback.model if model.degradation.fallback else None
    around = replace(SURROUNDINGS, batch_bucket="vision-batches")  # its store may be relative
    return [dict(manifest.body) for manifest in ServicePlan.of("vision", model, pool, around, fallback, BATCH_POOL).manifests()]
