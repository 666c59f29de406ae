"""What `headway check` asks beyond the contract itself: model registries, an environment, the gate."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headway.contract.model import Model
    from headway.contract.reading.loader import ModelCheck
    from headway.problem import Problem


def registries() -> "ModelCheck":
    """Compares each model's artifact with the registry that it names; a registry is reached when the first contract names it."""
    from functools import cache

    from headway.contract.artifact import Registry
    from headway.model_registry.entry import ModelRegistry, disagreements
    from headway.model_registry.mlflow import MlflowRegistry
    from headway.model_registry.sagemaker import SageMakerRegistry

    @cache
    def opened(system: Registry) -> ModelRegistry:
        return MlflowRegistry.of(os.environ) if system is Registry.MLFLOW else SageMakerRegistry.of()

    return lambda _, model: disagreements(model.artifact, opened(model.artifact.registry.system))


def surroundings(environment: str, stacks: Path) -> "ModelCheck":
    """Says what the environment lacks for a model: artifacts and images that its nodes could not read, a bucket and queues for its batch work."""
    from headway.contract.crosscheck.batch_store import placed, queued_out_of_reach
    from headway.contract.crosscheck.bucket import of_another_environment
    from headway.contract.crosscheck.image import without_nat
    from headway.contract.reading.document import read_file
    from headway.contract.reading.network import account_of, closed_network
    from headway.contract.reading.tenants import batch_bucket_of, stack_file

    cluster = read_file(stacks / f"Pulumi.{environment}-cluster.yaml")
    account, closed = account_of(cluster), closed_network(cluster)

    def lacks(tenant: str, model: "Model") -> "Iterator[Problem]":
        if account is not None:
            yield from of_another_environment(model, environment, account)
        if closed is not None:
            yield from without_nat(model, closed.region)
            yield from queued_out_of_reach(model, closed.endpoints)
        yield from placed(model, batch_bucket_of(environment, tenant, stacks), stack_file(environment, tenant))

    return lacks


def provable(tenant: str, model: "Model") -> "Iterator[Problem]":
    """What a contract that states its traffic could not have proven; only such a one waits for a forecast."""
    if model.rollout.usual_requests is None:
        return
    from headway.release.forecast import unproven

    yield from unproven(tenant, model)


def judges(*each_judge: "ModelCheck | None") -> "ModelCheck":
    """What all of them say."""
    return lambda tenant, model: (problem for judge in each_judge if judge is not None for problem in judge(tenant, model))
