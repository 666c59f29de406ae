"""What only shows when contracts are seen together: quotas, allowed runtimes, fallbacks, budgets, pools.

One module holds what is asked of a tenant, one what arithmetic says of a model, one what the pools of an environment allow. Pure; answers problems
whose subject is the contract that they stand in. Without pools the placement rules cannot run, and the caller is told so.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from headway.contract.arithmetic.quota import scarcest_of_quota
from headway.contract.arithmetic.surge import pool_for, spare_for
from headway.contract.crosscheck import arithmetic_of_model
from headway.contract.crosscheck import pool as pool_rules
from headway.contract.crosscheck import tenant as tenant_rules
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.tenant import Tenant
from headway.problem import Problem, ProblemLevel


@dataclass(frozen=True)
class TenantContracts:
    """A tenant with its models, sorted by name."""

    tenant: Tenant
    models: tuple[Model, ...]


def contract_name(tenant: str, model: str | None = None) -> str:
    """How a problem names the contract that it stands in: `vision/defects`, or `vision` for the tenant's own."""
    return f"{tenant}/{model}" if model else tenant


def _in(tenant: str, model: str | None, problems: Iterable[Problem], level: ProblemLevel = ProblemLevel.ERROR) -> Iterator[Problem]:
    return (replace(each, subject=contract_name(tenant, model), level=level) for each in problems)


def cross_check(contracts: TenantContracts, unread: frozenset[str] = frozenset()) -> Iterator[Problem]:
    """What can be said about one tenant without knowing the cluster; `unread` are models of it whose contracts are refused."""
    tenant, models = contracts.tenant, contracts.models
    yield from _in(tenant.name, None, (*tenant_rules.quota(tenant, models), *tenant_rules.budget(tenant, models)))
    yield from _in(tenant.name, None, tenant_rules.forecast(tenant, models), ProblemLevel.WARNING)
    for model in models:
        yield from _in(tenant.name, model.name, (*tenant_rules.allowed(tenant, model), *tenant_rules.fallback(model, models, unread)))


def check_peers(tenant: Tenant, others: Sequence[Tenant]) -> Iterator[Problem]:
    """What a tenant's contract says that another tenant's contradicts: they share one gateway."""
    yield from _in(tenant.name, None, tenant_rules.issuers(tenant, others))


def check_model(tenant: str, model: Model) -> Iterator[Problem]:
    """What arithmetic says about one model alone; `tenant` is the name of its folder."""
    yield from _in(tenant, model.name, _refusing(model))
    yield from _in(tenant, model.name, _warning(model), ProblemLevel.WARNING)


def _refusing(model: Model) -> Iterator[Problem]:
    yield from arithmetic_of_model.memory(model)
    yield from arithmetic_of_model.shared(model)
    yield from arithmetic_of_model.adapters(model)
    yield from arithmetic_of_model.start(model)


def _warning(model: Model) -> Iterator[Problem]:
    yield from arithmetic_of_model.error_budget(model)
    yield from arithmetic_of_model.links(model)
    yield from arithmetic_of_model.placeholders(model)


def check_pools(all_contracts: Sequence[TenantContracts], pools: Sequence[Pool]) -> Iterator[Problem]:
    """What depends on the environment's GPU pools; every tenant at once, because they share them."""
    placed: dict[str, list[tuple[TenantContracts, Model]]] = {pool.name: [] for pool in pools}
    for contracts in all_contracts:
        for model in contracts.models:
            pool = pool_for(model, pools)
            if pool is None:
                yield from _in(contracts.tenant.name, model.name, (pool_rules.no_pool(model, pools),))
                continue
            placed[pool.name].append((contracts, model))
            yield from _in(contracts.tenant.name, model.name, pool_rules.on_pool(model, pool))
            if model.batch:
                yield from _in(contracts.tenant.name, model.name, pool_rules.batch_pool(model, pools))
    for pool in pools:
        models = [model for _, model in placed[pool.name]]
        for contracts, model in placed[pool.name]:
            left = spare_for(model, pool, models)
            of_quota, field = scarcest_of_quota(contracts.tenant, contracts.models, model)
            scarce = field if of_quota < left else f"pool {pool.name}"
            yield from _in(contracts.tenant.name, model.name, pool_rules.rollout_room(model, max(0, min(left, of_quota)), scarce))
            if left < 0:
                yield from _in(contracts.tenant.name, model.name, (pool_rules.too_small(model, pool, left),), ProblemLevel.WARNING)
