"""What whoever releases a tenant's models may do beside changing releases: seeing the room there is, and asking
replicas. Pure.

A release runner is an identity of its own (`people.runners`), because asking a replica is running a command in its
serving container: with that right one could read requests. An update with refresh reads every object of the tenant's
stack, also those that no release changes; without the right to read them a rollback could not be reconciled.
"""

from typing import Any

from components import rbac
from components.labels import labels
from headway.contract.tenant import Tenant
from headway.wire import MONITORING_NAMESPACE, PROMETHEUS_PROXIED

RUNNER = "runner"
"""The Role, in the tenant's namespace, of whoever releases are driven as."""
_ROOM: tuple[rbac.Right, ...] = (("", ("nodes",), ("get", "list")), ("", ("pods",), ("list",)))
"""Spare GPUs of a pool are what its nodes have and pods of all tenants do not ask for. No logs, no secrets, nothing
is changed.
"""
_REFRESHED = (
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    (rbac.GROUP, "clusterrolebindings"),
    (rbac.GROUP, "clusterroles"),
    ("networking.istio.io", "envoyfilters"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("security.istio.io", "authorizationpolicies"),
    ("security.istio.io", "requestauthentications"),
)
"""Objects of a tenant's stack outside its namespace."""
INSIDE: tuple[rbac.Right, ...] = (
    ("", ("namespaces",), ("get",)),
    ("coordination.k8s.io", ("leases",), ("get",)),
    (rbac.GROUP, ("rolebindings",), ("get",)),
    (rbac.GROUP, ("roles",), ("get",)),
)
"""In its namespace, beside what viewers see: the rest of the stack, and whether somebody guards its releases."""
ASKING: tuple[rbac.Right, ...] = (("", ("pods/exec",), ("create", "get")),)
"""Golden requests are asked inside the serving container, so that neither the mesh's identities nor a hole in them
is needed.
"""


def everywhere(tenant: Tenant) -> list[tuple[str, dict[str, Any]]]:
    """(role, object): what deployers and runners of the tenant may read outside its namespace: the room there is, and
    Prometheus through the API server's proxy, each replica by its name and by GET alone.
    """
    name = f"headway-release-{tenant.name}"
    found = labels("access", tenant=tenant.name)
    people = rbac.groups({*tenant.people.deployers, *tenant.people.runners})
    metrics = [
        *rbac.rules(("", ("services/proxy",), ("get",)), names=PROMETHEUS_PROXIED),
        # These two are of the tenant's stack as well, and a refresh reads them.
        *rbac.rules(*((rbac.GROUP, (kind,), ("get",)) for kind in ("rolebindings", "roles")), names=[name]),
    ]
    readers = rbac.role(name, metrics, found, MONITORING_NAMESPACE)
    room = rbac.role(name, rbac.rules(*_ROOM, *((group, (resource,), ("get",)) for group, resource in _REFRESHED)), found)
    return [
        ("release-metrics", readers),
        ("release-metrics-readers", rbac.binding(readers, people)),
        ("release-room", room),
        ("release-rooms", rbac.binding(room, people)),
    ]
