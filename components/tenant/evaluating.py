"""What the platform's loops of evaluation may do in a tenant's namespace: find and ask replicas where a service is asked, and read which
version is which replicas' where one is watched for drift. Pure.

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
_ROUTES = (("networking.istio.io", "virtualservices", ("get",)),)
"""A service's route has the service's name."""
_RBAC = "rbac.authorization.k8s.io"


def rights(tenant: str, models: Sequence[Model]) -> list[tuple[str, dict[str, Any]]]:
    """(role, object); nothing where no model is evaluated or watched."""
    rules = releasing.rules((*_FINDING, *releasing.ASKING)) if any(model.evaluation for model in models) else []
    if watched := sorted(model.name for model in models if model.drift):
        rules += [{**rule, "resourceNames": watched} for rule in releasing.rules(_ROUTES)]
    if not rules:
        return []
    found = labels("access", tenant=tenant)
    subject = {"kind": "ServiceAccount", "name": EVALUATION_NAMESPACE, "namespace": EVALUATION_NAMESPACE}
    reference = {"apiGroup": _RBAC, "kind": "Role", "name": EVALUATOR}
    return [
        (EVALUATOR, object_(f"{_RBAC}/v1", "Role", EVALUATOR, namespace=tenant, labels=found, rules=rules)),
        (
            f"{EVALUATOR}s",
            object_(f"{_RBAC}/v1", "RoleBinding", f"{EVALUATOR}s", namespace=tenant, labels=found, roleRef=reference, subjects=[subject]),
        ),
    ]
