"""Priority classes of a tenant: who yields to whom, and the handle by which a quota can tell accelerators apart.

A ResourceQuota counts `nvidia.com/gpu` whatever the GPU is. The only property of a pod that a quota can select by is
its priority class, so a tenant has one for each (workload class, accelerator): classes of one workload class have
equal value, and the quota of an accelerator selects its classes by name. A pod that asks for an accelerator under
another accelerator's class would escape its quota; the tenant's admission policy refuses it.
"""

from collections.abc import Mapping

from components.naming import physical
from headway.contract.accelerators import Accelerator
from headway.contract.placement import WorkloadClass
from headway.contract.tenant import TenantPriority

BATCH_VALUE = 1_000
"""Above placeholders for warm capacity (negative), below every online service."""
VALUES: Mapping[tuple[TenantPriority, WorkloadClass], int] = {
    (TenantPriority.CRITICAL, WorkloadClass.LATENCY): 40_000,
    (TenantPriority.CRITICAL, WorkloadClass.THROUGHPUT): 30_000,
    (TenantPriority.STANDARD, WorkloadClass.LATENCY): 20_000,
    (TenantPriority.STANDARD, WorkloadClass.THROUGHPUT): 10_000,
    (TenantPriority.CRITICAL, WorkloadClass.BATCH): BATCH_VALUE,
    (TenantPriority.STANDARD, WorkloadClass.BATCH): BATCH_VALUE,
}
"""The platform's own pods stand above all of these (1,000,000 and the system classes of Kubernetes)."""


def priority_class(tenant: str, workload_class: WorkloadClass, accelerator: Accelerator) -> str:
    """Name of the class that pods of the tenant, of this workload class on this accelerator, carry."""
    return physical("headway", tenant, workload_class.value, accelerator.value)


def value(priority: TenantPriority, workload_class: WorkloadClass) -> int:
    return VALUES[priority, workload_class]


def preempts(workload_class: WorkloadClass) -> str:
    """Batch work waits for room; only what people wait for takes it from others."""
    return "Never" if workload_class is WorkloadClass.BATCH else "PreemptLowerPriority"
