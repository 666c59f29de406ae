"""What the platform's loops of evaluation may do in a tenant's namespace: find and ask replicas where a service is asked, and read which
version is which replicas' where one is watched for drift. Pure.

To ask is to run a command in the serving container, so the right is the tenant's to give, in its own namespace, and not the platform's to
have everywhere.
"""

from collections.abc import Sequence
from typing import Any

from components import rbac
from components.labels import labels
from components.tenant import releasing
from headway.contract.model import Model
from headway.wire import EVALUATION_NAMESPACE

EVALUATOR = "evaluator"
"""The Role, in the tenant's namespace, of the loop's service account."""
_FINDING: rbac.Right = ("", ("pods",), ("list",))
_ROUTES: rbac.Right = ("networking.istio.io", ("virtualservices",), ("get",))
"""A service's route has the service's name."""


def rights(tenant: str, models: Sequence[Model]) -> list[tuple[str, dict[str, Any]]]:
    """(role, object); nothing where no model is evaluated or watched."""
    rules = rbac.rules(_FINDING, *releasing.ASKING) if any(model.evaluation for model in models) else []
    if watched := sorted(model.name for model in models if model.drift):
        rules += rbac.rules(_ROUTES, names=watched)
    if not rules:
        return []
    role = rbac.role(EVALUATOR, rules, labels("access", tenant=tenant), tenant)
    loop = rbac.account(EVALUATION_NAMESPACE, EVALUATION_NAMESPACE)
    return [(EVALUATOR, role), (f"{EVALUATOR}s", rbac.binding(role, [loop], f"{EVALUATOR}s"))]
