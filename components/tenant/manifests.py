"""All Kubernetes objects of a tenant, the namespace first. Roles are state keys."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.labels import MODELS, QUEUES, labels
from components.manifests import Manifest, object_
from components.observability.manifests import tenant_manifests
from components.tenant import access, admission, evaluating, isolation, priority, quotas, spending
from components.tenant.queues import queue_url
from components.tenant.surroundings import Surroundings
from headway.contract.model import Model
from headway.contract.placement import WorkloadClass
from headway.contract.pool import Pool
from headway.contract.routing import Routing
from headway.contract.tenant import Tenant
from headway.wire import ENVIRONMENT, PREFIX, TENANT

SERVICE_ACCOUNT = "models"
"""The identity of the tenant's model servers: it reads the tenant's artifacts and nothing else."""
POD_SECURITY = "restricted"
"""GPU pods need no privilege: the device plugin hands devices over by CDI. The mesh needs its CNI plugin for this
(no init container).
"""


@dataclass(frozen=True, kw_only=True)
class TenantPlan:
    """A tenant with the models it has now, in an environment with these pools."""

    tenant: Tenant
    models: Sequence[Model]
    pools: Sequence[Pool]
    surroundings: Surroundings
    live: Sequence[Model] = ()
    """Releases that serve: of another engine, class or accelerator perhaps than their contract names by now; in all else as it is."""

    @property
    def running(self) -> Sequence[Model]:
        """What runs, or will by the contracts."""
        return (*self.models, *self.live)

    def manifests(self, annotations: Mapping[str, Any] | None = None) -> tuple[Manifest, ...]:
        """Every object; `annotations` are those of the service account, which IRSA needs and Pod Identity does not."""
        return tuple(self._all(annotations or {}))

    @property
    def priority_classes(self) -> dict[str, int]:
        """Classes that the tenant's models use, with their values."""
        found: dict[str, int] = {}
        for model in self.running:
            classes = (model.workload_class, *((WorkloadClass.BATCH,) if model.batch else ()))
            for workload_class in classes:
                name = priority.priority_class(self.tenant.name, workload_class, model.envelope.gpu.accelerator)
                found[name] = priority.value(self.tenant.priority, workload_class)
        return dict(sorted(found.items()))

    def _all(self, annotations: Mapping[str, Any]) -> Iterator[Manifest]:
        tenant, surroundings = self.tenant, self.surroundings
        yield Manifest(role="namespace", body=self._namespace())
        for name, value in self.priority_classes.items():
            yield Manifest(role=f"priority-{name}", body=self._priority_class(name, value))
        inside: list[tuple[str, dict[str, Any]]] = [
            ("identity", self._service_account(annotations)),
            *quotas.resource_quotas(tenant, self.models, self.live),
            ("limits", quotas.limit_range(tenant)),
            *isolation.network_policies(
                tenant.name,
                surroundings,
                any(model.batch for model in self.models),
                picked=any(model.routing is Routing.ENDPOINT_PICKER for model in self.models),
            ),
            *isolation.mesh_rules(tenant.name, surroundings, [model.runtime for model in self.running]),
            *access.roles(tenant),
            *evaluating.rights(tenant.name, self.models),
            ("budget", spending.budget_alert(tenant, self.pools, surroundings)),
        ]
        alert = spending.token_alert(tenant, surroundings)
        if alert is not None:
            inside.append(("alerts", alert))
        inside += tenant_manifests(tenant.name, self.models)
        for role, body in (
            *inside,
            *admission.admission(tenant.name, self.pools, SERVICE_ACCOUNT if surroundings.credentials else None),
            *access.gateway_rules(tenant, self.models, surroundings),
        ):
            yield Manifest(role=role, body=body, after=("namespace",))

    def _namespace(self) -> dict[str, Any]:
        tenant = self.tenant
        security = {f"pod-security.kubernetes.io/{mode}": POD_SECURITY for mode in ("audit", "enforce", "warn")}
        return object_(
            "v1",
            "Namespace",
            tenant.name,
            labels={
                **labels("tenant", tenant=tenant.name),
                ENVIRONMENT: self.surroundings.environment,
                "istio-injection": "enabled",
                **security,
            },
            annotations={
                f"{PREFIX}/description": tenant.description,
                MODELS: " ".join(sorted(model.name for model in self.models)),
                f"{PREFIX}/monthly-budget": str(tenant.quota.monthly_budget),
                f"{PREFIX}/owner": tenant.owner,
                **({QUEUES: " ".join(queues)} if (queues := self._queues()) else {}),
                f"{PREFIX}/runtimes": ",".join(sorted(tenant.runtimes)),
                f"{PREFIX}/gpu-memory-quota": tenant.quota.gpu_memory.kubernetes,
            },
        )

    def _queues(self) -> list[str]:
        """Addresses of the models' queues."""
        return sorted(queue_url(self.tenant.name, model.name, self.surroundings) for model in self.models if model.batch is not None)

    def _priority_class(self, name: str, value: int) -> dict[str, Any]:
        batch = value == priority.BATCH_VALUE
        return object_(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            name,
            labels={**labels("priority", tenant=self.tenant.name), TENANT: self.tenant.name},
            value=value,
            globalDefault=False,
            preemptionPolicy=priority.preempts(WorkloadClass.BATCH if batch else WorkloadClass.LATENCY),
            description=f"Model servers of tenant {self.tenant.name}, priority {self.tenant.priority}",
        )

    def _service_account(self, annotations: Mapping[str, Any]) -> dict[str, Any]:
        return object_(
            "v1",
            "ServiceAccount",
            SERVICE_ACCOUNT,
            namespace=self.tenant.name,
            labels=labels("identity", tenant=self.tenant.name),
            annotations=annotations,
            # Of Kubernetes' own token; what AWS's webhook projects for IRSA is a volume of the pod.
            automountServiceAccountToken=False,
        )


def artifact_prefix(tenant: str, uri: str) -> str:
    """`bucket/tenant/`: a contract demands that the tenant's name is the first part below the bucket."""
    return f"{uri.removeprefix('s3://').partition('/')[0]}/{tenant}/"
