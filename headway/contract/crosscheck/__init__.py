"""What only shows when contracts are seen together: quotas, allowed runtimes, fallbacks, budgets, pools.

One module holds what is asked of a tenant, one what arithmetic says of a model, one what the pools of an environment allow. Pure; answers problems
whose subject is the contract that they stand in. Without pools the placement rules cannot run, and the caller is told so.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from headway.contract.arithmetic.quota import scarcest_of_quota
from headway.contract.arithmetic.surge import pool_for, spare_for
from headway.contract.crosscheck import apart as apart_rules
from headway.contract.crosscheck import arithmetic_of_model
from headway.contract.crosscheck import pipelined as pipeline_rules
from headway.contract.crosscheck import pool as pool_rules
from headway.contract.crosscheck import tenant as tenant_rules
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.roles import in_section, prefill_of, roles_of
from headway.contract.tenant import Tenant
from headway.problem import Problem, ProblemLevel


@dataclass(frozen=True)
class TenantContracts:
    """A tenant with its models, sorted by name."""

    tenant: Tenant
    models: tuple[Model, ...]

    @property
    def roles(self) -> tuple[Model, ...]:
        """What its replicas are charged as: a model whose prompts are read by others counts twice."""
        return tuple(role for model in self.models for role in roles_of(model))


def contract_name(tenant: str, model: str | None = None) -> str:
    """How a problem names the contract that it stands in: `vision/defects`, or `vision` for the tenant's own."""
    return f"{tenant}/{model}" if model else tenant


def _in(tenant: str, model: str | None, problems: Iterable[Problem], level: ProblemLevel = ProblemLevel.ERROR) -> Iterator[Problem]:
    return (replace(each, subject=contract_name(tenant, model), level=level) for each in problems)


def cross_check(contracts: TenantContracts, unread: frozenset[str] = frozenset()) -> Iterator[Problem]:
    """What can be said about one tenant without knowing the cluster; `unread` are models of it whose contracts are refused."""
    tenant, models, roles = contracts.tenant, contracts.models, contracts.roles
    yield from _in(tenant.name, None, (*tenant_rules.quota(tenant, roles), *tenant_rules.budget(tenant, roles)))
    yield from _in(tenant.name, None, tenant_rules.forecast(tenant, roles), ProblemLevel.WARNING)
    for model in models:
        yield from _in(tenant.name, model.name, (*tenant_rules.allowed(tenant, model), *tenant_rules.fallback(model, models, unread)))


def check_peers(tenant: Tenant, others: Sequence[Tenant]) -> Iterator[Problem]:
    """What a tenant's contract says that another tenant's contradicts: they share one gateway."""
    yield from _in(tenant.name, None, tenant_rules.issuers(tenant, others))


def check_model(tenant: str, model: Model) -> Iterator[Problem]:
    """What arithmetic says about one model alone; `tenant` is the name of its folder."""
    yield from _in(tenant, model.name, (*_refusing(model), *apart_rules.prefill_keeps_up(model)))
    yield from _in(tenant, model.name, (*_warning(model), *apart_rules.worth_it(model)), ProblemLevel.WARNING)
    if prefill := prefill_of(model):
        yield from _in(tenant, model.name, in_section(_refusing(prefill)))
        yield from _in(tenant, model.name, in_section(_of_replicas(prefill)), ProblemLevel.WARNING)


def check_without_pools(all_contracts: Sequence[TenantContracts]) -> Iterator[Problem]:
    """What every environment would refuse, said before one is named."""
    for contracts in all_contracts:
        for model in contracts.models:
            yield from _in(contracts.tenant.name, model.name, apart_rules.not_deployed(model), ProblemLevel.WARNING)


def _refusing(model: Model) -> Iterator[Problem]:
    yield from arithmetic_of_model.memory(model)
    yield from arithmetic_of_model.shared(model)
    yield from arithmetic_of_model.adapters(model)
    yield from arithmetic_of_model.start(model)


def _of_replicas(model: Model) -> Iterator[Problem]:
    yield from arithmetic_of_model.error_budget(model)
    yield from arithmetic_of_model.links(model)
    yield from pipeline_rules.joined_by_tcp(model)


def _warning(model: Model) -> Iterator[Problem]:
    yield from _of_replicas(model)
    yield from arithmetic_of_model.placeholders(model)


def check_pools(all_contracts: Sequence[TenantContracts], pools: Sequence[Pool]) -> Iterator[Problem]:
    """What depends on the environment's GPU pools; every tenant at once, because they share them."""
    placed: dict[str, list[_Placed]] = {pool.name: [] for pool in pools}
    for contracts in all_contracts:
        for model in contracts.models:
            yield from _in(contracts.tenant.name, model.name, (*apart_rules.not_deployed(model), *apart_rules.network(model, pools)))
            for role in roles_of(model):
                each = _Placed(contracts, model, role)
                pool = pool_for(role, pools)
                if pool is None:
                    yield from each.found((pool_rules.no_pool(role, pools),))
                    continue
                placed[pool.name].append(each)
                yield from each.found((*pool_rules.on_pool(role, pool), *pipeline_rules.on_pool(role, pool)))
            if model.batch and pool_for(model, pools):
                yield from _in(contracts.tenant.name, model.name, pool_rules.batch_pool(model, pools))
    for pool in pools:
        roles = [each.role for each in placed[pool.name]]
        for each in placed[pool.name]:
            left = spare_for(each.role, pool, roles)
            of_quota, field = scarcest_of_quota(each.contracts.tenant, each.contracts.roles, each.role)
            scarce = field if of_quota < left else f"pool {pool.name}"
            yield from each.found(pool_rules.rollout_room(each.role, max(0, min(left, of_quota)), scarce))
            if left < 0:
                yield from each.found((pool_rules.too_small(each.role, pool, left),), ProblemLevel.WARNING)


@dataclass(frozen=True)
class _Placed:
    """A role of a model on a pool."""

    contracts: TenantContracts
    model: Model
    role: Model

    def found(self, problems: Iterable[Problem], level: ProblemLevel = ProblemLevel.ERROR) -> Iterator[Problem]:
        """Said of the contract that the role is one of."""
        return _in(self.contracts.tenant.name, self.model.name, problems if self.role is self.model else in_section(problems), level)
