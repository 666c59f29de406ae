"""The API server's own word on the pods of a tenant: their priority class is one of the tenant's, a GPU's class, pool
and accelerator belong together, and who has the tenant's identity has its credentials too.

Quotas count an accelerator by priority class (see `priority`), so a pod of an H100 pool under an L4 class would be
counted as an L4; and a pod without a GPU under another's class would push others out. This ValidatingAdmissionPolicy
refuses both, whoever made the pod. The traps: a policy matches pods, not the Deployments that make them; the refusal
shows up as an event of the ReplicaSet. Why pods come without credentials, `components/platform/credentials.py` says.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from components.labels import labels
from components.manifests import object_
from components.naming import physical
from components.platform.credentials import CONTAINERS, has_credentials
from components.tenant.priority import priority_class
from components.tenant.quotas import classes_of
from headway.contract.placement import WorkloadClass
from headway.contract.pool import Pool
from headway.wire import POOL

_ASKS_FOR_GPU = (
    f"{CONTAINERS}.exists(c, has(c.resources) && has(c.resources.limits) && "
    "c.resources.limits.exists(name, name.startsWith('nvidia.com/')))"
)


def pools_by_class(tenant: str, pools: Sequence[Pool]) -> dict[str, list[str]]:
    """Which pools a pod of each of the tenant's priority classes may select: batch classes batch pools, all others
    the other pools.
    """
    by_class: dict[str, set[str]] = {}
    for pool in pools:
        batch = {priority_class(tenant, WorkloadClass.BATCH, pool.accelerator)}
        classes = batch if pool.workload_class is WorkloadClass.BATCH else set(classes_of(tenant, pool.accelerator)) - batch
        for name in classes:
            by_class.setdefault(name, set()).add(pool.name)
    return {name: sorted(names) for name, names in sorted(by_class.items())}


def admission(tenant: str, pools: Sequence[Pool], identity: str | None = None) -> list[tuple[str, dict[str, Any]]]:
    """(role, object): the policy and what binds it to the tenant's namespace. `identity` is the service account whose pods
    EKS gives credentials, None where nobody does."""
    name = physical("headway", tenant, "gpu-classes")
    found = labels("admission", tenant=tenant)
    allowed = _cel(pools_by_class(tenant, pools))
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": tenant}},
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        },
        "variables": [
            {"name": "gpu", "expression": _ASKS_FOR_GPU},
            {"name": "pools", "expression": allowed},
            {"name": "priority", "expression": "has(object.spec.priorityClassName) ? object.spec.priorityClassName : ''"},
            {
                "name": "pool",
                "expression": (
                    f"has(object.spec.nodeSelector) && '{POOL}' in object.spec.nodeSelector ? object.spec.nodeSelector['{POOL}'] : ''"
                ),
            },
        ],
        "validations": [
            {
                "expression": "variables.priority == '' || variables.priority in variables.pools",
                "messageExpression": (
                    "'priority class \"' + variables.priority + '\" is not one of tenant "
                    + tenant
                    + ": the pod would push out others that are worth more to theirs. Leave it out, or use the tenant\\'s own.'"
                ),
                "reason": "Forbidden",
            },
            {
                "expression": (
                    "!variables.gpu || (variables.priority in variables.pools && variables.pool in variables.pools[variables.priority])"
                ),
                "messageExpression": (
                    "'a GPU pod of priority class \"' + variables.priority + '\" selects pool \"' + variables.pool"
                    " + '\": that class is for other pools: quotas count accelerators by class, and batch pools are for batch."
                    " Use the priority class headway-" + tenant + "-<workload class>-<accelerator of the pool>.'"
                ),
                "reason": "Forbidden",
            },
            *([has_credentials(identity, "read its model")] if identity else []),
        ],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    group = "admissionregistration.k8s.io/v1"
    return [
        ("admission", object_(group, "ValidatingAdmissionPolicy", name, labels=found, spec=policy)),
        ("admission-binding", object_(group, "ValidatingAdmissionPolicyBinding", name, labels=found, spec=binding)),
    ]


def _cel(table: Mapping[str, Sequence[str]]) -> str:
    """A map literal of the Common Expression Language."""
    return "{" + ", ".join(f"'{name}': [{', '.join(repr(pool) for pool in pools)}]" for name, pools in table.items()) + "}"
