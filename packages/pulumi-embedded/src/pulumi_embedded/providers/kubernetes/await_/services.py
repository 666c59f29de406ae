"""Readiness of what leads to pods: Service and Ingress.

A Service without pods is ready: unlike the real provider, which waits for the first endpoint, this one takes pods that do not exist for
not wanted yet.
"""

from pulumi_embedded.engine.provider import Properties
from pulumi_embedded.providers.kubernetes.await_ import pods
from pulumi_embedded.providers.kubernetes.await_.verdict import READY, Lookup, ReadinessVerdict, at, waiting
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind

_SLICE = ObjectKind("discovery.k8s.io", "v1", "EndpointSlice")


def service(live: Properties, look: Lookup) -> ReadinessVerdict:
    """A load balancer has its address, and where pods exist at least one takes requests."""
    if at(live, "spec", "type") == "ExternalName":
        return READY
    if at(live, "spec", "type") == "LoadBalancer" and not at(live, "status", "loadBalancer", "ingress"):
        return waiting("no load balancer has given it an address")
    namespace, name = at(live, "metadata", "namespace") or "default", at(live, "metadata", "name")
    labels = ",".join(f"{key}={value}" for key, value in sorted((at(live, "spec", "selector") or {}).items()))
    behind = pods.of(namespace, labels, look)
    if not behind or _has_endpoint(namespace, name, look):
        return READY
    return waiting(f"none of its {len(behind)} pods takes requests; {pods.troubles(behind) or 'they are starting'}")


def ingress(live: Properties, _look: Lookup) -> ReadinessVerdict:
    """An address has been given."""
    return READY if at(live, "status", "loadBalancer", "ingress") else waiting("no controller has given it an address")


def _has_endpoint(namespace: str, name: str, look: Lookup) -> bool:
    slices = look.find(_SLICE, namespace, labels=f"kubernetes.io/service-name={name}")
    return any(at(endpoint, "conditions", "ready") for each in slices for endpoint in each.get("endpoints") or ())
