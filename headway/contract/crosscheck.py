"""What only shows when contracts are seen together: quotas, allowed runtimes, fallbacks, budgets, pools.

Also holds the arithmetic against the contract, for it needs the whole. Pure; answers problems whose subject is the contract that they stand in. The
trap: without pools the placement rules cannot run, and the caller is told so instead of being told that all is well.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from headway.contract.arithmetic.cost import cost
from headway.contract.arithmetic.fit import fit, fit_ram
from headway.contract.arithmetic.node import node_room
from headway.contract.arithmetic.quota import quota_use, spare_devices_by_quota, token_use
from headway.contract.arithmetic.startup import budget_burn, startup
from headway.contract.arithmetic.surge import Room, batch_pool_for, first_arms, pool_for, spare_for, surge
from headway.contract.model import Model
from headway.contract.placement import WorkloadClass
from headway.contract.pool import Pool
from headway.contract.rollout import Strategy, Surge
from headway.contract.runtime import Engine
from headway.contract.starter import PLACEHOLDER
from headway.contract.tenant import MODELS_AT_MOST, Tenant
from headway.contract.units import Bytes, Money
from headway.problem import Problem, ProblemLevel, problem


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
    yield from _in(tenant.name, None, (*_quota(tenant, models), *_budget(tenant, models)))
    yield from _in(tenant.name, None, _forecast(tenant, models), ProblemLevel.WARNING)
    for model in models:
        yield from _in(tenant.name, model.name, (*_allowed(tenant, model), *_fallback(model, models, unread)))


def check_model(tenant: str, model: Model) -> Iterator[Problem]:
    """What arithmetic says about one model alone; `tenant` is the name of its folder."""
    yield from _in(tenant, model.name, (*_memory(model), *_start(model)))
    yield from _in(tenant, model.name, (*_error_budget(model), *_placeholders(model)), ProblemLevel.WARNING)


def check_pools(all_contracts: Sequence[TenantContracts], pools: Sequence[Pool]) -> Iterator[Problem]:
    """What depends on the environment's GPU pools; every tenant at once, because they share them."""
    placed: dict[str, list[tuple[TenantContracts, Model]]] = {pool.name: [] for pool in pools}
    for contracts in all_contracts:
        for model in contracts.models:
            pool = pool_for(model, pools)
            if pool is None:
                yield from _in(contracts.tenant.name, model.name, (_no_pool(model, pools),))
                continue
            placed[pool.name].append((contracts, model))
            yield from _in(contracts.tenant.name, model.name, _on_pool(model, pool))
            if model.batch:
                yield from _in(contracts.tenant.name, model.name, _batch_pool(model, pools))
    for pool in pools:
        models = [model for _, model in placed[pool.name]]
        for contracts, model in placed[pool.name]:
            left = spare_for(model, pool, models)
            spare = min(left, spare_devices_by_quota(contracts.tenant, contracts.models, model))
            yield from _in(contracts.tenant.name, model.name, _rollout_room(model, pool, max(0, spare)))
            if left < 0:
                yield from _in(contracts.tenant.name, model.name, (_too_small(model, pool, left),), ProblemLevel.WARNING)


def _quota(tenant: Tenant, models: Sequence[Model]) -> Iterator[Problem]:
    for use in quota_use(tenant, models):
        if not use.within:
            share = "; ".join(f"{line.what} {line.figure} = {line.why}" for line in use.lines)
            yield problem(
                "quota-at-maximum-replicas",
                *use.path,
                value=use.show(use.limit),
                fact=f"all models at their maximum need {use.show(use.used)}, {use.show(use.limit)} granted ({share})",
                consequence="Scaling up would stop in the middle of a load peak, refused by the namespace's quota",
                remedy=f"Grant {use.show(use.used)}, or lower max_replicas, warm_replicas or batch.max_replicas of a model",
            )
    if len(models) > MODELS_AT_MOST:
        yield problem(
            "models-at-most",
            value=len(models),
            fact=f"the tenant has {len(models)} models, {MODELS_AT_MOST} is the limit",
            consequence="Its stack would take minutes for the smallest change",
            remedy="Divide the models over two tenants",
        )
    tokens = token_use(models)
    if tokens and tenant.quota.tokens is None:
        yield problem(
            "token-quota-of-language-models",
            "quota",
            "tokens",
            fact="language models without a token quota",
            consequence="One caller with long answers could take the whole budget, within its quota of requests",
            remedy=f"Grant tokens; all models at their maximum generate {tokens}",
        )


