"""The layer of one tenant: its contracts, checked, become a Tenant and its ModelServices, in sorted order.

Contracts and pools are read from files, and the division of traffic from the release ledger, once, before the first
resource: so a plan needs no deployed cluster, and an update in the middle of a release moves no traffic. Services
depend on the tenant and never on each other, or a tenant of 25 services would be updated one by one.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pulumi

from components.identity import Binding
from components.labels import tags
from components.model_service.component import ModelService, ModelServiceArgs
from components.model_service.manifests import ServicePlan
from components.model_service.release import Release
from components.naming import bucket_name
from components.network.plan import subnets
from components.tenant.component import TenantNamespace, TenantNamespaceArgs
from components.tenant.manifests import TenantPlan
from components.tenant.surroundings import RUNBOOKS, Surroundings
from headway.contract.arithmetic.surge import batch_pool_for, pool_for
from headway.contract.crosscheck import TenantContracts
from headway.contract.crosscheck.batch_store import placed, queued_out_of_reach
from headway.contract.crosscheck.bucket import of_another_environment
from headway.contract.crosscheck.image import without_nat
from headway.contract.crosscheck.tenant import keys_in_reach
from headway.contract.model import Model
from headway.contract.reading.loader import load_tenant
from headway.contract.reading.tenants import stack_file, tenants_of
from headway.contract.released import with_released
from headway.ledger import location
from headway.ledger.store import LedgerStore
from headway.ledger.witness import LedgerWitness
from headway.ledger.witness_place import FolderWitness
from headway.problem import Problem, ProblemLevel
from headway.wire import WITNESS_VARIABLE
from stacks.live import LiveModel, live
from stacks.providers import aws_provider, kubernetes_provider
from stacks.sections import Nat
from stacks.settings import FOLDER as STACK_FILES
from stacks.settings import PLATFORM, SANDBOX, TenantSettings
from stacks.settings_error import SettingsError
from stacks.upstream import Upstream, cluster_identity

FOLDER = Path(__file__).parents[1] / "tenants"


def build(settings: TenantSettings, folder: Path = FOLDER, ledger: LedgerStore | None = None, witness: LedgerWitness | None = None) -> None:
    """Register the tenant with its models and export where they answer. Raises SettingsError with every finding.

    `ledger` and `witness` are those of the environment, found by its name if no ledger is given.
    """
    contracts = _contracts(settings, folder)
    known = (ledger, witness) if ledger else _ledger(settings)
    lives = live(contracts, known[0], settings.environment, known[1])
    for name, serving in sorted(lives.items()):
        if serving.waiting:
            pulumi.warn(
                f"{name}: the contract is release {serving.waiting}, and {serving.primary} stays live until it has proved itself. "
                f"Start it with `headway release start {contracts.tenant.name}/{name} -e {settings.environment}`"
            )
        if not serving.bound:
            pulumi.warn(
                f"{name}: its ledger does not say whose it is, so a copy of another one's would pass for it. "
                f"Write it down with `headway release bind {contracts.tenant.name}/{name} --environment {settings.environment}`"
            )
        if serving.unwitnessed:
            pulumi.warn(serving.unwitnessed.brief)
    provider = aws_provider(settings.account, tags(settings.environment, "tenant", tenant=settings.tenant))
    upstream = Upstream(settings.environment, PLATFORM, provider)
    plan = TenantPlan(
        tenant=contracts.tenant,
        models=contracts.models,
        pools=settings.pools,
        surroundings=_surroundings(settings),
        live=[
            with_released(model, release.model)
            for model in contracts.models
            if (serving := lives.get(model.name))
            for release in serving.releases.values()
        ],
    )
    tenant = TenantNamespace(
        contracts.tenant.name,
        TenantNamespaceArgs(
            plan=plan,
            cluster=cluster_identity(settings, upstream),
            data_key_arn=upstream.require("data_key_arn"),
        ),
        pulumi.ResourceOptions(providers=[provider, kubernetes_provider(settings.environment, settings.account, upstream)]),
    )
    inside = pulumi.ResourceOptions(parent=tenant)
    services = {
        model.name: ModelService(
            model.name,
            ModelServiceArgs(
                service=_service(model, plan, contracts, lives.get(model.name)),
                data_key_arn=upstream.require("data_key_arn"),
                after=tenant.foundation,
            ),
            inside,
        )
        for model in contracts.models
    }
    pulumi.export("namespace", contracts.tenant.name)
    pulumi.export("role_arn", tenant.role_arn)
    pulumi.export("hosts", {name: service.hosts for name, service in services.items()})
    pulumi.export("releases", {name: service.releases for name, service in services.items()})
    pulumi.export("contracts", {model.name: _adoptable(model) for model in contracts.models if model.name not in lives})


def _contracts(settings: TenantSettings, folder: Path) -> TenantContracts:
    result = load_tenant(
        folder / settings.tenant,
        settings.pools,
        lambda _, model: _lacking(settings, model),
        tenants_of(settings.environment, STACK_FILES),
    )
    refused = [finding for finding in result.findings if finding.level is ProblemLevel.ERROR]
    contracts = result.tenant(settings.tenant)
    if contracts is not None:
        network = settings.network
        reached = keys_in_reach(contracts.tenant, eks_endpoint="eks" in network.endpoints, without_nat=network.nat is Nat.NONE)
        refused += [replace(each, subject=settings.tenant) for each in reached]
    if refused or contracts is None:
        raise SettingsError(f"Tenant {settings.tenant}", refused)
    for finding in result.findings:
        pulumi.warn(str(finding))
    return contracts


def _lacking(settings: TenantSettings, model: Model) -> Iterator[Problem]:
    """What the environment does not have for the model."""
    yield from of_another_environment(model, settings.environment, settings.account.id)
    if settings.network.nat is Nat.NONE:
        yield from without_nat(model, settings.account.region)
        yield from queued_out_of_reach(model, settings.network.endpoints)
    yield from placed(model, _batch_bucket(settings), stack_file(settings.environment, settings.tenant))


def _batch_bucket(settings: TenantSettings) -> str | None:
    return settings.batch.bucket if settings.batch else None


def _surroundings(settings: TenantSettings) -> Surroundings:
    return Surroundings(
        environment=settings.environment,
        region=settings.account.region,
        account_id=settings.account.id,
        hosts=settings.gateway.hosts,
        gateway_replicas=settings.gateway.replicas_min,
        batch_bucket=_batch_bucket(settings),
        artifact_cache=settings.loops.image is not None,
        credentials=settings.environment != SANDBOX,
        runbooks=settings.observability.runbooks or RUNBOOKS,
        grafana=settings.observability.grafana,
        sts=_inside(settings, "sts") if settings.workload_identity is Binding.IRSA else None,
        sqs=_inside(settings, "sqs"),
    )


def _inside(settings: TenantSettings, service: str) -> tuple[str, ...]:
    """Where a service of AWS answers inside the VPC: its endpoint has an address in each private subnet (`components/network/network.py`), and
    AWS chooses which."""
    network = settings.network
    return tuple(str(zone.private) for zone in subnets(network.cidr, network.zones)) if service in network.endpoints else ()


def _ledger(settings: TenantSettings) -> tuple[LedgerStore | None, LedgerWitness | None]:
    """The environment's ledger, and who witnesses it; a sandbox that names none has none."""
    sandbox = settings.environment == SANDBOX
    address = location.place(None if sandbox else bucket_name(settings.environment, "ledger", settings.account.id))
    if address is None:
        return None, None
    if sandbox:
        folder = os.environ.get(WITNESS_VARIABLE)
        return location.opened(address), FolderWitness(Path(folder)) if folder else None
    return location.opened(address), location.witness(address, settings.environment, lambda: settings.account.region)


def _adoptable(model: Model) -> Mapping[str, object]:
    """What serves, in full, as long as no ledger knows it: `headway release` registers it from here as the first
    release.
    """
    return {"release": Release(model=model).id, "contract": model.model_dump(mode="json")}


def _service(model: Model, plan: TenantPlan, contracts: TenantContracts, live: LiveModel | None) -> ServicePlan:
    now = live.contract if live else model
    pool = pool_for(now, plan.pools)
    assert pool is not None, model.name  # noqa: S101  the contracts were checked against the pools
    named = now.degradation.fallback.model if now.degradation.fallback else None
    there = {other.name for other in contracts.models}
    fallback = named if named in there else None
    if live is None:
        return ServicePlan.of(plan.tenant.name, now, pool, plan.surroundings, fallback, batch_pool_for(now, plan.pools))
    return ServicePlan(
        tenant=plan.tenant.name,
        model=now,
        releases=live.releases,
        traffic=live.traffic,
        pool=pool,
        surroundings=plan.surroundings,
        fallback=fallback,
        batch_pool=batch_pool_for(now, plan.pools),
    )
