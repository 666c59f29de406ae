"""What a tenant may hold, as Kubernetes counts it: one quota over everything, one for each accelerator, two that close the ways around.

- `tenant`: pods, CPU, RAM, Services, and each GPU resource; a GPU resource that the contract does not name is granted 0.
- `gpus-<accelerator>`: whole GPUs of one kind, counted by the tenant's priority classes for it (see `priority`).
- `no-foreign-gpus`: pods of any other priority class get no GPU at all.
- `no-foreign-neighbours`: no pod says beside whose pods it may not be but the tenant's own. The scheduler would keep the others away.

The trap: extended resources are quoted with the prefix `requests.` and no other, and a quota that does not name a resource grants it
without limit.
"""

from collections.abc import Sequence
from typing import Any

from components.labels import labels
from components.manifests import object_
from components.tenant.priority import priority_class
from headway.contract.accelerators import MIG_PROFILES, Accelerator
from headway.contract.model import Model
from headway.contract.placement import WorkloadClass
from headway.contract.tenant import Tenant

SPARE_PODS = 10
"""Pods beyond one a device: a release that leaves while the next one comes, and what people run to look at things."""
EACH = {
    "count/configmaps": 8,
    "count/deployments.apps": 4,
    "count/poddisruptionbudgets.policy": 6,
    "count/replicasets.apps": 60,
    "services": 6,
}
"""Of kinds that deployers may write, for each model service and once more: one with three arms and batch work has four
Deployments and four Services, and a Deployment keeps its former ReplicaSets until it is complete. Not of kinds that a
chart defines: the quota controller learns of one half a minute after its chart, counts it when it next looks at every
quota, after five minutes, and until then the API server refuses all of it (kube-controller-manager,
`--resource-quota-sync-period`). Routes are counted by their names instead, which an admission rule takes from the
tenant's models.
"""

WHOLE, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
DEFAULT_CPU, DEFAULT_MEMORY, DEFAULT_STORAGE = "100m", "256Mi", "1Gi"
"""What a container gets that asks for nothing: enough to look around, too little to serve."""


def device_quotas(tenant: Tenant) -> dict[str, int]:
    """Devices by resource name, for every GPU resource that any node can offer."""
    quota = tenant.quota
    return {
        WHOLE: sum(quota.gpus.values()),
        SHARED: quota.shared,
        **{f"nvidia.com/mig-{profile}": quota.mig.get(profile, 0) for profile in MIG_PROFILES},
    }


def pods_at_most(tenant: Tenant) -> int:
    """Every server holds at least one device."""
    return sum(device_quotas(tenant).values()) + SPARE_PODS


def classes_of(tenant: str, accelerator: Accelerator) -> list[str]:
    """The tenant's priority classes for an accelerator, over all workload classes."""
    return sorted(priority_class(tenant, workload_class, accelerator) for workload_class in WorkloadClass)


def resource_quotas(tenant: Tenant, models: Sequence[Model], live: Sequence[Model] = ()) -> list[tuple[str, dict[str, Any]]]:
    """(role, ResourceQuota), the whole one first. `live`: releases that serve, which may be on other accelerators than their contracts name.

    An accelerator that is neither granted nor used by a model has no priority class of the tenant, so it needs no
    quota of its own.
    """
    hard = {
        **{kind: str((len(models) + 1) * each) for kind, each in EACH.items()},
        "persistentvolumeclaims": "0",
        "pods": str(pods_at_most(tenant)),
        "requests.cpu": str(tenant.quota.cpu),
        "requests.memory": tenant.quota.memory.kubernetes,
        "services.loadbalancers": "0",
        "services.nodeports": "0",
        **{f"requests.{name}": str(count) for name, count in device_quotas(tenant).items()},
    }
    found = [("quota", _quota(tenant.name, "tenant", hard, None))]
    for accelerator in sorted({*tenant.quota.gpus, *(model.envelope.gpu.accelerator for model in (*models, *live))}):
        granted = {f"requests.{WHOLE}": str(tenant.quota.gpus.get(accelerator, 0))}
        chosen = _in_classes("In", classes_of(tenant.name, accelerator))
        found.append((f"quota-{accelerator.value}", _quota(tenant.name, f"gpus-{accelerator.value}", granted, chosen)))
    own = sorted(name for accelerator in Accelerator for name in classes_of(tenant.name, accelerator))
    none = {f"requests.{name}": "0" for name in device_quotas(tenant)}
    found.append(("quota-foreign", _quota(tenant.name, "no-foreign-gpus", none, _in_classes("NotIn", own))))
    alone = {"matchExpressions": [{"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}]}
    found.append(("quota-neighbours", _quota(tenant.name, "no-foreign-neighbours", {"pods": "0"}, alone)))
    return found


def _quota(tenant: str, name: str, hard: dict[str, str], scope: dict[str, Any] | None) -> dict[str, Any]:
    spec: dict[str, Any] = {"hard": dict(sorted(hard.items()))}
    if scope is not None:
        spec["scopeSelector"] = scope
    return object_("v1", "ResourceQuota", name, namespace=tenant, labels=labels("quota", tenant=tenant), spec=spec)


def _in_classes(operator: str, classes: Sequence[str]) -> dict[str, Any]:
    return {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": list(classes)}]}


def limit_range(tenant: Tenant) -> dict[str, Any]:
    """Defaults for what states nothing; model servers state everything."""
    defaults = {"cpu": DEFAULT_CPU, "ephemeral-storage": DEFAULT_STORAGE, "memory": DEFAULT_MEMORY}
    return object_(
        "v1",
        "LimitRange",
        "defaults",
        namespace=tenant.name,
        labels=labels("quota", tenant=tenant.name),
        spec={"limits": [{"type": "Container", "default": dict(defaults), "defaultRequest": dict(defaults)}]},
    )
