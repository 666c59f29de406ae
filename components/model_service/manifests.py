"""All objects of one model service, in an order in which each may exist: what the service has once, then each arm's
own.

Thirteen objects and the component for a service with one release; a batch variant adds two queues and three objects.
Roles are state keys; the key of an arm is its release, so that a release keeps its objects when its part changes
from canary to stable.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from components.manifests import Manifest
from components.model_service import (
    activation,
    configuration,
    experiment,
    objectives,
    observing,
    overload,
    picking,
    pod,
    queues,
    routing,
    scaling,
    workload,
)
from components.model_service.batch import BatchWorker
from components.model_service.release import Release
from components.model_service.serving import Serving, serving
from components.platform import artifact_cache
from components.tenant.manifests import SERVICE_ACCOUNT
from components.tenant.surroundings import Surroundings
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.ledger.traffic_split import TrafficArm, TrafficSplit


@dataclass(frozen=True, kw_only=True)
class ServicePlan:
    """One model service: the contract as it is now, the releases that live, the division of traffic, and the pool of
    each release.

    Raises ValueError when an arm names a release that is not there.
    """

    tenant: str
    model: Model
    releases: Mapping[str, Release]
    """By content address."""
    traffic: TrafficSplit
    pool: Pool
    surroundings: Surroundings
    fallback: str | None = None
    """The service that takes over under overload, if it is there."""
    batch_pool: Pool | None = None
    """Where batch workers run, for a contract with a batch variant."""

    def __post_init__(self) -> None:
        for live in self.traffic.arms:
            if live.release not in self.releases:
                raise ValueError(f"{self.model.name}: traffic names release {live.release}, which is not among the live ones")

    @classmethod
    def of(
        cls,
        tenant: str,
        model: Model,
        pool: Pool,
        surroundings: Surroundings,
        fallback: str | None = None,
        batch_pool: Pool | None = None,
    ) -> "ServicePlan":
        """A service whose current contract is its only release."""
        release = Release(model=model)
        return cls(
            tenant=tenant,
            model=model,
            releases={release.id: release},
            traffic=TrafficSplit.only(release.id),
            pool=pool,
            surroundings=surroundings,
            fallback=fallback,
            batch_pool=batch_pool,
        )

    @property
    def queues(self) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """Role and arguments of the batch variant's queues."""
        return queues.queues(self.tenant, self.model, self.surroundings)

    @property
    def public_hosts(self) -> list[str]:
        """Where applications reach the model."""
        return self.surroundings.public_hosts(self.tenant, self.model.name)

    def manifests(self) -> tuple[Manifest, ...]:
        """Every object, those before others that need them."""
        arms = (manifest for live in self.traffic.ordered for manifest in self._arm(live))
        return (*self._once(), *arms, *self._batch())

    def _serving(self, release: Release) -> Serving:
        drain = release.model.health.drain.whole_seconds
        return serving(release.model, pod.exit_seconds(drain))

    def _once(self) -> Iterator[Manifest]:
        tenant, model = self.tenant, self.model
        primary = self._serving(self.releases[self.traffic.primary.release])
        picks = routing.stable_service_selector(tenant, model, self.traffic)
        yield Manifest(role="service", body=workload.service(tenant, model.name, picks, primary, model.name, None))
        yield Manifest(role="route", body=routing.virtual_service(tenant, model, self.traffic, self.surroundings, self.fallback))
        yield Manifest(role="guard", body=routing.guard(tenant, model))
        control = overload.control(tenant, model, self.surroundings)
        if control is not None and self.fallback is not None:
            yield Manifest(role="overload", body=control)
        held = activation.holding(tenant, model, self.pool, self.surroundings)
        if held is not None:
            yield Manifest(role="activation", body=held)
        if (asked := picking.asking(tenant, model, self.surroundings)) is not None:
            yield Manifest(role="picking", body=asked)
        if self.traffic.user_split is not None:
            yield Manifest(role="experiment", body=experiment.gateway_filter(tenant, model, self.traffic.user_split, self.surroundings))
        yield Manifest(role="monitor", body=observing.monitor(tenant, model, primary))
        yield Manifest(role="telemetry", body=observing.telemetry(tenant, model))
        yield Manifest(role="objectives", body=objectives.rules(tenant, model, self.surroundings))
        yield Manifest(role="record", body=observing.record(tenant, model))

    def _batch(self) -> Iterator[Manifest]:
        if self.model.batch is None:
            return
        if self.batch_pool is None:
            raise ValueError(f"{self.model.name}: its batch variant has no pool to run on")
        release = self.releases[self.traffic.primary.release]
        yield from BatchWorker(
            tenant=self.tenant,
            model=self.model,
            release=release,
            pool=self.batch_pool,
            surroundings=self.surroundings,
            serving=self._serving(release),
            service_account=SERVICE_ACCOUNT,
        ).manifests()

    def _arm(self, live: TrafficArm) -> Iterator[Manifest]:
        tenant, model, release = self.tenant, self.model, self.releases[live.release]
        serves = self._serving(release)
        kept = self.surroundings.artifact_cache and artifact_cache.kept_on(self.pool)
        around = self.surroundings
        files = configuration.files(release.model, serves, around.region, around.artifact_bucket, artifact_cache=kept)
        name = routing.configuration_name(release.model, release, configuration.digest(files))
        key = live.key
        if live.key == live.release:
            yield Manifest(
                role=f"{key}-configuration", body=workload.configuration(tenant, release, name, files, self.pool if kept else None)
            )
        yield Manifest(
            role=f"{key}-server",
            body=workload.deployment(tenant, live, release, self.pool, serves, name, SERVICE_ACCOUNT, artifact_cache=kept),
            after=(f"{live.release}-configuration",),
        )
        arm = workload.arm_name(model.name, live)
        picks = workload.arm_selector(tenant, model.name, live)
        yield Manifest(role=f"{key}-service", body=workload.service(tenant, arm, picks, serves, model.name, live.release, model.routing))
        yield Manifest(role=f"{key}-balancing", body=routing.destination_rule(tenant, live, model))
        yield Manifest(role=f"{key}-limit", body=routing.replica_limit(tenant, live, release, artifact_cache=kept))
        yield Manifest(role=f"{key}-disruption", body=workload.disruption_budget(tenant, live, model))
        yield Manifest(
            role=f"{key}-autoscaler", body=scaling.scaled_object(tenant, live, model, self.surroundings), after=(f"{key}-server",)
        )