def _budget(tenant: Tenant, models: Sequence[Model]) -> Iterator[Problem]:
    least = Money(sum(int(cost(model).month_at_least) for model in models))
    if least > tenant.quota.monthly_budget:
        yield problem(
            "budget-covers-the-minimum",
            "quota",
            "monthly_budget",
            value=tenant.quota.monthly_budget,
            fact=f"minimum replicas alone cost {least.brief} a month at list price",
            consequence="The budget alarm would fire every month with nobody calling",
            remedy=f"Raise the budget to {least.brief} or more, or lower min_replicas or warm_replicas",
        )


def _forecast(tenant: Tenant, models: Sequence[Model]) -> Iterator[Problem]:
    least = Money(sum(int(cost(model).month_at_least) for model in models))
    most = Money(sum(int(cost(model).month_at_most) for model in models))
    if least <= tenant.quota.monthly_budget < most:
        yield problem(
            "budget-may-be-exceeded",
            "quota",
            "monthly_budget",
            value=tenant.quota.monthly_budget,
            fact=f"maximum replicas all month would cost {most.brief} at list price",
            consequence="A busy month ends in a budget alarm",
            remedy="Nothing to do where that is intended; the alarm comes at forecast, before the money is spent",
        )


def _allowed(tenant: Tenant, model: Model) -> Iterator[Problem]:
    if model.runtime.engine not in tenant.runtimes:
        yield problem(
            "runtime-allowed",
            "runtime",
            "engine",
            value=model.runtime.engine,
            fact=f"tenant {tenant.name} may use {', '.join(tenant.runtimes)}, not {model.runtime.engine}",
            consequence="Nobody has agreed to operate this runtime for the tenant",
            remedy="Use an allowed one, or have it added to runtimes in tenant.yaml",
        )
    if f"/{tenant.name}/" not in model.artifact.uri.removeprefix("s3:/"):
        yield problem(
            "artifact-below-the-tenant",
            "artifact",
            "uri",
            value=model.artifact.uri,
            fact=f"the prefix has no part named {tenant.name}",
            consequence="The tenant's identity reads below its own name only, so no replica could fetch the artifact",
            remedy=f"Store it below .../{tenant.name}/{model.name}/<version>/",
        )
    if model.batch and f"/{tenant.name}/" not in model.batch.store.removeprefix("s3:/"):
        yield problem(
            "batch-store-below-the-tenant",
            "batch",
            "store",
            value=model.batch.store,
            fact=f"the prefix has no part named {tenant.name}",
            consequence="The tenant's identity writes below its own name only, so no answer could be stored",
            remedy=f"Use a prefix below .../{tenant.name}/",
        )


def _fallback(model: Model, models: Sequence[Model], unread: frozenset[str]) -> Iterator[Problem]:
    by_name = {other.name: other for other in models}
    if model.degradation.fallback is None or model.degradation.fallback.model in unread:
        return
    path = ("degradation", "fallback", "model")
    name = model.degradation.fallback.model
    if name not in by_name:
        others = sorted(set(by_name) - {model.name})
        yield problem(
            "fallback-exists",
            *path,
            value=name,
            fact=f"the tenant has no model {name}",
            consequence="Overload would send requests to nothing",
            remedy=f"Use one of {', '.join(others)}" if others else "Leave fallback out: the tenant has no other model",
        )
        return
    chain, at = [model.name], name
    while at in by_name and at not in chain:
        chain.append(at)
        further = by_name[at].degradation.fallback
        at = further.model if further else ""
    if at == model.name and len(chain) > 1:
        yield problem(
            "fallback-without-a-circle",
            *path,
            value=name,
            fact=f"the fallback leads back: {' -> '.join([*chain, at])}",
            consequence="Under overload a request would go round until it times out",
            remedy="Let the lightest model have no fallback",
        )
    if by_name[name].runtime.engine is not model.runtime.engine and Engine.VLLM in (by_name[name].runtime.engine, model.runtime.engine):
        yield problem(
            "fallback-speaks-the-same",
            *path,
            value=name,
            fact=f"{model.name} runs on {model.runtime.engine}, {name} on {by_name[name].runtime.engine}",
            consequence="The fallback would not understand the requests it is sent",
            remedy="Use a model with the same request protocol",
        )


