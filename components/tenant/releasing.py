"""What whoever releases a tenant's models may do beside changing releases: seeing the room there is, and asking
replicas. Pure.

A release runner is an identity of its own (`people.runners`), because asking a replica is running a command in its
serving container: with that right one could read requests. An update with refresh reads every object of the tenant's
stack, also those that no release changes; without the right to read them a rollback could not be reconciled.
"""

from typing import Any

from components.labels import labels
from components.manifests import object_
from headway.contract.tenant import Tenant
from headway.wire import MONITORING_NAMESPACE, PROMETHEUS_PROXIED

RUNNER = "runner"
"""The Role, in the tenant's namespace, of whoever releases are driven as."""
_RBAC = "rbac.authorization.k8s.io"
_ROOM = (("", "nodes", ("get", "list")), ("", "pods", ("list",)))
"""Spare GPUs of a pool are what its nodes have and pods of all tenants do not ask for. No logs, no secrets, nothing
is changed.
"""
_REFRESHED = (
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    (_RBAC, "clusterrolebindings"),
    (_RBAC, "clusterroles"),
    ("networking.istio.io", "envoyfilters"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("security.istio.io", "authorizationpolicies"),
    ("security.istio.io", "requestauthentications"),
)
"""Objects of a tenant's stack outside its namespace."""
INSIDE = (
    ("", "namespaces", ("get",)),
    ("coordination.k8s.io", "leases", ("get",)),
    (_RBAC, "rolebindings", ("get",)),
    (_RBAC, "roles", ("get",)),
)
"""In its namespace, beside what viewers see: the rest of the stack, and whether somebody guards its releases."""
ASKING = (("", "pods/exec", ("create", "get")),)
"""Golden requests are asked inside the serving container, so that neither the mesh's identities nor a hole in them
is needed.
"""


def rules(rights: tuple[tuple[str, str, tuple[str, ...]], ...]) -> list[dict[str, Any]]:
    return [_rule(*right) for right in rights]


def _rule(group: str, resource: str, verbs: tuple[str, ...]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def everywhere(tenant: Tenant) -> list[tuple[str, dict[str, Any]]]:
    """(role, object): what deployers and runners of the tenant may read outside its namespace: the room there is, and
    Prometheus through the API server's proxy, each replica by its name and by GET alone.
    """
    name = f"headway-release-{tenant.name}"
    found = labels("access", tenant=tenant.name)
    reading = rules((*_ROOM, *((group, resource, ("get",)) for group, resource in _REFRESHED)))
    groups = sorted({*tenant.people.deployers, *tenant.people.runners})
    subjects = [{"kind": "Group", "name": group, "apiGroup": _RBAC} for group in groups]
    metrics = [
        {**_rule("", "services/proxy", ("get",)), "resourceNames": list(PROMETHEUS_PROXIED)},
        # These two are of the tenant's stack as well, and a refresh reads them.
        *({**_rule(_RBAC, kind, ("get",)), "resourceNames": [name]} for kind in ("rolebindings", "roles")),
    ]
    return [
        ("release-metrics", object_(f"{_RBAC}/v1", "Role", name, namespace=MONITORING_NAMESPACE, labels=found, rules=metrics)),
        (
            "release-metrics-readers",
            object_(
                f"{_RBAC}/v1",
                "RoleBinding",
                name,
                namespace=MONITORING_NAMESPACE,
                labels=found,
                roleRef={"apiGroup": _RBAC, "kind": "Role", "name": name},
                subjects=subjects,
            ),
        ),
        ("release-room", object_(f"{_RBAC}/v1", "ClusterRole", name, labels=found, rules=reading)),
        (
            "release-rooms",
            object_(
                f"{_RBAC}/v1",
                "ClusterRoleBinding",
                name,
                labels=found,
                roleRef={"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
                subjects=subjects,
            ),
        ),
    ]
