"""What the platform's loop of evaluation may do in a tenant's namespace that has a service to ask: find replicas, and ask them. Pure.

To ask is to run a command in the serving container, so the right is the tenant's to give, in its own namespace, and not the platform's to
have everywhere.
"""

from collections.abc import Sequence
from typing import Any

from components.labels import labels
from components.manifests import object_
from components.tenant import releasing
from headway.contract.model import Model
from headway.wire import EVALUATION_NAMESPACE

EVALUATOR = "evaluator"
"""The Role, in the tenant's namespace, of the loop's service account."""
_FINDING = (("", "pods", ("list",)),)
_RBAC = "rbac.authorization.k8s.io"


def rights(tenant: str, models: Sequence[Model]) -> list[tuple[str, dict[str, Any]]]:
    """(role, object); nothing where no model has an evaluation."""
    if not any(model.evaluation for model in models):
        return []
    found = labels("access", tenant=tenant)
    rules = releasing.rules((*_FINDING, *releasing.ASKING))
    subject = {"kind": "ServiceAccount", "name": EVALUATION_NAMESPACE, "namespace": EVALUATION_NAMESPACE}
    reference = {"apiGroup": _RBAC, "kind": "Role", "name": EVALUATOR}
    return [
        (EVALUATOR, object_(f"{_RBAC}/v1", "Role", EVALUATOR, namespace=tenant, labels=found, rules=rules)),
        (
            f"{EVALUATOR}s",
            object_(f"{_RBAC}/v1", "RoleBinding", f"{EVALUATOR}s", namespace=tenant, labels=found, roleRef=reference, subjects=[subject]),
        ),
    ]