def _memory(model: Model) -> Iterator[Problem]:
    gpu = fit(model)
    if not gpu.fits:
        yield problem(
            "fits-into-gpu-memory",
            "envelope",
            "gpu",
            "memory",
            value=model.envelope.gpu.memory,
            fact=f"{gpu.needed.brief} needed on each GPU, {gpu.available.brief} available after headroom",
            consequence="The model would run out of GPU memory at start or at its largest request",
            remedy="Raise envelope.gpu.memory, take a larger accelerator or share, or lower the declared maximum (`headway check --explain`)",
        )
    ram = fit_ram(model)
    if not ram.fits:
        yield problem(
            "fits-into-ram",
            "envelope",
            "memory",
            value=model.envelope.memory,
            fact=f"{ram.needed.brief} RAM needed while loading and at full load",
            consequence="The kernel would kill the server while it loads, or under load",
            remedy=f"Use at least {_round_up(ram.needed)}",
        )


def _start(model: Model, pool: Pool | None = None) -> Iterator[Problem]:
    start = startup(model, pool)
    if start.pod > model.health.startup_budget:
        yield problem(
            "startup-within-budget",
            "health",
            "startup_budget",
            value=model.health.startup_budget,
            fact=f"a start takes {start.pod.brief}: {start.fetch.brief} to fetch, {start.serve.brief} for engine and warmup",
            consequence="The startup probe would kill replicas before they are ready, for ever",
            remedy=f"Use at least {start.pod.brief} and some room, or make the start shorter (`headway check --explain` lists the steps)",
        )


def _error_budget(model: Model) -> Iterator[Problem]:
    burn = budget_burn(model, startup(model))
    if burn and model.scaling.min_replicas < 2 and not burn.survivable:
        yield problem(
            "one-replica-and-a-strict-objective",
            "scaling",
            "min_replicas",
            value=model.scaling.min_replicas,
            fact=f"one cold start takes {burn.outage.brief}, {burn.objective} leaves {burn.budget.brief}",
            consequence="Losing the only replica once breaks the availability objective",
            remedy="Run at least 2 replicas, or promise less",
        )


def _placeholders(model: Model) -> Iterator[Problem]:
    files = sum(file.sha256 == PLACEHOLDER for file in model.artifact.files)
    for path, fact in (
        (("runtime", "image"), "the image digest is the starter's placeholder" if model.runtime.image.endswith(PLACEHOLDER) else ""),
        (("artifact", "files"), f"{files} of {len(model.artifact.files)} files have the starter's placeholder as digest" if files else ""),
    ):
        if fact:
            yield problem(
                "digest-is-real",
                *path,
                fact=fact,
                consequence="Nothing has this digest: the image could not be pulled, the file would be refused after its download",
                remedy="Write the real one: `sha256sum` for files, the registry's digest for images",
            )


def _no_pool(model: Model, pools: Sequence[Pool]) -> Problem:
    gpu = model.envelope.gpu
    what = f"{gpu.count} x {gpu.accelerator} by {gpu.share}" + (f" {gpu.profile}" if gpu.share == "mig" else "")
    offers = "; ".join(f"{p.name}: {p.accelerator} by {p.sharing.mode}, {p.workload_class}" for p in sorted(pools, key=lambda p: p.name))
    named = model.placement.pool
    return problem(
        "pool-offers-the-envelope",
        *(("placement", "pool") if named else ("envelope", "gpu")),
        value=named or what,
        fact=f"pool {named} does not offer {what}" if named else f"no {model.workload_class} pool offers {what}",
        consequence="Every replica would stay Pending",
        remedy=f"Choose what a pool offers ({offers})" if offers else "Add a pool to the environment's settings",
    )


