"""What may talk to a tenant's pods, and whom they may talk to: packets by NetworkPolicy, identities and paths by the
mesh.

Default deny both ways; then the gateway, the scraper and the tenant's own pods in, and name service, mesh control
plane, telemetry and the artifact store out. NetworkPolicies see packets before the mesh opens them, so they name
ports of proxies as well as of servers; and who hands out credentials sits where no ordinary rule leads: the Pod Identity
agent on a link-local address, the endpoint of STS among other pods, past whom the mesh lets registered hosts only.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from components.identity import POD_IDENTITY_AGENT
from components.labels import labels
from components.manifests import object_
from components.platform.namespaces import ARTIFACT_CACHE_PORT
from components.tenant.queues import BATCH
from components.tenant.surroundings import Surroundings
from headway.contract.runtime import Runtime
from headway.contract.served_paths import CLOSED, open_paths
from headway.wire import ARM, ARTIFACT_CACHE_NAMESPACE, ENDPOINT_PICKER_NAMESPACE, RELAY_PORT

DNS_PORT = 53
ISTIOD_PORT = 15012
OTLP_PORT = 4317
HTTPS_PORT = 443
PRIVATE_RANGES = ("10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16")
"""Where other tenants and the account's own machines are; the artifact store is not there (S3 is reached through a
gateway endpoint).
"""


def network_policies(
    tenant: str, surroundings: Surroundings, queues: bool = False, *, picked: bool = False
) -> list[tuple[str, dict[str, Any]]]:
    """(role, NetworkPolicy); one more where batch workers reach for `queues` inside the VPC. `picked`: the platform's picker reads engines'
    pages."""
    everyone: dict[str, Any] = {}
    gateway = _namespace(surroundings.gateway_namespace)
    monitoring = _namespace(surroundings.monitoring_namespace)
    dns = {**_namespace("kube-system"), "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    outward = [
        {"to": [dns], "ports": [_port(DNS_PORT, "TCP"), _port(DNS_PORT, "UDP")]},
        {"to": [_namespace(surroundings.mesh_namespace)], "ports": [_port(ISTIOD_PORT)]},
        {"to": [monitoring], "ports": [_port(OTLP_PORT)]},
        {"to": [{"podSelector": everyone}]},
        *_credentials(surroundings.sts),
        {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": list(PRIVATE_RANGES)}}], "ports": [_port(HTTPS_PORT)]},
    ]
    if surroundings.artifact_cache:
        outward.append({"to": [_namespace(ARTIFACT_CACHE_NAMESPACE)], "ports": [_port(ARTIFACT_CACHE_PORT)]})
    inward: list[dict[str, Any]] = [
        {"from": [gateway]},
        # Metrics ports are the containers' own affair; the scraper is trusted with all of them.
        {"from": [monitoring]},
        {"from": [{"podSelector": everyone}]},
    ]
    if picked:
        inward.append({"from": [_namespace(ENDPOINT_PICKER_NAMESPACE)], "ports": [_port(RELAY_PORT)]})
    policies = [
        ("deny", _policy(tenant, "default-deny", {"policyTypes": ["Egress", "Ingress"]})),
        ("ingress", _policy(tenant, "allow-ingress", {"policyTypes": ["Ingress"], "ingress": inward})),
        ("egress", _policy(tenant, "allow-egress", {"policyTypes": ["Egress"], "egress": outward})),
    ]
    # Any pod of the tenant may call itself a worker, and the mesh judges a host's name and no address.
    if queues and (endpoint := _endpoint(surroundings.sqs)):
        workers = {"podSelector": {"matchLabels": {ARM: BATCH}}, "policyTypes": ["Egress"], "egress": endpoint}
        policies.append(("queue-egress", _policy(tenant, "allow-queues", workers)))
    return policies


def _credentials(sts: tuple[str, ...] | None) -> list[dict[str, Any]]:
    if sts is None:
        return [{"to": [{"ipBlock": {"cidr": POD_IDENTITY_AGENT}}], "ports": [_port(80)]}]
    return _endpoint(sts)


def _endpoint(ranges: Sequence[str]) -> list[dict[str, Any]]:
    return [{"to": [{"ipBlock": {"cidr": cidr}} for cidr in ranges], "ports": [_port(HTTPS_PORT)]}] if ranges else []


def _policy(tenant: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    spec = {"podSelector": {}, **spec}
    return object_("networking.k8s.io/v1", "NetworkPolicy", name, namespace=tenant, labels=labels("isolation", tenant=tenant), spec=spec)


def _namespace(name: str) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


def _port(number: int, protocol: str = "TCP") -> dict[str, Any]:
    return {"port": number, "protocol": protocol}


def mesh_rules(tenant: str, surroundings: Surroundings, runtimes: Iterable[Runtime]) -> list[tuple[str, dict[str, Any]]]:
    """Who may call the tenant's servers once a packet has arrived, and what: strict mutual TLS, the gateway and the
    tenant itself, and paths that ask a model. Whoever forgot a path of a server has left it closed.
    """
    own_labels = labels("isolation", tenant=tenant)
    asked = open_paths(runtimes)
    refused = {"paths": list(CLOSED)} if asked is None else {"notPaths": list(asked)}
    callers = [{"source": {"namespaces": sorted({surroundings.gateway_namespace, tenant})}}]
    return [
        (
            "mtls",
            object_(
                "security.istio.io/v1",
                "PeerAuthentication",
                "default",
                namespace=tenant,
                labels=own_labels,
                spec={"mtls": {"mode": "STRICT"}},
            ),
        ),
        (
            "callers",
            object_(
                "security.istio.io/v1",
                "AuthorizationPolicy",
                "callers",
                namespace=tenant,
                labels=own_labels,
                # An ALLOW policy refuses whatever none of its rules names.
                spec={"action": "ALLOW", "rules": [{"from": callers}]},
            ),
        ),
        (
            "no-administration",
            object_(
                "security.istio.io/v1",
                "AuthorizationPolicy",
                "no-administration",
                namespace=tenant,
                labels=own_labels,
                spec={"action": "DENY", "rules": [{"to": [{"operation": refused}]}]},
            ),
        ),
    ]
