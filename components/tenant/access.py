"""Who may use a tenant's models and who may touch its objects: tokens and rates at the gateway, roles in the namespace.

The trap: a RequestAuthentication alone lets requests without any token pass; the AuthorizationPolicy beside it is
what refuses them. Both stand in the gateway's namespace, because that is where a caller is still a caller.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from components import rbac
from components.labels import labels
from components.manifests import object_
from components.tenant import releasing
from components.tenant.limits import rate_limit
from components.tenant.surroundings import Surroundings
from headway.contract.model import Model
from headway.contract.tenant import Issuer, Tenant
from headway.wire import PRIORITY_HEADER, USER_HEADER

PRIORITY_CLAIM = "priority"

_READ = ("get", "list", "watch")
_CHANGE = ("create", "delete", "patch", "update")
_LOOK = (
    (
        "",
        (
            "configmaps",
            "endpoints",
            "events",
            "limitranges",
            "persistentvolumeclaims",
            "pods",
            "pods/log",
            "resourcequotas",
            "serviceaccounts",
            "services",
        ),
    ),
    ("apps", ("deployments", "replicasets")),
    ("autoscaling", ("horizontalpodautoscalers",)),
    ("events.k8s.io", ("events",)),
    ("keda.sh", ("scaledobjects",)),
    ("monitoring.coreos.com", ("alertmanagerconfigs", "podmonitors", "prometheusrules")),
    ("networking.istio.io", ("destinationrules", "envoyfilters", "serviceentries", "sidecars", "virtualservices")),
    ("networking.k8s.io", ("networkpolicies",)),
    ("policy", ("poddisruptionbudgets",)),
    ("security.istio.io", ("authorizationpolicies", "peerauthentications")),
    ("telemetry.istio.io", ("telemetries",)),
)
"""Everything but secrets."""
_RELEASE = (
    ("", ("configmaps", "services")),
    ("apps", ("deployments",)),
    ("keda.sh", ("scaledobjects",)),
    ("networking.istio.io", ("destinationrules", "sidecars", "virtualservices")),
    ("policy", ("poddisruptionbudgets",)),
)
"""What differs between two releases. Quotas, isolation and identities are not among it."""


def roles(tenant: Tenant) -> list[tuple[str, dict[str, Any]]]:
    """(role, object): what viewers, deployers and release runners may do, and who they are."""
    look = rbac.rules(*((group, resources, _READ) for group, resources in _LOOK))
    release = rbac.rules(*((group, resources, _CHANGE) for group, resources in _RELEASE), ("", ("pods",), ("delete",)))
    deploying = [*look, *release, *rbac.rules(*releasing.INSIDE)]
    viewer, *viewers = _granted(tenant.name, "viewer", look, tenant.people.viewers)
    runners = [*deploying, *rbac.rules(*releasing.ASKING)]
    return [
        viewer,
        *_granted(tenant.name, "deployer", deploying, tenant.people.deployers),
        *(_granted(tenant.name, releasing.RUNNER, runners, tenant.people.runners) if tenant.people.runners else ()),
        *viewers,
        *releasing.everywhere(tenant),
    ]


def _granted(tenant: str, name: str, rules: Sequence[Mapping[str, Any]], people: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """The role, and who has it where anybody has."""
    role = rbac.role(name, rules, labels("access", tenant=tenant), tenant)
    return [(name, role), *([(f"{name}s", rbac.binding(role, rbac.groups(people), f"{name}s"))] if people else [])]


def gateway_rules(tenant: Tenant, models: Iterable[Model], surroundings: Surroundings) -> list[tuple[str, dict[str, Any]]]:
    """(role, object): whose tokens open the tenant's hosts, and how much passes."""
    name = f"tenant-{tenant.name}"
    own_labels = labels("access", tenant=tenant.name)
    gateway = {"matchLabels": dict(surroundings.gateway_labels)}
    place = surroundings.gateway_namespace
    # Without ports, which the gateway's door takes off (`components/platform/mesh.py`): no pattern here fits every port.
    to = [{"operation": {"hosts": [f"*{ending}" for ending in surroundings.guarded(tenant.name)]}}]
    vouched = {f"{issuer.issuer}/*": sorted(issuer.audiences) for issuer in tenant.issuers}
    # Each issuer's own audiences: another tenant of the same issuer may take audiences that this one takes of another issuer alone.
    refused = [
        {"from": [{"source": {"notRequestPrincipals": list(vouched)}}], "to": to},
        *(
            {
                "from": [{"source": {"requestPrincipals": [caller]}}],
                "to": to,
                "when": [{"key": "request.auth.audiences", "notValues": audiences}],
            }
            for caller, audiences in vouched.items()
        ),
    ]
    return [
        (
            "tokens",
            object_(
                "security.istio.io/v1",
                "RequestAuthentication",
                name,
                namespace=place,
                labels=own_labels,
                spec={"selector": gateway, "jwtRules": [_jwt(issuer) for issuer in tenant.issuers]},
            ),
        ),
        (
            "hosts",
            object_(
                "security.istio.io/v1",
                "AuthorizationPolicy",
                name,
                namespace=place,
                labels=own_labels,
                # The gateway is open to all tenants' callers; a refusal is the only word that nobody else can overrule.
                spec={"selector": gateway, "action": "DENY", "rules": refused},
            ),
        ),
        ("rate", rate_limit(tenant, models, surroundings, name)),
    ]


def _jwt(issuer: Issuer) -> dict[str, Any]:
    return {
        "issuer": issuer.issuer,
        "audiences": sorted(issuer.audiences),
        "jwksUri": issuer.jwks_uri,
        # Never handed on: a model server has no use for a caller's token.
        "forwardOriginalToken": False,
        "outputClaimToHeaders": [{"header": USER_HEADER, "claim": "sub"}, {"header": PRIORITY_HEADER, "claim": PRIORITY_CLAIM}],
    }