def _on_pool(model: Model, pool: Pool) -> Iterator[Problem]:
    if pool.capacity.kind == "spot" or pool.workload_class is WorkloadClass.BATCH:
        yield problem(
            "online-never-on-spot",
            "placement",
            "pool",
            value=pool.name,
            fact=f"an online service on the {pool.workload_class} pool {pool.name} ({pool.capacity.kind})",
            consequence="Its replicas would vanish with two minutes' notice",
            remedy="Choose a latency or throughput pool",
        )
    room = node_room(model, pool)
    if not room.replicas:
        sums = "; ".join(f"{line.what} {line.figure}: {line.why}" for line in room.lines)
        yield problem(
            "replica-fits-on-a-node",
            "envelope",
            {"CPU": "cpu", "RAM": "memory"}.get(room.short_of, "gpu"),
            value=pool.instance_type.name,
            fact=f"an empty {pool.instance_type.name} of pool {pool.name} holds no replica, by {room.short_of} ({sums})",
            consequence="Every replica would stay Pending",
            remedy="Ask for less, or use a pool of larger instances",
        )
    if _older(pool.ami.driver, model.runtime.minimum_driver):
        yield problem(
            "driver-new-enough",
            "runtime",
            "minimum_driver",
            value=model.runtime.minimum_driver,
            fact=f"pool {pool.name} has driver {pool.ami.driver}, the image needs {model.runtime.minimum_driver}",
            consequence="The server would not start: CUDA refuses an older driver",
            remedy="Use an image for that driver, or roll the pool to a newer AMI release",
        )
    yield from _start(model, pool)


def _batch_pool(model: Model, pools: Sequence[Pool]) -> Iterator[Problem]:
    batch = model.batch
    if batch_pool_for(model, pools) is None:
        yield problem(
            "batch-has-a-pool",
            "batch",
            *(("pool",) if batch and batch.pool else ()),
            value=batch.pool if batch else None,
            fact=f"no batch pool offers {model.envelope.gpu.accelerator} by {model.envelope.gpu.share}",
            consequence="Messages would wait until their deadline",
            remedy="Leave batch out, or add a spot pool with workload_class: batch to the environment",
        )


def _rollout_room(model: Model, pool: Pool, spare: int) -> Iterator[Problem]:
    decision = surge(model, spare)
    left = f"pool {pool.name} and the quota leave {spare} {model.envelope.gpu.resource} with every model at its maximum"
    if decision.room is Room.NONE:
        yield problem(
            "rollout-has-room",
            "scaling",
            "max_replicas",
            value=model.scaling.max_replicas,
            fact=f"{left}, and one replica has no other to cover for it",
            consequence="A new version could only start after the old one has stopped: every rollout would be an outage",
            remedy="Raise the quota or the pool by one device, run 2 replicas, or keep a warm replica",
        )
    elif not decision.allowed:
        yield problem(
            "rollout-has-room",
            "rollout",
            "surge",
            value=model.rollout.surge,
            fact=f"{left}, and {model.rollout.surge} needs {_needed(model)}",
            consequence="The new version would wait for a GPU that never comes",
            remedy="Use surge: auto, raise the quota, or grow the pool",
        )
    elif model.rollout.strategy is Strategy.BLUE_GREEN and decision.room is not Room.SURGE:
        yield problem(
            "blue-green-needs-both",
            "rollout",
            "strategy",
            value=model.rollout.strategy,
            fact=f"{left}, and both versions in full need {model.scaling.max_replicas * model.envelope.gpu.count} more",
            consequence="The two versions can never stand side by side",
            remedy="Use strategy: canary or rolling, raise the quota, or grow the pool",
        )


def _too_small(model: Model, pool: Pool, left: int) -> Problem:
    short = -(left // model.envelope.gpu.count)
    return problem(
        "pool-holds-the-maximum",
        "scaling",
        "max_replicas",
        value=model.scaling.max_replicas,
        fact=f"with every model at its maximum, pool {pool.name} at its largest has no place for {short} of this model's replicas",
        consequence="At a load peak the last replicas would stay Pending, by GPU, CPU or RAM",
        remedy="Grow the pool (size.max), or lower max_replicas of its models (`headway check --explain`)",
    )


def _needed(model: Model) -> int:
    replicas = model.scaling.max_replicas if model.rollout.surge is Surge.SURGE else first_arms(model)
    return replicas * model.envelope.gpu.count


def _older(driver: str, needed: str) -> bool:
    def parts(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split("."))

    return parts(driver) < parts(needed)


def _round_up(size: Bytes) -> Bytes:
    return Bytes(-(-int(size) // 2**30) * 2**30)
