"""What a tenant must know of the environment around it: names and addresses, nothing that a tenant may choose.

Plain values throughout, so that every object of a tenant can be read and judged before anything is deployed.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """One environment as its tenants see it. Namespaces are those of the platform layer."""

    environment: str
    region: str
    host: str
    """The gateway's host name; a model answers at `<model>.<tenant>.<host>`."""
    gateway_replicas: int
    """Proxies of the gateway at their minimum: each enforces its part of a tenant's rate."""
    runbooks: str = "https://github.com/headway/headway/blob/main/docs/runbooks"
    gateway_namespace: str = "istio-ingress"
    gateway: str = "istio-ingress/headway"
    """The mesh's Gateway object, as `<namespace>/<name>`."""
    gateway_labels: tuple[tuple[str, str], ...] = (("istio", "ingressgateway"),)
    """What picks the gateway's own pods."""
    mesh_namespace: str = "istio-system"
    monitoring_namespace: str = "monitoring"
    prometheus: str = "http://prometheus-operated.monitoring.svc.cluster.local:9090"

    def gateway_principal(self) -> str:
        """The gateway's identity in the mesh."""
        return f"cluster.local/ns/{self.gateway_namespace}/sa/*"
