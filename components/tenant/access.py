"""Who may use a tenant's models and who may touch its objects: tokens and rates at the gateway, roles in the namespace.

The trap: a RequestAuthentication alone lets requests without any token pass; the AuthorizationPolicy beside it is
what refuses them. Both stand in the gateway's namespace, because that is where a caller is still a caller.
"""

from collections.abc import Iterable
from typing import Any

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
_LOOK: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        ("",),
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
    (("apps",), ("deployments", "replicasets")),
    (("autoscaling",), ("horizontalpodautoscalers",)),
    (("events.k8s.io",), ("events",)),
    (("keda.sh",), ("scaledobjects",)),
    (("monitoring.coreos.com",), ("alertmanagerconfigs", "podmonitors", "prometheusrules")),
    (("networking.istio.io",), ("destinationrules", "envoyfilters", "serviceentries", "sidecars", "virtualservices")),
    (("networking.k8s.io",), ("networkpolicies",)),
    (("policy",), ("poddisruptionbudgets",)),
    (("security.istio.io",), ("authorizationpolicies", "peerauthentications")),
    (("telemetry.istio.io",), ("telemetries",)),
)
"""Everything but secrets."""
_RELEASE: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("",), ("configmaps", "services")),
    (("apps",), ("deployments",)),
    (("keda.sh",), ("scaledobjects",)),
    (("networking.istio.io",), ("destinationrules", "sidecars", "virtualservices")),
    (("policy",), ("poddisruptionbudgets",)),
)
"""What differs between two releases. Quotas, isolation and identities are not among it."""


def roles(tenant: Tenant) -> list[tuple[str, dict[str, Any]]]:
    """(role, object): what viewers, deployers and release runners may do, and who they are."""
    look = [_rule(groups, resources, _READ) for groups, resources in _LOOK]
    release = [_rule(groups, resources, _CHANGE) for groups, resources in _RELEASE]
    restart = _rule(("",), ("pods",), ("delete",))
    deploying = [*look, *release, restart, *releasing.rules(releasing.INSIDE)]
    objects = [
        ("viewer", _role(tenant.name, "viewer", look)),
        ("deployer", _role(tenant.name, "deployer", deploying)),
        ("deployers", _binding(tenant.name, "deployer", tenant.people.deployers)),
    ]
    if tenant.people.runners:
        objects.append((releasing.RUNNER, _role(tenant.name, releasing.RUNNER, [*deploying, *releasing.rules(releasing.ASKING)])))
        objects.append((f"{releasing.RUNNER}s", _binding(tenant.name, releasing.RUNNER, tenant.people.runners)))
    if tenant.people.viewers:
        objects.append(("viewers", _binding(tenant.name, "viewer", tenant.people.viewers)))
    return [*objects, *releasing.everywhere(tenant)]


def _rule(groups: tuple[str, ...], resources: tuple[str, ...], verbs: tuple[str, ...]) -> dict[str, Any]:
    return {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}


def _role(tenant: str, name: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    own_labels = labels("access", tenant=tenant)
    return object_("rbac.authorization.k8s.io/v1", "Role", name, namespace=tenant, labels=own_labels, rules=rules)


def _binding(tenant: str, role: str, groups: tuple[str, ...]) -> dict[str, Any]:
    return object_(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        f"{role}s",
        namespace=tenant,
        labels=labels("access", tenant=tenant),
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        subjects=[{"kind": "Group", "name": group, "apiGroup": "rbac.authorization.k8s.io"} for group in sorted(groups)],
    )


def gateway_rules(tenant: Tenant, models: Iterable[Model], surroundings: Surroundings) -> list[tuple[str, dict[str, Any]]]:
    """(role, object): whose tokens open the tenant's hosts, and how much passes."""
    name = f"tenant-{tenant.name}"
    own_labels = labels("access", tenant=tenant.name)
    gateway = {"matchLabels": dict(surroundings.gateway_labels)}
    place = surroundings.gateway_namespace
    # Without ports, which the gateway's door takes off (`components/platform/mesh.py`): no pattern here fits every port.
    to = [{"operation": {"hosts": [f"*{ending}" for ending in surroundings.guarded(tenant.name)]}}]
    vouched = [f"{issuer.issuer}/*" for issuer in tenant.issuers]
    audiences = sorted({audience for issuer in tenant.issuers for audience in issuer.audiences})
    refused = [
        {"from": [{"source": {"notRequestPrincipals": vouched}}], "to": to},
        {"to": to, "when": [{"key": "request.auth.audiences", "notValues": audiences}]},
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
